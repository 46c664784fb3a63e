-- Which schedules have a slot whose time has come, oldest first.
-- $1 now or null  $2 limit
SELECT name FROM windlass.schedules WHERE next_at <= coalesce($1::timestamptz, (SELECT clock_timestamp()))
ORDER BY next_at, name LIMIT $2
