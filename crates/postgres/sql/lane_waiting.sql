-- Jobs of a lane that stand in line, due or not, at most so many.
-- $1 queue  $2 lane  $3 limit
SELECT l.id FROM generate_series(-5, 5) AS level (priority) CROSS JOIN LATERAL (
  SELECT id, due_at FROM windlass.line
  WHERE queue = $1 AND line.priority = level.priority AND lane IS NOT NULL AND lane = $2::bigint
  ORDER BY due_at, id OFFSET 0
) l CROSS JOIN LATERAL (
  SELECT 1 FROM windlass.jobs
  WHERE jobs.id = l.id AND jobs.due_at = l.due_at AND status NOT IN ('running', 'assigned') OFFSET 0
) j LIMIT $3::bigint
