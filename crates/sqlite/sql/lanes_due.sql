-- The next lane of a queue and priority that has a job with a due time.
-- ?1 queue  ?2 priority  ?3 after this lane  ?4 up to this lane
SELECT lane FROM jobs INDEXED BY jobs_lane
WHERE queue = ?1 AND priority = ?2 AND lane IS NOT NULL AND due_at IS NOT NULL AND lane > ?3 AND lane <= ?4
ORDER BY lane LIMIT 1
