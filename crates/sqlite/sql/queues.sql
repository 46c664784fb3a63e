-- Queues with a setting.
SELECT name, paused_at, paused_by, defaults FROM queues ORDER BY name
