-- Jobs with a due time by status, reading at most $1 of them.
-- $1 cap
-- Differs: the order names the index to read them through.
SELECT status, count(*) FROM (
  SELECT status FROM windlass.jobs WHERE due_at IS NOT NULL
  ORDER BY queue, priority DESC, due_at, id LIMIT (SELECT $1::bigint)) due
GROUP BY status
