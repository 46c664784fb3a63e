//! What operators do to a job: cancel, redrive, fork.

use crate::append::granted;
use crate::db::{Tx, uuid};
use crate::end::Moves;
use crate::error::{Failure, Tried};
use std::collections::HashMap;
use windlass_core::decide::seal_key;
use windlass_core::end::key_again;
use windlass_core::enqueue::UniqueKey;
use windlass_core::flow::Behind;
use windlass_core::operate::Verdict;
use windlass_core::unique::Hold;
use windlass_core::{Answer, Done, Event, Facts, Job, JobId, Payload, Refusal, Timestamp};
use windlass_store::{Cancel, Fork, Redrive, Seal};

impl Tx<'_> {
    pub(crate) async fn cancel(&self, request: &Cancel) -> Tried<Answer> {
        let (Some(job), now) = self.lock(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        let verdict = granted!(request.decide(&job, now));
        self.carry(&job, verdict).await
    }

    pub(crate) async fn redrive(&self, request: &Redrive) -> Tried<Answer> {
        let (Some(job), now) = self.lock(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        let keyed = match &request.key {
            Some(key) => self.event_by_key(job.id, key).await?,
            None => None,
        };
        let created = self.created(job.id).await?;
        let is_erased = created.as_ref().is_some_and(|(facts, _)| facts.erased);
        let step = match granted!(request.decide(&job, is_erased, keyed.as_ref(), now)) {
            Verdict::Already(version) => return Ok(Ok(Done::Already(version))),
            Verdict::Step(step) => *step,
        };
        let log =
            if Behind::is_possible(&job) { self.graph_logs(vec![uuid(job.id)]).await? } else { Vec::new() };
        let mut behind = Behind::of(&job, &log);
        behind.takes_key(granted!(self.key_again(&job, created, request.payload.as_ref(), now).await?));
        self.look_behind(&mut behind, now).await?;
        // The parent is locked already. The others are locked by id, as edges lead, before anything is decided on them.
        let mut moves = Moves::new(self);
        moves.load(behind.rows().into_iter()).await?;
        if !behind.is_current(|id| moves.row(id)) {
            return Err(Failure::Raced);
        }
        let back = behind.back(&step.job, |id| moves.row(id), &request.actor, now);
        for ((scope, key), hold) in &back.keys {
            if !self.take_key(&scope.to_text(), key.as_str(), hold, now).await? {
                return Err(Failure::Raced);
            }
        }
        let id = job.id;
        moves.knows(job);
        for step in [step].into_iter().chain(back.steps) {
            moves.moves(step);
        }
        let done = moves.row(id).map(|job| Done::Moved(job.version, job.status));
        moves.write().await?;
        Ok(done.ok_or(Refusal::NotFound))
    }

    /// Finds the jobs behind one that is redriven which may come back with it. Not locked: they are looked at again when they
    /// are.
    async fn look_behind(&self, behind: &mut Behind, now: Timestamp) -> Tried<()> {
        loop {
            let next = behind.to_look_at();
            if next.is_empty() {
                break;
            }
            let rows = self.jobs_of(next.iter().copied()).await?;
            let mut logs: HashMap<JobId, Vec<Event>> = HashMap::new();
            for event in self.graph_logs(next.iter().copied().map(uuid).collect()).await? {
                logs.entry(event.job).or_default().push(event);
            }
            for id in next {
                if let (Some(job), Some(log)) = (rows.get(&id), logs.get(&id)) {
                    behind.found(job, log);
                }
            }
        }
        let rows = self.jobs_of(behind.jobs().into_iter()).await?;
        // By id: of those that need the same key the first has it.
        for id in behind.jobs() {
            if let Some(job) = rows.get(&id).filter(|job| job.unique_policy.is_some()) {
                behind.needs_key(id, self.key_again(job, self.created(id).await?, None, now).await?);
            }
        }
        Ok(())
    }

    pub(crate) async fn seal(&self, request: &Seal) -> Tried<Answer> {
        let (Some(mut job), now) = self.lock(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        let Some((facts, _)) = self.created(job.id).await? else { return Ok(Err(Refusal::NotFound)) };
        let sealed = self.event_by_key(job.id, &seal_key()).await?.map(|event| event.version);
        let mut done = Done::Already(sealed.unwrap_or_default());
        for step in granted!(request.decide(&job, &facts, sealed, now)) {
            self.write(&job, &step).await?;
            done = Done::Moved(step.job.version, step.job.status);
            job = step.job;
        }
        Ok(Ok(done))
    }

    /// The unique key that a job takes anew when it comes back, if it has one and does not hold it still.
    async fn key_again(
        &self,
        job: &Job,
        created: Option<(Facts, Option<Payload>)>,
        brought: Option<&Payload>,
        now: Timestamp,
    ) -> Tried<Result<Option<(UniqueKey, Hold)>, Refusal>> {
        let Some((facts, first)) = created.filter(|_| job.unique_policy.is_some()) else {
            return Ok(Ok(None));
        };
        let payload = self.payload_now(job, first).await?;
        let Some(unique) = &facts.unique else { return Ok(Ok(None)) };
        // Not locked: what is decided on it is checked when the key is taken.
        let held = self.hold(&unique.scope.to_text(), unique.key.as_str()).await?;
        let hold = key_again(job, &facts, brought.or(payload.as_ref()), held.as_ref(), now);
        Ok(hold.map(|hold| hold.map(|hold| ((unique.scope.clone(), unique.key.clone()), hold))))
    }

    pub(crate) async fn fork(&self, request: &Fork) -> Tried<Answer> {
        if let Some(there) = self.job(request.id).await? {
            let log = self.log(there.id, there.version).await?;
            return Ok(request.made_before(&log).map(Done::Already));
        }
        // No lock: what is on record up to a version changes only by an erasure, and one statement reads all of it, before
        // that or after.
        let Some(source) = self.job(request.from).await? else { return Ok(Err(Refusal::NotFound)) };
        let to = granted!(request.copies_to(&source));
        let log = self.log(request.from, to).await?;
        let now = self.now().await?;
        let forked = granted!(request.decide(log, to, now));
        // The row first: whoever made a job with this id meanwhile is found there and nowhere else.
        if !self.insert_job(&forked.step.job, now).await? {
            return Err(Failure::Raced);
        }
        for event in forked.copied.iter().chain([&forked.step.event]) {
            self.append_event(event).await?;
        }
        Ok(Ok(Done::Moved(forked.step.job.version, forked.step.job.status)))
    }
}
