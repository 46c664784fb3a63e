-- How much of queues is due, and since when, reading at most $3 of each priority.
-- $1 queues  $2 now  $3 cap
-- Differs: all queues and priorities in one statement; a round trip costs more than a probe.
SELECT q.queue, sum(d.n)::bigint, min(d.since)
FROM unnest($1::text[]) q (queue) CROSS JOIN generate_series(-5, 5) p (priority) CROSS JOIN LATERAL (
  SELECT count(*) AS n, min(due_at) AS since FROM (
    SELECT due_at FROM windlass.jobs WHERE queue = q.queue AND priority = p.priority AND due_at <= $2
    ORDER BY due_at LIMIT (SELECT $3::bigint)) due
) d GROUP BY q.queue
