-- Locks a queue's settings and reads them, unless somebody else holds them.
-- $1 name
SELECT name, paused_at, paused_by, defaults, mode, flow, endpoint FROM windlass.queues WHERE name = $1 FOR UPDATE SKIP LOCKED
