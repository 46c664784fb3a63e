//! How jobs enter: all of a request or nothing. Everything is checked before the first write.

use crate::append::granted;
use crate::claim::holds;
use crate::db::{Tx, sql};
use crate::error::{Failure, Tried};
use crate::row;
use std::collections::{HashMap, VecDeque};
use windlass_core::decide::seal_key;
use windlass_core::enqueue::{Ahead, Loaded, Plan, check_size, first_answer, plan, size};
use windlass_core::flow::waits_for_flow;
use windlass_core::lane::Entry;
use windlass_core::limits::SUPERSEDED_MAX;
use windlass_core::{Actor, JobId, Lane, Name, QueueLimits, Refusal, Timestamp};
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
        let waits = enqueued.dropped
            || !enqueued.existed && self.queue(&job.facts.queue)?.is_some_and(|queue| queue.flow.is_some());
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
        self.load_lanes(request, &mut loaded)?;
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

    /// The lanes of the request whose rules look at jobs that come.
    fn load_lanes(&self, request: &Enqueue, loaded: &mut Loaded) -> Tried<()> {
        let mut flows = HashMap::new();
        for facts in request.jobs.iter().map(|job| &job.facts) {
            let Some(key) = &facts.key else { continue };
            if !flows.contains_key(&facts.queue) {
                let flow = self.queue(&facts.queue)?.and_then(|queue| queue.flow);
                flows.insert(&facts.queue, flow.filter(QueueLimits::asks_at_entry));
            }
            let entry = flows.get(&facts.queue).and_then(|flow| flow.as_ref()?.entry(key));
            let lane = (facts.queue.clone(), key.clone());
            if let Some(entry) = entry
                && !loaded.lanes.contains_key(&lane)
            {
                loaded.lanes.insert(lane, self.ahead(&facts.queue, Lane::of(key), entry)?);
            }
        }
        Ok(())
    }

    fn ahead(&self, queue: &Name, lane: Lane, entry: Entry) -> Tried<Ahead> {
        let id = |r: &rusqlite::Row<'_>| Ok(JobId::from_bytes(r.get(0)?));
        let most = entry.backlog.unwrap_or(SUPERSEDED_MAX as i64);
        let waiting = self.all(sql!("lane_waiting"), (queue.as_str(), lane.number(), most), id)?;
        let mut others = Vec::new();
        if entry.newest {
            let running = self.all(sql!("lane_running"), (queue.as_str(), lane.number()), id)?;
            for id in waiting.iter().chain(&running) {
                // One that does not read back is set aside by the next claim.
                let found = self.all(sql!("job"), [id.as_bytes()], row::readable_job)?;
                others.extend(found.into_iter().filter(|(_, wrong)| wrong.is_none()).map(|(job, _)| job));
            }
        }
        Ok(Ahead::new(entry, waiting.len() as i64, others))
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
        let mut ended = VecDeque::new();
        for gives_way in &plan.give_way {
            self.learns(gives_way.job, &mut ended, |job| gives_way.step(job, now).into_iter().collect())?;
        }
        ended.extend(&plan.endings);
        self.follow_ends(ended, now)
    }
}
