-- Jobs that failed, timed out or were cancelled, reading at most $1 of them.
-- $1 cap  $2 status
-- Differs: the order names the index to read them through; completed ones are found by their event (count_completed).
SELECT count(*) FROM (
  SELECT 1 FROM windlass.jobs WHERE dead = $2 AND dead IS NOT NULL
  ORDER BY dead_at, id LIMIT (SELECT $1::bigint)) finished
