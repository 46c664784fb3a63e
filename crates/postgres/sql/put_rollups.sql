-- Rows of numbers, in the place of those that are there.
-- $1 resolutions  $2 slots  $3 queues  $4 kinds  $5 tallies  $6 counts  $7 times
INSERT INTO windlass.rollups AS r
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
ON CONFLICT (resolution, at, queue, kind, tally) DO UPDATE SET n = excluded.n, times = excluded.times
