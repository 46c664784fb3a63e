-- Forgets how queues stood, where the time for that is over, some at a time.
-- ?1 resolution  ?2 before  ?3 limit
DELETE FROM gauges WHERE (resolution, at, queue) IN (
  SELECT resolution, at, queue FROM gauges WHERE resolution = ?1 AND at < ?2 ORDER BY resolution, at LIMIT ?3)
