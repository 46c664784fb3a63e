//! Tests without a database and without waiting: a memory store under a clock that only the test moves.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! # use std::time::Duration;
//! # use windlass::{Context, Job, Worker};
//! use windlass::testing::Rig;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Remind { to: String }
//! impl Job for Remind {
//!     const KIND: &str = "remind";
//!     type Output = ();
//! }
//!
//! /// The worker of the program, as it runs in production.
//! fn worker(client: windlass::Client) -> Worker {
//!     Worker::new(client).queue("default", 8).handle(|job: Remind, ctx: Context| async move {
//!         ctx.sleep("a-day", Duration::from_secs(86_400)).await?;
//!         ctx.log(format!("reminded {}", job.to)).await
//!     })
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let rig = Rig::new();
//! let worker = worker(rig.client().clone());
//! let sent = rig.client().enqueue(Remind { to: "ada".into() }).await?;
//! rig.assert_enqueued::<Remind>(|job| job.to == "ada").await;
//!
//! rig.drain(&worker).await; // until nothing is due: it sleeps
//! assert_eq!(rig.status(sent.id).await, windlass::Status::Waiting);
//! rig.advance(Duration::from_secs(86_400));
//! rig.drain(&worker).await;
//! rig.output::<Remind>(sent.id).await;
//! # Ok::<_, windlass::Error>(()) }).unwrap();
//! ```
//!
//! Everything here panics when something is wrong, as a test should. Handlers run one at a time, on the test's own task;
//! no lease is renewed and no timeout kept, because no time passes while they run.

use crate::client::Client;
use crate::connect::Opened;
use crate::fallback::Fallbacks;
use crate::job::Job;
use crate::worker::Worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use windlass_core::decide::Claim;
use windlass_core::limits::{BATCH_MAX, Limits, PAGE_MAX};
use windlass_core::{
    Actor, Failure, Filter, JobId, LeaseMs, Name, Outcome, Refusal, Status, Timestamp, Token, Who,
};
use windlass_engine::run_once;
use windlass_memory::MemoryStore;
use windlass_store::{ClaimMany, Claimed, Clocked, JobView, Settle, SettleItem, Store, Sweep, fresh};

/// 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
/// More attempts than any test means to run: a handler that always snoozes for no time would go on for ever.
const DRAIN_MAX: usize = 10_000;

/// A store in memory, a clock that stands still, and what runs jobs by hand.
#[derive(Debug)]
pub struct Rig {
    client: Client,
    clock: Arc<AtomicI64>,
}

/// One attempt that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// Which job.
    pub id: JobId,
    /// Its kind.
    pub kind: Name,
    /// Which execution it was.
    pub attempt: i32,
    /// Where the job stands after it.
    pub status: Status,
}

/// A job that was enqueued, with its payload as the type it came from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sent<J> {
    /// The job as it was enqueued.
    pub job: J,
    /// Where it stands, and everything else about it.
    pub view: JobView,
}

impl Default for Rig {
    fn default() -> Self {
        Self::new()
    }
}

impl Rig {
    /// An empty store; the clock stands at 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        let clock = Arc::new(AtomicI64::new(START.as_micros()));
        let read = Arc::clone(&clock);
        let now = move || Timestamp::from_micros(read.load(Ordering::Acquire));
        let store: Arc<dyn Store> = Arc::new(Clocked::new(Arc::new(MemoryStore::new()), now));
        // Settings of queues count at once: no time passes in which they could be trusted.
        let fallbacks = Fallbacks { trusted: Some(Duration::ZERO), ..Fallbacks::default() };
        let opened = Opened { store, again: None, limits: Limits::default() };
        let client = Client::over(opened, Actor::api(), "windlass".into(), fallbacks);
        Self { client, clock }
    }

    /// A client to the store.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.load(Ordering::Acquire))
    }

    /// Moves the clock. Nothing runs by it: call [`Rig::drain`] for what has become due.
    pub fn advance(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).expect("a time within a test's life");
        self.clock.fetch_add(micros, Ordering::AcqRel);
    }

    /// Runs the next job that is due and that the worker would take; none if there is none.
    ///
    /// # Panics
    /// If the worker is another store's, or was given something outside the limits.
    pub async fn run_one<S: Send + Sync + 'static>(&self, worker: &Worker<S>) -> Option<Ran> {
        let store = self.client.store();
        assert!(Arc::ptr_eq(store, worker.client.store()), "the worker must be made with this rig's client");
        store.sweep(Sweep { limit: BATCH_MAX }, None).await.expect("the sweep");
        let handlers = worker.handlers().expect("the kinds of the handlers");
        let claimed = self.claim(worker.queues().expect("the queues"), handlers.kinds()).await?;
        let handler = handlers.get(&claimed.job.kind).expect("only kinds with a handler are claimed");
        let (id, kind, lease) = (claimed.job.id, claimed.job.kind.clone(), claimed.lease.clone());
        if let Some(outcome) = run_once(Arc::clone(store), claimed, handler).await {
            self.settle(id, lease.token, outcome).await;
        }
        Some(Ran { id, kind, attempt: lease.attempt, status: self.status(id).await })
    }

    /// As a worker does: an outcome that the store refuses fails the job with the reason.
    async fn settle(&self, job: JobId, token: Token, outcome: Outcome) {
        let settle = async |outcome| {
            let items = vec![SettleItem { job, token, outcome }];
            let mut answers =
                self.client.store().settle(Settle { items }, None).await.expect("the store settles");
            answers.pop().expect("an answer for each")
        };
        match settle(outcome).await {
            // The handler's own doing took the job from it: it was cancelled with force, for instance.
            Ok(_) | Err(Refusal::Finished(_)) => {}
            Err(refusal) => {
                let error =
                    Failure::new(refusal.code(), &refusal.to_string()).expect("a refusal's own words");
                let failed = settle(Outcome::Fail { error, permanent: true, run_at: None }).await;
                failed.unwrap_or_else(|again| panic!("job {job} could not be settled: {refusal}; {again}"));
            }
        }
    }

    async fn claim(&self, queues: Vec<Name>, kinds: Vec<Name>) -> Option<Claimed> {
        assert!(!queues.is_empty(), "the worker has no queue");
        assert!(!kinds.is_empty(), "the worker has no handler");
        let worker = Who::parse("worker", "rig").expect("a name");
        let claim = Claim { worker, secret: fresh::secret(), lease_ms: LeaseMs::DEFAULT };
        let request = ClaimMany { from: None, queues, kinds, max: 1, claim };
        self.client.store().claim(request, None).await.expect("the store claims").pop()
    }

    /// Runs jobs until nothing is due that the worker would take, and tells what ran. The clock stands still meanwhile.
    ///
    /// # Panics
    /// After 10,000 attempts: then a handler never stops being due.
    pub async fn drain<S: Send + Sync + 'static>(&self, worker: &Worker<S>) -> Vec<Ran> {
        let mut all = Vec::new();
        while let Some(ran) = self.run_one(worker).await {
            all.push(ran);
            assert!(all.len() < DRAIN_MAX, "{DRAIN_MAX} attempts ran and more are due: {:?}", all.last());
        }
        all
    }

    /// Every job of a type, in the order of their creation.
    ///
    /// # Panics
    /// If a payload does not read as the type.
    pub async fn enqueued<J: Job>(&self) -> Vec<Sent<J>> {
        let kind = Some(Name::parse("kind", J::KIND).expect("the job's kind"));
        let (mut ids, mut cursor) = (Vec::new(), None);
        loop {
            let filter = Filter { kind: kind.clone(), ..Filter::default() };
            let page = self.client.jobs(filter, cursor).await.expect("a page");
            assert!(page.items.len() <= PAGE_MAX);
            ids.extend(page.items.iter().map(|listed| listed.job.id));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let mut sent = Vec::new();
        for id in ids.into_iter().rev() {
            let view = self.view(id).await;
            let payload = view.payload.as_ref().map_or(&b"null"[..], |p| p.as_bytes());
            let job = serde_json::from_slice(payload)
                .unwrap_or_else(|e| panic!("the payload of job {id} does not read as a {}: {e}", J::KIND));
            sent.push(Sent { job, view });
        }
        sent
    }

    /// Asserts that a job of a type was enqueued for which `is` holds.
    ///
    /// # Panics
    /// If there is none; tells what there is.
    pub async fn assert_enqueued<J: Job>(&self, is: impl Fn(&J) -> bool) {
        let sent = self.enqueued::<J>().await;
        if !sent.iter().any(|sent| is(&sent.job)) {
            let there: Vec<_> = sent.iter().map(|sent| &sent.view.payload).collect();
            panic!("no {} like that was enqueued; there are: {there:?}", J::KIND);
        }
    }

    /// Asserts that no job of a type was enqueued.
    ///
    /// # Panics
    /// If there is one.
    pub async fn assert_none_enqueued<J: Job>(&self) {
        let sent = self.enqueued::<J>().await;
        let there: Vec<_> = sent.iter().map(|sent| &sent.view.payload).collect();
        assert!(there.is_empty(), "{} was enqueued: {there:?}", J::KIND);
    }

    /// Everything about a job.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn view(&self, id: JobId) -> JobView {
        let view = self.client.job(id).await.expect("the store reads");
        view.unwrap_or_else(|| panic!("there is no job {id}"))
    }

    /// Where a job stands.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn status(&self, id: JobId) -> Status {
        self.view(id).await.job.status
    }

    /// What a completed job gave back.
    ///
    /// # Panics
    /// If it is not completed; tells how it stands.
    pub async fn output<J: Job>(&self, id: JobId) -> J::Output {
        let view = self.view(id).await;
        assert!(view.job.status.is_terminal(), "job {id} is {}: {:?}", view.job.status, view.blocked);
        crate::wait::result::<J>(&view).unwrap_or_else(|e| panic!("{e}"))
    }
}
