-- Forgets rows of numbers whose time is over, some at a time.
-- ?1 resolution  ?2 before  ?3 limit
DELETE FROM rollups WHERE (resolution, at, queue, kind, tally) IN (
  SELECT resolution, at, queue, kind, tally FROM rollups WHERE resolution = ?1 AND at < ?2 ORDER BY resolution, at LIMIT ?3)
