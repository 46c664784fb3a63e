-- Which schedules have a slot whose time has come, oldest first.
-- ?1 now  ?2 limit
SELECT name FROM schedules WHERE next_at <= ?1 ORDER BY next_at, name LIMIT ?2
