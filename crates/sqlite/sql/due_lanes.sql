-- The lanes of a queue's first due jobs at a priority, 0 for those without a key; one row per job.
-- ?1 queue  ?2 priority  ?3 now  ?4 limit
SELECT coalesce(lane, 0) FROM jobs INDEXED BY jobs_due WHERE queue = ?1 AND priority = ?2 AND due_at <= ?3
ORDER BY due_at, id LIMIT ?4
