-- Runs of a queue whose lease is over, as they stood in line.
-- $1 queue  $2 now  $3 kinds, empty for all  $4 limit
-- Differs: only ids, as many as are wanted; the rows are locked before they are read.
SELECT j.id FROM windlass.slots s
CROSS JOIN LATERAL (
  SELECT id, priority, due_at FROM windlass.jobs
  WHERE jobs.id = s.id AND status = 'running' AND due_at <= $2 AND (cardinality($3::text[]) = 0 OR kind = ANY ($3))
  OFFSET 0
) j
WHERE s.queue = $1 ORDER BY j.priority DESC, j.due_at, j.id LIMIT (SELECT $4::bigint)
