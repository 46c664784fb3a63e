-- Finished jobs of a status, reading at most $1 of them.
-- $1 cap  $2 status
-- Differs: the order names the index to read them through.
SELECT count(*) FROM (
  SELECT 1 FROM windlass.jobs WHERE status = $2 AND finished_at IS NOT NULL
  ORDER BY finished_at, id LIMIT (SELECT $1::bigint)) finished
