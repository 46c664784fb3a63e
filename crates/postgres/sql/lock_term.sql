-- Locks a term and reads whose it is.
-- $1 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, holder, epoch, expires_at FROM windlass.terms WHERE name = $1 FOR UPDATE
