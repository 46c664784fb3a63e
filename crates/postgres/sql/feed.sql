-- What one snapshot sees and an older one did not, by number, with what filters ask about.
-- $1 older snapshot  $2 newer snapshot  $3 after seq  $4 limit
-- A transaction is new if it had not begun for the old snapshot, or was running then; and is seen by the new one.
-- Differs: one writer at a time numbers SQLite's feed, so a plain number is a cursor there.
SELECT e.*, j.queue, j.kind FROM (
  SELECT * FROM windlass.job_events
  WHERE tx >= pg_snapshot_xmax($1::text::pg_snapshot) AND tx < pg_snapshot_xmax($2::text::pg_snapshot)
  UNION ALL
  SELECT * FROM windlass.job_events WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))
) e CROSS JOIN LATERAL (SELECT queue, kind FROM windlass.jobs WHERE id = e.job_id OFFSET 0) j
WHERE e.seq > $3 AND pg_visible_in_snapshot(e.tx, $2::text::pg_snapshot)
ORDER BY e.seq LIMIT $4
