-- Waiting or assigned jobs.
-- $1 status  $2 after id  $3 limit
-- Differs: the order names the index to read them through; no other has it.
SELECT * FROM windlass.jobs
WHERE (status, id) > ($1, $2) AND status <= $1 AND status IN ('waiting', 'assigned')
ORDER BY status, id LIMIT (SELECT $3::bigint)
