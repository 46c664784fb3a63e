-- The priorities at which a queue has a due job, highest first.
-- $1 queue  $2 now
SELECT p.priority FROM generate_series(5, -5, -1) p (priority) WHERE EXISTS (
  SELECT 1 FROM windlass.line l WHERE l.queue = $1 AND l.priority = p.priority AND l.due_at <= $2)
