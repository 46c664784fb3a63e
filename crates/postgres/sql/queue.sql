-- One queue's settings.
-- $1 name
SELECT name, paused_at, paused_by, defaults, mode, flow, endpoint FROM windlass.queues WHERE name = $1
