-- Jobs of a queue and priority in the order they will be claimed.
-- ?1 queue  ?2 priority  ?3 after due_at  ?4 after id  ?5 limit
SELECT * FROM jobs WHERE queue = ?1 AND priority = ?2 AND due_at IS NOT NULL AND (due_at, id) > (?3, ?4)
ORDER BY due_at, id LIMIT ?5
