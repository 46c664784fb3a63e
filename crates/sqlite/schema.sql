-- The whole schema, as a fresh store has it. Made by the tests: `make bless` rewrites it.

CREATE TABLE access_keys (
  name       TEXT    NOT NULL PRIMARY KEY,
  hash       BLOB    NOT NULL UNIQUE,
  roles      TEXT    NOT NULL,
  queues     TEXT,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT;

CREATE TABLE answers (
  key          TEXT    NOT NULL PRIMARY KEY,
  request_hash BLOB    NOT NULL,
  body         BLOB    NOT NULL,
  expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
  id            BLOB    NOT NULL PRIMARY KEY,
  job_id        BLOB    NOT NULL,
  name          TEXT    NOT NULL,
  status        TEXT    NOT NULL,
  required      INTEGER NOT NULL,
  approved      INTEGER NOT NULL,
  expires_at    INTEGER NOT NULL,
  token_hash    BLOB    NOT NULL,
  token_used    INTEGER NOT NULL,
  asked_version INTEGER NOT NULL,
  asked_at      INTEGER NOT NULL,
  decided_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  seq    INTEGER PRIMARY KEY,
  at     INTEGER NOT NULL,
  actor  TEXT    NOT NULL,
  action TEXT    NOT NULL,
  target TEXT    NOT NULL,
  detail TEXT    NOT NULL
) STRICT;

CREATE TABLE buckets (
  queue      TEXT    NOT NULL,
  lane       INTEGER NOT NULL,
  paid_until INTEGER NOT NULL,
  cost       INTEGER NOT NULL,              -- of the last start, or the debt after a charge
  held_until INTEGER,                       -- null if nobody holds it
  PRIMARY KEY (queue, lane)
) STRICT, WITHOUT ROWID;

CREATE TABLE gauges (
  resolution TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  queue      TEXT    NOT NULL,
  depth      INTEGER NOT NULL,
  oldest_ms  INTEGER NOT NULL,
  busy       INTEGER NOT NULL,
  capacity   INTEGER NOT NULL,
  PRIMARY KEY (resolution, at, queue)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_events (
  seq        INTEGER PRIMARY KEY,
  job_id     BLOB    NOT NULL,
  version    INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  type       TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  attempt    INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  lease      BLOB,
  key        TEXT,
  detail     TEXT,
  is_json    INTEGER,
  payload    BLOB,
  kind       TEXT,
  agent_id   TEXT,
  parent_id  BLOB
) STRICT;

CREATE TABLE job_keys (
  scope        TEXT NOT NULL,
  key          TEXT NOT NULL,
  job_id       BLOB NOT NULL,
  payload_hash BLOB NOT NULL,
  expires_at   INTEGER,
  outcome      TEXT,                        -- how its job ended, once the job was removed
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_log_parts (
  job_id   BLOB    NOT NULL,
  first_n  INTEGER NOT NULL,
  last_n   INTEGER NOT NULL,
  part     TEXT    NOT NULL,
  moved_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, first_n),
  CHECK (first_n >= 1 AND last_n >= first_n)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_logs (
  job_id  BLOB    NOT NULL,
  n       INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  line    TEXT    NOT NULL,
  PRIMARY KEY (job_id, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_tags (
  tag    TEXT NOT NULL,
  job_id BLOB NOT NULL,
  PRIMARY KEY (tag, job_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  id                  BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  queue               TEXT    NOT NULL,
  kind                TEXT    NOT NULL,
  priority            INTEGER NOT NULL CHECK (priority BETWEEN -5 AND 5),
  status              TEXT    NOT NULL,
  due_at              INTEGER,
  deadline_at         INTEGER,
  worker_id           TEXT,
  lease_hash          BLOB,
  lease_expires_at    INTEGER,
  epoch               INTEGER,
  assignment          INTEGER,
  attempt             INTEGER NOT NULL CHECK (attempt >= 0),
  retries             INTEGER NOT NULL,
  max_retries         INTEGER NOT NULL CHECK (retries BETWEEN 0 AND max_retries),
  crashes             INTEGER NOT NULL CHECK (crashes >= 0),
  version             INTEGER NOT NULL CHECK (version > 0),
  generation          INTEGER NOT NULL CHECK (generation >= 0),
  progress            INTEGER NOT NULL CHECK (progress BETWEEN 0 AND 100),
  stage               TEXT,
  waiting_for         TEXT,
  wait_name           TEXT,
  wait_version        INTEGER,
  wake_version        INTEGER,
  signals             INTEGER NOT NULL CHECK (signals >= 0),
  children            INTEGER NOT NULL CHECK (children >= 0),
  parent_id           BLOB,
  cancel_requested_at INTEGER,
  steps_from          INTEGER NOT NULL,
  unique_policy       TEXT,
  timeout_ms          INTEGER CHECK (timeout_ms > 0),
  lease_ms            INTEGER CHECK (lease_ms > 0),
  grace_ms            INTEGER NOT NULL CHECK (grace_ms >= 0),
  backoff             TEXT,
  result_version      INTEGER,
  error_version       INTEGER,
  error_code          TEXT,
  checkpoint_version  INTEGER,
  payload_version     INTEGER,
  meta_version        INTEGER,
  created_at          INTEGER NOT NULL,
  started_at          INTEGER,
  updated_at          INTEGER NOT NULL,
  finished_at         INTEGER,
  lane                INTEGER,              -- made from its key; null without one
  dependents          INTEGER CHECK (dependents > 0),   -- edges to jobs that wait for its end; null for none
  CONSTRAINT leased_exactly_while_running CHECK ((status = 'running') = (lease_hash IS NOT NULL)
    AND (lease_hash IS NULL) = (lease_expires_at IS NULL)),
  CONSTRAINT waits_for_something_exactly_while_waiting CHECK ((status = 'waiting') = (waiting_for IS NOT NULL)),
  -- Spelled out: SQLite builds a table for every list of more than two words, each time it checks.
  CONSTRAINT due_while_it_can_be_taken CHECK (due_at IS NOT NULL OR finished_at IS NOT NULL
    OR status = 'waiting' OR status = 'assigned'),
  CONSTRAINT finished_exactly_when_terminal CHECK ((finished_at IS NOT NULL) =
      (status = 'completed' OR status = 'failed' OR status = 'timed_out' OR status = 'cancelled')
     AND (finished_at IS NULL OR due_at IS NULL)),
  CONSTRAINT dead_has_a_reason CHECK ((status <> 'failed' AND status <> 'timed_out')
    OR (error_code IS NOT NULL AND error_version IS NOT NULL))
) STRICT;

CREATE TABLE papers (
  kind  TEXT NOT NULL,
  name  TEXT NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE problem_hours (
  fingerprint TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  errors      INTEGER NOT NULL,
  dead        INTEGER NOT NULL,
  PRIMARY KEY (fingerprint, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE problems (
  fingerprint  TEXT    NOT NULL PRIMARY KEY,
  state        TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  last_seen_at INTEGER NOT NULL,
  body         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE purging (
  job_id BLOB NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE queues (
  name      TEXT NOT NULL PRIMARY KEY,
  paused_at INTEGER,
  paused_by TEXT,
  defaults  TEXT NOT NULL DEFAULT '{}',
  mode      TEXT NOT NULL DEFAULT 'pull',
  flow      TEXT,                           -- its rules, as JSON; null without any
  endpoint  TEXT                            -- where its jobs are sent, as JSON with the secret; null without one
) STRICT, WITHOUT ROWID;

CREATE TABLE readers (
  name     TEXT    NOT NULL PRIMARY KEY,
  cursor   TEXT,
  epoch    INTEGER NOT NULL,
  moved_at INTEGER NOT NULL,
  since    INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE removals (
  job_id     BLOB    NOT NULL,
  version    INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE rollups (
  resolution TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  queue      TEXT    NOT NULL,
  kind       TEXT    NOT NULL,
  tally      TEXT    NOT NULL,
  n          INTEGER NOT NULL,
  times      TEXT    NOT NULL,
  PRIMARY KEY (resolution, at, queue, kind, tally)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
  name    TEXT NOT NULL PRIMARY KEY,
  next_at INTEGER,
  state   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE seals (
  number      INTEGER NOT NULL PRIMARY KEY,
  at          INTEGER NOT NULL,
  store_id    INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  body        BLOB    NOT NULL,             -- jobs, versions and hashes of the events, packed
  hash        BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE TABLE settings (
  one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  state TEXT    NOT NULL
) STRICT;

CREATE TABLE subscriptions (
  name       TEXT NOT NULL PRIMARY KEY,
  state      TEXT NOT NULL,
  credential TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE terms (
  name       TEXT    NOT NULL PRIMARY KEY,
  holder     TEXT    NOT NULL,
  epoch      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tombstones (
  job_id      BLOB    NOT NULL PRIMARY KEY,
  status      TEXT    NOT NULL,
  finished_at INTEGER NOT NULL,
  archive     TEXT    NOT NULL,             -- which part of the archive holds the job
  purged_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE trigger_events (
  id           BLOB    NOT NULL PRIMARY KEY,
  trigger_name TEXT    NOT NULL,
  dedupe_key   TEXT,
  payload      BLOB,
  is_json      INTEGER,
  actor        TEXT    NOT NULL,
  received_at  INTEGER NOT NULL,
  due_at       INTEGER,                     -- when it is tried again; null once it is processed
  processed_at INTEGER,
  detail       TEXT    NOT NULL,
  CHECK ((due_at IS NULL) = (processed_at IS NOT NULL))
) STRICT;

CREATE TABLE triggers (
  name    TEXT NOT NULL PRIMARY KEY,
  state   TEXT NOT NULL,
  secrets TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_migrations (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT
;

CREATE TABLE windlass_store (
  one          INTEGER PRIMARY KEY CHECK (one = 1),
  store_id     INTEGER NOT NULL,            -- names this store in feed cursors
  incarnation  INTEGER NOT NULL DEFAULT 0,  -- how often it was restored: cursors and fences of before are told from now's
  file         TEXT,                        -- the file it is in: a back-up put in its place is another
  purged_seq   INTEGER NOT NULL DEFAULT 0,  -- the feed never hands out a number twice, also after a purge
  guard        TEXT,                        -- checksum of the guard in force
  closed       TEXT                         -- why it takes no writes, as JSON; null while it does
) STRICT;

CREATE TABLE workers (
  id         TEXT    NOT NULL PRIMARY KEY,
  queues     TEXT    NOT NULL,
  kinds      TEXT    NOT NULL,
  capacity   INTEGER NOT NULL,
  labels     TEXT    NOT NULL,
  draining   INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  slots      TEXT    NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;

CREATE INDEX answers_expiry ON answers (expires_at);

CREATE INDEX approvals_job ON approvals (job_id, name, asked_version);

CREATE INDEX approvals_status ON approvals (status, id);

CREATE INDEX job_events_agent ON job_events (agent_id, job_id) WHERE agent_id IS NOT NULL;

CREATE UNIQUE INDEX job_events_key ON job_events (job_id, key) WHERE key IS NOT NULL;

CREATE INDEX job_events_kind ON job_events (kind, job_id) WHERE kind IS NOT NULL;

CREATE INDEX job_events_parent ON job_events (parent_id, job_id) WHERE parent_id IS NOT NULL;

CREATE UNIQUE INDEX job_events_version ON job_events (job_id, version);

CREATE INDEX job_keys_expiry ON job_keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX job_keys_job ON job_keys (job_id);

CREATE INDEX job_logs_age ON job_logs (at, job_id);

CREATE INDEX job_tags_job ON job_tags (job_id);

CREATE INDEX jobs_deadline ON jobs (deadline_at, id) WHERE deadline_at IS NOT NULL;

CREATE INDEX jobs_due ON jobs (queue, priority DESC, due_at, id, kind) WHERE due_at IS NOT NULL;

CREATE INDEX jobs_finished ON jobs (status, finished_at, id) WHERE finished_at IS NOT NULL;

CREATE INDEX jobs_lane ON jobs (queue, priority DESC, lane, due_at, id) WHERE lane IS NOT NULL AND due_at IS NOT NULL;

CREATE INDEX jobs_parked ON jobs (status, id) WHERE waiting_for IS NOT NULL OR assignment IS NOT NULL;

CREATE INDEX jobs_worker ON jobs (worker_id, id) WHERE worker_id IS NOT NULL;

CREATE INDEX problem_hours_at ON problem_hours (at);

CREATE INDEX problems_seen ON problems (last_seen_at, fingerprint);

CREATE INDEX schedules_due ON schedules (next_at, name) WHERE next_at IS NOT NULL;

CREATE INDEX tombstones_age ON tombstones (purged_at);

CREATE INDEX trigger_events_due ON trigger_events (due_at, id) WHERE due_at IS NOT NULL;

CREATE UNIQUE INDEX trigger_events_key ON trigger_events (trigger_name, dedupe_key) WHERE dedupe_key IS NOT NULL;

CREATE INDEX trigger_events_of ON trigger_events (trigger_name, id);

CREATE INDEX trigger_events_processed ON trigger_events (processed_at) WHERE processed_at IS NOT NULL;

CREATE INDEX trigger_events_unprocessed ON trigger_events (received_at, id) WHERE processed_at IS NULL;

CREATE TRIGGER job_events_appended BEFORE INSERT ON job_events
WHEN NOT sqlite_compileoption_used('windlass')
  AND (NEW.actor <> 'sql' OR NOT EXISTS (SELECT 1 FROM jobs WHERE id = NEW.job_id AND version = NEW.version)
    OR EXISTS (SELECT 1 FROM job_events WHERE job_id = NEW.job_id AND version = NEW.version))
BEGIN
  SELECT RAISE(ABORT, 'history is written by windlass, not by hand; use the windlass command');
END;

CREATE TRIGGER job_events_immutable BEFORE UPDATE ON job_events
BEGIN
  SELECT RAISE(ABORT, 'history is never changed: job_events is append-only');
END;

CREATE TRIGGER job_events_kept BEFORE DELETE ON job_events
WHEN NOT EXISTS (SELECT 1 FROM purging WHERE job_id = OLD.job_id)
BEGIN
  SELECT RAISE(ABORT, 'history is never deleted by hand; finished jobs are purged by windlass');
END;

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

CREATE TRIGGER jobs_enqueued BEFORE INSERT ON jobs
WHEN NOT sqlite_compileoption_used('windlass')
BEGIN
  SELECT RAISE(ABORT, 'jobs are enqueued by windlass, not by hand; use the windlass command');
END;

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

CREATE TRIGGER jobs_kept BEFORE DELETE ON jobs
WHEN OLD.finished_at IS NULL OR NOT EXISTS (SELECT 1 FROM purging WHERE job_id = OLD.id)
BEGIN
  SELECT RAISE(ABORT, 'jobs are never deleted by hand; cancel them, finished ones are purged by windlass');
END;

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

CREATE TRIGGER removals_immutable BEFORE UPDATE ON removals
BEGIN
  SELECT RAISE(ABORT, 'which jobs were removed is never changed');
END;

CREATE TRIGGER removals_kept BEFORE DELETE ON removals
BEGIN
  SELECT RAISE(ABORT, 'which jobs were removed is never forgotten');
END;

CREATE TRIGGER removals_made BEFORE INSERT ON removals
WHEN NOT sqlite_compileoption_used('windlass')
BEGIN
  SELECT RAISE(ABORT, 'jobs are removed by windlass, not by hand');
END;

CREATE TRIGGER seals_immutable BEFORE UPDATE ON seals
BEGIN
  SELECT RAISE(ABORT, 'seals are never changed');
END;

CREATE TRIGGER seals_kept BEFORE DELETE ON seals
BEGIN
  SELECT RAISE(ABORT, 'seals are never deleted');
END;

CREATE TRIGGER seals_made BEFORE INSERT ON seals
WHEN NOT sqlite_compileoption_used('windlass')
BEGIN
  SELECT RAISE(ABORT, 'seals are made by windlass, not by hand');
END;
