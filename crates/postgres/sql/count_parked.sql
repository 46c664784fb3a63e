-- Jobs that wait for something without a due time, by status, reading at most $1 of each.
-- $1 cap  $2 status
-- Differs: the order names the index to read them through; no other has it.
SELECT count(*) FROM (
  SELECT 1 FROM windlass.jobs
  WHERE status >= $2 AND status <= $2 AND status IN ('waiting', 'assigned') AND due_at IS NULL
  ORDER BY status, id LIMIT (SELECT $1::bigint)) parked
