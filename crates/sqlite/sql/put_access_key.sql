-- A new access key.
-- ?1 name  ?2 hash  ?3 roles  ?4 queues  ?5 expires_at  ?6 created_at
INSERT INTO access_keys (name, hash, roles, queues, expires_at, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
