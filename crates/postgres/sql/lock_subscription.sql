-- Locks a subscription and reads it with what it signs in with.
-- $1 name
-- Differs: SQLite has one writer at a time, so nothing to lock.
SELECT name, state, credential FROM windlass.subscriptions WHERE name = $1 FOR UPDATE
