//! What jobs fall back to by their queue, as the store has it, read now and then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_engine::Policies;
use windlass_store::{Store, StoreResult};

/// How long what was read is trusted: another server's change takes effect within it.
const TRUSTED: Duration = Duration::from_secs(10);

/// The defaults of queues.
pub(crate) struct Defaults {
    store: Arc<dyn Store>,
    /// A blocking lock: it is held for a look or an assignment.
    known: Mutex<Option<(Instant, Arc<Policies>)>>,
    /// An async lock: one asks, the others wait for the answer.
    asking: tokio::sync::Mutex<()>,
}

impl Defaults {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    /// The policies now.
    pub(crate) async fn now(&self) -> StoreResult<Arc<Policies>> {
        if let Some(policies) = self.known() {
            return Ok(policies);
        }
        let _turn = self.asking.lock().await;
        if let Some(policies) = self.known() {
            return Ok(policies);
        }
        let asked_at = Instant::now();
        let mut policies = Policies::new();
        // The counts are not asked for: one job per queue is enough.
        let queues = self.store.queues(1, None).await?;
        policies.set_queues(queues.into_iter().map(|state| (state.queue.name, state.queue.defaults)));
        let policies = Arc::new(policies);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((asked_at, Arc::clone(&policies)));
        Ok(policies)
    }

    fn known(&self) -> Option<Arc<Policies>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|(at, _)| at.elapsed() < TRUSTED).map(|(_, policies)| policies)
    }

    /// Forgets what was read: it has changed.
    pub(crate) fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
