//! How a worker reaches its store, and what it heard of it last.

use crate::health::Board;
use crate::task::inside;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use windlass_store::Store;
use windlass_store::work::Work;

/// The way to the store.
pub(crate) struct Reach {
    /// Where jobs are claimed, renewed and settled.
    pub(crate) source: Arc<dyn Work>,
    /// The whole store, for what a worker does besides: deadlines, queues' policies, cancels. None through a server, which
    /// does these itself.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// A store of the heart's own, opened on the engine's thread; until it is, renewals go through the other.
    pub(crate) renewal_store: OnceLock<Arc<dyn Store>>,
    /// Where handlers run, and what the store spawns.
    pub(crate) runtime: Handle,
    pub(crate) health: Board,
}

impl Reach {
    /// Asks the store. What the store spawns for it lives on the caller's runtime, as for all others who use this
    /// store: connections that it opens there outlive this worker.
    pub(crate) async fn ask<T>(&self, call: impl Future<Output = T>) -> T {
        inside(&self.runtime, call).await
    }
}
