-- Completes held jobs, each under its own lease. A row that somebody else holds locked, that was refused, or whose end
-- entails more (a parent, a key to free, an open approval) or that children may tell theirs first is left out, and is
-- settled by itself.
-- $1 jobs  $2 lease hashes  $3 results  $4 is_json  $5 now or null  $6 whether there are results
-- OFFSET 0 keeps a job's approvals from being looked for among all that are pending.
-- coalesce keeps the planner from the line of what is due, which seems empty if it was when statistics were gathered.
-- Differs: SQLite settles row by row.
WITH moment AS MATERIALIZED (
  SELECT coalesce($5::timestamptz, clock_timestamp()) AS now
), held AS MATERIALIZED (
  SELECT a.hash, a.payload, a.is_json, j.tid, j.worker_id
  FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::boolean[]) a (id, hash, payload, is_json) CROSS JOIN LATERAL (
    SELECT ctid AS tid, worker_id FROM windlass.jobs j
    WHERE j.id = a.id AND j.status = 'running' AND j.lease_hash = a.hash AND j.parent_id IS NULL AND j.children = 0
      AND coalesce(j.due_at > (SELECT now FROM moment), false) AND (j.deadline_at IS NULL
        OR j.deadline_at > (SELECT now FROM moment))
      AND j.unique_policy IS DISTINCT FROM 'active'
      AND (j.version = 2 OR NOT EXISTS (
        SELECT 1 FROM (SELECT status FROM windlass.approvals WHERE job_id = j.id OFFSET 0) p WHERE p.status = 'pending'))
    FOR UPDATE SKIP LOCKED
  ) j
), moved AS (
  UPDATE windlass.jobs j SET status = 'completed', version = version + 1, progress = 100,
    result_version = CASE WHEN $6::boolean THEN version + 1 END, error_version = NULL, error_code = NULL,
    due_at = NULL, deadline_at = NULL, worker_id = NULL, lease_hash = NULL, lease_expires_at = NULL, assignment = NULL,
    finished_at = greatest((SELECT now FROM moment), updated_at),
    updated_at = greatest((SELECT now FROM moment), updated_at)
  FROM held h
  WHERE j.ctid = h.tid
  RETURNING j.id, j.version, j.attempt, j.generation, j.updated_at, h.hash, h.payload, h.is_json, h.worker_id
), logged AS (
  INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, lease, is_json, payload)
  SELECT id, version, updated_at, 'job_completed', 'worker:' || worker_id, attempt, generation, hash, is_json, payload
  FROM moved
)
SELECT id, version FROM moved
