-- How many slots of a queue are taken, per lane.
-- ?1 queue
SELECT coalesce(lane, 0), count(*) FROM jobs INDEXED BY jobs_worker
WHERE worker_id IS NOT NULL AND queue = ?1 AND (status = 'running' OR status = 'assigned') GROUP BY 1
