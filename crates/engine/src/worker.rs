//! The worker: a process's part in the work, from its queues and handlers to its end.

use crate::consume::{Consumer, Deliveries};
use crate::engine::{self, Opener, Parts};
use crate::handler::{BoxError, Handler, Handlers};
use crate::health::{Board, Health};
use crate::holdings::Holdings;
use crate::lanes::Lines;
use crate::leases::Leases;
use crate::mirror::LeaseMirror;
use crate::offer::Offers;
use crate::policy::{LivePolicies, Policies, Policy};
use crate::profile::Profile;
use crate::reach::Reach;
use crate::shutdown::{Ending, Shutdown};
use crate::start::{Abandons, RunError, on_own_thread};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tower::{Layer, Service};
use windlass_core::lease::hex;
use windlass_core::limits::{Invalid, LEASE_MAX_MS};
use windlass_core::{LeaseMs, Metadata, Name, Payload, Who};
use windlass_store::work::{self, Work};
use windlass_store::{Store, fresh};

/// How often an idle worker looks without being told to.
const POLL: Duration = Duration::from_secs(1);

/// A worker: takes jobs from queues and runs handlers.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use windlass_engine::{Handler, HandlerError, Shutdown, Worker};
/// # use windlass_memory::MemoryStore;
/// # let runtime = tokio::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let echo = Handler::from_fn(|attempt| async move { Ok::<_, HandlerError>(attempt.payload().cloned()) });
/// let worker = Worker::new(Arc::new(MemoryStore::new())).queue("mail", 32).handle("email.send", echo);
/// # let ctrl_c = async {};
/// worker.run_until(ctrl_c).await.unwrap();
/// # });
/// ```
pub struct Worker {
    source: Arc<dyn Work>,
    store: Option<Arc<dyn Store>>,
    renewal_store: Option<Opener>,
    offers: Offers,
    schedules: bool,
    mirrors: Vec<Arc<dyn LeaseMirror>>,
    deliveries: Option<Arc<dyn Deliveries>>,
    queues: Vec<(Name, usize)>,
    handlers: Handlers,
    policies: Policies,
    lease: LeaseMs,
    name: String,
    labels: Metadata,
    shutdown_deadline: Duration,
    cancel_grace: Duration,
    poll: Duration,
    health: watch::Sender<Health>,
    /// The first thing that was outside its limits; told when the worker is run.
    invalid: Option<Invalid>,
}

impl Worker {
    /// A worker on a store, with nothing to do yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store: Some(Arc::clone(&store)), ..Self::through(work::on(store)) }
    }

    /// A worker on what has only the verbs that a worker needs, such as a server. Deadlines, the policies of queues and the
    /// quick word of a cancel are left to it.
    pub fn through(source: Arc<dyn Work>) -> Self {
        Self {
            source,
            store: None,
            renewal_store: None,
            offers: Offers::default(),
            schedules: false,
            mirrors: Vec::new(),
            deliveries: None,
            queues: Vec::new(),
            handlers: Handlers::new(),
            policies: Policies::new(),
            lease: LeaseMs::DEFAULT,
            name: format!("worker-{}", std::process::id()),
            labels: Metadata::new(),
            shutdown_deadline: Duration::from_secs(25),
            cancel_grace: Duration::from_secs(10),
            poll: POLL,
            health: watch::Sender::new(Health::Starting),
            invalid: None,
        }
    }

    fn check<T>(&mut self, checked: Result<T, Invalid>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(invalid) => {
                self.invalid.get_or_insert(invalid);
                None
            }
        }
    }

    /// Takes from this queue, up to so many jobs at once and at least one. Named again, the number is replaced. Queues
    /// are asked in the order they were named.
    #[must_use]
    pub fn queue(mut self, name: impl AsRef<str>, concurrency: usize) -> Self {
        if let Some(name) = self.check(Name::parse("queue", name)) {
            match self.queues.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = concurrency,
                None => self.queues.push((name, concurrency)),
            }
        }
        self
    }

    /// Runs jobs of this kind with this handler. Jobs of kinds without a handler are left to other workers. A second
    /// handler of one kind is an error when the worker is run.
    #[must_use]
    pub fn handle(mut self, kind: impl AsRef<str>, handler: Handler) -> Self {
        if let Some(kind) = self.check(Name::parse("kind", kind))
            && !self.handlers.insert(kind.clone(), handler)
        {
            let why =
                "has two handlers in one worker; give each kind one, or give the jobs kinds of their own";
            self.invalid.get_or_insert(Invalid::new("kind", kind, why));
        }
        self
    }

    /// Runs jobs of all other kinds with this handler.
    #[must_use]
    pub fn handle_any(mut self, handler: Handler) -> Self {
        self.handlers.insert_any(handler);
        self
    }

    /// Wraps the handlers that were given so far. The last layer is the outermost.
    #[must_use]
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Handler>,
        L::Service: Service<crate::Attempt, Response = Option<Payload>> + Send + 'static,
        <L::Service as Service<crate::Attempt>>::Error: Into<BoxError>,
        <L::Service as Service<crate::Attempt>>::Future: Send + 'static,
    {
        self.handlers.layer(&layer);
        self
    }

    /// How long a lease lasts, 30 s unless said otherwise and a day at most. Jobs are taken over so long after their worker died.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        let ms = match lease {
            Duration::MAX => LEASE_MAX_MS,
            lease => i64::try_from(lease.as_millis()).unwrap_or(i64::MAX),
        };
        if let Some(lease) = self.check(LeaseMs::new(ms)) {
            self.lease = lease;
        }
        self
    }

    /// What its identity begins with. The rest is fresh with every start, so that nobody is taken for a predecessor.
    #[must_use]
    pub fn identity(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Labels, beside its identity: for people, and for jobs of push queues that require them.
    #[must_use]
    pub fn labels(mut self, labels: Metadata) -> Self {
        self.labels = labels;
        self
    }

    /// How long jobs may go on after a graceful end was asked for, 25 s unless said otherwise: a
    /// supervisor usually ends a process by force after 30 s, and what does not finish needs a moment to be given back.
    #[must_use]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// How long a handler may go on after a cancel was requested, 10 s unless said otherwise.
    #[must_use]
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// How often an idle worker looks for jobs that nobody told it of, every second unless said otherwise; from 20 ms to a
    /// day. A store tells of jobs as they come: this is for what was enqueued without a word, such as by SQL, and for words
    /// that were lost.
    #[must_use]
    pub fn poll_every(mut self, pause: Duration) -> Self {
        self.poll = pause.clamp(Duration::from_millis(20), Duration::from_secs(86_400));
        self
    }

    /// What jobs of a kind fall back to.
    #[must_use]
    pub fn kind_policy(mut self, kind: impl AsRef<str>, policy: Policy) -> Self {
        let checked = policy.check();
        self.check(checked);
        if let Some(kind) = self.check(Name::parse("kind", kind)) {
            self.policies.set_kind(kind, policy);
        }
        self
    }

    /// What jobs of an agent fall back to.
    #[must_use]
    pub fn agent_policy(mut self, agent: impl AsRef<str>, policy: Policy) -> Self {
        let checked = policy.check();
        self.check(checked);
        if let Some(agent) = self.check(Who::parse("agent_id", agent)) {
            self.policies.set_agent(agent, policy);
        }
        self
    }

    /// What all jobs fall back to.
    #[must_use]
    pub fn default_policy(mut self, policy: Policy) -> Self {
        let checked = policy.check();
        self.check(checked);
        self.policies.set_default(policy);
        self
    }

    /// Renews through a store of its own, opened on the engine's thread. For stores whose connections live on the
    /// caller's runtime, such as PostgreSQL: there, handlers that block every thread hold up whatever goes through the
    /// worker's own store, and renewals must not wait. Until it is open, which is tried until it works, they go through
    /// the worker's store.
    #[must_use]
    pub fn renew_through<F, Fut>(mut self, open: F) -> Self
    where
        F: FnOnce() -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<Arc<dyn Store>, BoxError>> + Send + 'static,
    {
        self.renewal_store = Some(Box::new(move || Box::pin(open.clone()())));
        self
    }

    /// Where it says that it waits for a job, so that who enqueues in this process can put one into its hands. A queue
    /// where two or more may run at once takes such a job out of turn; the last free place is kept for jobs in their
    /// turn, so one that runs a job at a time runs all of them in order.
    #[must_use]
    pub fn offers(mut self, offers: Offers) -> Self {
        self.offers = offers;
        self
    }

    /// Whether it also leads, for programs without a server: fires schedules, assigns the jobs of push queues and does all
    /// else of `LedServices`. Of all that would, one does, servers before workers.
    #[must_use]
    pub fn schedules(mut self, fires: bool) -> Self {
        self.schedules = fires;
        self
    }

    /// Where it shows its leases beside the store, such as `RedisLeases`. Nothing depends on it.
    #[must_use]
    pub fn leases_in(mut self, mirror: Arc<dyn LeaseMirror>) -> Self {
        self.mirrors.push(mirror);
        self
    }

    /// Runs jobs out of their turn as messages of a broker name them, beside those that it takes in turn: a job is claimed
    /// by its id as soon as a place is free. A message is acknowledged when the attempt that it led to has ended, or when it
    /// has nothing to say any more: the job has ended, waits, is for later, or somebody lives who runs it. What names no job
    /// that this worker could ever run is set aside.
    ///
    /// The store owns the job: a message says when it is taken and never whether it is, so one that is lost, or comes twice,
    /// changes nothing but that.
    #[must_use]
    pub fn consume(mut self, deliveries: Arc<dyn Deliveries>) -> Self {
        self.deliveries = Some(deliveries);
        self
    }

    /// The handlers that were given, with their layers.
    pub fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    /// How the worker stands, to be watched while it runs.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Runs until `end` comes, then ends gracefully.
    ///
    /// # Errors
    /// If the worker cannot start.
    pub async fn run_until(self, end: impl Future<Output = ()> + Send) -> Result<(), RunError> {
        let shutdown = Shutdown::new();
        let running = std::pin::pin!(self.run(shutdown.clone()));
        let asked = async {
            end.await;
            shutdown.graceful();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = running => ended,
            () = asked => Ok(()),
        }
    }

    /// Runs until it is told to end. Dropping what this returns ends the worker at once, in the background.
    ///
    /// # Errors
    /// If the worker cannot start.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), RunError> {
        let abandoned = Shutdown::new();
        let ended = self.start(shutdown, abandoned.clone())?;
        let _abandons = Abandons(abandoned);
        let died = |_| {
            RunError::Thread(
                "it panicked, which is a bug; its jobs are taken up when their leases are over".into(),
            )
        };
        ended.await.map_err(died)
    }

    fn start(self, asked: Shutdown, abandoned: Shutdown) -> Result<oneshot::Receiver<()>, RunError> {
        on_own_thread(self.engine(asked, abandoned)?)
    }

    /// The engine room, to be driven on one thread.
    pub(crate) fn engine(
        self,
        asked: Shutdown,
        abandoned: Shutdown,
    ) -> Result<impl Future<Output = ()> + Send + 'static, RunError> {
        if let Some(invalid) = self.invalid {
            return Err(invalid.into());
        }
        if self.queues.is_empty() {
            return Err(RunError::NoQueue);
        }
        if self.handlers.is_empty() {
            return Err(RunError::NoHandler);
        }
        let identity = Who::parse("identity", format!("{}-{}", self.name, hex(&fresh::random::<6>())))?;
        let (settles, ended) = mpsc::unbounded_channel();
        let lines = Arc::new(Lines::new(self.queues));
        let reach = Reach {
            source: self.source,
            store: self.store,
            renewal_store: OnceLock::new(),
            runtime: Handle::current(),
            health: Board::new(self.health),
        };
        let profile = Profile {
            identity,
            labels: self.labels,
            kinds: self.handlers.kinds(),
            handlers: self.handlers,
            lease: self.lease,
            cancel_grace: self.cancel_grace,
            poll: self.poll,
        };
        let consumer = self.deliveries.map(|deliveries| {
            let queues = lines.iter().map(|line| line.queue.clone()).collect();
            Arc::new(Consumer::new(deliveries, queues, profile.kinds.clone(), lines.capacity()))
        });
        let mut mirrors = self.mirrors;
        mirrors.extend(consumer.clone().map(|consumer| consumer as Arc<dyn LeaseMirror>));
        let holdings = Holdings::new(Leases::shown_in(mirrors), lines.capacity(), settles);
        let parts = Parts {
            reach: Arc::new(reach),
            holdings: Arc::new(holdings),
            profile: Arc::new(profile),
            lines,
            policies: Arc::new(LivePolicies::new(self.policies)),
            offers: self.offers,
            consumer,
            ending: Ending { asked, abandoned },
            shutdown_deadline: self.shutdown_deadline,
            schedules: self.schedules,
        };
        Ok(engine::run(parts, ended, self.renewal_store))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queues", &self.queues).finish_non_exhaustive()
    }
}
