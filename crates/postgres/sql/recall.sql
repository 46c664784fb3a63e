-- The remembered answer of an idempotency key.
-- $1 key  $2 now
SELECT request_hash, body FROM windlass.answers WHERE key = $1 AND expires_at > $2
