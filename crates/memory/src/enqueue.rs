//! How jobs enter: all of a request or none.
//!
//! A request is planned first, on the state as it is and on what the plan already holds, and is written only
//! when nothing in it was refused.

use crate::state::{State, UniqueKey};
use std::collections::BTreeMap;
use windlass_core::decide::{Command, Move, check_lease, counts_children, decide};
use windlass_core::limits;
use windlass_core::unique::Hold;
use windlass_core::{Actor, Event, EventKind, Job, JobId, LeaseHash, NewJob, Refusal, Timestamp, Token};
use windlass_store::{
    BatchRefusal, ClaimOne, Enqueue, EnqueueClaimed, Enqueued, EnqueuedClaimed, Idempotency, Remember,
};

impl State {
    /// Enqueues all jobs of the request, or none and names the first bad one.
    pub fn enqueue(&mut self, request: Enqueue, now: Timestamp) -> Result<Vec<Enqueued>, BatchRefusal> {
        if let Err(invalid) = limits::count("jobs", request.jobs.len(), limits::ENQUEUE_MAX) {
            return Err(BatchRefusal { index: limits::ENQUEUE_MAX, refusal: invalid.into() });
        }
        let Enqueue { jobs, actor, idempotency } = request;
        if let Some(idempotency) = &idempotency {
            let known = self.first_answer(idempotency, now);
            if let Some(answer) = known.map_err(|refusal| BatchRefusal { index: 0, refusal })? {
                return Ok(answer);
            }
        }
        let mut plan = Plan::new(self, actor, now);
        for (index, job) in jobs.into_iter().enumerate() {
            plan.add(index, job).map_err(|refusal| BatchRefusal { index, refusal })?;
        }
        let planned = plan.finish()?;
        for (job, event) in planned.created {
            self.create(job, vec![event], now);
        }
        self.holds.extend(planned.holds);
        for step in planned.adoptions {
            self.write(step);
        }
        if let Some(idempotency) = idempotency {
            // Ids and booleans always become JSON.
            let body = serde_json::to_vec(&planned.answers).unwrap_or_default();
            let refused = |refusal| BatchRefusal { index: 0, refusal };
            self.remember(Remember { idempotency, body }, now).map_err(refused)?;
        }
        Ok(planned.answers)
    }

    /// Enqueues one job and hands it out in the same breath.
    pub fn enqueue_claimed(
        &mut self,
        request: EnqueueClaimed,
        now: Timestamp,
    ) -> Result<EnqueuedClaimed, Refusal> {
        let EnqueueClaimed { job, actor, claim } = request;
        let (id, before) = (job.id, self.news);
        let answers = self
            .enqueue(Enqueue { jobs: vec![job], actor, idempotency: None }, now)
            .map_err(|refused| refused.refusal)?;
        let enqueued = answers.into_iter().next().ok_or(Refusal::NotFound)?;
        // One that was there already is handed only to whom it was handed before.
        let mut claimed = None;
        if !enqueued.existed || (enqueued.id == id && self.is_held_under(id, &claim, now)) {
            claimed = self.claim_one(ClaimOne { job: id, claim }, now).ok().map(Box::new);
        }
        if claimed.is_some() && !enqueued.existed {
            // Events were written, and nothing is left to be taken.
            self.news = Some(before.unwrap_or_default());
        }
        Ok(EnqueuedClaimed { enqueued, claimed })
    }

    /// What the same request was answered before. A key that stands for another verb's answer was reused.
    fn first_answer(&self, key: &Idempotency, now: Timestamp) -> Result<Option<Vec<Enqueued>>, Refusal> {
        let Some(body) = self.recall(key.clone(), now)? else { return Ok(None) };
        serde_json::from_slice(&body).map(Some).map_err(|_| Refusal::IdempotencyKeyReused)
    }
}

/// A request on its way in: what would be written if nothing in it were refused.
struct Plan<'a> {
    state: &'a State,
    actor: Actor,
    now: Timestamp,
    answers: Vec<Enqueued>,
    created: Vec<(Job, Event)>,
    /// Where in `created` a job is.
    places: BTreeMap<JobId, usize>,
    holds: BTreeMap<UniqueKey, Hold>,
    families: BTreeMap<JobId, Family>,
}

/// The new children of one parent.
struct Family {
    /// The first of them, to name when the parent refuses.
    index: usize,
    lease: Option<LeaseHash>,
    children: Vec<JobId>,
}

/// A request that may be written.
struct Planned {
    answers: Vec<Enqueued>,
    created: Vec<(Job, Event)>,
    holds: BTreeMap<UniqueKey, Hold>,
    adoptions: Vec<Move>,
}

impl<'a> Plan<'a> {
    fn new(state: &'a State, actor: Actor, now: Timestamp) -> Self {
        Self {
            state,
            actor,
            now,
            answers: Vec::new(),
            created: Vec::new(),
            places: BTreeMap::new(),
            holds: BTreeMap::new(),
            families: BTreeMap::new(),
        }
    }

    /// Plans one job. Later jobs see earlier ones of the same request.
    fn add(&mut self, index: usize, job: NewJob) -> Result<(), Refusal> {
        job.check(self.now)?;
        if let Some(known) = self.known(&job)? {
            self.answers.push(known);
            return Ok(());
        }
        if let Some(unique) = &job.facts.unique {
            let hold = Hold::take(job.id, unique, job.payload.as_ref(), self.now);
            self.holds.insert((unique.scope.clone(), unique.key.clone()), hold);
        }
        if let Some(parent) = job.facts.parent_id {
            self.adopt(index, parent, job.id, job.parent_token)?;
        }
        let event = Event {
            job: job.id,
            version: 1,
            at: self.now,
            actor: self.actor.clone(),
            attempt: 0,
            generation: 0,
            lease: None,
            key: None,
            what: EventKind::JobCreated(Box::new(job.facts)),
            payload: job.payload,
        };
        let row = Job::created(&event).expect("the event is a job_created");
        self.places.insert(job.id, self.created.len());
        self.created.push((row, event));
        self.answers.push(Enqueued { id: job.id, existed: false, payload_differs: false });
        Ok(())
    }

    /// The job that is there already: by its id with the same body, or by its unique key.
    fn known(&self, job: &NewJob) -> Result<Option<Enqueued>, Refusal> {
        if let Some(first) = self.first_event(job.id) {
            let same = matches!(&first.what, EventKind::JobCreated(facts) if **facts == job.facts);
            if !same || first.payload != job.payload {
                return Err(Refusal::JobExists);
            }
            return Ok(Some(Enqueued { id: job.id, existed: true, payload_differs: false }));
        }
        let Some(unique) = &job.facts.unique else { return Ok(None) };
        let key = (unique.scope.clone(), unique.key.clone());
        let hold = self.holds.get(&key).or_else(|| self.state.holds.get(&key));
        let mine = Hold::take(job.id, unique, job.payload.as_ref(), self.now);
        Ok(hold.filter(|hold| hold.is_held(self.now)).map(|hold| Enqueued {
            id: hold.job,
            existed: true,
            payload_differs: hold.payload_hash != mine.payload_hash,
        }))
    }

    fn adopt(
        &mut self,
        index: usize,
        parent: JobId,
        child: JobId,
        token: Option<Token>,
    ) -> Result<(), Refusal> {
        let row = self.row(parent).ok_or(Refusal::ParentNotFound(parent))?;
        let lease = token.map(|token| token.hash());
        if let Some(lease) = lease {
            check_lease(row, lease, self.now)?;
        }
        if !counts_children(row) {
            // Linked, so that lists show it, but a completed job never waits again.
            return Ok(());
        }
        let family =
            self.families.entry(parent).or_insert(Family { index, lease: None, children: Vec::new() });
        family.lease = family.lease.or(lease);
        family.children.push(child);
        Ok(())
    }

    /// Everything that is to be written; each parent learns of all its new children by one event.
    fn finish(mut self) -> Result<Planned, BatchRefusal> {
        let mut adoptions = Vec::new();
        for (parent, family) in std::mem::take(&mut self.families) {
            let Some(row) = self.row(parent) else { continue };
            let command = Command::AddChildren(self.actor.clone(), family.lease, family.children);
            let step = decide(row, command, self.now);
            adoptions.push(step.map_err(|refusal| BatchRefusal { index: family.index, refusal })?);
        }
        Ok(Planned { answers: self.answers, created: self.created, holds: self.holds, adoptions })
    }

    fn row(&self, id: JobId) -> Option<&Job> {
        let planned = self.places.get(&id).map(|place| &self.created[*place].0);
        planned.or_else(|| self.state.entries.get(&id).map(|entry| &entry.job))
    }

    fn first_event(&self, id: JobId) -> Option<&Event> {
        let planned = self.places.get(&id).map(|place| &self.created[*place].1);
        planned.or_else(|| self.state.entries.get(&id).and_then(|entry| entry.event(1)))
    }
}
