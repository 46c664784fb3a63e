-- Rows of numbers between two moments, of a queue and a kind or of all.
-- $1 resolution  $2 from  $3 to  $4 queue  $5 kind  $6 limit
SELECT resolution, at, queue, kind, tally, n, times FROM windlass.rollups
WHERE resolution = $1 AND at >= $2 AND at < $3 AND ($4::text IS NULL OR queue = $4) AND ($5::text IS NULL OR kind = $5)
  AND n <> 0
ORDER BY resolution, at, queue, kind, tally LIMIT $6
