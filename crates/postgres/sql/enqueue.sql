-- New jobs, each with its first event, or none of them: it fails if an id is taken.
-- To leave such a job out instead would cost every row a look and a second record in the server's log.
-- $1 now or null  $2 actors  $3 ids  $4 queues  $5 kinds  $6 priorities  $7 run_at  $8 delay_ms  $9 max_retries
-- $10 parents  $11 unique policies  $12 timeout_ms  $13 lease_ms  $14 grace_ms  $15 backoffs  $16 whether metadata
-- $17 details  $18 is_json  $19 payloads  $20 agents  $21 tags, joined by commas  $22 lanes
-- A list that has nothing to say is empty, and one that says the same of every job says it once: to take a long one apart
-- costs as much as an entry of an index.
-- Events are numbered by the block; the transaction has its id before it takes one.
-- Mirrors core's NewJob::created() and Job::created().
-- Differs: SQLite writes row by row.
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), inserted AS (
  INSERT INTO windlass.jobs (id, queue, kind, priority, status, due_at, attempt, retries, max_retries, crashes, version,
    generation, progress, signals, children, parent_id, steps_from, unique_policy, timeout_ms, lease_ms, grace_ms,
    backoff, meta_version, created_at, updated_at, lane)
  SELECT id, coalesce(queue, ($4)[1]), coalesce(kind, ($5)[1]), coalesce(priority, 0), 'pending',
    coalesce(run_at, now + delay_ms * interval '1 millisecond', now), 0, 0, coalesce(max_retries, ($9)[1]), 0, 1, 0, 0, 0, 0,
    parent_id, 0, unique_policy, timeout_ms, lease_ms, coalesce(grace_ms, 0), backoff,
    CASE WHEN has_metadata THEN 1 END, now, now, lane
  FROM moment CROSS JOIN unnest($3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::timestamptz[], $8::bigint[],
    $9::int[], $10::uuid[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::boolean[],
    $22::bigint[])
    a (id, queue, kind, priority, run_at, delay_ms, max_retries, parent_id, unique_policy, timeout_ms, lease_ms, grace_ms,
      backoff, has_metadata, lane)
), lined AS (
  INSERT INTO windlass.line (queue, priority, due_at, id, lane)
  SELECT coalesce(queue, ($4)[1]), coalesce(priority, 0),
    coalesce(run_at, now + delay_ms * interval '1 millisecond', now), id, lane
  FROM moment CROSS JOIN unnest($3, $4, $6, $7, $8, $22) a (id, queue, priority, run_at, delay_ms, lane)
), numbers AS MATERIALIZED (
  SELECT ARRAY(SELECT nextval('windlass.job_events_seq_seq') FROM generate_series(0, CASE
    WHEN pg_current_xact_id() IS NOT NULL THEN (cardinality($3) - 1) / 64 END)) AS blocks
), logged AS (
  INSERT INTO windlass.job_events (seq, job_id, version, at, type, actor, attempt, generation, detail, is_json, payload,
    kind, agent_id, parent_id, tags)
  SELECT (SELECT blocks FROM numbers)[(nth::int + 63) / 64] + (nth::int - 1) % 64, id, 1, now, 'job_created',
    coalesce(actor, ($2)[1]), 0, 0, detail, is_json, payload, coalesce(kind, ($5)[1]), agent_id,
    parent_id, string_to_array(tags, ',')
  FROM moment CROSS JOIN unnest($2::text[], $3::uuid[], $5::text[], $10::uuid[], $17::text[], $18::boolean[], $19::bytea[],
    $20::text[], $21::text[]) WITH ORDINALITY a (actor, id, kind, parent_id, detail, is_json, payload, agent_id, tags, nth)
)
SELECT now FROM moment
