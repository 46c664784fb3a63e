//! What operators do: cancel, redrive, fork, look back.

use crate::{
    Bed, at, checkpoint, completes, fails, fails_for_good, fails_until, for_children, fork, is_invalid, json,
    key, name, note, redrive, report, step_ends, stop, stop_at_once, time, waits, waits_for_signal, who,
};
use tokio::task::JoinSet;
use windlass_core::decide::Cancel as Wish;
use windlass_core::limits::{HORIZON_MS, LEASE_MAX_MS, PAYLOAD_MAX_BYTES, TEXT_MAX_BYTES};
use windlass_core::unique::{Policy, Scope};
use windlass_core::{
    Actor, Answer, Done, EventKind, Job, JobId, NewJob, Outcome, Payload, Refusal, RunAt, Status, Timestamp,
    Unique, Wait, WaitFor,
};
use windlass_store::{AtVersion, Cancel, Claimed, Fork, Now, Progress, ReadSteps, Redrive, Signal, Sweep};

/// This module's laws, as tests.
#[macro_export]
macro_rules! operate_laws {
    ($($make:tt)*) => {
        $crate::law_tests!([$($make)*], operate:
            a_job_that_nobody_holds_is_cancelled_at_once,
            a_holder_is_asked_before_its_job_is_cancelled,
            a_forced_cancel_asks_nobody,
            a_requested_cancel_is_due_after_its_grace,
            a_job_whose_lease_is_over_is_cancelled_at_once,
            a_wish_is_no_repeat_once_its_holder_is_gone,
            a_wish_puts_no_timeout_off,
            a_finished_job_is_not_cancelled,
            a_repeated_cancel_changes_nothing,
            wishes_outside_their_limits_are_refused,
            racing_cancels_are_one,
            a_dead_or_cancelled_job_goes_back_to_pending,
            a_redriven_job_has_its_whole_budget_again,
            only_an_end_that_is_not_success_is_redriven,
            a_redrive_waits_for_its_time,
            a_repeated_redrive_is_known_by_its_key,
            a_redrive_may_bring_another_payload,
            a_redrives_payload_goes_into_forks_and_keys,
            a_redrive_kills_older_leases,
            a_redrive_takes_its_key_again,
            a_redrive_is_refused_while_another_job_has_the_key,
            a_redrive_never_takes_a_key_that_is_anothers_by_race,
            one_of_racing_redrives_wins,
            a_redriven_child_is_not_counted_twice,
            a_redriven_parent_waits_for_no_child_that_ended,
            a_fork_begins_with_anothers_log,
            a_fork_may_start_from_any_version,
            a_fork_may_bring_another_payload,
            a_fork_takes_no_key_and_no_parent,
            a_fork_waits_for_no_child_of_anothers,
            a_redrive_from_the_start_forgets_signals,
            a_wait_that_was_cut_off_is_not_on_record,
            the_holder_of_a_forks_source_has_no_say_in_it,
            a_repeated_fork_is_known_by_its_id,
            forks_that_cannot_be_are_refused,
            a_decision_on_an_older_version_is_refused,
            of_racing_decisions_on_one_version_one_is_made,
            the_row_at_any_version_is_the_row_as_it_was,
        );
    };
}

/// M10, T7, J10
pub async fn a_job_that_nobody_holds_is_cancelled_at_once(bed: Bed) {
    let free = [Status::Pending, Status::Assigned, Status::Retry, Status::Waiting, Status::Orphaned];
    for (n, status) in free.into_iter().enumerate() {
        let start = 10_000 * n as i64;
        let id = bed.a_job_that_is(status, start).await;
        let before = bed.row(id).await;
        let wish = Wish { reason: Some("not needed".into()), actor: operator(), ..stop() };
        let now = at(start + 1_500);
        let done = bed.cancels(id, wish, now).await;
        assert_eq!(done, Ok(Done::Moved(before.version + 1, Status::Cancelled)), "{status}");
        let row = bed.row(id).await;
        assert_eq!((row.status, row.finished_at), (Status::Cancelled, now));
        assert_eq!((row.due_at, row.deadline_at, row.worker_id, row.waiting_for), (None, None, None, None));
        let last = bed.log(id).await.pop().expect("an event");
        assert_eq!((last.what.type_name(), last.actor), ("job_cancelled", operator()));
        assert_eq!(last.what.detail().as_deref(), Some("{\"reason\":\"not needed\"}"));
        assert_eq!(bed.claims_from("w", &[row.queue.as_str()], 1, at(86_400_000)).await, []);
    }
}

/// T7, M10
pub async fn a_holder_is_asked_before_its_job_is_cancelled(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let wish = Wish { reason: Some("too dear".into()), force_after_ms: 7_000, ..stop() };
    assert_eq!(bed.cancels(id, wish, at(100)).await, Ok(Done::Moved(3, Status::Running)));
    let row = bed.row(id).await;
    assert_eq!((row.status, row.cancel_requested_at), (Status::Running, at(100)));
    assert_eq!((row.deadline_at, row.finished_at), (at(7_100), None));
    assert_eq!(row.lease_hash, Some(held.lease.token.hash()), "it still holds the job");
    let last = bed.log(id).await.pop().expect("an event");
    let EventKind::JobCancelRequested(asked) = last.what else { panic!("a request: {last:?}") };
    assert_eq!((asked.reason.as_deref(), asked.force_at), (Some("too dear"), time(7_100)));
    let told = bed.extends(&held, 1_000, at(200)).await.expect("renewed");
    assert!(told.cancel_requested);
    let done = bed.settles(&held, Outcome::Cancelled { reason: None }, at(300)).await;
    assert_eq!(done, Ok(Done::Moved(4, Status::Cancelled)));
}

/// T7, M10
pub async fn a_forced_cancel_asks_nobody(bed: Bed) {
    for asked_first in [false, true] {
        let held = bed.holds("w", bed.job("work"), at(0)).await;
        let id = held.job.id;
        if asked_first {
            bed.cancels(id, stop(), at(1)).await.expect("requested");
        }
        let version = 3 + i64::from(asked_first);
        assert_eq!(bed.cancels(id, stop_at_once(), at(2)).await, Ok(Done::Moved(version, Status::Cancelled)));
        let before = bed.snapshot(id).await;
        let over = Refusal::Finished(Status::Cancelled);
        assert_eq!(bed.extends(&held, 30_000, at(3)).await, Err(over.clone()));
        assert_eq!(bed.settles(&held, completes(), at(3)).await, Err(over.clone()), "too late");
        assert_eq!(bed.reports(checkpoint(&held, "1"), at(3)).await, Err(over));
        bed.is_unchanged(&before).await;
    }
}

/// T7, M10
pub async fn a_requested_cancel_is_due_after_its_grace(bed: Bed) {
    // By the sweep.
    let held = bed.holds("w", bed.job("work"), at(0)).await;
    let wish = || Wish { force_after_ms: 1_000, ..stop() };
    bed.cancels(held.job.id, wish(), at(0)).await.expect("requested");
    bed.extends(&held, 30_000, at(1)).await.expect("it may go on for now");
    assert_eq!(bed.store.sweep(Sweep { limit: 10 }, at(999)).await, Ok(vec![]));
    let swept = bed.store.sweep(Sweep { limit: 10 }, at(1_000)).await.expect("the store answers");
    assert_eq!(swept.len(), 1);
    assert_eq!(swept[0].answer, Ok(Done::Moved(4, Status::Cancelled)));
    assert_eq!(bed.log(held.job.id).await[3].actor, Actor::engine());
    // By whoever asks again, when no sweep came by.
    let held = bed.holds("w", bed.job("work"), at(2_000)).await;
    bed.cancels(held.job.id, wish(), at(2_000)).await.expect("requested");
    let again = bed.cancels(held.job.id, wish(), at(3_000)).await;
    assert_eq!(again, Ok(Done::Moved(4, Status::Cancelled)));
    // With no grace at all, the holder may do nothing more, but confirm.
    let held = bed.holds("w", bed.job("work"), at(4_000)).await;
    bed.cancels(held.job.id, Wish { force_after_ms: 0, ..stop() }, at(4_000)).await.expect("requested");
    assert_eq!(bed.settles(&held, completes(), at(4_000)).await, Err(Refusal::Expired));
    let done = bed.settles(&held, Outcome::Cancelled { reason: None }, at(4_001)).await;
    assert_eq!(done, Ok(Done::Moved(4, Status::Cancelled)));
}

/// T7, Q4
pub async fn a_job_whose_lease_is_over_is_cancelled_at_once(bed: Bed) {
    let held = bed.a_held_job("gone", at(0)).await;
    let done = bed.cancels(held.job.id, stop(), at(30_000)).await;
    assert_eq!(done, Ok(Done::Moved(3, Status::Cancelled)), "nobody is there to be asked");
}

/// M2, T7
pub async fn a_finished_job_is_not_cancelled(bed: Bed) {
    assert_eq!(bed.cancels(bed.id(), stop(), at(0)).await, Err(Refusal::NotFound));
    for status in [Status::Completed, Status::Failed, Status::TimedOut] {
        let id = bed.a_job_that_is(status, 0).await;
        let before = bed.snapshot(id).await;
        for wish in [stop(), stop_at_once()] {
            assert_eq!(bed.cancels(id, wish, at(1)).await, Err(Refusal::Finished(status)));
        }
        bed.is_unchanged(&before).await;
    }
}

/// T7, R1
pub async fn a_repeated_cancel_changes_nothing(bed: Bed) {
    let pending = bed.a_job(at(0)).await;
    bed.cancels(pending, stop(), at(1)).await.expect("cancelled");
    let held = bed.holds("w", bed.job("work"), at(1)).await;
    bed.cancels(held.job.id, stop(), at(1)).await.expect("requested");
    for (id, wish, version) in [(pending, stop(), 2), (pending, stop_at_once(), 2), (held.job.id, stop(), 3)]
    {
        let before = bed.snapshot(id).await;
        assert_eq!(bed.cancels(id, wish, at(2)).await, Ok(Done::Already(version)));
        bed.is_unchanged(&before).await;
    }
}

/// T7: a cancel was asked of a holder whose lease is over since, and the time to force it has not come. Asked again, nobody is
/// left to be waited for.
pub async fn a_wish_is_no_repeat_once_its_holder_is_gone(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let patient = || Wish { force_after_ms: 120_000, ..stop() };
    bed.cancels(held.job.id, patient(), at(1)).await.expect("requested");
    assert_eq!(bed.cancels(held.job.id, patient(), at(29_999)).await, Ok(Done::Already(3)));
    let gone = bed.cancels(held.job.id, patient(), at(30_000)).await;
    assert_eq!(gone, Ok(Done::Moved(4, Status::Cancelled)));
    assert_eq!(bed.types(held.job.id).await.last().map(String::as_str), Some("job_cancelled"));
}

/// T7, M9: a holder that is asked to stop in two minutes still has its own timeout to keep.
pub async fn a_wish_puts_no_timeout_off(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.timeout_ms = Some(5_000);
    let held = bed.holds("w", job, at(0)).await;
    bed.cancels(held.job.id, Wish { force_after_ms: 120_000, ..stop() }, at(1)).await.expect("requested");
    assert_eq!(bed.row(held.job.id).await.deadline_at, at(5_000));
    assert_eq!(bed.sweeps(at(5_000)).await.len(), 1, "its time is up");
    assert_eq!(bed.row(held.job.id).await.status, Status::Cancelled);
}

/// Q2, T7
pub async fn wishes_outside_their_limits_are_refused(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    for reason in ["x".repeat(TEXT_MAX_BYTES + 1), "a\0b".to_owned()] {
        let wish = Wish { reason: Some(reason), ..stop() };
        is_invalid(&bed.cancels(held.job.id, wish, at(1)).await, "reason");
    }
    for force_after_ms in [-1, LEASE_MAX_MS + 1, i64::MAX] {
        let wish = Wish { force_after_ms, ..stop() };
        is_invalid(&bed.cancels(held.job.id, wish, at(1)).await, "force_after");
    }
    bed.is_unchanged(&before).await;
}

/// T7, R1
pub async fn racing_cancels_are_one(bed: Bed) {
    let held = bed.holds("w", bed.job("work"), at(0)).await;
    for (id, status, version) in
        [(bed.a_job(at(0)).await, Status::Cancelled, 2), (held.job.id, Status::Running, 3)]
    {
        let mut racers = JoinSet::new();
        for _ in 0..16 {
            let bed = bed.clone();
            racers.spawn(async move { bed.cancels(id, stop(), at(1)).await });
        }
        let answers = racers.join_all().await;
        assert_eq!(count(&answers, &Ok(Done::Moved(version, status))), 1);
        assert_eq!(count(&answers, &Ok(Done::Already(version))), 15);
    }
}

/// T6, M2, Q12, M6
pub async fn a_dead_or_cancelled_job_goes_back_to_pending(bed: Bed) {
    for status in [Status::Failed, Status::TimedOut, Status::Cancelled] {
        let mut job = bed.job("work");
        job.facts.max_retries = i32::from(status == Status::Failed);
        let payload = job.payload.clone();
        let id = bed.enqueue(job, at(0)).await.id;
        let mut held = bed.claims_by_id("w", id, at(0)).await.expect("claimed");
        if status == Status::Failed {
            bed.settles(&held, fails_until("first", RunAt::Now), at(0)).await.expect("retried");
            held = bed.claims_by_id("w", id, at(0)).await.expect("claimed");
        }
        let say = Progress { progress: Some(80), stage: Some("late".into()), ..checkpoint(&held, "1") };
        bed.reports(say, at(0)).await.expect("reported");
        let end = match status {
            Status::Failed => fails("second"),
            Status::TimedOut => Outcome::TimeOut,
            _ => Outcome::Cancelled { reason: None },
        };
        bed.settles(&held, end, at(0)).await.expect("settled");
        let before = bed.row(id).await;
        assert_eq!(before.status, status);
        let now = before.updated_at.plus_ms(9);
        let done = bed.redrives(redrive(id), Some(now)).await;
        assert_eq!(done, Ok(Done::Moved(before.version + 1, Status::Pending)), "from {status}");
        let view = bed.view(id, at(0)).await;
        let row = &view.job;
        assert_eq!((row.due_at, row.updated_at, row.finished_at), (Some(now), now, None));
        assert_eq!((row.retries, row.crashes, row.progress, &row.stage), (0, 0, 0, &None));
        assert_eq!((row.generation, row.attempt), (1, before.attempt), "the fence never goes back");
        assert_eq!((row.error_version, &row.error_code, row.cancel_requested_at), (None, &None, None));
        assert_eq!((view.payload, view.checkpoint), (payload, Some(json("1"))));
        let last = bed.log(id).await.pop().expect("an event");
        assert_eq!((last.what.type_name(), last.actor), ("job_redriven", operator()));
        let held = bed.claims_by_id("w", id, Some(now)).await.expect("claimed");
        assert_eq!((held.lease.attempt, held.job.generation), (before.attempt + 1, 1));
        assert_eq!(bed.log(id).await.last().map(|e| e.generation), Some(1), "events tell the generation");
        bed.settles(&held, completes(), Some(now)).await.expect("completed");
    }
}

/// T6, M5, Q5
pub async fn a_redriven_job_has_its_whole_budget_again(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.max_retries = 1;
    let id = bed.enqueue(job, at(0)).await.id;
    for generation in 0..3 {
        for status in [Status::Retry, Status::Failed] {
            let held = bed.claims_one("w", at(0)).await;
            bed.settles(&held, fails_until("x", RunAt::Now), at(0)).await.expect("settled");
            assert_eq!(bed.row(id).await.status, status, "generation {generation}");
        }
        bed.redrives(redrive(id), at(0)).await.expect("redriven");
    }
    // Lost leases count from zero as well.
    let mut now = 0;
    for _ in 0..2 {
        for crashes in 0..3 {
            let held = bed.claims_one("victim", at(now)).await;
            assert_eq!(held.job.crashes, crashes);
            now += 30_000;
        }
        assert_eq!(bed.claims("victim", 1, at(now)).await, []);
        assert_eq!(bed.row(id).await.error_code, Some(who("crashed")));
        bed.redrives(redrive(id), at(now)).await.expect("redriven");
    }
}

/// T6, M2, Q12
pub async fn only_an_end_that_is_not_success_is_redriven(bed: Bed) {
    assert_eq!(bed.redrives(redrive(bed.id()), at(0)).await, Err(Refusal::NotFound));
    for status in Status::ALL {
        let refusal = match status {
            Status::Failed | Status::TimedOut | Status::Cancelled => continue,
            Status::Completed => Refusal::Completed,
            status => Refusal::NotFinished(status),
        };
        let id = bed.a_job_that_is(status, 0).await;
        let before = bed.snapshot(id).await;
        assert_eq!(bed.redrives(redrive(id), at(1)).await, Err(refusal));
        bed.is_unchanged(&before).await;
    }
}

/// Q12, Q3, T6
pub async fn a_redrive_waits_for_its_time(bed: Bed) {
    let cases = [(RunAt::After(500), 600), (RunAt::At(time(2_000)), 2_000), (RunAt::At(time(-5)), -5)];
    for (run_at, due) in cases {
        let id = bed.a_job_that_is(Status::Failed, 0).await;
        bed.redrives(Redrive { run_at, ..redrive(id) }, at(100)).await.expect("redriven");
        assert_eq!(bed.row(id).await.due_at, at(due));
    }
    let id = bed.a_job_that_is(Status::Failed, 0).await;
    let before = bed.snapshot(id).await;
    let wrong = [
        ("run_at", RunAt::At(Timestamp::from_micros(i64::MAX))),
        ("run_at", RunAt::At(time(-HORIZON_MS - 1))),
        ("delay", RunAt::After(-1)),
    ];
    for (field, run_at) in wrong {
        is_invalid(&bed.redrives(Redrive { run_at, ..redrive(id) }, at(100)).await, field);
    }
    bed.is_unchanged(&before).await;
}

/// T6, R1
pub async fn a_repeated_redrive_is_known_by_its_key(bed: Bed) {
    let id = bed.a_job_that_is(Status::Failed, 0).await;
    let keyed = Redrive { key: Some(key("k")), ..redrive(id) };
    assert_eq!(bed.redrives(keyed.clone(), at(1)).await, Ok(Done::Moved(4, Status::Pending)));
    let held = bed.claims_by_id("w", id, at(2)).await.expect("claimed");
    bed.settles(&held, fails_for_good("again"), at(3)).await.expect("failed");
    let before = bed.snapshot(id).await;
    assert_eq!(bed.redrives(keyed, at(4)).await, Ok(Done::Already(4)), "although it could be redriven now");
    bed.is_unchanged(&before).await;
    assert_eq!(bed.redrives(redrive(id), at(5)).await, Ok(Done::Moved(7, Status::Pending)));
    assert_eq!(bed.redrives(redrive(id), at(5)).await, Err(Refusal::NotFinished(Status::Pending)));
}

/// T6, Q12, R1: The new payload is in the redrive's event, the old one stays in the log, and every later attempt gets the new.
pub async fn a_redrive_may_bring_another_payload(bed: Bed) {
    let id = bed.a_job_that_is(Status::Failed, 0).await;
    let first = bed.view(id, at(0)).await.payload;
    let large = Payload::stored(vec![b' '; PAYLOAD_MAX_BYTES + 1], true);
    let before = bed.snapshot(id).await;
    is_invalid(&bed.redrives(Redrive { payload: Some(large), ..redrive(id) }, at(1)).await, "payload");
    bed.is_unchanged(&before).await;
    let mended = Some(json("{\"mended\":true}"));
    let keyed = Redrive { payload: mended.clone(), key: Some(key("k")), ..redrive(id) };
    assert_eq!(bed.redrives(keyed.clone(), at(1)).await, Ok(Done::Moved(4, Status::Pending)));
    let log = bed.log(id).await;
    assert_eq!((&log[0].payload, &log[3].payload), (&first, &mended));
    assert_eq!((bed.view(id, at(1)).await.payload, bed.row(id).await.generation), (mended.clone(), 1));
    let held = bed.claims_by_id("w", id, at(2)).await.expect("claimed");
    assert_eq!(held.payload, mended);
    assert_eq!(bed.redrives(keyed.clone(), at(3)).await, Ok(Done::Already(4)));
    let other = Redrive { payload: Some(json("3")), ..keyed };
    assert_eq!(bed.redrives(other, at(3)).await, Err(Refusal::KeyReused(4)), "the same key, another payload");
    // It stays through failures, redrives without one, and redrives from the start.
    bed.settles(&held, fails_for_good("again"), at(4)).await.expect("failed");
    bed.redrives(Redrive { from_start: true, ..redrive(id) }, at(5)).await.expect("redriven");
    let held = bed.claims_by_id("w", id, at(6)).await.expect("claimed");
    assert_eq!(held.payload, mended);
    bed.settles(&held, fails_for_good("again"), at(7)).await.expect("failed");
    bed.redrives(Redrive { payload: Some(json("3")), ..redrive(id) }, at(8)).await.expect("redriven");
    assert_eq!(bed.claims_by_id("w", id, at(9)).await.expect("claimed").payload, Some(json("3")));
    assert_eq!(bed.log(id).await[0].payload, first);
}

/// T6, Q11
pub async fn a_redrives_payload_goes_into_forks_and_keys(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.unique = Some(Unique::in_queue(name("default"), key("one")));
    let (id, first) = (job.id, job.payload.clone());
    bed.enqueue(job.clone(), at(0)).await;
    let held = bed.claims_one("w", at(1)).await;
    bed.settles(&held, fails_for_good("no"), at(2)).await.expect("failed");
    let mended = Some(json("{\"mended\":true}"));
    bed.redrives(Redrive { payload: mended.clone(), ..redrive(id) }, at(3)).await.expect("redriven");
    // The key tells whether another request has the payload that the job has now.
    let differs = async |payload: &Option<Payload>| {
        let mut other = bed.job("work");
        other.facts.unique = job.facts.unique.clone();
        other.payload = payload.clone();
        let there = bed.enqueue(other, at(4)).await;
        assert_eq!((there.id, there.existed), (id, true));
        there.payload_differs
    };
    assert!(differs(&first).await && !differs(&mended).await);
    // A fork begins with what its source had at that version, unless it brings its own.
    let cases = [(Some(3), None, first), (None, None, mended), (None, Some(json("7")), Some(json("7")))];
    for (from_version, payload, expected) in cases {
        let made = bed.id();
        bed.forks(Fork { from_version, payload, ..fork(id, made) }, at(5)).await.expect("forked");
        assert_eq!(bed.view(made, at(5)).await.payload, expected);
        assert_eq!(bed.claims_by_id("w", made, at(6)).await.expect("claimed").payload, expected);
    }
    // The same id with the body that it was enqueued with is still a repeat.
    assert!(bed.enqueue(job, at(7)).await.existed);
}

/// T6, Q4, T5
pub async fn a_redrive_kills_older_leases(bed: Bed) {
    let held = bed.a_held_job("old", at(0)).await;
    let id = held.job.id;
    bed.cancels(id, stop_at_once(), at(1)).await.expect("cancelled");
    bed.redrives(redrive(id), at(2)).await.expect("redriven");
    // Its lease would have lasted, but not over an end.
    assert_eq!(bed.settles(&held, completes(), at(3)).await, Err(Refusal::NotLeased(Status::Pending)));
    assert_eq!(bed.extends(&held, 30_000, at(3)).await, Err(Refusal::NotLeased(Status::Pending)));
    let next = bed.claims_one("new", at(4)).await;
    let before = bed.snapshot(id).await;
    assert_eq!(bed.settles(&held, completes(), at(5)).await, Err(Refusal::Mismatch));
    assert_eq!(bed.extends(&held, 30_000, at(5)).await, Err(Refusal::Mismatch));
    assert_eq!(bed.reports(checkpoint(&held, "1"), at(5)).await, Err(Refusal::Mismatch));
    bed.is_unchanged(&before).await;
    bed.settles(&next, completes(), at(6)).await.expect("completed");
}

/// T6, T3
pub async fn a_redrive_takes_its_key_again(bed: Bed) {
    let policies = [Policy::Active, Policy::Succeeded, Policy::Forever, Policy::Ttl(1_000)];
    for (n, policy) in policies.into_iter().enumerate() {
        let unique = unique(&format!("k{n}"), policy);
        let start = 10_000 * n as i64;
        let id = failed_with_key(&bed, &unique, start).await;
        let now = at(start + 5_000);
        let kept = policy == Policy::Forever;
        assert_eq!(bed.holder_of(&unique, now).await, kept.then_some(id), "{policy:?}");
        bed.redrives(redrive(id), now).await.expect("redriven");
        assert_eq!(bed.holder_of(&unique, now).await, Some(id), "{policy:?}");
        let again = bed.enqueue(with_key(&bed, &unique), now).await;
        assert_eq!((again.id, again.existed, again.payload_differs), (id, true, false), "{policy:?}");
        if let Policy::Ttl(ms) = policy {
            assert_eq!(bed.holder_of(&unique, at(start + 5_000 + ms)).await, None, "for the same time again");
        }
    }
}

/// T6, T3
pub async fn a_redrive_is_refused_while_another_job_has_the_key(bed: Bed) {
    for (n, policy) in [Policy::Active, Policy::Succeeded, Policy::Ttl(1_000)].into_iter().enumerate() {
        let unique = unique(&format!("k{n}"), policy);
        let start = 10_000 * n as i64;
        let id = failed_with_key(&bed, &unique, start).await;
        let taker = bed.enqueue(with_key(&bed, &unique), at(start + 5_000)).await.id;
        assert_ne!(taker, id);
        let before = bed.snapshot(id).await;
        let refused = bed.redrives(redrive(id), at(start + 5_001)).await;
        assert_eq!(refused, Err(Refusal::UniqueTaken(taker)), "{policy:?}");
        bed.is_unchanged(&before).await;
        assert_eq!(bed.holder_of(&unique, at(start + 5_001)).await, Some(taker));
        bed.cancels(taker, stop(), at(start + 5_002)).await.expect("cancelled");
        // A key for a time is over by time alone.
        bed.redrives(redrive(id), at(start + 6_000)).await.expect("free again");
        assert_eq!(bed.holder_of(&unique, at(start + 6_000)).await, Some(id), "{policy:?}");
    }
}

/// T3, T6, R1
pub async fn a_redrive_never_takes_a_key_that_is_anothers_by_race(bed: Bed) {
    let mut racers = JoinSet::new();
    for n in 0..24 {
        let unique = unique(&format!("k{n}"), Policy::Active);
        let id = failed_with_key(&bed, &unique, 0).await;
        let bed = bed.clone();
        racers.spawn(async move {
            let (one, other) = (bed.clone(), bed.clone());
            let redriven = async { one.redrives(redrive(id), at(5_000)).await };
            let enqueued = async { other.enqueue(with_key(&other, &unique), at(5_000)).await };
            let (redriven, enqueued) = tokio::join!(redriven, enqueued);
            let holder = bed.holder_of(&unique, at(5_000)).await;
            match redriven {
                Ok(done) => {
                    assert_eq!(done, Done::Moved(4, Status::Pending));
                    assert_eq!((enqueued.id, enqueued.existed, holder), (id, true, Some(id)));
                }
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::UniqueTaken(enqueued.id));
                    assert_eq!((enqueued.existed, holder), (false, Some(enqueued.id)));
                }
            }
        });
    }
    racers.join_all().await;
}

/// T6, R1
pub async fn one_of_racing_redrives_wins(bed: Bed) {
    let id = bed.a_job_that_is(Status::Failed, 0).await;
    let mut racers = JoinSet::new();
    for _ in 0..16 {
        let bed = bed.clone();
        racers.spawn(async move { bed.redrives(redrive(id), at(1)).await });
    }
    let answers = racers.join_all().await;
    assert_eq!(count(&answers, &Ok(Done::Moved(4, Status::Pending))), 1);
    assert_eq!(count(&answers, &Err(Refusal::NotFinished(Status::Pending))), 15);
    assert_eq!(bed.row(id).await.generation, 1);
}

/// T6, J10
pub async fn a_redriven_child_is_not_counted_twice(bed: Bed) {
    let parent = bed.holds("w", bed.job("parent"), at(0)).await;
    let (one, other) = (child_of(&bed, parent.job.id), child_of(&bed, parent.job.id));
    let ids = [one.id, other.id];
    bed.enqueue_all(vec![one, other], at(1)).await;
    bed.settles(&parent, joins(), at(2)).await.expect("it waits");
    let held = bed.claims_by_id("w", ids[0], at(3)).await.expect("claimed");
    bed.settles(&held, fails_for_good("broken"), at(3)).await.expect("failed");
    assert_eq!(bed.row(parent.job.id).await.children, 1);
    bed.redrives(redrive(ids[0]), at(4)).await.expect("redriven");
    let held = bed.claims_by_id("w", ids[0], at(5)).await.expect("claimed");
    bed.settles(&held, completes(), at(5)).await.expect("completed");
    let row = bed.row(parent.job.id).await;
    assert_eq!((row.status, row.children, row.due_at), (Status::Waiting, 1, None), "one child still runs");
    let refused = bed.claims_by_id("w", parent.job.id, at(6)).await;
    assert_eq!(refused, Err(Refusal::NotClaimable(Status::Waiting)));
    let held = bed.claims_by_id("w", ids[1], at(7)).await.expect("claimed");
    bed.settles(&held, completes(), at(7)).await.expect("completed");
    let row = bed.row(parent.job.id).await;
    assert_eq!((row.children, row.due_at), (0, at(7)), "now all have ended");
}

/// T6, J10
pub async fn a_redriven_parent_waits_for_no_child_that_ended(bed: Bed) {
    let parent = bed.holds("w", bed.job("parent"), at(0)).await;
    let id = parent.job.id;
    let (one, other) = (child_of(&bed, id), child_of(&bed, id));
    let ids = [one.id, other.id];
    bed.enqueue_all(vec![one, other], at(1)).await;
    bed.cancels(id, stop_at_once(), at(2)).await.expect("cancelled");
    let held = bed.claims_by_id("w", ids[0], at(3)).await.expect("claimed");
    bed.settles(&held, completes(), at(3)).await.expect("a child ends while its parent is over");
    bed.redrives(redrive(id), at(4)).await.expect("redriven");
    let parent = bed.claims_by_id("w", id, at(5)).await.expect("claimed");
    bed.settles(&parent, joins(), at(5)).await.expect("it waits");
    assert_eq!(bed.row(id).await.due_at, None, "for the child that still runs");
    let held = bed.claims_by_id("w", ids[1], at(6)).await.expect("claimed");
    bed.settles(&held, completes(), at(6)).await.expect("completed");
    assert_eq!(bed.row(id).await.due_at, at(6), "and not for the one that ended long ago");
}

/// J11, J2
pub async fn a_fork_begins_with_anothers_log(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.metadata.insert("a".into(), 1.into());
    (job.facts.priority, job.facts.timeout_ms) = (2, Some(60_000));
    let held = bed.holds("w", job, at(0)).await;
    let source = held.job.id;
    bed.records(step_ends(&held, "fetch", "[1]"), at(1)).await.expect("recorded");
    bed.reports(checkpoint(&held, "{\"page\":2}"), at(2)).await.expect("reported");
    bed.settles(&held, completes(), at(3)).await.expect("completed");
    let before = bed.snapshot(source).await;
    let id = bed.id();
    assert_eq!(bed.forks(fork(source, id), at(10)).await, Ok(Done::Moved(6, Status::Pending)));
    bed.is_unchanged(&before).await;
    let view = bed.view(id, at(10)).await;
    let row = &view.job;
    assert_eq!((row.status, row.due_at, row.version), (Status::Pending, at(10), 6));
    assert_eq!((row.created_at, row.updated_at, row.finished_at), (time(10), time(10), None));
    assert_eq!((row.retries, row.crashes, row.progress, row.started_at), (0, 0, 0, None));
    assert_eq!((view.result, view.checkpoint), (None, Some(json("{\"page\":2}"))));
    let source_view = bed.view(source, at(10)).await;
    assert_eq!((&view.facts, &view.payload), (&source_view.facts, &source_view.payload));
    assert_eq!(view.metadata, source_view.metadata);
    let log = bed.log(id).await;
    for (copy, original) in log.iter().zip(&before.log) {
        let moved = windlass_core::Event { job: id, ..original.clone() };
        assert_eq!(copy, &moved, "copied as it was");
    }
    let EventKind::JobForked(forked) = &log[5].what else { panic!("a fork: {log:#?}") };
    assert_eq!((forked.from, forked.from_version, &log[5].actor), (source, 5, &operator()));
    let held = bed.claims_one("w", at(11)).await;
    assert_eq!((held.job.id, held.steps_recorded), (id, 1), "what is on record is not done again");
    bed.settles(&held, completes(), at(12)).await.expect("completed");
    bed.is_unchanged(&before).await;
}

/// J11
pub async fn a_fork_may_start_from_any_version(bed: Bed) {
    let (source, rows) = eventful_life(&bed).await;
    let last = rows.len() as i64;
    for from_version in 1..=last {
        let id = bed.id();
        let now = at(1_000_000 + from_version);
        let request = Fork { from_version: Some(from_version), ..fork(source, id) };
        let done = bed.forks(request, now).await;
        assert_eq!(done, Ok(Done::Moved(from_version + 1, Status::Pending)), "from {from_version}");
        let row = bed.row(id).await;
        assert_eq!((row.status, row.due_at, row.lease_hash), (Status::Pending, now, None));
        assert_eq!((row.worker_id, row.deadline_at, row.waiting_for), (None, None, None));
        let steps =
            bed.store.steps(ReadSteps::all(id), now).await.expect("the store answers").expect("there");
        let seen = bed.log(source).await[..from_version as usize].to_vec();
        let steps_from = rows[from_version as usize - 1].steps_from;
        assert_eq!(steps.steps, windlass_core::step::recorded(&seen, steps_from).steps);
        let held = bed.claims_by_id("w", id, now).await.expect("it can run");
        bed.settles(&held, completes(), now).await.expect("and end");
    }
}

/// J11, M4
pub async fn a_fork_may_bring_another_payload(bed: Bed) {
    let source = bed.a_job_that_is(Status::Failed, 0).await;
    let before = bed.view(source, at(1)).await;
    let id = bed.id();
    let other = Payload::bytes("payload", vec![0xff, 0], 10).expect("bytes");
    bed.forks(Fork { payload: Some(other.clone()), ..fork(source, id) }, at(1)).await.expect("forked");
    assert_eq!(bed.view(id, at(1)).await.payload, Some(other.clone()));
    assert_eq!(bed.claims_by_id("w", id, at(2)).await.expect("claimed").payload, Some(other));
    assert_eq!(bed.view(source, at(1)).await.payload, before.payload, "the source keeps its own");
}

/// T3, J10
pub async fn a_fork_takes_no_key_and_no_parent(bed: Bed) {
    let parent = bed.a_job(at(0)).await;
    let unique = unique("k", Policy::Active);
    let mut job = child_of(&bed, parent);
    job.facts.unique = Some(unique.clone());
    let source = bed.enqueue(job, at(0)).await.id;
    let before = bed.snapshot(parent).await;
    let id = bed.id();
    bed.forks(fork(source, id), at(1)).await.expect("forked");
    assert_eq!(bed.holder_of(&unique, at(1)).await, Some(source));
    assert_eq!((bed.row(id).await.parent_id, bed.row(id).await.unique_policy), (None, None));
    let facts = bed.view(id, at(1)).await.facts;
    assert_eq!((facts.parent_id, facts.unique), (None, None), "its own log says so too");
    let held = bed.claims_by_id("w", id, at(2)).await.expect("claimed");
    bed.settles(&held, fails_for_good("broken"), at(2)).await.expect("failed");
    assert_eq!(bed.holder_of(&unique, at(2)).await, Some(source), "its end frees nothing");
    bed.is_unchanged(&before).await;
    bed.cancels(source, stop(), at(3)).await.expect("cancelled");
    bed.redrives(redrive(id), at(4)).await.expect("redriven");
    assert_eq!(bed.holder_of(&unique, at(4)).await, None, "nor does its redrive take one");
}

/// J10: the children of a parent are not its fork's: the fork joins at once.
pub async fn a_fork_waits_for_no_child_of_anothers(bed: Bed) {
    let parent = bed.a_held_job("w", at(0)).await;
    let mut child = bed.job_in("child", "children");
    child.facts.parent_id = Some(parent.job.id);
    child.parent_token = Some(parent.lease.token);
    bed.enqueue(child, at(1)).await;
    let id = bed.id();
    bed.forks(fork(parent.job.id, id), at(2)).await.expect("forked");
    assert_eq!((bed.row(parent.job.id).await.children, bed.row(id).await.children), (1, 0));
    let forked = bed.claims_one("w", at(3)).await;
    assert_eq!(forked.job.id, id);
    let join = for_children();
    bed.settles(&forked, waits(join), at(3)).await.expect("it waits for nobody");
    assert_eq!(bed.row(id).await.due_at, at(3));
}

/// T6, M9: a run from the start takes nothing of before, not even a signal that nobody took; one that comes after counts.
pub async fn a_redrive_from_the_start_forgets_signals(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    bed.signals(id, "paid", "bank", at(1)).await.expect("kept");
    bed.settles(&held, fails_for_good("broken"), at(2)).await.expect("the holder may fail it");
    bed.redrives(Redrive { from_start: true, ..redrive(id) }, at(3)).await.expect("redriven");
    assert_eq!(bed.row(id).await.signals, 0);
    bed.signals(id, "shipped", "depot", at(4)).await.expect("kept");
    let held = bed.claims_one("w", at(5)).await;
    bed.settles(&held, waits_for_signal("paid"), at(5)).await.expect("it waits");
    let row = bed.row(id).await;
    assert_eq!((row.status, row.due_at, row.signals), (Status::Waiting, None, 1), "nothing answers it");
}

/// T6, J11: a wait that a cancel cut off had no end: a later run is told of none and waits again.
pub async fn a_wait_that_was_cut_off_is_not_on_record(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    bed.settles(&held, waits_for_signal("paid"), at(1)).await.expect("it waits");
    bed.cancels(id, stop(), at(2)).await.expect("cancelled");
    bed.redrives(redrive(id), at(3)).await.expect("redriven");
    let waits = async |ms: i64| {
        let recorded = bed
            .store
            .steps(ReadSteps::all(id), at(ms))
            .await
            .expect("the store answers")
            .expect("the job exists");
        recorded.waits.len()
    };
    assert_eq!(waits(3).await, 0);
    let held = bed.claims_one("w", at(4)).await;
    assert_eq!((held.wake.is_none(), waits(4).await), (true, 0));
    bed.settles(&held, waits_for_signal("paid"), at(5)).await.expect("it waits again");
    bed.signals(id, "paid", "bank", at(6)).await.expect("it wakes");
    bed.claims_one("w", at(7)).await;
    assert_eq!(waits(7).await, 1, "the wait that ended");
}

/// J8, Q6, J11
pub async fn the_holder_of_a_forks_source_has_no_say_in_it(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let token = held.lease.token;
    let early = bed.id();
    bed.forks(fork(held.job.id, early), at(1)).await.expect("forked while it is held");
    bed.settles(&held, completes(), at(2)).await.expect("completed");
    let late = bed.id();
    bed.forks(fork(held.job.id, late), at(3)).await.expect("forked after it ended");
    for id in [early, late] {
        let before = bed.snapshot(id).await;
        let free = Refusal::NotLeased(Status::Pending);
        assert_eq!(bed.extends_by(id, token, 30_000, at(4)).await, Err(free.clone()));
        assert_eq!(bed.settles_by(id, token, completes(), at(4)).await, Err(free), "nor is it a repeat");
        bed.is_unchanged(&before).await;
    }
}

/// R1, J11
pub async fn a_repeated_fork_is_known_by_its_id(bed: Bed) {
    let source = bed.a_job(at(0)).await;
    bed.appends(note(source, "seen"), at(0)).await.expect("noted");
    let (whole, part) = (bed.id(), bed.id());
    let at_one = Fork { from_version: Some(1), ..fork(source, part) };
    bed.forks(fork(source, whole), at(1)).await.expect("forked");
    bed.forks(at_one.clone(), at(1)).await.expect("forked");
    // The source and the forks go on meanwhile.
    bed.appends(note(source, "seen"), at(2)).await.expect("noted");
    let held = bed.claims_by_id("w", part, at(2)).await.expect("claimed");
    bed.settles(&held, completes(), at(2)).await.expect("completed");
    let before = [bed.snapshot(whole).await, bed.snapshot(part).await];
    assert_eq!(bed.forks(fork(source, whole), at(3)).await, Ok(Done::Already(3)));
    assert_eq!(bed.forks(at_one.clone(), at(3)).await, Ok(Done::Already(2)));
    let other = Fork { from_version: Some(2), ..at_one };
    assert_eq!(bed.forks(other, at(3)).await, Err(Refusal::JobExists), "another version is another fork");
    assert_eq!(bed.forks(fork(whole, part), at(3)).await, Err(Refusal::JobExists), "so is another source");
    assert_eq!(bed.forks(fork(whole, source), at(3)).await, Err(Refusal::JobExists), "a job is no fork");
    for snapshot in &before {
        bed.is_unchanged(snapshot).await;
    }
}

/// J11, Q2
pub async fn forks_that_cannot_be_are_refused(bed: Bed) {
    let (source, id) = (bed.a_job(at(0)).await, bed.id());
    assert_eq!(bed.forks(fork(bed.id(), id), at(1)).await, Err(Refusal::NotFound));
    for version in [0, -1, 2, i64::MAX, i64::MIN] {
        let request = Fork { from_version: Some(version), ..fork(source, id) };
        is_invalid(&bed.forks(request, at(1)).await, "from_version");
    }
    let large = Payload::bytes("payload", vec![0; PAYLOAD_MAX_BYTES + 1], usize::MAX).ok();
    let refused = bed.forks(Fork { payload: large, ..fork(source, id) }, at(1)).await;
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    assert_eq!(bed.store.job(id, at(1)).await, Ok(None), "nothing was written");
    assert_eq!(bed.log(id).await, []);
}

/// J11, J3
pub async fn the_row_at_any_version_is_the_row_as_it_was(bed: Bed) {
    let (id, rows) = eventful_life(&bed).await;
    for (version, row) in (1..).zip(&rows) {
        let then = bed.store.at_version(AtVersion { job: id, version }, at(0)).await;
        let then = then.expect("the store answers").expect("it was there");
        assert_eq!(then.folded(), row.folded(), "at version {version}");
    }
    let last = rows.last().expect("a row");
    for version in [last.version + 1, i64::MAX] {
        let now = bed.store.at_version(AtVersion { job: id, version }, at(0)).await;
        assert_eq!(now.expect("the store answers").map(|j| j.folded()), Some(last.folded()), "as it stands");
    }
    for version in [0, -1, i64::MIN] {
        assert_eq!(bed.store.at_version(AtVersion { job: id, version }, at(0)).await, Ok(None));
    }
}

/// One job through almost everything, one event at a time: its row after each.
async fn eventful_life(bed: &Bed) -> (JobId, Vec<Job>) {
    let mut job = bed.job_in("work", "eventful");
    job.facts.metadata.insert("a".into(), 1.into());
    job.facts.max_retries = 5;
    let id = job.id;
    let mut life = Life { bed, id, now: 0, rows: Vec::new() };
    bed.enqueue(job, at(0)).await;
    life.goes_on(1).await;
    let held = life.claims().await;
    let metadata = serde_json::from_str("{\"b\":2}").ok();
    let say = Progress { progress: Some(30), stage: Some("one".into()), metadata, ..report(&held) };
    bed.reports(say, life.now()).await.expect("reported");
    life.goes_on(1).await;
    bed.records(step_ends(&held, "fetch", "1"), life.now()).await.expect("recorded");
    life.goes_on(1).await;
    bed.appends(note(id, "seen"), life.now()).await.expect("noted");
    life.goes_on(1).await;
    bed.extends(&held, 60_000, life.now()).await.expect("a renewal is no event");
    life.settles(&held, fails_until("later", RunAt::Now)).await;
    life.claims().await;
    life.goes_on(30_000).await;
    let held = life.claims().await;
    bed.reports(checkpoint(&held, "\"here\""), life.now()).await.expect("reported");
    life.goes_on(1).await;
    life.settles(&held, waits_for_signal("go")).await;
    let signal = Signal { job: id, name: name("go"), payload: None, actor: Actor::api(), key: None };
    bed.store.signal(signal, life.now()).await.expect("the store answers").expect("signalled");
    life.goes_on(1).await;
    let held = life.claims().await;
    life.settles(&held, Outcome::Release(RunAt::Now)).await;
    let held = life.claims().await;
    bed.cancels(id, stop(), life.now()).await.expect("requested");
    life.goes_on(1).await;
    life.settles(&held, fails("while stopping")).await;
    bed.redrives(redrive(id), life.now()).await.expect("redriven");
    life.goes_on(1).await;
    let held = life.claims().await;
    life.settles(&held, fails_for_good("broken")).await;
    bed.redrives(Redrive { from_start: true, ..redrive(id) }, life.now()).await.expect("redriven");
    life.goes_on(1).await;
    let held = life.claims().await;
    bed.records(step_ends(&held, "fetch", "2"), life.now()).await.expect("recorded");
    life.goes_on(1).await;
    life.settles(&held, completes()).await;
    bed.appends(note(id, "postmortem"), life.now()).await.expect("noted");
    life.goes_on(1).await;
    (id, life.rows)
}

/// A job's rows as it goes on.
struct Life<'a> {
    bed: &'a Bed,
    id: JobId,
    now: i64,
    rows: Vec<Job>,
}

impl Life<'_> {
    fn now(&self) -> Now {
        at(self.now)
    }

    /// Keeps the row if an event was written, and lets time pass.
    async fn goes_on(&mut self, ms: i64) {
        self.now += ms;
        let row = self.bed.row(self.id).await;
        if row.version > self.rows.len() as i64 {
            assert_eq!(row.version, self.rows.len() as i64 + 1, "one event at a time");
            self.rows.push(row);
        }
    }

    async fn claims(&mut self) -> Claimed {
        let held = self.bed.claims_by_id("w", self.id, self.now()).await.expect("claimed");
        self.goes_on(1).await;
        held
    }

    async fn settles(&mut self, held: &Claimed, outcome: Outcome) {
        self.bed.settles(held, outcome, self.now()).await.expect("settled");
        self.goes_on(1).await;
    }
}

fn operator() -> Actor {
    Actor::parse("actor", "operator:ann").expect("an actor")
}

fn unique(text: &str, policy: Policy) -> Unique {
    Unique { scope: Scope::Queue(name("default")), key: key(text), policy }
}

fn with_key(bed: &Bed, unique: &Unique) -> NewJob {
    let mut job = bed.job("work");
    job.facts.unique = Some(unique.clone());
    job
}

async fn failed_with_key(bed: &Bed, unique: &Unique, now_ms: i64) -> JobId {
    let held = bed.holds("w", with_key(bed, unique), at(now_ms)).await;
    bed.settles(&held, fails_for_good("broken"), at(now_ms)).await.expect("failed");
    held.job.id
}

fn child_of(bed: &Bed, parent: JobId) -> NewJob {
    let mut job = bed.job("child");
    job.facts.parent_id = Some(parent);
    job
}

/// A wait for all children, without an end.
fn joins() -> Outcome {
    waits(Wait { waits_for: WaitFor::Children, name: None, until: None, expires_at: None, since: 0 })
}

fn count(answers: &[Answer], wanted: &Answer) -> usize {
    answers.iter().filter(|a| *a == wanted).count()
}

/// R14: cancel, redrive and fork at another version than the expected one write nothing.
pub async fn a_decision_on_an_older_version_is_refused(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let cancel = |v| Cancel { job: id, wish: stop(), expected_version: Some(v) };
    let store = &bed.store;
    let cancels = |v| async move { store.cancel(cancel(v), at(1)).await.expect("the store answers") };
    let before = bed.snapshot(id).await;
    for version in [0, 2, -1, i64::MAX] {
        assert_eq!(cancels(version).await, Err(Refusal::VersionMismatch(1)), "{version}");
        let fork = Fork { expected_version: Some(version), ..fork(id, bed.id()) };
        assert_eq!(bed.forks(fork, at(1)).await, Err(Refusal::VersionMismatch(1)), "{version}");
    }
    bed.is_unchanged(&before).await;
    let forked = Fork { expected_version: Some(1), ..fork(id, bed.id()) };
    assert_eq!(bed.forks(forked.clone(), at(1)).await, Ok(Done::Moved(2, Status::Pending)));
    assert_eq!(cancels(1).await, Ok(Done::Moved(2, Status::Cancelled)));
    assert_eq!(cancels(1).await, Ok(Done::Already(2)), "a repeat is known");
    assert_eq!(bed.forks(forked, at(1)).await, Ok(Done::Already(2)), "a repeat is known");
    let redrives = |v| Redrive { key: Some(key("k")), expected_version: Some(v), ..redrive(id) };
    let before = bed.snapshot(id).await;
    for version in [1, 3] {
        assert_eq!(bed.redrives(redrives(version), at(2)).await, Err(Refusal::VersionMismatch(2)));
    }
    bed.is_unchanged(&before).await;
    assert_eq!(bed.redrives(redrives(2), at(2)).await, Ok(Done::Moved(3, Status::Pending)));
    assert_eq!(bed.redrives(redrives(2), at(3)).await, Ok(Done::Already(3)), "a repeat is known");
    let late = Redrive { expected_version: Some(2), ..redrive(id) };
    assert_eq!(bed.redrives(late, at(3)).await, Err(Refusal::NotFinished(Status::Pending)));
}

/// R14, M10
pub async fn of_racing_decisions_on_one_version_one_is_made(bed: Bed) {
    for _ in 0..10 {
        let held = bed.a_held_job("w", at(0)).await;
        let id = held.job.id;
        let mut racers = JoinSet::new();
        for n in 0..8 {
            let (bed, wish) = (bed.clone(), Wish { force: n % 2 == 0, ..stop() });
            let request = Cancel { job: id, wish, expected_version: Some(2) };
            racers.spawn(async move { bed.store.cancel(request, at(1)).await.expect("the store answers") });
        }
        let answers = racers.join_all().await;
        let moved = answers.iter().filter(|answer| matches!(answer, Ok(Done::Moved(3, _)))).count();
        assert_eq!(moved, 1, "{answers:?}");
        assert_eq!(bed.row(id).await.version, 3, "{answers:?}");
        let known = |a: &Answer| {
            matches!(a, Ok(Done::Moved(3, _)) | Ok(Done::Already(3)) | Err(Refusal::VersionMismatch(3)))
        };
        assert!(answers.iter().all(known), "{answers:?}");
        if bed.row(id).await.status == Status::Running {
            bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
        }
    }
}
