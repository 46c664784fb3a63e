//! How jobs enter: all of a request or nothing. Everything is checked before the first write.

use crate::claim::holds;
use crate::db::{Tx, sql};
use crate::error::{Failure, Tried};
use std::collections::{BTreeMap, HashMap};
use windlass_core::decide::{Command, check_lease, counts_children, decide};
use windlass_core::limits::ENQUEUE_MAX;
use windlass_core::unique::Hold;
use windlass_core::{
    Actor, Event, EventKind, Facts, Invalid, Job, JobId, LeaseHash, NewJob, Payload, Refusal, Timestamp,
    Unique,
};
use windlass_store::{BatchRefusal, ClaimOne, Enqueue, EnqueueClaimed, Enqueued, EnqueuedClaimed};

/// What is known of a request before anything is written.
#[derive(Default)]
struct Plan<'r> {
    /// The greatest id in the store. Ids begin with their time, so hardly any request needs to look up its own.
    newest: Option<JobId>,
    answers: Vec<Enqueued>,
    /// Jobs to write, each with whether it is a child to count.
    fresh: Vec<&'r NewJob>,
    by_id: HashMap<JobId, &'r NewJob>,
    keys: HashMap<(String, String), Hold>,
    /// Children to count, by parent; with the lease they come under.
    children: BTreeMap<JobId, (Option<LeaseHash>, Vec<JobId>)>,
}

impl Tx<'_, '_> {
    pub(crate) fn enqueue(
        &self,
        request: &Enqueue,
        now: Timestamp,
    ) -> Tried<Result<Vec<Enqueued>, BatchRefusal>> {
        if request.jobs.len() > ENQUEUE_MAX {
            let limit = format!("at most {ENQUEUE_MAX} jobs in one request");
            let refusal = Invalid::new("jobs", format!("{} jobs", request.jobs.len()), limit).into();
            return Ok(Err(BatchRefusal { index: ENQUEUE_MAX, refusal }));
        }
        if let Some(promise) = &request.idempotency {
            let refused = |refusal| Ok(Err(BatchRefusal { index: 0, refusal }));
            match self.recall(promise, now)? {
                // A key that stands for another verb's answer was reused.
                Ok(Some(body)) => match serde_json::from_slice(&body) {
                    Ok(answers) => return Ok(Ok(answers)),
                    Err(_) => return refused(Refusal::IdempotencyKeyReused),
                },
                Ok(None) => {}
                Err(refusal) => return refused(refusal),
            }
        }
        let mut plan = Plan { newest: self.newest_job()?, ..Plan::default() };
        for (index, job) in request.jobs.iter().enumerate() {
            if let Err(refusal) = self.plan(&mut plan, job, now)? {
                return Ok(Err(BatchRefusal { index, refusal }));
            }
        }
        self.carry_out(&plan, &request.actor, now)?;
        if let Some(promise) = &request.idempotency {
            self.put_answer(promise, &serde_json::to_vec(&plan.answers)?, now)?;
        }
        Ok(Ok(plan.answers))
    }

    /// Enqueues one job and hands it out in the same breath.
    pub(crate) fn enqueue_claimed(
        &self,
        request: &EnqueueClaimed,
        now: Timestamp,
    ) -> Tried<Result<EnqueuedClaimed, Refusal>> {
        let EnqueueClaimed { job, actor, claim } = request;
        let (_, due_before) = self.hints();
        let alone = Enqueue { jobs: vec![job.clone()], actor: actor.clone(), idempotency: None };
        let enqueued = match self.enqueue(&alone, now)? {
            Ok(answers) => answers.into_iter().next().unwrap_or_else(|| first(job)),
            Err(refused) => return Ok(Err(refused.refusal)),
        };
        // One that was there already is handed only to whom it was handed before.
        let mine = || Ok::<_, Failure>(self.job(job.id)?.is_some_and(|job| holds(&job, claim, now)));
        if enqueued.existed && (enqueued.id != job.id || !mine()?) {
            return Ok(Ok(EnqueuedClaimed { enqueued, claimed: None }));
        }
        let claimed = self.claim_one(&ClaimOne { job: job.id, claim: claim.clone() }, now)?;
        if claimed.is_ok() {
            self.set_due(due_before);
        }
        Ok(Ok(EnqueuedClaimed { enqueued, claimed: claimed.ok().map(Box::new) }))
    }

    fn plan<'r>(&self, plan: &mut Plan<'r>, job: &'r NewJob, now: Timestamp) -> Tried<Result<(), Refusal>> {
        if let Err(invalid) = job.check(now) {
            return Ok(Err(invalid.into()));
        }
        let there = |id, payload_differs| Enqueued { id, existed: true, payload_differs };
        if let Some(same) = self.same_id(plan, job)? {
            plan.answers.push(there(job.id, false));
            return Ok(same);
        }
        if let Some(unique) = &job.facts.unique {
            let taken = Hold::take(job.id, unique, job.payload.as_ref(), now);
            if let Some(hold) = self.hold(plan, unique, now)? {
                plan.answers.push(there(hold.job, hold.payload_hash != taken.payload_hash));
                return Ok(Ok(()));
            }
            plan.keys.insert((unique.scope.to_text(), unique.key.as_str().to_owned()), taken);
        }
        if let Err(refusal) = self.plan_parent(plan, job, now)? {
            return Ok(Err(refusal));
        }
        plan.answers.push(first(job));
        plan.by_id.insert(job.id, job);
        plan.fresh.push(job);
        Ok(Ok(()))
    }

    /// Whether the id is taken: by the same body, which is a repeat, or by another, which is refused.
    fn same_id(&self, plan: &Plan<'_>, job: &NewJob) -> Tried<Option<Result<(), Refusal>>> {
        let same = |facts: &_, payload: Option<&Payload>| {
            if *facts == job.facts && payload == job.payload.as_ref() {
                Ok(())
            } else {
                Err(Refusal::JobExists)
            }
        };
        if let Some(earlier) = plan.by_id.get(&job.id) {
            return Ok(Some(same(&earlier.facts, earlier.payload.as_ref())));
        }
        if plan.newest.is_none_or(|newest| job.id > newest) {
            return Ok(None);
        }
        Ok(self.created(job.id)?.map(|(facts, payload)| same(&facts, payload.as_ref())))
    }

    fn newest_job(&self) -> Tried<Option<JobId>> {
        let newest: Option<Option<[u8; 16]>> = self.one(sql!("newest_job"), (), |r| Ok(r.get(0)?))?;
        Ok(newest.flatten().map(JobId::from_bytes))
    }

    fn hold(&self, plan: &Plan<'_>, unique: &Unique, now: Timestamp) -> Tried<Option<Hold>> {
        if let Some(hold) = plan.keys.get(&(unique.scope.to_text(), unique.key.as_str().to_owned())) {
            return Ok(Some(hold.clone()));
        }
        self.find_key(&unique.scope, &unique.key, now)
    }

    fn plan_parent(&self, plan: &mut Plan<'_>, job: &NewJob, now: Timestamp) -> Tried<Result<(), Refusal>> {
        let Some(id) = job.facts.parent_id else { return Ok(Ok(())) };
        let lease = job.parent_token.map(|t| t.hash());
        let counts = match self.job(id)? {
            None if !plan.by_id.contains_key(&id) => return Ok(Err(Refusal::ParentNotFound(id))),
            None if lease.is_some() => return Ok(Err(Refusal::NotLeased(windlass_core::Status::Pending))),
            None => true,
            Some(parent) => {
                if let Some(Err(refusal)) = lease.map(|hash| check_lease(&parent, hash, now)) {
                    return Ok(Err(refusal));
                }
                counts_children(&parent)
            }
        };
        if counts {
            let (under, children) = plan.children.entry(id).or_default();
            *under = under.or(lease);
            children.push(job.id);
        }
        Ok(Ok(()))
    }

    fn carry_out(&self, plan: &Plan<'_>, actor: &Actor, now: Timestamp) -> Tried<()> {
        for job in &plan.fresh {
            let event = created(job, actor, now);
            self.append_event(&event)?;
            if let Some(row) = Job::created(&event) {
                self.create_job(&row, now)?;
            }
            self.tag(job.id, &job.facts)?;
        }
        for ((scope, key), hold) in &plan.keys {
            self.take_key(scope, key, hold)?;
        }
        for (id, (lease, children)) in &plan.children {
            let Some(parent) = self.job(*id)? else { continue };
            if let Ok(step) =
                decide(&parent, Command::AddChildren(actor.clone(), *lease, children.clone()), now)
            {
                self.write(&parent, &step)?;
            }
        }
        Ok(())
    }
}

impl Tx<'_, '_> {
    /// Makes a job findable by its tags.
    pub(crate) fn tag(&self, job: JobId, facts: &Facts) -> Tried<()> {
        for tag in &facts.tags {
            self.execute(sql!("insert_tag"), (tag.as_str(), job.as_bytes()))?;
        }
        Ok(())
    }
}

fn created(job: &NewJob, actor: &Actor, now: Timestamp) -> Event {
    Event {
        job: job.id,
        version: 1,
        at: now,
        actor: actor.clone(),
        attempt: 0,
        generation: 0,
        lease: None,
        key: None,
        what: EventKind::JobCreated(Box::new(job.facts.clone())),
        payload: job.payload.clone(),
    }
}

/// The answer for a job that is new.
fn first(job: &NewJob) -> Enqueued {
    Enqueued { id: job.id, existed: false, payload_differs: false }
}
