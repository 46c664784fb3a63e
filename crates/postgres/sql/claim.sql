-- Hands out due jobs: one probe per queue and priority, each row locked or passed over, moved and logged at once.
-- $1 queues  $2 max  $3 worker  $4 secret  $5 lease_ms  $6 now or null  $7 kinds, empty for all
-- $8 from due_at per probe, or empty  $9 what this call has taken already
-- A lease that is over is handed out again here and counted as a crash. A running row that must end instead
-- (cancel requested, timed out, too many crashes) is only named, in the last column, and is ended by itself.
-- If this very claim was made before, nothing is taken: what it holds is named in the very last column.
-- Differs: SQLite reads the rows and decides them one by one.
WITH moment AS MATERIALIZED (
  SELECT coalesce($6::timestamptz, clock_timestamp()) AS now
), again AS MATERIALIZED (
  SELECT id FROM windlass.jobs WHERE worker_id = $3 AND status = 'running' AND due_at > (SELECT now FROM moment)
    AND lease_hash = substring(sha256(substring(sha256($4::bytea || uuid_send(id) || int4send(attempt)) FOR 16)) FOR 16)
    AND id <> ALL ($9::uuid[])
), probe AS MATERIALIZED (
  SELECT q.queue, p.priority, coalesce(($8::timestamptz[])[(q.n - 1) * 11 + 6 - p.priority], '-infinity') AS from_due
  FROM unnest($1::text[]) WITH ORDINALITY q (queue, n) CROSS JOIN generate_series(5, -5, -1) p (priority)
  WHERE NOT EXISTS (SELECT 1 FROM windlass.queues paused WHERE paused.name = q.queue AND paused.paused_at IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM again)
  ORDER BY q.n, p.priority DESC
), due AS MATERIALIZED (
  SELECT j.tid, j.id, j.due_at, j.ends FROM probe CROSS JOIN LATERAL (
    SELECT ctid AS tid, id, due_at, status = 'running' AND (cancel_requested_at IS NOT NULL OR crashes >= 2
      OR coalesce(deadline_at <= (SELECT now FROM moment), false)) AS ends
    FROM windlass.jobs
    WHERE queue = probe.queue AND priority = probe.priority
      AND due_at <= (SELECT now FROM moment) AND due_at >= probe.from_due
      AND (cardinality($7::text[]) = 0 OR kind = ANY ($7))
    ORDER BY due_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
  ) j LIMIT $2
), picked AS MATERIALIZED (
  SELECT *, row_number() OVER () AS n FROM due
), moved AS (
  UPDATE windlass.jobs j SET
    status = 'running', attempt = attempt + 1, version = version + 1, crashes = crashes + (status = 'running')::int,
    worker_id = $3, epoch = NULL, assignment = NULL, waiting_for = NULL, wait_name = NULL, cancel_requested_at = NULL,
    lease_hash = substring(sha256(substring(sha256($4::bytea || uuid_send(id) || int4send(attempt + 1)) FOR 16)) FOR 16),
    deadline_at = now + timeout_ms * interval '1 millisecond',
    lease_expires_at = least(now + coalesce(lease_ms, $5) * interval '1 millisecond',
      now + timeout_ms * interval '1 millisecond'),
    due_at = least(now + coalesce(lease_ms, $5) * interval '1 millisecond',
      now + timeout_ms * interval '1 millisecond') + grace_ms * interval '1 millisecond',
    started_at = greatest(now, updated_at), updated_at = greatest(now, updated_at)
  FROM moment
  WHERE j.ctid = ANY (ARRAY(SELECT tid FROM picked WHERE NOT ends))
  RETURNING j.*
), logged AS (
  INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, lease)
  SELECT id, version, updated_at, 'job_claimed', 'worker:' || $3, attempt, generation, lease_hash FROM moved
)
SELECT m.*, e.detail, e.is_json, e.payload, e.job_id IS NOT NULL, p.due_at, ending.ids,
  (SELECT array_agg(id ORDER BY id) FROM again)
FROM (SELECT array_agg(id) FILTER (WHERE ends) AS ids FROM picked) ending
LEFT JOIN (moved m JOIN picked p ON p.id = m.id) ON true
LEFT JOIN windlass.job_events e ON e.job_id = m.id AND e.version = 1
ORDER BY p.n
