-- Runs of a queue whose lease is over, as they stood in line.
-- $1 queue  $2 now  $3 kinds, empty for all  $4 limit
-- Differs: only ids, as many as are wanted; the rows are locked before they are read.
SELECT j.id FROM windlass.slots s
JOIN windlass.jobs j ON j.id = s.id AND j.status = 'running' AND j.due_at <= $2
  AND (cardinality($3::text[]) = 0 OR j.kind = ANY ($3))
WHERE s.queue = $1 ORDER BY j.priority DESC, j.due_at, j.id LIMIT (SELECT $4::bigint)
