-- How queues stood between two moments.
-- ?1 resolution  ?2 from  ?3 to  ?4 limit
SELECT resolution, at, queue, depth, oldest_ms, busy, capacity FROM gauges
WHERE resolution = ?1 AND at >= ?2 AND at < ?3 ORDER BY resolution, at, queue LIMIT ?4
