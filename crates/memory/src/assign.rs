//! Giving jobs to workers under a leader's epoch, and their start.

use crate::index::id_of;
use crate::state::{State, in_batch, page};
use std::cmp::Reverse;
use windlass_core::decide::Command;
use windlass_core::event::Assigned;
use windlass_core::limits::{PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::operate::{Verdict, assign};
use windlass_core::term::may_assign;
use windlass_core::{Answer, Cursor, Job, JobId, Name, Queue, QueueMode, Refusal, Timestamp, Who};
use windlass_store::{Assign, Claimed, ReadUnassigned, Start, Unassigned, UnassignedPage, UnassignedPlace};

impl State {
    /// Due jobs of queues in mode push.
    pub fn unassigned(&mut self, request: ReadUnassigned, now: Timestamp) -> UnassignedPage {
        let is_push = |queue: &&Queue| queue.mode == QueueMode::Push && queue.paused.is_none();
        let queues: Vec<Name> =
            self.queues.values().filter(is_push).map(|queue| queue.name.clone()).collect();
        let mut jobs = Vec::new();
        for queue in &queues {
            let place = request.after.iter().find(|place| place.queue == *queue);
            self.line(queue, place, page(request.limit), now, &mut jobs);
        }
        UnassignedPage { queues, jobs }
    }

    fn line(
        &self,
        queue: &Name,
        from: Option<&UnassignedPlace>,
        limit: usize,
        now: Timestamp,
        jobs: &mut Vec<Unassigned>,
    ) {
        let (first, most) = (from.map_or(PRIORITY_MAX as i32, |place| place.priority), jobs.len() + limit);
        for priority in (PRIORITY_MIN as i32..=first).rev() {
            let begin = from.filter(|place| place.priority == priority);
            let mut place = begin.map(|at| Cursor::Due(queue.clone(), Reverse(priority), at.due_at, at.id));
            while jobs.len() < most
                && let Some(next) = self.index.next_due(queue, priority, place.as_ref(), now).cloned()
            {
                jobs.extend(self.due_job(id_of(&next)));
                place = Some(next);
            }
        }
    }

    fn due_job(&self, id: JobId) -> Option<Unassigned> {
        let entry = self.entry(id).ok()?;
        let Job { queue, kind, priority, due_at, .. } = entry.job.clone();
        let requires = entry.facts().map(|facts| facts.requires.clone()).unwrap_or_default();
        Some(Unassigned { id, queue, kind, priority, due_at: due_at?, requires })
    }

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
        let (queue, (lane, cost)) = (job.queue.clone(), self.price(job));
        let to = Assigned { worker, epoch, deadline_at: now.plus_ms(lapse_ms) };
        // What is held already starts nothing more by this.
        let flow = self.flow(&queue).filter(|_| !job.takes_slot());
        let mut rates = flow.and_then(|flow| self.rates(&queue, flow, now));
        let admits = rates.as_mut().is_none_or(|rates| rates.admits(lane, cost));
        let closed = self.is_paused(&queue) || !self.has_slot(job, now) || !admits;
        let verdict = assign(job, to, closed, now)?;
        if let (Some(rates), Verdict::Step(_)) = (&mut rates, &verdict) {
            rates.pay(lane, cost);
        }
        self.keep_rates(&queue, rates, now);
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
