//! Everything past its deadline. Any process may sweep, any time: a late sweep costs only latency.

use crate::append::granted;
use crate::db::{Tx, sql};
use crate::error::{Failure, Tried};
use windlass_core::decide::{Command, decide};
use windlass_core::limits::BATCH_MAX;
use windlass_core::{Answer, Done, JobId, Refusal, Timestamp};
use windlass_store::{CancelIdle, Sweep, Swept};

impl Tx<'_, '_> {
    pub(crate) fn sweep(&self, request: &Sweep, now: Timestamp) -> Tried<Vec<Swept>> {
        let limit = request.limit.min(BATCH_MAX) as i64;
        self.execute(sql!("forget_answers"), (now.as_micros(), limit))?;
        self.execute(sql!("forget_keys"), (now.as_micros(), limit))?;
        let overdue =
            self.all(sql!("overdue"), (now.as_micros(), limit), |r| Ok(JobId::from_bytes(r.get(0)?)))?;
        let mut swept = Vec::new();
        for id in overdue {
            // As it is now: another of these may have told it something, as a child tells its parent.
            let job = match self.job(id) {
                Err(Failure::Corrupt { why, .. }) => {
                    self.set_aside(id, &why, now)?;
                    continue;
                }
                job => job?,
            };
            let Some(job) = job else { continue };
            // The statement passed over assignments whose worker is there.
            let Ok(step) = decide(&job, Command::Expire { worker_gone: true }, now) else { continue };
            self.write(&job, &step)?;
            swept.push(Swept { job: id, answer: Ok(Done::Moved(step.job.version, step.job.status)) });
        }
        Ok(swept)
    }

    pub(crate) fn cancel_idle(
        &self,
        request: &CancelIdle,
        now: Timestamp,
    ) -> Tried<Result<Vec<Answer>, Refusal>> {
        granted!(request.decide(self.term(&request.term)?.as_ref(), now));
        let cancel = |id: &JobId| {
            let Some(job) = self.job(*id)? else { return Ok(Err(Refusal::NotFound)) };
            let step = granted!(request.decide_one(&job, now));
            self.finish(&job, step)
        };
        request.jobs.iter().map(cancel).collect::<Tried<_>>().map(Ok)
    }
}
