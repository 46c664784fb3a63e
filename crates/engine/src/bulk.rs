//! What is done to one of many jobs.

use windlass_core::bulk::{BulkAction, spread};
use windlass_core::limits::FORCE_AFTER_DEFAULT_MS;
use windlass_core::{Actor, Answer, JobId, Key, Timestamp};
use windlass_store::{Cancel, Redrive, Store, StoreResult};

/// What is done to each job.
#[derive(Debug, Clone)]
pub struct BulkPlan {
    /// What.
    pub action: BulkAction,
    /// From when redriven jobs may run.
    pub run_at: Option<Timestamp>,
    /// Over which period redriven jobs are spread, in milliseconds.
    pub spread_ms: i64,
    /// Why, for cancelled jobs.
    pub reason: Option<String>,
    /// For whom.
    pub actor: Actor,
}

impl BulkPlan {
    /// Acts on one job. The same key again does nothing twice.
    pub async fn act(&self, store: &dyn Store, job: JobId, key: &Key) -> StoreResult<Answer> {
        let actor = self.actor.clone();
        match self.action {
            BulkAction::Cancel => {
                let (reason, force_after_ms) = (self.reason.clone(), FORCE_AFTER_DEFAULT_MS);
                let wish = windlass_core::decide::Cancel { actor, reason, force: false, force_after_ms };
                store.cancel(Cancel { job, wish, expected_version: None }, None).await
            }
            BulkAction::Redrive => {
                let redrive = Redrive {
                    job,
                    run_at: spread(job, self.run_at, self.spread_ms),
                    from_start: false,
                    payload: None,
                    actor,
                    key: Some(key.clone()),
                    expected_version: None,
                };
                store.redrive(redrive, None).await
            }
        }
    }
}
