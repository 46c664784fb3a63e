-- Remembers an answer, unless one is remembered already.
-- $1 key  $2 request_hash  $3 body  $4 expires_at  $5 now
-- Differs: the first of two at the same time stays.
INSERT INTO windlass.answers AS a VALUES ($1, $2, $3, $4)
ON CONFLICT (key) DO UPDATE SET request_hash = $2, body = $3, expires_at = $4 WHERE a.expires_at <= $5 RETURNING key
