-- Forgets how queues stood, where the time for that is over, some at a time.
-- $1 resolution  $2 before  $3 limit
DELETE FROM windlass.gauges WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM windlass.gauges WHERE resolution = $1 AND at < $2 ORDER BY resolution, at LIMIT $3))
