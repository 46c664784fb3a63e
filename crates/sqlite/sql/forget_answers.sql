-- Forgets answers whose time is over, some at a time.
-- ?1 now  ?2 limit
DELETE FROM answers WHERE key IN (SELECT key FROM answers WHERE expires_at <= ?1 LIMIT ?2)
