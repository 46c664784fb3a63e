-- Hands a job that this transaction made to a worker that waits for it, unless it is for later or its queue gives none.
-- $1 id  $2 worker  $3 secret  $4 lease_ms  $5 the claim's number  $6 now or null
-- Nobody else sees the row yet, so nothing is locked, passed over or put in order.
-- Mirrors core's decide() for Command::Claim of a job that was only created.
-- Differs: SQLite claims it by its id.
WITH moment AS MATERIALIZED (
  SELECT coalesce($6::timestamptz, clock_timestamp()) AS now
), found AS MATERIALIZED (
  SELECT queue, priority, due_at, id FROM windlass.jobs
  WHERE id = $1::uuid AND due_at <= (SELECT now FROM moment)
    AND NOT EXISTS (SELECT 1 FROM windlass.queues paused WHERE paused.name = queue
      AND (paused.paused_at IS NOT NULL OR paused.mode = 'push' OR paused.flow IS NOT NULL))
), unlined AS (
  DELETE FROM windlass.line l USING found f
  WHERE l.queue = f.queue AND l.priority = f.priority AND l.due_at = f.due_at AND l.id = f.id
), moved AS (
  UPDATE windlass.jobs SET
    status = 'running', attempt = 1, version = 2, worker_id = $2, claim = $5::bigint,
    lease_hash = substring(sha256(substring(sha256($3::bytea || uuid_send(id) || int4send(1)) FOR 16)) FOR 16),
    deadline_at = (SELECT now FROM moment) + timeout_ms * interval '1 millisecond',
    lease_expires_at = (SELECT now FROM moment)
      + least(coalesce(lease_ms, $4::bigint), timeout_ms) * interval '1 millisecond',
    due_at = (SELECT now FROM moment)
      + (least(coalesce(lease_ms, $4), timeout_ms) + grace_ms) * interval '1 millisecond',
    started_at = (SELECT now FROM moment), updated_at = (SELECT now FROM moment)
  WHERE id = (SELECT id FROM found)
  RETURNING id, due_at, generation, lease_hash, updated_at
), logged AS (
  INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, lease)
  SELECT id, 2, updated_at, 'job_claimed', 'worker:' || $2, 1, generation, lease_hash FROM moved
), kept AS (
  INSERT INTO windlass.holds (claim, worker_id, check_at, ids) SELECT $5, $2, due_at, ARRAY[id] FROM moved
  ON CONFLICT (claim) DO UPDATE SET check_at = least(holds.check_at, excluded.check_at),
    ids = ARRAY(SELECT i FROM unnest(holds.ids) i WHERE i <> ALL (excluded.ids)) || excluded.ids,
    over = ARRAY(SELECT o FROM unnest(holds.over) o WHERE o <> ALL (excluded.ids))
)
SELECT updated_at FROM moved
