-- Held and assigned jobs by worker.
-- $1 after worker  $2 after id  $3 limit
-- Differs: what is held is found through the claims; the order is by bytes, whatever the database's language.
SELECT j.* FROM (
  SELECT i.id, h.worker_id, h.claim FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids || h.over) i (id)
  WHERE h.worker_id >= $1
  UNION ALL
  SELECT id, assigned_to, NULL FROM windlass.jobs WHERE assigned_to IS NOT NULL AND assigned_to >= $1
) of JOIN windlass.jobs j ON j.id = of.id AND j.worker_id = of.worker_id
  AND CASE WHEN of.claim IS NULL THEN j.status = 'assigned' ELSE j.status = 'running' AND j.claim = of.claim END
WHERE (of.worker_id, of.id) > ($1 COLLATE "C", $2)
ORDER BY of.worker_id, of.id LIMIT (SELECT $3::bigint)
