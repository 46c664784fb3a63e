//! Waiting for a job's typed result.

use crate::client::Client;
use crate::error::{Ended, Error, Result};
use crate::job::Job;
use windlass_core::undo::is_undo;
use windlass_core::{EventKind, JobId, Payload, Refusal, Status};
use windlass_store::JobView;

/// Waits until the job has ended, and reads its result.
pub(crate) async fn ended<J: Job>(client: &Client, id: JobId) -> Result<J::Output> {
    result::<J>(&end_of(client, id).await?)
}

/// Waits until a job has ended.
async fn end_of(client: &Client, id: JobId) -> Result<JobView> {
    loop {
        let mut subscription = client.repeat(|| client.inner.tail.subscribe(id)).await?;
        loop {
            let Some(view) = client.job(id).await? else {
                let purged = client.repeat(|| client.inner.store.purged(id, None)).await?;
                return Err(purged.map_or(Refusal::NotFound, Refusal::Purged).into());
            };
            if view.job.status.is_terminal() {
                return Ok(view);
            }
            if !subscription.ended_after(view.job.version).await {
                break;
            }
        }
    }
}

/// Waits until the job has ended and the job that undoes it too, if it has one that is due.
pub(crate) async fn undone(client: &Client, id: JobId) -> Result<bool> {
    if end_of(client, id).await?.job.status == Status::Completed {
        return Ok(false);
    }
    let mut behind = Vec::new();
    for event in client.events(id).await? {
        match event.what {
            EventKind::JobDependentsAdded(added) => behind.extend(added.dependents),
            // What undid an earlier life of it.
            EventKind::JobRedriven(_) | EventKind::JobForked(_) => behind.clear(),
            _ => {}
        }
    }
    for dependent in behind {
        let view = client.job(dependent.job).await?;
        if view.is_some_and(|view| is_undo(&view.job.kind)) {
            let end = end_of(client, dependent.job).await?;
            return if end.job.status == Status::Completed { Ok(true) } else { Err(Ended::of(&end).into()) };
        }
    }
    Ok(false)
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
