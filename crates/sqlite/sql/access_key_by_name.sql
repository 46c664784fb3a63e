-- The access key with a name.
-- ?1 name
SELECT name, hash, roles, queues, expires_at, created_at, revoked_at FROM access_keys WHERE name = ?1
