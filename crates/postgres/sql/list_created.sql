-- Jobs, newest first.
-- $1 before id  $2 limit
SELECT * FROM windlass.jobs WHERE id < $1 ORDER BY id DESC LIMIT (SELECT $2::bigint)
