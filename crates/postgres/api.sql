-- What people call from SQL, in their own transaction: enqueue, cancel, signal, assert_lease, complete, and stable views.
-- Second copies of rules of core, compared with them by the differential test: enqueue of core/src/enqueue.rs, cancel of
-- operate.rs, signal, assert_lease and complete of decide.rs; a colon and the name of a limit stand for it,
-- put in when this text is loaded (src/limits.rs).
-- Re-created like guard.sql. Errors have SQLSTATEs of their own, class WL. DETAIL of those that a program acts on is JSON:
-- the engine's `code`, and with it `index` (which job of a request of many, from 0), `id`, `status`, `waiting` and
-- `version`.
--   WL005 invalid value   WL006 no such job   WL007 the job has finished   WL008 not leased   WL009 lease expired
--   WL010 lease mismatch  WL011 event key used for something else  WL012 the id is taken: job_exists
--   WL015 as many jobs of the key wait as may: lane_full

-- A UUID of version 7, for servers before 18.
CREATE OR REPLACE FUNCTION windlass.uuidv7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1),
    'hex')::uuid
$$;

CREATE OR REPLACE FUNCTION windlass.check_name(field text, value text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value IS NULL OR value !~ '^[A-Za-z0-9._:-]{1,:NAME_MAX_BYTES}$' THEN
    RAISE EXCEPTION '% is %: must be 1 to :NAME_MAX_BYTES characters of A-Z a-z 0-9 . _ : -', field,
      quote_nullable(left(value, 60)) USING ERRCODE = 'WL005';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION windlass.check_within(field text, value bigint, low bigint, high bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value < low OR value > high THEN
    RAISE EXCEPTION '% is %: must be between % and %', field, value, low, high USING ERRCODE = 'WL005';
  END IF;
END $$;

-- Refuses JSON nested deeper than the engine reads, without making jsonb of it, which refuses more than that. What is
-- left of a text without its strings and values are brackets; taking out the innermost pairs lowers it by a level.
CREATE OR REPLACE FUNCTION windlass.check_depth(field text, value json) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  brackets text := value::text;
BEGIN
  IF length(brackets) - length(translate(brackets, '[{', '')) <= :JSON_DEPTH_MAX THEN
    RETURN;
  END IF;
  brackets := regexp_replace(brackets, '"([^"\\]|\\.)*"', '', 'g');
  brackets := translate(regexp_replace(brackets, '[^][{}]', '', 'g'), '{}', '[]');
  FOR level IN 1.. :JSON_DEPTH_MAX LOOP
    brackets := replace(brackets, '[]', '');
  END LOOP;
  IF brackets <> '' THEN
    RAISE EXCEPTION '% is nested too deep: must be at most :JSON_DEPTH_MAX levels', field USING ERRCODE = 'WL005';
  END IF;
END $$;

-- Milliseconds of an interval.
CREATE OR REPLACE FUNCTION windlass.ms(value interval) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT round(extract(epoch FROM value) * 1000)::bigint
$$;

-- A backoff with what was left out; nothing stays nothing.
CREATE OR REPLACE FUNCTION windlass.whole_backoff(given jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  whole jsonb := '{"base_ms": 1000, "max_ms": 300000, "multiplier": 2.0, "jitter": true}';
BEGIN
  IF given IS NULL THEN
    RETURN NULL;
  END IF;
  whole := CASE jsonb_typeof(given) WHEN 'object' THEN whole || given ELSE '{}' END;
  IF (SELECT count(*) FROM jsonb_object_keys(whole)) <> 4 OR jsonb_typeof(whole -> 'jitter') <> 'boolean'
    OR NOT (whole @@ '$.base_ms >= 0 && $.base_ms <= :HORIZON_MS && $.base_ms.floor() == $.base_ms
      && $.max_ms >= 0 && $.max_ms <= :HORIZON_MS && $.max_ms.floor() == $.max_ms
      && $.multiplier >= 1 && $.multiplier <= 1000') IS TRUE THEN
    RAISE EXCEPTION 'backoff is %: has base_ms, max_ms, multiplier from 1 to 1000 and jitter', given USING ERRCODE = 'WL005';
  END IF;
  RETURN whole || jsonb_build_object('base_ms', (whole ->> 'base_ms')::numeric::bigint,
    'max_ms', (whole ->> 'max_ms')::numeric::bigint, 'multiplier', (whole ->> 'multiplier')::float8);
END $$;

-- JSON with the keys of every object in the order of their bytes, and without space between. A second copy of
-- core/src/canonical.rs; strings that PostgreSQL cannot read leave all of it as it is, there too.
CREATE OR REPLACE FUNCTION windlass.canonical(value json) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value::text ~ '\\u(0000|[dD][89a-fA-F])' THEN
    RETURN value::text;
  END IF;
  RETURN CASE json_typeof(value)
    WHEN 'object' THEN '{' || coalesce((
      SELECT string_agg(to_json(e.key)::text || ':' || windlass.canonical(e.value), ',' ORDER BY e.key COLLATE "C", n)
      FROM json_each(value) WITH ORDINALITY e (key, value, n)), '') || '}'
    WHEN 'array' THEN '[' || coalesce((
      SELECT string_agg(windlass.canonical(e.value), ',' ORDER BY n)
      FROM json_array_elements(value) WITH ORDINALITY e (value, n)), '') || ']'
    ELSE btrim(value::text, E' \t\n\r') END;
END $$;

-- What two payloads are compared by: SHA-256, of JSON whatever the order of its keys is.
CREATE OR REPLACE FUNCTION windlass.fingerprint(payload json, payload_bytes bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(sha256(coalesce(payload_bytes, convert_to(windlass.canonical(payload), 'UTF8'))),
    decode(repeat('00', 32), 'hex'))
$$;

-- The number of the lane of a key. A second copy of `Lane::of` in core/src/lane.rs.
CREATE OR REPLACE FUNCTION windlass.lane_of(key text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
  SELECT greatest((('x' || encode(substr(sha256(convert_to(key, 'UTF8')), 1, 8), 'hex'))::bit(64) >> 1)::bigint, 1)
$$;

-- What the rules of a lane ask of a job that comes. Where they ask something the lane is locked until the transaction ends:
-- nobody else adds to it meanwhile. A second copy of `QueueLimits::entry` in core/src/lane/rule.rs. The newest of a key
-- takes the place of the others nowhere here: that would keep their rows locked for as long as somebody's transaction is
-- open, and workers could neither renew nor end them.
CREATE OR REPLACE FUNCTION windlass.enter_lane(queue text, key text, OUT backlog bigint, OUT drops boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  lanes jsonb := (SELECT q.flow::jsonb -> 'lanes' FROM windlass.queues q WHERE q.name = queue);
  own jsonb := lanes -> 'keys' -> key;
BEGIN
  IF coalesce(own ->> 'mode', lanes ->> 'mode') = 'newest' THEN
    RAISE EXCEPTION 'key is %: in queue % the newest job of a key takes the place of the others, % enqueue it without one',
      quote_literal(left(key, 60)), queue, 'which a transaction of one''s own cannot do;' USING ERRCODE = 'WL005';
  END IF;
  backlog := coalesce(own ->> 'backlog', lanes ->> 'backlog')::bigint;
  drops := coalesce(own ->> 'full', lanes ->> 'full', 'refuse') = 'drop';
  IF backlog IS NULL THEN
    RETURN;
  ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'key is %: queue % has a backlog for its keys, which is counted at read committed only',
      quote_literal(left(key, 60)), queue USING ERRCODE = 'WL005';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended(queue, windlass.lane_of(key)));
END $$;

-- Whether a job may enter a lane that is locked; else it is refused, or left out. A second copy of `Planner::enters` in
-- core/src/enqueue/entry.rs. It counts in a statement of its own, after the lock was given.
CREATE OR REPLACE FUNCTION windlass.enters(queue text, key text, nth bigint, job uuid, backlog bigint, drops boolean)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  lane bigint := windlass.lane_of(key);
  waiting bigint;
BEGIN
  SELECT count(*) INTO waiting FROM (
    SELECT 1 FROM generate_series(:PRIORITY_MIN, :PRIORITY_MAX) level (priority) CROSS JOIN LATERAL (
      SELECT l.id, l.due_at FROM windlass.line l
      WHERE l.queue = queue AND l.priority = level.priority AND l.lane IS NOT NULL AND l.lane = lane
      ORDER BY l.due_at, l.id OFFSET 0
    ) l CROSS JOIN LATERAL (
      SELECT 1 FROM windlass.jobs j
      WHERE j.id = l.id AND j.due_at = l.due_at AND j.status NOT IN ('running', 'assigned') OFFSET 0
    ) j LIMIT backlog
  ) w;
  IF waiting >= backlog AND NOT drops THEN
    RAISE EXCEPTION 'lane_full: % jobs of key % wait in queue %, as many as may; job % was not enqueued', waiting,
      quote_literal(left(key, 60)), queue, job USING ERRCODE = 'WL015', DETAIL = json_strip_nulls(json_build_object(
      'code', 'lane_full', 'index', nth, 'id', job, 'waiting', waiting))::text;
  END IF;
  RETURN waiting < backlog;
END $$;

-- Enqueues a job for somebody, and says whether it was there already and has another payload. A repeat by its id is
-- answered where that is asked for, and else refused. `nth` is the job's place in a request of many, from 0, for refusals.
CREATE OR REPLACE FUNCTION windlass.enqueue_one(
  nth bigint, actor text, repeatable boolean, kind text, payload json, queue text, priority int, run_at timestamptz,
  delay interval, max_retries int, timeout interval, lease interval, grace interval, backoff jsonb, agent_id text,
  metadata jsonb, tags text[], unique_key text, unique_by text, unique_scope text, unique_policy text, unique_ttl interval,
  parent_id uuid, job_id uuid, payload_bytes bytea, notify boolean, key text, cost int,
  OUT id uuid, OUT existed boolean, OUT payload_differs boolean, OUT dropped boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  at timestamptz := clock_timestamp();
  job uuid := coalesce(job_id, windlass.uuidv7());
  bytes bytea := coalesce(payload_bytes, convert_to(payload::text, 'UTF8'));
  is_json boolean := CASE WHEN payload_bytes IS NOT NULL THEN false WHEN payload IS NOT NULL THEN true END;
  due timestamptz := coalesce(run_at, at + windlass.ms(delay) * interval '1 millisecond', at);
  own_backoff jsonb;
  policy jsonb;
  policy_text text;
  scope_text text;
  scope jsonb;
  hash bytea;
  holder windlass.job_keys;
  known windlass.job_events;
  parent windlass.jobs;
  facts jsonb;
  lane bigint := windlass.lane_of(key);
  backlog bigint;
  drops boolean;
BEGIN
  id := job;
  existed := false;
  payload_differs := false;
  dropped := false;
  cost := coalesce(cost, 1);
  priority := coalesce(priority, 0);
  max_retries := coalesce(max_retries, :MAX_RETRIES_DEFAULT);
  unique_policy := coalesce(unique_policy, 'succeeded');
  IF tags IS NOT NULL THEN
    tags := ARRAY(SELECT unnest(tags));
  END IF;
  PERFORM windlass.check_name('kind', kind), windlass.check_name('queue', queue);
  PERFORM windlass.check_name('tag', t) FROM unnest(tags) t;
  PERFORM windlass.check_within('tags', cardinality(tags), 0, :TAGS_MAX),
    windlass.check_within('priority', priority, :PRIORITY_MIN, :PRIORITY_MAX),
    windlass.check_within('max_retries', max_retries, 0, :MAX_RETRIES_MAX),
    windlass.check_within('timeout', windlass.ms(timeout), 0, :TIMEOUT_MAX_MS),
    windlass.check_within('lease', windlass.ms(lease), :LEASE_MIN_MS, :LEASE_MAX_MS),
    windlass.check_within('grace', windlass.ms(grace), 0, :GRACE_MAX_MS),
    windlass.check_within('delay', windlass.ms(delay), 0, :HORIZON_MS),
    windlass.check_within('payload', length(bytes), 0, :PAYLOAD_MAX_BYTES),
    windlass.check_depth('payload', payload),
    windlass.check_within('metadata', octet_length(metadata::text), 0, :METADATA_MAX_BYTES),
    windlass.check_within('agent_id', octet_length(agent_id), 1, :ID_TEXT_MAX_BYTES),
    windlass.check_within('unique_ttl', windlass.ms(unique_ttl), 1, :HORIZON_MS),
    windlass.check_within('key', octet_length(key), 1, :KEY_MAX_BYTES),
    windlass.check_within('cost', cost, 1, :COST_MAX);
  IF key LIKE 'windlass:%' THEN
    RAISE EXCEPTION 'key is %: must not start with windlass:, which is the engine''s own', quote_literal(left(key, 60))
      USING ERRCODE = 'WL005';
  END IF;
  IF due NOT BETWEEN at - interval ':HORIZON_MS milliseconds'
    AND at + interval ':HORIZON_MS milliseconds' THEN
    RAISE EXCEPTION 'run_at is %: must be within ten years', due USING ERRCODE = 'WL005';
  END IF;
  IF agent_id ~ '[\u0001-\u001f\u007f-\u009f]' THEN
    RAISE EXCEPTION 'agent_id is %: must be without control characters', quote_literal(agent_id) USING ERRCODE = 'WL005';
  END IF;
  IF substr(job::text, 15, 1) <> '7' THEN
    RAISE EXCEPTION 'id is %: must be a UUID of version 7', job USING ERRCODE = 'WL005';
  END IF;
  IF metadata IS NOT NULL AND jsonb_typeof(metadata) <> 'object' THEN
    RAISE EXCEPTION 'metadata is %: must be an object', jsonb_typeof(metadata) USING ERRCODE = 'WL005';
  ELSIF jsonb_path_exists(metadata, '$.**{:JSON_DEPTH_MAX}') THEN
    RAISE EXCEPTION 'metadata is nested too deep: must be at most :JSON_DEPTH_MAX levels' USING ERRCODE = 'WL005';
  ELSIF jsonb_path_exists(metadata, '$.** ? (@ > 1e308 || @ < -1e308)') THEN
    RAISE EXCEPTION 'metadata is out of range: its numbers must be between -1e308 and 1e308' USING ERRCODE = 'WL005';
  END IF;
  IF kind = 'windlass.flow' THEN
    RAISE EXCEPTION 'kind is %: is the engine''s own', kind USING ERRCODE = 'WL005';
  END IF;
  own_backoff := windlass.whole_backoff(backoff);
  IF unique_key IS NULL AND unique_by = 'payload' THEN
    unique_key := 'sha256:' || encode(windlass.fingerprint(payload, payload_bytes), 'hex');
    unique_scope := coalesce(unique_scope, 'kind');
  ELSIF unique_by IS NOT NULL THEN
    RAISE EXCEPTION 'unique_by is %: must be payload, without a unique_key', unique_by USING ERRCODE = 'WL005';
  END IF;
  IF unique_key IS NOT NULL THEN
    PERFORM windlass.check_within('unique_key', octet_length(unique_key), 1, :KEY_MAX_BYTES);
    scope := CASE coalesce(unique_scope, 'queue') WHEN 'queue' THEN jsonb_build_object('queue', queue)
      WHEN 'kind' THEN jsonb_build_object('kind', kind) END;
    IF scope IS NULL OR unique_policy NOT IN ('active', 'succeeded', 'forever', 'ttl')
      OR (unique_policy = 'ttl') <> (unique_ttl IS NOT NULL) OR unique_key LIKE 'windlass:%' THEN
      RAISE EXCEPTION 'unique is % in % for %: queue or kind; active, succeeded, forever, or ttl with a unique_ttl',
        unique_key, unique_scope, unique_policy USING ERRCODE = 'WL005';
    END IF;
    policy := CASE unique_policy WHEN 'ttl' THEN jsonb_build_object('ttl', windlass.ms(unique_ttl))
      ELSE to_jsonb(unique_policy) END;
    policy_text := CASE unique_policy WHEN 'ttl' THEN 'ttl:' || windlass.ms(unique_ttl) ELSE unique_policy END;
    scope_text := CASE coalesce(unique_scope, 'queue') WHEN 'queue' THEN 'queue:' || queue ELSE 'kind:' || kind END;
  END IF;
  facts := jsonb_strip_nulls(jsonb_build_object('kind', kind, 'queue', queue, 'priority', priority,
    'run_at', CASE WHEN run_at IS NOT NULL THEN jsonb_build_object('at', (extract(epoch FROM run_at) * 1000000)::bigint)
      WHEN delay IS NOT NULL THEN jsonb_build_object('after', windlass.ms(delay)) END,
    'max_retries', max_retries, 'timeout_ms', windlass.ms(timeout), 'lease_ms', windlass.ms(lease),
    'grace_ms', coalesce(windlass.ms(grace), 0), 'backoff', own_backoff, 'agent_id', agent_id, 'parent_id', parent_id,
    'tags', tags, 'unique', CASE WHEN scope IS NOT NULL
      THEN jsonb_build_object('scope', scope, 'key', unique_key, 'policy', policy) END, 'key', key,
    'cost', nullif(cost, 1)));
  IF metadata IS NOT NULL AND metadata <> '{}' THEN
    facts := facts || jsonb_build_object('metadata', metadata);
  END IF;
  -- Lanes before jobs, as the engine locks them.
  IF key IS NOT NULL THEN
    SELECT e.backlog, e.drops INTO backlog, drops FROM windlass.enter_lane(queue, key) e;
  END IF;
  SELECT * INTO parent FROM windlass.jobs j WHERE j.id = parent_id FOR UPDATE;
  IF repeatable THEN
    SELECT * INTO known FROM windlass.job_events e WHERE e.job_id = job AND e.version = 1;
    -- What the engine leaves out of its facts stands here too; the trace of a request is not part of what it asks for.
    -- Of an erased job the rest is compared.
    IF FOUND AND ('{"priority": 0, "grace_ms": 0, "tags": [], "metadata": {}}' || known.detail::jsonb)
        #- '{metadata,traceparent}' #- '{metadata,tracestate}'
      = (CASE WHEN known.detail::jsonb ? 'erased' THEN '{"tags": []}' || facts || '{"metadata": {}, "erased": true}'
        ELSE ('{"tags": [], "metadata": {}}' || facts) #- '{metadata,traceparent}' #- '{metadata,tracestate}' END)
      AND (known.detail::jsonb ? 'erased' OR (known.payload, known.is_json) IS NOT DISTINCT FROM (bytes, is_json)) THEN
      existed := true;
      RETURN;
    ELSIF FOUND THEN
      RAISE EXCEPTION 'job_exists: there is a job %; leave id out, or use a new one', job USING ERRCODE = 'WL012',
        DETAIL = json_strip_nulls(json_build_object('code', 'job_exists', 'index', nth, 'id', job))::text;
    END IF;
  END IF;
  -- A key that is taken is read and not locked: this transaction may stay open, and its holder must be able to end.
  WHILE scope_text IS NOT NULL LOOP
    hash := coalesce(hash, windlass.fingerprint(payload, payload_bytes));
    SELECT * INTO holder FROM windlass.job_keys k
    WHERE k.scope = scope_text AND k.key = unique_key AND (k.expires_at IS NULL OR k.expires_at > at);
    IF FOUND AND holder.job_id = job AND repeatable THEN
      EXIT;
    ELSIF FOUND THEN
      id := holder.job_id;
      existed := true;
      payload_differs := holder.payload_hash <> hash;
      RETURN;
    END IF;
    IF backlog IS NOT NULL AND NOT windlass.enters(queue, key, nth, job, backlog, drops) THEN
      dropped := true;
      RETURN;
    END IF;
    DELETE FROM windlass.job_keys k WHERE k.scope = scope_text AND k.key = unique_key AND k.expires_at <= at;
    INSERT INTO windlass.job_keys (scope, key, job_id, payload_hash, expires_at)
    VALUES (scope_text, unique_key, job, hash, at + windlass.ms(unique_ttl) * interval '1 millisecond')
    ON CONFLICT ON CONSTRAINT job_keys_pkey DO NOTHING;
    EXIT WHEN FOUND;
  END LOOP;
  IF scope_text IS NULL AND backlog IS NOT NULL AND NOT windlass.enters(queue, key, nth, job, backlog, drops) THEN
    dropped := true;
    RETURN;
  END IF;
  IF parent_id IS NOT NULL AND parent.id IS NULL THEN
    RAISE EXCEPTION 'there is no job % to be the parent', parent_id USING ERRCODE = 'WL006',
      DETAIL = json_strip_nulls(json_build_object('code', 'parent_not_found', 'index', nth, 'id', parent_id))::text;
  ELSIF parent.kind = 'windlass.flow' AND parent.finished_at IS NOT NULL THEN
    RAISE EXCEPTION 'flow_not_open: job % is a flow that has ended', parent_id USING ERRCODE = 'WL005',
      DETAIL = json_strip_nulls(json_build_object('code', 'flow_not_open', 'index', nth, 'id', parent_id))::text;
  ELSIF parent.waiting_for = 'flow' AND EXISTS (SELECT 1 FROM windlass.job_events e
      WHERE e.job_id = parent_id AND e.key = 'windlass:seal') THEN
    RAISE EXCEPTION 'flow_not_open: job % is a flow that was sealed', parent_id USING ERRCODE = 'WL005',
      DETAIL = json_strip_nulls(json_build_object('code', 'flow_not_open', 'index', nth, 'id', parent_id))::text;
  END IF;
  PERFORM set_config('windlass_guard.door', 'open', true);
  INSERT INTO windlass.jobs (id, queue, kind, priority, status, due_at, attempt, retries, max_retries, crashes, version,
    generation, progress, signals, children, parent_id, steps_from, unique_policy, timeout_ms, lease_ms, grace_ms, backoff,
    meta_version, lane, created_at, updated_at)
  VALUES (job, queue, kind, priority, 'pending', due, 0, 0, max_retries, 0, 1, 0, 0, 0, 0, parent_id, 0, policy_text,
    nullif(windlass.ms(timeout), 0), windlass.ms(lease), coalesce(windlass.ms(grace), 0), own_backoff::text,
    CASE WHEN facts ? 'metadata' THEN 1 END, lane, at, at)
  ON CONFLICT ON CONSTRAINT jobs_pkey DO NOTHING;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'job_exists: there is a job %; leave id out, or use a new one', job USING ERRCODE = 'WL012',
      DETAIL = json_strip_nulls(json_build_object('code', 'job_exists', 'index', nth, 'id', job))::text;
  END IF;
  INSERT INTO windlass.line (queue, priority, due_at, id, lane) VALUES (queue, priority, due, job, lane);
  INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, detail, is_json, payload, kind,
    agent_id, parent_id, tags)
  VALUES (job, 1, at, 'job_created', actor, 0, 0, facts::text, is_json, bytes, kind, agent_id, parent_id,
    nullif(tags, '{}'));
  IF parent.id IS NOT NULL AND parent.status <> 'completed' THEN
    INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, detail)
    VALUES (parent.id, parent.version + 1, at, 'job_children_added', actor, parent.attempt, parent.generation,
      json_build_object('children', ARRAY[job])::text);
    UPDATE windlass.jobs j SET version = j.version + 1, children = j.children + 1, updated_at = at WHERE j.id = parent.id;
  END IF;
  PERFORM set_config('windlass_guard.door', '', true);
  IF notify THEN
    -- The channel is named like the schema.
    PERFORM pg_notify(current_schema(), queue);
  END IF;
END $$;

-- Enqueues a job in the caller's own transaction, also from a trigger, and returns its id; with a unique key that is
-- taken, the id of the job that has it; null if it was left out, because as many jobs of its key wait as may.
CREATE OR REPLACE FUNCTION windlass.enqueue(
  kind text, payload json DEFAULT NULL, queue text DEFAULT 'default', priority int DEFAULT 0,
  run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, max_retries int DEFAULT :MAX_RETRIES_DEFAULT,
  timeout interval DEFAULT NULL,
  lease interval DEFAULT NULL, grace interval DEFAULT NULL, backoff jsonb DEFAULT NULL, agent_id text DEFAULT NULL,
  metadata jsonb DEFAULT NULL, tags text[] DEFAULT NULL, unique_key text DEFAULT NULL, unique_by text DEFAULT NULL,
  unique_scope text DEFAULT NULL, unique_policy text DEFAULT 'succeeded', unique_ttl interval DEFAULT NULL,
  parent_id uuid DEFAULT NULL, id uuid DEFAULT NULL, payload_bytes bytea DEFAULT NULL, notify boolean DEFAULT false,
  key text DEFAULT NULL, cost int DEFAULT 1
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  made record;
BEGIN
  made := windlass.enqueue_one(NULL, windlass.sql_actor(), false, kind, payload, queue, priority, run_at, delay, max_retries,
    timeout, lease, grace, backoff, agent_id, metadata, tags, unique_key, unique_by, unique_scope, unique_policy,
    unique_ttl, parent_id, id, payload_bytes, notify, key, cost);
  RETURN CASE WHEN NOT made.dropped THEN made.id END;
END $$;

-- Enqueues jobs of a library in the caller's own transaction, all or none: an array of objects whose fields are those of
-- windlass.enqueue, durations in milliseconds, times in microseconds since 1970, payloads as text. Returns an answer each.
CREATE OR REPLACE FUNCTION windlass.enqueue_many(jobs json, actor text, notify boolean) RETURNS json LANGUAGE sql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
  -- Lanes in the one order in which everybody locks them.
  SELECT windlass.enter_lane(l.queue, l.key) FROM (
    SELECT DISTINCT (job ->> 'queue') COLLATE "C" AS queue, (job ->> 'key') COLLATE "C" AS key
    FROM json_array_elements(jobs) job WHERE job ->> 'key' IS NOT NULL ORDER BY 1, 2 OFFSET 0) l;
  SELECT json_agg(json_build_object('id', a.id, 'existed', a.existed, 'payload_differs', a.payload_differs,
    'dropped', a.dropped) ORDER BY j.n)
  FROM json_array_elements(jobs) WITH ORDINALITY j (job, n) CROSS JOIN LATERAL windlass.enqueue_one(
    j.n - 1, actor, true, job ->> 'kind', (job ->> 'payload')::json, job ->> 'queue', (job ->> 'priority')::int,
    timestamptz 'epoch' + (job ->> 'run_at')::bigint * interval '1 microsecond',
    (job ->> 'delay')::bigint * interval '1 millisecond', (job ->> 'max_retries')::int,
    (job ->> 'timeout')::bigint * interval '1 millisecond', (job ->> 'lease')::bigint * interval '1 millisecond',
    (job ->> 'grace')::bigint * interval '1 millisecond', (job ->> 'backoff')::jsonb, job ->> 'agent_id',
    (job ->> 'metadata')::jsonb, ARRAY(SELECT json_array_elements_text(job -> 'tags')), job ->> 'unique_key', NULL,
    job ->> 'unique_scope', job ->> 'unique_policy', (job ->> 'unique_ttl')::bigint * interval '1 millisecond',
    (job ->> 'parent_id')::uuid, (job ->> 'id')::uuid, NULL, notify, job ->> 'key', (job ->> 'cost')::int) a
$$;


-- Locks a job, its parent first, and checks that the token is its live lease; raises why not. Parents come first in the
-- order of locks: a completion in the same transaction tells the parent, and whoever else ends a child locks it first too.
CREATE OR REPLACE FUNCTION windlass.assert_lease(job uuid, token text) RETURNS windlass.jobs LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  row windlass.jobs;
BEGIN
  PERFORM 1 FROM windlass.jobs p WHERE p.id = (SELECT parent_id FROM windlass.jobs j WHERE j.id = job) FOR UPDATE;
  SELECT * INTO row FROM windlass.jobs j WHERE j.id = job FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no job %', job USING ERRCODE = 'WL006',
      DETAIL = json_build_object('code', 'not_found', 'id', job)::text;
  ELSIF row.finished_at IS NOT NULL THEN
    RAISE EXCEPTION 'the job has finished: it is %', row.status USING ERRCODE = 'WL007',
      DETAIL = json_build_object('code', 'job_finished', 'id', job, 'status', row.status)::text;
  ELSIF row.status <> 'running' THEN
    RAISE EXCEPTION 'the job is %, nobody holds it; stop working on it', row.status USING ERRCODE = 'WL008',
      DETAIL = json_build_object('code', 'not_leased', 'id', job, 'status', row.status)::text;
  ELSIF row.due_at <= clock_timestamp() OR row.deadline_at <= clock_timestamp() THEN
    RAISE EXCEPTION 'the lease is over; stop working on the job, another worker may run it' USING ERRCODE = 'WL009',
      DETAIL = json_build_object('code', 'lease_expired', 'id', job)::text;
  ELSIF (CASE WHEN token ~ '^[0-9a-fA-F]{32}$' THEN row.lease_hash <> substring(sha256(decode(token, 'hex')) FOR 16)
    ELSE true END) THEN
    RAISE EXCEPTION 'the job is held under another lease; stop working on it' USING ERRCODE = 'WL010',
      DETAIL = json_build_object('code', 'lease_mismatch', 'id', job)::text;
  END IF;
  RETURN row;
END $$;

-- Completes a held job in the caller's own transaction, so that its writes and the completion commit together or not
-- at all. Returns the version.
CREATE OR REPLACE FUNCTION windlass.complete(job uuid, token text, result json DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  row windlass.jobs;
  at timestamptz;
  who text;
BEGIN
  row := windlass.assert_lease(job, token);
  PERFORM windlass.check_within('result', octet_length(result::text), 0, :PAYLOAD_MAX_BYTES),
    windlass.check_depth('result', result);
  at := greatest(clock_timestamp(), row.updated_at);
  who := 'worker:' || row.worker_id;
  PERFORM set_config('windlass_guard.door', 'open', true);
  INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, lease, is_json, payload)
  VALUES (job, row.version + 1, at, 'job_completed', who, row.attempt, row.generation, row.lease_hash,
    CASE WHEN result IS NOT NULL THEN true END, convert_to(result::text, 'UTF8'));
  PERFORM set_config('windlass_guard.door', '', true);
  UPDATE windlass.jobs j SET status = 'completed', version = j.version + 1, progress = 100,
    result_version = CASE WHEN result IS NOT NULL THEN j.version + 1 END, error_version = NULL, error_code = NULL,
    due_at = NULL, deadline_at = NULL, worker_id = NULL, lease_hash = NULL, lease_expires_at = NULL, assignment = NULL,
    finished_at = at, updated_at = at
  WHERE j.id = job RETURNING j.* INTO row;
  PERFORM windlass.finished(row, at, 'engine');
  RETURN row.version;
END $$;

-- Cancels a job, or asks its holder to stop: 'cancelled', 'requested', or 'already'.
CREATE OR REPLACE FUNCTION windlass.cancel(job uuid, reason text DEFAULT NULL, force boolean DEFAULT false,
  force_after interval DEFAULT '30 seconds') RETURNS text LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  row windlass.jobs;
  at timestamptz;
  who text := windlass.sql_actor();
  held boolean;
BEGIN
  force := coalesce(force, false);
  force_after := coalesce(force_after, '30 seconds');
  PERFORM windlass.check_within('reason', octet_length(reason), 0, :TEXT_MAX_BYTES),
    windlass.check_within('force_after', windlass.ms(force_after), 0, :LEASE_MAX_MS);
  PERFORM 1 FROM windlass.jobs p WHERE p.id = (SELECT parent_id FROM windlass.jobs j WHERE j.id = job) FOR UPDATE;
  SELECT * INTO row FROM windlass.jobs j WHERE j.id = job FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no job %', job USING ERRCODE = 'WL006',
      DETAIL = json_build_object('code', 'not_found', 'id', job)::text;
  END IF;
  at := greatest(clock_timestamp(), row.updated_at);
  held := row.status = 'running' AND row.due_at > at AND (row.deadline_at IS NULL OR row.deadline_at > at);
  IF row.status = 'cancelled' OR held AND row.cancel_requested_at IS NOT NULL AND NOT force THEN
    RETURN 'already';
  ELSIF row.finished_at IS NOT NULL THEN
    RAISE EXCEPTION 'the job has finished: it is %', row.status USING ERRCODE = 'WL007',
      DETAIL = json_build_object('code', 'job_finished', 'id', job, 'status', row.status)::text;
  END IF;
  PERFORM set_config('windlass_guard.door', 'open', true);
  IF held AND NOT force THEN
    INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, detail)
    VALUES (job, row.version + 1, at, 'job_cancel_requested', who, row.attempt, row.generation, json_build_object(
      'reason', reason, 'force_at', (extract(epoch FROM at + force_after) * 1000000)::bigint)::text);
    PERFORM set_config('windlass_guard.door', '', true);
    UPDATE windlass.jobs j SET version = j.version + 1, cancel_requested_at = at, updated_at = at,
      deadline_at = least(j.deadline_at, at + force_after) WHERE j.id = job;
    RETURN 'requested';
  END IF;
  INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, detail)
  VALUES (job, row.version + 1, at, 'job_cancelled', who, row.attempt, row.generation,
    json_build_object('reason', reason)::text);
  PERFORM set_config('windlass_guard.door', '', true);
  UPDATE windlass.jobs j SET status = 'cancelled', version = j.version + 1, due_at = NULL, deadline_at = NULL,
    worker_id = NULL, lease_hash = NULL, lease_expires_at = NULL, assignment = NULL,
    children = CASE WHEN j.waiting_for = 'upstream' THEN 0 ELSE j.children END, waiting_for = NULL, wait_name = NULL,
    finished_at = at, updated_at = at
  WHERE j.id = job RETURNING j.* INTO row;
  PERFORM windlass.finished(row, at, 'engine');
  RETURN 'cancelled';
END $$;

-- Signals a job: wakes it, or is kept until it waits. Returns whether this key was sent before.
CREATE OR REPLACE FUNCTION windlass.signal(job uuid, name text, payload json DEFAULT NULL, key text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  row windlass.jobs;
  known windlass.job_events;
  at timestamptz;
  waits boolean;
  woke boolean;
  noticed boolean;
BEGIN
  PERFORM windlass.check_name('name', name),
    windlass.check_within('payload', octet_length(payload::text), 0, :EVENT_PAYLOAD_MAX_BYTES),
    windlass.check_depth('payload', payload),
    windlass.check_within('key', octet_length(key), 1, :KEY_MAX_BYTES);
  IF key LIKE 'windlass:%' THEN
    RAISE EXCEPTION 'key is %: must not start with windlass:, which is the engine''s own', key USING ERRCODE = 'WL005';
  END IF;
  SELECT * INTO row FROM windlass.jobs j WHERE j.id = job FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no job %', job USING ERRCODE = 'WL006',
      DETAIL = json_build_object('code', 'not_found', 'id', job)::text;
  END IF;
  SELECT * INTO known FROM windlass.job_events e WHERE e.job_id = job AND e.key = signal.key;
  IF FOUND THEN
    IF known.type <> 'job_signalled' OR known.detail::json ->> 'name' <> name THEN
      RAISE EXCEPTION 'the key is on record at version % for something else; use a new key', known.version
        USING ERRCODE = 'WL011', DETAIL = json_build_object('code', 'key_reused', 'id', job, 'version', known.version)::text;
    END IF;
    RETURN true;
  ELSIF row.finished_at IS NOT NULL THEN
    RAISE EXCEPTION 'the job has finished: it is %', row.status USING ERRCODE = 'WL007',
      DETAIL = json_build_object('code', 'job_finished', 'id', job, 'status', row.status)::text;
  END IF;
  at := greatest(clock_timestamp(), row.updated_at);
  waits := row.status = 'waiting' AND row.due_at IS NULL AND (row.deadline_at IS NULL OR row.deadline_at > at);
  woke := waits AND row.waiting_for = 'signal' AND row.wait_name = name;
  -- Who waits for any news is woken, and the signal is kept.
  noticed := waits AND row.waiting_for = 'news';
  PERFORM set_config('windlass_guard.door', 'open', true);
  INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, key, detail, is_json, payload)
  VALUES (job, row.version + 1, at, 'job_signalled', windlass.sql_actor(), row.attempt, row.generation, key,
    (jsonb_build_object('name', name, 'woke', woke)
      || CASE WHEN noticed THEN '{"noticed": true}' ELSE '{}' END::jsonb)::text, CASE WHEN payload IS NOT NULL THEN true END,
    convert_to(payload::text, 'UTF8'));
  PERFORM set_config('windlass_guard.door', '', true);
  UPDATE windlass.jobs j SET version = j.version + 1, updated_at = at, signals = j.signals + (NOT woke)::int,
    due_at = CASE WHEN woke OR noticed THEN at ELSE j.due_at END,
    deadline_at = CASE WHEN woke OR noticed THEN NULL ELSE j.deadline_at END,
    wake_version = CASE WHEN woke OR noticed THEN j.version + 1 ELSE j.wake_version END
  WHERE j.id = job;
  RETURN false;
END $$;

-- Stored JSON as jsonb; null for other bytes. JSON that jsonb cannot hold, such as "\u0000", is a string of its text.
CREATE OR REPLACE FUNCTION windlass.as_json(is_json boolean, bytes bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  written text;
BEGIN
  IF is_json AND bytes IS NOT NULL THEN
    written := convert_from(bytes, 'UTF8');
    RETURN written::jsonb;
  END IF;
  RETURN NULL;
EXCEPTION WHEN data_exception OR program_limit_exceeded OR statement_too_complex THEN
  RETURN to_jsonb(written);
END $$;

-- Removes finished jobs that are still at the version that was archived, whole, and leaves tombstones that name the
-- archive, if there is one. Only the owner may call it, or whom the owner lets.
CREATE OR REPLACE FUNCTION windlass.purge(jobs uuid[], versions bigint[], archive text DEFAULT NULL,
  at timestamptz DEFAULT NULL) RETURNS SETOF uuid LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  gone uuid[];
BEGIN
  PERFORM set_config('windlass_guard.purging', 'on', true);
  gone := ARRAY(SELECT j.id FROM unnest(jobs, versions) a (id, version)
    JOIN windlass.jobs j ON j.id = a.id AND j.version = a.version AND j.finished_at IS NOT NULL FOR UPDATE OF j);
  UPDATE windlass.job_keys k SET outcome = j.status FROM windlass.jobs j WHERE j.id = ANY (gone) AND k.job_id = j.id;
  DELETE FROM windlass.tombstones t WHERE t.job_id = ANY (gone);
  IF archive IS NOT NULL THEN
    INSERT INTO windlass.tombstones (job_id, status, finished_at, archive, purged_at)
    SELECT j.id, j.status, j.finished_at, purge.archive, coalesce(purge.at, clock_timestamp())
    FROM windlass.jobs j WHERE j.id = ANY (gone);
  END IF;
  INSERT INTO windlass.removals (job_id, version, removed_at)
  SELECT j.id, j.version, coalesce(purge.at, clock_timestamp()) FROM windlass.jobs j WHERE j.id = ANY (gone)
  ON CONFLICT DO NOTHING;
  -- A cursor may name one of them: it is told from an event that a restore lost.
  WITH removed AS (DELETE FROM windlass.job_events WHERE job_id = ANY (gone) RETURNING seq)
  UPDATE windlass.store SET purged_seq = last FROM (SELECT max(seq) AS last FROM removed) r WHERE last > purged_seq;
  DELETE FROM windlass.job_logs WHERE job_id = ANY (gone);
  DELETE FROM windlass.job_log_parts WHERE job_id = ANY (gone);
  DELETE FROM windlass.approvals WHERE job_id = ANY (gone);
  DELETE FROM windlass.jobs WHERE id = ANY (gone);
  PERFORM set_config('windlass_guard.purging', 'off', true);
  RETURN QUERY SELECT unnest(gone);
END $$;

-- Whether a detail says the same as before but for what an erasure takes from it. What the engine leaves out because it is
-- the default may stand there or not. A zero character, which this server's JSON cannot hold, counts as any other.
CREATE OR REPLACE FUNCTION windlass.says_less(before text, after text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT before IS NOT DISTINCT FROM after OR NOT EXISTS (
    SELECT 1 FROM json_each(replace(before, '\u0000', '\ufffd')::json) b
    FULL JOIN json_each(replace(after, '\u0000', '\ufffd')::json) a USING (key)
    WHERE CASE WHEN key IN ('metadata', 'stage', 'reason', 'prompt')
        THEN coalesce(a.value::text, 'null') NOT IN ('null', '{}', '""')
      WHEN key = 'erased' THEN coalesce(a.value::text, '') <> 'true'
      ELSE (CASE WHEN b.value::text NOT IN ('null', '0', '[]', '{}', 'false') THEN b.value::jsonb END)
        IS DISTINCT FROM (CASE WHEN a.value::text NOT IN ('null', '0', '[]', '{}', 'false') THEN a.value::jsonb END) END)
$$;

-- Leaves of some events of a finished job that is still at this version only these details, and of its log lines a mark that
-- keeps their numbers. The caller writes the event that says so. Only the owner may call it, or whom the owner lets.
CREATE OR REPLACE FUNCTION windlass.erase(job uuid, at_version bigint, versions bigint[], details text[], last bigint,
  mark text, at timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
BEGIN
  PERFORM 1 FROM windlass.jobs j WHERE j.id = job AND j.version = at_version AND j.finished_at IS NOT NULL FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'job % is not finished, or not at version %', job, at_version USING ERRCODE = 'WL003';
  END IF;
  IF EXISTS (SELECT 1 FROM unnest(versions, details) a (version, detail)
    JOIN windlass.job_events e ON e.job_id = job AND e.version = a.version
    WHERE NOT windlass.says_less(e.detail, a.detail) OR e.type = 'job_erased') THEN
    RAISE EXCEPTION 'history is never changed: an erasure of job % only takes from its log', job USING ERRCODE = 'WL003';
  END IF;
  PERFORM set_config('windlass_guard.erasing', job::text, true);
  UPDATE windlass.job_events e SET payload = NULL, is_json = NULL, detail = a.detail
  FROM unnest(versions, details) a (version, detail) WHERE e.job_id = job AND e.version = a.version;
  PERFORM set_config('windlass_guard.erasing', '', true);
  DELETE FROM windlass.job_logs l WHERE l.job_id = job;
  DELETE FROM windlass.job_log_parts p WHERE p.job_id = job;
  IF last > 0 THEN
    INSERT INTO windlass.job_log_parts (job_id, first_n, last_n, part, moved_at) VALUES (job, 1, last, mark, at);
  END IF;
END $$;

-- Gives a role what the engine needs and nothing more: to read, and to call the functions that write. Granted again, it
-- gives those of a newer version too.
CREATE OR REPLACE FUNCTION windlass.grant_app(role regrole) RETURNS void LANGUAGE plpgsql
SET search_path = windlass, pg_temp AS $$
DECLARE
  called regprocedure;
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA windlass FROM %s', role);
  EXECUTE format('GRANT USAGE ON SCHEMA windlass TO %s', role);
  EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA windlass TO %s', role);
  EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA windlass TO %s', role);
  EXECUTE format('GRANT EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many, windlass.cancel, windlass.signal,
    windlass.assert_lease, windlass.complete, windlass.purge, windlass.erase, windlass.as_json,
    windlass.server, windlass.mark, windlass.adopt TO %s', role);
  FOR called IN SELECT p.oid FROM pg_proc p
    WHERE p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'windlass.jobs'::regclass)
      AND p.proname LIKE 'app\_%'
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', called, role);
  END LOOP;
END $$;

-- Gives a role the views and nothing else.
CREATE OR REPLACE FUNCTION windlass.grant_reader(role regrole) RETURNS void LANGUAGE plpgsql
SET search_path = windlass, pg_temp AS $$
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA windlass TO %s', role);
  EXECUTE format('GRANT SELECT ON windlass.job_view, windlass.dead_letter_view, windlass.queue_view,
    windlass.history_view TO %s', role);
  EXECUTE format('GRANT EXECUTE ON FUNCTION windlass.as_json TO %s', role);
END $$;
