//! The engine room: one thread per worker, where everything but the handlers runs, and what its parts share.

use crate::claim::{self, give_back};
use crate::control::Standing;
use crate::due_timers::DueTimers;
use crate::handler::{BoxError, Handlers};
use crate::health::Board;
use crate::lanes::Line;
use crate::leases::Leases;
use crate::metrics::Metrics;
use crate::offer::Offers;
use crate::policy::{Policies, Policy};
use crate::repeat::Pause;
use crate::run::at;
use crate::service::{Dispatcher, Leader, Scheduler, Sweeper, TriggerProcessor};
use crate::settle::{self, Ended};
use crate::shutdown::{Level, Shutdown};
use crate::task::{inside, keep, panic_message};
use crate::{cancels, health, heartbeat, register};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, timeout};
use windlass_core::{LeaseMs, Metadata, Name, Who};
use windlass_store::Store;
use windlass_store::work::Work;

/// How long handlers have to be dropped, and what they held to be given back, when a worker ends at once.
const LAST: Duration = Duration::from_secs(2);

/// The most leases beyond those that run before nothing more is taken: claimed ahead, and outcomes that wait for the
/// store.
const AHEAD_MAX: usize = 2_000;

/// What the parts of a worker share.
pub(crate) struct Shared {
    /// Where jobs are claimed, renewed and settled.
    pub(crate) source: Arc<dyn Work>,
    /// The whole store, for what a worker does besides: deadlines, queues' policies, cancels. None through a server, which
    /// does these itself.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// A store of the heart's own, opened on the engine's thread; until it is, renewals go through the other.
    pub(crate) renewal_store: OnceLock<Arc<dyn Store>>,
    pub(crate) identity: Who,
    pub(crate) labels: Metadata,
    /// Whether it fires schedules and assigns jobs when it leads.
    pub(crate) schedules: bool,
    pub(crate) lines: Vec<Arc<Line>>,
    pub(crate) handlers: Handlers,
    pub(crate) kinds: Vec<Name>,
    pub(crate) lease: LeaseMs,
    pub(crate) cancel_grace: Duration,
    pub(crate) shutdown_deadline: Duration,
    /// Where handlers run.
    pub(crate) handlers_on: Handle,
    pub(crate) leases: Leases,
    pub(crate) metrics: Metrics,
    pub(crate) health: Board,
    /// Where this worker says that it waits.
    pub(crate) offers: Offers,
    /// There may be room for a claim.
    pub(crate) work: Notify,
    /// There may be a deadline that has passed.
    pub(crate) sweep: Arc<Notify>,
    /// When jobs that this worker let go are due again.
    pub(crate) soon: DueTimers,
    /// Replaced as a whole when the store's defaults change; read once per claim.
    pub(crate) policies: RwLock<Arc<Policies>>,
    pub(crate) draining: AtomicBool,
    /// Whether nothing was taken because too much waits for the store.
    pub(crate) choked: AtomicBool,
    pub(crate) settles: UnboundedSender<Ended>,
    /// The caller's word to end, which may concern other workers too.
    pub(crate) asked: Shutdown,
    /// This worker's own: nobody waits for it any more.
    pub(crate) abandoned: Shutdown,
}

impl Shared {
    /// Asks the store. What the store spawns for it lives on the caller's runtime, as for all others who use this
    /// store: connections that it opens there outlive this worker.
    pub(crate) async fn ask<T>(&self, call: impl Future<Output = T>) -> T {
        inside(&self.handlers_on, call).await
    }

    /// Hands an attempt's end to whoever settles.
    pub(crate) fn settle(&self, ended: Ended) {
        if let Err(unsent) = self.settles.send(ended) {
            let job = unsent.0.attempt.job_id();
            tracing::warn!(%job, "the worker has ended; the job is taken up when its lease is over");
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.asked.level().max(self.abandoned.level())
    }

    /// Waits until the end has come this far.
    pub(crate) async fn ending(&self, level: Level) {
        tokio::select! {
            () = self.asked.reached(level) => {}
            () = self.abandoned.reached(level) => {}
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.lines.iter().map(|line| line.concurrency).sum()
    }

    /// Whether too much waits for the store to take more. Whoever is told so is woken when it is no longer true.
    pub(crate) fn is_choked(&self) -> bool {
        let choked = || self.leases.len() > AHEAD_MAX + self.capacity();
        if !choked() {
            return false;
        }
        self.choked.store(true, Ordering::Release);
        // Looking again: it may have cleared between the two.
        choked()
    }

    /// Something was settled: there may be room again.
    pub(crate) fn clear(&self) {
        // Not later: while one batch is settled the next is to be claimed, so that the store always has both to do.
        if self.choked.load(Ordering::Acquire) && self.leases.len() <= AHEAD_MAX + self.capacity() {
            self.choked.store(false, Ordering::Release);
            self.work.notify_one();
        }
    }

    pub(crate) fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.policies.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over the queues' defaults as the store has them.
    pub(crate) fn learn(&self, queues: impl IntoIterator<Item = (Name, Policy)>) {
        let mut policies = Policies::clone(&self.policies());
        policies.set_queues(queues);
        *self.policies.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policies);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Whether an operator wants it to take no more: then what has not begun goes back.
    pub(crate) fn set_draining(&self, draining: bool) {
        if self.draining.swap(draining, Ordering::AcqRel) == draining {
            return;
        }
        self.health.set_drained(draining);
        if draining {
            tracing::info!(worker = %self.identity, "drained by an operator: nothing new is taken");
            self.give_back_unbegun();
        } else {
            tracing::info!(worker = %self.identity, "no longer drained: jobs are taken again");
        }
        // Whoever claims withdraws what it offers, or looks again.
        self.work.notify_one();
    }

    fn give_back_unbegun(&self) {
        for line in &self.lines {
            give_back(self, line.take_back(None));
        }
    }
}

/// Opens a store on the engine's own thread.
pub(crate) type Opener = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Store>, BoxError>> + Send>;

/// Runs a worker until it is to end, and then ends it.
pub(crate) async fn run(
    shared: Arc<Shared>,
    mut ended: UnboundedReceiver<Ended>,
    renewal_store: Option<Opener>,
) {
    let again = || Arc::clone(&shared);
    tokio::select! {
        // All of these end with the worker and not before; the order says who goes first when several are ready.
        biased;
        () = keep("heartbeat", || heartbeat::renew(again())) => {}
        () = keep("watch", || heartbeat::watch(again())) => {}
        () = work_and_end(&shared) => {}
        () = settle_all(&shared, &mut ended) => {}
        () = open_apart(&shared, renewal_store) => {}
        () = keep("cancels", || cancels::watch(again())) => {}
        () = keep("register", || register::run(again())) => {}
        () = keep("sweeper", || sweep(again())) => {}
        () = keep("schedules", || schedules(again())) => {}
    }
    let forgotten = shared.ask(shared.source.remove_worker(shared.identity.clone()));
    if !matches!(timeout(LAST, forgotten).await, Ok(Ok(()))) {
        tracing::debug!(worker = %shared.identity, "the worker could not take its name off the list; it expires there");
    }
    shared.health.stopped();
}

/// Looks at deadlines as long as the worker lives.
async fn sweep(shared: Arc<Shared>) {
    let Some(store) = shared.store.clone() else { return std::future::pending().await };
    let sweeper = Sweeper::new(store).overdue(Arc::clone(&shared.sweep)).asks_on(shared.handlers_on.clone());
    let sweeper = sweeper.heard(move |looked| match looked {
        Ok(()) => shared.health.answered(health::Line::Work),
        Err(error) => shared.health.failed(health::Line::Work, &error),
    });
    sweeper.run(Shutdown::new()).await;
}

/// Fires schedules, assigns jobs of push queues and processes kept events of triggers while this worker leads, if it was told to.
async fn schedules(shared: Arc<Shared>) {
    if shared.schedules
        && let Some(store) = &shared.store
    {
        let leader = Leader::new(Arc::clone(store), shared.identity.clone());
        let scheduler = Scheduler::new(Arc::clone(store), leader.leading());
        let dispatcher = Dispatcher::new(Arc::clone(store), leader.leading());
        let triggers = TriggerProcessor::new(Arc::clone(store), leader.leading());
        let asked = || shared.asked.clone();
        let all = async {
            tokio::join!(
                leader.run(asked()),
                scheduler.run(asked()),
                dispatcher.run(asked()),
                triggers.run(asked())
            )
        };
        inside(&shared.handlers_on, all).await;
    }
    std::future::pending().await
}

/// Opens the heart's own store, again until it works.
async fn open_apart(shared: &Shared, open: Option<Opener>) {
    let Some(open) = open else { return std::future::pending().await };
    let mut pause = Pause::default();
    let mut told = false;
    while shared.renewal_store.get().is_none() {
        let opened = AssertUnwindSafe(open()).catch_unwind().await;
        match opened.unwrap_or_else(|panic| Err(panic_message(&*panic).into())) {
            Ok(store) => _ = shared.renewal_store.set(store),
            Err(error) => {
                if !told {
                    tracing::warn!(%error, "the store for renewals does not open; it is tried again until it does");
                    told = true;
                }
                tokio::time::sleep(pause.next()).await;
            }
        }
    }
    std::future::pending().await
}

async fn settle_all(shared: &Arc<Shared>, ended: &mut UnboundedReceiver<Ended>) {
    // What a panic takes with it is taken up when its lease is over.
    let ended = tokio::sync::Mutex::new(ended);
    keep("settle", || async { settle::run(Arc::clone(shared), *ended.lock().await).await }).await;
}

/// Claims; when it is time to end, lets finish what runs, and gives back what does not finish in time.
async fn work_and_end(shared: &Arc<Shared>) {
    let deadline = async {
        shared.ending(Level::Graceful).await;
        Instant::now().checked_add(shared.shutdown_deadline)
    };
    let ((), deadline) = tokio::join!(claim_until_the_end(shared), deadline);
    shared.health.stop();
    shared.give_back_unbegun();
    for attempt in shared.leases.running() {
        attempt.control().stop();
    }
    tokio::select! {
        () = shared.leases.emptied() => return,
        () = at(deadline) => {}
        () = shared.ending(Level::Now) => {}
    }
    let running = shared.leases.running();
    tracing::info!(worker = %shared.identity, running = running.len(), "ending: what still runs is given back");
    for attempt in running {
        // The runner drops the handler and only then gives the job back.
        attempt.control().move_to(Standing::GivenBack);
    }
    if timeout(LAST, shared.leases.emptied()).await.is_err() {
        let held = shared.leases.len();
        tracing::warn!(
            held,
            "some jobs could not be given back; they are taken up when their leases are over"
        );
    }
}

/// A claim under way is heard to its end, because it may bring jobs, but it does not keep a worker for ever.
async fn claim_until_the_end(shared: &Arc<Shared>) {
    let enough = async {
        shared.ending(Level::Graceful).await;
        tokio::select! {
            () = tokio::time::sleep(shared.shutdown_deadline) => {}
            () = shared.ending(Level::Now) => {}
        }
        tokio::time::sleep(LAST).await;
    };
    tokio::select! {
        () = keep("claim", || claim::run(Arc::clone(shared))) => {}
        () = enough => tracing::warn!("a claim was not answered; what it may have brought is taken up by others"),
    }
}
