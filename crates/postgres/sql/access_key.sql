-- The access key with a hash.
-- $1 hash
SELECT name, hash, roles, queues, expires_at, created_at, revoked_at FROM windlass.access_keys WHERE hash = $1
