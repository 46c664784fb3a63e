-- Lanes of a queue with a job in line, a slot that is taken or a bucket that counts: key, and how many jobs are due.
-- $1 queue  $2 after this lane  $3 limit  $4 now  $5 up to where jobs are counted
WITH RECURSIVE level AS (SELECT generate_series(-5, 5) AS priority), walk AS (
  (SELECT level.priority, next.lane, 1 AS n FROM level CROSS JOIN LATERAL (
    SELECT lane FROM windlass.line
    WHERE queue = $1 AND line.priority = level.priority AND lane IS NOT NULL AND lane > $2 ORDER BY lane LIMIT 1) next)
  UNION ALL
  SELECT walk.priority, next.lane, walk.n + 1 FROM walk CROSS JOIN LATERAL (
    SELECT lane FROM windlass.line
    WHERE queue = $1 AND line.priority = walk.priority AND lane IS NOT NULL AND lane > walk.lane ORDER BY lane LIMIT 1
  ) next WHERE walk.n < $3::bigint
), taken AS MATERIALIZED (
  SELECT s.lane, s.id FROM windlass.slots s CROSS JOIN LATERAL (
    SELECT 1 FROM windlass.jobs WHERE jobs.id = s.id AND status IN ('running', 'assigned') OFFSET 0) j
  WHERE s.queue = $1
), page AS (
  SELECT lane FROM walk
  UNION SELECT lane FROM taken WHERE lane > $2
  UNION SELECT lane FROM windlass.buckets
    WHERE queue = $1 AND lane > $2 AND (paid_until > $4 OR coalesce(held_until > $4, false))
  ORDER BY 1 LIMIT $3
)
SELECT p.lane, (
    SELECT e.detail::json ->> 'key' FROM windlass.job_events e WHERE e.version = 1 AND e.job_id = coalesce((
      SELECT l.id FROM level CROSS JOIN LATERAL (
        SELECT id FROM windlass.line
        WHERE queue = $1 AND line.priority = level.priority AND lane IS NOT NULL AND lane = p.lane LIMIT 1) l LIMIT 1
    ), (SELECT id FROM taken WHERE lane = p.lane LIMIT 1))
  ), (
    SELECT count(*) FROM (
      SELECT 1 FROM level CROSS JOIN LATERAL (
        SELECT id, due_at FROM windlass.line
        WHERE queue = $1 AND line.priority = level.priority AND lane IS NOT NULL AND lane = p.lane AND due_at <= $4
        LIMIT $5) l
      CROSS JOIN LATERAL (
        SELECT 1 FROM windlass.jobs WHERE jobs.id = l.id AND status <> 'running' AND jobs.due_at = l.due_at OFFSET 0) j
      LIMIT $5::bigint) counted
  )
FROM page p ORDER BY p.lane
