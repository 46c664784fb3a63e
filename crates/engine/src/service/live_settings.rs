//! The settings of the store, read again when they are older than a moment: every process sees a change within seconds.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::settings::Settings;
use windlass_store::Store;

/// How long what was read is trusted.
const TRUSTED: Duration = Duration::from_secs(2);

/// Settings as they are now, for all parts of a process that hold a clone. Nothing is read while nobody asks.
#[derive(Debug, Clone)]
pub struct LiveSettings(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    /// A blocking lock: it is held for a look or an assignment.
    known: Mutex<Known>,
    /// Held while the store is asked: of a thousand callers that come at once, one asks.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    settings: Arc<Settings>,
    /// When they were read; none before, and once they are known to have changed.
    at: Option<Instant>,
}

impl LiveSettings {
    /// The settings of this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Inner { store, known: Mutex::default(), asking: tokio::sync::Mutex::default() }))
    }

    /// The settings now. While the store does not answer they stay as they were, or as they are by default.
    pub async fn now(&self) -> Arc<Settings> {
        if let Some(known) = self.known() {
            return known;
        }
        let _asking = self.0.asking.lock().await;
        if let Some(known) = self.known() {
            return known;
        }
        let at = Some(Instant::now());
        let read = self.0.store.settings((), None).await;
        let mut known = self.lock();
        known.at = at;
        match read {
            Ok(state) => known.settings = Arc::new(state.settings),
            Err(error) => tracing::warn!(%error, "the settings cannot be read; the last known are in force"),
        }
        Arc::clone(&known.settings)
    }

    /// Forgets what was read: it has changed.
    pub fn forget(&self) {
        self.lock().at = None;
    }

    fn known(&self) -> Option<Arc<Settings>> {
        let known = self.lock();
        known.at.filter(|at| at.elapsed() < TRUSTED).map(|_| Arc::clone(&known.settings))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
