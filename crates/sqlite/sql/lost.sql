-- Runs of a queue whose lease is over.
-- ?1 queue  ?2 now
SELECT * FROM jobs INDEXED BY jobs_worker
WHERE worker_id IS NOT NULL AND queue = ?1 AND status = 'running' AND due_at <= ?2
