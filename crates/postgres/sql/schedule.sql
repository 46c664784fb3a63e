-- One schedule.
-- $1 name
SELECT state FROM windlass.schedules WHERE name = $1
