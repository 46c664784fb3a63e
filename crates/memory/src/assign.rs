//! Giving jobs to workers under a leader's epoch, and their start.

use crate::state::{State, in_batch};
use windlass_core::decide::Command;
use windlass_core::event::Assigned;
use windlass_core::operate::assign;
use windlass_core::term::may_assign;
use windlass_core::{Answer, JobId, Refusal, Timestamp, Who};
use windlass_store::{Assign, Claimed, Start};

impl State {
    /// Gives jobs to workers. A leader whose term is over gives nothing.
    pub fn assign(&mut self, request: Assign, now: Timestamp) -> Vec<Answer> {
        let Assign { term, epoch, items, lapse_ms } = request;
        if let Err(refusal) = may_assign(self.terms.get(&term), epoch, lapse_ms, now) {
            return items.iter().map(|_| Err(refusal.clone())).collect();
        }
        let one = |(index, (job, worker)): (usize, (JobId, Who))| {
            in_batch(index)?;
            self.assign_one(job, worker, epoch, lapse_ms, now)
        };
        items.into_iter().enumerate().map(one).collect()
    }

    fn assign_one(&mut self, id: JobId, worker: Who, epoch: i64, lapse_ms: i64, now: Timestamp) -> Answer {
        let job = &self.entry(id)?.job;
        let to = Assigned { worker, epoch, deadline_at: now.plus_ms(lapse_ms) };
        let verdict = assign(job, to, self.is_paused(&job.queue), now)?;
        Ok(self.carry(verdict))
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
