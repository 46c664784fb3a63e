-- What a worker holds, with what tells under which claim.
-- ?1 worker
SELECT id, attempt, lease_hash FROM jobs WHERE worker_id = ?1 AND status = 'running' ORDER BY id
