-- Removes a schedule.
-- $1 name
DELETE FROM windlass.schedules WHERE name = $1
