//! How long a client asks again when the store does not answer.

use crate::client::Client;
use std::future::Future;
use std::time::Duration;
use windlass_core::JobId;
use windlass_store::StoreResult;

/// A restart of a database takes seconds, and a caller may wait for an answer of its own no longer than this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Calls a verb again, with the very same request, while the store does not answer.
pub(crate) async fn repeat<T, Fut>(call: impl FnMut() -> Fut) -> StoreResult<T>
where
    Fut: Future<Output = StoreResult<T>>,
{
    windlass_engine::repeat(PATIENCE, call).await
}

impl Client {
    /// As [`repeat`]; the client of a handler asks as long as the lease lasts, so that an outage shorter than that is no
    /// error of the handler's.
    pub(crate) async fn repeat<T, Fut>(&self, call: impl FnMut() -> Fut) -> StoreResult<T>
    where
        Fut: Future<Output = StoreResult<T>>,
    {
        windlass_engine::repeat(self.patience(), call).await
    }

    /// How long it asks.
    pub(crate) fn patience(&self) -> Duration {
        // Twice: a handler is dropped with its lease before this gives up.
        self.running().map_or(PATIENCE, |attempt| 2 * attempt.leased_for())
    }

    /// The same for a verb on one job. If that is the handler's own, and the handler's own transaction has it locked, the
    /// answer comes at once.
    pub(crate) async fn repeat_on<T, Fut>(&self, job: JobId, call: impl FnMut() -> Fut) -> StoreResult<T>
    where
        Fut: Future<Output = StoreResult<T>>,
    {
        match self.running() {
            Some(attempt) => attempt.call_on(job, call).await,
            None => repeat(call).await,
        }
    }
}
