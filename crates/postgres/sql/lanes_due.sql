-- The next lanes of a queue and priority that have a job in line: one probe each.
-- $1 queue  $2 priority  $3 after this lane  $4 up to this lane  $5 limit
-- Differs: many at once; a round trip costs more than a probe.
WITH RECURSIVE walk AS (
  (SELECT lane, 1 AS n FROM windlass.line WHERE queue = $1 AND priority = $2::int AND lane IS NOT NULL AND lane > $3
   ORDER BY lane LIMIT 1)
  UNION ALL
  SELECT next.lane, walk.n + 1 FROM walk CROSS JOIN LATERAL (
    SELECT lane FROM windlass.line WHERE queue = $1 AND priority = $2 AND lane IS NOT NULL AND lane > walk.lane
    ORDER BY lane LIMIT 1
  ) next WHERE walk.n < $5::int AND walk.lane <= $4::bigint
)
SELECT lane FROM walk WHERE lane <= $4 ORDER BY lane
