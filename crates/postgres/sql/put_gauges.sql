-- How queues stood. The larger of each number stays.
-- $1 resolutions  $2 slots  $3 queues  $4 depths  $5 oldest, in ms  $6 busy  $7 capacities
INSERT INTO windlass.gauges AS g
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
ON CONFLICT (resolution, at, queue) DO UPDATE SET depth = greatest(g.depth, excluded.depth),
  oldest_ms = greatest(g.oldest_ms, excluded.oldest_ms), busy = greatest(g.busy, excluded.busy),
  capacity = greatest(g.capacity, excluded.capacity)
