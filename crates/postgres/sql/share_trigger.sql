-- A trigger that cannot change before this transaction ends. Events that come at once do not wait for each other.
-- $1 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, state, secrets FROM windlass.triggers WHERE name = $1 FOR SHARE
