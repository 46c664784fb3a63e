-- The last wall: what the database itself refuses, from the engine and from a hand with the sqlite3 prompt.
-- Current law, re-created whenever this text changes. The pairs are tested against core's table over all N x N.
-- Plain SQL that SQLite 3.37 and later can read, so that the system's own sqlite3 can open the file.

-- Illegal transitions, whoever tries them.
DROP TRIGGER IF EXISTS jobs_transition;
CREATE TRIGGER jobs_transition BEFORE UPDATE OF status ON jobs
WHEN OLD.status <> NEW.status AND NOT CASE OLD.status
    WHEN 'pending' THEN NEW.status = 'assigned' OR NEW.status = 'running' OR NEW.status = 'cancelled'
    WHEN 'assigned' THEN NEW.status = 'running' OR NEW.status = 'orphaned' OR NEW.status = 'cancelled'
    WHEN 'running' THEN NEW.status = 'retry' OR NEW.status = 'waiting' OR NEW.status = 'completed' OR NEW.status = 'failed' OR NEW.status = 'timed_out' OR NEW.status = 'cancelled'
    WHEN 'retry' THEN NEW.status = 'assigned' OR NEW.status = 'running' OR NEW.status = 'failed' OR NEW.status = 'cancelled'
    WHEN 'waiting' THEN NEW.status = 'assigned' OR NEW.status = 'running' OR NEW.status = 'completed' OR NEW.status = 'failed' OR NEW.status = 'cancelled'
    WHEN 'orphaned' THEN NEW.status = 'assigned' OR NEW.status = 'running' OR NEW.status = 'cancelled'
    WHEN 'failed' THEN NEW.status = 'pending'
    WHEN 'timed_out' THEN NEW.status = 'pending'
    WHEN 'cancelled' THEN NEW.status = 'pending' OR NEW.status = 'waiting'
    ELSE 0 END
BEGIN
  SELECT CASE OLD.status || '>' || NEW.status
    WHEN 'pending>retry' THEN RAISE(ABORT, 'illegal transition: a job that is pending cannot become retry')
    WHEN 'pending>waiting' THEN RAISE(ABORT, 'illegal transition: a job that is pending cannot become waiting')
    WHEN 'pending>orphaned' THEN RAISE(ABORT, 'illegal transition: a job that is pending cannot become orphaned')
    WHEN 'pending>completed' THEN RAISE(ABORT, 'illegal transition: a job that is pending cannot become completed')
    WHEN 'pending>failed' THEN RAISE(ABORT, 'illegal transition: a job that is pending cannot become failed')
    WHEN 'pending>timed_out' THEN RAISE(ABORT, 'illegal transition: a job that is pending cannot become timed_out')
    WHEN 'assigned>pending' THEN RAISE(ABORT, 'illegal transition: a job that is assigned cannot become pending')
    WHEN 'assigned>retry' THEN RAISE(ABORT, 'illegal transition: a job that is assigned cannot become retry')
    WHEN 'assigned>waiting' THEN RAISE(ABORT, 'illegal transition: a job that is assigned cannot become waiting')
    WHEN 'assigned>completed' THEN RAISE(ABORT, 'illegal transition: a job that is assigned cannot become completed')
    WHEN 'assigned>failed' THEN RAISE(ABORT, 'illegal transition: a job that is assigned cannot become failed')
    WHEN 'assigned>timed_out' THEN RAISE(ABORT, 'illegal transition: a job that is assigned cannot become timed_out')
    WHEN 'running>pending' THEN RAISE(ABORT, 'illegal transition: a job that is running cannot become pending')
    WHEN 'running>assigned' THEN RAISE(ABORT, 'illegal transition: a job that is running cannot become assigned')
    WHEN 'running>orphaned' THEN RAISE(ABORT, 'illegal transition: a job that is running cannot become orphaned')
    WHEN 'retry>pending' THEN RAISE(ABORT, 'illegal transition: a job that is retry cannot become pending')
    WHEN 'retry>waiting' THEN RAISE(ABORT, 'illegal transition: a job that is retry cannot become waiting')
    WHEN 'retry>orphaned' THEN RAISE(ABORT, 'illegal transition: a job that is retry cannot become orphaned')
    WHEN 'retry>completed' THEN RAISE(ABORT, 'illegal transition: a job that is retry cannot become completed')
    WHEN 'retry>timed_out' THEN RAISE(ABORT, 'illegal transition: a job that is retry cannot become timed_out')
    WHEN 'waiting>pending' THEN RAISE(ABORT, 'illegal transition: a job that is waiting cannot become pending')
    WHEN 'waiting>retry' THEN RAISE(ABORT, 'illegal transition: a job that is waiting cannot become retry')
    WHEN 'waiting>orphaned' THEN RAISE(ABORT, 'illegal transition: a job that is waiting cannot become orphaned')
    WHEN 'waiting>timed_out' THEN RAISE(ABORT, 'illegal transition: a job that is waiting cannot become timed_out')
    WHEN 'orphaned>pending' THEN RAISE(ABORT, 'illegal transition: a job that is orphaned cannot become pending')
    WHEN 'orphaned>retry' THEN RAISE(ABORT, 'illegal transition: a job that is orphaned cannot become retry')
    WHEN 'orphaned>waiting' THEN RAISE(ABORT, 'illegal transition: a job that is orphaned cannot become waiting')
    WHEN 'orphaned>completed' THEN RAISE(ABORT, 'illegal transition: a job that is orphaned cannot become completed')
    WHEN 'orphaned>failed' THEN RAISE(ABORT, 'illegal transition: a job that is orphaned cannot become failed')
    WHEN 'orphaned>timed_out' THEN RAISE(ABORT, 'illegal transition: a job that is orphaned cannot become timed_out')
    WHEN 'completed>pending' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become pending')
    WHEN 'completed>assigned' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become assigned')
    WHEN 'completed>running' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become running')
    WHEN 'completed>retry' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become retry')
    WHEN 'completed>waiting' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become waiting')
    WHEN 'completed>orphaned' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become orphaned')
    WHEN 'completed>failed' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become failed')
    WHEN 'completed>timed_out' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become timed_out')
    WHEN 'completed>cancelled' THEN RAISE(ABORT, 'illegal transition: a job that is completed cannot become cancelled')
    WHEN 'failed>assigned' THEN RAISE(ABORT, 'illegal transition: a job that is failed cannot become assigned')
    WHEN 'failed>running' THEN RAISE(ABORT, 'illegal transition: a job that is failed cannot become running')
    WHEN 'failed>retry' THEN RAISE(ABORT, 'illegal transition: a job that is failed cannot become retry')
    WHEN 'failed>waiting' THEN RAISE(ABORT, 'illegal transition: a job that is failed cannot become waiting')
    WHEN 'failed>orphaned' THEN RAISE(ABORT, 'illegal transition: a job that is failed cannot become orphaned')
    WHEN 'failed>completed' THEN RAISE(ABORT, 'illegal transition: a job that is failed cannot become completed')
    WHEN 'failed>timed_out' THEN RAISE(ABORT, 'illegal transition: a job that is failed cannot become timed_out')
    WHEN 'failed>cancelled' THEN RAISE(ABORT, 'illegal transition: a job that is failed cannot become cancelled')
    WHEN 'timed_out>assigned' THEN RAISE(ABORT, 'illegal transition: a job that is timed_out cannot become assigned')
    WHEN 'timed_out>running' THEN RAISE(ABORT, 'illegal transition: a job that is timed_out cannot become running')
    WHEN 'timed_out>retry' THEN RAISE(ABORT, 'illegal transition: a job that is timed_out cannot become retry')
    WHEN 'timed_out>waiting' THEN RAISE(ABORT, 'illegal transition: a job that is timed_out cannot become waiting')
    WHEN 'timed_out>orphaned' THEN RAISE(ABORT, 'illegal transition: a job that is timed_out cannot become orphaned')
    WHEN 'timed_out>completed' THEN RAISE(ABORT, 'illegal transition: a job that is timed_out cannot become completed')
    WHEN 'timed_out>failed' THEN RAISE(ABORT, 'illegal transition: a job that is timed_out cannot become failed')
    WHEN 'timed_out>cancelled' THEN RAISE(ABORT, 'illegal transition: a job that is timed_out cannot become cancelled')
    WHEN 'cancelled>assigned' THEN RAISE(ABORT, 'illegal transition: a job that is cancelled cannot become assigned')
    WHEN 'cancelled>running' THEN RAISE(ABORT, 'illegal transition: a job that is cancelled cannot become running')
    WHEN 'cancelled>retry' THEN RAISE(ABORT, 'illegal transition: a job that is cancelled cannot become retry')
    WHEN 'cancelled>orphaned' THEN RAISE(ABORT, 'illegal transition: a job that is cancelled cannot become orphaned')
    WHEN 'cancelled>completed' THEN RAISE(ABORT, 'illegal transition: a job that is cancelled cannot become completed')
    WHEN 'cancelled>failed' THEN RAISE(ABORT, 'illegal transition: a job that is cancelled cannot become failed')
    WHEN 'cancelled>timed_out' THEN RAISE(ABORT, 'illegal transition: a job that is cancelled cannot become timed_out')
    ELSE RAISE(ABORT, 'illegal transition: not a status; see the table of statuses in the docs') END;
END;

-- An update that does not raise version by one comes from a hand, or is a renewal, which moves due_at and
-- lease_expires_at of a running job and nothing else.
DROP TRIGGER IF EXISTS jobs_frozen;
CREATE TRIGGER jobs_frozen BEFORE UPDATE ON jobs
WHEN NEW.version <> OLD.version + 1 AND NEW.status = OLD.status
BEGIN
  SELECT CASE
    WHEN NEW.id IS NOT OLD.id THEN RAISE(ABORT, 'jobs.id is not changed by hand; use the windlass command')
    WHEN NEW.version IS NOT OLD.version THEN RAISE(ABORT, 'jobs.version is not changed by hand; use the windlass command')
    WHEN NEW.queue IS NOT OLD.queue THEN RAISE(ABORT, 'jobs.queue is not changed by hand; use the windlass command')
    WHEN NEW.kind IS NOT OLD.kind THEN RAISE(ABORT, 'jobs.kind is not changed by hand; use the windlass command')
    WHEN NEW.priority IS NOT OLD.priority THEN RAISE(ABORT, 'jobs.priority is not changed by hand; use the windlass command')
    WHEN NEW.attempt IS NOT OLD.attempt THEN RAISE(ABORT, 'jobs.attempt is not changed by hand; use the windlass command')
    WHEN NEW.retries IS NOT OLD.retries THEN RAISE(ABORT, 'jobs.retries is not changed by hand; use the windlass command')
    WHEN NEW.max_retries IS NOT OLD.max_retries THEN RAISE(ABORT, 'jobs.max_retries is not changed by hand; use the windlass command')
    WHEN NEW.crashes IS NOT OLD.crashes THEN RAISE(ABORT, 'jobs.crashes is not changed by hand; use the windlass command')
    WHEN NEW.generation IS NOT OLD.generation THEN RAISE(ABORT, 'jobs.generation is not changed by hand; use the windlass command')
    WHEN NEW.progress IS NOT OLD.progress THEN RAISE(ABORT, 'jobs.progress is not changed by hand; use the windlass command')
    WHEN NEW.stage IS NOT OLD.stage THEN RAISE(ABORT, 'jobs.stage is not changed by hand; use the windlass command')
    WHEN NEW.waiting_for IS NOT OLD.waiting_for THEN RAISE(ABORT, 'jobs.waiting_for is not changed by hand; use the windlass command')
    WHEN NEW.wait_name IS NOT OLD.wait_name THEN RAISE(ABORT, 'jobs.wait_name is not changed by hand; use the windlass command')
    WHEN NEW.wait_version IS NOT OLD.wait_version THEN RAISE(ABORT, 'jobs.wait_version is not changed by hand; use the windlass command')
    WHEN NEW.wake_version IS NOT OLD.wake_version THEN RAISE(ABORT, 'jobs.wake_version is not changed by hand; use the windlass command')
    WHEN NEW.signals IS NOT OLD.signals THEN RAISE(ABORT, 'jobs.signals is not changed by hand; use the windlass command')
    WHEN NEW.children IS NOT OLD.children THEN RAISE(ABORT, 'jobs.children is not changed by hand; use the windlass command')
    WHEN NEW.dependents IS NOT OLD.dependents THEN RAISE(ABORT, 'jobs.dependents is not changed by hand; use the windlass command')
    WHEN NEW.parent_id IS NOT OLD.parent_id THEN RAISE(ABORT, 'jobs.parent_id is not changed by hand; use the windlass command')
    WHEN NEW.cancel_requested_at IS NOT OLD.cancel_requested_at THEN RAISE(ABORT, 'jobs.cancel_requested_at is not changed by hand; use the windlass command')
    WHEN NEW.steps_from IS NOT OLD.steps_from THEN RAISE(ABORT, 'jobs.steps_from is not changed by hand; use the windlass command')
    WHEN NEW.unique_policy IS NOT OLD.unique_policy THEN RAISE(ABORT, 'jobs.unique_policy is not changed by hand; use the windlass command')
    WHEN NEW.timeout_ms IS NOT OLD.timeout_ms THEN RAISE(ABORT, 'jobs.timeout_ms is not changed by hand; use the windlass command')
    WHEN NEW.lease_ms IS NOT OLD.lease_ms THEN RAISE(ABORT, 'jobs.lease_ms is not changed by hand; use the windlass command')
    WHEN NEW.grace_ms IS NOT OLD.grace_ms THEN RAISE(ABORT, 'jobs.grace_ms is not changed by hand; use the windlass command')
    WHEN NEW.backoff IS NOT OLD.backoff THEN RAISE(ABORT, 'jobs.backoff is not changed by hand; use the windlass command')
    WHEN NEW.lane IS NOT OLD.lane THEN RAISE(ABORT, 'jobs.lane is not changed by hand; use the windlass command')
    WHEN NEW.result_version IS NOT OLD.result_version THEN RAISE(ABORT, 'jobs.result_version is not changed by hand; use the windlass command')
    WHEN NEW.error_version IS NOT OLD.error_version THEN RAISE(ABORT, 'jobs.error_version is not changed by hand; use the windlass command')
    WHEN NEW.error_code IS NOT OLD.error_code THEN RAISE(ABORT, 'jobs.error_code is not changed by hand; use the windlass command')
    WHEN NEW.checkpoint_version IS NOT OLD.checkpoint_version THEN RAISE(ABORT, 'jobs.checkpoint_version is not changed by hand; use the windlass command')
    WHEN NEW.payload_version IS NOT OLD.payload_version THEN RAISE(ABORT, 'jobs.payload_version is not changed by hand; use the windlass command')
    WHEN NEW.meta_version IS NOT OLD.meta_version THEN RAISE(ABORT, 'jobs.meta_version is not changed by hand; use the windlass command')
    WHEN NEW.created_at IS NOT OLD.created_at THEN RAISE(ABORT, 'jobs.created_at is not changed by hand; use the windlass command')
    WHEN NEW.started_at IS NOT OLD.started_at THEN RAISE(ABORT, 'jobs.started_at is not changed by hand; use the windlass command')
    WHEN NEW.epoch IS NOT OLD.epoch THEN RAISE(ABORT, 'jobs.epoch is not changed by hand; use the windlass command')
    WHEN NEW.assignment IS NOT OLD.assignment THEN RAISE(ABORT, 'jobs.assignment is not changed by hand; use the windlass command')
    WHEN NEW.worker_id IS NOT OLD.worker_id THEN RAISE(ABORT, 'jobs.worker_id is not changed by hand; use the windlass command')
    WHEN NEW.lease_hash IS NOT OLD.lease_hash THEN RAISE(ABORT, 'jobs.lease_hash is not changed by hand; use the windlass command')
    WHEN NEW.deadline_at IS NOT OLD.deadline_at THEN RAISE(ABORT, 'jobs.deadline_at is not changed by hand; use the windlass command')
    WHEN NEW.updated_at IS NOT OLD.updated_at THEN RAISE(ABORT, 'jobs.updated_at is not changed by hand; use the windlass command')
    WHEN NEW.finished_at IS NOT OLD.finished_at THEN RAISE(ABORT, 'jobs.finished_at is not changed by hand; use the windlass command')
    WHEN OLD.status <> 'running'
        AND (NEW.due_at IS NOT OLD.due_at OR NEW.lease_expires_at IS NOT OLD.lease_expires_at)
      THEN RAISE(ABORT, 'due_at and lease_expires_at move only while the job runs; use the windlass command')
  END;
END;

-- A status changed by hand: only to cancelled or failed, along a legal transition. The row is made whole, the change
-- logged as such, the key freed, approvals closed, the parent told. The update that the hand wrote is then ignored, for
-- its work is done. Row first, event second: that is how job_events_appended knows this trigger from a hand.
DROP TRIGGER IF EXISTS jobs_by_hand;
CREATE TRIGGER jobs_by_hand BEFORE UPDATE OF status ON jobs
WHEN NEW.version <> OLD.version + 1 AND NEW.status <> OLD.status
BEGIN
  SELECT CASE
    WHEN NEW.id IS NOT OLD.id THEN RAISE(ABORT, 'jobs.id is not changed by hand; use the windlass command')
    WHEN NEW.version IS NOT OLD.version THEN RAISE(ABORT, 'jobs.version is not changed by hand; use the windlass command')
    WHEN NEW.queue IS NOT OLD.queue THEN RAISE(ABORT, 'jobs.queue is not changed by hand; use the windlass command')
    WHEN NEW.kind IS NOT OLD.kind THEN RAISE(ABORT, 'jobs.kind is not changed by hand; use the windlass command')
    WHEN NEW.priority IS NOT OLD.priority THEN RAISE(ABORT, 'jobs.priority is not changed by hand; use the windlass command')
    WHEN NEW.attempt IS NOT OLD.attempt THEN RAISE(ABORT, 'jobs.attempt is not changed by hand; use the windlass command')
    WHEN NEW.retries IS NOT OLD.retries THEN RAISE(ABORT, 'jobs.retries is not changed by hand; use the windlass command')
    WHEN NEW.max_retries IS NOT OLD.max_retries THEN RAISE(ABORT, 'jobs.max_retries is not changed by hand; use the windlass command')
    WHEN NEW.crashes IS NOT OLD.crashes THEN RAISE(ABORT, 'jobs.crashes is not changed by hand; use the windlass command')
    WHEN NEW.generation IS NOT OLD.generation THEN RAISE(ABORT, 'jobs.generation is not changed by hand; use the windlass command')
    WHEN NEW.progress IS NOT OLD.progress THEN RAISE(ABORT, 'jobs.progress is not changed by hand; use the windlass command')
    WHEN NEW.stage IS NOT OLD.stage THEN RAISE(ABORT, 'jobs.stage is not changed by hand; use the windlass command')
    WHEN NEW.waiting_for IS NOT OLD.waiting_for THEN RAISE(ABORT, 'jobs.waiting_for is not changed by hand; use the windlass command')
    WHEN NEW.wait_name IS NOT OLD.wait_name THEN RAISE(ABORT, 'jobs.wait_name is not changed by hand; use the windlass command')
    WHEN NEW.wait_version IS NOT OLD.wait_version THEN RAISE(ABORT, 'jobs.wait_version is not changed by hand; use the windlass command')
    WHEN NEW.wake_version IS NOT OLD.wake_version THEN RAISE(ABORT, 'jobs.wake_version is not changed by hand; use the windlass command')
    WHEN NEW.signals IS NOT OLD.signals THEN RAISE(ABORT, 'jobs.signals is not changed by hand; use the windlass command')
    WHEN NEW.children IS NOT OLD.children THEN RAISE(ABORT, 'jobs.children is not changed by hand; use the windlass command')
    WHEN NEW.dependents IS NOT OLD.dependents THEN RAISE(ABORT, 'jobs.dependents is not changed by hand; use the windlass command')
    WHEN NEW.parent_id IS NOT OLD.parent_id THEN RAISE(ABORT, 'jobs.parent_id is not changed by hand; use the windlass command')
    WHEN NEW.cancel_requested_at IS NOT OLD.cancel_requested_at THEN RAISE(ABORT, 'jobs.cancel_requested_at is not changed by hand; use the windlass command')
    WHEN NEW.steps_from IS NOT OLD.steps_from THEN RAISE(ABORT, 'jobs.steps_from is not changed by hand; use the windlass command')
    WHEN NEW.unique_policy IS NOT OLD.unique_policy THEN RAISE(ABORT, 'jobs.unique_policy is not changed by hand; use the windlass command')
    WHEN NEW.timeout_ms IS NOT OLD.timeout_ms THEN RAISE(ABORT, 'jobs.timeout_ms is not changed by hand; use the windlass command')
    WHEN NEW.lease_ms IS NOT OLD.lease_ms THEN RAISE(ABORT, 'jobs.lease_ms is not changed by hand; use the windlass command')
    WHEN NEW.grace_ms IS NOT OLD.grace_ms THEN RAISE(ABORT, 'jobs.grace_ms is not changed by hand; use the windlass command')
    WHEN NEW.backoff IS NOT OLD.backoff THEN RAISE(ABORT, 'jobs.backoff is not changed by hand; use the windlass command')
    WHEN NEW.lane IS NOT OLD.lane THEN RAISE(ABORT, 'jobs.lane is not changed by hand; use the windlass command')
    WHEN NEW.result_version IS NOT OLD.result_version THEN RAISE(ABORT, 'jobs.result_version is not changed by hand; use the windlass command')
    WHEN NEW.error_version IS NOT OLD.error_version THEN RAISE(ABORT, 'jobs.error_version is not changed by hand; use the windlass command')
    WHEN NEW.error_code IS NOT OLD.error_code THEN RAISE(ABORT, 'jobs.error_code is not changed by hand; use the windlass command')
    WHEN NEW.checkpoint_version IS NOT OLD.checkpoint_version THEN RAISE(ABORT, 'jobs.checkpoint_version is not changed by hand; use the windlass command')
    WHEN NEW.payload_version IS NOT OLD.payload_version THEN RAISE(ABORT, 'jobs.payload_version is not changed by hand; use the windlass command')
    WHEN NEW.meta_version IS NOT OLD.meta_version THEN RAISE(ABORT, 'jobs.meta_version is not changed by hand; use the windlass command')
    WHEN NEW.created_at IS NOT OLD.created_at THEN RAISE(ABORT, 'jobs.created_at is not changed by hand; use the windlass command')
    WHEN NEW.started_at IS NOT OLD.started_at THEN RAISE(ABORT, 'jobs.started_at is not changed by hand; use the windlass command')
    WHEN NEW.epoch IS NOT OLD.epoch THEN RAISE(ABORT, 'jobs.epoch is not changed by hand; use the windlass command')
    WHEN NEW.assignment IS NOT OLD.assignment THEN RAISE(ABORT, 'jobs.assignment is not changed by hand; use the windlass command')
    WHEN NEW.worker_id IS NOT OLD.worker_id THEN RAISE(ABORT, 'jobs.worker_id is not changed by hand; use the windlass command')
    WHEN NEW.lease_hash IS NOT OLD.lease_hash THEN RAISE(ABORT, 'jobs.lease_hash is not changed by hand; use the windlass command')
    WHEN NEW.deadline_at IS NOT OLD.deadline_at THEN RAISE(ABORT, 'jobs.deadline_at is not changed by hand; use the windlass command')
    WHEN NEW.updated_at IS NOT OLD.updated_at THEN RAISE(ABORT, 'jobs.updated_at is not changed by hand; use the windlass command')
    WHEN NEW.finished_at IS NOT OLD.finished_at THEN RAISE(ABORT, 'jobs.finished_at is not changed by hand; use the windlass command')
  END;
  SELECT CASE OLD.status || '>' || NEW.status
    WHEN 'pending>assigned' THEN RAISE(ABORT, 'by hand a job that is pending cannot become assigned, only cancelled or failed; use the windlass command')
    WHEN 'pending>running' THEN RAISE(ABORT, 'by hand a job that is pending cannot become running, only cancelled or failed; use the windlass command')
    WHEN 'assigned>running' THEN RAISE(ABORT, 'by hand a job that is assigned cannot become running, only cancelled or failed; use the windlass command')
    WHEN 'assigned>orphaned' THEN RAISE(ABORT, 'by hand a job that is assigned cannot become orphaned, only cancelled or failed; use the windlass command')
    WHEN 'running>retry' THEN RAISE(ABORT, 'by hand a job that is running cannot become retry, only cancelled or failed; use the windlass command')
    WHEN 'running>waiting' THEN RAISE(ABORT, 'by hand a job that is running cannot become waiting, only cancelled or failed; use the windlass command')
    WHEN 'running>completed' THEN RAISE(ABORT, 'by hand a job that is running cannot become completed, only cancelled or failed; use the windlass command')
    WHEN 'running>timed_out' THEN RAISE(ABORT, 'by hand a job that is running cannot become timed_out, only cancelled or failed; use the windlass command')
    WHEN 'retry>assigned' THEN RAISE(ABORT, 'by hand a job that is retry cannot become assigned, only cancelled or failed; use the windlass command')
    WHEN 'retry>running' THEN RAISE(ABORT, 'by hand a job that is retry cannot become running, only cancelled or failed; use the windlass command')
    WHEN 'waiting>assigned' THEN RAISE(ABORT, 'by hand a job that is waiting cannot become assigned, only cancelled or failed; use the windlass command')
    WHEN 'waiting>running' THEN RAISE(ABORT, 'by hand a job that is waiting cannot become running, only cancelled or failed; use the windlass command')
    WHEN 'waiting>completed' THEN RAISE(ABORT, 'by hand a job that is waiting cannot become completed, only cancelled or failed; use the windlass command')
    WHEN 'orphaned>assigned' THEN RAISE(ABORT, 'by hand a job that is orphaned cannot become assigned, only cancelled or failed; use the windlass command')
    WHEN 'orphaned>running' THEN RAISE(ABORT, 'by hand a job that is orphaned cannot become running, only cancelled or failed; use the windlass command')
    WHEN 'failed>pending' THEN RAISE(ABORT, 'by hand a job that is failed cannot become pending, only cancelled or failed; use the windlass command')
    WHEN 'timed_out>pending' THEN RAISE(ABORT, 'by hand a job that is timed_out cannot become pending, only cancelled or failed; use the windlass command')
    WHEN 'cancelled>pending' THEN RAISE(ABORT, 'by hand a job that is cancelled cannot become pending, only cancelled or failed; use the windlass command')
    WHEN 'cancelled>waiting' THEN RAISE(ABORT, 'by hand a job that is cancelled cannot become waiting, only cancelled or failed; use the windlass command')
  END;
  SELECT RAISE(ABORT, 'other jobs wait for this one, or it is a part of a flow: it is not ended by hand; use the windlass command')
  WHERE OLD.dependents IS NOT NULL OR OLD.waiting_for = 'flow'
    OR EXISTS (SELECT 1 FROM jobs WHERE id = OLD.parent_id AND waiting_for = 'flow');
  UPDATE jobs SET status = NEW.status, version = OLD.version + 1,
    children = CASE WHEN OLD.waiting_for = 'upstream' THEN 0 ELSE OLD.children END, due_at = NULL, deadline_at = NULL,
    worker_id = NULL, lease_hash = NULL, lease_expires_at = NULL, assignment = NULL, waiting_for = NULL, wait_name = NULL,
    error_code = CASE NEW.status WHEN 'failed' THEN 'by_hand' ELSE OLD.error_code END,
    error_version = CASE NEW.status WHEN 'failed' THEN OLD.version + 1 ELSE OLD.error_version END,
    finished_at = max(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000, OLD.updated_at,
      coalesce((SELECT at FROM job_events ORDER BY seq DESC LIMIT 1), 0)),
    updated_at = max(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000, OLD.updated_at,
      coalesce((SELECT at FROM job_events ORDER BY seq DESC LIMIT 1), 0))
  WHERE id = OLD.id;
  INSERT INTO job_events (seq, job_id, version, at, type, actor, attempt, generation, detail, is_json, payload)
  VALUES ((SELECT 1 + max(purged_seq, coalesce((SELECT max(seq) FROM job_events), 0)) FROM windlass_store),
    OLD.id, OLD.version + 1, (SELECT finished_at FROM jobs WHERE id = OLD.id), 'job_' || NEW.status, 'sql',
    OLD.attempt, OLD.generation,
    CASE NEW.status WHEN 'failed' THEN '{"code":"by_hand"}' ELSE '{"reason":"by hand"}' END,
    CASE NEW.status WHEN 'failed' THEN 1 END,
    CASE NEW.status WHEN 'failed' THEN CAST('{"code":"by_hand","message":"failed by hand"}' AS BLOB) END);
  DELETE FROM job_keys WHERE job_id = OLD.id AND OLD.unique_policy IN ('active', 'succeeded');
  UPDATE approvals SET decided_at = (SELECT finished_at FROM jobs WHERE id = OLD.id),
    status = CASE WHEN expires_at <= (SELECT finished_at FROM jobs WHERE id = OLD.id) THEN 'expired' ELSE 'void' END
  WHERE job_id = OLD.id AND +status = 'pending';
  UPDATE jobs SET version = version + 1, children = children - 1,
    updated_at = (SELECT finished_at FROM jobs WHERE id = OLD.id),
    due_at = CASE WHEN (children = 1 AND waiting_for IN ('children', 'upstream') OR waiting_for = 'news') AND status = 'waiting' AND due_at IS NULL
      AND (deadline_at IS NULL OR deadline_at > (SELECT finished_at FROM jobs WHERE id = OLD.id))
      THEN (SELECT finished_at FROM jobs WHERE id = OLD.id) ELSE due_at END,
    wake_version = CASE WHEN (children = 1 AND waiting_for IN ('children', 'upstream') OR waiting_for = 'news') AND status = 'waiting' AND due_at IS NULL
      AND (deadline_at IS NULL OR deadline_at > (SELECT finished_at FROM jobs WHERE id = OLD.id))
      THEN version + 1 ELSE wake_version END,
    deadline_at = CASE WHEN (children = 1 AND waiting_for IN ('children', 'upstream') OR waiting_for = 'news') AND status = 'waiting' AND due_at IS NULL
      AND (deadline_at IS NULL OR deadline_at > (SELECT finished_at FROM jobs WHERE id = OLD.id))
      THEN NULL ELSE deadline_at END
  WHERE id = OLD.parent_id AND status <> 'completed' AND children > 0;
  INSERT INTO job_events (seq, job_id, version, at, type, actor, attempt, generation, detail)
  SELECT (SELECT 1 + max(purged_seq, coalesce((SELECT max(seq) FROM job_events), 0)) FROM windlass_store),
    p.id, p.version, p.updated_at, 'job_child_finished', 'sql', p.attempt, p.generation,
    '{"child":"' || lower(hex(substr(OLD.id, 1, 4))) || '-' || lower(hex(substr(OLD.id, 5, 2))) || '-' || lower(hex(substr(OLD.id, 7, 2)))
      || '-' || lower(hex(substr(OLD.id, 9, 2))) || '-' || lower(hex(substr(OLD.id, 11, 6)))
      || '","status":"' || NEW.status || '","woke":' || iif(p.wake_version IS p.version, 'true', 'false') || '}'
  FROM jobs p WHERE p.id = OLD.parent_id
    AND NOT EXISTS (SELECT 1 FROM job_events e WHERE e.job_id = p.id AND e.version = p.version);
  SELECT RAISE(IGNORE);
END;

-- History is append-only; only a purge removes it, with its job.
DROP TRIGGER IF EXISTS job_events_immutable;
CREATE TRIGGER job_events_immutable BEFORE UPDATE ON job_events
BEGIN
  SELECT RAISE(ABORT, 'history is never changed: job_events is append-only');
END;
DROP TRIGGER IF EXISTS job_events_kept;
CREATE TRIGGER job_events_kept BEFORE DELETE ON job_events
WHEN NOT EXISTS (SELECT 1 FROM purging WHERE job_id = OLD.job_id)
BEGIN
  SELECT RAISE(ABORT, 'history is never deleted by hand; finished jobs are purged by windlass');
END;
DROP TRIGGER IF EXISTS jobs_kept;
CREATE TRIGGER jobs_kept BEFORE DELETE ON jobs
WHEN OLD.finished_at IS NULL OR NOT EXISTS (SELECT 1 FROM purging WHERE job_id = OLD.id)
BEGIN
  SELECT RAISE(ABORT, 'jobs are never deleted by hand; cancel them, finished ones are purged by windlass');
END;

-- The doors for new rows are the engine's. Its connections answer yes when asked whether SQLite was compiled into
-- windlass; every other program has that function too, and answers no.
DROP TRIGGER IF EXISTS jobs_enqueued;
CREATE TRIGGER jobs_enqueued BEFORE INSERT ON jobs
WHEN NOT sqlite_compileoption_used('windlass')
BEGIN
  SELECT RAISE(ABORT, 'jobs are enqueued by windlass, not by hand; use the windlass command');
END;
-- Only a row that is ahead of its log, which jobs_by_hand alone leaves behind, lets a stranger write to history.
DROP TRIGGER IF EXISTS job_events_appended;
CREATE TRIGGER job_events_appended BEFORE INSERT ON job_events
WHEN NOT sqlite_compileoption_used('windlass')
  AND (NEW.actor <> 'sql' OR NOT EXISTS (SELECT 1 FROM jobs WHERE id = NEW.job_id AND version = NEW.version)
    OR EXISTS (SELECT 1 FROM job_events WHERE job_id = NEW.job_id AND version = NEW.version))
BEGIN
  SELECT RAISE(ABORT, 'history is written by windlass, not by hand; use the windlass command');
END;
-- Seals, and which jobs were removed, are only added to.
DROP TRIGGER IF EXISTS seals_immutable;
CREATE TRIGGER seals_immutable BEFORE UPDATE ON seals
BEGIN
  SELECT RAISE(ABORT, 'seals are never changed');
END;
DROP TRIGGER IF EXISTS seals_kept;
CREATE TRIGGER seals_kept BEFORE DELETE ON seals
BEGIN
  SELECT RAISE(ABORT, 'seals are never deleted');
END;
DROP TRIGGER IF EXISTS seals_made;
CREATE TRIGGER seals_made BEFORE INSERT ON seals
WHEN NOT sqlite_compileoption_used('windlass')
BEGIN
  SELECT RAISE(ABORT, 'seals are made by windlass, not by hand');
END;
DROP TRIGGER IF EXISTS removals_immutable;
CREATE TRIGGER removals_immutable BEFORE UPDATE ON removals
BEGIN
  SELECT RAISE(ABORT, 'which jobs were removed is never changed');
END;
DROP TRIGGER IF EXISTS removals_kept;
CREATE TRIGGER removals_kept BEFORE DELETE ON removals
BEGIN
  SELECT RAISE(ABORT, 'which jobs were removed is never forgotten');
END;
DROP TRIGGER IF EXISTS removals_made;
CREATE TRIGGER removals_made BEFORE INSERT ON removals
WHEN NOT sqlite_compileoption_used('windlass')
BEGIN
  SELECT RAISE(ABORT, 'jobs are removed by windlass, not by hand');
END;
