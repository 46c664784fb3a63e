-- What one snapshot sees and an older one did not, among so many numbers: as the feed does, for a reader that has
-- fallen behind by more than should be sorted.
-- $1 older snapshot  $2 newer snapshot  $3 after seq  $4 to seq  $5 limit
SELECT e.*, j.queue, j.kind
FROM windlass.job_events e CROSS JOIN LATERAL (SELECT queue, kind FROM windlass.jobs WHERE id = e.job_id OFFSET 0) j
WHERE e.seq > $3 AND e.seq <= $4
  AND (e.tx >= pg_snapshot_xmax($1::text::pg_snapshot) OR e.tx = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot))))
  AND pg_visible_in_snapshot(e.tx, $2::text::pg_snapshot)
ORDER BY e.seq LIMIT (SELECT $5::bigint)
