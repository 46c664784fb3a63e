-- Forgets answers whose time is over, some at a time.
-- $1 now  $2 limit
-- Differs: an answer that is being renewed is passed over.
DELETE FROM windlass.answers WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM windlass.answers WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))
