-- Queues with a job that has a due time, hopping from name to name through the index, and those of what is held.
WITH RECURSIVE hop (queue) AS (
  SELECT min(queue) FROM windlass.line
  UNION ALL
  SELECT (SELECT min(queue) FROM windlass.line WHERE queue > hop.queue) FROM hop WHERE queue IS NOT NULL
)
SELECT queue FROM hop WHERE queue IS NOT NULL
UNION
SELECT j.queue FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids) i (id)
JOIN windlass.jobs j ON j.id = i.id AND j.claim = h.claim AND j.status = 'running'
