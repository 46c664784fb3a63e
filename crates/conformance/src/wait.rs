//! Waits: a job that waits holds no worker, and what it waits for is never lost.

use crate::{
    Bed, at, completes, fails_for_good, for_approval, for_children, for_news, for_signal, for_timer,
    is_invalid, json, key, name, note, redrive, step_ends, stop, time,
};
use windlass_core::step::Recorded;
use windlass_core::wait::WakeOutcome;
use windlass_core::{
    Actor, Answer, Done, EventKind, JobId, LeaseMs, NewJob, Payload, Refusal, RunAt, Status, Timestamp, Wait,
    WaitFor, Wake,
};
use windlass_store::{ClaimOne, Claimed, Extend, ReadSteps, Signal};

/// This module's laws, as tests.
#[macro_export]
macro_rules! wait_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            wait: a_timer_wakes_at_its_time_and_not_a_microsecond_before,
            a_late_signal_wakes_the_job_and_is_handed_over,
            an_early_signal_is_kept_and_answers_the_wait,
            a_wait_that_is_answered_at_once_does_not_expire,
            kept_signals_are_taken_by_name_and_oldest_first,
            a_record_is_read_on_from_a_claim,
            a_signal_with_a_key_is_taken_once,
            a_key_that_stood_for_something_else_is_refused,
            a_signal_that_cannot_be_taken_is_refused,
            a_parent_wakes_when_its_last_child_finished,
            children_that_finished_early_do_not_block_the_wait,
            a_redriven_child_is_waited_for_again,
            a_redriven_parent_waits_only_for_children_that_live,
            news_is_any_signal_and_the_end_of_any_child,
            a_wait_that_expires_wakes_with_that_outcome,
            a_signal_after_the_expiry_is_kept_for_later,
            a_waiting_job_is_never_claimed_by_accident,
            a_waiting_job_can_be_cancelled,
            a_wait_gives_the_lease_up,
            a_wait_uses_no_retry_and_forgets_crashes,
            a_wait_that_lacks_something_is_refused,
            a_wake_is_told_again_after_a_lost_lease,
        );
    };
}

pub(crate) async fn resumed(bed: &Bed, worker: &str, ms: i64) -> (Claimed, Wake) {
    let held = bed.claims_one(worker, at(ms)).await;
    let wake = held.wake.clone().expect("the wait is told");
    (held, wake)
}

pub(crate) fn from(sender: &str) -> Option<Payload> {
    Some(json(&format!("{{\"from\":\"{sender}\"}}")))
}

pub(crate) fn keyed(job: JobId, k: &str, sender: &str) -> Signal {
    Signal { job, name: name("go"), payload: from(sender), actor: Actor::api(), key: Some(key(k)) }
}

pub(crate) fn child(bed: &Bed, parent: &Claimed) -> NewJob {
    let mut child = bed.job("work");
    child.facts.parent_id = Some(parent.job.id);
    child.parent_token = Some(parent.lease.token);
    child
}

pub(crate) async fn sends(bed: &Bed, request: Signal, ms: i64) -> Answer {
    bed.store.signal(request, at(ms)).await.expect("the store answers")
}

pub(crate) async fn woken(bed: &Bed, job: JobId) -> usize {
    let woke = |what: &EventKind| match what {
        EventKind::JobSignalled(d) => d.woke || d.noticed,
        EventKind::JobChildFinished(d) => d.woke,
        _ => false,
    };
    bed.log(job).await.iter().filter(|e| woke(&e.what)).count()
}

/// M5, J10: nothing but the time wakes a timer.
pub async fn a_timer_wakes_at_its_time_and_not_a_microsecond_before(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    assert_eq!(
        bed.waits(&held, for_timer(time(10_000)), at(1_000)).await,
        Ok(Done::Moved(3, Status::Waiting))
    );
    let row = bed.row(id).await;
    assert_eq!((row.waiting_for, row.due_at, row.deadline_at), (Some(WaitFor::Timer), at(10_000), None));
    assert_eq!((row.worker_id, row.lease_hash, row.lease_expires_at), (None, None, None));
    let before = Some(Timestamp::from_micros(time(10_000).as_micros() - 1));
    assert_eq!(bed.claims("w", 9, before).await, []);
    let by_id = bed.claims_by_id("w", id, before).await;
    assert_eq!(by_id, Err(Refusal::NotClaimable(Status::Waiting)));
    let (held, wake) = resumed(&bed, "w", 10_000).await;
    let expected =
        Wake { waited_for: WaitFor::Timer, name: None, outcome: WakeOutcome::Fired, payload: None };
    assert_eq!((wake, held.job.attempt, held.job.waiting_for), (expected, 2, None));
    assert_eq!(bed.types(id).await, ["job_created", "job_claimed", "job_waiting", "job_claimed"]);
}

/// M5, M8
pub async fn a_late_signal_wakes_the_job_and_is_handed_over(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    assert_eq!(bed.waits(&held, for_signal("go"), at(1)).await, Ok(Done::Moved(3, Status::Waiting)));
    assert_eq!(bed.signals(id, "other", "a", at(2)).await, Ok(Done::Moved(4, Status::Waiting)));
    assert_eq!(bed.claims("w", 9, at(2)).await, [], "another signal wakes nobody");
    assert_eq!(bed.signals(id, "go", "b", at(3)).await, Ok(Done::Moved(5, Status::Waiting)));
    let row = bed.row(id).await;
    assert_eq!((row.waiting_for, row.due_at), (Some(WaitFor::Signal), at(3)), "waiting until taken");
    assert_eq!((row.signals, row.wake_version), (1, Some(5)), "the other one is kept");
    let (_, wake) = resumed(&bed, "w", 3).await;
    let outcome = WakeOutcome::Signalled;
    let expected = Wake { waited_for: WaitFor::Signal, name: Some(name("go")), outcome, payload: from("b") };
    assert_eq!(wake, expected);
}

/// M8, J10
pub async fn an_early_signal_is_kept_and_answers_the_wait(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    assert_eq!(bed.signals(id, "go", "a", at(0)).await, Ok(Done::Moved(2, Status::Pending)));
    assert_eq!(bed.row(id).await.signals, 1);
    let held = bed.claims_one("w", at(1)).await;
    assert_eq!(held.wake, None, "nothing was waited for yet");
    assert_eq!(bed.waits(&held, for_signal("go"), at(2)).await, Ok(Done::Moved(4, Status::Waiting)));
    let row = bed.row(id).await;
    assert_eq!((row.due_at, row.signals, row.wake_version), (at(2), 0, Some(2)));
    let (held, wake) = resumed(&bed, "w", 2).await;
    assert_eq!((wake.outcome, wake.payload), (WakeOutcome::Signalled, from("a")));
    assert_eq!(bed.waits(&held, for_signal("go"), at(3)).await, Ok(Done::Moved(6, Status::Waiting)));
    assert_eq!(bed.row(id).await.due_at, None, "a signal answers one wait");
}

/// J9, M9: what a wait asks for was there already. Nobody takes the job up for long, and its expiry passes: it is woken by the
/// signal all the same.
pub async fn a_wait_that_is_answered_at_once_does_not_expire(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    bed.signals(held.job.id, "paid", "bank", at(1)).await.expect("kept");
    let wait = Wait { expires_at: Some(time(1_000)), ..for_signal("paid") };
    bed.waits(&held, wait, at(2)).await.expect("it waits, and is due at once");
    let row = bed.row(held.job.id).await;
    assert_eq!((row.status, row.due_at, row.deadline_at), (Status::Waiting, at(2), None));
    assert!(bed.sweeps(at(5_000)).await.is_empty(), "nothing is past a deadline");
    let (_, wake) = resumed(&bed, "w", 6_000).await;
    assert_eq!((wake.outcome, wake.payload), (WakeOutcome::Signalled, from("bank")));
}

/// M8
pub async fn kept_signals_are_taken_by_name_and_oldest_first(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    for (signal, sender) in [("go", "1"), ("stop", "2"), ("go", "3"), ("go", "4")] {
        bed.signals(id, signal, sender, at(0)).await.expect("a signal to a live job is taken");
    }
    for (signal, sender) in [("go", "1"), ("go", "3"), ("stop", "2"), ("go", "4")] {
        let held = bed.claims_one("w", at(1)).await;
        bed.waits(&held, for_signal(signal), at(1)).await.expect("the holder may wait");
        let (held, wake) = resumed(&bed, "w", 1).await;
        assert_eq!((wake.name, wake.payload), (Some(name(signal)), from(sender)));
        let back = windlass_core::Outcome::Release(RunAt::Now);
        bed.settles(&held, back, at(1)).await.expect("the holder may give it back");
    }
    assert_eq!(bed.row(id).await.signals, 0);
    let recorded = bed
        .store
        .steps(ReadSteps::all(id), at(1))
        .await
        .expect("the store answers")
        .expect("the job is there");
    assert_eq!(recorded.waits.len(), 4, "each wait is on record for a resumed run");
}

/// J11: what came after a claim is read by itself, with the signals that answered its waits, however old they are; both
/// parts together are the whole record.
pub async fn a_record_is_read_on_from_a_claim(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    for (signal, sender) in [("go", "1"), ("go", "2")] {
        bed.signals(id, signal, sender, at(0)).await.expect("a signal to a live job is taken");
    }
    let mut held = bed.claims_one("w", at(1)).await;
    let mut claims = Vec::new();
    for n in ["a", "b"] {
        claims.push(held.job.version);
        bed.records(step_ends(&held, n, "1"), at(1)).await.expect("the holder may record");
        bed.waits(&held, for_signal("go"), at(1)).await.expect("the holder may wait");
        (held, _) = resumed(&bed, "w", 1).await;
    }
    let read = async |after| {
        let request = ReadSteps { job: id, after };
        bed.store.steps(request, at(2)).await.expect("the store answers").expect("the job is there")
    };
    let whole = read(0).await;
    assert_eq!((whole.steps.len(), whole.waits.len()), (2, 2));
    for (past, claim) in claims.into_iter().enumerate() {
        let later = read(claim).await;
        assert_eq!(later.steps, whole.steps[past..], "after {claim}");
        assert_eq!(later.waits, whole.waits[past..], "after {claim}");
    }
    assert_eq!(read(held.job.version).await, Recorded::default());
}

/// M8, R1
pub async fn a_signal_with_a_key_is_taken_once(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    bed.waits(&held, for_signal("go"), at(1)).await.expect("the holder may wait");
    assert_eq!(sends(&bed, keyed(id, "k", "a"), 2).await, Ok(Done::Moved(4, Status::Waiting)));
    assert_eq!(sends(&bed, keyed(id, "k", "a"), 3).await, Ok(Done::Already(4)));
    let (held, wake) = resumed(&bed, "w", 4).await;
    assert_eq!(wake.payload, from("a"));
    assert_eq!(
        sends(&bed, keyed(id, "k", "b"), 5).await,
        Ok(Done::Already(4)),
        "the key says what is the same"
    );
    assert_eq!(bed.row(id).await.signals, 0, "a repeat is not kept for a later wait");
    bed.settles(&held, completes(), at(6)).await.expect("the holder may complete");
    assert_eq!(sends(&bed, keyed(id, "k", "a"), 7).await, Ok(Done::Already(4)), "also after the end");
    let types = bed.types(id).await;
    assert_eq!(types.iter().filter(|t| *t == "job_signalled").count(), 1);
}

/// M8, R1
pub async fn a_key_that_stood_for_something_else_is_refused(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let mut noted = note(id, "noted");
    noted.key = Some(key("note"));
    bed.appends(noted, at(0)).await.expect("a note is taken");
    sends(&bed, keyed(id, "signal", "a"), 0).await.expect("a signal is taken");
    let before = bed.snapshot(id).await;
    assert_eq!(sends(&bed, keyed(id, "note", "a"), 1).await, Err(Refusal::KeyReused(2)));
    let mut other = keyed(id, "signal", "a");
    other.name = name("other");
    assert_eq!(sends(&bed, other, 1).await, Err(Refusal::KeyReused(3)), "a signal is its name as well");
    bed.is_unchanged(&before).await;
}

/// M2, M8, J6
pub async fn a_signal_that_cannot_be_taken_is_refused(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let mut large = keyed(id, "k", "a");
    large.payload = Some(Payload::stored(vec![7; (64 << 10) + 1], false));
    is_invalid(&sends(&bed, large, 1).await, "payload");
    bed.settles(&held, fails_for_good("broken"), at(2)).await.expect("the holder may fail it");
    let before = bed.snapshot(id).await;
    assert_eq!(sends(&bed, keyed(id, "k", "a"), 3).await, Err(Refusal::Finished(Status::Failed)));
    bed.is_unchanged(&before).await;
    assert_eq!(sends(&bed, keyed(bed.id(), "k", "a"), 3).await, Err(Refusal::NotFound));
}

/// M5, M8
pub async fn a_parent_wakes_when_its_last_child_finished(bed: Bed) {
    let parent = bed.a_held_job("p", at(0)).await;
    let id = parent.job.id;
    let children = bed.enqueue_all(vec![child(&bed, &parent), child(&bed, &parent)], at(1)).await;
    assert_eq!(bed.row(id).await.children, 2);
    assert_eq!(bed.waits(&parent, for_children(), at(2)).await, Ok(Done::Moved(4, Status::Waiting)));
    let held = bed.claims("w", 9, at(3)).await;
    assert_eq!(held.iter().map(|c| c.job.id).collect::<Vec<_>>(), [children[0].id, children[1].id]);
    bed.settles(&held[0], completes(), at(4)).await.expect("the holder may complete");
    assert_eq!(bed.claims("w", 9, at(4)).await, [], "one child is missing");
    bed.settles(&held[1], fails_for_good("broken"), at(5)).await.expect("the holder may fail it");
    let (_, wake) = resumed(&bed, "p", 5).await;
    assert_eq!((wake.waited_for, wake.outcome), (WaitFor::Children, WakeOutcome::Joined));
    let log = bed.log(id).await;
    let told = log.iter().filter_map(|e| match &e.what {
        EventKind::JobChildFinished(d) => Some((d.child, d.status, d.woke)),
        _ => None,
    });
    let expected = [(children[0].id, Status::Completed, false), (children[1].id, Status::Failed, true)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// M5, M8: whoever waits for news is woken by whatever comes first, and a signal that does so is kept.
pub async fn news_is_any_signal_and_the_end_of_any_child(bed: Bed) {
    let parent = bed.a_held_job("p", at(0)).await;
    let id = parent.job.id;
    let children = bed.enqueue_all(vec![child(&bed, &parent), child(&bed, &parent)], at(1)).await;
    let held = bed.claims("w", 9, at(1)).await;
    let seen = bed.row(id).await.version;
    bed.waits(&parent, for_news(seen), at(2)).await.expect("the holder may wait");
    assert_eq!(bed.claims("p", 9, at(3)).await, [], "nothing came");
    bed.settles(&held[0], completes(), at(4)).await.expect("the holder may complete");
    let (parent, wake) = resumed(&bed, "p", 4).await;
    assert_eq!((wake.waited_for, wake.outcome), (WaitFor::News, WakeOutcome::News), "one child is missing");

    // What came since it looked ends the wait at once; what it has seen does not.
    bed.waits(&parent, for_news(seen), at(5)).await.expect("the holder may wait");
    let (parent, wake) = resumed(&bed, "p", 5).await;
    assert_eq!((wake.waited_for, wake.outcome), (WaitFor::News, WakeOutcome::News));
    let seen = bed.row(id).await.version;
    bed.waits(&parent, for_news(seen), at(6)).await.expect("the holder may wait");
    assert_eq!(bed.claims("p", 9, at(6)).await, [], "nothing new");

    sends(&bed, keyed(id, "k", "ann"), 7).await.expect("a signal is taken");
    sends(&bed, keyed(id, "l", "bob"), 7).await.expect("a signal is taken");
    assert_eq!(bed.row(id).await.signals, 2, "both are kept");
    let (parent, wake) = resumed(&bed, "p", 7).await;
    assert_eq!((wake.waited_for, wake.outcome), (WaitFor::News, WakeOutcome::News));
    for sender in ["ann", "bob"] {
        let parent = if sender == "ann" { parent.clone() } else { resumed(&bed, "p", 8).await.0 };
        bed.waits(&parent, for_signal("go"), at(8)).await.expect("the holder may wait");
        assert_eq!(
            bed.store.job(id, at(8)).await.expect("an answer").expect("a job").job.signals,
            i32::from(sender == "ann")
        );
    }
    let (parent, wake) = resumed(&bed, "p", 9).await;
    assert_eq!((wake.outcome, wake.payload), (WakeOutcome::Signalled, from("bob")));

    let seen = bed.row(id).await.version;
    let wait = windlass_core::Wait { expires_at: Some(time(20)), ..for_news(seen) };
    bed.waits(&parent, wait, at(10)).await.expect("the holder may wait");
    bed.sweeps(at(20)).await;
    let (_, wake) = resumed(&bed, "p", 20).await;
    assert_eq!((wake.waited_for, wake.outcome), (WaitFor::News, WakeOutcome::Expired));
    assert_eq!(bed.row(children[1].id).await.status, Status::Running, "the other child goes on");
}

/// M8
pub async fn children_that_finished_early_do_not_block_the_wait(bed: Bed) {
    let parent = bed.a_held_job("p", at(0)).await;
    let mut one = child(&bed, &parent);
    one.parent_token = None;
    let spawned = bed.enqueue(one, at(1)).await.id;
    assert_eq!(bed.cancels(spawned, stop(), at(2)).await, Ok(Done::Moved(2, Status::Cancelled)));
    assert_eq!(bed.row(parent.job.id).await.children, 0);
    bed.waits(&parent, for_children(), at(3)).await.expect("the holder may wait");
    let (_, wake) = resumed(&bed, "p", 3).await;
    assert_eq!((wake.outcome, woken(&bed, parent.job.id).await), (WakeOutcome::Joined, 0));
}

/// M8, T6: its first end must not stand for its second.
pub async fn a_redriven_child_is_waited_for_again(bed: Bed) {
    let parent = bed.a_held_job("p", at(0)).await;
    let id = parent.job.id;
    bed.enqueue_all(vec![child(&bed, &parent), child(&bed, &parent)], at(0)).await;
    bed.waits(&parent, for_children(), at(0)).await.expect("the holder may wait");
    let held = bed.claims("w", 9, at(1)).await;
    bed.settles(&held[0], fails_for_good("broken"), at(1)).await.expect("the holder may fail it");
    bed.redrives(redrive(held[0].job.id), at(2)).await.expect("a failed job can be redriven");
    assert_eq!(bed.row(id).await.children, 2);
    bed.settles(&held[1], completes(), at(3)).await.expect("the holder may complete");
    assert_eq!(bed.row(id).await.due_at, None, "the redriven child is missing");
    let again = bed.claims_one("w", at(4)).await;
    assert_eq!(again.job.id, held[0].job.id);
    bed.settles(&again, completes(), at(5)).await.expect("the holder may complete");
    let (resumed, wake) = resumed(&bed, "p", 5).await;
    assert_eq!((wake.outcome, resumed.job.children), (WakeOutcome::Joined, 0));
}

/// M8, T6: children that ended while it was dead are not missing.
pub async fn a_redriven_parent_waits_only_for_children_that_live(bed: Bed) {
    let parent = bed.a_held_job("p", at(0)).await;
    let id = parent.job.id;
    let children = bed.enqueue_all(vec![child(&bed, &parent), child(&bed, &parent)], at(0)).await;
    bed.settles(&parent, fails_for_good("broken"), at(1)).await.expect("the holder may fail it");
    bed.cancels(children[0].id, stop(), at(2)).await.expect("a live job can be cancelled");
    bed.redrives(redrive(id), at(3)).await.expect("a failed job can be redriven");
    let held = bed.claims_by_id("p", id, at(3)).await.expect("it is due");
    assert_eq!(held.job.children, 1);
    bed.waits(&held, for_children(), at(4)).await.expect("the holder may wait");
    bed.cancels(children[1].id, stop(), at(5)).await.expect("a live job can be cancelled");
    let (_, wake) = resumed(&bed, "p", 5).await;
    assert_eq!(wake.outcome, WakeOutcome::Joined);
}

/// M5, M8
pub async fn a_wait_that_expires_wakes_with_that_outcome(bed: Bed) {
    for (start, mut wait) in [(0, for_signal("go")), (10_000, for_children())] {
        let end = start + 5_000;
        let held = bed.a_held_job("w", at(start)).await;
        let mut spawned = child(&bed, &held);
        spawned.facts.run_at = RunAt::At(time(1_000_000));
        bed.enqueue(spawned, at(start)).await;
        wait.expires_at = Some(time(end));
        bed.waits(&held, wait.clone(), at(start + 1)).await.expect("the holder may wait");
        assert_eq!(bed.row(held.job.id).await.deadline_at, at(end));
        assert_eq!(bed.sweeps(at(end - 1)).await, []);
        let swept = bed.sweeps(at(end)).await;
        assert_eq!(swept.len(), 1);
        assert_eq!(swept[0].answer, Ok(Done::Moved(5, Status::Waiting)));
        let (resumed, wake) = resumed(&bed, "w", end).await;
        assert_eq!((wake.waited_for, wake.outcome), (wait.waits_for, WakeOutcome::Expired));
        assert_eq!(resumed.job.deadline_at, None);
        bed.settles(&resumed, completes(), at(end)).await.expect("the holder may complete");
    }
}

/// M8: what comes too late for one wait is there for the next.
pub async fn a_signal_after_the_expiry_is_kept_for_later(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let mut wait = for_signal("go");
    wait.expires_at = Some(time(5_000));
    bed.waits(&held, wait, at(1)).await.expect("the holder may wait");
    bed.signals(held.job.id, "go", "late", at(5_000)).await.expect("a live job takes signals");
    assert_eq!(bed.claims("w", 9, at(5_000)).await, [], "the wait was over when the signal came");
    assert_eq!(bed.sweeps(at(5_001)).await.len(), 1);
    let (held, wake) = resumed(&bed, "w", 5_001).await;
    assert_eq!((wake.outcome, wake.payload), (WakeOutcome::Expired, None));
    bed.waits(&held, for_signal("go"), at(5_002)).await.expect("the holder may wait");
    let (_, wake) = resumed(&bed, "w", 5_002).await;
    assert_eq!((wake.outcome, wake.payload), (WakeOutcome::Signalled, from("late")));
}

/// J10
pub async fn a_waiting_job_is_never_claimed_by_accident(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    bed.waits(&held, for_signal("go"), at(1)).await.expect("the holder may wait");
    let before = bed.snapshot(id).await;
    let years = 9 * 365 * 86_400_000;
    for ms in [2, 30_000, years] {
        assert_eq!(bed.claims("w", 9, at(ms)).await, []);
        let one = ClaimOne { job: id, claim: bed.claim("w") };
        let answer = bed.store.claim_one(one, at(ms)).await.expect("the store answers");
        assert_eq!(answer, Err(Refusal::NotClaimable(Status::Waiting)));
        assert_eq!(bed.sweeps(at(ms)).await, []);
    }
    bed.is_unchanged(&before).await;
}

/// M8, M10
pub async fn a_waiting_job_can_be_cancelled(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    bed.waits(&held, for_signal("go"), at(1)).await.expect("the holder may wait");
    assert_eq!(bed.cancels(id, stop(), at(2)).await, Ok(Done::Moved(4, Status::Cancelled)));
    let row = bed.row(id).await;
    assert_eq!((row.waiting_for, row.wait_name, row.finished_at), (None, None, at(2)));
    assert_eq!(bed.signals(id, "go", "a", at(3)).await, Err(Refusal::Finished(Status::Cancelled)));
    assert_eq!(bed.claims("w", 9, at(3)).await, []);
}

/// M8, Q6, Q7
pub async fn a_wait_gives_the_lease_up(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    assert_eq!(bed.waits(&held, for_signal("go"), at(1)).await, Ok(Done::Moved(3, Status::Waiting)));
    let before = bed.snapshot(id).await;
    assert_eq!(bed.waits(&held, for_signal("go"), at(2)).await, Ok(Done::Already(3)), "a repeat is known");
    let not_leased = Refusal::NotLeased(Status::Waiting);
    assert_eq!(bed.settles(&held, completes(), at(2)).await, Err(not_leased.clone()));
    let extend = Extend { leases: vec![(id, held.lease.token)], extend_ms: LeaseMs::DEFAULT };
    let extended = bed.store.extend(extend, at(2)).await.expect("the store answers");
    assert_eq!(extended, [Err(not_leased)]);
    bed.is_unchanged(&before).await;
}

/// M5, M8
pub async fn a_wait_uses_no_retry_and_forgets_crashes(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    for ms in [0, 30_000] {
        bed.claims_one("dies", at(ms)).await;
    }
    let held = bed.claims_one("w", at(60_000)).await;
    assert_eq!((held.job.crashes, held.job.attempt), (2, 3));
    bed.waits(&held, for_timer(time(60_001)), at(60_001)).await.expect("the holder may wait");
    let row = bed.row(id).await;
    assert_eq!((row.retries, row.crashes), (0, 0));
    for (ms, crashes) in [(60_001, 0), (90_001, 1), (120_001, 2)] {
        let held = bed.claims_one("dies", at(ms)).await;
        assert_eq!((held.job.crashes, held.job.retries), (crashes, 0));
    }
}

/// M5, M8: a refused wait leaves the holder its lease.
pub async fn a_wait_that_lacks_something_is_refused(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    let (mut timer, mut signal, mut gate) = (for_timer(time(1)), for_signal("go"), for_approval("gate"));
    (timer.until, signal.name, gate.name) = (None, None, None);
    let mut far = for_signal("go");
    far.expires_at = Some(time(11 * 366 * 86_400_000));
    for (wait, field) in [(timer, "until"), (signal, "name"), (gate, "name"), (far, "expires")] {
        is_invalid(&bed.waits(&held, wait, at(1)).await, field);
    }
    let unasked = bed.waits(&held, for_approval("gate"), at(1)).await;
    assert_eq!(unasked, Err(Refusal::ApprovalNotFound));
    bed.is_unchanged(&before).await;
    assert_eq!(bed.settles(&held, completes(), at(2)).await, Ok(Done::Moved(3, Status::Completed)));
}

/// M8, J11
pub async fn a_wake_is_told_again_after_a_lost_lease(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    bed.waits(&held, for_signal("go"), at(1)).await.expect("the holder may wait");
    bed.signals(held.job.id, "go", "a", at(2)).await.expect("a live job takes signals");
    let (_, first) = resumed(&bed, "dies", 3).await;
    let (held, second) = resumed(&bed, "w", 30_003).await;
    assert_eq!(second, first);
    bed.waits(&held, for_timer(time(30_004)), at(30_004)).await.expect("the holder may wait");
    let (_, third) = resumed(&bed, "w", 30_004).await;
    assert_eq!(third.outcome, WakeOutcome::Fired, "the last wait is told");
}
