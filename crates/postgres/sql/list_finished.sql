-- Jobs that failed, timed out or were cancelled, last finished first.
-- $1 status  $2 before finished_at  $3 before id  $4 limit
-- Differs: completed ones are found by their event (list_completed).
SELECT * FROM windlass.jobs WHERE dead = $1 AND dead IS NOT NULL AND (dead_at, id) < ($2, $3)
ORDER BY dead_at DESC, id DESC LIMIT (SELECT $4::bigint)
