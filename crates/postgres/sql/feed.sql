-- What one snapshot sees and an older one did not, after a number, in the order of numbers.
-- $1 older snapshot  $2 newer snapshot  $3 after seq  $4 limit  $5 base seq: what another server's transactions logged
-- $6 whether payloads other than errors are read
-- Differs: one writer at a time numbers SQLite's feed, so a plain number is a cursor there.
SELECT e.seq, e.job_id, e.version, e.at, e.type, e.actor, e.attempt, e.generation, e.lease, e.key, e.detail, e.is_json,
  CASE WHEN $6 OR e.type IN ('job_failed', 'job_retried', 'job_timed_out') THEN e.payload END, e.tx::text, j.queue, j.kind
FROM windlass.job_events e CROSS JOIN LATERAL (SELECT queue, kind FROM windlass.jobs WHERE id = e.job_id OFFSET 0) j
WHERE e.seq > $3 AND NOT pg_visible_in_snapshot(e.tx, $1::text::pg_snapshot)
  AND (e.seq <= $5 OR pg_visible_in_snapshot(e.tx, $2::text::pg_snapshot))
ORDER BY e.seq LIMIT $4
