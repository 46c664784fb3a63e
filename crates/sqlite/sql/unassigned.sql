-- Due jobs of one queue at one priority, behind a place, with what never changes about them.
-- ?1 queue  ?2 priority  ?3 now  ?4 after due_at  ?5 after id  ?6 limit
SELECT j.due_at, j.id, j.kind, e.detail FROM jobs j LEFT JOIN job_events e ON e.job_id = j.id AND e.version = 1
WHERE j.queue = ?1 AND j.priority = ?2 AND j.due_at <= ?3 AND (j.due_at, j.id) > (?4, ?5)
ORDER BY j.due_at, j.id LIMIT ?6
