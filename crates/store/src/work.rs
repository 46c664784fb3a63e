//! What a worker needs of where its jobs are: a few verbs, and not all of a store. A server is worked through by them too.

use crate::{
    Append, Ask, Asked, BatchRefusal, ClaimMany, ClaimOne, Claimed, Enqueue, Enqueued, Extend, Extended,
    Hints, HolderReply, JobView, Progress, PutWorker, ReadEvents, ReadSteps, RecordStep, Settle, Store,
    StoreError, StoreResult, WriteLogs,
};
use async_trait::async_trait;
use std::sync::Arc;
use windlass_core::step::Recorded;
use windlass_core::{Answer, Event, Job, JobId, Name, Refusal, Status, Timestamp, Who, Worker};

/// Where a worker's jobs are. [`on`] makes one of any store.
///
/// The verbs of a handler (steps, progress, notes, questions, children) are [`StoreError::Unsupported`] unless an
/// implementation has them: a program that is run for a job over HTTP asks the server for them itself.
#[async_trait]
pub trait Work: Send + Sync {
    /// Hands out jobs.
    async fn claim(&self, request: ClaimMany) -> StoreResult<Vec<Claimed>>;
    /// Renews leases; answers in the order of the request.
    async fn extend(&self, request: Extend) -> StoreResult<Vec<Result<Extended, Refusal>>>;
    /// Ends attempts; answers in the order of the request.
    async fn settle(&self, request: Settle) -> StoreResult<Vec<Answer>>;
    /// A worker reports itself.
    async fn put_worker(&self, request: PutWorker) -> StoreResult<Worker>;
    /// Forgets a worker that stopped.
    async fn remove_worker(&self, request: Who) -> StoreResult<()>;
    /// Hints that there may be something new.
    fn hints(&self) -> Hints;

    /// Hands out one job by its id.
    async fn claim_one(&self, request: ClaimOne) -> StoreResult<Result<Claimed, Refusal>> {
        refused(request, "claim a job by its id")
    }
    /// How a job stands that somebody names. [`Refusal::Purged`] says that it ended and was removed.
    async fn find(&self, request: JobId) -> StoreResult<Result<Stands, Refusal>> {
        refused(request, "look at a job")
    }

    /// Writes lines to a job's log.
    async fn write_logs(&self, request: WriteLogs) -> StoreResult<Result<(), Refusal>> {
        refused(request, "write log lines")
    }
    /// What earlier attempts left on record.
    async fn steps(&self, request: ReadSteps) -> StoreResult<Option<Recorded>> {
        refused(request, "read steps")
    }
    /// Records a step.
    async fn record_step(&self, request: RecordStep) -> StoreResult<Result<HolderReply, Refusal>> {
        refused(request, "record steps")
    }
    /// Reports progress.
    async fn progress(&self, request: Progress) -> StoreResult<Result<HolderReply, Refusal>> {
        refused(request, "report progress")
    }
    /// Notes an event.
    async fn append(&self, request: Append) -> StoreResult<Result<HolderReply, Refusal>> {
        refused(request, "note events")
    }
    /// Asks for an approval.
    async fn ask(&self, request: Ask) -> StoreResult<Result<Asked, Refusal>> {
        refused(request, "ask for approvals")
    }
    /// Enqueues children.
    async fn enqueue(&self, request: Enqueue) -> StoreResult<Result<Vec<Enqueued>, BatchRefusal>> {
        refused(request, "spawn children")
    }
    /// One job.
    async fn job(&self, request: JobId) -> StoreResult<Option<JobView>> {
        refused(request, "read jobs")
    }
    /// A job's log.
    async fn events(&self, request: ReadEvents) -> StoreResult<Vec<Event>> {
        refused(request, "read logs")
    }
}

/// How a job stands, as far as it matters to who may run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stands {
    /// Which line it stands in.
    pub queue: Name,
    /// What to do.
    pub kind: Name,
    /// Where it stands.
    pub status: Status,
    /// Executions over its whole life.
    pub attempt: i32,
    /// From when a worker may take it; while it runs, when its lease is over.
    pub due_at: Option<Timestamp>,
}

impl From<Job> for Stands {
    fn from(job: Job) -> Self {
        let Job { queue, kind, status, attempt, due_at, .. } = job;
        Self { queue, kind, status, attempt, due_at }
    }
}

fn refused<R, T>(_request: R, verb: &str) -> StoreResult<T> {
    Err(StoreError::Unsupported(format!("a worker that goes through a server cannot {verb} for its handler")))
}

/// A store as the place of a worker's jobs.
pub fn on(store: Arc<dyn Store>) -> Arc<dyn Work> {
    Arc::new(OnStore(store))
}

struct OnStore(Arc<dyn Store>);

/// Hands each verb to the store, which looks at its own clock.
macro_rules! handed_on {
    ($($verb:ident($request:ty) -> $answer:ty;)*) => {
        #[async_trait]
        impl Work for OnStore {
            $(async fn $verb(&self, request: $request) -> StoreResult<$answer> {
                self.0.$verb(request, None).await
            })*

            async fn find(&self, request: JobId) -> StoreResult<Result<Stands, Refusal>> {
                match self.0.job(request, None).await {
                    Ok(Some(view)) => Ok(Ok(view.job.into())),
                    Ok(None) => {
                        let purged = self.0.purged(request, None).await?;
                        Ok(Err(purged.map_or(Refusal::NotFound, Refusal::Purged)))
                    }
                    Err(StoreError::Corrupt { job: Some(_), why }) => Ok(Err(Refusal::Unreadable(why))),
                    Err(error) => Err(error),
                }
            }

            fn hints(&self) -> Hints {
                self.0.hints()
            }
        }
    };
}

handed_on! {
    claim(ClaimMany) -> Vec<Claimed>;
    claim_one(ClaimOne) -> Result<Claimed, Refusal>;
    extend(Extend) -> Vec<Result<Extended, Refusal>>;
    settle(Settle) -> Vec<Answer>;
    put_worker(PutWorker) -> Worker;
    remove_worker(Who) -> ();
    write_logs(WriteLogs) -> Result<(), Refusal>;
    steps(ReadSteps) -> Option<Recorded>;
    record_step(RecordStep) -> Result<HolderReply, Refusal>;
    progress(Progress) -> Result<HolderReply, Refusal>;
    append(Append) -> Result<HolderReply, Refusal>;
    ask(Ask) -> Result<Asked, Refusal>;
    enqueue(Enqueue) -> Result<Vec<Enqueued>, BatchRefusal>;
    job(JobId) -> Option<JobView>;
    events(ReadEvents) -> Vec<Event>;
}
