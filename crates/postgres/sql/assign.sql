-- Gives jobs to workers, many at once. What each becomes, core has decided on the locked rows; this comes to the same.
-- $1 jobs  $2 versions  $3 moments  $4 workers  $5 deadlines  $6 details  $7 actor  $8 epoch  $9 term
-- Mirrors core's decide() for Command::Assign. The epoch is compared once more where it is written.
-- Differs: SQLite writes the events with a statement of their own.
WITH given AS MATERIALIZED (
  SELECT g.* FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::text[], $5::timestamptz[], $6::text[])
    g (id, version, at, worker, deadline_at, detail)
), moved AS (
  UPDATE windlass.jobs j SET status = 'assigned', version = g.version, due_at = NULL, deadline_at = g.deadline_at,
    worker_id = g.worker, epoch = $8::bigint, assignment = g.version, waiting_for = NULL, wait_name = NULL, claim = NULL,
    updated_at = g.at
  FROM given g
  WHERE j.id = g.id AND j.version = g.version - 1 AND j.status IN ('pending', 'retry', 'orphaned', 'waiting')
    AND EXISTS (SELECT 1 FROM windlass.terms t WHERE t.name = $9::text AND t.epoch = $8)
  RETURNING j.id, j.version, j.updated_at, j.attempt, j.generation, g.detail
)
INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, detail)
SELECT id, version, updated_at, 'job_assigned', $7::text, attempt, generation, detail FROM moved RETURNING job_id
