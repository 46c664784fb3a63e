//! Jobs that a leader gives to workers.

use crate::append::granted;
use crate::claim::holds;
use crate::db::Tx;
use crate::error::Tried;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::{self, BATCH_MAX};
use windlass_core::operate::assign;
use windlass_core::term::may_assign;
use windlass_core::{Answer, JobId, Refusal, Timestamp, Who, event};
use windlass_store::{Assign, Claimed, Start};

impl Tx<'_, '_> {
    pub(crate) fn assign(&self, request: &Assign, now: Timestamp) -> Tried<Vec<Answer>> {
        let term = self.term(&request.term)?;
        if let Err(refusal) = may_assign(term.as_ref(), request.epoch, request.lapse_ms, now) {
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
        let deadline_at = now.plus_ms(request.lapse_ms);
        let to = event::Assigned { worker: worker.clone(), epoch: request.epoch, deadline_at };
        let verdict = granted!(assign(&job, to, self.is_paused(&job.queue)?, now));
        self.carry(&job, verdict)
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
        let step = granted!(decide(&job, command, now));
        self.write(&job, &step)?;
        self.claimed(step.job, &request.claim).map(Ok)
    }
}
