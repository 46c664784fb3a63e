//! Jobs that a leader gives to workers.

use crate::claim::holds;
use crate::db::Tx;
use crate::error::Tried;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::{self, BATCH_MAX, LEASE_MAX_MS};
use windlass_core::{Answer, Done, JobId, Refusal, Status, Timestamp, Who, event};
use windlass_store::{Assign, Claimed, Start};

impl Tx<'_, '_> {
    pub(crate) fn assign(&self, request: &Assign, now: Timestamp) -> Tried<Vec<Answer>> {
        let term = self.term(&request.term)?;
        let refusal = if !term.as_ref().is_some_and(|t| t.allows(request.epoch, now)) {
            Some(Refusal::StaleEpoch(term.map_or(0, |t| t.epoch)))
        } else {
            limits::within("lapse", request.lapse_ms, 1, LEASE_MAX_MS).err().map(Refusal::from)
        };
        if let Some(refusal) = refusal {
            return Ok(request.items.iter().map(|_| Err(refusal.clone())).collect());
        }
        let one = |(n, (job, worker)): (usize, &(JobId, Who))| match limits::count("items", n + 1, BATCH_MAX)
        {
            Ok(()) => self.assign_one(request, *job, worker, now),
            Err(invalid) => Ok(Err(invalid.into())),
        };
        request.items.iter().enumerate().map(one).collect()
    }

    fn assign_one(&self, request: &Assign, id: JobId, worker: &Who, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(id)? else { return Ok(Err(Refusal::NotFound)) };
        let same = job.status == Status::Assigned
            && job.worker_id.as_ref() == Some(worker)
            && job.epoch == Some(request.epoch);
        if let (true, Some(version)) = (same, job.assignment) {
            return Ok(Ok(Done::Already(version)));
        }
        if !job.status.is_terminal() && self.is_paused(&job.queue)? {
            return Ok(Err(Refusal::NotClaimable(job.status)));
        }
        let deadline_at = now.plus_ms(request.lapse_ms);
        let to = event::Assigned { worker: worker.clone(), epoch: request.epoch, deadline_at };
        self.carry(&job, Command::Assign(to), now)
    }

    pub(crate) fn start(&self, request: &Start, now: Timestamp) -> Tried<Result<Claimed, Refusal>> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        if holds(&job, &request.claim, now) {
            return self.claimed(job, &request.claim).map(Ok);
        }
        let command = Command::Start {
            claim: request.claim.clone(),
            assignment: request.assignment,
            epoch: request.epoch,
        };
        match decide(&job, command, now) {
            Ok(step) => {
                self.write(&job, &step)?;
                self.claimed(step.job, &request.claim).map(Ok)
            }
            Err(refusal) => Ok(Err(refusal)),
        }
    }
}
