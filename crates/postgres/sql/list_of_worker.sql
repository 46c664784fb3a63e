-- Held and assigned jobs of one worker.
-- $1 worker  $2 after id  $3 limit
SELECT * FROM windlass.jobs WHERE worker_id = $1 AND id > $2 ORDER BY id LIMIT $3
