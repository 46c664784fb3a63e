//! A job that a message names: looked at, and claimed by its id.

use super::{PATIENCE, RemoteStore, claimed, read, unreadable};
use crate::fail::{Exit, Failure};
use crate::shape::Reply;
use crate::wire::Request;
use windlass_core::lease::hex;
use windlass_core::{JobId, Name, Refusal};
use windlass_http::wire::claim::ClaimOneBody;
use windlass_http::wire::job::JobShape;
use windlass_http::wire::time::Span;
use windlass_store::work::Stands;
use windlass_store::{ClaimOne, Claimed, StoreResult};

impl RemoteStore {
    /// Claims one job by its id. The same claim again brings what it holds.
    pub(super) async fn take_one(&self, request: ClaimOne) -> StoreResult<Result<Claimed, Refusal>> {
        let ClaimOne { job, claim } = request;
        self.worker.get_or_init(|| claim.worker.clone());
        let body = ClaimOneBody {
            worker_id: claim.worker.to_string(),
            secret: Some(hex(&claim.secret.0)),
            lease: Some(Span::from_ms(claim.lease_ms.get())),
        };
        match self.send("POST", &format!("/v1/jobs/{job}/claim"), &body, PATIENCE).await {
            Ok(reply) => claimed::one(&reply.text, &claim).map(Ok).map_err(unreadable),
            Err(failure) => self.of_one(failure).map(Err),
        }
    }

    /// How a job stands. The key needs to be a viewer's for that.
    pub(super) async fn look_at(&self, job: JobId) -> StoreResult<Result<Stands, Refusal>> {
        let path = format!("/v1/jobs/{job}");
        let request =
            Request { method: "GET", path: &path, body: None, idempotency_key: None, patience: PATIENCE };
        match self.wire.send(request).await {
            Ok(reply) => stands(&reply).map(Ok),
            Err(failure) => self.of_one(failure).map(Err),
        }
    }

    /// A refusal that is about the job alone; any other ends the worker.
    fn of_one(&self, failure: Failure) -> StoreResult<Refusal> {
        let known = ["job_finished", "not_claimable", "job_busy", "job_unreadable"];
        if failure.exit == Exit::NotFound || known.contains(&failure.code.as_str()) {
            return Ok(claimed::refusal(&failure.code, &failure.detail));
        }
        Err(self.heard(failure))
    }
}

fn stands(reply: &Reply) -> StoreResult<Stands> {
    let shown: JobShape = read(reply)?;
    let name = |field, text| Name::parse(field, text).map_err(unreadable);
    Ok(Stands {
        queue: name("queue", shown.queue)?,
        kind: name("kind", shown.kind)?,
        status: shown.status,
        attempt: shown.attempt,
        due_at: shown.due_at.map(|at| at.0),
    })
}
