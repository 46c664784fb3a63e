-- Every schedule, by name.
SELECT name, state FROM windlass.schedules ORDER BY name
