//! The sweep: the engine acts on what is past its deadline, once per row, whoever comes first.

use crate::{
    Bed, Racer, at, completes, fails, for_approval, for_children, for_signal, note, stop, time, together, who,
};
use std::collections::BTreeMap;
use windlass_core::wait::WakeOutcome;
use windlass_core::{Answer, Backoff, Done, JobId, NewJob, Outcome, Refusal, Status, Wait};
use windlass_store::{Sweep, Swept};

/// This module's laws, as tests.
#[macro_export]
macro_rules! sweep_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            sweep: a_timed_out_attempt_is_retried_while_retries_are_left,
            after_its_deadline_a_holder_is_refused_without_any_sweep,
            a_cancel_that_is_not_heeded_is_forced,
            a_completion_before_the_force_wins,
            no_renewal_passes_the_timeout,
            a_claim_needs_no_sweep_to_notice_a_timeout,
            everything_past_its_deadline_gets_its_own_outcome,
            rows_that_cannot_be_acted_on_never_starve_the_rest,
            a_sweep_keeps_to_its_limit_and_goes_on,
            a_parent_is_swept_with_its_children,
            parallel_sweeps_act_once_per_row,
            a_completion_racing_the_sweep_has_one_winner,
        );
    };
}

/// A job that may take five seconds per attempt and is retried after one.
fn timed(bed: &Bed, max_retries: i32) -> NewJob {
    let mut job = bed.job("work");
    job.facts.timeout_ms = Some(5_000);
    job.facts.max_retries = max_retries;
    job.facts.backoff = Some(Backoff { base_ms: 1_000, max_ms: 1_000, multiplier: 1.0, jitter: false });
    job
}

fn outcomes(swept: Vec<Swept>) -> BTreeMap<JobId, Answer> {
    let n = swept.len();
    let by_job: BTreeMap<_, _> = swept.into_iter().map(|s| (s.job, s.answer)).collect();
    assert_eq!(by_job.len(), n, "one outcome per row");
    by_job
}

/// M5, T7
pub async fn a_timed_out_attempt_is_retried_while_retries_are_left(bed: Bed) {
    let held = bed.holds("w", timed(&bed, 1), at(0)).await;
    let id = held.job.id;
    assert_eq!((held.job.deadline_at, held.lease.expires_at), (at(5_000), time(5_000)));
    assert_eq!(bed.sweeps(at(4_999)).await, []);
    assert_eq!(bed.sweeps(at(5_000)).await, [Swept { job: id, answer: Ok(Done::Moved(3, Status::Retry)) }]);
    let view = bed.view(id, at(5_000)).await;
    assert_eq!((view.job.retries, view.job.due_at, view.job.deadline_at), (1, at(6_000), None));
    assert_eq!(crate::error_of(&view.error.expect("the error is kept").0).0, "timed_out");
    assert_eq!(bed.settles(&held, completes(), at(5_001)).await, Err(Refusal::NotLeased(Status::Retry)));
    let held = bed.claims_one("w", at(6_000)).await;
    assert_eq!((held.job.attempt, held.job.deadline_at), (2, at(11_000)));
    let swept = bed.sweeps(at(11_000)).await;
    assert_eq!(swept, [Swept { job: id, answer: Ok(Done::Moved(5, Status::TimedOut)) }]);
    let row = bed.row(id).await;
    assert_eq!((row.retries, row.finished_at, row.due_at), (1, at(11_000), None));
    assert_eq!(bed.sweeps(at(99_000)).await, []);
}

/// T7, Q6: a late sweep costs only latency.
pub async fn after_its_deadline_a_holder_is_refused_without_any_sweep(bed: Bed) {
    let mut job = timed(&bed, 1);
    job.facts.grace_ms = 60_000;
    let held = bed.holds("w", job, at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    for ms in [5_000, 50_000] {
        assert_eq!(bed.settles(&held, completes(), at(ms)).await, Err(Refusal::Expired));
        assert_eq!(bed.settles(&held, fails("late"), at(ms)).await, Err(Refusal::Expired));
        assert_eq!(bed.extends(&held, 30_000, at(ms)).await, Err(Refusal::Expired));
        let mut late = note(held.job.id, "late");
        late.token = Some(held.lease.token);
        assert_eq!(bed.appends(late, at(ms)).await, Err(Refusal::Expired));
    }
    bed.is_unchanged(&before).await;
    let itself = bed.settles(&held, Outcome::TimeOut, at(50_000)).await;
    assert_eq!(itself, Ok(Done::Moved(3, Status::Retry)), "whoever notices first records it");
}

/// T7
pub async fn a_cancel_that_is_not_heeded_is_forced(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    assert_eq!(bed.cancels(id, stop(), at(20_000)).await, Ok(Done::Moved(3, Status::Running)));
    let row = bed.row(id).await;
    assert_eq!((row.cancel_requested_at, row.deadline_at), (at(20_000), at(50_000)));
    let told = bed.extends(&held, 60_000, at(25_000)).await.expect("the lease is live");
    assert!(told.cancel_requested && told.expires_at <= time(50_000), "{told:?}");
    assert_eq!(bed.sweeps(at(49_999)).await, []);
    let swept = bed.sweeps(at(50_000)).await;
    assert_eq!(swept, [Swept { job: id, answer: Ok(Done::Moved(4, Status::Cancelled)) }]);
    let late = bed.settles(&held, completes(), at(50_001)).await;
    assert_eq!(late, Err(Refusal::Finished(Status::Cancelled)), "a late completion loses");
}

/// T7
pub async fn a_completion_before_the_force_wins(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    bed.cancels(held.job.id, stop(), at(1)).await.expect("a live job can be cancelled");
    assert_eq!(bed.settles(&held, completes(), at(29_999)).await, Ok(Done::Moved(4, Status::Completed)));
    assert_eq!(bed.sweeps(at(30_001)).await, []);
}

/// M5, T7
pub async fn no_renewal_passes_the_timeout(bed: Bed) {
    let held = bed.holds("w", timed(&bed, 0), at(0)).await;
    let extended = bed.extends(&held, 60_000, at(4_999)).await.expect("the lease is live");
    assert_eq!(extended.expires_at, time(5_000));
    let swept = bed.sweeps(at(5_000)).await;
    assert_eq!(swept[0].answer, Ok(Done::Moved(3, Status::TimedOut)));
}

/// M5, T7
pub async fn a_claim_needs_no_sweep_to_notice_a_timeout(bed: Bed) {
    let held = bed.holds("w", timed(&bed, 1), at(0)).await;
    assert_eq!(bed.claims("w2", 9, at(5_000)).await, [], "it is retried after its backoff");
    let row = bed.row(held.job.id).await;
    assert_eq!((row.status, row.retries, row.due_at), (Status::Retry, 1, at(6_000)));
    assert_eq!(bed.sweeps(at(5_000)).await, []);
}

/// M5, M8, R8, T7
pub async fn everything_past_its_deadline_gets_its_own_outcome(bed: Bed) {
    let timeout = bed.holds("w", timed(&bed, 0), at(0)).await;
    let retried = bed.holds("w", timed(&bed, 3), at(0)).await;
    let stopped = bed.a_held_job("w", at(0)).await;
    let soon = windlass_core::decide::Cancel { force_after_ms: 5_000, ..stop() };
    bed.cancels(stopped.job.id, soon, at(0)).await.expect("a live job can be cancelled");
    let signal = bed.a_held_job("w", at(0)).await;
    let mut wait = for_signal("go");
    wait.expires_at = Some(time(5_000));
    bed.waits(&signal, wait, at(0)).await.expect("the holder may wait");
    let gate = bed.a_held_job("w", at(0)).await;
    let (mut ask, _) = bed.question(&gate, "gate");
    ask.expires_ms = 5_000;
    bed.asks(ask, at(0)).await;
    bed.waits(&gate, for_approval("gate"), at(0)).await.expect("the holder may wait");
    let orphan = bed.a_job(at(0)).await;
    let epoch = bed.leads("a", at(0)).await.expect("the term is free").epoch;
    bed.gives(orphan, "gone", epoch, at(0)).await.expect("the leader may assign");
    let healthy = bed.a_held_job("w", at(0)).await;
    assert_eq!(bed.sweeps(at(4_999)).await, []);
    let expected = BTreeMap::from([
        (timeout.job.id, Ok(Done::Moved(3, Status::TimedOut))),
        (retried.job.id, Ok(Done::Moved(3, Status::Retry))),
        (stopped.job.id, Ok(Done::Moved(4, Status::Cancelled))),
        (signal.job.id, Ok(Done::Moved(4, Status::Waiting))),
        (gate.job.id, Ok(Done::Moved(5, Status::Failed))),
        (orphan, Ok(Done::Moved(3, Status::Orphaned))),
    ]);
    assert_eq!(outcomes(bed.sweeps(at(5_000)).await), expected);
    assert_eq!(bed.sweeps(at(5_000)).await, [], "once per row");
    assert_eq!(bed.row(healthy.job.id).await.status, Status::Running);
}

/// T7, R8: a batch of rows that wait for somebody else must not hide the others.
pub async fn rows_that_cannot_be_acted_on_never_starve_the_rest(bed: Bed) {
    bed.registers("there", at(0)).await;
    let epoch = bed.leads("a", at(0)).await.expect("the term is free").epoch;
    for _ in 0..60 {
        let id = bed.a_job(at(0)).await;
        bed.gives(id, "there", epoch, at(0)).await.expect("the leader may assign");
    }
    let mut late = Vec::new();
    for _ in 0..5 {
        late.push(bed.holds("w", timed(&bed, 0), at(1)).await.job.id);
    }
    let mut seen = Vec::new();
    for expected in [2, 2, 1, 0] {
        let swept = bed.store.sweep(Sweep { limit: 2 }, at(5_001)).await.expect("the store answers");
        assert_eq!(swept.len(), expected, "the limit counts rows that were acted on: {swept:?}");
        seen.extend(swept.iter().map(|s| s.job));
    }
    assert_eq!(seen, late, "in the order of their deadlines");
    bed.store.remove_worker(who("there"), at(5_001)).await.expect("the store answers");
    assert_eq!(bed.sweeps(at(5_001)).await.len(), 60, "when the worker is gone, they are orphans");
}

/// T7
pub async fn a_sweep_keeps_to_its_limit_and_goes_on(bed: Bed) {
    let mut jobs = Vec::new();
    for ms in [3, 1, 2] {
        let mut job = timed(&bed, 0);
        job.facts.timeout_ms = Some(ms);
        jobs.push(bed.holds("w", job, at(0)).await.job.id);
    }
    for n in [1, 2, 0] {
        let swept = bed.store.sweep(Sweep { limit: 1 }, at(3)).await.expect("the store answers");
        assert_eq!(swept.iter().map(|s| s.job).collect::<Vec<_>>(), [jobs[n]]);
    }
    assert_eq!(bed.sweeps(at(3)).await, []);
}

/// T7, M8: what is told to a job on the way is known when its turn comes.
pub async fn a_parent_is_swept_with_its_children(bed: Bed) {
    let held = async |timeout_ms: i64, parent: Option<JobId>, now: i64| {
        let mut job = timed(&bed, 0);
        (job.facts.timeout_ms, job.facts.parent_id) = (Some(timeout_ms), parent);
        bed.holds("w", job, at(now)).await
    };
    for (start, parents, childs) in [(100, 20, 10), (200, 10, 20), (300, 10, 10)] {
        let parent = held(parents, None, start).await.job.id;
        let child = held(childs, Some(parent), start).await.job.id;
        let swept = bed.sweeps(at(start + 20)).await;
        let swept: Vec<_> = swept.into_iter().map(|s| s.job).collect();
        assert_eq!(swept, if childs < parents { [child, parent] } else { [parent, child] });
        for id in [parent, child] {
            assert_eq!(bed.row(id).await.status, Status::TimedOut);
        }
        assert_eq!(bed.row(parent).await.children, 0, "the parent was told");
    }
    // A child that ends when the wait is over as well does not end the wait; one that ends before does.
    for (start, waits, moved, outcome) in
        [(400, 20, vec![3, 6], WakeOutcome::Expired), (500, 21, vec![3], WakeOutcome::Joined)]
    {
        let parent = held(1_000, None, start).await;
        held(10, Some(parent.job.id), start).await;
        let wait = Wait { expires_at: Some(time(start + waits)), ..for_children() };
        bed.waits(&parent, wait, at(start)).await.expect("the holder may wait");
        let swept = bed.sweeps(at(start + 20)).await;
        let versions: Vec<_> = swept.iter().map(|s| s.answer.as_ref().expect("acted on").version()).collect();
        assert_eq!(versions, moved, "{swept:?}");
        let resumed = bed.claims_one("w", at(start + 20)).await;
        let wake = resumed.wake.as_ref().expect("it waited");
        assert_eq!((resumed.job.id, wake.outcome), (parent.job.id, outcome));
        bed.settles(&resumed, completes(), at(start + 20)).await.expect("completed");
    }
}

/// T7, R1
pub async fn parallel_sweeps_act_once_per_row(bed: Bed) {
    let jobs = (0..200).map(|n| timed(&bed, n % 2)).collect();
    let ids = bed.enqueue_all(jobs, at(0)).await;
    assert_eq!(bed.claims("w", 1_000, at(0)).await.len(), 200);
    let sweepers = (0..8).map(|_| {
        let bed = bed.clone();
        async move {
            let mut acted = Vec::new();
            loop {
                let swept = bed.store.sweep(Sweep { limit: 7 }, at(5_000)).await.expect("the store answers");
                if swept.is_empty() {
                    return acted;
                }
                acted.extend(swept);
            }
        }
    });
    let swept: Vec<Swept> = together(sweepers).await.into_iter().flatten().collect();
    assert_eq!(swept.len(), 200, "nobody acted on a row that another acted on");
    let swept = outcomes(swept);
    for (n, id) in ids.iter().enumerate() {
        let status = if n % 2 == 0 { Status::TimedOut } else { Status::Retry };
        assert_eq!(swept[&id.id], Ok(Done::Moved(3, status)));
    }
}

/// T7, M1
pub async fn a_completion_racing_the_sweep_has_one_winner(bed: Bed) {
    for round in 0..40 {
        let ms = round * 10_000;
        let held = bed.holds("w", timed(&bed, 0), at(ms)).await;
        let id = held.job.id;
        let (holder, sweeper) = (bed.clone(), bed.clone());
        let complete: Racer<bool> =
            Box::pin(async move { holder.settles(&held, completes(), at(ms + 4_999)).await.is_ok() });
        let sweep: Racer<bool> = Box::pin(async move { !sweeper.sweeps(at(ms + 5_000)).await.is_empty() });
        let won = together([complete, sweep]).await;
        assert_ne!(won[0], won[1], "one winner");
        let expected = if won[0] { Status::Completed } else { Status::TimedOut };
        assert_eq!(bed.row(id).await.status, expected);
        assert_eq!(bed.log(id).await.len(), 3);
    }
}
