-- The access key with a name, locked.
-- $1 name
-- Differs: whoever decides on a key holds it.
SELECT name, hash, roles, queues, expires_at, created_at, revoked_at FROM windlass.access_keys WHERE name = $1 FOR UPDATE
