-- Forgets how often problems were seen, where the time for that is over, some at a time.
-- ?1 before  ?2 limit
DELETE FROM problem_hours WHERE (fingerprint, at) IN (
  SELECT fingerprint, at FROM problem_hours WHERE at < ?1 ORDER BY at LIMIT ?2)
