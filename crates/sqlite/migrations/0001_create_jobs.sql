-- What do we store? One narrow row per job (jobs) and one append-only log (job_events); beside them only what
-- outlives jobs or surrounds them. Times are microseconds since 1970 UTC.

CREATE TABLE windlass_store (
  one          INTEGER PRIMARY KEY CHECK (one = 1),
  store_id     INTEGER NOT NULL,            -- names this store in feed cursors
  incarnation  INTEGER NOT NULL DEFAULT 0,  -- how often it was restored: cursors and fences of before are told from now's
  file         TEXT,                        -- the file it is in: a back-up put in its place is another
  purged_seq   INTEGER NOT NULL DEFAULT 0,  -- the feed never hands out a number twice, also after a purge
  guard        TEXT,                        -- checksum of the guard in force
  closed       TEXT                         -- why it takes no writes, as JSON; null while it does
) STRICT;
INSERT INTO windlass_store (one, store_id) VALUES (1, random());

-- Where each job stands. A fold of its log, except lease_expires_at and, while running, due_at.
-- With a rowid: a row that is moved twice in its life is found by an integer, and its indexes are that much smaller.
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

-- Conditions of partial indexes are written without comparing texts: they are looked at on every change of a row.
-- Who is next. The kind stands at the end so that a claim by kind filters inside the index.
CREATE INDEX jobs_due ON jobs (queue, priority DESC, due_at, id, kind) WHERE due_at IS NOT NULL;
-- Keyed jobs by lane, for queues with rules.
CREATE INDEX jobs_lane ON jobs (queue, priority DESC, lane, due_at, id) WHERE lane IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX jobs_deadline ON jobs (deadline_at, id) WHERE deadline_at IS NOT NULL;
CREATE INDEX jobs_worker ON jobs (worker_id, id) WHERE worker_id IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (status, finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_parked ON jobs (status, id) WHERE waiting_for IS NOT NULL OR assignment IS NOT NULL;

-- What happened, append-only. Event 1 carries the payload and the immutable facts; lists filter by them here,
-- where they are written once, never on the churning row.
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
CREATE UNIQUE INDEX job_events_version ON job_events (job_id, version);
CREATE UNIQUE INDEX job_events_key ON job_events (job_id, key) WHERE key IS NOT NULL;
CREATE INDEX job_events_kind ON job_events (kind, job_id) WHERE kind IS NOT NULL;
CREATE INDEX job_events_agent ON job_events (agent_id, job_id) WHERE agent_id IS NOT NULL;
CREATE INDEX job_events_parent ON job_events (parent_id, job_id) WHERE parent_id IS NOT NULL;

-- Tags of event 1, one row each: SQLite has no index over a list.
CREATE TABLE job_tags (
  tag    TEXT NOT NULL,
  job_id BLOB NOT NULL,
  PRIMARY KEY (tag, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_tags_job ON job_tags (job_id);

-- Unique keys and slots. They outlive jobs.
CREATE TABLE job_keys (
  scope        TEXT NOT NULL,
  key          TEXT NOT NULL,
  job_id       BLOB NOT NULL,
  payload_hash BLOB NOT NULL,
  expires_at   INTEGER,
  outcome      TEXT,                        -- how its job ended, once the job was removed
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_keys_job ON job_keys (job_id);
CREATE INDEX job_keys_expiry ON job_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Where each approval stands; prompt and votes are events of its job.
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
CREATE INDEX approvals_job ON approvals (job_id, name, asked_version);
CREATE INDEX approvals_status ON approvals (status, id);

-- What handlers print.
CREATE TABLE job_logs (
  job_id  BLOB    NOT NULL,
  n       INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  line    TEXT    NOT NULL,
  PRIMARY KEY (job_id, n)
) STRICT, WITHOUT ROWID;
-- Old lines are found by their age, and move to the archive.
CREATE INDEX job_logs_age ON job_logs (at, job_id);

-- Lines that moved to the archive: which, and to which part of it.
CREATE TABLE job_log_parts (
  job_id   BLOB    NOT NULL,
  first_n  INTEGER NOT NULL,
  last_n   INTEGER NOT NULL,
  part     TEXT    NOT NULL,
  moved_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, first_n),
  CHECK (first_n >= 1 AND last_n >= first_n)
) STRICT, WITHOUT ROWID;

-- What is left of jobs that were archived and removed.
CREATE TABLE tombstones (
  job_id      BLOB    NOT NULL PRIMARY KEY,
  status      TEXT    NOT NULL,
  finished_at INTEGER NOT NULL,
  archive     TEXT    NOT NULL,             -- which part of the archive holds the job
  purged_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_age ON tombstones (purged_at);

-- Which jobs were removed, at which version: what seals over their logs are checked by.
CREATE TABLE removals (
  job_id     BLOB    NOT NULL,
  version    INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, version)
) STRICT, WITHOUT ROWID;

-- Hashes over the log, each chained to the one before; made by the reader of that name.
CREATE TABLE seals (
  number      INTEGER NOT NULL PRIMARY KEY,
  at          INTEGER NOT NULL,
  store_id    INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  body        BLOB    NOT NULL,             -- jobs, versions and hashes of the events, packed
  hash        BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;

-- Jobs by the clock. state is the whole schedule, as JSON.
CREATE TABLE schedules (
  name    TEXT NOT NULL PRIMARY KEY,
  next_at INTEGER,
  state   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (next_at, name) WHERE next_at IS NOT NULL;

-- What starts jobs when an event comes from outside. state is the whole trigger, as JSON.
CREATE TABLE triggers (
  name    TEXT NOT NULL PRIMARY KEY,
  state   TEXT NOT NULL,
  secrets TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What carries events out of the store. state is the whole subscription, as JSON.
CREATE TABLE subscriptions (
  name       TEXT NOT NULL PRIMARY KEY,
  state      TEXT NOT NULL,
  credential TEXT
) STRICT, WITHOUT ROWID;

-- What people keep beside the jobs. state is the whole paper, as JSON.
CREATE TABLE papers (
  kind  TEXT NOT NULL,
  name  TEXT NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Events that came in. One with a dedupe key is there once per trigger.
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
CREATE UNIQUE INDEX trigger_events_key ON trigger_events (trigger_name, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE INDEX trigger_events_of ON trigger_events (trigger_name, id);
CREATE INDEX trigger_events_unprocessed ON trigger_events (received_at, id) WHERE processed_at IS NULL;
CREATE INDEX trigger_events_due ON trigger_events (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX trigger_events_processed ON trigger_events (processed_at) WHERE processed_at IS NOT NULL;

-- Settings of the whole store: one row, once somebody changed one.
CREATE TABLE settings (
  one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  state TEXT    NOT NULL
) STRICT;

CREATE TABLE terms (
  name       TEXT    NOT NULL PRIMARY KEY,
  holder     TEXT    NOT NULL,
  epoch      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Readers of the feed: how far each has come.
CREATE TABLE readers (
  name     TEXT    NOT NULL PRIMARY KEY,
  cursor   TEXT,
  epoch    INTEGER NOT NULL,
  moved_at INTEGER NOT NULL,
  since    INTEGER
) STRICT, WITHOUT ROWID;

-- Numbers over time, made by the reader of that name.
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

-- Errors that are one thing. body is the whole problem, as JSON.
CREATE TABLE problems (
  fingerprint  TEXT    NOT NULL PRIMARY KEY,
  state        TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  last_seen_at INTEGER NOT NULL,
  body         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX problems_seen ON problems (last_seen_at, fingerprint);
CREATE TABLE problem_hours (
  fingerprint TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  errors      INTEGER NOT NULL,
  dead        INTEGER NOT NULL,
  PRIMARY KEY (fingerprint, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX problem_hours_at ON problem_hours (at);

CREATE TABLE queues (
  name      TEXT NOT NULL PRIMARY KEY,
  paused_at INTEGER,
  paused_by TEXT,
  defaults  TEXT NOT NULL DEFAULT '{}',
  mode      TEXT NOT NULL DEFAULT 'pull',
  flow      TEXT,                           -- its rules, as JSON; null without any
  endpoint  TEXT                            -- where its jobs are sent, as JSON with the secret; null without one
) STRICT, WITHOUT ROWID;

-- What starts of queues with rates have paid for, per lane, and until when lanes are held; lane -1 is the whole queue.
-- In the past both mean nothing.
CREATE TABLE buckets (
  queue      TEXT    NOT NULL,
  lane       INTEGER NOT NULL,
  paid_until INTEGER NOT NULL,
  cost       INTEGER NOT NULL,              -- of the last start, or the debt after a charge
  held_until INTEGER,                       -- null if nobody holds it
  PRIMARY KEY (queue, lane)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE audit (
  seq    INTEGER PRIMARY KEY,
  at     INTEGER NOT NULL,
  actor  TEXT    NOT NULL,
  action TEXT    NOT NULL,
  target TEXT    NOT NULL,
  detail TEXT    NOT NULL
) STRICT;

CREATE TABLE access_keys (
  name       TEXT    NOT NULL PRIMARY KEY,
  hash       BLOB    NOT NULL UNIQUE,
  roles      TEXT    NOT NULL,
  queues     TEXT,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT;

-- Answers to idempotency keys, kept for a day.
CREATE TABLE answers (
  key          TEXT    NOT NULL PRIMARY KEY,
  request_hash BLOB    NOT NULL,
  body         BLOB    NOT NULL,
  expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_expiry ON answers (expires_at);

-- Jobs that a purge is removing right now, inside its own transaction: the only way to delete history.
CREATE TABLE purging (
  job_id BLOB NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
