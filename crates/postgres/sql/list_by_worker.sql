-- Held and assigned jobs by worker.
-- $1 after worker  $2 after id  $3 limit
-- Differs: the order is by bytes, whatever the database's language; the index has a worker's by claim, so they are sorted.
SELECT * FROM windlass.jobs WHERE worker_id IS NOT NULL AND (worker_id COLLATE "C", id) > ($1, $2)
ORDER BY worker_id COLLATE "C", id LIMIT (SELECT $3::bigint)
