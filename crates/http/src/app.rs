//! What all requests share.

use crate::body::Patience;
use crate::claim::ClaimQueue;
use crate::feed::Hub;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::now::LastLook;
use crate::pass::Passes;
use crate::presence::Presence;
use crate::session::Sessions;
use crate::throttle::{Limits, Throttle};
use crate::writes::Writes;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use windlass_core::LeaseMs;
use windlass_engine::archive::Archive;
use windlass_engine::service::{LiveSettings, QueuePolicies};
use windlass_engine::{Level, Policies, Shutdown};
use windlass_store::{Store, StoreError, StoreResult};

/// How often a lost answer is asked for again before the caller is told.
const TRIES: usize = 3;
/// The pause before.
const PAUSE: Duration = Duration::from_millis(50);

/// What all requests share.
pub(crate) struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gate: Gate,
    pub(crate) sessions: Sessions,
    pub(crate) passes: Passes,
    pub(crate) throttle: Throttle,
    pub(crate) presence: Presence,
    pub(crate) hub: Arc<Hub>,
    pub(crate) desk: ClaimQueue,
    pub(crate) defaults: QueuePolicies,
    pub(crate) settings: LiveSettings,
    pub(crate) metrics: Metrics,
    pub(crate) writes: Writes,
    /// How everything stood when somebody asked last.
    pub(crate) last_look: LastLook,
    /// Somebody showed a lease that is over: perhaps its deadline has passed and is not on record.
    pub(crate) overdue: Arc<Notify>,
    pub(crate) patience: Patience,
    /// Where finished jobs are kept once they left the store.
    pub(crate) archive: Option<Arc<dyn Archive>>,
    /// How long a lease lasts when neither its holder nor the settings say.
    lease_ms: LeaseMs,
    /// How often a silent stream says that it is there.
    pub(crate) comment_every: Duration,
    /// When streams and waiting claims end.
    pub(crate) ending: Shutdown,
    /// This server leads no more, and another can.
    pub(crate) resigned: Notify,
    /// Rings when there is a new operation.
    pub(crate) operations: Arc<Notify>,
    /// No job is with an endpoint any more.
    pub(crate) drained: Notify,
    is_loopback: AtomicBool,
}

impl App {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        patience: Patience,
        comment_every: Duration,
        limits: Limits,
        lease_ms: LeaseMs,
    ) -> Self {
        Self {
            gate: Gate::new(Arc::clone(&store)),
            sessions: Sessions::new(Arc::clone(&store)),
            passes: Passes::default(),
            throttle: Throttle::new(limits),
            presence: Presence::default(),
            hub: Arc::new(Hub::new(Arc::clone(&store))),
            desk: ClaimQueue::new(Arc::clone(&store)),
            defaults: QueuePolicies::default(),
            settings: LiveSettings::new(Arc::clone(&store)),
            metrics: Metrics::new(),
            writes: Writes::default(),
            last_look: LastLook::default(),
            overdue: Arc::default(),
            patience,
            archive: None,
            lease_ms,
            comment_every,
            ending: Shutdown::new(),
            resigned: Notify::new(),
            operations: Arc::default(),
            drained: Notify::new(),
            is_loopback: AtomicBool::new(false),
            store,
        }
    }

    /// What jobs fall back to by their queue, now.
    pub(crate) async fn policies(&self) -> StoreResult<Arc<Policies>> {
        self.defaults.now(|| self.store.queue_settings((), None)).await
    }

    /// How long a lease lasts when its holder does not say.
    pub(crate) async fn lease_ms(&self) -> LeaseMs {
        self.settings.now().await.default_lease_ms.unwrap_or(self.lease_ms)
    }

    /// Whether only this machine can reach the server.
    pub(crate) fn is_loopback(&self) -> bool {
        self.is_loopback.load(Ordering::Acquire)
    }

    /// Says whether only this machine can reach the server.
    pub(crate) fn set_loopback(&self, is_loopback: bool) {
        self.is_loopback.store(is_loopback, Ordering::Release);
    }

    /// Whether streams and waiting claims are to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.level() >= Level::Graceful
    }
}

/// Calls a verb, and again while its answer is lost: what a request was given by this server (an id, a key) its sender
/// could not repeat. `call` must send the very same request each time.
pub(crate) async fn known<T, F>(mut call: impl FnMut() -> F) -> StoreResult<T>
where
    F: Future<Output = StoreResult<T>>,
{
    let mut tries = 1;
    let mut lost = None;
    loop {
        match call().await {
            Err(error @ StoreError::Indeterminate(_)) if tries < TRIES => lost = Some(error),
            // It may have happened the first time, whatever became of the second.
            Err(_) if lost.is_some() && tries < TRIES => {}
            Err(error) => return Err(lost.unwrap_or(error)),
            answer => return answer,
        }
        tries += 1;
        tokio::time::sleep(PAUSE).await;
    }
}
