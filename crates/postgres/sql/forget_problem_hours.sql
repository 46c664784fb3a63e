-- Forgets how often problems were seen, where the time for that is over, some at a time.
-- $1 before  $2 limit
DELETE FROM windlass.problem_hours WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM windlass.problem_hours WHERE at < $1 ORDER BY at LIMIT $2))
