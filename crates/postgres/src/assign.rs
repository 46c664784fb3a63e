//! Jobs that a leader gives to workers.

use crate::append::granted;
use crate::claim::{holds, number};
use crate::db::Tx;
use crate::error::Tried;
use std::collections::HashMap;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::{self, BATCH_MAX};
use windlass_core::operate::{Verdict, assign};
use windlass_core::term::may_assign;
use windlass_core::{Answer, Done, Job, JobId, Name, Refusal, Timestamp, Who, event};
use windlass_store::{Assign, Claimed, Start};

/// What one request has locked or looked at.
struct Locked {
    jobs: HashMap<JobId, Result<Job, Refusal>>,
    paused: HashMap<Name, bool>,
    now: Timestamp,
}

impl Tx<'_> {
    /// The leader's term first, then the jobs in the order of their ids; answers in the order asked. A job that another
    /// transaction holds is answered for itself.
    pub(crate) async fn assign(&self, request: &Assign) -> Tried<Vec<Answer>> {
        let term = self.share_term(&request.term).await?;
        let ids: Vec<JobId> = request.items.iter().take(BATCH_MAX).map(|(job, _)| *job).collect();
        let jobs = self.lock_free_rows(&ids).await?;
        let now = self.now().await?;
        if let Err(refusal) = may_assign(term.as_ref(), request.epoch, request.lapse_ms, now) {
            return Ok(request.items.iter().map(|_| Err(refusal.clone())).collect());
        }
        let mut locked = Locked { jobs, paused: HashMap::new(), now };
        let mut answers = Vec::with_capacity(request.items.len());
        for (n, (job, worker)) in request.items.iter().enumerate() {
            answers.push(match limits::count("items", n + 1, BATCH_MAX) {
                Ok(()) => self.assign_one(request, *job, worker, &mut locked).await?,
                Err(invalid) => Err(invalid.into()),
            });
        }
        Ok(answers)
    }

    async fn assign_one(
        &self,
        request: &Assign,
        id: JobId,
        worker: &Who,
        locked: &mut Locked,
    ) -> Tried<Answer> {
        let job = match locked.jobs.get(&id) {
            Some(Ok(job)) => job,
            Some(Err(busy)) => return Ok(Err(busy.clone())),
            None => return Ok(Err(Refusal::NotFound)),
        };
        let paused = match locked.paused.get(&job.queue) {
            Some(paused) => *paused,
            None => self.is_paused(&job.queue).await?,
        };
        locked.paused.insert(job.queue.clone(), paused);
        let now = locked.now.max(job.updated_at);
        let deadline_at = now.plus_ms(request.lapse_ms);
        let to = event::Assigned { worker: worker.clone(), epoch: request.epoch, deadline_at };
        let step = match granted!(assign(job, to, paused, now)) {
            Verdict::Already(version) => return Ok(Ok(Done::Already(version))),
            Verdict::Step(step) => *step,
        };
        self.write(job, &step).await?;
        let done = Done::Moved(step.job.version, step.job.status);
        locked.jobs.insert(id, Ok(step.job));
        Ok(Ok(done))
    }

    pub(crate) async fn start(&self, request: &Start) -> Tried<Result<Claimed, Refusal>> {
        let (Some(job), now) = self.lock_row(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        if holds(&job, &request.claim, now) {
            return self.claimed(job, &request.claim).await.map(Ok);
        }
        let command = Command::Start {
            claim: request.claim.clone(),
            assignment: request.assignment,
            epoch: request.epoch,
        };
        let step = granted!(decide(&job, command, now));
        self.write_claimed(&job, &step, Some(number(&request.claim))).await?;
        self.claimed(step.job, &request.claim).await.map(Ok)
    }
}
