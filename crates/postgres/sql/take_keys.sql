-- Takes unique keys that are free or whose time is over; the others are left out. They come sorted.
-- $1 scopes  $2 keys  $3 jobs  $4 payload hashes  $5 expires_at  $6 now
INSERT INTO windlass.job_keys AS k (scope, key, job_id, payload_hash, expires_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[], $5::timestamptz[])
ON CONFLICT (scope, key) DO UPDATE SET job_id = excluded.job_id, payload_hash = excluded.payload_hash,
  expires_at = excluded.expires_at
WHERE k.expires_at <= $6
RETURNING k.job_id
