-- How a queue stood. The larger of each number stays.
-- ?1 resolution  ?2 slot  ?3 queue  ?4 depth  ?5 oldest, in ms  ?6 busy  ?7 capacity
INSERT INTO gauges VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (resolution, at, queue) DO UPDATE SET depth = max(depth, ?4), oldest_ms = max(oldest_ms, ?5),
  busy = max(busy, ?6), capacity = max(capacity, ?7)
