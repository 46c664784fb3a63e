//! Enqueueing: a job with its options, one or many.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::options::options;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::limits::{DEBOUNCE_MAX_MS, HORIZON_MS, Invalid, PAYLOAD_MAX_BYTES, TIMEOUT_MAX_MS};
use windlass_core::unique::{Debounce, Policy as UniquePolicy, Scope, Unique};
use windlass_core::{Facts, JobId, Name, NewJob, Payload, RunAt};
use windlass_engine::{Policies, Policy};
use windlass_store::{BatchRefusal, Enqueued, fresh};

/// Under which key of its metadata a job carries the version of its payload.
pub(crate) const PAYLOAD_VERSION: &str = "payload_version";

/// A job on its way into the store, with its options: what [`Client::enqueue_many`] takes. Any job is one, and so is
/// what [`Client::enqueue`] gives.
#[derive(Debug)]
pub struct Request {
    /// The first thing that was wrong is kept until it can be told.
    job: Result<NewJob, Invalid>,
    /// What the job says of itself; the rest is decided by kind, agent and queue.
    pub(crate) own: Policy,
    unique: Option<UniqueWish>,
    debounce: Option<Debounce>,
}

/// A unique key before it is known in which queue.
#[derive(Debug, Clone)]
struct UniqueWish {
    key: Option<String>,
    by_kind: Option<bool>,
    policy: UniquePolicy,
}

impl<J: Job> From<J> for Request {
    fn from(job: J) -> Self {
        let payload = Payload::from_value("payload", &job, PAYLOAD_MAX_BYTES).map(Some);
        let unique = J::UNIQUE.map(|policy| UniqueWish { key: None, by_kind: None, policy });
        Self { unique, ..Self::of_kind::<J>(payload) }
    }
}

impl From<Enqueue> for Request {
    fn from(enqueue: Enqueue) -> Self {
        enqueue.request
    }
}

fn new_job<J: Job>(payload: Result<Option<Payload>, Invalid>) -> Result<NewJob, Invalid> {
    let mut facts = Facts::new(Name::parse("kind", J::KIND)?, Name::parse("queue", J::QUEUE)?);
    facts.priority = J::PRIORITY;
    if J::VERSION != 1 {
        facts.metadata.insert(PAYLOAD_VERSION.to_owned(), J::VERSION.into());
    }
    Ok(NewJob { id: fresh::job_id(), facts, payload: payload?, parent_token: None })
}

impl Request {
    /// A job of this kind that gets this, without a unique key.
    pub(crate) fn of_kind<J: Job>(payload: Result<Option<Payload>, Invalid>) -> Self {
        let own = Policy {
            max_retries: J::MAX_RETRIES.map(|retries| i32::try_from(retries).unwrap_or(i32::MAX)),
            timeout_ms: J::TIMEOUT.map(|timeout| millis(timeout, TIMEOUT_MAX_MS)),
            backoff: J::backoff(),
            ..Policy::default()
        };
        Self { job: new_job::<J>(payload), own, unique: None, debounce: None }
    }

    /// Changes what is asked, unless something was wrong before.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut NewJob) -> Result<(), Invalid>) {
        if let Ok(job) = &mut self.job
            && let Err(invalid) = change(job)
        {
            self.job = Err(invalid);
        }
    }

    /// The job as the store takes it.
    pub(crate) fn finish(self, policies: &Policies) -> Result<NewJob, Invalid> {
        let mut job = self.job?;
        policies.fill(&mut job.facts, &self.own);
        if let Some(wish) = self.unique {
            job.facts.unique = Some(wish.resolve(&job)?);
        }
        if let Some(debounce) = self.debounce {
            let Some(key) = job.facts.key.clone() else {
                return Err(Invalid::new("key", "missing", "is what debounce goes by"));
            };
            let (queue, kind) = (job.facts.queue.clone(), job.facts.kind.clone());
            job.facts.run_at = RunAt::After(debounce.delay_ms);
            job.facts.unique = Some(Unique::debounced(queue, kind, key, debounce));
        }
        Ok(job)
    }
}

impl UniqueWish {
    fn resolve(self, job: &NewJob) -> Result<Unique, Invalid> {
        let facts = &job.facts;
        let mut unique = match &self.key {
            None => Unique::by_payload(facts.kind.clone(), job.payload.as_ref())?,
            Some(key) => Unique::in_queue(facts.queue.clone(), windlass_core::Key::parse("unique.key", key)?),
        };
        match self.by_kind {
            Some(true) => unique.scope = Scope::Kind(facts.kind.clone()),
            Some(false) => unique.scope = Scope::Queue(facts.queue.clone()),
            None => {}
        }
        unique.policy = self.policy;
        Ok(unique)
    }
}

/// Enqueues a job when awaited. Made by [`Client::enqueue`].
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use std::time::Duration;
/// # #[derive(Serialize, Deserialize)]
/// # struct Invoice { month: String }
/// # impl windlass::Job for Invoice { const KIND: &str = "invoice"; type Output = (); }
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = windlass::connect("memory:").await?;
/// let first = client
///     .enqueue(Invoice { month: "2026-01".into() })
///     .queue("billing")
///     .delay(Duration::from_secs(5))
///     .unique("ada:2026-01")
///     .max_retries(10)
///     .timeout(Duration::from_secs(60))
///     .tag("monthly")
///     .metadata("customer", "ada")
///     .await?;
/// let again = client.enqueue(Invoice { month: "2026-01".into() }).queue("billing").unique("ada:2026-01").await?;
/// assert!(again.existed && again.id == first.id);
/// # Ok::<_, windlass::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "nothing is enqueued before it is awaited"]
pub struct Enqueue {
    pub(crate) client: Client,
    pub(crate) request: Request,
}

impl Enqueue {
    pub(crate) fn new(client: Client, request: Request) -> Self {
        Self { client, request }
    }

    fn unique_wish(&mut self) -> &mut UniqueWish {
        let none = UniqueWish { key: None, by_kind: None, policy: UniquePolicy::Succeeded };
        self.request.unique.get_or_insert(none)
    }

    /// A key that makes two jobs the same: while one of its queue is live or has succeeded, a second is not enqueued
    /// and the first is answered. See [`Enqueue::unique_scope`] and [`Enqueue::unique_policy`] for other rules.
    pub fn unique(mut self, key: &str) -> Self {
        self.unique_wish().key = Some(key.to_owned());
        self
    }

    /// The same input of the same kind is the same job.
    pub fn unique_by_payload(mut self) -> Self {
        self.unique_wish().key = None;
        self
    }

    /// Among which jobs the key is unique, instead of the queue's (or, by payload, the kind's).
    pub fn unique_scope(mut self, scope: UniqueScope) -> Self {
        self.unique_wish().by_kind = Some(scope == UniqueScope::Kind);
        self
    }

    /// How long the key stays taken: [`UniquePolicy::Succeeded`] unless said otherwise.
    pub fn unique_policy(mut self, policy: UniquePolicy) -> Self {
        self.unique_wish().policy = policy;
        self
    }

    /// The key stays taken for so long, whatever becomes of the job.
    pub fn unique_for(self, time: Duration) -> Self {
        self.unique_policy(UniquePolicy::Ttl(millis(time, HORIZON_MS)))
    }

    /// Latest wins: while a job of this queue and kind with the same [`key`](Enqueue::key) waits for its first run, it gets
    /// this job's payload instead of being joined by another, and its wait begins anew. It runs once nobody has asked for so
    /// long, and ten times that after the first request at the latest.
    pub fn debounce(self, delay: Duration) -> Self {
        self.debounced(millis(delay, DEBOUNCE_MAX_MS), None)
    }

    /// The same, with its own bound for how long after the first request it runs at the latest.
    pub fn debounce_at_most(self, delay: Duration, max: Duration) -> Self {
        self.debounced(millis(delay, DEBOUNCE_MAX_MS), Some(millis(max, HORIZON_MS)))
    }

    fn debounced(mut self, delay_ms: i64, max_ms: Option<i64>) -> Self {
        self.request.debounce = Some(Debounce::new(delay_ms, max_ms));
        self
    }

    /// The job it belongs to, which can wait for it. Inside a handler, [`Context::spawn`](crate::Context::spawn) does this.
    pub fn parent(self, parent: JobId) -> Self {
        self.set(|job| {
            job.facts.parent_id = Some(parent);
            Ok(())
        })
    }

    /// Its id, made by the caller: the same id with the same body again is the same job.
    pub fn id(self, id: JobId) -> Self {
        self.set(|job| {
            job.id = id;
            Ok(())
        })
    }
}

options!(impl Enqueue);

impl IntoFuture for Enqueue {
    type Output = Result<Enqueued>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            match send(&self.client, vec![self.request]).await {
                Ok(answers) => answers.into_iter().next().ok_or_else(|| nothing_answered().into()),
                // One job is no batch.
                Err(Error::Batch(refused)) => Err(refused.refusal.into()),
                Err(error) => Err(error),
            }
        })
    }
}

fn nothing_answered() -> windlass_store::StoreError {
    windlass_store::StoreError::Indeterminate("the store answered for no job".into())
}

/// Among which jobs a key is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UniqueScope {
    /// Those of the same queue.
    Queue,
    /// Those of the same kind, in any queue.
    Kind,
}

/// Enqueues many jobs when awaited, all or none. Made by [`Client::enqueue_many`].
#[derive(Debug)]
#[must_use = "nothing is enqueued before it is awaited"]
pub struct EnqueueMany {
    pub(crate) client: Client,
    pub(crate) requests: Vec<Request>,
}

impl IntoFuture for EnqueueMany {
    type Output = Result<Vec<Enqueued>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { send(&self.client, self.requests).await })
    }
}

/// The jobs as a store takes them.
pub(crate) async fn finish_all(client: &Client, requests: Vec<Request>) -> Result<Vec<NewJob>> {
    let policies = client.policies().await?;
    let finish = |(index, request): (usize, Request)| {
        let mut job =
            request.finish(&policies).map_err(|invalid| BatchRefusal { index, refusal: invalid.into() })?;
        windlass_engine::carry(&mut job.facts.metadata);
        Ok(job)
    };
    Ok(requests.into_iter().enumerate().map(finish).collect::<Result<Vec<_>, BatchRefusal>>()?)
}

async fn send(client: &Client, requests: Vec<Request>) -> Result<Vec<Enqueued>> {
    let mut jobs = finish_all(client, requests).await?;
    // A worker of this client that waits for such a job gets it in the same transaction.
    if let [job] = &*jobs
        && let Some(offer) = client.inner.offers.take(&job.facts)
        && let Some(job) = jobs.pop()
    {
        let handed =
            offer.hand_over(Arc::clone(client.store()), job, client.actor(), client.patience()).await?;
        return Ok(vec![handed.map_err(|refusal| BatchRefusal { index: 0, refusal })?]);
    }
    let request = windlass_store::Enqueue { jobs, actor: client.actor(), idempotency: None };
    let parent = request.jobs.iter().find_map(|job| job.facts.parent_id);
    let send = || client.store().enqueue(request.clone(), None);
    Ok(match parent {
        Some(parent) => client.repeat_on(parent, send).await,
        None => client.repeat(send).await,
    }??)
}

/// Milliseconds, never less than the duration: nothing happens early. [`Duration::MAX`] is the longest that is allowed.
pub(crate) fn millis(duration: Duration, longest_ms: i64) -> i64 {
    if duration == Duration::MAX {
        return longest_ms;
    }
    i64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX)
}
