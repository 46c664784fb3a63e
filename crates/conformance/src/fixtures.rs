//! Requests with default values for laws to change field by field, and verbs that unwrap every store error.

mod control;

pub use control::*;

use crate::{Bed, failure, json, name, time, who};
use std::fmt::Debug;
use windlass_core::decide::Cancel as Wish;
use windlass_core::limits::FORCE_AFTER_DEFAULT_MS;
use windlass_core::wait::WaitFor;
use windlass_core::{
    Actor, Answer, Done, Event, Job, JobId, LeaseMs, NewJob, Outcome, Refusal, RunAt, Status, Token, Wait,
};
use windlass_store::{
    AcquireTerm, Append, Assign, Cancel, ClaimOne, Claimed, Enqueue, Extend, Extended, FindKey, Fork,
    HolderReply, Now, Progress, RecordStep, Redrive, SettleItem, Sweep,
};

/// A note of a type, guarded by nothing.
pub fn note(job: JobId, type_name: &str) -> Append {
    Append {
        job,
        type_name: name(type_name),
        payload: None,
        actor: Actor::api(),
        token: None,
        expected_version: None,
        key: None,
    }
}

/// A report under a lease that says nothing yet.
pub fn report(held: &Claimed) -> Progress {
    Progress {
        job: held.job.id,
        token: held.lease.token,
        progress: None,
        stage: None,
        metadata: None,
        checkpoint: None,
        charge: None,
        key: None,
    }
}

/// A report under a lease that brings a checkpoint.
pub fn checkpoint(held: &Claimed, text: &str) -> Progress {
    Progress { checkpoint: Some(json(text)), ..report(held) }
}

/// The beginning of a step that is not a tool.
pub fn step_begins(held: &Claimed, step: &str) -> RecordStep {
    RecordStep {
        job: held.job.id,
        token: held.lease.token,
        name: name(step),
        tool: false,
        finished: false,
        payload: None,
    }
}

/// The end of a step that is not a tool, with a value.
pub fn step_ends(held: &Claimed, step: &str, value: &str) -> RecordStep {
    RecordStep { finished: true, payload: Some(json(value)), ..step_begins(held, step) }
}

/// A wish to stop that asks a holder first.
pub fn stop() -> Wish {
    Wish { actor: Actor::api(), reason: None, force: false, force_after_ms: FORCE_AFTER_DEFAULT_MS }
}

/// A wish to stop that asks nobody.
pub fn stop_at_once() -> Wish {
    Wish { force: true, ..stop() }
}

/// A redrive at once that keeps recorded steps.
pub fn redrive(job: JobId) -> Redrive {
    Redrive {
        job,
        run_at: RunAt::Now,
        from_start: false,
        payload: None,
        actor: Actor::parse("actor", "operator:ann").expect("an actor"),
        key: None,
        expected_version: None,
    }
}

/// A fork of the whole log into `id`.
pub fn fork(from: JobId, id: JobId) -> Fork {
    Fork {
        from,
        from_version: None,
        id,
        payload: None,
        actor: Actor::parse("actor", "operator:ann").expect("an actor"),
        expected_version: None,
    }
}

/// A timer that fires at `BASE` plus so many milliseconds.
pub fn sleeps_until(ms: i64) -> Outcome {
    waits(Wait { waits_for: WaitFor::Timer, name: None, until: Some(time(ms)), expires_at: None, since: 0 })
}

/// A wait for a signal, without an end.
pub fn waits_for_signal(signal: &str) -> Outcome {
    waits(Wait {
        waits_for: WaitFor::Signal,
        name: Some(name(signal)),
        until: None,
        expires_at: None,
        since: 0,
    })
}

/// A wait as an outcome; what already answers it is the store's to find.
pub fn waits(wait: Wait) -> Outcome {
    Outcome::Wait(wait, windlass_core::outcome::Found::default())
}

/// A failure with retries left that says when to try again.
pub fn fails_until(code: &str, run_at: RunAt) -> Outcome {
    Outcome::Fail { error: failure(code), permanent: false, run_at: Some(run_at) }
}

/// Asserts that an answer is a refusal of a value, and of which field.
pub fn is_invalid<T: Debug>(answer: &Result<T, Refusal>, field: &str) {
    match answer {
        Err(Refusal::Invalid(invalid)) => assert_eq!(invalid.field, field, "the field is named: {invalid:?}"),
        other => panic!("{field} should be refused as invalid, but the answer is {other:?}"),
    }
}

/// A row and its log at one moment, to show later that a refusal changed nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The row.
    pub job: Job,
    /// The log.
    pub log: Vec<Event>,
}

impl Bed {
    /// Row and log of a job as they stand.
    pub async fn snapshot(&self, job: JobId) -> Snapshot {
        Snapshot { job: self.row(job).await, log: self.log(job).await }
    }

    /// Asserts that neither row nor log moved since the snapshot.
    pub async fn is_unchanged(&self, before: &Snapshot) {
        let after = self.snapshot(before.job.id).await;
        assert_eq!(&after, before, "a refusal changes nothing");
    }

    /// Enqueues jobs and returns which one was refused and why.
    pub async fn enqueue_refused(&self, jobs: Vec<NewJob>, now: Now) -> (usize, Refusal) {
        let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
        let refused = self.store.enqueue(request, now).await.expect("the store answers");
        let refused = refused.expect_err("the jobs are refused");
        (refused.index, refused.refusal)
    }

    /// Claims one job by its id.
    pub async fn claims_by_id(&self, worker: &str, job: JobId, now: Now) -> Result<Claimed, Refusal> {
        let request = ClaimOne { job, claim: self.claim(worker) };
        self.store.claim_one(request, now).await.expect("the store answers")
    }

    /// Enqueues a job and claims just this one by its id.
    pub async fn holds(&self, worker: &str, job: NewJob, now: Now) -> Claimed {
        let id = self.enqueue(job, now).await.id;
        self.claims_by_id(worker, id, now).await.expect("the job is claimed")
    }

    /// Renews one lease by so many milliseconds from now.
    pub async fn extends(&self, held: &Claimed, ms: i64, now: Now) -> Result<Extended, Refusal> {
        self.extends_by(held.job.id, held.lease.token, ms, now).await
    }

    /// Renews a job's lease under any token.
    pub async fn extends_by(&self, job: JobId, token: Token, ms: i64, now: Now) -> Result<Extended, Refusal> {
        let extend_ms = LeaseMs::new(ms).expect("a lease");
        let request = Extend { leases: vec![(job, token)], extend_ms };
        self.store.extend(request, now).await.expect("the store answers").remove(0)
    }

    /// Settles a job under any token.
    pub async fn settles_by(&self, job: JobId, token: Token, outcome: Outcome, now: Now) -> Answer {
        let items = vec![SettleItem { job, token, outcome }];
        let request = windlass_store::Settle { items };
        self.store.settle(request, now).await.expect("the store answers").remove(0)
    }

    /// Appends a note.
    pub async fn appends(&self, note: Append, now: Now) -> Result<HolderReply, Refusal> {
        self.store.append(note, now).await.expect("the store answers")
    }

    /// Reports progress.
    pub async fn reports(&self, report: Progress, now: Now) -> Result<HolderReply, Refusal> {
        self.store.progress(report, now).await.expect("the store answers")
    }

    /// Records a step.
    pub async fn records(&self, step: RecordStep, now: Now) -> Result<HolderReply, Refusal> {
        self.store.record_step(step, now).await.expect("the store answers")
    }

    /// Cancels as wished.
    pub async fn cancels(&self, job: JobId, wish: Wish, now: Now) -> Answer {
        self.store.cancel(Cancel { job, wish, expected_version: None }, now).await.expect("the store answers")
    }

    /// Redrives.
    pub async fn redrives(&self, redrive: Redrive, now: Now) -> Answer {
        self.store.redrive(redrive, now).await.expect("the store answers")
    }

    /// Forks.
    pub async fn forks(&self, fork: Fork, now: Now) -> Answer {
        self.store.fork(fork, now).await.expect("the store answers")
    }

    /// Who holds a unique key.
    pub async fn holder_of(&self, unique: &windlass_core::Unique, now: Now) -> Option<JobId> {
        let request = FindKey { scope: unique.scope.clone(), key: unique.key.clone() };
        self.store.find_key(request, now).await.expect("the store answers").map(|hold| hold.job)
    }

    /// A job of a queue of its own that stands at `status`, brought there at `now`. The next 10 s change nothing
    /// about it; orphans are brought there a second later.
    pub async fn a_job_that_is(&self, status: Status, now_ms: i64) -> JobId {
        let now = crate::at(now_ms);
        let id = self.id();
        let mut job = self.job_in("work", &format!("q-{status}-{id}"));
        job.id = id;
        if status == Status::TimedOut {
            job.facts.max_retries = 0;
        }
        if matches!(status, Status::Assigned | Status::Orphaned) {
            self.enqueue(job, now).await;
            self.assigns(id, "worker-gone", 1_000, now).await;
            if status == Status::Orphaned {
                let lapse = self.row(id).await.deadline_at;
                let swept = self.store.sweep(Sweep { limit: 100 }, lapse).await;
                assert!(swept.expect("the store answers").iter().any(|s| s.job == id), "it is orphaned");
            }
            return id;
        }
        if status == Status::Pending {
            return self.enqueue(job, now).await.id;
        }
        let held = self.holds("w", job, now).await;
        let outcome = match status {
            Status::Retry => fails_until("later", RunAt::At(time(now_ms + 10_000))),
            Status::Waiting => waits_for_signal("go"),
            Status::Completed => crate::completes(),
            Status::Failed => crate::fails_for_good("broken"),
            Status::TimedOut => Outcome::TimeOut,
            Status::Cancelled => Outcome::Cancelled { reason: None },
            _ => return id,
        };
        let done = self.settles(&held, outcome, now).await;
        assert_eq!(done, Ok(Done::Moved(3, status)), "the job stands where it should");
        id
    }

    /// Gives a job to a worker under the term `leader`, which this takes if it is free.
    pub async fn assigns(&self, job: JobId, worker: &str, lapse_ms: i64, now: Now) -> Done {
        let term = AcquireTerm { name: name("leader"), holder: who("node"), ttl_ms: LeaseMs::DEFAULT };
        let term = self.store.acquire_term(term, now).await.expect("the store answers").expect("our term");
        let request =
            Assign { term: term.name, epoch: term.epoch, items: vec![(job, who(worker))], lapse_ms };
        let answers = self.store.assign(request, now).await.expect("the store answers");
        answers[0].clone().expect("the job is assigned")
    }
}
