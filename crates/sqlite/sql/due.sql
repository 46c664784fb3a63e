-- Who is next in one queue at one priority.
-- ?1 queue  ?2 priority  ?3 now  ?4 limit
SELECT *, rowid FROM jobs WHERE queue = ?1 AND priority = ?2 AND due_at <= ?3 ORDER BY due_at, id LIMIT ?4
