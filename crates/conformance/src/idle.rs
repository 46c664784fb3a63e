//! Idle work: what stands still is cancelled by the leader, and nothing that moves.

use crate::{Bed, Racer, at, for_children, for_timer, key, name, stop, time, together, who};
use windlass_core::idle::{CancelIdle, IDLE};
use windlass_core::unique::{Policy, Scope};
use windlass_core::{Actor, Answer, Done, EventKind, JobId, LeaseMs, NewJob, Refusal, RunAt, Status, Unique};
use windlass_store::{AcquireTerm, FindKey, Signal};

/// This module's laws, as tests.
#[macro_export]
macro_rules! idle_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            idle: what_stands_still_is_cancelled_with_its_reason,
            what_moves_by_itself_is_not_cancelled,
            a_job_that_waits_for_others_is_not_cancelled,
            idle_jobs_are_cancelled_by_the_leader_alone,
            a_job_that_moves_meanwhile_is_left_alone,
        );
    };
}

/// How long a job stands still, in milliseconds, before it is idle here.
const IDLE_MS: i64 = 60_000;

/// Later than any job of this module has been idle for.
const LATER: i64 = 10 * IDLE_MS;

/// The epoch of who leads at this moment.
async fn leads(bed: &Bed, ms: i64) -> i64 {
    let wish = AcquireTerm { name: name("leader"), holder: who("node"), ttl_ms: LeaseMs::DEFAULT };
    bed.store.acquire_term(wish, at(ms)).await.expect("the store answers").expect("its own").epoch
}

fn wish(epoch: i64, jobs: &[JobId]) -> CancelIdle {
    CancelIdle { term: name("leader"), epoch, idle_ms: IDLE_MS, jobs: jobs.to_vec() }
}

async fn cancels(bed: &Bed, jobs: &[JobId], ms: i64) -> Vec<Answer> {
    let epoch = leads(bed, ms).await;
    let answers = bed.store.cancel_idle(wish(epoch, jobs), at(ms)).await;
    answers.expect("the store answers").expect("it leads")
}

/// T9: jobs that nobody takes, signals or starts, each for itself; the unique key is free then, and a repeat finds them ended.
pub async fn what_stands_still_is_cancelled_with_its_reason(bed: Bed) {
    let idle = [Status::Pending, Status::Retry, Status::Waiting, Status::Assigned, Status::Orphaned];
    let mut jobs = Vec::new();
    for status in idle {
        jobs.push(bed.a_job_that_is(status, 0).await);
    }
    let mut unique = bed.job("work");
    let scope = Scope::Queue(name("default"));
    unique.facts.unique = Some(Unique { scope: scope.clone(), key: key("once"), policy: Policy::Active });
    jobs.push(bed.enqueue(unique, at(0)).await.id);
    let unknown = bed.id();
    let answers = cancels(&bed, &[&jobs[..], &[unknown]].concat(), LATER).await;
    for (job, answer) in jobs.iter().zip(&answers) {
        let row = bed.row(*job).await;
        assert_eq!(*answer, Ok(Done::Moved(row.version, Status::Cancelled)), "{row:?}");
        assert_eq!(row.error_code.as_ref().map(|code| code.as_str()), Some(IDLE));
        assert_eq!(
            (row.finished_at, row.due_at, row.error_version),
            (Some(time(LATER)), None, Some(row.version))
        );
        let log = bed.log(*job).await;
        let last = log.last().expect("an event");
        assert_eq!(last.actor, Actor::engine());
        assert!(
            matches!(&last.what, EventKind::JobCancelled(d) if d.code == row.error_code && d.reason.is_some())
        );
        let view = bed.store.job(*job, at(LATER)).await.expect("the store answers").expect("it is here");
        let error: serde_json::Value = view.error.expect("an error").0.parse().expect("JSON");
        assert_eq!(error["message"], "nothing happened to it for 1m");
    }
    assert_eq!(answers.last(), Some(&Err(Refusal::NotFound)));
    let find = FindKey { scope, key: key("once") };
    assert_eq!(
        bed.store.find_key(find, at(LATER)).await.expect("the store answers"),
        None,
        "its key is free"
    );
    let again = cancels(&bed, &jobs, LATER + 1).await;
    assert!(again.iter().all(|answer| *answer == Err(Refusal::Finished(Status::Cancelled))), "{again:?}");
}

/// T9: what is held, due later, or has a time to come is left as it is; so is what changed a moment ago.
pub async fn what_moves_by_itself_is_not_cancelled(bed: Bed) {
    let due_at = |ms: i64| {
        let mut job = bed.job("work");
        job.facts.run_at = RunAt::At(time(ms));
        job
    };
    let at_last = bed.enqueue(due_at(LATER), at(0)).await.id;
    let later = bed.enqueue(due_at(LATER + 1), at(0)).await.id;
    let held = bed.a_held_job("w", at(0)).await;
    bed.waits(&held, for_timer(time(LATER + 1)), at(0)).await.expect("the holder may wait");
    let moved = bed.a_job_that_is(Status::Waiting, LATER - IDLE_MS + 1).await;
    let running = bed.a_job_that_is(Status::Running, LATER - 1).await;
    for job in [later, held.job.id, moved, running] {
        let before = bed.snapshot(job).await;
        let version = before.job.version;
        assert_eq!(cancels(&bed, &[job], LATER).await, [Err(Refusal::VersionMismatch(version))]);
        bed.is_unchanged(&before).await;
    }
    assert!(cancels(&bed, &[at_last], LATER).await[0].is_ok(), "from that moment on, not after it");
    assert!(cancels(&bed, &[moved], LATER + 1).await[0].is_ok(), "nor after so long");
}

/// T9: its children stand still, not it; they are cancelled, and it wakes.
pub async fn a_job_that_waits_for_others_is_not_cancelled(bed: Bed) {
    let parent = bed.a_held_job("w", at(0)).await;
    let mut child = bed.job("work");
    child.facts.parent_id = Some(parent.job.id);
    let child: NewJob = NewJob { parent_token: Some(parent.lease.token), ..child };
    let child = bed.enqueue(child, at(0)).await.id;
    bed.waits(&parent, for_children(), at(0)).await.expect("the holder may wait");
    let version = bed.row(parent.job.id).await.version;
    let answers = cancels(&bed, &[parent.job.id, child], LATER).await;
    assert_eq!(answers[0], Err(Refusal::VersionMismatch(version)));
    assert!(answers[1].is_ok(), "{answers:?}");
    let row = bed.row(parent.job.id).await;
    assert_eq!(
        (row.status, row.due_at, row.children),
        (Status::Waiting, Some(time(LATER)), 0),
        "it is awake"
    );
    bed.cancels(parent.job.id, stop(), at(LATER)).await.expect("cancelled");
}

/// T9, R3: who led before cancels nothing.
pub async fn idle_jobs_are_cancelled_by_the_leader_alone(bed: Bed) {
    let job = bed.a_job_that_is(Status::Pending, 0).await;
    let stale = leads(&bed, 0).await;
    let epoch = leads(&bed, LATER).await;
    assert_ne!(stale, epoch);
    let before = bed.snapshot(job).await;
    for other in [stale, epoch + 1] {
        let refused = bed.store.cancel_idle(wish(other, &[job]), at(LATER)).await.expect("the store answers");
        assert_eq!(refused, Err(Refusal::StaleEpoch(epoch)));
    }
    let over = bed.store.cancel_idle(wish(epoch, &[job]), at(2 * LATER)).await.expect("the store answers");
    assert_eq!(over, Err(Refusal::StaleEpoch(epoch)), "its term is over");
    bed.is_unchanged(&before).await;
}

/// T9, J10: a signal that comes at the same moment wakes the job, or finds it ended; never both.
pub async fn a_job_that_moves_meanwhile_is_left_alone(bed: Bed) {
    for n in 0..8 {
        // Time never goes back: each round is later than the last.
        let (begin, later) = (2 * n * LATER, (2 * n + 1) * LATER);
        let job = bed.a_job_that_is(Status::Waiting, begin).await;
        let epoch = leads(&bed, later).await;
        let (store, request) = (bed.store.clone(), wish(epoch, &[job]));
        let cancel = async move {
            let answers = store.cancel_idle(request, at(later)).await.expect("the store answers");
            answers.expect("it leads")[0].clone()
        };
        let store = bed.store.clone();
        let signal = Signal { job, name: name("go"), payload: None, actor: Actor::api(), key: None };
        let signal = async move { store.signal(signal, at(later)).await.expect("the store answers") };
        let acting: [Racer<Answer>; 2] = [Box::pin(cancel), Box::pin(signal)];
        let answers = together(acting).await;
        let row = bed.row(job).await;
        match row.status {
            Status::Cancelled => assert_eq!(answers[1], Err(Refusal::Finished(Status::Cancelled))),
            status => {
                assert_eq!((status, row.due_at), (Status::Waiting, Some(time(later))));
                let left_alone = [Err(Refusal::VersionMismatch(row.version)), Err(Refusal::Busy)];
                assert!(left_alone.contains(&answers[0]), "{answers:?}");
                bed.cancels(job, stop(), at(later)).await.expect("cancelled");
            }
        }
    }
}
