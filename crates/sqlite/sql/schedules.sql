-- Every schedule, by name.
SELECT name, state FROM schedules ORDER BY name
