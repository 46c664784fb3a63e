-- The row of numbers with this key.
-- ?1 resolution  ?2 slot  ?3 queue  ?4 kind  ?5 tally
SELECT resolution, at, queue, kind, tally, n, times
FROM rollups WHERE resolution = ?1 AND at = ?2 AND queue = ?3 AND kind = ?4 AND tally = ?5
