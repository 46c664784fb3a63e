//! How long a client asks again when the store does not answer.

use std::future::Future;
use std::time::Duration;
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
