//! A test bed: one store of each kind, short words for long requests, and conditions that are awaited with a deadline.

#![allow(dead_code, reason = "each test takes from here what it needs")]

mod postgres;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_core::decide::Claim;
use windlass_core::{Actor, Event, Facts, JobId, LeaseMs, Name, NewJob, Payload, Status, Who};
use windlass_engine::{Attempt, Handler, HandlerError, Health, RunError, Shutdown, Worker};
use windlass_memory::MemoryStore;
use windlass_store::{ClaimOne, Claimed, Enqueue, JobView, ReadEvents, Signal, Store, fresh};

/// The longest any condition is awaited. Far more than any of them needs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A store for one test, and what must live as long as it.
pub struct Bed {
    pub store: Arc<dyn Store>,
    /// Where it is, if it is a PostgreSQL.
    pub url: Option<String>,
    keep: Box<dyn Any + Send>,
}

impl Bed {
    /// In memory.
    pub async fn memory() -> Self {
        Self { store: Arc::new(MemoryStore::new()), url: None, keep: Box::new(()) }
    }

    /// In a file of its own.
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = windlass_sqlite::Options::new(folder.path().join("windlass.db")).open().expect("a store");
        Self { store: Arc::new(store), url: None, keep: Box::new(folder) }
    }

    /// In a database of its own.
    pub async fn postgres() -> Self {
        let (url, database) = postgres::database().await;
        let store = windlass_postgres::PostgresStore::open(&url).await.expect("a store");
        Self { store: Arc::new(store), url: Some(url), keep: Box::new(database) }
    }

    /// The same bed with another store around its own.
    pub fn around<S: Store + 'static>(self, wrap: impl FnOnce(Arc<dyn Store>) -> S) -> (Self, Arc<S>) {
        let store = Arc::new(wrap(self.store));
        (Self { store: Arc::clone(&store) as Arc<dyn Store>, url: self.url, keep: self.keep }, store)
    }

    /// A worker on this store: four at a time from `default`.
    pub fn worker(&self) -> Worker {
        Worker::new(Arc::clone(&self.store)).queue("default", 4)
    }

    /// A worker that renews through connections of its own, where there are connections.
    pub fn worker_apart(&self) -> Worker {
        let Some(url) = self.url.clone() else { return self.worker() };
        self.worker().renew_through(move || async move {
            let store = windlass_postgres::Options::new(&url).migrate(false).pool(1).open().await?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })
    }

    /// Enqueues a job and claims it by hand, for a holder that is never heard of again.
    pub async fn put_and_die(&self, kind: &str, set: impl FnOnce(&mut Facts)) -> Claimed {
        let id = self.put_with(kind, set).await;
        let lease_ms = LeaseMs::new(1_000).expect("a lease");
        let claim = Claim { worker: who("dead"), secret: fresh::secret(), lease_ms };
        self.store.claim_one(ClaimOne { job: id, claim }, None).await.expect("the store").expect("claimed")
    }

    /// Enqueues a plain job.
    pub async fn put(&self, kind: &str) -> JobId {
        self.put_with(kind, |_| {}).await
    }

    /// Enqueues a job with facts of its own.
    pub async fn put_with(&self, kind: &str, set: impl FnOnce(&mut Facts)) -> JobId {
        let mut job = new_job(kind);
        set(&mut job.facts);
        let id = job.id;
        self.put_all(vec![job]).await;
        id
    }

    /// Enqueues jobs.
    pub async fn put_all(&self, jobs: Vec<NewJob>) {
        let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
        let call = || self.store.enqueue(request.clone(), None);
        windlass_engine::repeat(DEADLINE, call).await.expect("the store").expect("accepted");
    }

    /// How a job stands.
    pub async fn job(&self, id: JobId) -> JobView {
        let call = || self.store.job(id, None);
        windlass_engine::repeat(DEADLINE, call).await.expect("the store").expect("the job")
    }

    /// A job's log.
    pub async fn log(&self, id: JobId) -> Vec<Event> {
        let request = ReadEvents { job: id, after: 0, limit: 1_000, newest_first: false };
        windlass_engine::repeat(DEADLINE, || self.store.events(request, None)).await.expect("the store")
    }

    /// How often an event type stands in a job's log.
    pub async fn count(&self, id: JobId, type_name: &str) -> usize {
        self.log(id).await.iter().filter(|event| event.what.type_name() == type_name).count()
    }

    /// Waits until a job stands as wished.
    pub async fn until(&self, id: JobId, what: &str, wished: impl Fn(&JobView) -> bool) -> JobView {
        let mut hints = self.store.hints().feed;
        let looked = async {
            loop {
                let view = self.job(id).await;
                if wished(&view) {
                    return view;
                }
                let _ = timeout(Duration::from_millis(50), hints.changed()).await;
            }
        };
        match timeout(DEADLINE, looked).await {
            Ok(view) => view,
            Err(_) => panic!("never {what}: {:?}, {:?}", self.job(id).await, self.log(id).await),
        }
    }

    /// Waits until a job has this status.
    pub async fn until_is(&self, id: JobId, status: Status) -> JobView {
        self.until(id, status.as_str(), |view| view.job.status == status).await
    }

    /// Waits until a worker is on the list.
    pub async fn until_registered(&self) -> Vec<windlass_core::Worker> {
        let looked = async {
            loop {
                let workers = self.store.workers((), None).await.expect("the store");
                if !workers.is_empty() {
                    return workers;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(DEADLINE, looked).await.expect("a worker reports itself")
    }

    /// Signals a job.
    pub async fn signal(&self, id: JobId, name_of: &str, payload: &str) {
        let payload = Some(json(payload));
        let request = Signal { job: id, name: name(name_of), payload, actor: Actor::api(), key: None };
        self.store.signal(request, None).await.expect("the store").expect("signalled");
    }
}

/// A worker that runs beside the test.
pub struct Running {
    pub shutdown: Shutdown,
    pub health: watch::Receiver<Health>,
    task: JoinSet<Result<(), RunError>>,
}

impl Running {
    /// Starts a worker.
    pub fn start(worker: Worker) -> Self {
        let (shutdown, health) = (Shutdown::new(), worker.health());
        let mut task = JoinSet::new();
        task.spawn(worker.run(shutdown.clone()));
        Self { shutdown, health, task }
    }

    /// Ends it gracefully.
    pub async fn stop(mut self) {
        self.shutdown.graceful();
        self.ended().await;
    }

    /// Waits for its end.
    pub async fn ended(&mut self) {
        let ended = timeout(DEADLINE, self.task.join_next()).await.expect("the worker ends");
        ended.expect("a worker").expect("no panic").expect("a good end");
    }

    /// Drops it where it stands.
    pub async fn drop_it(mut self) {
        self.task.shutdown().await;
    }

    /// Waits until its health is as wished.
    pub async fn until_health(&mut self, what: &str, wished: impl FnMut(&Health) -> bool) {
        let reached = timeout(DEADLINE, self.health.wait_for(wished)).await;
        assert!(matches!(reached, Ok(Ok(_))), "never {what}");
    }
}

/// A handler from an async function that may use `?`.
pub fn handler<Fut>(run: impl Fn(Attempt) -> Fut + Clone + Send + Sync + 'static) -> Handler
where
    Fut: Future<Output = Result<Option<Payload>, HandlerError>> + Send + 'static,
{
    Handler::from_fn(run)
}

/// A plain job in the queue `default`.
pub fn new_job(kind: &str) -> NewJob {
    let facts = Facts::new(name(kind), name("default"));
    NewJob { id: fresh::job_id(), facts, payload: Some(json("{\"n\":1}")), parent_token: None }
}

pub fn name(text: &str) -> Name {
    Name::parse("name", text).expect("a name")
}

pub fn who(text: &str) -> Who {
    Who::parse("who", text).expect("a who")
}

pub fn json(text: &str) -> Payload {
    Payload::json("payload", text, 1 << 20).expect("JSON")
}

/// The code and the message of a job's last error.
pub fn error_of(view: &JobView) -> (String, String) {
    let (payload, _) = view.error.as_ref().expect("an error");
    let error: serde_json::Value = payload.parse().expect("JSON");
    let text = |key: &str| error[key].as_str().expect("text").to_owned();
    (text("code"), text("message"))
}

/// Counts how often it was dropped: what a handler held when its future went.
#[derive(Clone, Default)]
pub struct Bell(pub Arc<AtomicUsize>);

impl Bell {
    /// How often it rang.
    pub fn rang(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// One that rings when it is dropped.
    pub fn hang_up(&self) -> impl Drop + Send + use<> {
        struct Rope(Arc<AtomicUsize>);
        impl Drop for Rope {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::AcqRel);
            }
        }
        Rope(Arc::clone(&self.0))
    }
}

/// Where handlers wait: counts those that came, lets through as many as it is told, and rings when one is gone.
#[derive(Clone)]
pub struct Gate {
    pub came: Arc<AtomicUsize>,
    pub open: Arc<Semaphore>,
    pub bell: Bell,
}

impl Gate {
    /// One that is shut.
    pub fn new() -> Self {
        Self { came: Arc::default(), open: Arc::new(Semaphore::new(0)), bell: Bell::default() }
    }

    /// A handler that waits here.
    pub fn handler(&self) -> Handler {
        let gate = self.clone();
        handler(move |_| {
            let (gate, rope) = (gate.clone(), gate.bell.hang_up());
            async move {
                let _rope = rope;
                gate.came.fetch_add(1, Ordering::AcqRel);
                gate.open.acquire().await?.forget();
                Ok(None)
            }
        })
    }

    /// Waits until a handler waits here: claimed is not yet begun.
    pub async fn has_one(&self) {
        until("a handler at the gate", || self.came.load(Ordering::Acquire) > 0).await;
    }
}

/// Waits until something holds that no store can tell of.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let looked = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(timeout(DEADLINE, looked).await.is_ok(), "never {what}");
}

/// Runs a test that waits, on as many threads as a server would have.
pub fn wait_for<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Runs each test on every store. The tests stand inside as they would outside.
#[macro_export]
macro_rules! on_every_store {
    ($($(#[doc = $doc:literal])* #[test] async fn $name:ident($bed:ident: Bed) $body:block)*) => {
        $($(#[doc = $doc])* #[allow(clippy::unwrap_used, reason = "the body of a test")] async fn $name($bed: Bed) $body)*
        $crate::on_store!(memory: $($name)*);
        $crate::on_store!(sqlite: $($name)*);
        $crate::on_store!(postgres: $($name)*);
    };
}

/// Runs tests on one store.
#[macro_export]
macro_rules! on_store {
    ($store:ident: $($name:ident)*) => {
        mod $store {
            $(#[test]
            fn $name() {
                $crate::bed::wait_for(async { super::$name($crate::bed::Bed::$store().await).await });
            })*
        }
    };
}
