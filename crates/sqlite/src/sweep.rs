//! Everything past its deadline. Any process may sweep, any time: a late sweep costs only latency.

use crate::db::{Tx, sql};
use crate::error::Tried;
use crate::row;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::BATCH_MAX;
use windlass_core::wait::ApprovalStatus;
use windlass_core::{Done, Job, Status, Timestamp, WaitFor};
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
                    self.expire_approval(&job, now)?;
                    self.write(&job, &step)?;
                    let answer = Ok(Done::Moved(step.job.version, step.job.status));
                    swept.push(Swept { job: job.id, answer });
                }
                Err(refusal) => swept.push(Swept { job: job.id, answer: Err(refusal) }),
            }
        }
        Ok(swept)
    }

    fn expire_approval(&self, job: &Job, now: Timestamp) -> Tried<()> {
        let (Status::Waiting, Some(WaitFor::Approval), Some(name)) =
            (job.status, job.waiting_for, &job.wait_name)
        else {
            return Ok(());
        };
        if let Some(mut approval) = self.approval_by_name(job.id, name)?
            && approval.status == ApprovalStatus::Pending
        {
            approval.status = ApprovalStatus::Expired;
            approval.decided_at = Some(now);
            self.put_approval(&approval)?;
        }
        Ok(())
    }
}
