-- Jobs that failed, timed out or were cancelled before a moment, oldest first.
-- $1 before  $2 limit  $3 status
-- Differs: completed ones are found by their event (archive_completed).
SELECT * FROM windlass.jobs WHERE dead = $3 AND dead IS NOT NULL AND dead_at < $1
ORDER BY dead_at, id LIMIT (SELECT $2::bigint)
