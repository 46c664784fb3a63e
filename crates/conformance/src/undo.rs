//! Undoing: the job behind one that does what can be undone, and what it reads of that job's log.

use crate::flow::{is_due, status};
use crate::{
    Bed, Racer, at, completes, fails, fails_for_good, for_approval, for_signal, json, key_of, name, redrive,
    step_begins, step_ends, stop, stop_at_once, time, together,
};
use std::collections::BTreeSet;
use windlass_core::decide::Cancel;
use windlass_core::step::{StepRun, StepState};
use windlass_core::undo::{EndedJob, Undoes};
use windlass_core::wait::Decision;
use windlass_core::{JobId, NewJob, Outcome, Status};
use windlass_store::{Claimed, ReadSteps, RecordStep, Redrive};

/// This module's laws, as tests.
#[macro_export]
macro_rules! undo_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            undo: whoever_ends_a_job_badly_starts_its_undoing,
            a_job_that_completes_is_not_undone,
            a_cancel_racing_the_holders_failure_starts_one_undoing,
            what_is_undone_is_what_one_life_left_on_record,
        );
    };
}

/// A job that is held, and the one that would undo it.
async fn undoable(bed: &Bed, now_ms: i64) -> (Claimed, JobId) {
    let mut job = bed.job_in("work", &format!("q{now_ms}"));
    job.facts.max_retries = 0;
    let held = bed.holds("w", job, at(now_ms)).await;
    let undo = undoing(bed, &held, now_ms).await;
    (held, undo)
}

/// As a worker enqueues it before the first step that can be undone.
async fn undoing(bed: &Bed, held: &Claimed, now_ms: i64) -> JobId {
    let undoes = Undoes::of(&held.job);
    let facts = undoes.facts(&held.facts).expect("facts");
    let payload = Some(undoes.payload().expect("a payload"));
    bed.enqueue(NewJob { id: bed.id(), facts, payload, parent_token: None }, at(now_ms)).await.id
}

/// What ends a job that this worker holds, some seconds after it was claimed.
#[derive(Debug, Clone, Copy)]
enum End {
    Fails,
    LastTryFails,
    TimesOut,
    Stops,
    ByForce,
    CancelledWaiting,
    Denied,
    Unanswered,
    CancelledAndLost,
    Crashes,
}

const ENDS: [(End, Status); 10] = [
    (End::Fails, Status::Failed),
    (End::LastTryFails, Status::Failed),
    (End::TimesOut, Status::TimedOut),
    (End::Stops, Status::Cancelled),
    (End::ByForce, Status::Cancelled),
    (End::CancelledWaiting, Status::Cancelled),
    (End::Denied, Status::Failed),
    (End::Unanswered, Status::Failed),
    (End::CancelledAndLost, Status::Cancelled),
    (End::Crashes, Status::Failed),
];

async fn ends_by(bed: &Bed, held: &Claimed, end: End, from_ms: i64) {
    let (id, queue) = (held.job.id, held.facts.queue.to_string());
    let now = at(from_ms + 1);
    let settled = async |outcome| bed.settles(held, outcome, now).await.expect("its holder may end it");
    match end {
        End::Fails => {
            settled(fails_for_good("broken")).await;
        }
        End::LastTryFails => {
            settled(fails("broken")).await;
        }
        End::TimesOut => {
            settled(Outcome::TimeOut).await;
        }
        End::Stops => {
            bed.cancels(id, stop(), now).await.expect("its holder is asked");
            settled(Outcome::Cancelled { reason: None }).await;
        }
        End::ByForce => {
            bed.cancels(id, stop_at_once(), now).await.expect("cancelled");
        }
        End::CancelledWaiting => {
            bed.waits(held, for_signal("go"), now).await.expect("the holder may wait");
            bed.cancels(id, stop(), now).await.expect("cancelled");
        }
        End::Denied | End::Unanswered => {
            let (ask, _) = bed.question(held, "gate");
            let asked = bed.asks(ask, now).await.approval;
            bed.waits(held, for_approval("gate"), now).await.expect("the holder may wait");
            if matches!(end, End::Denied) {
                bed.votes(asked.id, Decision::Deny, key_of("ada", &["approver"]), now).await.expect("a vote");
            } else {
                bed.sweeps(Some(asked.expires_at)).await;
            }
        }
        End::CancelledAndLost => {
            let soon = Cancel { force_after_ms: 3_600_000, ..stop() };
            bed.cancels(id, soon, now).await.expect("its holder is asked");
            bed.claims_from("w", &[&queue], 1, at(from_ms + 40_000)).await;
        }
        End::Crashes => {
            for n in 1..=3 {
                bed.claims_from("w", &[&queue], 1, at(from_ms + n * 40_000)).await;
            }
        }
    }
}

/// J7, J11, M8: its holder, an operator, a vote, a sweep, a claim that finds one crash too many.
pub async fn whoever_ends_a_job_badly_starts_its_undoing(bed: Bed) {
    for (n, (end, how)) in (0i64..).zip(ENDS) {
        // Approvals run out after a day: each end has days of its own.
        let from_ms = n * 3 * 86_400_000;
        let (held, undo) = undoable(&bed, from_ms).await;
        assert!(!is_due(&bed, undo).await, "nothing is undone while the job lives");
        ends_by(&bed, &held, end, from_ms).await;
        assert_eq!(status(&bed, held.job.id).await, how, "{end:?}");
        let types = bed.types(undo).await;
        assert_eq!(types[..2], ["job_created", "job_upstream_finished"], "{end:?}");
        assert!(
            is_due(&bed, undo).await || status(&bed, undo).await == Status::Running,
            "{end:?}: also where the claim that ended the job took the next one"
        );
    }
}

/// J7
pub async fn a_job_that_completes_is_not_undone(bed: Bed) {
    let (held, undo) = undoable(&bed, 0).await;
    bed.settles(&held, completes(), at(1)).await.expect("its holder may end it");
    assert_eq!(status(&bed, undo).await, Status::Cancelled);
    assert_eq!(bed.types(undo).await, ["job_created", "job_skipped"]);
    let late = undoing(&bed, &held, 2).await;
    assert_eq!(status(&bed, late).await, Status::Cancelled, "nor where it was planned too late");
}

/// J7: one end, one undoing, whoever is first.
pub async fn a_cancel_racing_the_holders_failure_starts_one_undoing(bed: Bed) {
    for _ in 0..30 {
        let (held, undo) = undoable(&bed, 0).await;
        let id = held.job.id;
        let (one, two) = (bed.clone(), bed.clone());
        let failing = async move { one.settles(&held, fails_for_good("broken"), at(1)).await.is_ok() };
        let cancelling = async move { two.cancels(id, stop_at_once(), at(1)).await.is_ok() };
        let racers: [Racer<bool>; 2] = [Box::pin(failing), Box::pin(cancelling)];
        let won = together(racers).await.into_iter().filter(|won| *won).count();
        assert_eq!(won, 1, "a job ends once");
        assert_eq!(bed.types(undo).await, ["job_created", "job_upstream_finished"]);
        assert!(is_due(&bed, undo).await);
    }
}

async fn read(bed: &Bed, undoes: &Undoes) -> EndedJob {
    let log = bed.log(undoes.undoes).await;
    let mut ended = EndedJob::begin(&log[0]).expect("the first event of a job");
    log.into_iter().skip(1).for_each(|event| ended.read(event, undoes));
    ended
}

/// J11: a redrive before the undoing changes nothing of it; what the next life does is its own.
pub async fn what_is_undone_is_what_one_life_left_on_record(bed: Bed) {
    let (held, _) = undoable(&bed, 0).await;
    let (id, first) = (held.job.id, Undoes::of(&held.job));
    let mark = Some(Undoes::mark(&name("give-back")).expect("a mark"));
    for step in ["flight", "hotel"] {
        let begins = RecordStep { payload: mark.clone(), ..step_begins(&held, step) };
        bed.records(begins, at(1)).await.expect("recorded");
    }
    bed.records(step_ends(&held, "flight", "7"), at(2)).await.expect("recorded");
    bed.records(step_begins(&held, "plain"), at(2)).await.expect("recorded");
    bed.records(step_ends(&held, "plain", "8"), at(2)).await.expect("recorded");
    assert!(!read(&bed, &first).await.has_ended(&first), "it lives");
    bed.settles(&held, fails_for_good("broken"), at(3)).await.expect("its holder may end it");
    let row = bed.row(id).await;
    let ended = read(&bed, &first).await;
    assert_eq!((&ended.job.folded(), ended.failed()), (&row.folded(), true));
    assert_eq!(ended.undoable(), BTreeSet::from([name("flight")]), "what ended and can be undone");

    bed.redrives(redrive(id), at(4)).await.expect("redriven");
    let recorded =
        bed.store.steps(ReadSteps::all(id), at(4)).await.expect("the store answers").expect("a record");
    assert!(recorded.steps.iter().all(|step| step.run == StepRun::Earlier), "{recorded:?}");
    let again = bed.claims_by_id("w", id, at(4)).await.expect("it may run");
    let second = Undoes::of(&again.job);
    let begins = RecordStep { payload: mark.clone(), ..step_begins(&again, "car") };
    bed.records(begins, at(5)).await.expect("recorded");
    bed.records(step_ends(&again, "car", "9"), at(5)).await.expect("recorded");
    bed.cancels(id, stop_at_once(), at(6)).await.expect("cancelled");
    let from_start = Redrive { from_start: true, payload: Some(json("\"new\"")), ..redrive(id) };
    bed.redrives(from_start, at(7)).await.expect("redriven");
    assert_eq!(read(&bed, &first).await, ended, "what came later is not read");
    let last = read(&bed, &second).await;
    assert_eq!(last.undoable(), BTreeSet::from([name("car")]));
    let flight = last.recorded().steps.into_iter().find(|step| step.name == name("flight"));
    let value = StepState::Ended { value: Some(json("7")) };
    assert_eq!(flight.map(|step| (step.run, step.state)), Some((StepRun::Earlier, value)));
    assert_eq!((last.payload, last.job.finished_at), (held.payload, Some(time(6))), "as it was then");
}
