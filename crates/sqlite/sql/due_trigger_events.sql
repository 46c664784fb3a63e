-- Which kept events are to be tried again, oldest first.
-- ?1 now  ?2 limit
SELECT id FROM trigger_events WHERE due_at <= ?1 ORDER BY due_at, id LIMIT ?2
