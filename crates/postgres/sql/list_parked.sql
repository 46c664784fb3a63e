-- Waiting or assigned jobs.
-- $1 status  $2 after id  $3 limit
SELECT * FROM windlass.jobs WHERE status = $1 AND status IN ('waiting', 'assigned') AND id > $2 ORDER BY id LIMIT $3
