-- Every schedule, by name.
SELECT state FROM schedules ORDER BY name
