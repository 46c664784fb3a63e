-- The rows of numbers with these keys.
-- $1 resolutions  $2 slots  $3 queues  $4 kinds  $5 tallies
SELECT r.resolution, r.at, r.queue, r.kind, r.tally, r.n, r.times
FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[]) AS k (resolution, at, queue, kind, tally)
JOIN windlass.rollups r ON r.resolution = k.resolution AND r.at = k.at AND r.queue = k.queue AND r.kind = k.kind
  AND r.tally = k.tally
