//! How a row of `jobs` is written: made, moved, and noted as held.

use crate::db::{Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, Ts};
use windlass_core::end::Ending;
use windlass_core::unique::Policy;
use windlass_core::{Job, Lane, LeaseMs, Name, Status, Timestamp, WaitFor, Who};

impl Tx<'_> {
    /// Takes a job that is about to be handed out from the line, and notes that this claim holds it.
    pub(crate) async fn hold_job(&self, job: &Job, claim: i64) -> Tried<()> {
        let worker = job.worker_id.as_ref().map_or("", Who::as_str);
        self.execute(sql!("hold_job"), params![uuid(job.id), claim, worker, job.due_at.map(Ts)]).await
    }

    pub(crate) async fn move_job(&self, job: &Job, claim: Option<i64>) -> Tried<bool> {
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
                ],
            )
            .await?;
        self.mark(job.status != Status::Running && job.is_due(now));
        Ok(inserted.len() == 1)
    }

    /// Carries out what the end of a job entails.
    pub(crate) async fn end(&self, ending: Ending, now: Timestamp) -> Tried<()> {
        if ending.frees_key {
            self.execute(sql!("free_keys"), params![uuid(ending.job)]).await?;
        }
        if ending.closes_approvals {
            self.execute(sql!("void_approvals"), params![uuid(ending.job), Ts(now)]).await?;
        }
        let Some(id) = ending.parent else { return Ok(()) };
        let parent = match self.one(sql!("lock"), params![uuid(id)], row::job).await {
            Err(Failure::Corrupt { job, why }) => {
                tracing::error!(%job, %why, "a parent does not read back and does not learn of its child's end");
                return Ok(());
            }
            parent => parent?,
        };
        let Some(parent) = parent else { return Ok(()) };
        match ending.told(&parent, now) {
            Some(step) => self.write(&parent, &step).await,
            None => Ok(()),
        }
    }
}
