//! How jobs enter: all of a request or none.

use crate::state::State;
use windlass_core::decide::seal_key;
use windlass_core::enqueue::{Ahead, Known, UniqueKey, check_size, first_answer, plan, size};
use windlass_core::limits::SUPERSEDED_MAX;
use windlass_core::unique::Hold;
use windlass_core::{EventKind, Facts, Job, JobId, Key, Lane, Name, Payload, Refusal, Timestamp};
use windlass_store::{BatchRefusal, ClaimOne, Enqueue, EnqueueClaimed, Enqueued, EnqueuedClaimed, Remember};

impl Known for State {
    fn created(&self, id: JobId) -> Option<(&Facts, Option<&Payload>)> {
        let first = self.entries.get(&id)?.event(1)?;
        match &first.what {
            EventKind::JobCreated(facts) => Some((facts, first.payload.as_ref())),
            _ => None,
        }
    }

    fn hold(&self, key: &UniqueKey) -> Option<&Hold> {
        self.holds.get(key)
    }

    fn parent(&self, id: JobId) -> Option<&Job> {
        self.entries.get(&id).map(|entry| &entry.job)
    }

    fn is_sealed(&self, id: JobId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.keyed(Some(&seal_key())).is_some())
    }

    fn ahead(&self, queue: &Name, key: &Key) -> Option<Ahead> {
        let (entry, lane) = (self.flow(queue)?.entry(key)?, Some(Lane::of(key)));
        let all = self
            .entries
            .values()
            .map(|entry| &entry.job)
            .filter(|job| job.queue == *queue && job.lane == lane);
        let (running, mut waiting): (Vec<&Job>, Vec<&Job>) =
            all.filter(|job| job.takes_slot() || job.stands_in_line()).partition(|job| job.takes_slot());
        if !entry.newest {
            return Some(Ahead::new(entry, waiting.len() as i64, Vec::new()));
        }
        waiting.sort_unstable_by_key(|job| (job.priority, job.due_at, job.id));
        waiting.truncate(SUPERSEDED_MAX);
        Some(Ahead::new(entry, waiting.len() as i64, waiting.into_iter().chain(running).cloned().collect()))
    }
}

impl State {
    /// Enqueues all jobs of the request, or none and names the first bad one.
    pub fn enqueue(&mut self, request: Enqueue, now: Timestamp) -> Result<Vec<Enqueued>, BatchRefusal> {
        check_size(size(&request.jobs))?;
        if let Some(promise) = &request.idempotency
            && let Some(answer) = first_answer(self.recall(promise.clone(), now))?
        {
            return Ok(answer);
        }
        let plan = plan(self, &request, now)?;
        for job in plan.fresh {
            let event = job.created(&request.actor, now);
            if let Some(row) = Job::created(&event) {
                self.create(row, vec![event], now);
            }
        }
        for born in plan.born {
            self.create(born.row, born.events, now);
        }
        for id in plan.freed {
            self.holds.retain(|_, hold| hold.job != id);
        }
        self.holds.extend(plan.holds);
        for (_, step) in plan.adoptions {
            self.write(step);
        }
        self.is_ending = true;
        for gives_way in plan.give_way {
            let row = self.entries.get(&gives_way.job).map(|entry| &entry.job);
            if let Some(step) = row.and_then(|row| gives_way.step(row, now)) {
                self.write(step);
            }
        }
        self.is_ending = false;
        self.ended.extend(plan.endings);
        self.follow_ends(now);
        let answers = plan.answers;
        if let Some(idempotency) = request.idempotency {
            // Ids and booleans always become JSON.
            let body = serde_json::to_vec(&answers).unwrap_or_default();
            let refused = |refusal| BatchRefusal { index: 0, refusal };
            self.remember(Remember { idempotency, body }, now).map_err(refused)?;
        }
        Ok(answers)
    }

    /// Enqueues one job and hands it out in the same transaction.
    pub fn enqueue_claimed(
        &mut self,
        request: EnqueueClaimed,
        now: Timestamp,
    ) -> Result<EnqueuedClaimed, Refusal> {
        let EnqueueClaimed { job, actor, claim } = request;
        // In a queue with rules somebody else may be next.
        let (id, before, is_next) = (job.id, self.news, self.flow(&job.facts.queue).is_none());
        let answers = self
            .enqueue(Enqueue { jobs: vec![job], actor, idempotency: None }, now)
            .map_err(|refused| refused.refusal)?;
        let enqueued = answers.into_iter().next().ok_or(Refusal::NotFound)?;
        // One that was there already is handed only to whom it was handed before.
        let mut claimed = None;
        if !enqueued.existed && !enqueued.dropped && is_next
            || (enqueued.existed && enqueued.id == id && self.is_held_under(id, &claim, now))
        {
            claimed = self.claim_one(ClaimOne { job: id, claim }, now).ok().map(Box::new);
        }
        if claimed.is_some() && !enqueued.existed {
            // Events were written, and nothing is left to be taken.
            self.news = Some(before.unwrap_or_default());
        }
        Ok(EnqueuedClaimed { enqueued, claimed })
    }
}
