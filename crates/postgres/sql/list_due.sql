-- Jobs of a queue from a priority down, in the order they will be claimed.
-- $1 queue  $2 priority  $3 after due_at  $4 after id  $5 limit
-- Differs: all priorities in one statement; a round trip costs more than a probe. $3 and $4 count for the first only.
SELECT j.* FROM generate_series($2::int, -5, -1) p (priority) CROSS JOIN LATERAL (
  SELECT priority, due_at, id FROM windlass.line
  WHERE queue = $1 AND priority = p.priority AND (due_at, id)
    > (CASE WHEN p.priority = $2 THEN $3 ELSE '-infinity' END,
       CASE WHEN p.priority = $2 THEN $4 ELSE '00000000-0000-0000-0000-000000000000' END)
  ORDER BY due_at, id LIMIT (SELECT $5::bigint)
) l JOIN windlass.jobs j ON j.id = l.id AND j.due_at = l.due_at
ORDER BY l.priority DESC, l.due_at, l.id LIMIT $5
