-- How much of one queue at one priority is due, counted up to a cap, and since when.
-- ?1 queue  ?2 priority  ?3 now  ?4 cap
SELECT count(*), min(due_at) FROM (
  SELECT due_at FROM jobs WHERE queue = ?1 AND priority = ?2 AND due_at <= ?3 ORDER BY due_at LIMIT ?4)
