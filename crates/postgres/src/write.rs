//! How a row of `jobs` is written: made, moved, and noted as held.

use crate::db::{Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::Ts;
use windlass_core::unique::Policy;
use windlass_core::{Job, Lane, LeaseMs, Name, Status, Timestamp, Version, WaitFor, Who};

impl Tx<'_> {
    /// Takes a job that is about to be handed out from the line, and notes that this claim holds it.
    pub(crate) async fn hold_job(&self, job: &Job, claim: i64) -> Tried<()> {
        let worker = job.worker_id.as_ref().map_or("", Who::as_str);
        self.execute(sql!("hold_job"), params![uuid(job.id), claim, worker, job.due_at.map(Ts)]).await
    }

    /// Moves a row from the version `from` to what it is now. False if it is not there at that version.
    pub(crate) async fn move_job(&self, job: &Job, from: Version, claim: Option<i64>) -> Tried<bool> {
        let time = |t: Option<Timestamp>| t.map(Ts);
        let moved = self
            .rows(
                sql!("move_job"),
                params![
                    uuid(job.id),
                    job.status.as_str(),
                    time(job.due_at),
                    time(job.deadline_at),
                    job.worker_id.as_ref().map(Who::as_str),
                    job.lease_hash.as_ref().map(|h| h.0.as_slice()),
                    time(job.lease_expires_at),
                    job.epoch,
                    job.assignment,
                    job.attempt,
                    job.retries,
                    job.crashes,
                    job.version,
                    job.generation,
                    job.progress,
                    job.stage.as_deref(),
                    job.waiting_for.map(WaitFor::as_str),
                    job.wait_name.as_ref().map(Name::as_str),
                    job.wait_version,
                    job.wake_version,
                    job.signals,
                    job.children,
                    time(job.cancel_requested_at),
                    job.steps_from,
                    job.result_version,
                    job.error_version,
                    job.error_code.as_ref().map(Who::as_str),
                    job.checkpoint_version,
                    job.payload_version,
                    job.meta_version,
                    time(job.started_at),
                    Ts(job.updated_at),
                    time(job.finished_at),
                    claim,
                    (job.dependents > 0).then_some(job.dependents),
                    from,
                ],
            )
            .await?;
        Ok(moved.len() == 1)
    }

    /// A new job: its row beside the log that is written already. False if the id is taken.
    pub(crate) async fn insert_job(&self, job: &Job, now: Timestamp) -> Tried<bool> {
        let time = |t: Option<Timestamp>| t.map(Ts);
        let backoff = job.backoff.map(|b| serde_json::to_string(&b)).transpose()?;
        let inserted = self
            .rows(
                sql!("insert_job"),
                params![
                    uuid(job.id),
                    job.queue.as_str(),
                    job.kind.as_str(),
                    job.priority as i16,
                    job.status.as_str(),
                    time(job.due_at),
                    time(job.deadline_at),
                    job.worker_id.as_ref().map(Who::as_str),
                    job.lease_hash.as_ref().map(|h| h.0.as_slice()),
                    time(job.lease_expires_at),
                    job.epoch,
                    job.assignment,
                    job.attempt,
                    job.retries,
                    job.max_retries,
                    job.crashes,
                    job.version,
                    job.generation,
                    job.progress,
                    job.stage.as_deref(),
                    job.waiting_for.map(WaitFor::as_str),
                    job.wait_name.as_ref().map(Name::as_str),
                    job.wait_version,
                    job.wake_version,
                    job.signals,
                    job.children,
                    job.parent_id.map(uuid),
                    time(job.cancel_requested_at),
                    job.steps_from,
                    job.unique_policy.map(Policy::to_text),
                    job.timeout_ms,
                    job.lease_ms.map(LeaseMs::get),
                    job.grace_ms,
                    backoff.as_deref(),
                    job.result_version,
                    job.error_version,
                    job.error_code.as_ref().map(Who::as_str),
                    job.checkpoint_version,
                    job.payload_version,
                    job.meta_version,
                    Ts(job.created_at),
                    time(job.started_at),
                    Ts(job.updated_at),
                    time(job.finished_at),
                    job.lane.map(Lane::number),
                    (job.dependents > 0).then_some(job.dependents),
                ],
            )
            .await?;
        self.mark(job.status != Status::Running && job.is_due(now));
        Ok(inserted.len() == 1)
    }
}
