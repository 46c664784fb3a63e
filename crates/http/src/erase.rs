//! Erasure of a finished job's payload.

use crate::call::{Call, Reply, ok};
use crate::codes;
use crate::problem::Problem;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::Refusal;
use windlass_engine::erase::{EraseError, Erased, erase};
use windlass_store::Erase;

/// What was erased.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Erased)]
pub(crate) struct ErasedShape {
    /// The job.
    id: String,
    /// Always true.
    erased: bool,
    /// The version at which the erasure stands in the job's log.
    version: i64,
    /// Whether it stood there before, and nothing was left to erase.
    replayed: bool,
    /// How many files of the archive were written anew.
    archive_files: usize,
}

/// `DELETE /v1/jobs/{id}/payload`
pub(crate) async fn payload(call: Call) -> Reply {
    let job = call.job_id()?;
    // A key for some queues learns nothing of removed jobs, whose queue is not known any more.
    if call.seen(job).await?.is_none() && call.who.is_for_some_queues() {
        return Err(Refusal::NotFound.into());
    }
    let expected_version = call.query.number("expected_version")?;
    let wish = Erase { job, actor: call.actor(), expected_version };
    let erased = erase(&*call.app.store, call.app.archive.as_deref(), wish).await;
    if matches!(erased, Err(EraseError::Refused(Refusal::NotFound))) {
        return Err(call.missing(job).await?.into());
    }
    let Erased { version, is_repeat, files } = erased?;
    ok(&ErasedShape { id: job.to_string(), erased: true, version, replayed: is_repeat, archive_files: files })
}

impl From<EraseError> for Problem {
    fn from(error: EraseError) -> Self {
        let said = error.to_string();
        match error {
            EraseError::Store(error) => error.into(),
            EraseError::Refused(refusal) => refusal.into(),
            EraseError::Archive(_) => Self::new(codes::ARCHIVE_UNAVAILABLE, said),
            _ => Self::new(codes::INTERNAL, said),
        }
    }
}
