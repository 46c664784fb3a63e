-- Locks a schedule and reads it.
-- $1 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, state FROM windlass.schedules WHERE name = $1 FOR UPDATE
