//! Lost answers, lost requests and doubled ones: a client that repeats every call gets everything done once.

use crate::{
    Bed, at, completes, fails_for_good, for_signal, fork, json, key, name, note, redrive, report, step_ends,
    stop, together, who,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_core::decide::Claim;
use windlass_core::{Actor, Answer, Done, JobId, LeaseMs, NewJob, Outcome, Refusal, Status};
use windlass_store::{
    AcquireTerm, Assign, Cancel, ClaimMany, ClaimOne, Claimed, Enqueue, Enqueued, Faults, Faulty, Settle,
    SettleItem, Signal, Start, StoreResult,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! faults_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            faults: workers_that_repeat_complete_every_job_once,
            the_log_under_faults_is_the_log_without,
            keys_make_notes_and_signals_safe_to_repeat,
            an_assignment_is_safe_to_repeat,
            what_operators_do_is_safe_to_repeat,
            an_approval_is_asked_once_however_often_it_is_sent,
        );
    };
}

const SEEDS: [u64; 3] = [1, 20_260_101, u64::MAX];

/// A bed whose store fails, loses, delays and doubles six calls in ten.
fn unlucky(bed: &Bed, seed: u64) -> Bed {
    let faults = Faults { seed, fail_before: 15, lose_answer: 20, delay: 5, duplicate: 20 };
    Bed::new(Arc::new(Faulty::new(bed.store.clone(), faults)))
}

/// Repeats the very same call until it is answered.
async fn until_answered<T, F: Future<Output = StoreResult<T>>>(call: impl Fn() -> F) -> T {
    for _ in 0..1_000 {
        if let Ok(answer) = call().await {
            return answer;
        }
    }
    panic!("a thousand calls in a row failed");
}

async fn enqueues(bed: &Bed, jobs: Vec<NewJob>) -> Vec<Enqueued> {
    let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
    let answer = until_answered(|| bed.store.enqueue(request.clone(), at(0))).await;
    answer.expect("a repeat is not refused")
}

async fn claims(bed: &Bed, worker: &str, max: usize) -> Vec<Claimed> {
    let request =
        ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max, claim: bed.claim(worker) };
    until_answered(|| bed.store.claim(request.clone(), at(0))).await
}

async fn takes(bed: &Bed, worker: &str, job: JobId) -> Claimed {
    let request = ClaimOne { job, claim: bed.claim(worker) };
    let answer = until_answered(|| bed.store.claim_one(request.clone(), at(0))).await;
    answer.expect("a repeat is not refused")
}

async fn settles(bed: &Bed, held: &Claimed, outcome: Outcome) -> Done {
    let item = SettleItem { job: held.job.id, token: held.lease.token, outcome };
    let request = Settle { items: vec![item] };
    let mut answers = until_answered(|| bed.store.settle(request.clone(), at(0))).await;
    answers.remove(0).expect("a repeat is not refused")
}

async fn signals(bed: &Bed, job: JobId, k: &str) -> Answer {
    let request = Signal {
        job,
        name: name("go"),
        payload: Some(json(&format!("{{\"key\":\"{k}\"}}"))),
        actor: Actor::api(),
        key: Some(key(k)),
    };
    until_answered(|| bed.store.signal(request.clone(), at(0))).await
}

async fn count(bed: &Bed, job: JobId, type_name: &str) -> usize {
    bed.types(job).await.iter().filter(|t| *t == type_name).count()
}

/// J7, Q7, R1: nothing is lost, nothing is done twice.
pub async fn workers_that_repeat_complete_every_job_once(bed: Bed) {
    for seed in SEEDS {
        let sick = unlucky(&bed, seed);
        let jobs: Vec<NewJob> = (0..120).map(|_| NewJob { id: bed.id(), ..sick.job("work") }).collect();
        let ids: BTreeSet<JobId> = jobs.iter().map(|j| j.id).collect();
        for batch in jobs.chunks(15) {
            let answers = enqueues(&sick, batch.to_vec()).await;
            assert!(answers.iter().zip(batch).all(|(a, job)| a.id == job.id && !a.payload_differs));
        }
        let workers = (0..6).map(|n| {
            let sick = sick.clone();
            async move {
                let mut done = Vec::new();
                loop {
                    let held = claims(&sick, &format!("w{n}"), 4).await;
                    if held.is_empty() {
                        return done;
                    }
                    for held in held {
                        assert_eq!(settles(&sick, &held, completes()).await.version(), 3);
                        done.push(held.job.id);
                    }
                }
            }
        });
        let done: Vec<JobId> = together(workers).await.into_iter().flatten().collect();
        assert_eq!(done.len(), ids.len(), "nobody worked on what another held");
        assert_eq!(done.into_iter().collect::<BTreeSet<_>>(), ids);
        for id in ids {
            assert_eq!(bed.types(id).await, ["job_created", "job_claimed", "job_completed"]);
        }
    }
}

/// One life of a job with a step, a report, a note, a wait and a signal.
async fn lives(sick: Bed, job: NewJob, worker: String) -> JobId {
    let id = job.id;
    enqueues(&sick, vec![job]).await;
    let held = takes(&sick, &worker, id).await;
    let step = step_ends(&held, "step", "1");
    until_answered(|| sick.store.record_step(step.clone(), at(0))).await.expect("a repeat is not refused");
    let mut progress = report(&held);
    (progress.progress, progress.key) = (Some(50), Some(key("half")));
    until_answered(|| sick.store.progress(progress.clone(), at(0))).await.expect("a repeat is not refused");
    let mut noted = note(id, "noted");
    (noted.token, noted.key) = (Some(held.lease.token), Some(key("note")));
    until_answered(|| sick.store.append(noted.clone(), at(0))).await.expect("a repeat is not refused");
    settles(&sick, &held, crate::waits(for_signal("go"))).await;
    signals(&sick, id, "go").await.expect("a repeat is not refused");
    let held = takes(&sick, &worker, id).await;
    let woken_by = held.wake.as_ref().and_then(|w| w.payload.clone());
    assert_eq!(woken_by, Some(json("{\"key\":\"go\"}")), "the signal is handed over");
    assert_eq!(held.steps_recorded, 1);
    settles(&sick, &held, completes()).await;
    id
}

/// R1, J11, M8, T4
pub async fn the_log_under_faults_is_the_log_without(bed: Bed) {
    for seed in SEEDS {
        let sick = unlucky(&bed, seed);
        let all = (0..12).map(|n| {
            let job = NewJob { id: bed.id(), ..sick.job_in("work", &format!("q{n}")) };
            lives(sick.clone(), job, format!("w{n}"))
        });
        for id in together(all).await {
            let expected = [
                "job_created",
                "job_claimed",
                "node_finished",
                "job_progressed",
                "noted",
                "job_waiting",
                "job_signalled",
                "job_claimed",
                "job_completed",
            ];
            assert_eq!(bed.types(id).await, expected);
        }
    }
}

/// J5, J6, M8, R1
pub async fn keys_make_notes_and_signals_safe_to_repeat(bed: Bed) {
    for seed in SEEDS {
        let sick = unlucky(&bed, seed);
        let id = bed.a_job(at(0)).await;
        let senders = (0..6).map(|n| {
            let sick = sick.clone();
            async move {
                for k in 0..20 {
                    let shared = format!("{}-{k}", n / 2);
                    signals(&sick, id, &format!("signal-{shared}")).await.expect("a repeat is not refused");
                    let mut noted = note(id, "noted");
                    noted.key = Some(key(&format!("note-{shared}")));
                    let told = until_answered(|| sick.store.append(noted.clone(), at(0))).await;
                    told.expect("a repeat is not refused");
                }
            }
        });
        together(senders).await;
        assert_eq!((count(&bed, id, "job_signalled").await, count(&bed, id, "noted").await), (60, 60));
        assert_eq!(bed.row(id).await.signals, 60);
        bed.cancels(id, stop(), at(0)).await.expect("a live job can be cancelled");
    }
}

/// R1, R3, R4
pub async fn an_assignment_is_safe_to_repeat(bed: Bed) {
    for seed in SEEDS {
        let sick = unlucky(&bed, seed);
        let ids: Vec<JobId> = (0..10).map(|_| bed.id()).collect();
        let jobs = ids.iter().map(|id| NewJob { id: *id, ..sick.job("work") }).collect();
        enqueues(&sick, jobs).await;
        let term = AcquireTerm { name: name("leader"), holder: who("a"), ttl_ms: LeaseMs::DEFAULT };
        let term =
            until_answered(|| sick.store.acquire_term(term.clone(), at(0))).await.expect("its own term");
        assert_eq!(term.epoch, 1, "a repeat is no new reign");
        let items = ids.iter().map(|id| (*id, who("w"))).collect();
        let assign = Assign { term: term.name, epoch: term.epoch, items, lapse_ms: 5_000 };
        for answer in until_answered(|| sick.store.assign(assign.clone(), at(0))).await {
            assert_eq!(answer.expect("a repeat is not refused").version(), 2);
        }
        for id in ids {
            let secret = windlass_store::fresh::secret();
            let claim = Claim { worker: who("w"), secret, lease_ms: LeaseMs::DEFAULT };
            let start = Start { job: id, assignment: 2, epoch: term.epoch, claim };
            let held = until_answered(|| sick.store.start(start.clone(), at(0))).await;
            settles(&sick, &held.expect("a repeat is not refused"), completes()).await;
            assert_eq!(bed.types(id).await, ["job_created", "job_assigned", "job_started", "job_completed"]);
        }
    }
}

/// R1, T6, T7, Q12
pub async fn what_operators_do_is_safe_to_repeat(bed: Bed) {
    for seed in SEEDS {
        let sick = unlucky(&bed, seed);
        let (id, twin) = (bed.id(), bed.id());
        enqueues(&sick, vec![NewJob { id, ..sick.job("work") }]).await;
        let cancel = Cancel { job: id, wish: stop(), expected_version: None };
        let answer = until_answered(|| sick.store.cancel(cancel.clone(), at(0))).await;
        assert_eq!(answer.expect("a repeat is not refused").version(), 2);
        let mut back = redrive(id);
        back.key = Some(key("once"));
        let answer = until_answered(|| sick.store.redrive(back.clone(), at(0))).await;
        assert_eq!(answer.expect("a repeat is not refused").version(), 3);
        let held = takes(&sick, "w", id).await;
        settles(&sick, &held, fails_for_good("broken")).await;
        let late = until_answered(|| sick.store.redrive(back.clone(), at(0))).await;
        assert_eq!(late, Ok(Done::Already(3)), "the key is known for good");
        let copy = fork(id, twin);
        let answer = until_answered(|| sick.store.fork(copy.clone(), at(0))).await;
        assert_eq!(answer.expect("a repeat is not refused").version(), 6);
        let first = ["job_created", "job_cancelled", "job_redriven", "job_claimed", "job_failed"];
        assert_eq!(bed.types(id).await, first);
        assert_eq!(bed.types(twin).await[5..], ["job_forked"]);
        bed.cancels(twin, stop(), at(0)).await.expect("a live job can be cancelled");
    }
}

/// R1, M8
pub async fn an_approval_is_asked_once_however_often_it_is_sent(bed: Bed) {
    for seed in SEEDS {
        let sick = unlucky(&bed, seed);
        let held = bed.a_held_job("w", at(0)).await;
        let (ask, _) = bed.question(&held, "gate");
        let asked = until_answered(|| sick.store.ask(ask.clone(), at(0))).await;
        let asked = asked.expect("a repeat is not refused");
        assert_eq!((asked.approval.id, asked.done.version()), (ask.id, 3));
        settles(&sick, &held, crate::waits(crate::for_approval("gate"))).await;
        assert_eq!(
            (count(&bed, held.job.id, "job_approval_asked").await, bed.row(held.job.id).await.version),
            (1, 4)
        );
        let again = until_answered(|| sick.store.ask(ask.clone(), at(0))).await;
        assert_eq!(again, Err(Refusal::NotLeased(Status::Waiting)), "the lease is given up");
    }
}
