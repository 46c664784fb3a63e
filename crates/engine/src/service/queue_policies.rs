//! What jobs of queues fall back to, as the store has it, read again when it is older than a few seconds.

use crate::policy::Policies;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::{Queue, QueueMode};
use windlass_store::StoreResult;

/// How long what was read is trusted: another process's change takes effect within it.
const TRUSTED: Duration = Duration::from_secs(10);

/// A program's own policies, with what its store says of queues.
#[derive(Debug)]
pub struct QueuePolicies {
    own: Policies,
    trusted: Duration,
    /// A blocking lock: it is held for a look or an assignment.
    known: Mutex<Option<(Instant, Arc<Policies>)>>,
    /// Held while the store is asked: of a thousand callers that come at once, one asks.
    asking: tokio::sync::Mutex<()>,
}

impl Default for QueuePolicies {
    fn default() -> Self {
        Self::new(Policies::new())
    }
}

impl QueuePolicies {
    /// Beside what the program itself says.
    pub fn new(own: Policies) -> Self {
        Self { own, trusted: TRUSTED, known: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    /// Trusts what was read for so long, instead of ten seconds.
    #[must_use]
    pub fn trusted(mut self, trusted: Duration) -> Self {
        self.trusted = trusted;
        self
    }

    /// The policies now; `ask` reads what was said of queues from the store if that must be done.
    pub async fn now(
        &self,
        ask: impl AsyncFnOnce() -> StoreResult<Vec<Queue>>,
    ) -> StoreResult<Arc<Policies>> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let _asking = self.asking.lock().await;
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let asked_at = Instant::now();
        let mut policies = self.own.clone();
        let queues = ask().await?;
        let is_pushed = |queue: &&Queue| queue.mode == QueueMode::Push;
        policies.set_pushed(queues.iter().filter(is_pushed).map(|queue| queue.name.clone()));
        policies.set_queues(queues.into_iter().map(|queue| (queue.name, queue.defaults)));
        let policies = Arc::new(policies);
        *self.lock() = Some((asked_at, Arc::clone(&policies)));
        Ok(policies)
    }

    /// What is known and still trusted.
    pub fn known(&self) -> Option<Arc<Policies>> {
        let known = self.lock();
        known.as_ref().filter(|(at, _)| at.elapsed() < self.trusted).map(|(_, policies)| Arc::clone(policies))
    }

    /// Forgets what was read: it has changed.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Arc<Policies>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
