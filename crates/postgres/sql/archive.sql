-- Finished jobs of one status that ended before a moment, oldest first.
-- $1 before  $2 limit  $3 status
SELECT * FROM windlass.jobs WHERE status = $3 AND finished_at < $1 ORDER BY finished_at, id LIMIT (SELECT $2::bigint)
