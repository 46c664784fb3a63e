//! Everything past its deadline. Any process may sweep, any time: a late sweep costs only latency.

use crate::db::{Tx, sql};
use crate::error::Tried;
use crate::row;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::BATCH_MAX;
use windlass_core::{Done, Timestamp};
use windlass_store::{Sweep, Swept};

impl Tx<'_, '_> {
    pub(crate) fn sweep(&self, request: &Sweep, now: Timestamp) -> Tried<Vec<Swept>> {
        let limit = request.limit.min(BATCH_MAX) as i64;
        self.execute(sql!("forget_answers"), (now.as_micros(), limit))?;
        let overdue = self.all(sql!("overdue"), (now.as_micros(), limit), row::job)?;
        let mut swept = Vec::new();
        for job in overdue {
            // The statement passed over assignments whose worker is there.
            match decide(&job, Command::Expire { worker_gone: true }, now) {
                Ok(step) => {
                    self.write(&job, &step)?;
                    let answer = Ok(Done::Moved(step.job.version, step.job.status));
                    swept.push(Swept { job: job.id, answer });
                }
                Err(refusal) => swept.push(Swept { job: job.id, answer: Err(refusal) }),
            }
        }
        Ok(swept)
    }
}
