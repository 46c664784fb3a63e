//! Waiting for a job's typed result.

use crate::client::Client;
use crate::error::{Ended, Error, Result};
use crate::job::Job;
use windlass_core::{JobId, Payload, Refusal, Status};
use windlass_store::JobView;

/// Waits until the job has ended, and reads its result.
pub(crate) async fn ended<J: Job>(client: &Client, id: JobId) -> Result<J::Output> {
    loop {
        let mut subscription = client.repeat(|| client.inner.tail.subscribe(id)).await?;
        loop {
            let Some(view) = client.job(id).await? else {
                let purged = client.repeat(|| client.inner.store.purged(id, None)).await?;
                return Err(purged.map_or(Refusal::NotFound, Refusal::Purged).into());
            };
            if view.job.status.is_terminal() {
                return result::<J>(&view);
            }
            if !subscription.ended_after(view.job.version).await {
                break;
            }
        }
    }
}

/// The result of a job that has ended, or how it ended without one.
pub(crate) fn result<J: Job>(view: &JobView) -> Result<J::Output> {
    if view.job.status != Status::Completed {
        return Err(Ended::of(view).into());
    }
    // A completion without a result is one with nothing in it: `()` and `Option` read from that.
    let bytes = view.result.as_ref().map_or(&b"null"[..], Payload::as_bytes);
    serde_json::from_slice(bytes).map_err(|e| Error::Result {
        job: view.job.id,
        expected: std::any::type_name::<J::Output>(),
        why: e.to_string(),
    })
}
