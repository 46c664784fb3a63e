-- Where the functions of guard.sql stand in the way. Replaced in place: to drop a trigger would wait for every reader.

-- The server reads a condition anew for every statement, which with the whole table of transitions in it was a fifth of
-- what it did for a claim of one job. So it is short, and false for what happens most.
CREATE OR REPLACE TRIGGER jobs_guard BEFORE UPDATE ON windlass.jobs FOR EACH ROW
WHEN (NEW.version <> OLD.version + 1 OR CASE WHEN OLD.status = NEW.status THEN OLD.due_at IS DISTINCT FROM NEW.due_at
  ELSE NOT (OLD.status = 'pending' AND NEW.status = 'running' OR OLD.status = 'running' AND NEW.status = 'completed') END)
EXECUTE FUNCTION windlass.guard();
-- Costs nothing where a statement does not name one of these columns.
CREATE OR REPLACE TRIGGER jobs_facts BEFORE UPDATE OF id, queue, kind, priority, max_retries, parent_id, unique_policy,
  timeout_ms, lease_ms, grace_ms, backoff, lane, created_at ON windlass.jobs FOR EACH ROW
EXECUTE FUNCTION windlass.keep_facts();
CREATE OR REPLACE TRIGGER jobs_ended_by_hand AFTER UPDATE ON windlass.jobs FOR EACH STATEMENT
EXECUTE FUNCTION windlass.ended_by_hand();
-- An erasure takes bytes and shortens details, and leaves everything else.
CREATE OR REPLACE TRIGGER job_events_immutable BEFORE UPDATE ON windlass.job_events FOR EACH ROW
WHEN (current_setting('windlass_guard.erasing', true) IS DISTINCT FROM OLD.job_id::text OR NEW.payload IS NOT NULL
  OR NEW.is_json IS NOT NULL OR (NEW.tx, NEW.seq, NEW.job_id, NEW.version, NEW.at, NEW.type, NEW.actor, NEW.attempt,
    NEW.generation, NEW.lease, NEW.key, NEW.kind, NEW.agent_id, NEW.parent_id, NEW.tags)
    IS DISTINCT FROM (OLD.tx, OLD.seq, OLD.job_id, OLD.version, OLD.at, OLD.type, OLD.actor, OLD.attempt,
    OLD.generation, OLD.lease, OLD.key, OLD.kind, OLD.agent_id, OLD.parent_id, OLD.tags))
EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER job_events_kept BEFORE DELETE ON windlass.job_events FOR EACH ROW
WHEN (current_setting('windlass_guard.purging', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER jobs_kept BEFORE DELETE ON windlass.jobs FOR EACH ROW
WHEN (OLD.finished_at IS NULL OR current_setting('windlass_guard.purging', true) IS DISTINCT FROM 'on')
EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER job_events_not_emptied BEFORE TRUNCATE ON windlass.job_events FOR EACH STATEMENT
EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER jobs_not_emptied BEFORE TRUNCATE ON windlass.jobs FOR EACH STATEMENT
EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER jobs_enqueued BEFORE INSERT ON windlass.jobs FOR EACH STATEMENT
EXECUTE FUNCTION windlass.refuse_insert();
CREATE OR REPLACE TRIGGER job_events_appended BEFORE INSERT ON windlass.job_events FOR EACH STATEMENT
EXECUTE FUNCTION windlass.refuse_insert();

-- Seals, and which jobs were removed, are only added to: by the engine, by a purge, and by who moves them in.
CREATE OR REPLACE TRIGGER seals_kept BEFORE UPDATE OR DELETE ON windlass.seals FOR EACH ROW
EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER seals_not_emptied BEFORE TRUNCATE ON windlass.seals FOR EACH STATEMENT
EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER seals_made BEFORE INSERT ON windlass.seals FOR EACH STATEMENT
EXECUTE FUNCTION windlass.refuse_insert();
CREATE OR REPLACE TRIGGER removals_kept BEFORE UPDATE OR DELETE ON windlass.removals FOR EACH ROW
EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER removals_not_emptied BEFORE TRUNCATE ON windlass.removals FOR EACH STATEMENT
EXECUTE FUNCTION windlass.keep_history();
CREATE OR REPLACE TRIGGER removals_made BEFORE INSERT ON windlass.removals FOR EACH ROW
WHEN (current_setting('windlass_guard.purging', true) IS DISTINCT FROM 'on'
  AND current_setting('windlass_guard.moving', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION windlass.keep_history();

-- A constraint's trigger cannot be replaced in place; only the app role writes this table.
DROP TRIGGER IF EXISTS owed_settled ON windlass.owed;
CREATE CONSTRAINT TRIGGER owed_settled AFTER INSERT ON windlass.owed DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION windlass.settle_debts();
