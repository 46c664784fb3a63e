-- How much of queues is due, and since when, reading at most $3 of each priority: what stands in line, and what is held
-- under a lease that is over.
-- $1 queues  $2 now  $3 cap
-- Differs: all queues and priorities in one statement; a round trip costs more than a probe.
SELECT d.queue, sum(d.n)::bigint, min(d.since) FROM (
  SELECT q.queue, d.n, d.since
  FROM unnest($1::text[]) q (queue) CROSS JOIN generate_series(-5, 5) p (priority) CROSS JOIN LATERAL (
    SELECT count(*) AS n, min(due_at) AS since FROM (
      SELECT due_at FROM windlass.line WHERE queue = q.queue AND priority = p.priority AND due_at <= $2
      ORDER BY due_at LIMIT (SELECT $3::bigint)) due
  ) d
  UNION ALL
  SELECT j.queue, count(*), min(j.due_at)
  FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids) i (id)
  JOIN windlass.jobs j ON j.id = i.id AND j.claim = h.claim AND j.status = 'running' AND j.due_at <= $2
  WHERE h.check_at <= $2 AND j.queue = ANY ($1) GROUP BY j.queue
) d GROUP BY d.queue
