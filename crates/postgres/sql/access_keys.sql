-- Every access key.
-- Differs: the order is by bytes, whatever the database's language.
SELECT name, hash, roles, queues, expires_at, created_at, revoked_at FROM windlass.access_keys ORDER BY name COLLATE "C"
