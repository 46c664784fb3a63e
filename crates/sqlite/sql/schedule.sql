-- One schedule.
-- ?1 name
SELECT state FROM schedules WHERE name = ?1
