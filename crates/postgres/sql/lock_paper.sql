-- Locks a paper and reads it.
-- $1 kind  $2 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, state FROM windlass.papers WHERE kind = $1 AND name = $2 FOR UPDATE
