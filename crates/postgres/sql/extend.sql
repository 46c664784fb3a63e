-- Renews leases, each for itself: the one change without an event. A row that somebody else holds locked, or that was
-- refused, is left out, and is looked at by itself.
-- $1 jobs  $2 lease hashes  $3 extend_ms  $4 now or null
-- A hold is not touched: when it is looked at, what was renewed is found to be held still.
-- Mirrors core's renew().
-- Differs: SQLite renews row by row.
WITH moment AS MATERIALIZED (
  SELECT coalesce($4::timestamptz, clock_timestamp()) AS now
), held AS MATERIALIZED (
  SELECT j.tid FROM unnest($1::uuid[], $2::bytea[]) a (id, hash) CROSS JOIN LATERAL (
    SELECT ctid AS tid FROM windlass.jobs j
    WHERE j.id = a.id AND j.status = 'running' AND j.lease_hash = a.hash
      AND j.due_at > (SELECT now FROM moment) AND (j.deadline_at IS NULL
        OR j.deadline_at > (SELECT now FROM moment))
    FOR UPDATE SKIP LOCKED
  ) j
)
UPDATE windlass.jobs j SET
  lease_expires_at = least(greatest(lease_expires_at, now + $3::bigint * interval '1 millisecond'), deadline_at),
  due_at = least(greatest(lease_expires_at, now + $3::bigint * interval '1 millisecond'), deadline_at)
    + grace_ms * interval '1 millisecond'
FROM held, moment
WHERE j.ctid = held.tid
RETURNING j.id, j.lease_expires_at, j.cancel_requested_at IS NOT NULL
