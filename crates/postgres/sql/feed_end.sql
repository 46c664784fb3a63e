-- The event of the youngest transaction that a snapshot sees, by which a cursor at the end is recognised.
-- $1 the newest mark's seq  $2 snapshot
-- Behind a mark nothing is numbered by a transaction younger than the mark: there the last one serves.
SELECT seq, tx, job_id, version, at, type FROM (
  (SELECT 2 AS place, seq, tx::text, job_id, version, at, type FROM windlass.job_events
   WHERE seq > $1 AND pg_visible_in_snapshot(tx, $2::text::pg_snapshot)
   ORDER BY windlass.job_events.tx DESC, seq DESC LIMIT 1)
  UNION ALL
  (SELECT 1, seq, '0', job_id, version, at, type FROM windlass.job_events WHERE seq <= $1 ORDER BY seq DESC LIMIT 1)
) newest ORDER BY place DESC LIMIT 1
