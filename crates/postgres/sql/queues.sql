-- Queues with a setting.
SELECT name, paused_at, paused_by, defaults, mode, flow, endpoint FROM windlass.queues ORDER BY name
