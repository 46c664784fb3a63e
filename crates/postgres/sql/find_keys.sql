-- Who holds some unique keys.
-- $1 scopes  $2 keys
SELECT k.scope, k.key, k.job_id, k.payload_hash, k.expires_at
FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) u (scope, key)) a
JOIN windlass.job_keys k ON k.scope = a.scope AND k.key = a.key
