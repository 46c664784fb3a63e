//! The test bed: a store, a clock that only moves when a law says so, and short words for long requests.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_core::decide::Claim;
use windlass_core::{
    Actor, Answer, Event, Facts, Failure, Job, JobId, Key, LeaseMs, Name, NewJob, Outcome, Payload, Secret,
    Timestamp, Who,
};
use windlass_store::{
    ClaimMany, Claimed, Enqueue, Enqueued, JobView, Now, ReadEvents, Settle, SettleItem, Store,
};

/// A store made for one law, and what must live as long as it: a folder, a cluster.
pub struct Made {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Dropped after the law.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// What every law gets.
#[derive(Clone)]
pub struct Bed {
    /// The store under test.
    pub store: Arc<dyn Store>,
    pub(crate) ids: Arc<AtomicU64>,
}

/// The moment laws count from: 2026-01-01.
pub const BASE: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// `BASE` plus so many milliseconds, as a verb's `now`.
pub fn at(ms: i64) -> Now {
    Some(BASE.plus_ms(ms))
}

/// `BASE` plus so many milliseconds.
pub fn time(ms: i64) -> Timestamp {
    BASE.plus_ms(ms)
}

/// A name that is surely one.
pub fn name(text: &str) -> Name {
    Name::parse("name", text).expect("a name")
}

/// A worker, agent or holder that is surely one.
pub fn who(text: &str) -> Who {
    Who::parse("who", text).expect("a who")
}

/// A key that is surely one.
pub fn key(text: &str) -> Key {
    Key::parse("key", text).expect("a key")
}

/// A JSON payload that is surely one.
pub fn json(text: &str) -> Payload {
    Payload::json("payload", text, 1 << 20).expect("JSON")
}

/// A failure with a code and a message.
pub fn failure(code: &str) -> Failure {
    Failure::new(code, "it broke").expect("a failure")
}

/// A retryable failure as an outcome.
pub fn fails(code: &str) -> Outcome {
    Outcome::Fail { error: failure(code), permanent: false, run_at: None }
}

/// A permanent failure as an outcome.
pub fn fails_for_good(code: &str) -> Outcome {
    Outcome::Fail { error: failure(code), permanent: true, run_at: None }
}

/// A completion with a small result.
pub fn completes() -> Outcome {
    Outcome::Complete(Some(json("{\"ok\":true}")))
}

impl Bed {
    /// A bed around a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, ids: Arc::new(AtomicU64::new(0)) }
    }

    /// The same bed around another store: its ids go on.
    #[must_use]
    pub fn around(&self, store: Arc<dyn Store>) -> Self {
        Self { store, ids: Arc::clone(&self.ids) }
    }

    /// The next id: ids of one bed grow in the order they are made.
    pub fn id(&self) -> JobId {
        let n = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut random = [0u8; 8];
        random.copy_from_slice(&n.to_be_bytes());
        JobId::from_parts(BASE, random)
    }

    /// A plain job in the queue `default`.
    pub fn job(&self, kind: &str) -> NewJob {
        self.job_in(kind, "default")
    }

    /// A plain job in a queue. Change its public fields before enqueueing it.
    pub fn job_in(&self, kind: &str, queue: &str) -> NewJob {
        NewJob {
            id: self.id(),
            facts: Facts::new(name(kind), name(queue)),
            payload: Some(json("{\"n\":1}")),
            parent_token: None,
        }
    }

    /// Enqueues one job that must be accepted.
    pub async fn enqueue(&self, job: NewJob, now: Now) -> Enqueued {
        self.enqueue_all(vec![job], now).await[0]
    }

    /// Enqueues jobs that must be accepted.
    pub async fn enqueue_all(&self, jobs: Vec<NewJob>, now: Now) -> Vec<Enqueued> {
        let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
        self.store.enqueue(request, now).await.expect("the store answers").expect("the jobs are accepted")
    }

    /// Enqueues a plain job of kind `work` and returns its id.
    pub async fn a_job(&self, now: Now) -> JobId {
        self.enqueue(self.job("work"), now).await.id
    }

    /// A claim by a worker with a fresh secret and a lease of 30 s.
    pub fn claim(&self, worker: &str) -> Claim {
        Claim { worker: who(worker), secret: windlass_store::fresh::secret(), lease_ms: LeaseMs::DEFAULT }
    }

    /// Claims up to `max` jobs of the queue `default`.
    pub async fn claims(&self, worker: &str, max: usize, now: Now) -> Vec<Claimed> {
        self.claims_from(worker, &["default"], max, now).await
    }

    /// Claims up to `max` jobs of queues.
    pub async fn claims_from(&self, worker: &str, queues: &[&str], max: usize, now: Now) -> Vec<Claimed> {
        let queues = queues.iter().map(|q| name(q)).collect();
        let request = ClaimMany { from: None, queues, kinds: vec![], max, claim: self.claim(worker) };
        self.store.claim(request, now).await.expect("the store answers")
    }

    /// Claims exactly one job of the queue `default`.
    pub async fn claims_one(&self, worker: &str, now: Now) -> Claimed {
        let mut claimed = self.claims(worker, 1, now).await;
        assert_eq!(claimed.len(), 1, "one job is there to be claimed");
        claimed.remove(0)
    }

    /// A job of kind `work`, enqueued and claimed at the same moment by `worker`.
    pub async fn a_held_job(&self, worker: &str, now: Now) -> Claimed {
        let id = self.a_job(now).await;
        let claimed = self.claims_one(worker, now).await;
        assert_eq!(claimed.job.id, id, "no other job was due");
        claimed
    }

    /// Settles one job under the lease of `held`.
    pub async fn settles(&self, held: &Claimed, outcome: Outcome, now: Now) -> Answer {
        let item = SettleItem { job: held.job.id, token: held.lease.token, outcome };
        self.store.settle(Settle { items: vec![item] }, now).await.expect("the store answers").remove(0)
    }

    /// The whole view of a job that must exist.
    pub async fn view(&self, job: JobId, now: Now) -> JobView {
        self.store.job(job, now).await.expect("the store answers").expect("the job exists")
    }

    /// The row of a job that must exist.
    pub async fn row(&self, job: JobId) -> Job {
        self.view(job, at(0)).await.job
    }

    /// The whole log of a job.
    pub async fn log(&self, job: JobId) -> Vec<Event> {
        let mut log: Vec<Event> = Vec::new();
        loop {
            let after = log.last().map_or(0, |e| e.version);
            let request = ReadEvents { job, after, limit: 1_000, newest_first: false };
            let page = self.store.events(request, None).await.expect("the store answers");
            if page.is_empty() {
                return log;
            }
            log.extend(page);
        }
    }

    /// The types in a job's log, in order.
    pub async fn types(&self, job: JobId) -> Vec<String> {
        self.log(job).await.iter().map(|e| e.what.type_name().to_owned()).collect()
    }

    /// A secret that is the same every time.
    pub fn secret(n: u8) -> Secret {
        Secret([n; 32])
    }
}
