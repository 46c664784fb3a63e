//! How attempts end, each for itself.

use crate::db::{Tx, sql};
use crate::error::Tried;
use crate::row;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::{self, BATCH_MAX};
use windlass_core::outcome::Found;
use windlass_core::step::{denial, kept_signal};
use windlass_core::wait::{ApprovalStatus, Wait};
use windlass_core::{Answer, Done, Job, Outcome, Refusal, Timestamp, WaitFor, What};
use windlass_store::{Settle, SettleItem};

impl Tx<'_, '_> {
    pub(crate) fn settle(&self, request: &Settle, now: Timestamp) -> Tried<Vec<Answer>> {
        let one = |(n, item)| match limits::count("items", n + 1, BATCH_MAX) {
            Ok(()) => self.settle_one(item, now),
            Err(invalid) => Ok(Err(invalid.into())),
        };
        request.items.iter().enumerate().map(one).collect()
    }

    fn settle_one(&self, item: &SettleItem, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(item.job)? else { return Ok(Err(Refusal::NotFound)) };
        let hash = item.token.hash();
        let outcome = match &item.outcome {
            Outcome::Wait(wait, _) => Outcome::Wait(wait.clone(), self.found(&job, wait)?),
            other => other.clone(),
        };
        match decide(&job, Command::Settle(hash, outcome), now) {
            Ok(step) => {
                if let (Outcome::Wait(wait, _), What::JobFailed(_)) = (&item.outcome, &step.event.what) {
                    self.note_expiry(&job, wait, now)?;
                }
                self.write(&job, &step)?;
                Ok(Ok(Done::Moved(step.job.version, step.job.status)))
            }
            Err(refusal) => {
                let written = self.all(sql!("settled"), (job.id.as_bytes(), hash.0), row::event)?;
                Ok(item.outcome.settled_in(hash, written.iter()).map(Done::Already).ok_or(refusal))
            }
        }
    }

    /// What already answers a wait.
    fn found(&self, job: &Job, wait: &Wait) -> Tried<Found> {
        let Some(name) = &wait.name else { return Ok(Found::default()) };
        let signal = if wait.waits_for == WaitFor::Signal && job.signals > 0 {
            kept_signal(&self.remembered(job.id)?, name, job.steps_from)
        } else {
            None
        };
        let approval = match wait.waits_for {
            WaitFor::Approval => {
                self.approval_by_name(job.id, name)?.filter(|a| a.asked_version > job.steps_from)
            }
            _ => None,
        };
        let denial = match &approval {
            Some(approval) if approval.status == ApprovalStatus::Denied => {
                denial(&self.remembered(job.id)?, approval.id)
            }
            _ => None,
        };
        Ok(Found { signal, approval, denial })
    }

    /// A wait that finds its approval out of time puts that on the approval too.
    fn note_expiry(&self, job: &Job, wait: &Wait, now: Timestamp) -> Tried<()> {
        let (WaitFor::Approval, Some(name)) = (wait.waits_for, &wait.name) else { return Ok(()) };
        let Some(mut approval) = self.approval_by_name(job.id, name)? else { return Ok(()) };
        if approval.status == ApprovalStatus::Pending && approval.expires_at <= now {
            approval.status = ApprovalStatus::Expired;
            approval.decided_at = Some(now);
            self.put_approval(&approval)?;
        }
        Ok(())
    }
}
