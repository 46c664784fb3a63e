-- Every schedule, by name.
SELECT state FROM windlass.schedules ORDER BY name
