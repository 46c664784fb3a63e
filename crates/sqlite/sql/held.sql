-- What a worker holds.
-- ?1 worker
SELECT * FROM jobs WHERE worker_id = ?1 AND status = 'running' ORDER BY id
