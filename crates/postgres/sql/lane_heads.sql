-- Who is next in lanes, so many of each. A run whose lease is over is named as such.
-- $1 queue  $2 priority  $3 lanes  $4 how many of each  $5 now  $6 kinds, empty for all  $7 look
-- Differs: all lanes in one statement; a round trip costs more than a probe.
SELECT a.lane, h.id, h.is_running, h.due_at FROM unnest($3::bigint[], $4::bigint[]) a (lane, depth) CROSS JOIN LATERAL (
  SELECT l.due_at, l.id, j.status = 'running' AS is_running FROM (
    SELECT due_at, id FROM windlass.line
    WHERE queue = $1 AND priority = $2::int AND lane IS NOT NULL AND lane = a.lane AND due_at <= $5
    ORDER BY due_at, id LIMIT (SELECT $7::bigint)
  ) l CROSS JOIN LATERAL (
    SELECT status FROM windlass.jobs
    WHERE jobs.id = l.id AND jobs.due_at = l.due_at AND (cardinality($6::text[]) = 0 OR kind = ANY ($6)) OFFSET 0
  ) j
  ORDER BY l.due_at, l.id LIMIT a.depth
) h ORDER BY a.lane, h.due_at, h.id
