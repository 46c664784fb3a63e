//! The verbs that a worker needs, as the engine asks for them.

use super::RemoteStore;
use async_trait::async_trait;
use windlass_core::{Answer, JobId, Refusal, Who, Worker};
use windlass_store::work::{Stands, Work};
use windlass_store::{
    ClaimMany, ClaimOne, Claimed, Extend, Extended, Hints, PutWorker, Settle, StoreResult, WriteLogs,
};

#[async_trait]
impl Work for RemoteStore {
    async fn claim(&self, request: ClaimMany) -> StoreResult<Vec<Claimed>> {
        self.take(request).await
    }

    async fn claim_one(&self, request: ClaimOne) -> StoreResult<Result<Claimed, Refusal>> {
        self.take_one(request).await
    }

    async fn find(&self, job: JobId) -> StoreResult<Result<Stands, Refusal>> {
        self.look_at(job).await
    }

    async fn extend(&self, request: Extend) -> StoreResult<Vec<Result<Extended, Refusal>>> {
        self.renew(request).await
    }

    async fn settle(&self, request: Settle) -> StoreResult<Vec<Answer>> {
        self.end(request).await
    }

    async fn put_worker(&self, request: PutWorker) -> StoreResult<Worker> {
        self.report_worker(request).await
    }

    async fn remove_worker(&self, _worker: Who) -> StoreResult<()> {
        self.leave().await
    }

    /// A claim waits at the server, which needs no hints.
    fn hints(&self) -> Hints {
        self.inner.hints()
    }

    async fn write_logs(&self, request: WriteLogs) -> StoreResult<Result<(), Refusal>> {
        self.log(request).await
    }
}
