-- Which schedules have a slot whose time has come, oldest first.
-- $1 now or null  $2 limit
-- Differs: SQLite is always given the time.
SELECT name FROM windlass.schedules WHERE next_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
ORDER BY next_at, name LIMIT $2
