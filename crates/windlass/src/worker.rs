//! A worker with typed handlers: from bytes to a job, from an output to bytes, around the engine's own.

use crate::client::Client;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::value::{encode, read};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tower::{Layer, Service};
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::{Metadata, Name, Payload};
use windlass_engine::{Attempt, BoxError, Handler, HandlerError, Handlers, Health, RunError, Shutdown};

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
}

impl Worker<()> {
    /// A worker on the client's store, with nothing to do yet.
    pub fn new(client: Client) -> Self {
        let inner =
            windlass_engine::Worker::new(Arc::clone(client.store())).offers(client.inner.offers.clone());
        let state = Arc::new(());
        Self { client, state, inner, queues: Vec::new(), handlers: Vec::new(), wraps: Vec::new() }
    }

    /// The program's own state: connections, settings, whatever handlers need. They find it with
    /// [`Context::state`](crate::Context::state). Handlers that are given after this get it.
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> Worker<S> {
        let Self { client, state: _, inner, queues, handlers, wraps } = self;
        Worker { client, state: Arc::new(state), inner, queues, handlers, wraps }
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

    /// Runs jobs of a type with an async function. Jobs of kinds without a handler are left to other workers.
    ///
    /// A payload that does not read as the type, and an output that is too large, fail the job for good, with the reason.
    pub fn handle<J, F, Fut>(mut self, handler: F) -> Self
    where
        J: Job,
        F: Fn(J, Context<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<J::Output, HandlerError>> + Send + 'static,
    {
        let parts = Arc::new((handler, Arc::clone(&self.state), self.client.clone()));
        let run = move |attempt: Attempt| {
            let parts = Arc::clone(&parts);
            async move {
                let (handler, state, client) = &*parts;
                let job = payload::<J>(&attempt)?;
                let ctx = Context::new(attempt, Arc::clone(state), client.clone());
                let output = handler(job, ctx.clone()).await?;
                #[cfg(feature = "postgres")]
                crate::tx::check_committed(&ctx).await?;
                result(&output)
            }
        };
        self.handlers.push((J::KIND.to_owned(), Handler::from_fn(run)));
        self
    }

    /// Runs jobs of a kind with a handler on bytes, for instance any [`tower::Service`] through `Handler::new`.
    pub fn handle_raw(mut self, kind: &str, handler: Handler) -> Self {
        self.handlers.push((kind.to_owned(), handler));
        self
    }

    /// Wraps every handler, also those that are given later, in a layer of tower. The last layer is the outermost.
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
        L::Service: Service<Attempt, Response = Option<Payload>> + Clone + Send + Sync + 'static,
        <L::Service as Service<Attempt>>::Error: Into<BoxError>,
        <L::Service as Service<Attempt>>::Future: Send + 'static,
    {
        self.wraps.push(Box::new(move |handler| handler.layer(&layer)));
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

    /// Labels for people, beside its identity.
    pub fn labels(self, labels: Metadata) -> Self {
        self.with(|worker| worker.labels(labels))
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

fn payload<J: Job>(attempt: &Attempt) -> Result<J, HandlerError> {
    read("the payload", attempt.payload()).map_err(|e: HandlerError| e.code("payload_unreadable"))
}

fn result(output: &impl serde::Serialize) -> Result<Option<Payload>, HandlerError> {
    let payload = encode("the result", output, PAYLOAD_MAX_BYTES)?;
    // Nothing is not worth a result: it reads back from its absence.
    Ok((payload.as_bytes() != b"null").then_some(payload))
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Invalid(invalid) => Self::Invalid(invalid),
            other => Self::Worker(other.to_string()),
        }
    }
}

impl<S> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queues", &self.queues).finish_non_exhaustive()
    }
}
