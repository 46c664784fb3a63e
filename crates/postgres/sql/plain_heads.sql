-- Who is next among the jobs without a key, or among all. A run whose lease is over is named as such.
-- $1 queue  $2 priority  $3 now  $4 whether keys do not matter  $5 look  $6 kinds, empty for all  $7 limit
-- Differs: the kinds are looked at here; a round trip costs more.
SELECT 0::bigint, l.id, j.status = 'running', l.due_at FROM (
  SELECT due_at, id, lane FROM windlass.line WHERE queue = $1 AND priority = $2::int AND due_at <= $3
  ORDER BY due_at, id LIMIT (SELECT $5::bigint)
) l CROSS JOIN LATERAL (
  SELECT status FROM windlass.jobs
  WHERE jobs.id = l.id AND jobs.due_at = l.due_at AND (cardinality($6::text[]) = 0 OR kind = ANY ($6)) OFFSET 0
) j
WHERE $4::boolean OR l.lane IS NULL ORDER BY l.due_at, l.id LIMIT (SELECT $7::bigint)
