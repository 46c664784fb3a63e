-- How many jobs of each queue a worker runs or is assigned.
-- ?1 worker
SELECT queue, count(*) FROM jobs WHERE worker_id = ?1 AND status IN ('running', 'assigned') GROUP BY queue ORDER BY queue
