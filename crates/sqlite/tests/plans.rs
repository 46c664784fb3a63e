//! How SQLite goes about the statements that must stay fast: by an index, in its order, bounded.

mod place;

use place::{Place, wait_for};
use rusqlite::Connection;
use windlass_conformance::{Bed, at, name, who};
use windlass_core::{NewJob, Status};
use windlass_store::ClaimMany;

/// The plan of one statement, one line per step.
fn plan(conn: &Connection, statement: &str) -> Vec<String> {
    let file = format!("{}/sql/{statement}.sql", env!("CARGO_MANIFEST_DIR"));
    let sql = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    // What the engine's connections have, and a plan does not depend on.
    rusqlite::vtab::array::load_module(conn).expect("arrays");
    let flags = rusqlite::functions::FunctionFlags::SQLITE_UTF8;
    conn.create_scalar_function("windlass_lease", 3, flags, |_| Ok(0)).expect("a function");
    let mut explain =
        conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap_or_else(|e| panic!("{file}: {e}"));
    // Parameters stay unbound: a plan is made before they are known.
    let mut rows = explain.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().expect("a step") {
        steps.push(row.get::<_, String>(3).expect("a text"));
    }
    steps
}

/// What the plan of a statement must say: the table's search, by which index and with which conditions.
const SEARCHES: &[(&str, &str)] = &[
    ("due", "SEARCH jobs USING INDEX jobs_due (queue=? AND priority=? AND due_at<?)"),
    (
        "due_of_kinds",
        "SEARCH jobs USING COVERING INDEX jobs_due (queue=? AND priority=? AND (due_at,id)>(?,?) AND due_at<?)",
    ),
    (
        "unassigned",
        "SEARCH j USING COVERING INDEX jobs_due (queue=? AND priority=? AND (due_at,id)>(?,?) AND due_at<?)",
    ),
    ("unassigned", "SEARCH e USING INDEX job_events_version (job_id=? AND version=?)"),
    ("assigned", "SEARCH jobs USING INDEX jobs_worker (worker_id=?)"),
    ("candidates", "SEARCH jobs USING INDEX jobs_worker (worker_id=?)"),
    ("assign", "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("assign_event", "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("list_due", "SEARCH jobs USING INDEX jobs_due (queue=? AND priority=? AND (due_at,id)>(?,?))"),
    ("queue_depth", "SEARCH jobs USING COVERING INDEX jobs_due (queue=? AND priority=? AND due_at<?)"),
    ("lane_waiting", "SEARCH jobs USING INDEX jobs_lane (queue=? AND priority=? AND lane=? AND due_at>?)"),
    ("lane_running", "SEARCH jobs USING INDEX jobs_worker (worker_id>?)"),
    ("overdue", "SEARCH jobs USING INDEX jobs_deadline (deadline_at<?)"),
    ("held", "SEARCH jobs USING INDEX jobs_worker (worker_id=?)"),
    ("list_of_worker", "SEARCH jobs USING INDEX jobs_worker (worker_id=? AND id>?)"),
    ("list_by_worker", "SEARCH jobs USING INDEX jobs_worker ((worker_id,id)>(?,?))"),
    ("list_parked", "SEARCH jobs USING INDEX jobs_parked (status=? AND id>?)"),
    ("list_finished", "SEARCH jobs USING INDEX jobs_finished (status=? AND (finished_at,id)<(?,?))"),
    ("archive", "SEARCH jobs USING INDEX jobs_finished (status=? AND finished_at<?)"),
    ("list_created", "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id<?)"),
    ("job", "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("move_job", "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("claim", "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"),
    ("claim_event", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"),
    ("created", "SEARCH e USING INDEX job_events_version (job_id=? AND version=?)"),
    ("settle_complete_event", "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("settle_completed", "SEARCH job_events USING INTEGER PRIMARY KEY (rowid>?)"),
    ("due_by_id", "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("settle_complete", "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("renew_job", "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("purge_jobs", "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("event", "SEARCH job_events USING INDEX job_events_version (job_id=? AND version=?)"),
    ("events", "SEARCH job_events USING INDEX job_events_version (job_id=? AND version>?)"),
    ("events_newest", "SEARCH job_events USING INDEX job_events_version (job_id=? AND version<?)"),
    ("settled", "SEARCH job_events USING INDEX job_events_version (job_id=?)"),
    ("remembered", "SEARCH job_events USING INDEX job_events_version (job_id=? AND version>?)"),
    ("count_steps", "SEARCH job_events USING INDEX job_events_version (job_id=? AND version>?)"),
    ("votes", "SEARCH job_events USING INDEX job_events_version (job_id=?)"),
    ("graph_events", "SEARCH job_events USING INDEX job_events_version (job_id=?)"),
    ("graph_log", "SEARCH job_events USING INDEX job_events_version (job_id=?)"),
    ("event_by_key", "SEARCH job_events USING INDEX job_events_key (job_id=? AND key=?)"),
    ("feed", "SEARCH e USING INTEGER PRIMARY KEY (rowid>?)"),
    ("feed", "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
    ("list_by_kind", "SEARCH e USING COVERING INDEX job_events_kind (kind=? AND job_id<?)"),
    ("list_by_agent", "SEARCH e USING COVERING INDEX job_events_agent (agent_id=? AND job_id<?)"),
    ("list_by_parent", "SEARCH e USING COVERING INDEX job_events_parent (parent_id=? AND job_id<?)"),
    ("list_by_tag", "SEARCH t USING PRIMARY KEY (tag=? AND job_id<?)"),
    ("find_key", "SEARCH job_keys USING PRIMARY KEY (scope=? AND key=?)"),
    ("free_keys", "SEARCH job_keys USING INDEX job_keys_job (job_id=?)"),
    ("approval_by_name", "SEARCH approvals USING INDEX approvals_job (job_id=? AND name=?)"),
    ("approvals", "SEARCH approvals USING PRIMARY KEY (id<?)"),
    ("approvals_by_status", "SEARCH approvals USING INDEX approvals_status (status=? AND id<?)"),
    ("void_approvals", "SEARCH approvals USING INDEX approvals_job (job_id=?)"),
    ("logs", "SEARCH job_logs USING PRIMARY KEY (job_id=? AND n>?)"),
    ("last_log", "SEARCH job_logs USING PRIMARY KEY (job_id=?)"),
    ("recall", "SEARCH answers USING PRIMARY KEY (key=?)"),
    ("forget_answers", "SEARCH answers USING COVERING INDEX answers_expiry (expires_at<?)"),
    ("rollups", "SEARCH rollups USING PRIMARY KEY (resolution=? AND at>? AND at<?)"),
    ("rollup", "SEARCH rollups USING PRIMARY KEY (resolution=? AND at=? AND queue=? AND kind=? AND tally=?)"),
    ("gauges", "SEARCH gauges USING PRIMARY KEY (resolution=? AND at>? AND at<?)"),
    ("problems", "SEARCH problems USING INDEX problems_seen ((last_seen_at,fingerprint)<(?,?))"),
    ("problem_hours", "SEARCH problem_hours USING PRIMARY KEY (fingerprint=? AND at>?)"),
    ("problem_totals", "SEARCH problem_hours USING PRIMARY KEY (fingerprint=?)"),
    ("audit", "SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)"),
];

/// The statements that may walk an index from one end: each stops at a limit of its own, or at the first entry.
const WALKS: &[&str] = &["count_due", "head", "queue_names"];

/// Every file in `sql/`.
fn statements() -> Vec<String> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).expect("sql");
    let mut names: Vec<String> = folder
        .map(|f| f.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn check(conn: &Connection, when: &str) {
    for (statement, step) in SEARCHES {
        let steps = plan(conn, statement);
        let (search, conditions) = step.split_once(" (").expect("a search has conditions");
        let conditions = conditions.trim_end_matches(')').split(" AND ").map(|c| c.trim_end_matches(')'));
        let is = |s: &&String| s.starts_with(search) && conditions.clone().all(|c| s.contains(c));
        assert!(steps.iter().find(is).is_some(), "{when}, {statement}: no {step} in {steps:#?}");
    }
    for statement in statements() {
        let steps = plan(conn, &statement);
        for step in &steps {
            let big = [
                "jobs",
                "job_events",
                "e",
                "j",
                "t",
                "job_keys",
                "job_tags",
                "job_logs",
                "approvals",
                "answers",
            ];
            let scans =
                big.iter().any(|t| *step == format!("SCAN {t}") || step.starts_with(&format!("SCAN {t} ")));
            let walks = WALKS.contains(&statement.as_str()) && step.contains(" USING ");
            let newest = statement == "head" && step == "SCAN job_events";
            assert!(!scans || walks || newest, "{when}, {statement} reads a whole table: {steps:#?}");
            // What belongs to one job is sorted, if it must be, in memory: it is little.
            let of_one_job = statement == "approvals_of_job";
            // So is a page of keys: what was found for each priority, and what runs.
            let of_one_page = statement == "lanes";
            assert!(
                !step.contains("TEMP B-TREE FOR ORDER BY") || of_one_job || of_one_page,
                "{when}, {statement} sorts: {steps:#?}"
            );
        }
    }
}

/// Some thousand jobs in all statuses, unevenly.
async fn fill(bed: &Bed) {
    for status in Status::ALL {
        for n in 0..3 {
            bed.a_job_that_is(status, n * 2_000).await;
        }
    }
    let mut jobs: Vec<NewJob> = Vec::new();
    for n in 0..3_000 {
        let mut job = bed.job_in(["mail", "report", "rare"][(n % 50).min(2)], ["default", "bulk"][n % 2]);
        job.facts.agent_id = Some(who(["ann", "bob"][n % 2]));
        job.facts.tags = vec![name(["red", "blue", "green"][n % 3])];
        job.facts.priority = (n % 3) as i32;
        jobs.push(job);
    }
    bed.enqueue_all(jobs, at(10_000)).await;
    let mut claim = ClaimMany::new(who("w"), vec![name("default")], 1_000, Bed::secret(1));
    claim.kinds = vec![name("rare")];
    let held = bed.store.claim(claim, at(11_000)).await.expect("the store answers");
    assert_eq!(held.len(), 1_000);
    for held in held.iter().take(600) {
        bed.settles(held, windlass_conformance::completes(), at(12_000)).await.expect("it completes");
    }
}

/// M12, R13: on an empty store, on a filled one, and on one whose statistics were gathered, every statement that
/// the engine runs finds its rows by an index, in the order it wants them; none reads a whole table.
#[test]
fn statements_search_and_never_scan() {
    wait_for(async {
        let place = Place::new();
        let bed = place.bed();
        let hand = place.hand();
        check(&hand, "empty");
        hand.execute_batch("ANALYZE").expect("statistics");
        check(&place.hand(), "empty, analysed");
        fill(&bed).await;
        check(&place.hand(), "filled");
        hand.execute_batch("ANALYZE").expect("statistics");
        check(&place.hand(), "filled, analysed");
    });
}
