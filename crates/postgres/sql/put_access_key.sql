-- A new access key. Nothing when its name or its hash is taken.
-- $1 name  $2 hash  $3 roles  $4 queues  $5 expires_at  $6 created_at
-- Differs: somebody else may have taken either since they were looked up.
INSERT INTO windlass.access_keys (name, hash, roles, queues, expires_at, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING name
