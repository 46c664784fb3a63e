-- Held and assigned jobs of one worker.
-- $1 worker  $2 after id  $3 limit
-- Differs: what is held is found through the worker's claims.
SELECT j.* FROM (
  SELECT i.id, h.claim FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids || h.over) i (id) WHERE h.worker_id = $1
  UNION ALL
  SELECT id, NULL FROM windlass.jobs WHERE assigned_to IS NOT NULL AND assigned_to = $1
) of JOIN windlass.jobs j ON j.id = of.id AND j.worker_id = $1
  AND CASE WHEN of.claim IS NULL THEN j.status = 'assigned' ELSE j.status = 'running' AND j.claim = of.claim END
WHERE of.id > $2 ORDER BY of.id LIMIT (SELECT $3::bigint)
