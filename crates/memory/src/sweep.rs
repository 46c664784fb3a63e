//! Acting on what is past its deadline: timeouts, forced cancels, expired waits, orphans.

use crate::state::State;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::BATCH_MAX;
use windlass_core::{Answer, JobId, Refusal, Timestamp};
use windlass_store::{CancelIdle, Sweep, Swept};

impl State {
    /// Acts on jobs past their deadline, soonest first. A job that nothing can be done about takes no place.
    pub fn sweep(&mut self, request: Sweep, now: Timestamp) -> Vec<Swept> {
        self.answers.retain(|_, answer| answer.expires_at > now);
        self.holds.retain(|_, hold| hold.is_held(now));
        let mut swept = Vec::new();
        let mut place = None;
        while swept.len() < request.limit.min(BATCH_MAX) {
            let Some(next) = self.index.next_deadline(place, now) else { break };
            place = Some(next);
            let answer = self.expire(next.1, now);
            if answer.is_ok() {
                swept.push(Swept { job: next.1, answer });
            }
        }
        swept
    }

    /// Cancels jobs that stand still, each for itself.
    pub fn cancel_idle(&mut self, request: CancelIdle, now: Timestamp) -> Result<Vec<Answer>, Refusal> {
        request.decide(self.terms.get(&request.term), now)?;
        let mut cancel = |id: &JobId| {
            let step = request.decide_one(&self.entry(*id)?.job, now)?;
            Ok(self.write(step))
        };
        Ok(request.jobs.iter().map(&mut cancel).collect())
    }

    fn expire(&mut self, id: JobId, now: Timestamp) -> Answer {
        let job = &self.entry(id)?.job;
        let worker = job.worker_id.as_ref().and_then(|worker| self.workers.get(worker));
        let worker_gone = worker.is_none_or(|worker| worker.is_gone(now));
        let step = decide(job, Command::Expire { worker_gone }, now)?;
        Ok(self.write(step))
    }
}
