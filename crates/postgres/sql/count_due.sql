-- Jobs with a due time by status, reading at most $1 that stand in line and $1 that are held.
-- $1 cap
-- Differs: the order names the index to read them through; what is held is found through the claims.
SELECT status, count(*) FROM (
  SELECT j.status FROM (
    SELECT due_at, id FROM windlass.line ORDER BY queue, priority DESC, due_at, id LIMIT (SELECT $1::bigint)
  ) l JOIN windlass.jobs j ON j.id = l.id AND j.due_at = l.due_at
  UNION ALL
  SELECT j.status FROM (
    SELECT i.id, h.claim FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids) i (id) LIMIT (SELECT $1::bigint)
  ) h JOIN windlass.jobs j ON j.id = h.id AND j.claim = h.claim AND j.status = 'running'
) due GROUP BY status
