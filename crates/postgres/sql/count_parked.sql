-- Jobs that wait for something without a due time, by status, reading at most $1 of each.
-- $1 cap  $2 status
-- Differs: the order names the index to read them through; no other has it.
SELECT count(*) FROM (
  SELECT 1 FROM windlass.jobs
  WHERE parked >= $2 AND parked <= $2 AND parked IS NOT NULL AND due_at IS NULL
  ORDER BY parked, id LIMIT (SELECT $1::bigint)) parked
