//! Looking at deadlines now and then: timeouts, forced cancels, expired waits. Any process does; more than one is no harm.

use crate::repeat::jittered;
use crate::shutdown::{Level, Shutdown};
use crate::task::inside;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use windlass_store::{Store, StoreResult, Sweep};

/// How often.
const EVERY: Duration = Duration::from_secs(5);
/// How long those who know of a passed deadline gather.
const GATHER: Duration = Duration::from_millis(20);
/// The most of one sweep.
const LIMIT: usize = 1_000;

type Heard = Box<dyn Fn(StoreResult<()>) + Send + Sync>;

/// Acts on deadlines that have passed, about every five seconds and when somebody knows of one.
pub struct Sweeper {
    store: Arc<dyn Store>,
    overdue: Arc<Notify>,
    is_regular: bool,
    /// Where what the store spawns lives; here when absent.
    asks_on: Option<Handle>,
    heard: Heard,
}

impl Sweeper {
    /// Sweeps this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, overdue: Arc::default(), is_regular: true, asks_on: None, heard: Box::new(|_| {}) }
    }

    /// Whoever knows of a passed deadline notifies this.
    #[must_use]
    pub fn overdue(mut self, overdue: Arc<Notify>) -> Self {
        self.overdue = overdue;
        self
    }

    /// Leaves the regular look to others.
    #[must_use]
    pub fn only_when_notified(mut self) -> Self {
        self.is_regular = false;
        self
    }

    /// Asks the store inside this runtime.
    #[must_use]
    pub fn asks_on(mut self, runtime: Handle) -> Self {
        self.asks_on = Some(runtime);
        self
    }

    /// Is called after every look, with whether the store answered.
    #[must_use]
    pub fn heard(mut self, heard: impl Fn(StoreResult<()>) + Send + Sync + 'static) -> Self {
        self.heard = Box::new(heard);
        self
    }

    /// Sweeps until it is to end.
    pub async fn run(self, shutdown: Shutdown) {
        tokio::select! {
            () = shutdown.reached(Level::Graceful) => {}
            () = self.sweep() => {}
        }
    }

    async fn sweep(&self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(jittered(EVERY)), if self.is_regular => {}
                () = self.overdue.notified() => tokio::time::sleep(GATHER).await,
            }
            let looked = loop {
                let call = self.store.sweep(Sweep { limit: LIMIT }, None);
                let answer = match &self.asks_on {
                    Some(runtime) => inside(runtime, call).await,
                    None => call.await,
                };
                match answer {
                    Ok(swept) if swept.len() >= LIMIT => tokio::task::yield_now().await,
                    answer => break answer.map(|_| ()),
                }
            };
            (self.heard)(looked);
        }
    }
}

impl fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweeper").field("is_regular", &self.is_regular).finish_non_exhaustive()
    }
}
