//! Handing out due jobs: many by queue, or one by its id.

use crate::index::id_of;
use crate::state::{Entry, State};
use windlass_core::decide::{Claim, Command, decide};
use windlass_core::limits::{CLAIM_MAX, PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::step::{StepState, recorded, wake};
use windlass_core::{JobId, Lease, Name, Refusal, Status, Timestamp, Wake};
use windlass_store::{ClaimMany, ClaimOne, Claimed};

impl State {
    /// Hands out due jobs: queues in the given order, then priority, due time, id.
    pub fn claim(&mut self, request: ClaimMany, now: Timestamp) -> Vec<Claimed> {
        let max = request.max.min(CLAIM_MAX);
        if max == 0 {
            return Vec::new();
        }
        let again = self.claimed_before(&request.claim, now);
        if !again.is_empty() {
            return again;
        }
        let mut claimed = Vec::new();
        for (place, queue) in request.queues.iter().enumerate() {
            if claimed.len() >= max {
                break;
            }
            if request.queues[..place].contains(queue) || !self.is_open(queue) {
                continue;
            }
            if let Some(flow) = self.settled_flow(queue, now) {
                self.claim_laned(queue, &flow, &request, max, now, &mut claimed);
                continue;
            }
            for priority in (PRIORITY_MIN as i32..=PRIORITY_MAX as i32).rev() {
                self.claim_line(queue, priority, &request, max, now, &mut claimed);
            }
        }
        self.start_assigned(&request, max, now, &mut claimed);
        claimed
    }

    /// Starts what this worker was assigned.
    fn start_assigned(
        &mut self,
        request: &ClaimMany,
        max: usize,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) {
        let ClaimMany { queues, kinds, claim, .. } = request;
        let mine = |id: &JobId| {
            let Ok(Entry { job, .. }) = self.entry(*id) else { return false };
            job.status == Status::Assigned
                && queues.contains(&job.queue)
                && !self.is_paused(&job.queue)
                && (kinds.is_empty() || kinds.contains(&job.kind))
        };
        let room = max.saturating_sub(claimed.len());
        let ids: Vec<JobId> = self.index.of_worker(&claim.worker).filter(mine).take(room).collect();
        for id in ids {
            let Ok(Entry { job, .. }) = self.entry(id) else { continue };
            let (assignment, epoch) = (job.assignment.unwrap_or_default(), job.epoch.unwrap_or_default());
            let start = Command::Start { claim: claim.clone(), assignment, epoch };
            claimed.extend(self.hand_out(id, start, claim, now));
        }
    }

    /// Takes from one queue and priority until there is enough or nothing due.
    fn claim_line(
        &mut self,
        queue: &Name,
        priority: i32,
        request: &ClaimMany,
        max: usize,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) {
        let mut place = None;
        while claimed.len() < max {
            let Some(next) = self.index.next_due(queue, priority, place.as_ref(), now).cloned() else {
                return;
            };
            let id = id_of(&next);
            place = Some(next);
            let wanted = |kind: &Name| request.kinds.is_empty() || request.kinds.contains(kind);
            if self.entry(id).is_ok_and(|entry| wanted(&entry.job.kind)) {
                // A refusal means that it ended, or waits for its retry, by being looked at: nobody gets it.
                claimed.extend(self.hand_out(id, Command::Claim(request.claim.clone()), &request.claim, now));
            }
        }
    }

    /// Hands out one job by its id.
    pub fn claim_one(&mut self, request: ClaimOne, now: Timestamp) -> Result<Claimed, Refusal> {
        let job = &self.entry(request.job)?.job;
        if self.is_held_under(request.job, &request.claim, now) {
            return self.claimed(request.job, &request.claim).ok_or(Refusal::NotFound);
        }
        if job.status.is_terminal() {
            return Err(Refusal::Finished(job.status));
        }
        if !self.is_open(&job.queue) || !self.has_slot(job, now) {
            return Err(Refusal::NotClaimable(job.status));
        }
        let queue = job.queue.clone();
        let mut rates = self.flow(&queue).and_then(|flow| self.rates(&queue, flow, now));
        let claimed = self.hand_out_paid(request.job, &request.claim, &mut rates, now);
        self.keep_rates(&queue, rates, now);
        claimed
    }

    /// Writes what a claim or a start leads to. Only a job that runs by it is handed out.
    pub fn hand_out(
        &mut self,
        id: JobId,
        command: Command,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Claimed, Refusal> {
        let step = decide(&self.entry(id)?.job, command, now)?;
        self.write(step);
        let entry = self.entry(id)?;
        if entry.job.status == Status::Running && entry.facts().is_none() {
            let step = decide(&entry.job, Command::LosePayload, now)?;
            self.write(step);
        }
        match self.entry(id)?.job.status {
            Status::Running => self.claimed(id, claim).ok_or(Refusal::NotFound),
            status if status.is_terminal() => Err(Refusal::Finished(status)),
            status => Err(Refusal::NotClaimable(status)),
        }
    }

    /// Whether a job is held by this claimer, under the token that its secret gives the attempt.
    pub fn is_held_under(&self, id: JobId, claim: &Claim, now: Timestamp) -> bool {
        self.entries.get(&id).is_some_and(|entry| {
            let job = &entry.job;
            job.is_held(now)
                && job.worker_id.as_ref() == Some(&claim.worker)
                && job.lease_hash == Some(claim.secret.token(id, job.attempt).hash())
        })
    }

    /// What a worker is told about a job that it holds.
    pub fn claimed(&self, id: JobId, claim: &Claim) -> Option<Claimed> {
        let entry = self.entries.get(&id)?;
        let job = entry.job.clone();
        let steps = recorded(&entry.events, job.steps_from).steps;
        let ended = steps.iter().filter(|step| matches!(step.state, StepState::Ended { .. })).count();
        Some(Claimed {
            lease: Lease {
                job: id,
                attempt: job.attempt,
                fence: self.life.fence(job.attempt),
                token: claim.secret.token(id, job.attempt),
                worker: claim.worker.clone(),
                expires_at: job.lease_expires_at?,
            },
            facts: entry.facts()?.clone(),
            payload: entry.payload_now(),
            checkpoint: entry.payload(job.checkpoint_version),
            metadata: entry.metadata(),
            wake: self.wake(id),
            steps_recorded: i64::try_from(ended).unwrap_or(i64::MAX),
            job,
        })
    }

    fn wake(&self, id: JobId) -> Option<Wake> {
        let entry = self.entries.get(&id)?;
        let waiting = entry.event(entry.job.wait_version?)?;
        wake(waiting, entry.job.wake_version.and_then(|version| entry.event(version)))
    }

    /// What this very claim handed out before, if its answer was lost.
    fn claimed_before(&self, claim: &Claim, now: Timestamp) -> Vec<Claimed> {
        let mine = self.index.of_worker(&claim.worker);
        let held = mine.filter(|id| self.is_held_under(*id, claim, now));
        held.filter_map(|id| self.claimed(id, claim)).collect()
    }
}
