-- What do we store? One narrow row per job (jobs) and one append-only log (job_events); beside them only what
-- outlives jobs or surrounds them.

CREATE TABLE windlass.store (
  one         int    PRIMARY KEY CHECK (one = 1),
  store_id    bigint NOT NULL,            -- names this store in feed cursors
  incarnation int    NOT NULL DEFAULT 0,  -- how often it was restored: cursors and fences of before are told from now's
  system_id   bigint,                     -- the server and the timeline on which this incarnation began;
  timeline    int,                        -- null before the store is first opened
  base_seq    bigint NOT NULL DEFAULT 0,  -- the newest number then: up to here tx may be another server's
  purged_seq  bigint NOT NULL DEFAULT 0,  -- no event with a higher number was ever purged
  closed      text                        -- why it takes no writes, as JSON; null while it does
);
INSERT INTO windlass.store (one, store_id)
VALUES (1, ('x' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 16))::bit(64)::bigint);

-- The guard in force, by its parts, and its number: an older one is never put back.
CREATE TABLE windlass.guard (
  part     text COLLATE "C" NOT NULL PRIMARY KEY,
  number   int              NOT NULL,
  checksum text             NOT NULL
);

-- Where each job stands. A fold of its log, except lease_expires_at and, while running, due_at.
-- No index of this table names a column that a plain claim or completion changes, so both are heap-only updates: no
-- index entry is written for them. fillfactor: the three versions of a plain job's row fit on its page, also while an
-- older snapshot keeps them; with less room two connections fell to 80 % heap-only updates.
CREATE TABLE windlass.jobs (
  -- What it is, for ever.
  id                  uuid        NOT NULL PRIMARY KEY WITH (fillfactor = 40),
  created_at          timestamptz NOT NULL,
  grace_ms            bigint      NOT NULL,
  priority            smallint    NOT NULL,
  max_retries         int         NOT NULL,
  queue               text        COLLATE "C" NOT NULL,
  kind                text        NOT NULL,
  parent_id           uuid,
  unique_policy       text,
  timeout_ms          bigint,
  lease_ms            bigint,
  backoff             text,
  meta_version        bigint,
  lane                bigint,     -- made from its key; null without one
  -- What the life of a plain job never touches.
  retries             int         NOT NULL,
  crashes             int         NOT NULL,
  generation          int         NOT NULL,
  signals             int         NOT NULL,
  children            int         NOT NULL,
  dependents          int,        -- edges to jobs that wait for its end; null for none
  steps_from          bigint      NOT NULL,
  stage               text,
  epoch               bigint,
  assignment          bigint,
  waiting_for         text,
  wait_name           text,
  wait_version        bigint,
  wake_version        bigint,
  cancel_requested_at timestamptz,
  error_version       bigint,
  error_code          text,
  checkpoint_version  bigint,
  payload_version     bigint,
  deadline_at         timestamptz,
  -- What rare lists are driven by, set by the guard. They stay null in the life of a plain job. (As generated columns they
  -- cost 24 of 290 thousand instructions a job.)
  parked              text,
  assigned_to         text        COLLATE "C",
  dead                text,
  dead_at             timestamptz,
  -- What a claim or a completion changes: together, for the server's log takes what lies between the first byte that
  -- differs and the last.
  status              text        NOT NULL,
  version             bigint      NOT NULL,
  attempt             int         NOT NULL,
  progress            int         NOT NULL,
  due_at              timestamptz,
  lease_expires_at    timestamptz,
  lease_hash          bytea,
  updated_at          timestamptz NOT NULL,
  finished_at         timestamptz,
  result_version      bigint,
  started_at          timestamptz,
  claim               bigint,     -- which claim handed it out last: its row in holds
  worker_id           text        COLLATE "C",   -- who holds it, or held it last; it means nothing in other statuses
  CONSTRAINT numbers_within_their_limits CHECK (priority BETWEEN -5 AND 5 AND attempt >= 0
    AND retries BETWEEN 0 AND max_retries AND crashes >= 0 AND version > 0 AND generation >= 0
    AND progress BETWEEN 0 AND 100 AND signals >= 0 AND children >= 0 AND dependents > 0 AND timeout_ms > 0 AND lease_ms > 0
    AND grace_ms >= 0),
  CONSTRAINT leased_exactly_while_running CHECK ((status = 'running') = (lease_hash IS NOT NULL)
    AND (lease_hash IS NULL) = (lease_expires_at IS NULL)),
  CONSTRAINT waits_for_something_exactly_while_waiting CHECK ((status = 'waiting') = (waiting_for IS NOT NULL)),
  CONSTRAINT due_while_it_can_be_taken CHECK (due_at IS NOT NULL
    OR status IN ('assigned', 'waiting', 'completed', 'failed', 'timed_out', 'cancelled')),
  CONSTRAINT finished_exactly_when_terminal CHECK
    ((finished_at IS NOT NULL) = (status IN ('completed', 'failed', 'timed_out', 'cancelled'))
     AND (finished_at IS NULL OR due_at IS NULL)),
  CONSTRAINT dead_has_a_reason CHECK (status NOT IN ('failed', 'timed_out')
    OR (error_code IS NOT NULL AND error_version IS NOT NULL))
) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

-- Where no two keys are alike, to look for such before a page is split is in vain: deduplicate_items.

CREATE INDEX jobs_deadline ON windlass.jobs (deadline_at, id)
  WITH (deduplicate_items = off) WHERE deadline_at IS NOT NULL;
CREATE INDEX jobs_parked ON windlass.jobs (parked, id)
  WITH (deduplicate_items = off) WHERE parked IS NOT NULL;
CREATE INDEX jobs_assigned ON windlass.jobs (assigned_to, id)
  WITH (deduplicate_items = off) WHERE assigned_to IS NOT NULL;
CREATE INDEX jobs_dead ON windlass.jobs (dead, dead_at, id)
  WITH (deduplicate_items = off) WHERE dead IS NOT NULL;

-- Who stands in line: one row per job with a due time that nobody holds. Derived: it points at jobs and never decides.
-- The decision is made on the locked row of jobs, whose due_at must be the line's. Written only under that row's lock.
CREATE TABLE windlass.line (
  queue    text        COLLATE "C" NOT NULL,
  priority smallint    NOT NULL,
  due_at   timestamptz NOT NULL,
  id       uuid        NOT NULL,
  lane     bigint
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX line_due ON windlass.line (queue, priority DESC, due_at, id) WITH (deduplicate_items = off);
-- Keyed jobs by lane, for queues with rules.
CREATE INDEX line_lane ON windlass.line (queue, priority DESC, lane, due_at, id)
  WITH (deduplicate_items = off) WHERE lane IS NOT NULL;

-- What is held: one row per claim, not per job. Derived, like the line: of its jobs, those count whose row names this
-- claim and is running. Nothing of it is due before check_at; from then on jobs whose lease is over go back into line.
CREATE TABLE windlass.holds (
  claim     bigint      NOT NULL PRIMARY KEY,
  worker_id text        COLLATE "C" NOT NULL,
  check_at  timestamptz NOT NULL,
  nonce     bigint,                              -- with what its tokens were made, if they were made ahead
  ids       uuid[]      NOT NULL,                -- held
  over      uuid[]      NOT NULL DEFAULT '{}'    -- back in line: their lease is over, and nobody took them yet
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE windlass.holds ALTER ids SET STORAGE EXTERNAL;
CREATE INDEX holds_check ON windlass.holds (check_at);
CREATE INDEX holds_worker ON windlass.holds (worker_id, claim);

-- Who may take a slot of a queue with rules. Derived, like the line: of its jobs, those count whose row is running or
-- assigned. Written under the lock of the queue's row, by whoever hands out a job of it; jobs that ended leave it then too.
CREATE TABLE windlass.slots (
  queue text   COLLATE "C" NOT NULL,
  id    uuid   NOT NULL,
  lane  bigint,
  PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- What starts of queues with rates have paid for, per lane, and until when lanes are held; lane -1 is the whole queue.
-- In the past both mean nothing. Written under the lock of the queue's row.
CREATE TABLE windlass.buckets (
  queue      text        COLLATE "C" NOT NULL,
  lane       bigint      NOT NULL,
  paid_until timestamptz NOT NULL,
  cost       integer     NOT NULL,
  held_until timestamptz,
  PRIMARY KEY (queue, lane)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0);

-- What happened, append-only. Event 1 carries the payload and the immutable facts; lists filter by them here,
-- where they are written once, never on the churning row.
-- seq is uncached and taken under the job's row lock: per-job order holds. The sequence gives blocks of 64, so that a
-- statement that logs many takes few; whoever logs one leaves the rest of its block unused. tx is what feed cursors
-- compare. It comes first because defaults are made in the order of columns: a transaction has its id before it takes a
-- number, or marks would not hold.
CREATE TABLE windlass.job_events (
  tx         xid8        NOT NULL DEFAULT pg_current_xact_id(),
  seq        bigint      GENERATED BY DEFAULT AS IDENTITY (INCREMENT BY 64),
  job_id     uuid        NOT NULL,
  version    bigint      NOT NULL,
  at         timestamptz NOT NULL,
  type       text        NOT NULL,
  actor      text        NOT NULL,
  attempt    int         NOT NULL,
  generation int         NOT NULL,
  lease      bytea,
  key        text,
  detail     text,
  is_json    boolean,
  payload    bytea,
  kind       text,
  agent_id   text,
  parent_id  uuid,
  tags       text[],
  PRIMARY KEY (job_id, version) WITH (fillfactor = 40)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05,
  -- A purge removes events by the million: their room is to be used again before the table has grown by a fifth.
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX job_events_key ON windlass.job_events (job_id, key) WHERE key IS NOT NULL;
-- The feed is read along its numbers, from a mark on.
CREATE INDEX job_events_seq ON windlass.job_events (seq) WITH (deduplicate_items = off);
-- Completed jobs by when they ended: a job completes once, and this event never changes.
CREATE INDEX job_events_completed ON windlass.job_events (at, job_id)
  WITH (deduplicate_items = off) WHERE type = 'job_completed';
CREATE INDEX job_events_kind ON windlass.job_events (kind, job_id)
  WITH (deduplicate_items = off) WHERE kind IS NOT NULL;
CREATE INDEX job_events_agent ON windlass.job_events (agent_id, job_id)
  WITH (deduplicate_items = off) WHERE agent_id IS NOT NULL;
CREATE INDEX job_events_parent ON windlass.job_events (parent_id, job_id)
  WITH (deduplicate_items = off) WHERE parent_id IS NOT NULL;
CREATE INDEX job_events_tags ON windlass.job_events USING gin (tags) WHERE tags IS NOT NULL;

-- Every transaction after tx numbers its events above seq. Feed cursors rest on the newest one that they see.
CREATE TABLE windlass.marks (
  tx  xid8   NOT NULL PRIMARY KEY,
  seq bigint NOT NULL
);

-- Unique keys and slots. They outlive jobs.
CREATE TABLE windlass.job_keys (
  scope        text  COLLATE "C" NOT NULL,
  key          text  COLLATE "C" NOT NULL,
  job_id       uuid  NOT NULL,
  payload_hash bytea NOT NULL,
  expires_at   timestamptz,
  outcome      text,                        -- how its job ended, once the job was removed
  PRIMARY KEY (scope, key)
);
CREATE INDEX job_keys_job ON windlass.job_keys (job_id);
CREATE INDEX job_keys_expiry ON windlass.job_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Where each approval stands; prompt and votes are events of its job.
CREATE TABLE windlass.approvals (
  id            uuid        NOT NULL PRIMARY KEY,
  job_id        uuid        NOT NULL,
  name          text COLLATE "C"        NOT NULL,
  status        text        NOT NULL,
  required      int         NOT NULL,
  approved      int         NOT NULL,
  expires_at    timestamptz NOT NULL,
  token_hash    bytea       NOT NULL,
  token_used    boolean     NOT NULL,
  asked_version bigint      NOT NULL,
  asked_at      timestamptz NOT NULL,
  decided_at    timestamptz
);
CREATE INDEX approvals_job ON windlass.approvals (job_id, name, asked_version);
CREATE INDEX approvals_status ON windlass.approvals (status, id);

-- What handlers print.
CREATE TABLE windlass.job_logs (
  job_id  uuid        NOT NULL,
  n       bigint      NOT NULL,
  at      timestamptz NOT NULL,
  attempt int         NOT NULL,
  line    text        NOT NULL,
  PRIMARY KEY (job_id, n)
);
-- Old lines are found by their age, and move to the archive.
CREATE INDEX job_logs_age ON windlass.job_logs (at, job_id);

-- Lines that moved to the archive: which, and to which part of it.
CREATE TABLE windlass.job_log_parts (
  job_id   uuid        NOT NULL,
  first_n  bigint      NOT NULL,
  last_n   bigint      NOT NULL,
  part     text        NOT NULL,
  moved_at timestamptz NOT NULL,
  PRIMARY KEY (job_id, first_n),
  CHECK (first_n >= 1 AND last_n >= first_n)
);

-- What is left of jobs that were archived and removed.
CREATE TABLE windlass.tombstones (
  job_id      uuid        NOT NULL PRIMARY KEY,
  status      text        NOT NULL,
  finished_at timestamptz NOT NULL,
  archive     text        NOT NULL,         -- which part of the archive holds the job
  purged_at   timestamptz NOT NULL
);
CREATE INDEX tombstones_age ON windlass.tombstones (purged_at);

-- Which jobs were removed, at which version: what seals over their logs are checked by.
CREATE TABLE windlass.removals (
  job_id     uuid        NOT NULL,
  version    bigint      NOT NULL,
  removed_at timestamptz NOT NULL,
  PRIMARY KEY (job_id, version)
);

-- Hashes over the log, each chained to the one before; made by the reader of that name.
CREATE TABLE windlass.seals (
  number      bigint      NOT NULL PRIMARY KEY,
  at          timestamptz NOT NULL,
  store_id    bigint      NOT NULL,
  incarnation int         NOT NULL,
  body        bytea       NOT NULL,         -- jobs, versions and hashes of the events, packed
  hash        bytea       NOT NULL CHECK (length(hash) = 32)
);
-- Hashes do not become smaller by being packed.
ALTER TABLE windlass.seals ALTER COLUMN body SET STORAGE EXTERNAL;

-- Jobs by the clock.
CREATE TABLE windlass.schedules (
  name    text COLLATE "C" NOT NULL PRIMARY KEY,
  next_at timestamptz,
  state   text NOT NULL
);
CREATE INDEX schedules_due ON windlass.schedules (next_at, name) WHERE next_at IS NOT NULL;

-- What starts jobs when an event comes from outside.
CREATE TABLE windlass.triggers (
  name    text COLLATE "C" NOT NULL PRIMARY KEY,
  state   text NOT NULL,
  secrets text NOT NULL
);

-- What carries events out of the store.
CREATE TABLE windlass.subscriptions (
  name       text COLLATE "C" NOT NULL PRIMARY KEY,
  state      text NOT NULL,
  credential text
);

-- What people keep beside the jobs.
CREATE TABLE windlass.papers (
  kind  text COLLATE "C" NOT NULL,
  name  text COLLATE "C" NOT NULL,
  state text NOT NULL,
  PRIMARY KEY (kind, name)
);

-- Events that came in. One with a dedupe key is there once per trigger.
CREATE TABLE windlass.trigger_events (
  id           uuid        NOT NULL PRIMARY KEY,
  trigger_name text        COLLATE "C" NOT NULL,
  dedupe_key   text        COLLATE "C",
  payload      bytea,
  is_json      boolean,
  actor        text        NOT NULL,
  received_at  timestamptz NOT NULL,
  due_at       timestamptz,
  processed_at timestamptz,
  detail       text        NOT NULL,
  CHECK ((due_at IS NULL) = (processed_at IS NOT NULL))
);
CREATE UNIQUE INDEX trigger_events_key ON windlass.trigger_events (trigger_name, dedupe_key)
  WHERE dedupe_key IS NOT NULL;
CREATE INDEX trigger_events_of ON windlass.trigger_events (trigger_name, id);
CREATE INDEX trigger_events_unprocessed ON windlass.trigger_events (received_at, id) WHERE processed_at IS NULL;
CREATE INDEX trigger_events_due ON windlass.trigger_events (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX trigger_events_processed ON windlass.trigger_events (processed_at) WHERE processed_at IS NOT NULL;

-- Settings of the whole store: one row, once somebody changed one.
CREATE TABLE windlass.settings (
  one   int  NOT NULL PRIMARY KEY CHECK (one = 1),
  state text NOT NULL
);

CREATE TABLE windlass.terms (
  name       text COLLATE "C"        NOT NULL PRIMARY KEY,
  holder     text        NOT NULL,
  epoch      bigint      NOT NULL,
  expires_at timestamptz NOT NULL
);

-- Readers of the feed: how far each has come.
CREATE TABLE windlass.readers (
  name     text COLLATE "C" NOT NULL PRIMARY KEY,
  cursor   text,
  epoch    bigint      NOT NULL,
  moved_at timestamptz NOT NULL,
  since    timestamptz
);

-- Numbers over time, made by the reader of that name.
CREATE TABLE windlass.rollups (
  resolution text COLLATE "C" NOT NULL,
  at         timestamptz NOT NULL,
  queue      text COLLATE "C" NOT NULL,
  kind       text COLLATE "C" NOT NULL,
  tally      text COLLATE "C" NOT NULL,
  n          bigint      NOT NULL,
  times      text        NOT NULL,
  PRIMARY KEY (resolution, at, queue, kind, tally)
);
CREATE TABLE windlass.gauges (
  resolution text COLLATE "C" NOT NULL,
  at         timestamptz NOT NULL,
  queue      text COLLATE "C" NOT NULL,
  depth      bigint      NOT NULL,
  oldest_ms  bigint      NOT NULL,
  busy       bigint      NOT NULL,
  capacity   bigint      NOT NULL,
  PRIMARY KEY (resolution, at, queue)
);

-- Errors that are one thing.
CREATE TABLE windlass.problems (
  fingerprint  text COLLATE "C" NOT NULL PRIMARY KEY,
  state        text COLLATE "C" NOT NULL,
  kind         text COLLATE "C" NOT NULL,
  last_seen_at timestamptz NOT NULL,
  body         text        NOT NULL
);
CREATE INDEX problems_seen ON windlass.problems (last_seen_at, fingerprint);
CREATE TABLE windlass.problem_hours (
  fingerprint text COLLATE "C" NOT NULL,
  at          timestamptz NOT NULL,
  errors      bigint      NOT NULL,
  dead        bigint      NOT NULL,
  PRIMARY KEY (fingerprint, at)
);
CREATE INDEX problem_hours_at ON windlass.problem_hours (at);

CREATE TABLE windlass.queues (
  name      text COLLATE "C" NOT NULL PRIMARY KEY,
  paused_at timestamptz,
  paused_by text,
  defaults  text NOT NULL DEFAULT '{}',
  mode      text NOT NULL DEFAULT 'pull',
  flow      text,
  endpoint  text
);

CREATE TABLE windlass.workers (
  id         text        COLLATE "C" NOT NULL PRIMARY KEY,
  queues     text        NOT NULL,
  kinds      text        NOT NULL,
  capacity   int         NOT NULL,
  labels     text        NOT NULL,
  draining   boolean     NOT NULL,
  started_at timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  slots      text        NOT NULL DEFAULT '{}'
);

CREATE TABLE windlass.audit (
  seq    bigint      GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  at     timestamptz NOT NULL,
  actor  text        NOT NULL,
  action text        NOT NULL,
  target text        NOT NULL,
  detail text        NOT NULL
);

CREATE TABLE windlass.access_keys (
  name       text COLLATE "C"        NOT NULL PRIMARY KEY,
  hash       bytea       NOT NULL UNIQUE,
  roles      text        NOT NULL,
  queues     text,
  expires_at timestamptz,
  created_at timestamptz NOT NULL,
  revoked_at timestamptz
);

-- Answers to idempotency keys, kept for a day.
CREATE TABLE windlass.answers (
  key          text        COLLATE "C" NOT NULL PRIMARY KEY,
  request_hash bytea       NOT NULL,
  body         bytea       NOT NULL,
  expires_at   timestamptz NOT NULL
);
CREATE INDEX answers_expiry ON windlass.answers (expires_at);

-- What a transaction of the app role must make good before it commits; empty in between.
CREATE UNLOGGED TABLE windlass.owed (
  what text NOT NULL,
  id   text NOT NULL
);

-- What a reader with SQL alone needs to know. Every table and column has its line.
COMMENT ON TABLE windlass.store IS 'This store: one row.';
COMMENT ON COLUMN windlass.store.one IS 'Always 1.';
COMMENT ON COLUMN windlass.store.store_id IS 'Names this store in feed cursors.';
COMMENT ON COLUMN windlass.store.incarnation IS 'How often it was restored or adopted. Cursors and fences name it.';
COMMENT ON COLUMN windlass.store.system_id IS 'The server on which this incarnation began; null before the first opening.';
COMMENT ON COLUMN windlass.store.timeline IS 'The timeline of that server; null before the first opening.';
COMMENT ON COLUMN windlass.store.base_seq IS 'The newest number of an event when this incarnation began.';
COMMENT ON COLUMN windlass.store.purged_seq IS 'No event with a higher number was ever purged.';
COMMENT ON COLUMN windlass.store.closed IS 'Why it takes no writes, as JSON; null while it does.';
COMMENT ON TABLE windlass.marks IS 'From where feed cursors read: every transaction after tx numbers its events above seq.';
COMMENT ON COLUMN windlass.marks.tx IS 'A transaction.';
COMMENT ON COLUMN windlass.marks.seq IS 'Every later transaction numbers its events above this.';
COMMENT ON TABLE windlass.guard IS 'The guard in force, by its parts. An older one is never put back.';
COMMENT ON COLUMN windlass.guard.part IS 'guard, api, triggers or views.';
COMMENT ON COLUMN windlass.guard.number IS 'The number of the guard that this part is of.';
COMMENT ON COLUMN windlass.guard.checksum IS 'SHA-256 of its text, in hex.';
COMMENT ON TABLE windlass.migrations IS 'Migrations that were applied.';
COMMENT ON COLUMN windlass.migrations.id IS 'Counts from 1.';
COMMENT ON COLUMN windlass.migrations.name IS 'The name of its file.';
COMMENT ON COLUMN windlass.migrations.checksum IS 'SHA-256 of its text, in hex.';
COMMENT ON COLUMN windlass.migrations.applied_at IS 'When it was applied.';
COMMENT ON TABLE windlass.jobs IS 'Where each job stands: one row, the fold of its log.';
COMMENT ON COLUMN windlass.jobs.id IS 'Its identity, a UUID of version 7.';
COMMENT ON COLUMN windlass.jobs.queue IS 'Which line it stands in.';
COMMENT ON COLUMN windlass.jobs.priority IS '-5 to 5, higher first.';
COMMENT ON COLUMN windlass.jobs.status IS
  'pending, assigned, running, retry, waiting, orphaned, completed, failed, timed_out or cancelled.';
COMMENT ON COLUMN windlass.jobs.due_at IS
  'From when a worker may take it; while running, when the lease is over; null where no worker may.';
COMMENT ON COLUMN windlass.jobs.finished_at IS 'When it ended; null while it lives.';
COMMENT ON COLUMN windlass.jobs.deadline_at IS
  'When the engine must act: end of a wait, lapse of an assignment, forced cancel, timeout. Null if never.';
COMMENT ON COLUMN windlass.jobs.worker_id IS 'Which worker holds it or is assigned it; once completed, which held it last.';
COMMENT ON COLUMN windlass.jobs.claim IS 'Number of the claim that handed it out last: its row in holds.';
COMMENT ON COLUMN windlass.jobs.parked IS 'The status while it waits or is assigned; drives lists.';
COMMENT ON COLUMN windlass.jobs.assigned_to IS 'The worker while it is assigned; drives lists.';
COMMENT ON COLUMN windlass.jobs.dead IS 'The status once it failed, timed out or was cancelled; drives lists.';
COMMENT ON COLUMN windlass.jobs.dead_at IS 'When that happened; drives lists.';
COMMENT ON TABLE windlass.line IS 'Who stands in line: a row per job with a due time that nobody holds. Derived from jobs.';
COMMENT ON COLUMN windlass.line.queue IS 'Queue of the job.';
COMMENT ON COLUMN windlass.line.priority IS 'Priority of the job.';
COMMENT ON COLUMN windlass.line.due_at IS 'From when it may be claimed.';
COMMENT ON COLUMN windlass.line.id IS 'The job.';
COMMENT ON COLUMN windlass.line.lane IS 'Number of its lane, made from its key; null without one.';
COMMENT ON TABLE windlass.holds IS 'What is held: one row per claim. Derived from jobs.';
COMMENT ON COLUMN windlass.holds.claim IS 'Number of the claim.';
COMMENT ON COLUMN windlass.holds.worker_id IS 'Who claimed.';
COMMENT ON COLUMN windlass.holds.check_at IS 'No lease of this claim is over before.';
COMMENT ON COLUMN windlass.holds.nonce IS 'With what its tokens were made, if before it took its jobs; no secret.';
COMMENT ON COLUMN windlass.holds.ids IS 'Jobs that it took; those count whose row names this claim and is running.';
COMMENT ON COLUMN windlass.holds.over IS 'Jobs whose lease is over: they stand in line again until they are taken.';
COMMENT ON COLUMN windlass.jobs.lease_hash IS 'Hash of the holder''s token, exactly while running.';
COMMENT ON COLUMN windlass.jobs.lease_expires_at IS 'When the holder must have stopped by itself, exactly while running.';
COMMENT ON COLUMN windlass.jobs.kind IS 'What to do: names the handler.';
COMMENT ON COLUMN windlass.jobs.epoch IS 'Epoch of the leader under which it was assigned; null when a worker claimed it.';
COMMENT ON COLUMN windlass.jobs.assignment IS 'Version of the event that assigned it, while it is assigned or runs so.';
COMMENT ON COLUMN windlass.jobs.attempt IS 'Executions over its whole life.';
COMMENT ON COLUMN windlass.jobs.retries IS 'Failures that used the budget.';
COMMENT ON COLUMN windlass.jobs.max_retries IS 'The budget.';
COMMENT ON COLUMN windlass.jobs.crashes IS 'Leases lost in a row.';
COMMENT ON COLUMN windlass.jobs.version IS 'Events ever written in its log.';
COMMENT ON COLUMN windlass.jobs.generation IS 'How often it was redriven.';
COMMENT ON COLUMN windlass.jobs.progress IS '0 to 100.';
COMMENT ON COLUMN windlass.jobs.stage IS 'Free text of its handler: where it is.';
COMMENT ON COLUMN windlass.jobs.waiting_for IS 'approval, signal, timer, children or news, exactly while waiting.';
COMMENT ON COLUMN windlass.jobs.wait_name IS 'Name of what it waits for.';
COMMENT ON COLUMN windlass.jobs.wait_version IS 'Version of the event of its last wait.';
COMMENT ON COLUMN windlass.jobs.wake_version IS 'Version of the event that ended that wait.';
COMMENT ON COLUMN windlass.jobs.signals IS 'Signals kept for later waits.';
COMMENT ON COLUMN windlass.jobs.children IS 'Children that have not finished; before its first run, also jobs it waits for.';
COMMENT ON COLUMN windlass.jobs.dependents IS 'Edges to jobs that wait for its end; null for none.';
COMMENT ON COLUMN windlass.jobs.parent_id IS 'The job that counts it among its children.';
COMMENT ON COLUMN windlass.jobs.cancel_requested_at IS 'When its holder was asked to stop.';
COMMENT ON COLUMN windlass.jobs.steps_from IS 'Steps recorded before this version do not count.';
COMMENT ON COLUMN windlass.jobs.unique_policy IS
  'How long its unique key is held: active, succeeded, forever or ttl with milliseconds. Null without a key.';
COMMENT ON COLUMN windlass.jobs.timeout_ms IS 'How long one attempt may take, in milliseconds; null without a limit.';
COMMENT ON COLUMN windlass.jobs.lease_ms IS 'Its own lease, in milliseconds; null for the worker''s.';
COMMENT ON COLUMN windlass.jobs.grace_ms IS 'How long after its expiry a lease is over, in milliseconds.';
COMMENT ON COLUMN windlass.jobs.backoff IS 'Its own delays between retries, as JSON; null for the default.';
COMMENT ON COLUMN windlass.jobs.lane IS 'Number of its lane, made from its key; null without one.';
COMMENT ON COLUMN windlass.jobs.result_version IS 'Version of the event with its result.';
COMMENT ON COLUMN windlass.jobs.error_version IS 'Version of the event with its last error.';
COMMENT ON COLUMN windlass.jobs.error_code IS 'The code of that error.';
COMMENT ON COLUMN windlass.jobs.checkpoint_version IS 'Version of the event with its last checkpoint.';
COMMENT ON COLUMN windlass.jobs.payload_version IS 'Version of the redrive with its payload; null where event 1 has it.';
COMMENT ON COLUMN windlass.jobs.meta_version IS 'Version of the event with its metadata; null where it has none.';
COMMENT ON COLUMN windlass.jobs.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN windlass.jobs.started_at IS 'When its latest attempt began.';
COMMENT ON COLUMN windlass.jobs.updated_at IS 'When its row last changed with an event.';
COMMENT ON TABLE windlass.slots IS 'Who may take a slot of a queue with limits; those count that run or are assigned.';
COMMENT ON COLUMN windlass.slots.queue IS 'The queue.';
COMMENT ON COLUMN windlass.slots.id IS 'The job.';
COMMENT ON COLUMN windlass.slots.lane IS 'Number of its lane; null without a key.';
COMMENT ON TABLE windlass.buckets IS
  'What starts of queues with rates have paid for, and until when lanes are held; in the past both mean nothing.';
COMMENT ON COLUMN windlass.buckets.queue IS 'The queue.';
COMMENT ON COLUMN windlass.buckets.lane IS 'Number of the lane; -1 for the whole queue.';
COMMENT ON COLUMN windlass.buckets.paid_until IS 'Up to when starts are paid for.';
COMMENT ON COLUMN windlass.buckets.cost IS 'What the last start cost, or the debt after a charge, in units.';
COMMENT ON COLUMN windlass.buckets.held_until IS 'Until when the lane is held; null if nobody holds it.';
COMMENT ON TABLE windlass.job_events IS 'What happened, append-only: every job''s log.';
COMMENT ON COLUMN windlass.job_events.seq IS 'Place in the feed of all jobs; it has gaps.';
COMMENT ON COLUMN windlass.job_events.job_id IS 'Whose log it is.';
COMMENT ON COLUMN windlass.job_events.version IS 'Place in that log, from 1 without a gap.';
COMMENT ON COLUMN windlass.job_events.at IS 'When it happened.';
COMMENT ON COLUMN windlass.job_events.type IS 'What happened, such as job_created or job_completed.';
COMMENT ON COLUMN windlass.job_events.actor IS 'Who did it: api, engine, worker:, operator: or sql: and a name.';
COMMENT ON COLUMN windlass.job_events.attempt IS 'The job''s attempt then.';
COMMENT ON COLUMN windlass.job_events.generation IS 'The job''s generation then.';
COMMENT ON COLUMN windlass.job_events.lease IS 'Hash of the lease under which it was written.';
COMMENT ON COLUMN windlass.job_events.key IS 'The caller''s key, which makes a repeat known.';
COMMENT ON COLUMN windlass.job_events.detail IS 'What it says beside its payload, as JSON.';
COMMENT ON COLUMN windlass.job_events.is_json IS 'Whether the payload is JSON; null without one.';
COMMENT ON COLUMN windlass.job_events.payload IS 'The payload, result, error, checkpoint or value, as it came.';
COMMENT ON COLUMN windlass.job_events.kind IS 'The job''s kind; of the first event only.';
COMMENT ON COLUMN windlass.job_events.agent_id IS 'The agent on whose behalf; of the first event only.';
COMMENT ON COLUMN windlass.job_events.parent_id IS 'The job''s parent; of the first event only.';
COMMENT ON COLUMN windlass.job_events.tags IS 'The job''s tags; of the first event only.';
COMMENT ON COLUMN windlass.job_events.tx IS 'The transaction that wrote it.';
COMMENT ON TABLE windlass.job_keys IS 'Unique keys and slots. They outlive jobs.';
COMMENT ON COLUMN windlass.job_keys.scope IS 'Where it is unique: a queue or a kind.';
COMMENT ON COLUMN windlass.job_keys.key IS 'The key.';
COMMENT ON COLUMN windlass.job_keys.job_id IS 'The job that holds it or held it last.';
COMMENT ON COLUMN windlass.job_keys.payload_hash IS 'SHA-256 of that job''s payload.';
COMMENT ON COLUMN windlass.job_keys.expires_at IS 'Until when it is held, if for a time.';
COMMENT ON COLUMN windlass.job_keys.outcome IS 'How that job ended, once it was removed; null while it is here.';
COMMENT ON TABLE windlass.approvals IS 'Where each question to people stands; prompt and votes are events of its job.';
COMMENT ON COLUMN windlass.approvals.id IS 'Its identity.';
COMMENT ON COLUMN windlass.approvals.job_id IS 'The job that asks.';
COMMENT ON COLUMN windlass.approvals.name IS 'What the job calls it.';
COMMENT ON COLUMN windlass.approvals.status IS 'pending, approved, denied, expired or void.';
COMMENT ON COLUMN windlass.approvals.required IS 'Votes that it needs.';
COMMENT ON COLUMN windlass.approvals.approved IS 'Votes for it so far.';
COMMENT ON COLUMN windlass.approvals.expires_at IS 'When it counts as denied.';
COMMENT ON COLUMN windlass.approvals.token_hash IS 'Hash of its link''s token.';
COMMENT ON COLUMN windlass.approvals.token_used IS 'Whether the link has voted.';
COMMENT ON COLUMN windlass.approvals.asked_version IS 'Version of the event that asked.';
COMMENT ON COLUMN windlass.approvals.asked_at IS 'When it was asked.';
COMMENT ON COLUMN windlass.approvals.decided_at IS 'When it was decided.';
COMMENT ON TABLE windlass.job_logs IS 'Lines that handlers print.';
COMMENT ON COLUMN windlass.job_logs.job_id IS 'Whose line it is.';
COMMENT ON COLUMN windlass.job_logs.n IS 'Its number, from 1.';
COMMENT ON COLUMN windlass.job_logs.at IS 'When it was printed.';
COMMENT ON COLUMN windlass.job_logs.attempt IS 'In which attempt.';
COMMENT ON COLUMN windlass.job_logs.line IS 'The line.';
COMMENT ON TABLE windlass.schedules IS 'Jobs by the clock.';
COMMENT ON COLUMN windlass.schedules.name IS 'Its name.';
COMMENT ON COLUMN windlass.schedules.next_at IS 'The slot that comes next; null while it is paused or has none.';
COMMENT ON COLUMN windlass.schedules.state IS 'The whole schedule, as JSON.';
COMMENT ON TABLE windlass.triggers IS 'What starts jobs when an event comes from outside.';
COMMENT ON COLUMN windlass.triggers.name IS 'Its name.';
COMMENT ON COLUMN windlass.triggers.state IS 'The whole trigger, as JSON.';
COMMENT ON COLUMN windlass.triggers.secrets IS 'Secrets that its webhooks are signed with, as JSON.';
COMMENT ON TABLE windlass.trigger_events IS 'Events that came in from outside.';
COMMENT ON COLUMN windlass.trigger_events.id IS 'Its identity.';
COMMENT ON COLUMN windlass.trigger_events.trigger_name IS 'The trigger that it came for.';
COMMENT ON COLUMN windlass.trigger_events.dedupe_key IS
  'A second event of the trigger with this key is the same one; null is never the same.';
COMMENT ON COLUMN windlass.trigger_events.payload IS 'What it brought, as it came; null without.';
COMMENT ON COLUMN windlass.trigger_events.is_json IS 'Whether that is JSON; null without.';
COMMENT ON COLUMN windlass.trigger_events.actor IS 'Who sent it.';
COMMENT ON COLUMN windlass.trigger_events.received_at IS 'When it came.';
COMMENT ON COLUMN windlass.trigger_events.due_at IS 'When it is tried again; null once it is processed.';
COMMENT ON COLUMN windlass.trigger_events.processed_at IS 'When its jobs were made; null before.';
COMMENT ON COLUMN windlass.trigger_events.detail IS 'Its jobs, how often that failed and why, as JSON.';
COMMENT ON TABLE windlass.job_log_parts IS 'Lines of jobs that moved to the archive.';
COMMENT ON COLUMN windlass.job_log_parts.job_id IS 'Whose lines they are.';
COMMENT ON COLUMN windlass.job_log_parts.first_n IS 'The number of the first of them.';
COMMENT ON COLUMN windlass.job_log_parts.last_n IS 'The number of the last of them.';
COMMENT ON COLUMN windlass.job_log_parts.part IS 'Which part of the archive holds them.';
COMMENT ON COLUMN windlass.job_log_parts.moved_at IS 'When they moved.';
COMMENT ON TABLE windlass.tombstones IS 'What is left of jobs that were archived and removed.';
COMMENT ON COLUMN windlass.tombstones.job_id IS 'Which job.';
COMMENT ON COLUMN windlass.tombstones.status IS 'How it had ended.';
COMMENT ON COLUMN windlass.tombstones.finished_at IS 'When it had ended.';
COMMENT ON COLUMN windlass.tombstones.archive IS 'Which part of the archive holds it.';
COMMENT ON COLUMN windlass.tombstones.purged_at IS 'When it was removed.';
COMMENT ON TABLE windlass.removals IS 'Which finished jobs were removed: what seals over their logs are checked by.';
COMMENT ON COLUMN windlass.removals.job_id IS 'Which job.';
COMMENT ON COLUMN windlass.removals.version IS 'Its last version.';
COMMENT ON COLUMN windlass.removals.removed_at IS 'When it was removed.';
COMMENT ON TABLE windlass.seals IS 'Hashes over the log, each chained to the one before; made by the reader seals.';
COMMENT ON COLUMN windlass.seals.number IS 'Its place in the chain: 1, 2, 3 without a gap.';
COMMENT ON COLUMN windlass.seals.at IS 'When it was made.';
COMMENT ON COLUMN windlass.seals.store_id IS 'In which store.';
COMMENT ON COLUMN windlass.seals.incarnation IS 'In which incarnation of it.';
COMMENT ON COLUMN windlass.seals.body IS 'Jobs, versions and hashes of the sealed events, packed.';
COMMENT ON COLUMN windlass.seals.hash IS 'SHA-256 over all of this and the hash of the seal before.';
COMMENT ON TABLE windlass.subscriptions IS 'What carries events out of the store.';
COMMENT ON COLUMN windlass.subscriptions.name IS 'Its name.';
COMMENT ON COLUMN windlass.subscriptions.state IS 'The whole subscription, as JSON.';
COMMENT ON COLUMN windlass.subscriptions.credential IS 'What it signs or signs in with, as JSON.';
COMMENT ON TABLE windlass.papers IS 'What people keep beside the jobs: views, marks, operations.';
COMMENT ON COLUMN windlass.papers.kind IS 'What it is.';
COMMENT ON COLUMN windlass.papers.name IS 'Its name.';
COMMENT ON COLUMN windlass.papers.state IS 'The whole paper, as JSON.';
COMMENT ON TABLE windlass.settings IS 'Settings of the whole store: one row, once somebody changed one.';
COMMENT ON COLUMN windlass.settings.one IS 'Always 1.';
COMMENT ON COLUMN windlass.settings.state IS 'All of them with their version, as JSON.';
COMMENT ON TABLE windlass.terms IS 'Who leads.';
COMMENT ON COLUMN windlass.terms.name IS 'What is led.';
COMMENT ON COLUMN windlass.terms.holder IS 'Who leads it.';
COMMENT ON COLUMN windlass.terms.epoch IS 'Grows by one with each new holder.';
COMMENT ON COLUMN windlass.terms.expires_at IS 'When the term is over.';
COMMENT ON TABLE windlass.readers IS 'Readers of the feed: how far each has come.';
COMMENT ON COLUMN windlass.readers.name IS 'The reader.';
COMMENT ON COLUMN windlass.readers.cursor IS 'Behind the last event that it has dealt with; null at the beginning.';
COMMENT ON COLUMN windlass.readers.epoch IS 'Epoch of the leader that moved it last; 0 when an operator did.';
COMMENT ON COLUMN windlass.readers.moved_at IS 'When it was moved last.';
COMMENT ON COLUMN windlass.readers.since IS 'Events before are passed over; null if every event counts.';
COMMENT ON TABLE windlass.rollups IS 'How much happened per minute and hour; made from the feed by the reader stats.';
COMMENT ON COLUMN windlass.rollups.resolution IS 'minute or hour.';
COMMENT ON COLUMN windlass.rollups.at IS 'When the slot begins.';
COMMENT ON COLUMN windlass.rollups.queue IS 'Queue of the jobs.';
COMMENT ON COLUMN windlass.rollups.kind IS 'Kind of the jobs.';
COMMENT ON COLUMN windlass.rollups.tally IS 'What is counted, such as started or completed.';
COMMENT ON COLUMN windlass.rollups.n IS 'How many.';
COMMENT ON COLUMN windlass.rollups.times IS 'How long they took: bucket:count for each of 64 buckets that holds any.';
COMMENT ON TABLE windlass.gauges IS 'How queues stood, at their worst within a slot.';
COMMENT ON COLUMN windlass.gauges.resolution IS 'minute or hour.';
COMMENT ON COLUMN windlass.gauges.at IS 'When the slot begins.';
COMMENT ON COLUMN windlass.gauges.queue IS 'The queue.';
COMMENT ON COLUMN windlass.gauges.depth IS 'Jobs that a worker could take.';
COMMENT ON COLUMN windlass.gauges.oldest_ms IS 'How long the oldest of them had been due, in milliseconds.';
COMMENT ON COLUMN windlass.gauges.busy IS 'Jobs that ran.';
COMMENT ON COLUMN windlass.gauges.capacity IS 'Jobs that live workers of the queue could run at once.';
COMMENT ON TABLE windlass.problems IS 'Errors that are one thing; made from the feed by the reader stats.';
COMMENT ON COLUMN windlass.problems.fingerprint IS 'Hash over kind, code and message without numbers and ids.';
COMMENT ON COLUMN windlass.problems.state IS 'open, resolved or muted.';
COMMENT ON COLUMN windlass.problems.kind IS 'Kind of its jobs.';
COMMENT ON COLUMN windlass.problems.last_seen_at IS 'When it was seen last.';
COMMENT ON COLUMN windlass.problems.body IS 'The whole problem, as JSON.';
COMMENT ON TABLE windlass.problem_hours IS 'How often problems were seen, by hour.';
COMMENT ON COLUMN windlass.problem_hours.fingerprint IS 'The problem.';
COMMENT ON COLUMN windlass.problem_hours.at IS 'When the hour begins.';
COMMENT ON COLUMN windlass.problem_hours.errors IS 'Errors in it.';
COMMENT ON COLUMN windlass.problem_hours.dead IS 'After how many of them the job gave up.';
COMMENT ON TABLE windlass.queues IS 'Queues with a setting.';
COMMENT ON COLUMN windlass.queues.name IS 'The queue.';
COMMENT ON COLUMN windlass.queues.paused_at IS 'Since when it is paused; null if it is not.';
COMMENT ON COLUMN windlass.queues.paused_by IS 'Who paused it.';
COMMENT ON COLUMN windlass.queues.defaults IS 'What its jobs get where they say nothing, as JSON.';
COMMENT ON COLUMN windlass.queues.mode IS 'pull: workers take its jobs; push: the leader assigns them.';
COMMENT ON COLUMN windlass.queues.flow IS 'Its limits, as JSON; null without any.';
COMMENT ON COLUMN windlass.queues.endpoint IS 'Where its jobs are sent, as JSON with the secret; null without one.';
COMMENT ON TABLE windlass.workers IS 'Workers that report themselves.';
COMMENT ON COLUMN windlass.workers.id IS 'The worker.';
COMMENT ON COLUMN windlass.workers.queues IS 'Queues it takes jobs from, as JSON.';
COMMENT ON COLUMN windlass.workers.kinds IS 'Kinds it takes, as JSON; empty for all.';
COMMENT ON COLUMN windlass.workers.capacity IS 'Jobs it runs at once.';
COMMENT ON COLUMN windlass.workers.slots IS 'How many of them from a queue, where that is less, as JSON.';
COMMENT ON COLUMN windlass.workers.labels IS 'Its labels, as JSON.';
COMMENT ON COLUMN windlass.workers.draining IS 'Whether it takes no more jobs.';
COMMENT ON COLUMN windlass.workers.started_at IS 'When it started.';
COMMENT ON COLUMN windlass.workers.seen_at IS 'When it last reported itself.';
COMMENT ON COLUMN windlass.workers.expires_at IS 'When it counts as gone.';
COMMENT ON TABLE windlass.audit IS 'What operators did.';
COMMENT ON COLUMN windlass.audit.seq IS 'Its place.';
COMMENT ON COLUMN windlass.audit.at IS 'When.';
COMMENT ON COLUMN windlass.audit.actor IS 'Who.';
COMMENT ON COLUMN windlass.audit.action IS 'What.';
COMMENT ON COLUMN windlass.audit.target IS 'To what.';
COMMENT ON COLUMN windlass.audit.detail IS 'How, as JSON.';
COMMENT ON TABLE windlass.access_keys IS 'Keys of the HTTP API.';
COMMENT ON COLUMN windlass.access_keys.name IS 'Its name.';
COMMENT ON COLUMN windlass.access_keys.hash IS 'Hash of the key; the key itself is nowhere.';
COMMENT ON COLUMN windlass.access_keys.roles IS 'What it may do, as JSON.';
COMMENT ON COLUMN windlass.access_keys.queues IS 'The queues it is restricted to, as JSON; null for all.';
COMMENT ON COLUMN windlass.access_keys.expires_at IS 'When it ends by itself.';
COMMENT ON COLUMN windlass.access_keys.created_at IS 'When it was made.';
COMMENT ON COLUMN windlass.access_keys.revoked_at IS 'When it was taken back.';
COMMENT ON TABLE windlass.answers IS 'Answers to idempotency keys, kept for a day.';
COMMENT ON COLUMN windlass.answers.key IS 'The caller''s key.';
COMMENT ON COLUMN windlass.answers.request_hash IS 'SHA-256 of the request.';
COMMENT ON COLUMN windlass.answers.body IS 'The answer.';
COMMENT ON COLUMN windlass.answers.expires_at IS 'When it is forgotten.';
COMMENT ON TABLE windlass.owed IS 'What a transaction of the app role must make good before it commits; empty in between.';
COMMENT ON COLUMN windlass.owed.what IS 'job, approval, approvals of job or key.';
COMMENT ON COLUMN windlass.owed.id IS 'The id of that job or approval, the name of that key.';
