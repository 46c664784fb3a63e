-- Due jobs of queues in mode push, with what never changes about them, each queue behind a place.
-- $1 queues that were looked at  $2 to which priority  $3 to which due_at  $4 to which id  $5 limit of a queue
-- $6 now or null
-- A queue without such a job is told by its name alone.
-- Differs: all queues and priorities in one statement; a round trip costs more than a probe.
WITH moment AS MATERIALIZED (
  SELECT coalesce($6::timestamptz, clock_timestamp()) AS now
), push AS MATERIALIZED (
  SELECT q.name, coalesce(f.priority, 5) AS priority, f.due_at, f.id FROM windlass.queues q
  LEFT JOIN unnest($1::text[], $2::int[], $3::timestamptz[], $4::uuid[]) f (queue, priority, due_at, id) ON f.queue = q.name
  WHERE q.mode = 'push' AND q.paused_at IS NULL
)
SELECT push.name, d.priority, d.due_at, d.id, d.kind, d.detail FROM push LEFT JOIN LATERAL (
  SELECT l.priority, l.due_at, l.id, j.kind, e.detail
  FROM generate_series(push.priority, -5, -1) p (priority) CROSS JOIN LATERAL (
    SELECT line.priority, line.due_at, line.id FROM windlass.line
    WHERE queue = push.name AND line.priority = p.priority AND line.due_at <= (SELECT now FROM moment)
      AND (line.due_at, line.id) > (
        CASE WHEN p.priority = push.priority THEN coalesce(push.due_at, '-infinity') ELSE '-infinity' END,
        CASE WHEN p.priority = push.priority THEN coalesce(push.id, '00000000-0000-0000-0000-000000000000')
          ELSE '00000000-0000-0000-0000-000000000000' END)
    ORDER BY line.due_at, line.id LIMIT (SELECT $5::bigint)
  ) l JOIN windlass.jobs j ON j.id = l.id AND j.due_at = l.due_at
  LEFT JOIN windlass.job_events e ON e.job_id = l.id AND e.version = 1
  ORDER BY l.priority DESC, l.due_at, l.id LIMIT (SELECT $5)
) d ON true
ORDER BY push.name, d.priority DESC, d.due_at, d.id
