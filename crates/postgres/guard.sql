-- The last wall: what the database itself refuses, from the engine and from a hand with the psql prompt.
-- Current law, re-created when its number rises and this text has changed. The pairs are tested against core's table over
-- all N x N. Functions that act for the owner find names in this schema only and serve no table but its own.

-- Who is at the prompt, as an actor: a role's name may hold characters that no actor may.
CREATE OR REPLACE FUNCTION windlass.sql_actor() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT 'sql:' || regexp_replace(session_user, '[\u0001-\u001f\u007f-\u009f]', '?', 'g')
$$;

-- What a job's end entails: its key, its approvals, its parent, the jobs that wait for it, and the ends that follow from
-- those. A second copy of `Ending` in core/src/end.rs and core/src/flow.rs.
CREATE OR REPLACE FUNCTION windlass.finished(job windlass.jobs, at timestamptz, who text) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  ended windlass.jobs[] := ARRAY[job];
  p windlass.jobs;
  moment timestamptz;
  is_flow boolean;
  woke boolean;
BEGIN
  WHILE cardinality(ended) > 0 LOOP
    job := ended[1];
    ended := ended[2:];
    DELETE FROM windlass.job_keys k WHERE k.job_id = job.id
      AND (job.unique_policy = 'active' OR job.unique_policy = 'succeeded' AND job.status <> 'completed');
    UPDATE windlass.approvals a SET decided_at = at, status = CASE WHEN a.expires_at <= at THEN 'expired' ELSE 'void' END
    WHERE a.job_id = job.id AND a.status = 'pending';
    SELECT * INTO p FROM windlass.jobs j
    WHERE j.id = job.parent_id AND j.status <> 'completed' AND j.children > 0 FOR UPDATE;
    IF FOUND THEN
      moment := greatest(at, p.updated_at);
      is_flow := p.status = 'waiting' AND p.waiting_for = 'flow' AND p.due_at IS NULL;
      woke := p.status = 'waiting'
        AND (p.children = 1 AND p.waiting_for IN ('children', 'upstream') OR p.waiting_for = 'news')
        AND p.due_at IS NULL AND (p.deadline_at IS NULL OR p.deadline_at > moment)
        OR is_flow AND p.kind <> 'windlass.flow' AND CASE p.wait_name WHEN 'all' THEN p.children = 1
          WHEN 'success' THEN p.children = 1 AND job.status = 'completed' ELSE job.status <> 'completed' END;
      PERFORM windlass.log_follow_up(p, moment, 'job_child_finished', who,
        json_build_object('child', job.id, 'status', job.status, 'woke', woke)::text, NULL);
      UPDATE windlass.jobs j SET version = j.version + 1, children = j.children - 1, updated_at = moment,
        due_at = CASE WHEN woke THEN moment ELSE j.due_at END,
        deadline_at = CASE WHEN woke THEN NULL ELSE j.deadline_at END,
        wake_version = CASE WHEN woke THEN j.version + 1 ELSE j.wake_version END
      WHERE j.id = p.id RETURNING j.* INTO p;
      IF is_flow AND NOT woke AND job.status <> 'completed' AND p.wait_name <> 'all' THEN
        PERFORM windlass.log_follow_up(p, moment, 'job_failed', who, '{"code":"child_failed"}',
          format('{"code":"child_failed","message":"job %s did not complete"}', job.id));
        UPDATE windlass.jobs j SET status = 'failed', version = j.version + 1, updated_at = moment, finished_at = moment,
          waiting_for = NULL, wait_name = NULL, deadline_at = NULL, error_code = 'child_failed',
          error_version = j.version + 1
        WHERE j.id = p.id RETURNING j.* INTO p;
        ended := array_append(ended, p);
      ELSIF is_flow AND NOT woke AND p.children = 0 THEN
        PERFORM windlass.log_follow_up(p, moment, 'job_completed', who, NULL, NULL);
        UPDATE windlass.jobs j SET status = 'completed', version = j.version + 1, updated_at = moment, finished_at = moment,
          waiting_for = NULL, wait_name = NULL, deadline_at = NULL, progress = 100, error_code = NULL, error_version = NULL
        WHERE j.id = p.id RETURNING j.* INTO p;
        ended := array_append(ended, p);
      END IF;
    END IF;
    IF job.dependents IS NOT NULL THEN
      ended := ended || windlass.tell_dependents(job, at, who);
    END IF;
    IF job.status = 'cancelled' AND job.attempt = 0 AND job.generation = 0 AND job.children > 0 THEN
      ended := ended || windlass.cancel_flow(job, at, who);
    END IF;
  END LOOP;
END $$;

-- Appends to the log of a job that learns of another's end.
CREATE OR REPLACE FUNCTION windlass.log_follow_up(job windlass.jobs, at timestamptz, type text, who text, detail text,
  error text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
BEGIN
  PERFORM set_config('windlass_guard.door', 'open', true);
  INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, detail, is_json, payload)
  VALUES (job.id, job.version + 1, at, type, who, job.attempt, job.generation, detail,
    CASE WHEN error IS NOT NULL THEN true END, convert_to(error, 'UTF8'));
  PERFORM set_config('windlass_guard.door', '', true);
END $$;

-- Tells those who wait for a job that it has ended, by id: each counts one less, or is skipped. Returns whom it ended.
CREATE OR REPLACE FUNCTION windlass.tell_dependents(job windlass.jobs, at timestamptz, who text) RETURNS windlass.jobs[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  ended windlass.jobs[] := '{}';
  edge record;
  d windlass.jobs;
  moment timestamptz;
  woke boolean;
BEGIN
  FOR edge IN
    SELECT DISTINCT ON (w.job) w.job, w."on" FROM windlass.job_events e
    CROSS JOIN LATERAL json_to_recordset(e.detail::json -> 'dependents') w (job uuid, "on" text)
    WHERE e.job_id = tell_dependents.job.id AND e.type = 'job_dependents_added' AND e.version > coalesce((
      SELECT max(r.version) FROM windlass.job_events r
      WHERE r.job_id = tell_dependents.job.id AND r.type IN ('job_redriven', 'job_rearmed', 'job_forked')), 0)
    ORDER BY w.job, e.version DESC
  LOOP
    SELECT * INTO d FROM windlass.jobs j
    WHERE j.id = edge.job AND j.status = 'waiting' AND j.waiting_for = 'upstream' AND j.due_at IS NULL FOR UPDATE;
    CONTINUE WHEN NOT FOUND;
    moment := greatest(at, d.updated_at);
    IF edge."on" = 'finished' OR (edge."on" = 'success') = (job.status = 'completed') THEN
      woke := d.children <= 1;
      PERFORM windlass.log_follow_up(d, moment, 'job_upstream_finished', who,
        json_build_object('upstream', job.id, 'status', job.status, 'woke', woke)::text, NULL);
      UPDATE windlass.jobs j SET version = j.version + 1, children = j.children - 1, updated_at = moment,
        due_at = CASE WHEN woke THEN moment END, wake_version = CASE WHEN woke THEN j.version + 1 END
      WHERE j.id = d.id;
    ELSE
      PERFORM windlass.log_follow_up(d, moment, 'job_skipped', who,
        json_build_object('upstream', job.id, 'status', job.status)::text,
        format('{"code":"skipped","message":"job %s is %s, and this job runs only after its %s"}', job.id, job.status,
          edge."on"));
      UPDATE windlass.jobs j SET status = 'cancelled', version = j.version + 1, children = 0, updated_at = moment,
        finished_at = moment, waiting_for = NULL, wait_name = NULL, deadline_at = NULL, error_code = 'skipped',
        error_version = j.version + 1
      WHERE j.id = d.id RETURNING j.* INTO d;
      ended := array_append(ended, d);
    END IF;
  END LOOP;
  RETURN ended;
END $$;

-- Cancels the live jobs of a flow that was cancelled before they had ended. Returns whom it ended.
CREATE OR REPLACE FUNCTION windlass.cancel_flow(job windlass.jobs, at timestamptz, who text) RETURNS windlass.jobs[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  ended windlass.jobs[] := '{}';
  node uuid;
  d windlass.jobs;
  moment timestamptz;
  reason text := format('its flow %s was cancelled', job.id);
BEGIN
  IF NOT EXISTS (SELECT 1 FROM windlass.job_events e WHERE e.job_id = job.id AND e.version = 1
    AND e.detail::json #> '{graph,flow}' IS NOT NULL) THEN
    RETURN ended;
  END IF;
  FOR node IN
    SELECT DISTINCT c.id::uuid FROM windlass.job_events e
    CROSS JOIN LATERAL json_array_elements_text(e.detail::json -> 'children') c (id)
    WHERE e.job_id = job.id AND e.type = 'job_children_added' ORDER BY 1
  LOOP
    SELECT * INTO d FROM windlass.jobs j
    WHERE j.id = node AND j.finished_at IS NULL AND j.cancel_requested_at IS NULL FOR UPDATE;
    CONTINUE WHEN NOT FOUND;
    moment := greatest(at, d.updated_at);
    IF d.status = 'running' AND d.due_at > moment AND (d.deadline_at IS NULL OR d.deadline_at > moment) THEN
      PERFORM windlass.log_follow_up(d, moment, 'job_cancel_requested', who, json_build_object('reason', reason,
        'force_at', (extract(epoch FROM moment + interval '30 seconds') * 1000000)::bigint)::text, NULL);
      UPDATE windlass.jobs j SET version = j.version + 1, cancel_requested_at = moment, updated_at = moment,
        deadline_at = least(j.deadline_at, moment + interval '30 seconds') WHERE j.id = d.id;
    ELSE
      PERFORM windlass.log_follow_up(d, moment, 'job_cancelled', who, json_build_object('reason', reason)::text, NULL);
      UPDATE windlass.jobs j SET status = 'cancelled', version = j.version + 1, due_at = NULL, deadline_at = NULL,
        worker_id = NULL, lease_hash = NULL, lease_expires_at = NULL, assignment = NULL,
        children = CASE WHEN j.waiting_for = 'upstream' THEN 0 ELSE j.children END, waiting_for = NULL, wait_name = NULL,
        finished_at = moment, updated_at = moment
      WHERE j.id = d.id RETURNING j.* INTO d;
      ended := array_append(ended, d);
    END IF;
  END LOOP;
  RETURN ended;
END $$;

-- Whether a job may go from one status to another.
CREATE OR REPLACE FUNCTION windlass.is_legal(old text, new text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE old
    WHEN 'pending' THEN new IN ('assigned', 'running', 'cancelled')
    WHEN 'assigned' THEN new IN ('running', 'orphaned', 'cancelled')
    WHEN 'running' THEN new IN ('retry', 'waiting', 'completed', 'failed', 'timed_out', 'cancelled')
    WHEN 'retry' THEN new IN ('assigned', 'running', 'failed', 'cancelled')
    WHEN 'waiting' THEN new IN ('assigned', 'running', 'completed', 'failed', 'cancelled')
    WHEN 'orphaned' THEN new IN ('assigned', 'running', 'cancelled')
    WHEN 'failed' THEN new IN ('pending')
    WHEN 'timed_out' THEN new IN ('pending')
    WHEN 'cancelled' THEN new IN ('pending', 'waiting')
    ELSE false END
$$;

-- Illegal transitions are refused, whoever tries them. An update that does not raise version, by one or by what was logged
-- before, comes from a hand, unless it is a renewal, which moves due_at and lease_expires_at of a running job and nothing
-- else. A hand may set status to cancelled or failed, along a legal transition: it is logged as such, the row made whole,
-- the key freed, approvals closed, the parent told.
-- The line, the holds and the columns that drive rare lists follow here, so that no verb keeps them. What is handed out
-- leaves the line by the statement that hands it out, and a completed job was held, so it is not in line. A lease that ends
-- sooner than it was to (a renewal under a forced cancel) is looked at sooner.
CREATE OR REPLACE FUNCTION windlass.guard() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  now timestamptz;
  who text := windlass.sql_actor();
  renewed windlass.jobs;
  changed text;
  logged bigint;
BEGIN
  IF TG_RELID <> 'windlass.jobs'::regclass THEN
    RAISE EXCEPTION '% serves windlass.jobs only, not %', 'windlass.guard()', TG_RELID::regclass USING ERRCODE = 'WL004';
  END IF;
  <<checked>>
  BEGIN
    now := greatest(clock_timestamp(), OLD.updated_at);
    renewed := OLD;
    IF OLD.status <> NEW.status AND NOT windlass.is_legal(OLD.status, NEW.status) THEN
      RAISE EXCEPTION 'illegal transition: a job that is % cannot become %', OLD.status, NEW.status USING ERRCODE = 'WL001';
    ELSIF NEW.version = OLD.version + 1 THEN
      EXIT checked;
    ELSIF NEW.version > OLD.version AND NEW.version - OLD.version = (
      SELECT count(*) FROM windlass.job_events e
      WHERE e.job_id = OLD.id AND e.version > OLD.version AND e.version <= NEW.version) THEN
      EXIT checked;
    END IF;
    renewed.due_at := NEW.due_at;
    renewed.lease_expires_at := NEW.lease_expires_at;
    IF OLD.status = 'running' AND renewed IS NOT DISTINCT FROM NEW THEN
      EXIT checked;
    END IF;
    SELECT n.key INTO changed FROM jsonb_each(to_jsonb(NEW)) n JOIN jsonb_each(to_jsonb(OLD)) o ON o.key = n.key
    WHERE n.value <> o.value AND n.key <> 'status' ORDER BY n.key LIMIT 1;
    IF changed IS NOT NULL THEN
      RAISE EXCEPTION 'jobs.% is not changed by hand; use the windlass command', changed USING ERRCODE = 'WL002';
    END IF;
    IF NEW.status = OLD.status THEN
      EXIT checked;
    ELSIF NEW.status NOT IN ('cancelled', 'failed') THEN
      RAISE EXCEPTION 'by hand a job that is % cannot become %, only cancelled or failed; use the windlass command',
        OLD.status, NEW.status USING ERRCODE = 'WL002';
    ELSIF OLD.waiting_for = 'upstream' AND OLD.due_at IS NULL AND right(OLD.kind, 5) = ':undo' THEN
      -- It waits to undo a job. Whoever ends all of a queue ends that job too, and is not to keep it from being undone.
      RETURN NULL;
    END IF;
    NEW.version := OLD.version + 1;
    NEW.due_at := NULL; NEW.deadline_at := NULL; NEW.worker_id := NULL; NEW.lease_hash := NULL;
    NEW.lease_expires_at := NULL; NEW.assignment := NULL; NEW.waiting_for := NULL; NEW.wait_name := NULL;
    NEW.children := CASE WHEN OLD.waiting_for = 'upstream' THEN 0 ELSE OLD.children END;
    NEW.finished_at := now; NEW.updated_at := now;
    IF NEW.status = 'failed' THEN
      NEW.error_code := 'by_hand';
      NEW.error_version := NEW.version;
    END IF;
    PERFORM set_config('windlass_guard.door', 'open', true);
    INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, detail, is_json, payload)
    VALUES (OLD.id, NEW.version, now, 'job_' || NEW.status, who, OLD.attempt, OLD.generation,
      CASE NEW.status WHEN 'failed' THEN '{"code":"by_hand"}' ELSE '{"reason":"by hand"}' END,
      CASE NEW.status WHEN 'failed' THEN true END,
      CASE NEW.status WHEN 'failed' THEN convert_to('{"code":"by_hand","message":"failed by hand"}', 'UTF8') END)
    RETURNING seq INTO logged;
    PERFORM set_config('windlass_guard.door', '', true);
    -- The first of this statement; what follows is found in the log from there.
    IF coalesce(current_setting('windlass_guard.by_hand', true), '') = '' THEN
      PERFORM set_config('windlass_guard.by_hand', logged::text, true);
    END IF;
  END checked;
  IF NEW.status <> OLD.status THEN
    NEW.parked := CASE WHEN NEW.status IN ('waiting', 'assigned') THEN NEW.status END;
    NEW.assigned_to := CASE WHEN NEW.status = 'assigned' THEN NEW.worker_id END;
    NEW.dead := CASE WHEN NEW.status IN ('failed', 'timed_out', 'cancelled') THEN NEW.status END;
    NEW.dead_at := CASE WHEN NEW.status IN ('failed', 'timed_out', 'cancelled') THEN NEW.finished_at END;
  END IF;
  IF NEW.status = 'running' THEN
    IF OLD.status = 'running' AND NEW.due_at < OLD.due_at THEN
      UPDATE windlass.holds h SET check_at = NEW.due_at WHERE h.claim = NEW.claim AND h.check_at > NEW.due_at;
    END IF;
    RETURN NEW;
  END IF;
  IF OLD.due_at IS NOT NULL THEN
    DELETE FROM windlass.line l
    WHERE l.queue = OLD.queue AND l.priority = OLD.priority AND l.due_at = OLD.due_at AND l.id = OLD.id;
  END IF;
  IF NEW.due_at IS NOT NULL THEN
    INSERT INTO windlass.line (queue, priority, due_at, id, lane)
    VALUES (NEW.queue, NEW.priority, NEW.due_at, NEW.id, NEW.lane);
  END IF;
  RETURN NEW;
END $$;

-- Once all rows of the statement are written: a hand may end parent and child with one.
CREATE OR REPLACE FUNCTION windlass.ended_by_hand() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  since bigint := nullif(current_setting('windlass_guard.by_hand', true), '')::bigint;
  who text := windlass.sql_actor();
  job windlass.jobs;
BEGIN
  IF TG_RELID <> 'windlass.jobs'::regclass THEN
    RAISE EXCEPTION '% serves windlass.jobs only, not %', 'windlass.ended_by_hand()', TG_RELID::regclass
      USING ERRCODE = 'WL004';
  END IF;
  IF since IS NULL THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('windlass_guard.by_hand', '', true);
  FOR job IN
    SELECT j.* FROM windlass.job_events e JOIN windlass.jobs j ON j.id = e.job_id
    WHERE e.seq >= since AND e.tx = pg_current_xact_id() AND e.actor = who
      AND e.detail IN ('{"code":"by_hand"}', '{"reason":"by hand"}')
    ORDER BY e.seq
  LOOP
    PERFORM windlass.finished(job, job.finished_at, who);
  END LOOP;
  RETURN NULL;
END $$;

-- What a job is never changes, whatever the version says.
CREATE OR REPLACE FUNCTION windlass.keep_facts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  changed text;
BEGIN
  SELECT n.key INTO changed FROM jsonb_each(to_jsonb(NEW)) n JOIN jsonb_each(to_jsonb(OLD)) o ON o.key = n.key
  WHERE n.value <> o.value AND n.key IN ('id', 'queue', 'kind', 'priority', 'max_retries', 'parent_id', 'unique_policy',
    'timeout_ms', 'lease_ms', 'grace_ms', 'backoff', 'lane', 'created_at') ORDER BY n.key LIMIT 1;
  IF changed IS NOT NULL THEN
    RAISE EXCEPTION 'jobs.% is not changed by hand; it never changes', changed USING ERRCODE = 'WL002';
  END IF;
  RETURN NEW;
END $$;

-- History is append-only; only a purge removes it, with its job.
CREATE OR REPLACE FUNCTION windlass.keep_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%: % is refused; history is append-only and jobs are removed only when finished, by a purge',
    TG_TABLE_NAME, TG_OP USING ERRCODE = 'WL003';
END $$;

-- The doors for new rows are the engine's, whose connections say who they are, and the functions that people call.
-- Asked once per statement, and by a function: its plan is kept, where a condition would be read anew.
CREATE OR REPLACE FUNCTION windlass.refuse_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('application_name') LIKE 'windlass%' OR current_setting('windlass_guard.door', true) = 'open' THEN
    RETURN NULL;
  ELSIF TG_TABLE_NAME = 'jobs' THEN
    RAISE EXCEPTION 'rows of jobs are not written by hand; enqueue with windlass.enqueue or the windlass command'
      USING ERRCODE = 'WL004';
  END IF;
  RAISE EXCEPTION 'history is written by windlass, not by hand; use windlass.cancel, windlass.signal or the windlass command'
    USING ERRCODE = 'WL004';
END $$;

-- Before every table of a store whose jobs move to another or in from there. Only who moves them writes.
CREATE OR REPLACE FUNCTION windlass.refuse_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('windlass_guard.moving', true) = 'on' THEN
    RETURN NULL;
  END IF;
  RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'WL014';
END $$;

-- Notes for this transaction what a function of the app role left to be made good.
CREATE OR REPLACE FUNCTION windlass.owe(what text, id text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO windlass.owed (what, id) VALUES (what, id)
$$;

-- The same of several.
CREATE OR REPLACE FUNCTION windlass.owe_all(what text, ids uuid[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO windlass.owed (what, id) SELECT DISTINCT what, i::text FROM unnest(ids) i
$$;

-- At its commit: a job's row and its log agree, a decided approval has its votes, a key its audit entry.
CREATE OR REPLACE FUNCTION windlass.settle_debts() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  wrong text;
BEGIN
  IF TG_RELID <> 'windlass.owed'::regclass THEN
    RAISE EXCEPTION '% serves windlass.owed only, not %', 'windlass.settle_debts()', TG_RELID::regclass
      USING ERRCODE = 'WL004';
  END IF;
  wrong := CASE NEW.what WHEN 'job' THEN windlass.job_at_odds(NEW.id::uuid)
    WHEN 'approval' THEN (SELECT windlass.approval_at_odds(a) FROM windlass.approvals a WHERE a.id = NEW.id::uuid)
    WHEN 'approvals of job' THEN
      (SELECT min(windlass.approval_at_odds(a)) FROM windlass.approvals a WHERE a.job_id = NEW.id::uuid)
    ELSE (SELECT 'key ' || k.name || ' has no audit entry' FROM windlass.access_keys k WHERE k.name = NEW.id
      AND NOT EXISTS (SELECT 1 FROM windlass.audit u WHERE u.target = k.name
        AND u.action = CASE WHEN k.revoked_at IS NULL THEN 'key.create' ELSE 'key.revoke' END)) END;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'nothing was written: %', wrong USING ERRCODE = 'WL013';
  END IF;
  DELETE FROM windlass.owed WHERE what = NEW.what AND id = NEW.id;
  RETURN NULL;
END $$;

-- What is wrong between a job's row and its log; null if nothing is.
CREATE OR REPLACE FUNCTION windlass.job_at_odds(job uuid) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  row windlass.jobs;
  logged bigint;
  last windlass.job_events;
BEGIN
  SELECT * INTO row FROM windlass.jobs j WHERE j.id = job;
  SELECT e.version INTO logged FROM windlass.job_events e WHERE e.job_id = job ORDER BY e.version DESC LIMIT 1;
  IF row.version IS DISTINCT FROM logged THEN
    RETURN format('the row of job %s is at version %s and its log at %s', job, coalesce(row.version, 0),
      coalesce(logged, 0));
  END IF;
  -- The newest event that says where the job stands.
  SELECT * INTO last FROM windlass.job_events e WHERE e.job_id = job AND e.type IN ('job_created', 'job_claimed',
    'job_started', 'job_assigned', 'job_orphaned', 'job_completed', 'job_retried', 'job_released', 'job_failed',
    'job_timed_out', 'job_waiting', 'job_cancelled', 'job_skipped', 'job_redriven', 'job_rearmed', 'job_forked')
  ORDER BY e.version DESC LIMIT 1;
  IF row.status IS NOT NULL AND (row.status <> CASE last.type
    WHEN 'job_claimed' THEN 'running' WHEN 'job_started' THEN 'running' WHEN 'job_assigned' THEN 'assigned'
    WHEN 'job_orphaned' THEN 'orphaned' WHEN 'job_completed' THEN 'completed' WHEN 'job_retried' THEN 'retry'
    WHEN 'job_released' THEN 'retry' WHEN 'job_failed' THEN 'failed' WHEN 'job_waiting' THEN 'waiting'
    WHEN 'job_cancelled' THEN 'cancelled' WHEN 'job_skipped' THEN 'cancelled' WHEN 'job_rearmed' THEN 'waiting'
    WHEN 'job_created' THEN CASE WHEN last.detail::json #> '{graph,after}' IS NOT NULL
      OR last.detail::json #> '{graph,flow}' IS NOT NULL THEN 'waiting' ELSE 'pending' END
    WHEN 'job_timed_out' THEN CASE WHEN last.detail::json ->> 'due_at' IS NULL THEN 'timed_out' ELSE 'retry' END
    ELSE 'pending' END OR row.status = 'running' AND row.lease_hash IS DISTINCT FROM last.lease)
  THEN
    RETURN format('job %s is %s, which its log does not say: it says %s', job, row.status, last.type);
  END IF;
  RETURN NULL;
END $$;

-- What is wrong between an approval and the log of its job; null if nothing is.
CREATE OR REPLACE FUNCTION windlass.approval_at_odds(a windlass.approvals) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  ayes int;
  nays int;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM windlass.job_events e WHERE e.job_id = a.job_id AND e.version = a.asked_version
    AND e.type = 'job_approval_asked' AND e.detail::json ->> 'approval' = a.id::text) THEN
    RETURN format('approval %s was never asked for', a.id);
  END IF;
  SELECT count(*) FILTER (WHERE e.detail::json ->> 'decision' = 'approve'),
    count(*) FILTER (WHERE e.detail::json ->> 'decision' = 'deny') INTO ayes, nays
  FROM windlass.job_events e WHERE e.job_id = a.job_id AND e.type = 'job_approval_voted'
    AND e.detail::json ->> 'approval' = a.id::text;
  IF a.approved <> ayes OR a.status = 'approved' AND ayes < a.required OR a.status = 'denied' AND nays = 0 THEN
    RETURN format('approval %s is %s with %s votes, of which its log has %s', a.id, a.status, a.approved, ayes);
  END IF;
  RETURN NULL;
END $$;
