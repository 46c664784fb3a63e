//! Jobs that a leader gives to workers.

use crate::claim::{holds, number};
use crate::db::Tx;
use crate::error::Tried;
use std::collections::HashMap;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::{self, BATCH_MAX, LEASE_MAX_MS};
use windlass_core::{Answer, Done, Job, JobId, Name, Refusal, Status, Timestamp, Who, event};
use windlass_store::{Assign, Claimed, Start};

/// What one request has locked or looked at.
struct Locked {
    jobs: HashMap<JobId, Job>,
    paused: HashMap<Name, bool>,
    now: Timestamp,
}

impl Tx<'_> {
    /// The leader's term first, then the jobs in the order of their ids; answers in the order asked.
    pub(crate) async fn assign(&self, request: &Assign) -> Tried<Vec<Answer>> {
        let term = self.share_term(&request.term).await?;
        let ids: Vec<JobId> = request.items.iter().take(BATCH_MAX).map(|(job, _)| *job).collect();
        let jobs = self.lock_rows(&ids).await?;
        let now = self.now().await?;
        let refusal = if !term.as_ref().is_some_and(|t| t.allows(request.epoch, now)) {
            Some(Refusal::StaleEpoch(term.map_or(0, |t| t.epoch)))
        } else {
            limits::within("lapse", request.lapse_ms, 1, LEASE_MAX_MS).err().map(Refusal::from)
        };
        if let Some(refusal) = refusal {
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
        let Some(job) = locked.jobs.get(&id) else { return Ok(Err(Refusal::NotFound)) };
        let same = job.status == Status::Assigned
            && job.worker_id.as_ref() == Some(worker)
            && job.epoch == Some(request.epoch);
        if let (true, Some(version)) = (same, job.assignment) {
            return Ok(Ok(Done::Already(version)));
        }
        if !job.status.is_terminal() {
            let paused = match locked.paused.get(&job.queue) {
                Some(paused) => *paused,
                None => self.is_paused(&job.queue).await?,
            };
            locked.paused.insert(job.queue.clone(), paused);
            if paused {
                return Ok(Err(Refusal::NotClaimable(job.status)));
            }
        }
        let now = locked.now.max(job.updated_at);
        let deadline_at = now.plus_ms(request.lapse_ms);
        let to = event::Assigned { worker: worker.clone(), epoch: request.epoch, deadline_at };
        match decide(job, Command::Assign(to), now) {
            Ok(step) => {
                self.write(job, &step).await?;
                let done = Done::Moved(step.job.version, step.job.status);
                locked.jobs.insert(id, step.job);
                Ok(Ok(done))
            }
            Err(refusal) => Ok(Err(refusal)),
        }
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
        match decide(&job, command, now) {
            Ok(step) => {
                self.write_claimed(&job, &step, Some(number(&request.claim))).await?;
                self.claimed(step.job, &request.claim).await.map(Ok)
            }
            Err(refusal) => Ok(Err(refusal)),
        }
    }
}
