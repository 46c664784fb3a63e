//! How PostgreSQL goes about the statements that must stay fast: by an index, whatever its statistics say.
//!
//! Every statement is the shipped text, planned as the engine has it planned: for its parameters, or, where the server
//! keeps the plan, without knowing them and under the settings of its function. Statistics are missing, right, or out of
//! date in the ways that mislead a planner most: gathered when the tables were empty, or when all that was in them
//! had finished, or nothing had, so that indexes of a part of them seem to be empty.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use support::cluster::Cluster;
use support::load::Load;
use support::{empty_database, hand, wait_for};
use tokio_postgres::Client;
use windlass_conformance::Bed;
use windlass_core::Status;
use windlass_postgres::{Options, PostgresStore};

/// Jobs in the filled store.
const JOBS: usize = 30_000;

/// A statement, the types of its parameters, values for them, and what its plan must show.
type Planned = (&'static str, &'static str, &'static str, &'static [&'static str]);

const NONE: &str = "'00000000-0000-0000-0000-000000000000'";
const ID: &str = "'01900000-0000-7000-8000-000000000010'";
const CLAIM: &str = "text[], bigint, text, bytea, bigint, timestamptz, text[], timestamptz[], uuid[], bigint, bigint, boolean";
const ENQUEUE: &str = "timestamptz, text[], uuid[], text[], text[], smallint[], timestamptz[], bigint[], int[], uuid[], \
    text[], bigint[], bigint[], bigint[], text[], boolean[], text[], boolean[], bytea[], text[], text[], bigint[]";
/// Entries of the line of one queue and priority, from a place on.
const DUE: &str = "Index Cond: ((queue = probe_1.queue) AND (priority = probe_1.priority) AND (due_at <= ";

const PLANNED: &[Planned] = &[
    ("slots", "text", "'default'", &["using jobs_pkey on jobs"]),
    ("free_slots", "text", "'default'", &["using jobs_pkey on jobs"]),
    ("take_slots", "uuid[]", "ARRAY['01900000-0000-7000-8000-000000000010'::uuid]", &["jobs_pkey"]),
    ("costs", "uuid[]", "array_fill(ID::uuid, '{100}')", &["job_events_pkey"]),
    ("adopt_slots", "text", "'default'", &["using jobs_pkey on jobs"]),
    (
        "event_hashes",
        "uuid[], bigint[]",
        "array_fill(ID::uuid, '{100}'), array_fill(1::bigint, '{100}')",
        &["job_events_pkey"],
    ),
    (
        "lanes",
        "text, bigint, bigint, timestamptz, bigint",
        "'default', -1, 50, '2026-01-01Z', 1000",
        &["using line_lane on line", "using jobs_pkey on jobs"],
    ),
    (
        "lane_waiting",
        "text, bigint, bigint",
        "'default', 5, 100",
        &["using line_lane on line", "using jobs_pkey on jobs"],
    ),
    ("lane_running", "text, bigint", "'default', 5", &["using jobs_pkey on jobs"]),
    (
        "lost",
        "text, timestamptz, text[], bigint",
        "'default', '2026-01-01Z', '{}', 10",
        &["using jobs_pkey on jobs"],
    ),
    (
        "lane_heads",
        "text, int, bigint[], bigint[], timestamptz, text[], bigint",
        "'default', 0, '{1,2}', '{1,1}', '2026-01-01Z', '{}', 5000",
        &["using line_lane on line", "using jobs_pkey on jobs"],
    ),
    (
        "lanes_due",
        "text, int, bigint, bigint, int",
        "'default', 0, 5, 9223372036854775807, 500",
        &["using line_lane on line"],
    ),
    (
        "due_lanes",
        "text, int, timestamptz, bigint",
        "'default', 0, '2026-01-01Z', 5001",
        &["using line_due on line"],
    ),
    ("due_priorities", "text, timestamptz", "'default', '2026-01-01Z'", &["using line_due on line"]),
    (
        "hand_out",
        "uuid[], bigint[], int[], int[], bytea[], timestamptz[], timestamptz[], timestamptz[], timestamptz[], text, bigint",
        "array_fill(ID::uuid, '{100}'), array_fill(2::bigint, '{100}'), array_fill(1, '{100}'), array_fill(0, '{100}'), \
         array_fill('\\x00'::bytea, '{100}'), '{2026-01-01Z}', '{NULL}', '{2026-01-01Z}', '{2026-01-01Z}', 'w', 7",
        &[
            "using jobs_pkey on jobs",
            "using line_due on line",
            "Tid Scan on line",
            "using job_events_pkey on job_events",
        ],
    ),
    (
        "plain_heads",
        "text, int, timestamptz, boolean, bigint, text[], bigint",
        "'default', 0, '2026-01-01Z', true, 5000, '{}', 10",
        &["using line_due on line", "using jobs_pkey on jobs"],
    ),
    (
        "claim",
        CLAIM,
        "'{default,bulk}', 500, 'w', '\\x00', 30000, NULL, '{}', '{}', '{}', 64, 7, true, NULL, NULL",
        &[
            "Index Scan using line_due on line",
            DUE,
            "Index Scan using jobs_pkey on jobs",
            "using holds_pkey on holds",
            "Tid Scan on jobs",
            "Tid Scan on line",
            "using jobs_assigned on jobs",
        ],
    ),
    (
        "claim",
        CLAIM,
        "'{default}', 1, 'w', '\\x00', 30000, NULL, '{rare,mail}', '{}', '{}', 5000, 7, true, NULL, NULL",
        &["using line_due on line", DUE, "AND (due_at <= ", "ROW(due_at, id) >= ROW"],
    ),
    (
        "claim",
        CLAIM,
        "'{default}', 10, 'w', '\\x00', 30000, '2026-01-01Z', '{}', '{2025-01-01Z,2025-01-01Z,2025-01-01Z,2025-01-01Z,2025-01-01Z,2025-01-01Z}', '{}', 64, 7, false, '\\x00', 7",
        &["Index Scan using line_due on line", DUE],
    ),
    (
        "claim_new",
        "uuid, text, bytea, bigint, bigint, timestamptz",
        "ID, 'w', '\\x00', 30000, 7, NULL",
        &["Index Scan using jobs_pkey on jobs", "using queues_pkey on queues", "using line_due on line"],
    ),
    (
        "unassigned",
        "text[], int[], timestamptz[], uuid[], bigint, timestamptz",
        "'{default}', '{0}', '{2025-01-01Z}', ARRAY[ID]::uuid[], 500, NULL",
        &["using line_due on line", "using jobs_pkey on jobs", "using job_events_pkey on job_events"],
    ),
    (
        "assign",
        "uuid[], bigint[], timestamptz[], text[], timestamptz[], text[], text, bigint, text",
        "array_fill(ID::uuid, '{500}'), '{2}', '{2026-01-01Z}', '{w}', '{2026-01-01Z}', '{x}', 'leader:1', 1, 'leader'",
        &["using jobs_pkey on jobs"],
    ),
    ("candidates", "text[]", "'{w1,w2}'", &["holds_worker", "jobs_assigned", "using jobs_pkey on jobs"]),
    (
        "recover",
        "timestamptz, bigint",
        "NULL, 20",
        &["using holds_check on holds", "Index Scan using jobs_pkey on jobs"],
    ),
    ("hold_job", "uuid, bigint, text, timestamptz", "ID, 7, 'w', '2026-01-01Z'", &["using line_due on line"]),
    ("lock_free", "uuid[]", "ARRAY[ID]::uuid[]", &["jobs_pkey"]),
    (
        "settle_complete",
        "uuid[], bytea[], bytea[], boolean[], timestamptz",
        "array_fill(ID::uuid, '{500}'), array_fill('\\x00'::bytea, '{500}'), \
         array_fill('\\x00'::bytea, '{500}'), array_fill(true, '{500}'), NULL",
        &["Index Scan using jobs_pkey on jobs", "approvals_job", "using holds_pkey on holds"],
    ),
    (
        "extend",
        "uuid[], bytea[], bigint, timestamptz",
        "array_fill(ID::uuid, '{500}'), array_fill('\\x00'::bytea, '{500}'), 30000, NULL",
        &["Index Scan using jobs_pkey on jobs", "Tid Scan on jobs"],
    ),
    (
        "enqueue",
        ENQUEUE,
        "NULL, '{api}', array_fill(ID::uuid, '{1000}'), '{default}', '{mail}', '{0}', '{}', \
         '{}', '{3}', '{}', '{}', '{}', '{}', '{0}', '{}', '{f}', '{x}', '{t}', '{x}', '{}', '{}', '{}'",
        &["Insert on jobs", "Insert on job_events", "Function Scan on a"],
    ),
    (
        "feed",
        "text, text, bigint, bigint, bigint, boolean",
        "'RECENT', 'NEWEST', 1000, 100, 0, true",
        &["Index Scan using job_events_seq on job_events", "using jobs_pkey on jobs"],
    ),
    (
        "feed",
        "text, text, bigint, bigint, bigint, boolean",
        "'1:1:', 'NEWEST', 0, 1000, 0, false",
        &["Index Scan using job_events_seq on job_events", "using jobs_pkey on jobs"],
    ),
    (
        "feed_late",
        "bigint, bigint, text[], bigint",
        "1000, 60000, '{77,78}', 5000",
        &["using job_events_seq on job_events", "Index Cond: ((seq > "],
    ),
    (
        "feed_numbered",
        "bigint[], boolean",
        "'{100,200}', true",
        &["job_events_seq", "using jobs_pkey on jobs"],
    ),
    ("feed_head", "bigint", "100", &["job_events_seq"]),
    ("feed_end", "bigint, text", "60000, 'NEWEST'", &["job_events_seq"]),
    (
        "overdue",
        "timestamptz, bigint, timestamptz, uuid",
        "'2026-01-01Z', 100, '2025-12-24Z', ID",
        &["using jobs_deadline on jobs", "Index Cond: ((deadline_at <= "],
    ),
    (
        "list_due",
        "text, int, timestamptz, uuid, bigint",
        "'default', 5, '-infinity', NONE, 100",
        &["using line_due on line", "using jobs_pkey on jobs"],
    ),
    ("list_created", "uuid, bigint", "ID, 100", &["using jobs_pkey on jobs"]),
    (
        "list_by_kind",
        "uuid, bigint, text",
        "ID, 100, 'rare'",
        &["job_events_kind", "using jobs_pkey on jobs"],
    ),
    (
        "list_by_agent",
        "uuid, bigint, text",
        "ID, 100, 'ann'",
        &["job_events_agent", "using jobs_pkey on jobs"],
    ),
    (
        "list_by_parent",
        "uuid, bigint, uuid",
        "ID, 100, ID",
        &["job_events_parent", "using jobs_pkey on jobs"],
    ),
    ("list_by_tag", "uuid, bigint, text", "ID, 100, 'red'", &["job_events"]),
    (
        "list_finished",
        "text, timestamptz, uuid, bigint",
        "'failed', 'infinity', ID, 100",
        &["using jobs_dead on jobs"],
    ),
    (
        "list_completed",
        "timestamptz, uuid, bigint",
        "'infinity', ID, 100",
        &["using job_events_completed on job_events", "using jobs_pkey on jobs"],
    ),
    ("list_by_worker", "text, uuid, bigint", "'', NONE, 100", &["jobs_assigned", "jobs_pkey"]),
    ("list_of_worker", "text, uuid, bigint", "'w1', NONE, 100", &["jobs_assigned", "jobs_pkey"]),
    ("list_parked", "text, uuid, bigint", "'waiting', NONE, 100", &["using jobs_parked on jobs"]),
    ("count_due", "bigint", "10001", &["using line_due on line", "using jobs_pkey on jobs"]),
    ("count_parked", "bigint, text", "1001, 'waiting'", &["jobs_parked"]),
    ("count_finished", "bigint, text", "1001, 'failed'", &["using jobs_dead on jobs"]),
    ("count_completed", "bigint", "1001", &["using job_events_completed on job_events"]),
    ("queue_names", "", "", &["using line_due on line", "using jobs_pkey on jobs"]),
    (
        "queue_depth",
        "text[], timestamptz, bigint",
        "'{default,bulk}', '2026-01-01Z', 1000",
        &["using line_due on line", "using jobs_pkey on jobs"],
    ),
    ("archive", "timestamptz, bigint, text", "'2026-01-01Z', 100, 'failed'", &["using jobs_dead on jobs"]),
    (
        "archive_completed",
        "timestamptz, bigint",
        "'2026-01-01Z', 100",
        &["using job_events_completed on job_events"],
    ),
    ("job", "uuid", "ID", &["using jobs_pkey on jobs"]),
    ("purged", "uuid", "ID", &["using jobs_pkey on jobs"]),
    ("jobs", "uuid[]", "ARRAY[ID]::uuid[]", &["jobs_pkey"]),
    ("lock", "uuid", "ID", &["using jobs_pkey on jobs"]),
    ("lock_jobs", "uuid[]", "ARRAY[ID]::uuid[]", &["jobs_pkey"]),
    (
        "renew_job",
        "uuid, bytea, timestamptz, timestamptz",
        "ID, '\\x00', NULL, NULL",
        &["using jobs_pkey on jobs"],
    ),
    ("facts", "uuid[]", "array_fill(ID::uuid, '{100}')", &["job_events_pkey"]),
    ("created", "uuid[]", "array_fill(ID::uuid, '{100}')", &["job_events_pkey"]),
    ("event", "uuid, bigint", "ID, 1", &["using job_events_pkey on job_events"]),
    ("events", "uuid, bigint, bigint", "ID, 0, 100", &["using job_events_pkey on job_events"]),
    ("events_newest", "uuid, bigint, bigint", "ID, 9, 100", &["using job_events_pkey on job_events"]),
    ("event_by_key", "uuid, text", "ID, 'k'", &["using job_events_key on job_events"]),
    ("remembered", "uuid, bigint", "ID, 0", &["job_events_pkey"]),
    ("graph_events", "uuid", "ID", &["job_events_pkey"]),
    ("graph_logs", "uuid[]", "array_fill(ID::uuid, '{100}')", &["job_events_pkey"]),
    ("settled", "uuid, bytea", "ID, '\\x00'", &["job_events_pkey"]),
];

/// Statements whose plans the server keeps, and the settings of their functions.
const KEPT: [&str; 7] = ["claim", "claim_new", "hand_out", "settle_complete", "recover", "extend", "enqueue"];
/// Lists, which are planned under the same settings, each for its parameters.
const LISTED: [&str; 14] = [
    "assign",
    "candidates",
    "unassigned",
    "feed_end",
    "feed_late",
    "list_completed",
    "list_finished",
    "list_due",
    "list_of_worker",
    "list_by_worker",
    "list_parked",
    "count_",
    "archive",
    "queue_",
];
const PINNED: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET enable_bitmapscan = off; SET enable_sort = off; SET plan_cache_mode = force_generic_plan";
const FREE: &str = "RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin;
    RESET enable_bitmapscan; RESET enable_sort; SET plan_cache_mode = force_custom_plan";

/// The plan of a statement, one line per step.
async fn plan(hand: &Client, statement: &str, types: &str, values: &str) -> Vec<String> {
    let file = format!("{}/sql/{statement}.sql", env!("CARGO_MANIFEST_DIR"));
    let sql = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let values = values.replace("NONE", NONE).replace("ID", ID);
    let now: String = snapshot(hand).await;
    let values = values.replace("RECENT", &now).replace("NEWEST", &now);
    let (types, values) = if types.is_empty() {
        (String::new(), String::new())
    } else {
        (format!("({types})"), format!("({values})"))
    };
    let pinned = KEPT.contains(&statement) || LISTED.iter().any(|start| statement.starts_with(start));
    hand.batch_execute(if pinned { PINNED } else { FREE }).await.expect("settings");
    hand.batch_execute(&format!("PREPARE planned {types} AS {sql}"))
        .await
        .unwrap_or_else(|e| panic!("{file}: {e:?}"));
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE planned {values}");
    let rows = hand.query(&explain, &[]).await.unwrap_or_else(|e| panic!("{file}: {e:?}"));
    hand.batch_execute("DEALLOCATE planned").await.expect("forgotten");
    rows.iter().map(|r| r.get(0)).collect()
}

async fn snapshot(hand: &Client) -> String {
    hand.query_one("SELECT pg_current_snapshot()::text", &[]).await.expect("a snapshot").get(0)
}

/// What is wrong with the plans.
async fn check(hand: &Client, when: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (statement, types, values, must) in PLANNED {
        let steps = plan(hand, statement, types, values).await;
        let shown = steps.join("\n");
        let missing: Vec<_> = must.iter().filter(|m| !shown.contains(**m)).collect();
        let scans = steps.iter().filter(|s| s.contains("Seq Scan on job") || s.contains("Seq Scan on line"));
        let scans: Vec<_> = scans.filter(|s| !s.contains("job_keys") && !s.contains("job_logs")).collect();
        if !missing.is_empty() || !scans.is_empty() {
            wrong.push(format!("{when}: {statement}: missing {missing:?}, scans {scans:?}\n{shown}\n"));
        }
    }
    wrong
}

/// Jobs in all statuses, most of them finished, each with its events, a third of them with one of a thousand keys; unevenly, so
/// that statistics matter.
async fn fill(hand: &Client, with: impl Fn(Status) -> bool) {
    let part = |status: Status| match status {
        Status::Completed => JOBS * 6 / 10,
        Status::Pending => JOBS * 2 / 10,
        _ => JOBS * 2 / 80,
    };
    let (mut from, mut filled) = (0, Vec::new());
    for status in Status::ALL {
        let (count, terminal) = (part(status), status.is_terminal());
        let due = match status {
            Status::Assigned | Status::Waiting => "NULL",
            _ if terminal => "NULL",
            // Two of three are due.
            _ => "timestamptz '2026-01-01' + (n % 3 - 1) * interval '3650 days'",
        };
        let running = status == Status::Running;
        let held = matches!(status, Status::Running | Status::Assigned);
        let when = |yes: bool, value: &str| if yes { value.to_owned() } else { "NULL".to_owned() };
        let id = "('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid";
        let sql = format!(
            "INSERT INTO windlass.jobs (id, queue, kind, priority, status, due_at, deadline_at, worker_id, lease_hash,
               lease_expires_at, attempt, retries, max_retries, crashes, version, generation, progress, signals, children,
               steps_from, grace_ms, waiting_for, error_version, error_code, created_at, updated_at, finished_at, lane)
             SELECT {id}, (ARRAY['default', 'bulk'])[1 + n % 2], (ARRAY['mail', 'report'])[1 + n % 2], n % 11 - 5, '{status}',
               {due}, {deadline}, {worker}, {hash}, {expires}, 1, 0, 3, 0, 3, 0, 0, 0, 0, 0, 0, {waiting}, {error}, {code},
               '2025-01-01', '2025-01-01', {finished}, CASE WHEN n % 3 = 0 THEN 1 + n % 1000 END
             FROM generate_series({from}, {to}) n",
            deadline = when(held || status == Status::Waiting, "timestamptz '2025-12-01' + n * interval '1 hour'"),
            worker = when(held, "'w' || n % 5"),
            hash = when(running, "decode('00', 'hex')"),
            expires = when(running, "timestamptz '2026-01-01'"),
            waiting = when(status == Status::Waiting, "'signal'"),
            error = when(matches!(status, Status::Failed | Status::TimedOut), "3"),
            code = when(matches!(status, Status::Failed | Status::TimedOut), "'broken'"),
            finished = when(terminal, "timestamptz '2025-06-01' + n * interval '1 second'"),
            to = from + count - 1,
        );
        let points = match status {
            Status::Running => "WITH held AS (UPDATE windlass.jobs SET claim = hashtext(worker_id), version = version + 1
                  WHERE status = 'running' RETURNING worker_id, due_at, id)
                INSERT INTO windlass.holds (claim, worker_id, check_at, ids)
                SELECT hashtext(worker_id), worker_id, min(due_at), array_agg(id) FROM held GROUP BY worker_id;
                INSERT INTO windlass.slots (queue, id, lane) SELECT queue, id, lane FROM windlass.jobs WHERE status = 'running'"
                .to_owned(),
            _ => format!("INSERT INTO windlass.line (queue, priority, due_at, id, lane)
                SELECT queue, priority, due_at, id, lane FROM windlass.jobs WHERE status = '{status}' AND due_at IS NOT NULL"),
        };
        if with(status) {
            filled.push(status.as_str());
            hand.batch_execute(&sql).await.unwrap_or_else(|e| panic!("{status}: {e:?}"));
            hand.batch_execute(&points).await.unwrap_or_else(|e| panic!("{status}: {e:?}"));
        }
        from += count;
    }
    // In many transactions, as they come.
    let events = format!(
        "DO $$ BEGIN FOR part IN 0..99 LOOP
         INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation, key, kind, agent_id,
           parent_id, tags)
         SELECT id, v, created_at, CASE WHEN v = 3 AND status = 'completed' THEN 'job_completed'
             ELSE (ARRAY['job_created', 'job_claimed', 'job_note'])[v] END, 'api', 0, 0,
           CASE v WHEN 3 THEN 'k' END, CASE v WHEN 1 THEN kind END,
           CASE v WHEN 1 THEN (ARRAY['ann', 'bob'])[1 + priority & 1] END,
           CASE WHEN v = 1 AND priority = 3 THEN id END, CASE v WHEN 1 THEN ARRAY['red', 'blue'] END
         FROM (SELECT * FROM windlass.jobs WHERE status = ANY ('{{{filled}}}') ORDER BY id
           LIMIT {JOBS} / 100 OFFSET part * {JOBS} / 100) j
         CROSS JOIN generate_series(1, 3) v;
         COMMIT; END LOOP; END $$",
        filled = filled.join(","),
    );
    hand.batch_execute(&events).await.expect("events");
}

/// M12, R13: with no statistics, with statistics from when there was nothing, or only one half, and with right
/// ones, every statement that must stay fast finds jobs and events by an index, and a claim reads the line from where it is
/// due. (Of an empty table PostgreSQL reads the nothing that is there; it plans anew when there is something.)
#[test]
fn statements_search_and_never_scan() {
    wait_for(async {
        let mut wrong = Vec::new();
        for analysed in ["never", "when empty", "when all had finished", "when none had finished"] {
            let (url, _database) = empty_database().await;
            drop(PostgresStore::open(&url).await.expect("a store"));
            let hand = hand(&url).await;
            hand.batch_execute(
                "SET application_name = 'windlass plans';
                 ALTER TABLE windlass.jobs SET (autovacuum_enabled = off);
                 ALTER TABLE windlass.job_events SET (autovacuum_enabled = off)",
            )
            .await
            .expect("settings");
            let early = |status: Status| match analysed {
                "when all had finished" => status.is_terminal(),
                "when none had finished" => !status.is_terminal(),
                _ => false,
            };
            if analysed != "never" {
                fill(&hand, early).await;
                hand.batch_execute("VACUUM ANALYZE").await.expect("statistics");
            }
            fill(&hand, |status| !early(status)).await;
            wrong.extend(check(&hand, &format!("analysed {analysed}")).await);
            let again: &[_] = if analysed == "when empty" { &["ANALYZE", "VACUUM ANALYZE"] } else { &[] };
            for again in again {
                hand.batch_execute(again).await.expect("statistics");
                wrong.extend(check(&hand, &format!("analysed {analysed}, then {again}")).await);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Every statement on jobs or events is among those that are planned here, or is known to be one of a few.
#[test]
fn every_statement_on_jobs_is_planned() {
    let planned: BTreeSet<&str> = PLANNED.iter().map(|(name, ..)| *name).collect();
    // Writes of rows by their values, statements that only begin with others' locks, and what verify reads.
    let known = [
        "append_event",
        "append_events",
        "out_of_line",
        "mend_line",
        "logged_jobs",
        "set_aside",
        "unique_keys",
        "insert_job",
        "move_job",
        "lock_parent",
        "try_lock",
        "try_lock_parent",
        "votes",
    ];
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).expect("sql") {
        let path = file.expect("a file").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a text");
        let on_jobs = text.contains("windlass.jobs ") || text.contains("windlass.job_events ");
        assert!(!on_jobs || planned.contains(&*name) || known.contains(&&*name), "{name} is planned nowhere");
    }
}

/// M12, R13: the server compiles no statement that moves jobs, however dear its planner takes it to be. When many jobs
/// passed, statistics make a claim look dear, and compiling takes fifty times as long as claiming.
#[test]
fn nothing_that_moves_jobs_is_compiled() {
    wait_for(async {
        let cluster = Cluster::start(&[
            "fsync=off",
            "session_preload_libraries=auto_explain",
            "auto_explain.log_min_duration=0",
            "auto_explain.log_nested_statements=on",
            "jit_above_cost=0",
        ]);
        let store = Arc::new(Options::new(&cluster.url()).pool(4).open().await.expect("a store"));
        let load = Load::new(Bed::new(Arc::clone(&store) as _), 30);
        load.run(async {}).await;
        let hand = hand(&cluster.url()).await;
        load.check(&hand).await;
        hand.execute("SELECT count(*) AS by_hand FROM windlass.jobs", &[]).await.expect("a count");
        let able: bool = hand.query_one("SELECT pg_jit_available()", &[]).await.expect("a word").get(0);
        let log = cluster.log();
        let plans: Vec<&str> = log.split("duration: ").collect();
        let is_compiled = |plan: &str| plan.contains("\n\tJIT:");
        let control = plans.iter().find(|plan| plan.contains("by_hand")).expect("the plan of the count");
        assert_eq!(
            is_compiled(control),
            able,
            "what is not ours is compiled where the server can: {control}"
        );
        for moves in [
            "'job_created'",
            "'job_claimed'",
            "'job_completed', 'worker:'",
            "  lease_expires_at = least(greatest(",
        ] {
            let found: Vec<_> = plans.iter().filter(|plan| plan.contains(moves)).collect();
            assert!(!found.is_empty(), "no plan with {moves}");
            let compiled: Vec<_> = found.iter().filter(|plan| is_compiled(plan)).collect();
            assert!(compiled.is_empty(), "{} of {}, as {}", compiled.len(), found.len(), compiled[0]);
        }
        drop((load, store));
    });
}
