-- Keeps a term from changing and reads whose it is: who leads may act, who wants to lead waits.
-- $1 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, holder, epoch, expires_at FROM windlass.terms WHERE name = $1 FOR SHARE
