-- Forgets problems that were not seen for long, some at a time.
-- $1 before  $2 limit
DELETE FROM windlass.problems WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM windlass.problems WHERE last_seen_at < $1 ORDER BY last_seen_at LIMIT $2))
