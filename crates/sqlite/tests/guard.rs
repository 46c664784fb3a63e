//! What the file itself refuses, from any program: transitions, history, rows that contradict themselves.

mod place;

use place::{Place, wait_for};
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, params};
use windlass_conformance::{Bed, at, completes, for_approval, for_children, invariants, key, name, redrive};
use windlass_core::flow::{Edge, Graph, On};
use windlass_core::status::{legal, legal_by_hand};
use windlass_core::unique::{Policy, Scope};
use windlass_core::wait::ApprovalStatus;
use windlass_core::{Actor, EventKind, JobId, Refusal, Status, Unique};
use windlass_store::{Purge, ReadFeed};

/// Jobs that stand at `status`, one for every status.
async fn one_per_status(bed: &Bed, status: Status) -> Vec<(Status, JobId)> {
    let mut jobs = Vec::new();
    for (n, to) in (0..).zip(Status::ALL) {
        jobs.push((to, bed.a_job_that_is(status, n * 2_000).await));
    }
    jobs
}

/// Sets a status by hand.
fn set(hand: &Connection, job: JobId, to: &str) -> Result<(), String> {
    let done = hand.execute("UPDATE jobs SET status = ?2 WHERE id = ?1", params![job.as_bytes(), to]);
    done.map(|_| ()).map_err(|e| e.to_string())
}

/// Runs one statement on one job that must be refused; answers what was said.
fn refused(hand: &Connection, sql: &str, job: JobId) -> String {
    match hand.execute(sql, [job.as_bytes()]) {
        Ok(_) => panic!("{sql} should be refused"),
        Err(error) => error.to_string(),
    }
}

fn sql_actor() -> Actor {
    Actor::parse("actor", "sql").expect("an actor")
}

/// M1, M2, M7: a hand can take every job to cancelled or failed along the table, is told both states when it
/// tries anything else, and what it did is on record as its own.
#[test]
fn a_hand_moves_jobs_along_the_table_only() {
    for from in Status::ALL {
        wait_for(async {
            let place = Place::new();
            let (bed, hand) = (place.bed(), place.hand());
            for (to, job) in one_per_status(&bed, from).await {
                let before = bed.snapshot(job).await;
                let done = set(&hand, job, to.as_str());
                if from == to {
                    assert_eq!(done, Ok(()), "an update that keeps {from} is not a transition");
                    bed.is_unchanged(&before).await;
                } else if legal_by_hand(from, to) {
                    assert_eq!(done, Ok(()), "{from} to {to} by hand");
                    let after = bed.snapshot(job).await;
                    assert_eq!(after.job.status, to);
                    let (last, earlier) = after.log.split_last().expect("a log");
                    assert_eq!(earlier, before.log, "what was on record stays");
                    assert_eq!(last.actor, sql_actor(), "logged as done by hand");
                    assert_eq!(last.what.type_name(), format!("job_{to}"));
                } else {
                    let said = done.expect_err("refused");
                    let both = format!("a job that is {from} cannot become {to}");
                    assert!(said.contains(&both), "{from} to {to} by hand: {said}");
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
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        let job = bed.a_job(at(0)).await;
        let before = bed.snapshot(job).await;
        let said = set(&hand, job, "done").expect_err("refused");
        assert!(said.contains("not a status"), "{said}");
        let said =
            refused(&hand, "UPDATE jobs SET status = 'done', version = version + 1 WHERE id = ?1", job);
        assert!(said.contains("not a status"), "{said}");
        bed.is_unchanged(&before).await;
    });
}

/// What the columns of a row must look like at a status, so that only the transition can be wrong with it.
fn whole(status: Status) -> &'static str {
    match status {
        Status::Pending | Status::Retry | Status::Orphaned => "due_at = 1",
        Status::Assigned => "due_at = NULL",
        Status::Running => "due_at = 1, lease_hash = zeroblob(16), lease_expires_at = 1",
        Status::Waiting => "due_at = NULL, waiting_for = 'signal'",
        Status::Completed | Status::Cancelled => "due_at = NULL, finished_at = 1",
        Status::Failed | Status::TimedOut => {
            "due_at = NULL, finished_at = 1, error_code = 'broken', error_version = 1"
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
            let place = Place::new();
            let (bed, hand) = (place.bed(), place.hand());
            for (to, job) in one_per_status(&bed, from).await {
                let before = bed.snapshot(job).await;
                let sql = format!(
                    "UPDATE jobs SET status = '{to}', version = version + 1, {} WHERE id = ?1",
                    columns_at(to).join(", ")
                );
                hand.execute_batch("BEGIN").expect("a transaction");
                let done = hand.execute(&sql, [job.as_bytes()]);
                hand.execute_batch("ROLLBACK").expect("rolled back");
                match done {
                    Ok(rows) => {
                        assert_eq!(rows, 1);
                        assert!(from == to || legal(from, to), "{from} to {to} went through");
                    }
                    Err(error) => {
                        assert!(from != to && !legal(from, to), "{from} to {to} was refused: {error}");
                        let both = format!("a job that is {from} cannot become {to}");
                        assert!(error.to_string().contains(&both), "{from} to {to}: {error}");
                    }
                }
                bed.is_unchanged(&before).await;
            }
        });
    }
}

/// M1, M2, R1: the one statement through which the engine moves jobs opens along the table only, and only at the
/// version it was decided on, also where no trigger looks.
#[test]
fn the_engines_door_opens_along_the_table_only() {
    let door = include_str!("../sql/move_job.sql");
    for from in Status::ALL {
        wait_for(async {
            let place = Place::new();
            let (bed, hand) = (place.bed(), place.hand());
            hand.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).expect("no triggers");
            for (to, job) in one_per_status(&bed, from).await {
                let before = bed.snapshot(job).await;
                for (ahead, opens) in [(0, false), (1, from == to || legal(from, to)), (2, false)] {
                    let moved = moves(&hand, door, job, to, ahead);
                    assert_eq!(moved, usize::from(opens), "{from} to {to}, {ahead} ahead");
                }
                bed.is_unchanged(&before).await;
            }
        });
    }
}

/// Runs the engine's statement on a job, with everything as it stands but the status and what depends on it, and
/// takes it back. Answers how many rows it moved.
fn moves(hand: &Connection, door: &str, job: JobId, to: Status, ahead: i64) -> usize {
    hand.execute_batch("BEGIN").expect("a transaction");
    let mut statement = hand.prepare(door).expect("the statement");
    for (place, column) in parameters(door) {
        let changed = columns_at(to).into_iter().filter_map(|c| c.split_once(" = "));
        let value = match column {
            "job" => "id".to_owned(),
            "status" => format!("'{to}'"),
            "version" => format!("version + {ahead}"),
            _ => changed.clone().find(|(c, _)| *c == column).map_or(column, |(_, value)| value).to_owned(),
        };
        let sql = format!("SELECT {value} FROM jobs WHERE id = ?1");
        let value: Value = hand.query_row(&sql, [job.as_bytes()], |r| r.get(0)).expect("a value");
        statement.raw_bind_parameter(place, value).expect("bound");
    }
    let moved = statement.raw_execute().expect("it is a value, not an error");
    hand.execute_batch("ROLLBACK").expect("taken back");
    moved
}

/// The parameters of a statement, as its header names them.
fn parameters(statement: &str) -> Vec<(usize, &str)> {
    let header = statement.lines().filter(|line| line.starts_with("-- ?"));
    let named = header.flat_map(|line| line.trim_start_matches("-- ").split("  "));
    let place = |text: &str| text.trim_start_matches('?').parse().expect("a number");
    named
        .map(|one| one.split_once(' ').expect("a number and a name"))
        .map(|(n, name)| (place(n), name))
        .collect()
}

/// M7, M8: what ends by hand ends whole: the lease is dead, the unique key free, open approvals void, the parent
/// told and woken, and the feed says so.
#[test]
fn an_end_by_hand_is_a_whole_end() {
    for (to, policy) in [("cancelled", Policy::Active), ("failed", Policy::Succeeded)] {
        wait_for(async {
            let place = Place::new();
            let (bed, hand) = (place.bed(), place.hand());
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

            set(&hand, held.job.id, to).expect("a legal transition");

            let status = Status::parse(to).expect("a status");
            assert_eq!(bed.settles(&held, completes(), None).await, Err(Refusal::Finished(status)));
            assert_eq!(bed.extends(&held, 5_000, None).await, Err(Refusal::Finished(status)));
            assert_eq!(bed.holder_of(&unique, None).await, None, "the key is free");
            let view = bed.store.approval(asked.approval.id, None).await.expect("the store answers");
            let approval = view.expect("it is there").approval;
            assert_eq!(approval.status, ApprovalStatus::Void);
            assert_eq!(approval.decided_at, bed.row(held.job.id).await.finished_at);
            let told = bed.log(parent.job.id).await.pop().expect("a log");
            assert_eq!(told.actor, sql_actor());
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
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        let failed = bed.a_job_that_is(Status::Running, 0).await;
        let cancelled = bed.a_job_that_is(Status::Waiting, 0).await;
        set(&hand, failed, "failed").expect("a legal transition");
        set(&hand, cancelled, "cancelled").expect("a legal transition");
        let view = bed.view(failed, None).await;
        let (error, _) = view.error.expect("a dead job has a reason");
        assert_eq!(windlass_conformance::error_of(&error).0, "by_hand");
        for job in [failed, cancelled] {
            bed.redrives(redrive(job), None).await.expect("it is redriven");
            let held = bed.claims_by_id("w", job, None).await.expect("it is claimed");
            bed.settles(&held, completes(), None).await.expect("it completes");
        }
        invariants::check(&bed).await;
    });
}

/// M7: a key that is held for ever or for a time stays taken also when the job is ended by hand, and one that was
/// cancelled before the hand came keeps its request on record.
#[test]
fn an_end_by_hand_keeps_what_outlives_the_job() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        for (n, policy) in [Policy::Forever, Policy::Ttl(315_360_000_000)].into_iter().enumerate() {
            let unique = Unique { scope: Scope::Kind(name("once")), key: key(&n.to_string()), policy };
            let mut job = bed.job("once");
            job.facts.unique = Some(unique.clone());
            let id = bed.enqueue(job, at(0)).await.id;
            set(&hand, id, "cancelled").expect("a legal transition");
            assert_eq!(bed.holder_of(&unique, None).await, Some(id), "{policy:?}");
        }
        let held = bed.holds("w", bed.job("work"), None).await;
        bed.cancels(held.job.id, windlass_conformance::stop(), None).await.expect("the holder is asked");
        set(&hand, held.job.id, "cancelled").expect("a legal transition");
        assert!(bed.row(held.job.id).await.cancel_requested_at.is_some());
        invariants::check(&bed).await;
    });
}

/// M1, M7: one statement over many rows is all or nothing, and ends a family parent and child alike.
#[test]
fn a_hand_on_many_rows_is_all_or_nothing() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
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

        let said = hand.execute("UPDATE jobs SET status = 'cancelled'", ()).expect_err("one is completed");
        assert!(said.to_string().contains("a job that is completed cannot become cancelled"), "{said}");
        for job in &family {
            assert!(!bed.row(*job).await.status.is_terminal(), "nothing was changed");
        }
        invariants::check(&bed).await;
        hand.execute("UPDATE jobs SET status = 'cancelled' WHERE status <> 'completed'", ())
            .expect("all are live");
        for job in &family {
            assert_eq!(bed.row(*job).await.status, Status::Cancelled);
        }
        assert_eq!(
            bed.row(parent.job.id).await.children,
            0,
            "each child was counted, also after the parent's end"
        );
        invariants::check(&bed).await;
    });
}

/// M7: what a hand did comes in the feed after everything that was there, also when the newest job was purged.
#[test]
fn the_feed_tells_what_a_hand_did_after_a_purge() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        let job = bed.a_job_that_is(Status::Pending, 0).await;
        let purged = bed.a_job_that_is(Status::Completed, 0).await;
        let head = bed.store.feed_head((), None).await.expect("the store answers");
        let request = Purge { jobs: vec![(purged, 3)], archive: None };
        assert_eq!(bed.store.purge(request, None).await, Ok(vec![Ok(())]));
        set(&hand, job, "cancelled").expect("a legal transition");
        let page = bed.store.feed(ReadFeed { after: Some(head), limit: 10, payloads: true }, None).await;
        let told: Vec<_> = page.expect("the store answers").expect("a page").events;
        let told: Vec<_> = told.iter().map(|e| (e.event.job, e.event.what.type_name())).collect();
        assert_eq!(told, [(job, "job_cancelled")]);
    });
}

/// M1, M4: every other column is refused by name, alone and beside a status that would be allowed.
#[test]
fn other_columns_are_refused_by_name() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        let mut columns = Vec::new();
        let mut info = hand.prepare("SELECT name, type FROM pragma_table_info('jobs')").expect("a statement");
        let mut rows = info.query(()).expect("columns");
        while let Some(row) = rows.next().expect("a column") {
            columns
                .push((row.get::<_, String>(0).expect("a name"), row.get::<_, String>(1).expect("a type")));
        }
        assert_eq!(columns.len(), 46);
        for status in [Status::Pending, Status::Running, Status::Retry, Status::Waiting, Status::Failed] {
            let job = bed.a_job_that_is(status, 0).await;
            let before = bed.snapshot(job).await;
            for (column, kind) in &columns {
                if matches!(column.as_str(), "status" | "due_at" | "lease_expires_at") {
                    continue;
                }
                let value = match kind.as_str() {
                    "INTEGER" if column == "version" => "version + 2".to_owned(),
                    "INTEGER" => format!("coalesce({column}, 0) + 1"),
                    "TEXT" => format!("coalesce({column}, '') || 'x'"),
                    _ => "randomblob(16)".to_owned(),
                };
                for also in ["", "status = 'cancelled', "] {
                    if !also.is_empty() && status.is_terminal() {
                        continue;
                    }
                    let said = refused(
                        &hand,
                        &format!("UPDATE jobs SET {also}{column} = {value} WHERE id = ?1"),
                        job,
                    );
                    assert!(said.contains(&format!("jobs.{column} ")), "{column} of a {status} job: {said}");
                }
            }
            bed.is_unchanged(&before).await;
        }
    });
}

/// J8, M1: a renewal moves a running job's times; nothing else has times that a hand may move.
#[test]
fn times_move_by_hand_only_while_running() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        for status in Status::ALL {
            let job = bed.a_job_that_is(status, Status::ALL.len() as i64 * 2_000).await;
            let before = bed.snapshot(job).await;
            let renew = "UPDATE jobs SET due_at = due_at + 1000, lease_expires_at = lease_expires_at + 1000 WHERE id = ?1";
            if status == Status::Running {
                assert_eq!(hand.execute(renew, [job.as_bytes()]).expect("a renewal"), 1);
                let after = bed.snapshot(job).await;
                assert_eq!(after.log, before.log, "a renewal writes no event");
                assert_eq!(after.job.folded(), before.job.folded());
                assert_eq!(after.job.due_at, before.job.due_at.map(|t| t.plus_ms(1)));
                continue;
            }
            for column in ["due_at", "lease_expires_at"] {
                let sql = format!("UPDATE jobs SET {column} = coalesce({column}, 0) + 1 WHERE id = ?1");
                let said = refused(&hand, &sql, job);
                assert!(said.contains(column) && said.contains("while the job runs"), "{status}: {said}");
            }
            bed.is_unchanged(&before).await;
        }
        invariants::check(&bed).await;
    });
}

/// M7: history is not changed, removed or added to by hand, not even in the hand's own name.
#[test]
fn history_is_not_written_by_hand() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        for status in [Status::Pending, Status::Running, Status::Completed, Status::Cancelled] {
            let job = bed.a_job_that_is(status, 0).await;
            let before = bed.snapshot(job).await;
            for change in
                ["at = at + 1", "actor = 'sql'", "payload = NULL", "version = version + 9", "detail = '{}'"]
            {
                let said = refused(&hand, &format!("UPDATE job_events SET {change} WHERE job_id = ?1"), job);
                assert!(said.contains("append-only"), "{said}");
            }
            let said = refused(&hand, "DELETE FROM job_events WHERE job_id = ?1", job);
            assert!(said.contains("never deleted by hand"), "{said}");
            for actor in ["api", "worker:w", "sql"] {
                for (verb, type_name) in
                    [("INSERT", "note"), ("INSERT", "job_cancelled"), ("REPLACE", "note")]
                {
                    for ahead in [0, 1, 2] {
                        let sql = format!(
                            "{verb} INTO job_events (job_id, version, at, type, actor, attempt, generation, detail)
                             SELECT id, version + {ahead}, updated_at, '{type_name}', '{actor}', 0, 0, '{{}}'
                             FROM jobs WHERE id = ?1"
                        );
                        let said = refused(&hand, &sql, job);
                        assert!(said.contains("history"), "{said}");
                    }
                }
            }
            bed.is_unchanged(&before).await;
        }
    });
}

/// M7: neither seals nor what is known of removed jobs is changed, removed or added to by hand.
#[test]
fn seals_and_removals_are_not_written_by_hand() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        let job = bed.a_job_that_is(Status::Cancelled, 0).await;
        let gone = bed.a_job_that_is(Status::Cancelled, 0).await;
        let version = bed.row(gone).await.version;
        let purge = Purge { jobs: vec![(gone, version)], archive: None };
        assert_eq!(bed.store.purge(purge, None).await, Ok(vec![Ok(())]));
        bed.seals(job).await;
        for table in ["seals", "removals"] {
            let key = if table == "seals" { "number" } else { "version" };
            for sql in [
                format!("UPDATE {table} SET {key} = {key} + 1"),
                format!("DELETE FROM {table}"),
                format!("INSERT INTO {table} SELECT * FROM {table}"),
                format!("REPLACE INTO {table} SELECT * FROM {table}"),
            ] {
                let said = hand.execute(&sql, ()).expect_err("refused").to_string();
                assert!(said.contains("never") || said.contains("not by hand"), "{sql}: {said}");
            }
        }
        let kept = bed.store.removals(vec![gone], None).await.expect("the store answers");
        assert_eq!(kept.len(), 1);
    });
}

/// M1, M7: rows enter and leave only through the engine.
#[test]
fn jobs_are_neither_inserted_nor_deleted_by_hand() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        for status in [Status::Pending, Status::Running, Status::Completed, Status::Failed] {
            let job = bed.a_job_that_is(status, 0).await;
            let before = bed.snapshot(job).await;
            let said = refused(&hand, "DELETE FROM jobs WHERE id = ?1", job);
            assert!(said.contains("never deleted by hand"), "{said}");
            for verb in ["INSERT", "INSERT OR IGNORE", "REPLACE"] {
                let said = refused(&hand, &format!("{verb} INTO jobs SELECT * FROM jobs WHERE id = ?1"), job);
                assert!(said.contains("jobs are enqueued by windlass, not by hand"), "{said}");
            }
            bed.is_unchanged(&before).await;
        }
    });
}

/// M5, Q1: a row cannot contradict itself, whoever writes it.
#[test]
fn a_row_cannot_contradict_itself() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        let wrong: &[(Status, &str, &str)] = &[
            (Status::Pending, "lease_hash = zeroblob(16)", "leased_exactly_while_running"),
            (Status::Pending, "lease_expires_at = 1", "leased_exactly_while_running"),
            (Status::Pending, "status = 'running'", "leased_exactly_while_running"),
            (Status::Running, "lease_hash = NULL", "leased_exactly_while_running"),
            (Status::Running, "lease_expires_at = NULL", "leased_exactly_while_running"),
            (Status::Running, "status = 'retry'", "leased_exactly_while_running"),
            (
                Status::Running,
                "status = 'completed', due_at = NULL, finished_at = 1",
                "leased_exactly_while_running",
            ),
            (Status::Pending, "waiting_for = 'signal'", "waits_for_something_exactly_while_waiting"),
            (Status::Waiting, "waiting_for = NULL", "waits_for_something_exactly_while_waiting"),
            (Status::Pending, "due_at = NULL", "due_while_it_can_be_taken"),
            (Status::Retry, "due_at = NULL", "due_while_it_can_be_taken"),
            (Status::Orphaned, "due_at = NULL", "due_while_it_can_be_taken"),
            (Status::Pending, "finished_at = 1", "finished_exactly_when_terminal"),
            (Status::Pending, "status = 'cancelled'", "finished_exactly_when_terminal"),
            (Status::Completed, "finished_at = NULL, due_at = 1", "finished_exactly_when_terminal"),
            (Status::Completed, "due_at = 1", "finished_exactly_when_terminal"),
            (Status::Failed, "error_code = NULL", "dead_has_a_reason"),
            (Status::TimedOut, "error_version = NULL", "dead_has_a_reason"),
            (Status::Pending, "priority = 6", "priority"),
            (Status::Pending, "attempt = -1", "attempt"),
            (Status::Pending, "retries = max_retries + 1", "retries"),
            (Status::Pending, "retries = -1", "retries"),
            (Status::Pending, "crashes = -1", "crashes"),
            (Status::Pending, "progress = 101", "progress"),
            (Status::Pending, "signals = -1", "signals"),
            (Status::Pending, "children = -1", "children"),
            (Status::Pending, "timeout_ms = 0", "timeout_ms"),
            (Status::Pending, "lease_ms = 0", "lease_ms"),
            (Status::Pending, "grace_ms = -1", "grace_ms"),
        ];
        for (n, (status, change, constraint)) in (0..).zip(wrong) {
            let job = bed.a_job_that_is(*status, n * 2_000).await;
            let before = bed.snapshot(job).await;
            let said = refused(
                &hand,
                &format!("UPDATE jobs SET version = version + 1, {change} WHERE id = ?1"),
                job,
            );
            assert!(said.contains("CHECK") && said.contains(constraint), "{status}, {change}: {said}");
            bed.is_unchanged(&before).await;
        }
    });
}

/// M8: a job that waits for people can be ended by hand; a question whose time was over by then has expired.
#[test]
fn a_job_that_waits_for_approval_can_be_ended_by_hand() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        let held = bed.holds("w", bed.job("work"), at(0)).await;
        let (ask, _) = bed.question(&held, "gate");
        let asked = bed.asks(ask, at(0)).await;
        bed.waits(&held, for_approval("gate"), at(0)).await.expect("it waits");
        set(&hand, held.job.id, "failed").expect("a legal transition");
        let vote = bed.votes(
            asked.approval.id,
            windlass_core::wait::Decision::Approve,
            windlass_conformance::key_of("ann", &["operator"]),
            None,
        );
        assert!(vote.await.is_err(), "nothing is left to vote on");
        let view = bed.store.approval(asked.approval.id, None).await.expect("the store answers");
        assert_eq!(view.expect("it is there").approval.status, ApprovalStatus::Expired);
        assert_eq!(bed.row(held.job.id).await.status, Status::Failed);
        invariants::check(&bed).await;
    });
}

/// F13: what others wait for is not ended by hand, for a trigger cannot follow a graph; what only waits is.
#[test]
fn a_part_of_a_graph_is_not_ended_by_hand() {
    wait_for(async {
        let place = Place::new();
        let (bed, hand) = (place.bed(), place.hand());
        let first = bed.a_job(None).await;
        let mut last = bed.job("work");
        let edge = Edge { job: first, on: On::Success, name: None };
        last.facts.graph = Some(Box::new(Graph { after: vec![edge], ..Graph::default() }));
        let last = bed.enqueue(last, None).await.id;
        let before = bed.snapshot(first).await;
        let said = set(&hand, first, "cancelled").expect_err("others wait for it");
        assert!(said.contains("other jobs wait for this one"), "{said}");
        bed.is_unchanged(&before).await;
        set(&hand, last, "cancelled").expect("nobody waits for it");
        assert_eq!(bed.row(last).await.children, 0);
        invariants::check(&bed).await;
    });
}
