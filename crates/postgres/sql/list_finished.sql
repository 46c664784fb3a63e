-- Finished jobs of a status, last finished first.
-- $1 status  $2 before finished_at  $3 before id  $4 limit
SELECT * FROM windlass.jobs WHERE status = $1 AND finished_at IS NOT NULL AND (finished_at, id) < ($2, $3)
ORDER BY finished_at DESC, id DESC LIMIT (SELECT $4::bigint)
