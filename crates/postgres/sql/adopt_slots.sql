-- Lists what is held of a queue that gets its first rule.
-- $1 queue
INSERT INTO windlass.slots (queue, id, lane)
SELECT j.queue, j.id, j.lane FROM (
  SELECT i.id FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids || h.over) i (id)
  UNION
  SELECT id FROM windlass.jobs WHERE assigned_to IS NOT NULL
) held JOIN windlass.jobs j ON j.id = held.id AND j.queue = $1 AND j.status IN ('running', 'assigned')
ON CONFLICT DO NOTHING
