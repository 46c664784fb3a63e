-- Waiting or assigned jobs.
-- $1 status  $2 after id  $3 limit
-- Differs: the order names the index to read them through; no other has it.
SELECT * FROM windlass.jobs
WHERE (parked, id) > ($1, $2) AND parked <= $1 AND parked IS NOT NULL
ORDER BY parked, id LIMIT (SELECT $3::bigint)
