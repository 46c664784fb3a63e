-- Forgets rows of numbers whose time is over, some at a time.
-- $1 resolution  $2 before  $3 limit
DELETE FROM windlass.rollups WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM windlass.rollups WHERE resolution = $1 AND at < $2 ORDER BY resolution, at LIMIT $3))
