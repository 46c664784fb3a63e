-- Who is next in a lane: reads at most ?5 entries of the index.
-- ?1 queue  ?2 priority  ?3 lane  ?4 now  ?5 look
SELECT id, kind, status, due_at FROM jobs INDEXED BY jobs_lane
WHERE queue = ?1 AND priority = ?2 AND lane = ?3 AND lane IS NOT NULL AND due_at <= ?4 ORDER BY due_at, id LIMIT ?5
