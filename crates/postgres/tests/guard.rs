//! What the database itself refuses, from any program: transitions, history, rows that contradict themselves.

mod support;

use std::sync::Arc;
use support::{Database, hand, said, wait_for};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass_conformance::{Bed, at, completes, for_approval, for_children, invariants, key, name, redrive};
use windlass_core::flow::{Edge, Graph, On};
use windlass_core::status::{legal, legal_by_hand};
use windlass_core::unique::{Policy, Scope};
use windlass_core::wait::ApprovalStatus;
use windlass_core::{Actor, EventKind, JobId, Refusal, Status, Unique};
use windlass_postgres::Options;
use windlass_store::Purge;

/// A fresh store, and the hand of its owner at a prompt.
async fn place() -> (Bed, Client, Database) {
    let (url, database) = support::database().await;
    let store = Options::new(&url).pool(4).open().await.expect("a store");
    (Bed::new(Arc::new(store)), hand(&url).await, database)
}

/// Jobs that stand at `status`, one for every status.
async fn one_per_status(bed: &Bed, status: Status) -> Vec<(Status, JobId)> {
    let mut jobs = Vec::new();
    for (n, to) in (0..).zip(Status::ALL) {
        jobs.push((to, bed.a_job_that_is(status, n * 2_000).await));
    }
    jobs
}

fn id(job: JobId) -> Uuid {
    *job.as_uuid()
}

/// Runs one statement on one job; answers how many rows it changed, or the SQLSTATE and what was said.
async fn change(hand: &Client, sql: &str, job: JobId) -> Result<u64, (String, String)> {
    hand.execute(sql, &[&id(job)]).await.map_err(|e| said(&e))
}

/// Sets a status by hand.
async fn set(hand: &Client, job: JobId, to: &str) -> Result<u64, (String, String)> {
    change(hand, &format!("UPDATE windlass.jobs SET status = '{to}' WHERE id = $1"), job).await
}

/// Runs one statement on one job that must be refused; answers the SQLSTATE and what was said.
async fn refused(hand: &Client, sql: &str, job: JobId) -> (String, String) {
    match change(hand, sql, job).await {
        Ok(_) => panic!("{sql} should be refused"),
        Err(said) => said,
    }
}

/// Who the hand is on record as.
async fn sql_actor(hand: &Client) -> Actor {
    let user: String = hand.query_one("SELECT session_user::text", &[]).await.expect("a user").get(0);
    Actor::parse("actor", format!("sql:{user}")).expect("an actor")
}

/// M1, M2, M7: a hand can take every job to cancelled or failed along the table, is told both states when it
/// tries anything else, and what it did is on record as its own.
#[test]
fn a_hand_moves_jobs_along_the_table_only() {
    for from in Status::ALL {
        wait_for(async {
            let (bed, hand, _database) = place().await;
            let actor = sql_actor(&hand).await;
            for (to, job) in one_per_status(&bed, from).await {
                let before = bed.snapshot(job).await;
                let done = set(&hand, job, to.as_str()).await;
                if from == to {
                    assert_eq!(done, Ok(1), "an update that keeps {from} is not a transition");
                    bed.is_unchanged(&before).await;
                } else if legal_by_hand(from, to) {
                    assert_eq!(done, Ok(1), "{from} to {to} by hand");
                    let after = bed.snapshot(job).await;
                    assert_eq!(after.job.status, to);
                    let (last, earlier) = after.log.split_last().expect("a log");
                    assert_eq!(earlier, before.log, "what was on record stays");
                    assert_eq!(last.actor, actor, "logged as done by hand");
                    assert_eq!(last.what.type_name(), format!("job_{to}"));
                } else {
                    let (code, said) = done.expect_err("refused");
                    let both = format!("a job that is {from} cannot become {to}");
                    assert!(said.contains(&both), "{from} to {to} by hand: {said}");
                    assert_eq!(code, if legal(from, to) { "WL002" } else { "WL001" }, "{from} to {to}");
                    bed.is_unchanged(&before).await;
                }
            }
            invariants::check(&bed).await;
        });
    }
}

/// M1: words that are no status are refused, by hand and with a version.
#[test]
fn a_word_that_is_no_status_is_refused() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let job = bed.a_job(at(0)).await;
        let before = bed.snapshot(job).await;
        for also in ["", ", version = version + 1"] {
            let sql = format!("UPDATE windlass.jobs SET status = 'done'{also} WHERE id = $1");
            let (code, said) = refused(&hand, &sql, job).await;
            assert_eq!(code, "WL001");
            assert!(said.contains("a job that is pending cannot become done"), "{said}");
        }
        bed.is_unchanged(&before).await;
    });
}

/// What the columns of a row must look like at a status, so that only the transition can be wrong with it.
fn whole(status: Status) -> &'static str {
    match status {
        Status::Pending | Status::Retry | Status::Orphaned => "due_at = now()",
        Status::Assigned => "due_at = NULL",
        Status::Running => "due_at = now(), lease_hash = '\\x00', lease_expires_at = now()",
        Status::Waiting => "due_at = NULL, waiting_for = 'signal'",
        Status::Completed | Status::Cancelled => "due_at = NULL, finished_at = now()",
        Status::Failed | Status::TimedOut => {
            "due_at = NULL, finished_at = now(), error_code = 'broken', error_version = 1"
        }
    }
}

/// The columns of a row at no status in particular.
const BARE: &str =
    "due_at = NULL, lease_hash = NULL, lease_expires_at = NULL, waiting_for = NULL, finished_at = NULL";

/// Every column that depends on the status, as it must be at this one.
fn columns_at(status: Status) -> Vec<&'static str> {
    let name = |column: &'static str| column.split(' ').next();
    let given = whole(status).split(", ");
    let bare = BARE.split(", ").filter(|bare| given.clone().all(|g| name(g) != name(bare)));
    given.clone().chain(bare).collect()
}

/// M1, M2: also an update that raises the version, as the engine's do, is held to the table over all pairs.
#[test]
fn a_raised_version_too_is_held_to_the_table() {
    for from in Status::ALL {
        wait_for(async {
            let (bed, hand, _database) = place().await;
            for (to, job) in one_per_status(&bed, from).await {
                let before = bed.snapshot(job).await;
                let sql = format!(
                    "UPDATE windlass.jobs SET status = '{to}', version = version + 1, {} WHERE id = $1",
                    columns_at(to).join(", ")
                );
                hand.batch_execute("BEGIN").await.expect("a transaction");
                let done = change(&hand, &sql, job).await;
                hand.batch_execute("ROLLBACK").await.expect("rolled back");
                match done {
                    Ok(rows) => {
                        assert_eq!(rows, 1);
                        assert!(from == to || legal(from, to), "{from} to {to} went through");
                    }
                    Err((code, said)) => {
                        assert!(from != to && !legal(from, to), "{from} to {to} was refused: {said}");
                        let both = format!("a job that is {from} cannot become {to}");
                        assert!(code == "WL001" && said.contains(&both), "{from} to {to}: {said}");
                    }
                }
                bed.is_unchanged(&before).await;
            }
        });
    }
}

/// M7, M8: what ends by hand ends whole: the lease is dead, the unique key free, open approvals void, the parent
/// told and woken.
#[test]
fn an_end_by_hand_is_a_whole_end() {
    for (to, policy) in [("cancelled", Policy::Active), ("failed", Policy::Succeeded)] {
        wait_for(async {
            let (bed, hand, _database) = place().await;
            let parent = bed.holds("boss", bed.job("parent"), None).await;
            let mut child = bed.job("child");
            let unique = Unique { scope: Scope::Queue(name("default")), key: key("once"), policy };
            child.facts.unique = Some(unique.clone());
            child.facts.parent_id = Some(parent.job.id);
            let held = bed.holds("w", child, None).await;
            let (ask, _) = bed.question(&held, "gate");
            let asked = bed.asks(ask, None).await;
            bed.waits(&parent, for_children(), None).await.expect("the parent waits");
            assert_eq!(bed.holder_of(&unique, None).await, Some(held.job.id));

            set(&hand, held.job.id, to).await.expect("a legal transition");

            let status = Status::parse(to).expect("a status");
            assert_eq!(bed.settles(&held, completes(), None).await, Err(Refusal::Finished(status)));
            assert_eq!(bed.extends(&held, 5_000, None).await, Err(Refusal::Finished(status)));
            assert_eq!(bed.holder_of(&unique, None).await, None, "the key is free");
            let view = bed.store.approval(asked.approval.id, None).await.expect("the store answers");
            let approval = view.expect("it is there").approval;
            assert_eq!(approval.status, ApprovalStatus::Void);
            assert_eq!(approval.decided_at, bed.row(held.job.id).await.finished_at);
            let told = bed.log(parent.job.id).await.pop().expect("a log");
            assert_eq!(told.actor, sql_actor(&hand).await);
            let EventKind::JobChildFinished(detail) = &told.what else {
                panic!("the parent is told: {told:?}")
            };
            assert_eq!((detail.child, detail.status, detail.woke), (held.job.id, status, true));
            let woken = bed.claims_by_id("boss", parent.job.id, None).await.expect("the parent is woken");
            assert!(woken.wake.is_some(), "and knows why");
            invariants::check(&bed).await;
        });
    }
}

/// M7: a failure by hand has an error like every other failure, and redrive undoes both ends.
#[test]
fn what_was_ended_by_hand_can_be_redriven() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let failed = bed.a_job_that_is(Status::Running, 0).await;
        let cancelled = bed.a_job_that_is(Status::Waiting, 0).await;
        set(&hand, failed, "failed").await.expect("a legal transition");
        set(&hand, cancelled, "cancelled").await.expect("a legal transition");
        let (error, _) = bed.view(failed, None).await.error.expect("a dead job has a reason");
        assert_eq!(windlass_conformance::error_of(&error).0, "by_hand");
        for job in [failed, cancelled] {
            bed.redrives(redrive(job), None).await.expect("it is redriven");
            let held = bed.claims_by_id("w", job, None).await.expect("it is claimed");
            bed.settles(&held, completes(), None).await.expect("it completes");
        }
        invariants::check(&bed).await;
    });
}

/// M7: a key that is held for ever or for a time stays taken also when the job is ended by hand.
#[test]
fn an_end_by_hand_keeps_what_outlives_the_job() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        for (n, policy) in [Policy::Forever, Policy::Ttl(315_360_000_000)].into_iter().enumerate() {
            let unique = Unique { scope: Scope::Kind(name("once")), key: key(&n.to_string()), policy };
            let mut job = bed.job("once");
            job.facts.unique = Some(unique.clone());
            let id = bed.enqueue(job, at(0)).await.id;
            set(&hand, id, "cancelled").await.expect("a legal transition");
            assert_eq!(bed.holder_of(&unique, None).await, Some(id), "{policy:?}");
        }
        let held = bed.holds("w", bed.job("work"), None).await;
        bed.cancels(held.job.id, windlass_conformance::stop(), None).await.expect("the holder is asked");
        set(&hand, held.job.id, "cancelled").await.expect("a legal transition");
        assert!(bed.row(held.job.id).await.cancel_requested_at.is_some());
        invariants::check(&bed).await;
    });
}

/// M1, M7: one statement over many rows is all or nothing, and ends a family parent and child alike, in whatever
/// order they lie.
#[test]
fn a_hand_on_many_rows_is_all_or_nothing() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let done = bed.a_held_job("w", at(0)).await;
        bed.settles(&done, completes(), at(0)).await.expect("it completes");
        let parent = bed.holds("boss", bed.job("parent"), at(0)).await;
        let mut family = vec![parent.job.id];
        for _ in 0..3 {
            let mut child = bed.job("child");
            child.facts.parent_id = Some(parent.job.id);
            family.push(bed.enqueue(child, at(0)).await.id);
        }
        bed.waits(&parent, for_children(), at(0)).await.expect("the parent waits");

        let all = hand.execute("UPDATE windlass.jobs SET status = 'cancelled'", &[]).await;
        let (code, said) = said(&all.expect_err("one is completed"));
        assert_eq!(code, "WL001");
        assert!(said.contains("a job that is completed cannot become cancelled"), "{said}");
        for job in &family {
            assert!(!bed.row(*job).await.status.is_terminal(), "nothing was changed");
        }
        invariants::check(&bed).await;
        let live = "UPDATE windlass.jobs SET status = 'cancelled' WHERE status <> 'completed'";
        assert_eq!(hand.execute(live, &[]).await.expect("all are live"), 4);
        for job in &family {
            assert_eq!(bed.row(*job).await.status, Status::Cancelled);
        }
        let row = bed.row(parent.job.id).await;
        assert_eq!(row.children, 0, "each child was counted, also after the parent's end");
        invariants::check(&bed).await;
    });
}

/// M1: what a hand did is gone when it rolls back.
#[test]
fn a_hand_can_think_again() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let job = bed.a_job(at(0)).await;
        let before = bed.snapshot(job).await;
        hand.batch_execute("BEGIN").await.expect("a transaction");
        set(&hand, job, "cancelled").await.expect("a legal transition");
        hand.batch_execute("ROLLBACK").await.expect("taken back");
        bed.is_unchanged(&before).await;
        invariants::check(&bed).await;
    });
}

/// Every column of the table of jobs with its type.
async fn columns(hand: &Client) -> Vec<(String, String)> {
    let sql = "SELECT column_name::text, data_type::text FROM information_schema.columns
               WHERE table_schema = 'windlass' AND table_name = 'jobs' ORDER BY ordinal_position";
    let rows = hand.query(sql, &[]).await.expect("columns");
    rows.iter().map(|r| (r.get(0), r.get(1))).collect()
}

/// M1, M4: every other column is refused by name, alone and beside a status that would be allowed.
#[test]
fn other_columns_are_refused_by_name() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let columns = columns(&hand).await;
        assert_eq!(columns.len(), 51);
        for status in [Status::Pending, Status::Running, Status::Retry, Status::Waiting, Status::Failed] {
            let job = bed.a_job_that_is(status, 0).await;
            let before = bed.snapshot(job).await;
            for (column, kind) in &columns {
                if matches!(column.as_str(), "status" | "due_at" | "lease_expires_at") {
                    continue;
                }
                let value = match kind.as_str() {
                    "bigint" if column == "version" => "version + 2".to_owned(),
                    "bigint" | "integer" => format!("coalesce({column}, 0) + 1"),
                    "smallint" => format!("({column} + 1)::smallint"),
                    "text" => format!("coalesce({column}, '') || 'x'"),
                    "uuid" => "gen_random_uuid()".to_owned(),
                    "bytea" => format!("sha256(coalesce({column}, ''))"),
                    _ => format!("coalesce({column}, now()) + interval '1 second'"),
                };
                for also in ["", "status = 'cancelled', "] {
                    if !also.is_empty() && status.is_terminal() {
                        continue;
                    }
                    let sql = format!("UPDATE windlass.jobs SET {also}{column} = {value} WHERE id = $1");
                    let (code, said) = refused(&hand, &sql, job).await;
                    assert!(said.contains(&format!("jobs.{column} ")), "{column} of a {status} job: {said}");
                    assert_eq!(code, "WL002");
                }
            }
            bed.is_unchanged(&before).await;
        }
    });
}

/// M1: what a job is does not change with a raised version either.
#[test]
fn facts_never_change() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let job = bed.a_job(at(0)).await;
        let before = bed.snapshot(job).await;
        for change in [
            "id = gen_random_uuid()",
            "queue = 'other'",
            "kind = 'other'",
            "priority = 4",
            "max_retries = 9",
            "parent_id = gen_random_uuid()",
            "unique_policy = 'nonsense'",
            "timeout_ms = 7",
            "lease_ms = 7",
            "grace_ms = 7",
            "backoff = 'nonsense'",
            "created_at = clock_timestamp()",
        ] {
            let sql = format!("UPDATE windlass.jobs SET version = version + 1, {change} WHERE id = $1");
            let (code, said) = refused(&hand, &sql, job).await;
            let column = change.split(' ').next().expect("a column");
            assert!(code == "WL002" && said.contains(&format!("jobs.{column} ")), "{said}");
        }
        bed.is_unchanged(&before).await;
    });
}

/// J8, M1: a renewal moves a running job's times; nothing else has times that a hand may move.
#[test]
fn times_move_by_hand_only_while_running() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        for status in Status::ALL {
            let job = bed.a_job_that_is(status, Status::ALL.len() as i64 * 2_000).await;
            let before = bed.snapshot(job).await;
            if status == Status::Running {
                let renew = "UPDATE windlass.jobs SET due_at = due_at + interval '1 ms',
                             lease_expires_at = lease_expires_at + interval '1 ms' WHERE id = $1";
                assert_eq!(change(&hand, renew, job).await, Ok(1), "a renewal");
                let after = bed.snapshot(job).await;
                assert_eq!(after.log, before.log, "a renewal writes no event");
                assert_eq!(after.job.folded(), before.job.folded());
                assert_eq!(after.job.due_at, before.job.due_at.map(|t| t.plus_ms(1)));
                continue;
            }
            for column in ["due_at", "lease_expires_at"] {
                let sql = format!(
                    "UPDATE windlass.jobs SET {column} = coalesce({column}, now()) + interval '1 s' WHERE id = $1"
                );
                let (code, said) = refused(&hand, &sql, job).await;
                assert!(code == "WL002" && said.contains(&format!("jobs.{column} ")), "{status}: {said}");
            }
            bed.is_unchanged(&before).await;
        }
        invariants::check(&bed).await;
    });
}

/// M7: history is neither changed nor removed by hand, row by row or at once.
#[test]
fn history_is_append_only() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        for status in [Status::Pending, Status::Running, Status::Completed, Status::Cancelled] {
            let job = bed.a_job_that_is(status, 0).await;
            let before = bed.snapshot(job).await;
            for change in [
                "at = at + interval '1 s'",
                "actor = 'sql'",
                "payload = NULL",
                "version = 9",
                "detail = '{}'",
            ] {
                let sql = format!("UPDATE windlass.job_events SET {change} WHERE job_id = $1");
                let (code, said) = refused(&hand, &sql, job).await;
                assert!(code == "WL003" && said.contains("append-only"), "{said}");
            }
            for table in ["job_events WHERE job_id", "jobs WHERE id"] {
                let (code, said) = refused(&hand, &format!("DELETE FROM windlass.{table} = $1"), job).await;
                assert!(code == "WL003" && said.contains("DELETE is refused"), "{said}");
            }
            for tables in ["job_events", "jobs", "jobs, windlass.job_events"] {
                let emptied = hand.batch_execute(&format!("TRUNCATE windlass.{tables}")).await;
                let (code, said) = said(&emptied.expect_err("refused"));
                assert!(code == "WL003" && said.contains("TRUNCATE is refused"), "{said}");
            }
            bed.is_unchanged(&before).await;
        }
    });
}

/// M7: neither seals nor what is known of removed jobs is changed, removed or added to by hand.
#[test]
fn seals_and_removals_are_not_written_by_hand() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let job = bed.a_job_that_is(Status::Cancelled, 0).await;
        let gone = bed.a_job_that_is(Status::Cancelled, 0).await;
        let version = bed.row(gone).await.version;
        let purge = Purge { jobs: vec![(gone, version)], archive: None };
        assert_eq!(bed.store.purge(purge, None).await, Ok(vec![Ok(())]));
        bed.seals(job).await;
        for table in ["windlass.seals", "windlass.removals"] {
            for sql in [
                format!("DELETE FROM {table}"),
                format!("TRUNCATE {table}"),
                format!("INSERT INTO {table} SELECT * FROM {table}"),
            ] {
                let (code, said) = said(&hand.batch_execute(&sql).await.expect_err("refused"));
                assert!(code.starts_with("WL00"), "{sql}: {said}");
            }
        }
        for change in ["seals SET body = ''", "removals SET version = 9"] {
            let sql = format!("UPDATE windlass.{change}");
            let (code, said) = said(&hand.batch_execute(&sql).await.expect_err("refused"));
            assert!(code == "WL003" && said.contains("append-only"), "{said}");
        }
        let kept = bed.store.removals(vec![gone], None).await.expect("the store answers");
        assert_eq!(kept.len(), 1);
    });
}

/// M1, M7: rows enter only through the engine and its functions.
#[test]
fn jobs_are_not_inserted_by_hand() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        for status in [Status::Pending, Status::Running, Status::Completed, Status::Failed] {
            let job = bed.a_job_that_is(status, 0).await;
            let before = bed.snapshot(job).await;
            for end in ["", " ON CONFLICT DO NOTHING", " ON CONFLICT (id) DO UPDATE SET priority = 5"] {
                let sql =
                    format!("INSERT INTO windlass.jobs (id) SELECT id FROM windlass.jobs WHERE id = $1{end}");
                let (code, said) = refused(&hand, &sql, job).await;
                assert!(code == "WL004" && said.contains("windlass.enqueue"), "{said}");
            }
            bed.is_unchanged(&before).await;
        }
    });
}

/// M1, M7: history is not written by hand either, neither in the name of the engine nor in one's own.
#[test]
fn history_is_not_inserted_by_hand() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        for status in [Status::Pending, Status::Running, Status::Completed] {
            let job = bed.a_job_that_is(status, 0).await;
            let before = bed.snapshot(job).await;
            for actor in ["engine", "sql:me"] {
                let sql = format!(
                    "INSERT INTO windlass.job_events (job_id, version, at, type, actor, attempt, generation)
                     SELECT id, version + 1, now(), 'job_completed', '{actor}', attempt, generation
                     FROM windlass.jobs WHERE id = $1"
                );
                let (code, said) = refused(&hand, &sql, job).await;
                assert_eq!(code, "WL004");
                assert!(
                    said.contains("history is written by windlass") && said.contains("windlass.signal"),
                    "{said}"
                );
            }
            bed.is_unchanged(&before).await;
        }
        // What a hand did properly leaves no door open behind it.
        let job = bed.a_job(at(0)).await;
        hand.batch_execute("BEGIN").await.expect("a transaction");
        set(&hand, job, "cancelled").await.expect("a legal transition");
        let sql = "INSERT INTO windlass.job_events SELECT * FROM windlass.job_events WHERE job_id = $1";
        assert_eq!(refused(&hand, sql, job).await.0, "WL004");
    });
}

/// M5, Q1: a row cannot contradict itself, whoever writes it.
#[test]
fn a_row_cannot_contradict_itself() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let wrong: &[(Status, &str, &str)] = &[
            (Status::Pending, "lease_hash = '\\x00'", "leased_exactly_while_running"),
            (Status::Pending, "lease_expires_at = now()", "leased_exactly_while_running"),
            (Status::Pending, "status = 'running'", "leased_exactly_while_running"),
            (Status::Running, "lease_hash = NULL", "leased_exactly_while_running"),
            (Status::Running, "lease_expires_at = NULL", "leased_exactly_while_running"),
            (Status::Running, "status = 'retry'", "leased_exactly_while_running"),
            (
                Status::Running,
                "status = 'completed', due_at = NULL, finished_at = now()",
                "leased_exactly_while_running",
            ),
            (Status::Pending, "waiting_for = 'signal'", "waits_for_something_exactly_while_waiting"),
            (Status::Waiting, "waiting_for = NULL", "waits_for_something_exactly_while_waiting"),
            (Status::Pending, "due_at = NULL", "due_while_it_can_be_taken"),
            (Status::Retry, "due_at = NULL", "due_while_it_can_be_taken"),
            (Status::Orphaned, "due_at = NULL", "due_while_it_can_be_taken"),
            (Status::Pending, "finished_at = now()", "finished_exactly_when_terminal"),
            (Status::Pending, "status = 'cancelled'", "finished_exactly_when_terminal"),
            (Status::Completed, "finished_at = NULL, due_at = now()", "finished_exactly_when_terminal"),
            (Status::Completed, "due_at = now()", "finished_exactly_when_terminal"),
            (Status::Failed, "error_code = NULL", "dead_has_a_reason"),
            (Status::TimedOut, "error_version = NULL", "dead_has_a_reason"),
            (Status::Pending, "priority = 6", "numbers_within_their_limits"),
            (Status::Pending, "attempt = -1", "numbers_within_their_limits"),
            (Status::Pending, "retries = max_retries + 1", "numbers_within_their_limits"),
            (Status::Pending, "retries = -1", "numbers_within_their_limits"),
            (Status::Pending, "crashes = -1", "numbers_within_their_limits"),
            (Status::Pending, "generation = -1", "numbers_within_their_limits"),
            (Status::Pending, "progress = 101", "numbers_within_their_limits"),
            (Status::Pending, "signals = -1", "numbers_within_their_limits"),
            (Status::Pending, "children = -1", "numbers_within_their_limits"),
            (Status::Pending, "timeout_ms = 0", "numbers_within_their_limits"),
            (Status::Pending, "lease_ms = 0", "numbers_within_their_limits"),
            (Status::Pending, "grace_ms = -1", "numbers_within_their_limits"),
        ];
        // Where what never changes could be changed, its limits would hold.
        hand.batch_execute("ALTER TABLE windlass.jobs DISABLE TRIGGER jobs_facts")
            .await
            .expect("the owner may");
        for (n, (status, change, constraint)) in (0..).zip(wrong) {
            let job = bed.a_job_that_is(*status, n * 2_000).await;
            let before = bed.snapshot(job).await;
            let sql = format!("UPDATE windlass.jobs SET version = version + 1, {change} WHERE id = $1");
            let (code, said) = refused(&hand, &sql, job).await;
            let named = said.contains(&format!("check constraint \"{constraint}\""));
            assert!(code == "23514" && named, "{status}, {change}: {said}");
            bed.is_unchanged(&before).await;
        }
    });
}

/// M8: a job that waits for people can be ended by hand; a question whose time was over by then has expired.
#[test]
fn a_job_that_waits_for_approval_can_be_ended_by_hand() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let held = bed.holds("w", bed.job("work"), at(0)).await;
        let (ask, _) = bed.question(&held, "gate");
        let asked = bed.asks(ask, at(0)).await;
        bed.waits(&held, for_approval("gate"), at(0)).await.expect("it waits");
        set(&hand, held.job.id, "failed").await.expect("a legal transition");
        let view = bed.store.approval(asked.approval.id, None).await.expect("the store answers");
        assert_eq!(view.expect("it is there").approval.status, ApprovalStatus::Expired);
        assert_eq!(bed.row(held.job.id).await.status, Status::Failed);
        invariants::check(&bed).await;
    });
}

/// F13: an end by hand tells those who wait, and skips go on from there.
#[test]
fn an_end_by_hand_tells_those_who_wait() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let after = |job, on| {
            let mut new = bed.job("work");
            let edge = Edge { job, on, name: None };
            new.facts.graph = Some(Box::new(Graph { after: vec![edge], ..Graph::default() }));
            new
        };
        let first = bed.a_job(None).await;
        let skipped = bed.enqueue(after(first, On::Success), None).await.id;
        let behind = bed.enqueue(after(skipped, On::Success), None).await.id;
        let rescue = bed.enqueue(after(first, On::Failure), None).await.id;
        set(&hand, first, "cancelled").await.expect("a legal transition");
        for job in [skipped, behind] {
            let row = bed.row(job).await;
            assert_eq!((row.status, row.children), (Status::Cancelled, 0));
            assert_eq!(row.error_code.as_ref().map(|code| code.as_str()), Some("skipped"));
        }
        assert!(bed.row(rescue).await.due_at.is_some(), "it runs");
        invariants::check(&bed).await;
    });
}
