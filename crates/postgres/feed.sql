-- The feed's own functions: marks, and the store's incarnation. Re-created whenever this text changes.

-- Which server this is: its identity, and the timeline that it writes to, which grows with every failover and every
-- recovery to a point in time. The timeline is null on a standby.
CREATE OR REPLACE FUNCTION windlass.server(OUT system_id bigint, OUT timeline int) LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
  SELECT system_identifier, CASE WHEN NOT pg_is_in_recovery()
    THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END
  FROM pg_control_system()
$$;

-- Writes a mark (tx, seq): every transaction after tx numbers its events above seq. That holds because the number is read
-- before the mark's own transaction gets its id, and because every transaction has its id before it takes a number.
-- (A snapshot alone does not tell: it ends behind the last transaction that ended, and younger ones may be running and
-- have numbers.) Marks that no cursor of now on can need are removed. Returns the incarnation.
CREATE OR REPLACE FUNCTION windlass.mark() RETURNS int LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  known windlass.store;
  last bigint;
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION 'a mark is a transaction of its own: call windlass.mark() outside of any other' USING ERRCODE = 'WL013';
  END IF;
  SELECT * INTO known FROM windlass.store;
  -- Two at once would say the same.
  IF NOT pg_try_advisory_xact_lock(known.store_id) THEN
    RETURN known.incarnation;
  END IF;
  last := coalesce(pg_sequence_last_value('windlass.job_events_seq_seq'::regclass), 0);
  IF last <= coalesce((SELECT m.seq FROM windlass.marks m ORDER BY m.tx DESC LIMIT 1), known.base_seq) THEN
    RETURN known.incarnation;
  END IF;
  -- A cursor may rest on it at once, so it outlives a crash.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
  INSERT INTO windlass.marks (tx, seq) VALUES (pg_current_xact_id(), last);
  DELETE FROM windlass.marks m WHERE m.tx < (
    SELECT o.tx FROM windlass.marks o WHERE o.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY o.tx DESC LIMIT 1);
  RETURN known.incarnation;
END $$;

-- Begins a new incarnation where the store has come to another server or timeline, or if forced. What was logged before
-- then counts as told in the order of its numbers: its transaction ids may be another server's. Returns the incarnation.
CREATE OR REPLACE FUNCTION windlass.adopt(forced boolean) RETURNS int LANGUAGE plpgsql
SECURITY DEFINER SET search_path = windlass, pg_temp AS $$
DECLARE
  here record;
  known windlass.store;
  last bigint;
BEGIN
  SELECT * INTO here FROM windlass.server();
  SELECT * INTO known FROM windlass.store;
  IF NOT forced AND (known.system_id, known.timeline) IS NOT DISTINCT FROM (here.system_id, here.timeline) THEN
    RETURN known.incarnation;
  END IF;
  -- Whoever took a number has written under it: behind this lock everything that is numbered is committed or undone.
  LOCK TABLE windlass.job_events IN SHARE ROW EXCLUSIVE MODE;
  SELECT * INTO known FROM windlass.store FOR UPDATE;
  IF NOT forced AND (known.system_id, known.timeline) IS NOT DISTINCT FROM (here.system_id, here.timeline) THEN
    RETURN known.incarnation;
  END IF;
  last := greatest(pg_sequence_last_value('windlass.job_events_seq_seq'::regclass),
    (SELECT max(seq) FROM windlass.job_events), 0);
  IF last > 0 THEN
    PERFORM setval('windlass.job_events_seq_seq', last);
  END IF;
  DELETE FROM windlass.marks;
  INSERT INTO windlass.marks (tx, seq) VALUES (pg_current_xact_id(), last);
  UPDATE windlass.store SET incarnation = incarnation + (forced OR system_id IS NOT NULL)::int,
    system_id = here.system_id, timeline = here.timeline, base_seq = last
  RETURNING incarnation INTO known.incarnation;
  RETURN known.incarnation;
END $$;

-- Makes this store the later life of another: fences and numbers are higher than any it gave. For its owner.
CREATE OR REPLACE FUNCTION windlass.succeed(least_incarnation bigint, purged bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  last bigint;
BEGIN
  UPDATE windlass.store SET incarnation = greatest(incarnation, least_incarnation),
    purged_seq = greatest(purged_seq, purged);
  last := greatest((SELECT max(seq) FROM windlass.job_events), purged,
    pg_sequence_last_value('windlass.job_events_seq_seq'::regclass));
  IF last > 0 THEN
    PERFORM setval('windlass.job_events_seq_seq', last);
  END IF;
  last := greatest((SELECT max(seq) FROM windlass.audit), pg_sequence_last_value('windlass.audit_seq_seq'::regclass));
  IF last > 0 THEN
    PERFORM setval('windlass.audit_seq_seq', last);
  END IF;
END $$;
