-- Locks a worker and reads it.
-- $1 id
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT * FROM windlass.workers WHERE id = $1 FOR UPDATE
