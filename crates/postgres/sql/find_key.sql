-- Who holds a unique key.
-- $1 scope  $2 key
SELECT job_id, payload_hash, expires_at FROM windlass.job_keys WHERE scope = $1 AND key = $2
