-- Forgets problems that were not seen for long, some at a time.
-- ?1 before  ?2 limit
DELETE FROM problems WHERE fingerprint IN (
  SELECT fingerprint FROM problems WHERE last_seen_at < ?1 ORDER BY last_seen_at LIMIT ?2)
