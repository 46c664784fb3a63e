-- Takes a unique key that is free or whose time is over. Nothing when it is held; its row is locked then.
-- $1 scope  $2 key  $3 job  $4 payload_hash  $5 expires_at  $6 now
-- Differs: the statement that locks the key decides.
INSERT INTO windlass.job_keys AS k (scope, key, job_id, payload_hash, expires_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (scope, key) DO UPDATE SET job_id = $3, payload_hash = $4, expires_at = $5
WHERE k.expires_at <= $6 RETURNING job_id
