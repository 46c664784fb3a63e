-- What a worker was assigned and has not started.
-- ?1 worker
SELECT * FROM jobs WHERE worker_id = ?1 AND status = 'assigned' ORDER BY id
