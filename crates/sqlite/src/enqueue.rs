//! How jobs enter: all of a request or nothing. Everything is checked before the first write.

use crate::append::granted;
use crate::claim::holds;
use crate::db::{Tx, sql};
use crate::error::{Failure, Tried};
use windlass_core::decide::seal_key;
use windlass_core::enqueue::{Loaded, Plan, check_size, first_answer, plan, size};
use windlass_core::flow::waits_for_flow;
use windlass_core::{Actor, JobId, Refusal, Timestamp};
use windlass_store::{BatchRefusal, ClaimOne, Enqueue, EnqueueClaimed, Enqueued, EnqueuedClaimed};

impl Tx<'_, '_> {
    pub(crate) fn enqueue(
        &self,
        request: &Enqueue,
        now: Timestamp,
    ) -> Tried<Result<Vec<Enqueued>, BatchRefusal>> {
        granted!(check_size(size(&request.jobs)));
        if let Some(promise) = &request.idempotency
            && let Some(answers) = granted!(first_answer(self.recall(promise, now)?))
        {
            return Ok(Ok(answers));
        }
        let loaded = self.load(request)?;
        let plan = granted!(plan(&loaded, request, now));
        self.carry_out(&plan, &request.actor, now)?;
        if let Some(promise) = &request.idempotency {
            self.put_answer(promise, &serde_json::to_vec(&plan.answers)?, now)?;
        }
        Ok(Ok(plan.answers))
    }

    /// Enqueues one job and hands it out in the same transaction.
    pub(crate) fn enqueue_claimed(
        &self,
        request: &EnqueueClaimed,
        now: Timestamp,
    ) -> Tried<Result<EnqueuedClaimed, Refusal>> {
        let EnqueueClaimed { job, actor, claim } = request;
        let (_, due_before) = self.hints();
        let alone = Enqueue { jobs: vec![job.clone()], actor: actor.clone(), idempotency: None };
        let enqueued = match self.enqueue(&alone, now)? {
            Ok(answers) => answers.into_iter().next().unwrap_or_else(|| Enqueued::new(job)),
            Err(refused) => return Ok(Err(refused.refusal)),
        };
        // One that was there already is handed only to whom it was handed before.
        let mine = || Ok::<_, Failure>(self.job(job.id)?.is_some_and(|job| holds(&job, claim, now)));
        // In a queue with rules somebody else may be next.
        let waits =
            !enqueued.existed && self.queue(&job.facts.queue)?.is_some_and(|queue| queue.flow.is_some());
        if waits || enqueued.existed && (enqueued.id != job.id || !mine()?) {
            return Ok(Ok(EnqueuedClaimed { enqueued, claimed: None }));
        }
        let claimed = self.claim_one(&ClaimOne { job: job.id, claim: claim.clone() }, now)?;
        if claimed.is_ok() {
            self.set_due(due_before);
        }
        Ok(Ok(EnqueuedClaimed { enqueued, claimed: claimed.ok().map(Box::new) }))
    }

    /// What is there of what the request asks for.
    fn load(&self, request: &Enqueue) -> Tried<Loaded> {
        let mut loaded = Loaded::default();
        // Ids begin with their time, so hardly any request needs to look up its own.
        let newest = self.newest_job()?;
        for job in &request.jobs {
            if newest.is_some_and(|newest| job.id <= newest)
                && let Some(created) = self.created(job.id)?
            {
                loaded.created.insert(job.id, created);
            }
            if let Some(unique) = &job.facts.unique
                && let Some(hold) = self.hold(&unique.scope, &unique.key)?
            {
                if job.debounce().is_some()
                    && let Some(there) = self.job(hold.job)?
                {
                    loaded.parents.insert(hold.job, there);
                }
                loaded.holds.insert((unique.scope.clone(), unique.key.clone()), hold);
            }
            for id in job.facts.parent_id.into_iter().chain(job.facts.after().iter().map(|edge| edge.job)) {
                if !loaded.parents.contains_key(&id)
                    && let Some(there) = self.job(id)?
                {
                    if waits_for_flow(&there) && self.event_by_key(id, &seal_key())?.is_some() {
                        loaded.sealed.insert(id);
                    }
                    loaded.parents.insert(id, there);
                }
            }
        }
        Ok(loaded)
    }

    fn newest_job(&self) -> Tried<Option<JobId>> {
        let newest: Option<Option<[u8; 16]>> = self.one(sql!("newest_job"), (), |r| Ok(r.get(0)?))?;
        Ok(newest.flatten().map(JobId::from_bytes))
    }

    fn carry_out(&self, plan: &Plan<'_>, actor: &Actor, now: Timestamp) -> Tried<()> {
        self.create_all(&plan.fresh, actor, now)?;
        for born in &plan.born {
            for event in &born.events {
                self.append_event(event)?;
            }
            if let Some(facts) = born.facts() {
                self.tag(born.row.id, facts)?;
            }
            self.insert_job(&born.row, now)?;
        }
        for id in &plan.freed {
            self.execute(sql!("free_keys"), [id.as_bytes()])?;
        }
        for ((scope, key), hold) in &plan.holds {
            self.take_key(&scope.to_text(), key.as_str(), hold)?;
        }
        plan.adoptions.iter().try_for_each(|(parent, step)| self.write(parent, step))?;
        self.follow_ends(plan.endings.iter().copied().collect(), now)
    }
}
