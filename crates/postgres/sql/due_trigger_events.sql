-- Which kept events are to be tried again, oldest first.
-- $1 now or null  $2 limit
-- Differs: SQLite is always given the time.
SELECT id FROM windlass.trigger_events WHERE due_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
ORDER BY due_at, id LIMIT $2
