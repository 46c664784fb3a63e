-- Takes a unique key that is free or whose time is over; the caller has looked under the same lock.
-- ?1 scope  ?2 key  ?3 job  ?4 payload_hash  ?5 expires_at
INSERT INTO job_keys (scope, key, job_id, payload_hash, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (scope, key) DO UPDATE SET job_id = ?3, payload_hash = ?4, expires_at = ?5
