-- Queues with a setting.
SELECT name, paused_at, paused_by, defaults, mode, flow, endpoint FROM queues ORDER BY name
