-- Completes held jobs, each under its own lease.
-- Left out, and settled one by one: what is refused, and jobs whose end entails more (a parent, a key to free, an open
-- approval, jobs that wait for it) or that have children. It waits for locked rows as long as lock_timeout says.
-- A claim that ends here as a whole leaves the holds; others leave them when their lease would be over.
-- $1 jobs  $2 lease hashes  $3 results or null  $4 is_json  $5 now or null
-- OFFSET 0 keeps a job's approvals from being looked for among all that are pending.
-- Events are numbered by the block, once all rows are locked.
-- The clock is read per row, and again for a row that was waited for.
-- Mirrors core's decide() for a completion.
-- Differs: SQLite settles row by row.
WITH moment AS MATERIALIZED (
  SELECT coalesce($5::timestamptz, clock_timestamp()) AS now
), moved AS (
  UPDATE windlass.jobs j SET status = 'completed', version = version + 1, progress = 100,
    result_version = CASE WHEN a.payload IS NOT NULL THEN version + 1 END, error_version = NULL, error_code = NULL,
    due_at = NULL, deadline_at = NULL, lease_hash = NULL, lease_expires_at = NULL, assignment = NULL,
    finished_at = greatest((SELECT now FROM moment), updated_at),
    updated_at = greatest((SELECT now FROM moment), updated_at)
  FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::boolean[]) WITH ORDINALITY a (id, hash, payload, is_json, nth)
  WHERE j.id = a.id AND j.status = 'running' AND j.lease_hash = a.hash AND j.parent_id IS NULL AND j.children = 0
    AND j.dependents IS NULL
    AND j.due_at > coalesce($5::timestamptz, clock_timestamp())
    AND (j.deadline_at IS NULL OR j.deadline_at > coalesce($5::timestamptz, clock_timestamp()))
    AND j.unique_policy IS DISTINCT FROM 'active'
    AND (j.version = 2 OR NOT EXISTS (
      SELECT 1 FROM (SELECT status FROM windlass.approvals WHERE job_id = j.id OFFSET 0) p WHERE p.status = 'pending'))
  RETURNING j.id, j.version, j.attempt, j.generation, j.updated_at, j.worker_id, j.claim, a.hash, a.payload, a.is_json,
    a.nth::int
), numbers AS MATERIALIZED (
  SELECT ARRAY(SELECT nextval('windlass.job_events_seq_seq') FROM generate_series(0, (n - 1) / 64)) AS blocks
  FROM (SELECT max(nth) AS n FROM moved) locked WHERE n > 0
), logged AS (
  INSERT INTO windlass.job_events (seq, job_id, version, at, type, actor, attempt, generation, lease, is_json, payload)
  SELECT (SELECT blocks FROM numbers)[(nth + 63) / 64] + (nth - 1) % 64,
    id, version, updated_at, 'job_completed', 'worker:' || worker_id, attempt, generation, hash, is_json, payload
  FROM moved
), released AS (
  DELETE FROM windlass.holds WHERE claim = ANY (ARRAY(
    SELECT h.claim FROM (SELECT claim, count(*) AS n FROM moved GROUP BY claim) m CROSS JOIN LATERAL (
      SELECT claim FROM windlass.holds WHERE holds.claim = m.claim AND cardinality(ids) = m.n FOR UPDATE SKIP LOCKED) h))
)
SELECT id, version FROM moved
