-- Forgets unique keys whose time is over, some at a time.
-- ?1 now  ?2 limit
DELETE FROM job_keys WHERE (scope, key) IN (SELECT scope, key FROM job_keys WHERE expires_at <= ?1 LIMIT ?2)
