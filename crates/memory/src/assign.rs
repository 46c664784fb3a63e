//! Giving jobs to workers under a leader's epoch, and their start.

use crate::state::{State, in_batch};
use windlass_core::decide::{Command, decide};
use windlass_core::event::Assigned;
use windlass_core::limits::{self, LEASE_MAX_MS};
use windlass_core::{Answer, Done, JobId, Refusal, Status, Timestamp, Who};
use windlass_store::{Assign, Claimed, Start};

impl State {
    /// Gives jobs to workers. A leader whose term is over gives nothing.
    pub fn assign(&mut self, request: Assign, now: Timestamp) -> Vec<Answer> {
        let Assign { term, epoch, items, lapse_ms } = request;
        let term = self.terms.get(&term);
        let refused = if !term.is_some_and(|term| term.allows(epoch, now)) {
            Some(Refusal::StaleEpoch(term.map_or(0, |term| term.epoch)))
        } else {
            limits::within("lapse", lapse_ms, 1, LEASE_MAX_MS).err().map(Refusal::from)
        };
        if let Some(refusal) = refused {
            return items.iter().map(|_| Err(refusal.clone())).collect();
        }
        let assign = |(index, (job, worker)): (usize, (JobId, Who))| {
            in_batch(index)?;
            self.assign_one(job, worker, epoch, lapse_ms, now)
        };
        items.into_iter().enumerate().map(assign).collect()
    }

    fn assign_one(&mut self, id: JobId, worker: Who, epoch: i64, lapse_ms: i64, now: Timestamp) -> Answer {
        let job = &self.entry(id)?.job;
        if let Some(assignment) = job.assignment
            && job.status == Status::Assigned
            && job.worker_id.as_ref() == Some(&worker)
            && job.epoch == Some(epoch)
        {
            return Ok(Done::Already(assignment));
        }
        if job.status.is_terminal() {
            return Err(Refusal::Finished(job.status));
        }
        if self.is_paused(&job.queue) {
            return Err(Refusal::NotClaimable(job.status));
        }
        let to = Assigned { worker, epoch, deadline_at: now.plus_ms(lapse_ms) };
        let step = decide(job, Command::Assign(to), now)?;
        Ok(self.write(step))
    }

    /// Starts an assigned job, or answers the same again to who started it.
    pub fn start(&mut self, request: Start, now: Timestamp) -> Result<Claimed, Refusal> {
        let Start { job, assignment, epoch, claim } = request;
        if self.is_held_under(job, &claim, now) {
            return self.claimed(job, &claim).ok_or(Refusal::NotFound);
        }
        self.hand_out(job, Command::Start { claim: claim.clone(), assignment, epoch }, &claim, now)
    }
}
