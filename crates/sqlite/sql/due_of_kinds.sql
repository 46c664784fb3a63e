-- Who is next among some kinds: reads at most ?6 entries of the index, from a position on.
-- ?1 queue  ?2 priority  ?3 now  ?4 from due_at  ?5 from id  ?6 scan limit
SELECT due_at, id, kind FROM jobs
WHERE queue = ?1 AND priority = ?2 AND due_at <= ?3 AND (due_at, id) > (?4, ?5)
ORDER BY due_at, id LIMIT ?6
