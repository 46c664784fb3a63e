-- Jobs that the line, the holds or the slots lost or have twice, and entries of the line that point at nothing.
-- $1 limit
-- Differs: SQLite has one index of what is due, which cannot differ from its rows.
SELECT j.id, format('%s, in line %s times, held %s times', j.status, l.n, h.n) FROM windlass.jobs j CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM windlass.line l
  WHERE l.queue = j.queue AND l.priority = j.priority AND l.due_at = j.due_at AND l.id = j.id
) l CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids) i (id)
  WHERE h.claim = j.claim AND j.status = 'running' AND i.id = j.id
) h WHERE j.due_at IS NOT NULL AND l.n + h.n <> 1
UNION ALL
SELECT l.id, 'in line for ' || l.due_at FROM windlass.line l
WHERE NOT EXISTS (SELECT 1 FROM windlass.jobs j WHERE j.id = l.id AND j.due_at = l.due_at)
UNION ALL
SELECT j.id, format('%s, without an entry in slots', j.status) FROM windlass.queues q
JOIN windlass.jobs j ON j.queue = q.name AND j.status IN ('running', 'assigned')
WHERE q.flow IS NOT NULL AND NOT EXISTS (SELECT 1 FROM windlass.slots s WHERE s.queue = j.queue AND s.id = j.id)
LIMIT $1
