-- Every access key.
SELECT name, hash, roles, queues, expires_at, created_at, revoked_at FROM access_keys ORDER BY name
