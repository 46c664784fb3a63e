-- Queues with a setting.
SELECT name, paused_at, paused_by, defaults, mode, flow FROM queues ORDER BY name
