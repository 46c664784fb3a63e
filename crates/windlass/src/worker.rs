//! A worker with typed handlers: from bytes to a job, from an output to bytes, around the engine's own.

mod hook;

pub use hook::HandlerEnd;

use crate::batch::Batches;
use crate::client::Client;
use crate::context::Context;
use crate::enqueue::PAYLOAD_VERSION;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::value::{encode, read};
use hook::{EndHook, Ended};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tower::{Layer, Service, ServiceExt};
use windlass_core::undo::undo_kind;
use windlass_core::{Metadata, Name, Payload};
use windlass_engine::{Attempt, BoxError, Handler, HandlerError, Handlers, Health, Replay, Shutdown};

/// What becomes of a job whose payload this program cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnUnreadable {
    /// It fails for good, with the code `payload_unreadable`.
    #[default]
    Fail,
    /// It is left to another worker, and comes back after this time if none took it: right while an older program and a newer
    /// one run side by side.
    Release(Duration),
}

type Wrap = Box<dyn Fn(Handler) -> Handler + Send + Sync>;

/// Takes jobs from queues and runs handlers. `S` is the program's own state, which every handler is given.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Context, Job, Worker};
///
/// #[derive(Serialize, Deserialize)]
/// struct Greet {
///     name: String,
/// }
/// impl Job for Greet {
///     const KIND: &str = "greet";
///     type Output = String;
/// }
/// struct App {
///     greeting: &'static str,
/// }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let client = windlass::connect("memory:").await?;
/// let sent = client.enqueue(Greet { name: "Ada".into() }).await?;
/// let worker = Worker::new(client.clone())
///     .state(App { greeting: "hello" })
///     .queue("default", 4)
///     .handle(|job: Greet, ctx: Context<App>| async move { Ok(format!("{} {}", ctx.state().greeting, job.name)) });
/// let done = async {
///     assert_eq!(client.wait::<Greet>(sent.id).await.unwrap(), "hello Ada");
/// };
/// worker.run_until(done).await?;
/// # Ok::<_, windlass::Error>(()) }).unwrap();
/// ```
#[must_use = "nothing runs before `run` or `run_until`"]
pub struct Worker<S = ()> {
    pub(crate) client: Client,
    state: Arc<S>,
    inner: windlass_engine::Worker,
    queues: Vec<String>,
    handlers: Vec<(String, Handler)>,
    wraps: Vec<Wrap>,
    on_unreadable: OnUnreadable,
}

impl Worker<()> {
    /// A worker on the client's store, with nothing to do yet.
    pub fn new(client: Client) -> Self {
        let inner =
            windlass_engine::Worker::new(Arc::clone(client.store())).offers(client.inner.offers.clone());
        let state = Arc::new(());
        let (queues, handlers, wraps) = (Vec::new(), Vec::new(), Vec::new());
        Self { client, state, inner, queues, handlers, wraps, on_unreadable: OnUnreadable::Fail }
    }

    /// The program's own state: connections, settings, whatever handlers need. They find it with
    /// [`Context::state`](crate::Context::state). Handlers that are given after this get it.
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> Worker<S> {
        let Self { client, state: _, inner, queues, handlers, wraps, on_unreadable } = self;
        Worker { client, state: Arc::new(state), inner, queues, handlers, wraps, on_unreadable }
    }
}

impl<S: Send + Sync + 'static> Worker<S> {
    fn with(mut self, change: impl FnOnce(windlass_engine::Worker) -> windlass_engine::Worker) -> Self {
        self.inner = change(self.inner);
        self
    }

    /// Takes from this queue, up to so many jobs at once. Queues are asked in the order they were named.
    ///
    /// While nothing is to be done, a job of this worker's own client is handed over in the transaction that enqueues it. The
    /// last free place is kept for jobs in their turn, so with `1` all of them run in order.
    pub fn queue(mut self, name: &str, concurrency: usize) -> Self {
        self.queues.push(name.to_owned());
        self.with(|worker| worker.queue(name, concurrency))
    }

    /// Runs jobs out of their turn as messages of a broker name them, beside those that it takes in turn. The store owns the
    /// jobs: a message that is lost, or comes twice, changes only when one is taken. `windlass work --consume` does it with
    /// RabbitMQ; here any broker will do.
    pub fn consume(self, deliveries: Arc<dyn windlass_engine::Deliveries>) -> Self {
        self.with(|worker| worker.consume(deliveries))
    }

    /// Runs jobs of a type with an async function. Jobs of kinds without a handler are left to other workers.
    ///
    /// A payload that does not read as the type fails the job for good, unless [`Worker::on_unreadable`] says otherwise; so
    /// does an output that is too large. An older payload is given to [`Job::upgrade`] first.
    pub fn handle<J, F, Fut>(mut self, handler: F) -> Self
    where
        J: Job,
        F: Fn(J, Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<J::Output, HandlerError>> + Send + 'static,
    {
        let parts = Arc::new((handler, Arc::clone(&self.state), self.client.clone(), self.on_unreadable));
        let undo_parts = Arc::clone(&parts);
        let undo = move |own: Attempt| {
            let parts = Arc::clone(&undo_parts);
            async move {
                let (handler, state, client, on_unreadable) = &*parts;
                let Replay { attempt, undoable } = own.replay().await?;
                if undoable.is_empty() {
                    return Ok(None);
                }
                let job = payload::<J>(&attempt, *on_unreadable)?;
                let ctx = Context::new(attempt, Arc::clone(state), client.clone());
                crate::saga::unwind(&own, &ctx, &undoable, handler(job, ctx.clone())).await?;
                Ok(None)
            }
        };
        let run = move |attempt: Attempt| {
            let parts = Arc::clone(&parts);
            async move {
                let (handler, state, client, on_unreadable) = &*parts;
                let job = payload::<J>(&attempt, *on_unreadable)?;
                let ctx = Context::new(attempt, Arc::clone(state), client.clone());
                let output = handler(job, ctx.clone()).await?;
                #[cfg(feature = "postgres")]
                crate::tx::check_committed(&ctx).await?;
                result(&output, client.inner.limits.result_bytes)
            }
        };
        self.handlers.push((J::KIND.to_owned(), Handler::from_fn(run)));
        // A kind whose name is too long for this has no steps that can be undone, and says so there.
        if let Ok(kind) = Name::parse("kind", J::KIND).and_then(|kind| undo_kind(&kind)) {
            self.handlers.push((kind.into(), Handler::from_fn(undo)));
        }
        self
    }

    /// Runs jobs of a type with a function that blocks its thread, on tokio's pool for that. A cancel or the end of a worker
    /// does not stop such a function: look at [`Context::is_cancelled`](crate::Context::is_cancelled) now and then.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
    /// # #[job(kind = "thumbnail", output = u64)]
    /// # struct Thumbnail { width: u64 }
    /// # fn example(client: windlass::Client) -> Worker {
    /// Worker::new(client).queue("default", 4).handle_blocking(|job: Thumbnail, ctx: Context| {
    ///     let mut sum = 0;
    ///     for pixel in 0..job.width {
    ///         if ctx.is_cancelled() {
    ///             return Err(HandlerError::cancelled());
    ///         }
    ///         sum += pixel; // whatever takes long
    ///     }
    ///     Ok(sum)
    /// })
    /// # }
    /// ```
    pub fn handle_blocking<J, F>(self, handler: F) -> Self
    where
        J: Job,
        F: Fn(J, Context<S>) -> Result<J::Output, HandlerError> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.handle(move |job: J, ctx| {
            let handler = Arc::clone(&handler);
            async move {
                let span = tracing::Span::current();
                let blocking = move || span.in_scope(|| handler(job, ctx));
                let ended = tokio::task::spawn_blocking(blocking).await;
                ended.unwrap_or_else(|e| match e.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(e) => Err(HandlerError::retry(e)),
                })
            }
        })
    }

    /// Runs jobs of a type together: up to `max` of them in one call, or as many as came within `wait` of the first. The
    /// handler gives one outcome for each, in the same order. Let the queue run at least `max` at once, and wait for nothing
    /// inside: sleeps, signals and approvals belong to one job.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Context, HandlerError, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
    /// # #[job(kind = "row")]
    /// # struct Row { n: u64 }
    /// # async fn insert(rows: &[u64]) -> Result<(), std::io::Error> { Ok(()) }
    /// # fn example(client: windlass::Client) -> Worker {
    /// let handler = |jobs: Vec<(Row, Context)>| async move {
    ///     let rows: Vec<u64> = jobs.iter().map(|(row, _)| row.n).collect();
    ///     let inserted = insert(&rows).await;
    ///     jobs.iter().map(|_| inserted.as_ref().map(|()| ()).map_err(HandlerError::retry)).collect()
    /// };
    /// Worker::new(client).queue("default", 500).handle_batch(500, Duration::from_millis(20), handler)
    /// # }
    /// ```
    pub fn handle_batch<J, F, Fut>(self, max: usize, wait: Duration, handler: F) -> Self
    where
        J: Job,
        F: Fn(Vec<(J, Context<S>)>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Result<J::Output, HandlerError>>> + Send + 'static,
    {
        let parts = Arc::new((Batches::new(max, wait), handler));
        self.handle(move |job: J, ctx| {
            let parts = Arc::clone(&parts);
            async move {
                if ctx.attempt.is_replay() {
                    // Alone: it stops half-way, and nobody else must stop with it.
                    return Batches::new(1, Duration::ZERO).join(job, ctx, &parts.1).await;
                }
                parts.0.join(job, ctx, &parts.1).await
            }
        })
    }

    /// What becomes of jobs whose payload this program cannot read, for handlers that are given after this.
    pub fn on_unreadable(mut self, on_unreadable: OnUnreadable) -> Self {
        self.on_unreadable = on_unreadable;
        self
    }

    /// Runs jobs of a kind with a handler on bytes, for instance any [`tower::Service`] through `Handler::new`.
    pub fn handle_raw(mut self, kind: &str, handler: Handler) -> Self {
        self.handlers.push((kind.to_owned(), handler));
        self
    }

    /// Wraps every handler, also those that are given later, in a layer of tower. The last layer is the outermost.
    ///
    /// What the layer makes need not be `Clone`: the attempts of one kind share it, and wait for it in the order they came.
    /// So `tower::limit::RateLimitLayer` bounds how many jobs of each kind this worker begins in a time. An attempt that
    /// waits there holds its lease.
    ///
    /// ```
    /// # use windlass::{Attempt, Handler, Worker};
    /// # use std::time::Duration;
    /// # async fn example(client: windlass::Client) {
    /// // Logs how every attempt ends.
    /// let told = tower::util::MapFutureLayer::new(|attempt| async move {
    ///     let end = attempt.await;
    ///     println!("{end:?}");
    ///     end
    /// });
    /// let worker = Worker::new(client).queue("default", 8).layer(told);
    /// # }
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Handler> + Send + Sync + 'static,
        L::Service: Service<Attempt, Response = Option<Payload>> + Send + 'static,
        <L::Service as Service<Attempt>>::Error: Into<BoxError>,
        <L::Service as Service<Attempt>>::Future: Send + 'static,
    {
        self.wraps.push(Box::new(move |handler| handler.layer(&layer)));
        self
    }

    /// Calls a function whenever a handler begins.
    pub fn on_begin(mut self, hook: impl Fn(&Attempt) + Send + Sync + 'static) -> Self {
        let hook = Arc::new(hook);
        self.wraps.push(Box::new(move |handler| {
            let hook = Arc::clone(&hook);
            Handler::from_fn(move |attempt: Attempt| {
                hook(&attempt);
                handler.clone().oneshot(attempt)
            })
        }));
        self
    }

    /// Calls a function whenever a handler ends, with how it did.
    ///
    /// ```
    /// # use windlass::{HandlerEnd, Worker};
    /// # fn example(client: windlass::Client) -> Worker {
    /// Worker::new(client).queue("default", 8).on_end(|attempt, end| match end {
    ///     HandlerEnd::Failed(error) => eprintln!("{} of {}: {}", attempt.kind(), attempt.job_id(), error.message()),
    ///     _ => {}
    /// })
    /// # }
    /// ```
    pub fn on_end(mut self, hook: impl Fn(&Attempt, HandlerEnd<'_>) + Send + Sync + 'static) -> Self {
        let hook: EndHook = Arc::new(hook);
        self.wraps.push(Box::new(move |handler| {
            let hook = Arc::clone(&hook);
            Handler::from_fn(move |attempt: Attempt| {
                let (handler, mut ended) =
                    (handler.clone(), Ended { hook: Some(Arc::clone(&hook)), attempt });
                async move {
                    let end = handler.oneshot(ended.attempt.clone()).await;
                    ended.tell(end.as_ref().map_or_else(HandlerEnd::Failed, |_| HandlerEnd::Returned));
                    end
                }
            })
        }));
        self
    }

    /// How long a lease lasts, 30 s unless said otherwise: a dead worker's jobs are taken over so long after its last sign
    /// of life.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|worker| worker.lease(lease))
    }

    /// What its identity begins with. The rest is fresh with every start, so that nobody is taken for a predecessor.
    pub fn identity(self, name: &str) -> Self {
        self.with(|worker| worker.identity(name))
    }

    /// Labels, beside its identity: for people, and for jobs of push queues that require them.
    pub fn labels(self, labels: Metadata) -> Self {
        self.with(|worker| worker.labels(labels))
    }

    /// Shows its leases beside the store, such as in Redis with [`engine::RedisLeases`](crate::engine) (feature `redis`).
    /// Nothing depends on it.
    pub fn leases_in(self, mirror: Arc<dyn windlass_engine::LeaseMirror>) -> Self {
        self.with(|worker| worker.leases_in(mirror))
    }

    /// How long jobs may go on after an end was asked for, 25 s unless said otherwise: a supervisor usually ends a process by
    /// force after 30 s. Then they are given back without using a retry.
    pub fn shutdown_deadline(self, deadline: Duration) -> Self {
        self.with(|worker| worker.shutdown_deadline(deadline))
    }

    /// How long a handler may go on after a cancel was requested, 10 s unless said otherwise.
    pub fn cancel_grace(self, grace: Duration) -> Self {
        self.with(|worker| worker.cancel_grace(grace))
    }

    /// How often an idle worker looks for jobs that nobody told it of, every second unless said otherwise; from 20 ms to a
    /// day. A store tells of jobs as they come, and [`Client::nudge`] of those of a transaction of your own: this is for
    /// what was enqueued without a word, such as by SQL, and for words that were lost.
    pub fn poll_every(self, pause: Duration) -> Self {
        self.with(|worker| worker.poll_every(pause))
    }

    /// Whether it also leads, for programs without a server: fires schedules (see [`Client::schedule`]) and does all else that
    /// one process does for all, as stats, seals and retention, but sends to no subscription and knows no archive. Of all that
    /// would, one does at a time, servers before workers, and another takes over within ten seconds.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use std::time::Duration;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Tick;
    /// # impl windlass::Job for Tick { const KIND: &str = "tick"; type Output = (); }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// let (seen, mut ticks) = tokio::sync::mpsc::unbounded_channel();
    /// client.schedule("pulse").every(Duration::from_secs(1)).job(Tick).await?;
    /// let worker = windlass::Worker::new(client)
    ///     .queue("default", 1)
    ///     .schedules(true)
    ///     .handle(move |Tick, _ctx: windlass::Context| {
    ///         let seen = seen.clone();
    ///         async move { Ok(seen.send(())?) }
    ///     });
    /// worker.run_until(async move { ticks.recv().await; }).await?;
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub fn schedules(self, fires: bool) -> Self {
        self.with(|worker| worker.schedules(fires))
    }

    /// How the worker stands, to be watched while it runs: for a readiness probe.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.inner.health()
    }

    /// Runs until `end` comes, then takes nothing new, lets finish what runs, and returns.
    pub async fn run_until(self, end: impl Future<Output = ()> + Send) -> Result<()> {
        Ok(self.ready()?.run_until(end).await?)
    }

    /// Runs until it is told to end, gracefully or at once.
    ///
    /// ```no_run
    /// # async fn run(worker: windlass::Worker) -> Result<(), Box<dyn std::error::Error>> {
    /// // The first SIGTERM or Ctrl-C lets jobs finish, the second ends at once.
    /// worker.run(windlass::Shutdown::on_signals()?).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run(self, shutdown: Shutdown) -> Result<()> {
        Ok(self.ready()?.run(shutdown).await?)
    }

    /// The engine's worker, with everything this one was given.
    fn ready(self) -> Result<windlass_engine::Worker> {
        let handlers = self.wrapped();
        let fallbacks = &self.client.inner.fallbacks;
        let mut worker = self.inner.default_policy(fallbacks.default);
        for (kind, policy) in &fallbacks.kinds {
            worker = worker.kind_policy(kind, *policy);
        }
        for (agent, policy) in &fallbacks.agents {
            worker = worker.agent_policy(agent, *policy);
        }
        for (kind, handler) in handlers {
            worker = worker.handle(kind, handler);
        }
        if let Some(again) = self.client.inner.again.clone() {
            worker = worker.renew_through(move || async move {
                again.open().await.map_err(|e| BoxError::from(e.to_string()))
            });
        }
        Ok(worker)
    }

    fn wrapped(&self) -> Vec<(String, Handler)> {
        let wrap = |handler: &Handler| self.wraps.iter().fold(handler.clone(), |inner, wrap| wrap(inner));
        self.handlers.iter().map(|(kind, handler)| (kind.clone(), wrap(handler))).collect()
    }

    /// Its handlers by kind, layers included.
    pub(crate) fn handlers(&self) -> Result<Handlers> {
        let mut handlers = Handlers::new();
        for (kind, handler) in self.wrapped() {
            let kind = Name::parse("kind", kind)?;
            if !handlers.insert(kind.clone(), handler) {
                let why = "has two handlers in one worker; give each kind one";
                return Err(Error::Invalid(windlass_core::Invalid::new("kind", kind, why)));
            }
        }
        Ok(handlers)
    }

    /// Its queues, in order.
    pub(crate) fn queues(&self) -> Result<Vec<Name>> {
        Ok(self.queues.iter().map(|name| Name::parse("queue", name)).collect::<Result<_, _>>()?)
    }
}

fn payload<J: Job>(attempt: &Attempt, on_unreadable: OnUnreadable) -> Result<J, HandlerError> {
    let version = attempt.metadata().get(PAYLOAD_VERSION).and_then(serde_json::Value::as_u64).unwrap_or(1);
    let read = match u32::try_from(version) {
        Ok(version) if version == J::VERSION => read("the payload", attempt.payload()),
        Ok(older) if older < J::VERSION => {
            let value = read::<serde_json::Value>("the payload", attempt.payload())?;
            serde_json::from_value(J::upgrade(older, value)?).map_err(HandlerError::permanent)
        }
        _ => {
            let message =
                format!("the payload is of version {version}, and this program knows {}", J::VERSION);
            Err(HandlerError::permanent(message))
        }
    };
    match (read, on_unreadable) {
        (Err(_), OnUnreadable::Release(after)) => Err(HandlerError::snooze(after)),
        (read, _) => read.map_err(|e| e.code("payload_unreadable")),
    }
}

fn result(output: &impl serde::Serialize, max: usize) -> Result<Option<Payload>, HandlerError> {
    let payload = encode("the result", output, max)?;
    // Nothing is not worth a result: it reads back from its absence.
    Ok((payload.as_bytes() != b"null").then_some(payload))
}

impl<S> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queues", &self.queues).finish_non_exhaustive()
    }
}
