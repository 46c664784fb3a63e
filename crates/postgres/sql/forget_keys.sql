-- Forgets unique keys whose time is over, some at a time.
-- $1 now  $2 limit
-- Differs: a key that is being taken anew is passed over.
DELETE FROM windlass.job_keys WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM windlass.job_keys WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))
