-- Lists what is held of a queue that gets its first rule.
-- $1 queue
INSERT INTO windlass.slots (queue, id, lane)
SELECT j.queue, j.id, j.lane FROM (
  SELECT i.id FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids || h.over) i (id)
  UNION
  SELECT id FROM windlass.jobs WHERE assigned_to IS NOT NULL AND assigned_to >= ''
) held CROSS JOIN LATERAL (
  SELECT queue, id, lane FROM windlass.jobs
  WHERE jobs.id = held.id AND queue = $1 AND status IN ('running', 'assigned') OFFSET 0
) j
ON CONFLICT DO NOTHING
