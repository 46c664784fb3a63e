//! Jobs that a leader gives to workers.

use crate::append::granted;
use crate::claim::holds;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use rusqlite::Row;
use std::collections::HashSet;
use windlass_core::decide::{Claim, Command, Move, decide};
use windlass_core::lease::hex;
use windlass_core::limits::{self, BATCH_MAX, PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::operate::{Verdict, assign};
use windlass_core::term::may_assign;
use windlass_core::{
    Answer, Done, Facts, Job, JobId, Lane, Name, QueueMode, Refusal, Status, Timestamp, Who, event,
};
use windlass_store::{
    Assign, ClaimMany, Claimed, ReadUnassigned, Start, Unassigned, UnassignedPage, UnassignedPlace,
};

impl Db<'_> {
    pub(crate) fn unassigned(&self, request: &ReadUnassigned, now: Timestamp) -> Tried<UnassignedPage> {
        let limit = usize::try_from(crate::list::page(request.limit)).unwrap_or_default();
        let mut page = UnassignedPage::default();
        for state in self.all(sql!("queues"), (), crate::registry::queue)? {
            if state.mode == QueueMode::Push && state.paused.is_none() {
                let place = request.after.iter().find(|place| place.queue == state.name);
                self.unassigned_of(&state.name, place, limit, now, &mut page.jobs)?;
                page.queues.push(state.name);
            }
        }
        Ok(page)
    }

    fn unassigned_of(
        &self,
        queue: &Name,
        from: Option<&UnassignedPlace>,
        limit: usize,
        now: Timestamp,
        jobs: &mut Vec<Unassigned>,
    ) -> Tried<()> {
        let most = jobs.len() + limit;
        for priority in (PRIORITY_MIN..=from.map_or(PRIORITY_MAX, |place| place.priority.into())).rev() {
            let begin = from.filter(|place| i64::from(place.priority) == priority);
            let (due_at, id) =
                begin.map_or((i64::MIN, [0; 16]), |place| (place.due_at.as_micros(), *place.id.as_bytes()));
            let read = |row: &Row<'_>| {
                let kind = Name::try_from(row.get::<_, String>(2)?);
                // What does not read back fails when it is started, alone.
                let facts = Facts::read(row.get::<_, Option<String>>(3)?.as_deref()).ok();
                Ok(Unassigned {
                    id: JobId::from_bytes(row.get(1)?),
                    queue: queue.clone(),
                    kind: kind.map_err(|e| Failure::Unreadable(e.to_string()))?,
                    priority: priority as i32,
                    due_at: Timestamp::from_micros(row.get(0)?),
                    requires: facts.map(|facts| facts.requires).unwrap_or_default(),
                })
            };
            let room = (most - jobs.len()) as i64;
            let params = (queue.as_str(), priority, now.as_micros(), due_at, id, room);
            jobs.extend(self.all(sql!("unassigned"), params, read)?);
        }
        Ok(())
    }
}

impl Tx<'_, '_> {
    /// What can be assigned is, all at once; a run whose lease is over goes back into line, one by one.
    pub(crate) fn assign(&self, request: &Assign, now: Timestamp) -> Tried<Vec<Answer>> {
        let term = self.term(&request.term)?;
        if let Err(refusal) = may_assign(term.as_ref(), request.epoch, request.lapse_ms, now) {
            return Ok(request.items.iter().map(|_| Err(refusal.clone())).collect());
        }
        let (mut steps, mut seen): (Vec<Move>, HashSet<JobId>) = (Vec::new(), HashSet::new());
        let mut answers = Vec::with_capacity(request.items.len());
        for (n, (id, worker)) in request.items.iter().enumerate() {
            if let Err(invalid) = limits::count("items", n + 1, BATCH_MAX) {
                answers.push(Err(invalid.into()));
                continue;
            }
            if !seen.insert(*id) {
                // It is looked at as the item before left it.
                self.write_assigned(request, &mut steps, now)?;
            }
            answers.push(self.assign_one(request, *id, worker, &mut steps, now)?);
        }
        self.write_assigned(request, &mut steps, now)?;
        Ok(answers)
    }

    /// Decides one item; what is assigned by it is left to be written.
    fn assign_one(
        &self,
        request: &Assign,
        id: JobId,
        worker: &Who,
        steps: &mut Vec<Move>,
        now: Timestamp,
    ) -> Tried<Answer> {
        let job = match self.job(id) {
            Ok(Some(job)) => job,
            Ok(None) => return Ok(Err(Refusal::NotFound)),
            Err(Failure::Corrupt { why, .. }) => {
                self.set_aside(id, &why, now)?;
                return Ok(Err(Refusal::Unreadable(why)));
            }
            Err(failure) => return Err(failure),
        };
        let deadline_at = now.plus_ms(request.lapse_ms);
        let to = event::Assigned { worker: worker.clone(), epoch: request.epoch, deadline_at };
        let flow = self.queue(&job.queue)?.and_then(|queue| queue.flow);
        if flow.is_some() {
            // Those before it take their slots.
            self.write_assigned(request, steps, now)?;
        }
        // What is held already starts nothing more by this.
        let mut rates = match flow.as_ref().filter(|_| !job.takes_slot()) {
            Some(flow) => self.rates(&job.queue, flow, now)?,
            None => None,
        };
        let (lane, cost) =
            (flow.map_or(Lane::PLAIN, |flow| flow.lane(job.lane)), self.cost(rates.as_ref(), &job)?);
        let admits = rates.as_mut().is_none_or(|rates| rates.admits(lane, cost));
        let closed = self.is_paused(&job.queue)? || !self.has_slot(&job, now)? || !admits;
        match granted!(assign(&job, to, closed, now)) {
            Verdict::Already(version) => Ok(Ok(Done::Already(version))),
            Verdict::Step(step) if step.job.status == Status::Assigned => {
                if let Some(rates) = &mut rates {
                    rates.pay(lane, cost);
                }
                self.keep_rates(&job.queue, rates, now)?;
                let done = Done::Moved(step.job.version, step.job.status);
                steps.push(*step);
                Ok(Ok(done))
            }
            Verdict::Step(step) => {
                self.write(&job, &step)?;
                Ok(Ok(Done::Moved(step.job.version, step.job.status)))
            }
        }
    }

    fn write_assigned(&self, request: &Assign, steps: &mut Vec<Move>, now: Timestamp) -> Tried<()> {
        let Some(first) = steps.first() else { return Ok(()) };
        if !self.numbers_itself() {
            // One by one until the numbers of the log have no gap at their end.
            for step in std::mem::take(steps) {
                let before = Job { version: step.job.version - 1, ..step.job.clone() };
                self.write(&before, &step)?;
            }
            return Ok(());
        }
        let item = |step: &Move| {
            let id = hex(step.job.id.as_bytes());
            serde_json::json!([id, step.job.version, step.job.worker_id, step.event.what.detail()])
        };
        let (actor, deadline_at) = (first.event.actor.clone(), first.job.deadline_at);
        let items = serde_json::Value::Array(steps.iter().map(item).collect()).to_string();
        let (at, deadline_at) = (now.as_micros(), deadline_at.map(Timestamp::as_micros));
        let params = (&items, at, deadline_at, request.epoch, request.term.as_str());
        let moved = self.execute(sql!("assign"), params)?;
        let logged = self.execute(sql!("assign_event"), (&items, at, actor.as_str()))?;
        if moved != steps.len() || logged != steps.len() {
            let message = format!("{} jobs were to be assigned, {moved} moved, {logged} logged", steps.len());
            return Err(Failure::Unreadable(message));
        }
        self.appended(logged, now);
        self.hint();
        steps.clear();
        Ok(())
    }

    pub(crate) fn start(&self, request: &Start, now: Timestamp) -> Tried<Result<Claimed, Refusal>> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        if holds(&job, &request.claim, now) {
            return self.claimed(job, &request.claim).map(Ok);
        }
        let command = Command::Start {
            claim: request.claim.clone(),
            assignment: request.assignment,
            epoch: request.epoch,
        };
        let step = granted!(decide(&job, command, now));
        self.write(&job, &step)?;
        self.claimed(step.job, &request.claim).map(Ok)
    }

    /// Starts what a worker that claims was assigned.
    pub(crate) fn start_assigned(
        &self,
        request: &ClaimMany,
        max: usize,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) -> Tried<()> {
        let ClaimMany { queues, kinds, claim, .. } = request;
        for (job, wrong) in self.all(sql!("assigned"), [claim.worker.as_str()], crate::row::readable_job)? {
            if claimed.len() >= max {
                break;
            }
            if !queues.contains(&job.queue) || !kinds.is_empty() && !kinds.contains(&job.kind) {
                continue;
            }
            if let Some(why) = wrong {
                self.set_aside(job.id, &why, now)?;
            } else if !self.is_paused(&job.queue)? {
                claimed.extend(self.start_one(&job, claim, now)?);
            }
        }
        Ok(())
    }

    fn start_one(&self, job: &Job, claim: &Claim, now: Timestamp) -> Tried<Option<Claimed>> {
        let (Some(assignment), Some(epoch)) = (job.assignment, job.epoch) else { return Ok(None) };
        let start = Command::Start { claim: claim.clone(), assignment, epoch };
        let Ok(step) = decide(job, start, now) else { return Ok(None) };
        self.take(job, step, claim, now)
    }
}
