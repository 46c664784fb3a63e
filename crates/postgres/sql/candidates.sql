-- How many jobs of each queue workers run or are assigned.
-- $1 workers
-- Differs: all workers in one statement; what is held is found through their claims.
SELECT j.worker_id, j.queue, count(*) FROM (
  SELECT i.id, h.claim FROM unnest($1::text[]) w (id) JOIN windlass.holds h ON h.worker_id = w.id
  CROSS JOIN LATERAL unnest(h.ids || h.over) i (id)
  UNION ALL
  SELECT a.id, NULL FROM unnest($1) w (id) JOIN windlass.jobs a ON a.assigned_to = w.id AND a.assigned_to IS NOT NULL
) of JOIN windlass.jobs j ON j.id = of.id AND j.worker_id = ANY ($1)
  AND CASE WHEN of.claim IS NULL THEN j.status = 'assigned' ELSE j.status = 'running' AND j.claim = of.claim END
GROUP BY j.worker_id, j.queue
