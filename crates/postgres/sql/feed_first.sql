-- The first number of what is new since a snapshot.
-- $1 older snapshot
SELECT min(seq) FROM (
  SELECT seq FROM windlass.job_events WHERE tx >= pg_snapshot_xmax($1::text::pg_snapshot)
  UNION ALL
  SELECT seq FROM windlass.job_events WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))
  OFFSET 0
) new
