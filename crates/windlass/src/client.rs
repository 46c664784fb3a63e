//! The client: a handle to one store, with everything that is done to jobs from outside.
//!
//! What is never known here: a worker, a handler, or which store it is.

use crate::connect::{Builder, Opened};
use crate::enqueue::{Enqueue, EnqueueMany, Request};
use crate::erase::Erase;
use crate::error::Result;
use crate::events::Events;
use crate::fallback::Fallbacks;
use crate::job::Job;
use crate::operate::{Cancel, Decide, Fork, Redrive, Signal};
use crate::tail::Tail;
use crate::watch::{Feed, Watch};
use serde::Serialize;
use std::sync::Arc;
use windlass_core::limits::Limits;
use windlass_core::wait::Decision;
use windlass_core::{Actor, ApprovalId, FeedCursor, Filter, JobId};
use windlass_engine::service::QueuePolicies;
use windlass_engine::{Attempt, Offers, Policies};
use windlass_store::{ApprovalView, JobView, Limited, List, ListApprovals, Listed, Page, Store};

/// A handle to a store of jobs. Cloning it is cheap and gives the same one.
///
/// A call whose answer was lost is repeated by the client itself; every verb of a store can be repeated, so nothing
/// happens twice by it. What the store refuses is told as [`Error::Refused`](crate::Error::Refused).
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Resize { image: String }
/// # impl windlass::Job for Resize { const KIND: &str = "resize"; type Output = (); }
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let client = windlass::connect("memory:").await?;
/// let sent = client.enqueue(Resize { image: "cat.png".into() }).priority(3).await?;
/// assert!(!sent.existed);
/// client.cancel(sent.id).reason("wrong cat").await?;
/// assert_eq!(client.job(sent.id).await?.unwrap().job.status, windlass::Status::Cancelled);
/// # Ok::<_, windlass::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    /// Whose handler it was given to, if to one.
    attempt: Option<Attempt>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) actor: Actor,
    /// How large payloads and results may be.
    pub(crate) limits: Limits,
    /// Where the SQL functions are, for calls inside the caller's own transaction.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL has schemas"))]
    pub(crate) schema: String,
    /// Opens the same store again, where a worker renews leases through connections of its own.
    pub(crate) again: Option<Builder>,
    /// What jobs fall back to.
    pub(crate) fallbacks: Fallbacks,
    policies: QueuePolicies,
    /// The workers of this client that wait for a job.
    pub(crate) offers: Offers,
    /// One reader of the feed for everybody who watches a job through this client.
    pub(crate) tail: Arc<Tail>,
}

impl Client {
    /// Opens the store that `url` names, with options; see [`connect`](crate::connect()) for the URLs.
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    /// A client to a store that is open already, for instance one with a decorator around it.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let opened = Opened { store, again: None, limits: Limits::default() };
        Self::over(opened, Actor::api(), "windlass".to_owned(), Fallbacks::default())
    }

    pub(crate) fn over(opened: Opened, actor: Actor, schema: String, fallbacks: Fallbacks) -> Self {
        let Opened { store, again, limits } = opened;
        let store: Arc<dyn Store> = Arc::new(Limited::new(store, limits));
        let tail = Arc::new(Tail::new(Arc::clone(&store)));
        let offers = Offers::default();
        let policies = fallbacks.with_queues();
        let inner = Inner { store, actor, limits, schema, again, fallbacks, policies, offers, tail };
        let inner = Arc::new(inner);
        Self { inner, attempt: None }
    }

    /// The same client in the hands of a handler.
    pub(crate) fn of(&self, attempt: &Attempt) -> Self {
        Self { inner: Arc::clone(&self.inner), attempt: Some(attempt.clone()) }
    }

    /// The attempt whose handler it was given to, while that runs.
    pub(crate) fn running(&self) -> Option<&Attempt> {
        self.attempt.as_ref().filter(|attempt| attempt.is_running())
    }

    /// What jobs fall back to, now.
    pub(crate) async fn policies(&self) -> Result<Arc<Policies>> {
        Ok(self.inner.policies.now(|| self.repeat(|| self.inner.store.queue_settings((), None))).await?)
    }

    /// The store itself, for what has no verb here.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub(crate) fn actor(&self) -> Actor {
        self.inner.actor.clone()
    }

    /// Enqueues a job when awaited; until then its options can be set.
    pub fn enqueue(&self, job: impl Job) -> Enqueue {
        Enqueue::new(self.clone(), Request::from(job))
    }

    /// Enqueues many jobs when awaited, of one type or as [`Client::enqueue`] makes them: all or none. The answers are in the same order.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Resize { image: u32 }
    /// # impl windlass::Job for Resize { const KIND: &str = "resize"; type Output = (); }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// let plain = client.enqueue_many((0..3).map(|image| Resize { image })).await?;
    /// let urgent = client.enqueue_many((0..3).map(|image| client.enqueue(Resize { image }).priority(5))).await?;
    /// assert_eq!((plain.len(), urgent.len()), (3, 3));
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub fn enqueue_many<I>(&self, jobs: I) -> EnqueueMany
    where
        I: IntoIterator,
        I::Item: Into<Request>,
    {
        EnqueueMany { client: self.clone(), requests: jobs.into_iter().map(Into::into).collect() }
    }

    /// Says that jobs may have become due: call it after the commit of a transaction that enqueued some, and their workers
    /// look at once, in this process and in others. A hint, and nothing more.
    pub fn nudge(&self) {
        self.inner.store.nudge();
    }

    /// One job with payload, result, error, checkpoint, and why it is not running; none for an unknown id.
    pub async fn job(&self, id: JobId) -> Result<Option<JobView>> {
        Ok(self.repeat(|| self.inner.store.job(id, None)).await?)
    }

    /// A page of jobs, in the order that the filter entails. A page may be short: only a missing cursor is the end.
    pub async fn jobs(&self, filter: Filter, cursor: Option<String>) -> Result<Page<Listed>> {
        let list = List { filter, cursor, limit: windlass_core::limits::PAGE_MAX };
        Ok(self.repeat(|| self.inner.store.jobs(list.clone(), None)).await??)
    }

    /// A job's log, from the first event on.
    pub fn events(&self, id: JobId) -> Events {
        Events::new(self.clone(), id)
    }

    /// A stream of a job's events, from the first on and as they come, until the job has ended.
    pub fn watch(&self, id: JobId) -> Watch {
        Watch::new(self.clone(), id)
    }

    /// A stream of every event of every job after a cursor: nothing missed, nothing repeated.
    pub fn feed(&self, after: FeedCursor) -> Feed {
        Feed::new(self, after)
    }

    /// Where the feed ends now: what to give [`Client::feed`] to see only what is to come.
    pub async fn feed_head(&self) -> Result<FeedCursor> {
        Ok(self.repeat(|| self.inner.store.feed_head((), None)).await?)
    }

    /// Waits until a job has ended, and reads its result.
    ///
    /// A job that failed, timed out or was cancelled is [`Error::Ended`](crate::Error::Ended). It waits as long as it takes:
    /// put a `tokio::time::timeout` around it for less.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Add(u32, u32);
    /// # impl windlass::Job for Add { const KIND: &str = "add"; type Output = u32; }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// let sent = client.enqueue(Add(1, 2)).await?;
    /// let worker = windlass::Worker::new(client.clone())
    ///     .queue("default", 1)
    ///     .handle(|Add(a, b), _ctx: windlass::Context| async move { Ok(a + b) });
    /// tokio::select! {
    ///     sum = client.wait::<Add>(sent.id) => assert_eq!(sum?, 3),
    ///     end = worker.run_until(std::future::pending()) => panic!("{end:?}"),
    /// }
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub async fn wait<J: Job>(&self, id: JobId) -> Result<J::Output> {
        crate::wait::ended::<J>(self, id).await
    }

    /// Waits until a job has ended and, unless it completed, until what it did is undone: see [`Step::undo`](crate::Step::undo).
    /// Answers whether there was anything that could be. An undoing that failed for good is [`Error::Ended`](crate::Error::Ended).
    pub async fn wait_undone(&self, id: JobId) -> Result<bool> {
        crate::wait::undone(self, id).await
    }

    /// Cancels a job when awaited: at once if nobody holds it, else its holder is asked to stop.
    pub fn cancel(&self, id: JobId) -> Cancel {
        Cancel::new(self.clone(), id)
    }

    /// Sends a failed, timed out or cancelled job back when awaited.
    pub fn redrive(&self, id: JobId) -> Redrive {
        Redrive::new(self.clone(), id)
    }

    /// Erases what a finished job was given, found and printed, when awaited. It cannot be undone.
    pub fn erase(&self, id: JobId) -> Erase {
        Erase::new(self.clone(), id)
    }

    /// Makes a new job that begins with another's log when awaited.
    pub fn fork(&self, id: JobId) -> Fork {
        Fork::new(self.clone(), id)
    }

    /// Signals a job when awaited: wakes it, or is kept until it waits for the name.
    pub fn signal(&self, id: JobId, name: &str, payload: impl Serialize) -> Signal {
        Signal::new(self.clone(), id, name, &payload)
    }

    /// Votes on an approval when awaited.
    pub fn decide(&self, approval: ApprovalId, decision: Decision) -> Decide {
        Decide::new(self.clone(), approval, decision)
    }

    /// A job's approvals, newest first.
    pub async fn approvals(&self, id: JobId) -> Result<Vec<ApprovalView>> {
        let list =
            ListApprovals { job: Some(id), limit: windlass_core::limits::PAGE_MAX, ..Default::default() };
        Ok(self.repeat(|| self.inner.store.approvals(list, None)).await?)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("actor", &self.inner.actor).finish_non_exhaustive()
    }
}
