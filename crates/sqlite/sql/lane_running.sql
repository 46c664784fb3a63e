-- Jobs of a lane that run or are assigned.
-- ?1 queue  ?2 lane
SELECT id FROM jobs INDEXED BY jobs_worker
WHERE worker_id IS NOT NULL AND queue = ?1 AND lane = ?2 AND (status = 'running' OR status = 'assigned')
