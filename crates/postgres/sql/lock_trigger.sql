-- Locks a trigger and reads it with its secrets.
-- $1 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, state, secrets FROM windlass.triggers WHERE name = $1 FOR UPDATE
