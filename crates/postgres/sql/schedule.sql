-- One schedule.
-- $1 name
SELECT name, state FROM windlass.schedules WHERE name = $1
