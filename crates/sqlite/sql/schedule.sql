-- One schedule.
-- ?1 name
SELECT name, state FROM schedules WHERE name = ?1
