-- Hands out due jobs: one probe per queue and priority, each row locked or passed over, moved and logged at once.
-- $1 queues  $2 max  $3 worker  $4 secret  $5 lease_ms  $6 now or null  $7 kinds, empty for all
-- $8 from due_at per probe, or empty  $9 from id per probe, or empty  $10 how many to look at for the kinds
-- $11 the claim's number  $12 whether it may be a repeat
-- $13 lease hashes made ahead, 16 bytes each: the nth job gets the nth; or null  $14 the nonce they were made with
-- What comes back is named row by row: taken; ending, a running row whose lease is over and that must end instead of
-- being handed out again (cancel requested, timed out, too many crashes); held, what this very claim took before, and
-- then nothing is taken; until, where a look for the kinds stopped that took less than it may; assigned, what this worker
-- was assigned and can start.
-- A lease that is over counts as a crash. Of a queue in mode push, or with rules, nothing is taken.
-- What stands behind the first row that must end is left to the next look: that end may be told to it.
-- Events are numbered by the block, once all rows are locked.
-- The row itself does not travel: of a job that was only created and claimed it is the fold of those two events.
-- A limit that the planner does not know keeps it from reading all that is due and sorting it, when that seems little.
-- Its plan is kept, with nested loops only: rows go by the place where they were locked.
-- The line points and the locked row of jobs decides: its due_at must still be the line's.
-- Mirrors core's decide() for Command::Claim.
-- Differs: SQLite reads the rows and decides them one by one.
WITH moment AS MATERIALIZED (
  SELECT coalesce($6::timestamptz, clock_timestamp()) AS now, 'worker:' || $3 AS actor
), held AS MATERIALIZED (
  SELECT j.id, h.nonce FROM windlass.holds h CROSS JOIN LATERAL unnest(h.ids) i (id) CROSS JOIN LATERAL (
    SELECT id, attempt, lease_hash FROM windlass.jobs
    WHERE jobs.id = i.id AND claim = h.claim AND worker_id = $3 AND status = 'running'
      AND due_at > (SELECT now FROM moment) OFFSET 0
  ) j
  WHERE $12::boolean AND h.claim = $11::bigint
    AND (h.nonce IS NOT NULL OR j.lease_hash
      = substring(sha256(substring(sha256($4::bytea || uuid_send(j.id) || int4send(j.attempt)) FOR 16)) FOR 16))
), probe AS MATERIALIZED (
  SELECT q.queue, p.priority, p.place, p.from_due, p.from_id
  FROM unnest($1::text[]) WITH ORDINALITY q (queue, n) CROSS JOIN LATERAL (
    SELECT priority, place, coalesce(($8::timestamptz[])[place], '-infinity') AS from_due,
      coalesce(($9::uuid[])[place], '00000000-0000-0000-0000-000000000000') AS from_id
    FROM (SELECT priority, (q.n * 11 - 5 - priority)::int AS place FROM generate_series(5, -5, -1) priority) p
  ) p
  WHERE NOT EXISTS (SELECT 1 FROM windlass.queues paused WHERE paused.name = q.queue
      AND (paused.paused_at IS NOT NULL OR paused.mode = 'push' OR paused.flow IS NOT NULL))
    AND NOT EXISTS (SELECT 1 FROM held)
  ORDER BY place
), due AS MATERIALIZED (
  SELECT *, row_number() OVER ()::int AS nth FROM (
  SELECT d.line, d.tid, d.id, d.due_at, d.ends, d.expires, probe.place FROM probe CROSS JOIN LATERAL (
    SELECT l.line, l.due_at, l.id, j.tid, j.ends, j.expires FROM (
      SELECT ctid AS line, due_at, id FROM windlass.line
      WHERE queue = probe.queue AND priority = probe.priority AND due_at <= (SELECT now FROM moment)
        AND (due_at, id) >= (probe.from_due, probe.from_id)
      ORDER BY due_at, id LIMIT (SELECT CASE WHEN cardinality($7::text[]) > 0 THEN $10::bigint END)
    ) l CROSS JOIN LATERAL (
      SELECT ctid AS tid, status = 'running' AND (cancel_requested_at IS NOT NULL OR crashes >= 2
        OR coalesce(deadline_at <= (SELECT now FROM moment), false)) AS ends,
        (SELECT now FROM moment) + least(coalesce(lease_ms, $5), timeout_ms) * interval '1 millisecond' AS expires
      FROM windlass.jobs
      WHERE jobs.id = l.id AND jobs.due_at = l.due_at AND (cardinality($7::text[]) = 0 OR kind = ANY ($7))
      FOR UPDATE SKIP LOCKED
    ) j LIMIT (SELECT $2::bigint)
  ) d LIMIT $2
  ) d
), ending AS MATERIALIZED (
  SELECT place, due_at, id FROM due WHERE ends ORDER BY place, due_at, id LIMIT 1
), moved AS (
  UPDATE windlass.jobs j SET
    status = 'running', attempt = attempt + 1, version = version + 1, crashes = crashes + (status = 'running')::int,
    worker_id = $3, epoch = NULL, assignment = NULL, waiting_for = NULL, wait_name = NULL, cancel_requested_at = NULL,
    lease_hash = CASE WHEN $14::bigint IS NOT NULL THEN substring($13::bytea FROM d.nth * 16 - 15 FOR 16) ELSE
      substring(sha256(substring(sha256($4::bytea || uuid_send(j.id) || int4send(attempt + 1)) FOR 16)) FOR 16) END,
    deadline_at = (SELECT now FROM moment) + timeout_ms * interval '1 millisecond',
    lease_expires_at = d.expires, due_at = d.expires + grace_ms * interval '1 millisecond',
    started_at = greatest((SELECT now FROM moment), updated_at),
    updated_at = greatest((SELECT now FROM moment), updated_at), claim = $11
  FROM due d
  WHERE j.ctid = d.tid AND ((SELECT id FROM ending) IS NULL
    OR (d.place, d.due_at, d.id) < (SELECT place, due_at, id FROM ending))
  RETURNING j.id, d.nth, d.line, d.place, d.due_at AS was_due, j.due_at, j.version,
    j.attempt, j.generation, j.lease_hash, j.updated_at
), numbers AS MATERIALIZED (
  SELECT ARRAY(SELECT nextval('windlass.job_events_seq_seq') FROM generate_series(0, (n - 1) / 64)) AS blocks
  FROM (SELECT count(*)::int AS n FROM due) locked WHERE n > 0
), logged AS (
  INSERT INTO windlass.job_events (seq, job_id, version, at, type, actor, attempt, generation, lease)
  SELECT (SELECT blocks FROM numbers)[(nth + 63) / 64] + (nth - 1) % 64,
    id, version, updated_at, 'job_claimed', (SELECT actor FROM moment), attempt, generation, lease_hash FROM moved
), unlined AS (
  DELETE FROM windlass.line WHERE ctid = ANY (ARRAY(SELECT line FROM moved))
), kept AS (
  INSERT INTO windlass.holds (claim, worker_id, check_at, nonce, ids)
  SELECT $11, $3, min(due_at), $14, array_agg(id) FROM moved HAVING count(*) > 0
  ON CONFLICT (claim) DO UPDATE SET check_at = least(holds.check_at, excluded.check_at),
    ids = ARRAY(SELECT i FROM unnest(holds.ids) i WHERE i <> ALL (excluded.ids)) || excluded.ids,
    nonce = coalesce(excluded.nonce, holds.nonce),
    over = ARRAY(SELECT o FROM unnest(holds.over) o WHERE o <> ALL (excluded.ids))
)
SELECT 'taken', m.id, m.place, m.was_due, m.version, (SELECT now FROM moment), e.at, e.detail, e.is_json, e.payload, m.nth
FROM moved m LEFT JOIN windlass.job_events e ON e.job_id = m.id AND e.version = 1
UNION ALL SELECT 'ending', id, place, due_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM due d
WHERE ends AND NOT EXISTS (SELECT 1 FROM due b CROSS JOIN ending e WHERE NOT b.ends
  AND (b.place, b.due_at, b.id) > (e.place, e.due_at, e.id) AND (b.place, b.due_at, b.id) < (d.place, d.due_at, d.id))
UNION ALL SELECT 'held', id, NULL, NULL, nonce, NULL, NULL, NULL, NULL, NULL, NULL FROM held
UNION ALL SELECT 'until', u.id, place, u.due_at, NULL, (SELECT now FROM moment), NULL, NULL, NULL, NULL, NULL
FROM probe CROSS JOIN LATERAL (
  SELECT due_at, id FROM windlass.line
  WHERE queue = probe.queue AND priority = probe.priority AND due_at <= (SELECT now FROM moment)
    AND (due_at, id) >= (probe.from_due, probe.from_id)
  ORDER BY due_at, id OFFSET $10 LIMIT 1
) u WHERE cardinality($7) > 0 AND (SELECT count(*) FROM moved) < $2
UNION ALL SELECT 'assigned', id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM (
  SELECT id FROM windlass.jobs
  WHERE $12 AND assigned_to IS NOT NULL AND assigned_to = $3 AND queue = ANY ($1)
    AND (cardinality($7) = 0 OR kind = ANY ($7))
    AND NOT EXISTS (SELECT 1 FROM windlass.queues paused WHERE paused.name = queue AND paused.paused_at IS NOT NULL)
  ORDER BY id LIMIT (SELECT $2)
) assigned
