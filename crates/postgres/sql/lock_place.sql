-- Locks a reader's place and reads it.
-- $1 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, cursor, epoch, moved_at, since FROM windlass.readers WHERE name = $1 FOR UPDATE
