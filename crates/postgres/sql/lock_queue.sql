-- Locks a queue's settings and reads them.
-- $1 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, paused_at, paused_by, defaults, mode, flow, endpoint FROM windlass.queues WHERE name = $1 FOR UPDATE
