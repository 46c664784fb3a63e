//! Starting a worker: its thread, why it may fail, and what happens when nobody waits for it any more.

use crate::shutdown::{Level, Shutdown};
use std::future::Future;
use tokio::sync::oneshot;
use windlass_core::limits::Invalid;

/// Why a worker did not run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It was given something outside the limits.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It has no queue.
    #[error("the worker has no queue to take from; name one with .queue(name, concurrency)")]
    NoQueue,
    /// It has no handler.
    #[error("the worker has no handler; give it one with .handle(kind, handler)")]
    NoHandler,
    /// Its thread could not be started, or died.
    #[error("the engine's thread: {0}")]
    Thread(String),
}

/// Runs the engine on a thread of its own, which no handler can block.
pub(crate) fn on_own_thread(
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<oneshot::Receiver<()>, RunError> {
    let no_thread = |error: std::io::Error| RunError::Thread(format!("it could not be started: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let (tell, told) = oneshot::channel();
    let run = move || {
        runtime.block_on(work);
        // Nobody listens when the worker was abandoned.
        let _ = tell.send(());
    };
    std::thread::Builder::new().name("windlass-engine".into()).spawn(run).map_err(no_thread)?;
    Ok(told)
}

/// Ends a worker that nobody waits for any more.
pub(crate) struct Abandons(pub(crate) Shutdown);

impl Drop for Abandons {
    fn drop(&mut self) {
        if self.0.level() < Level::Now {
            self.0.now();
        }
    }
}
