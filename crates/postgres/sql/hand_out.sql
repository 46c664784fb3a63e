-- Hands out jobs that are locked, many at once. What each becomes, core has decided; this comes to the same.
-- $1 jobs  $2 versions  $3 attempts  $4 crashes  $5 lease hashes  $6 from when each may be taken over  $7 deadlines
-- $8 ends of leases  $9 moments  $10 worker  $11 the claim's number
-- Their queue has rules and is locked: each takes a slot.
-- Its plan is kept, with nested loops only. Events are numbered by the block.
-- Mirrors core's decide() for Command::Claim.
-- Differs: SQLite hands them out one by one.
WITH given AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[], $5::bytea[], $6::timestamptz[],
    $7::timestamptz[], $8::timestamptz[], $9::timestamptz[])
    WITH ORDINALITY g (id, version, attempt, crashes, lease_hash, due_at, deadline_at, expires, at, nth)
), stood AS MATERIALIZED (
  SELECT l.tid FROM given g CROSS JOIN LATERAL (
    SELECT queue, priority, due_at FROM windlass.jobs WHERE jobs.id = g.id OFFSET 0
  ) j CROSS JOIN LATERAL (
    SELECT ctid AS tid FROM windlass.line
    WHERE line.queue = j.queue AND line.priority = j.priority AND line.due_at = j.due_at AND line.id = g.id OFFSET 0
  ) l
), moved AS (
  UPDATE windlass.jobs j SET
    status = 'running', attempt = g.attempt, version = g.version, crashes = g.crashes, worker_id = $10,
    epoch = NULL, assignment = NULL, waiting_for = NULL, wait_name = NULL, cancel_requested_at = NULL,
    lease_hash = g.lease_hash, deadline_at = g.deadline_at, lease_expires_at = g.expires, due_at = g.due_at,
    started_at = g.at, updated_at = g.at, claim = $11::bigint
  FROM given g WHERE j.id = g.id AND j.version = g.version - 1
  RETURNING j.id, j.version, j.attempt, j.generation, j.lease_hash, j.updated_at, j.due_at, j.queue, j.lane, g.nth::int
), numbers AS MATERIALIZED (
  SELECT ARRAY(SELECT nextval('windlass.job_events_seq_seq') FROM generate_series(0, (n - 1) / 64)) AS blocks
  FROM (SELECT count(*)::int AS n FROM given) given WHERE n > 0
), logged AS (
  INSERT INTO windlass.job_events (seq, job_id, version, at, type, actor, attempt, generation, lease)
  SELECT (SELECT blocks FROM numbers)[(nth + 63) / 64] + (nth - 1) % 64,
    id, version, updated_at, 'job_claimed', 'worker:' || $10::text, attempt, generation, lease_hash FROM moved
), unlined AS (
  DELETE FROM windlass.line WHERE ctid = ANY (ARRAY(SELECT tid FROM stood))
), slotted AS (
  INSERT INTO windlass.slots (queue, id, lane) SELECT queue, id, lane FROM moved ON CONFLICT DO NOTHING
), kept AS (
  INSERT INTO windlass.holds (claim, worker_id, check_at, ids)
  SELECT $11, $10, min(due_at), array_agg(id) FROM moved HAVING count(*) > 0
  ON CONFLICT (claim) DO UPDATE SET check_at = least(holds.check_at, excluded.check_at),
    ids = ARRAY(SELECT i FROM unnest(holds.ids) i WHERE i <> ALL (excluded.ids)) || excluded.ids,
    over = ARRAY(SELECT o FROM unnest(holds.over) o WHERE o <> ALL (excluded.ids))
)
SELECT m.id, e.detail, e.is_json, e.payload
FROM moved m LEFT JOIN windlass.job_events e ON e.job_id = m.id AND e.version = 1
