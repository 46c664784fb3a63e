//! What operators do to a job: cancel, redrive, fork.

use crate::append::granted;
use crate::db::Tx;
use crate::error::Tried;
use std::collections::HashMap;
use windlass_core::decide::seal_key;
use windlass_core::end::key_again;
use windlass_core::enqueue::UniqueKey;
use windlass_core::flow::Behind;
use windlass_core::operate::Verdict;
use windlass_core::unique::Hold;
use windlass_core::{Answer, Done, EventKind, Facts, Job, Payload, Refusal, Timestamp};
use windlass_store::{Cancel, Fork, Redrive, Seal};

impl Tx<'_, '_> {
    pub(crate) fn cancel(&self, request: &Cancel, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        let verdict = granted!(request.decide(&job, now));
        self.carry(&job, verdict)
    }

    pub(crate) fn redrive(&self, request: &Redrive, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        let keyed = request.key.as_ref().map_or(Ok(None), |key| self.event_by_key(job.id, key))?;
        let created = self.created(job.id)?;
        let is_erased = created.as_ref().is_some_and(|(facts, _)| facts.erased);
        let step = match granted!(request.decide(&job, is_erased, keyed.as_ref(), now)) {
            Verdict::Already(version) => return Ok(Ok(Done::Already(version))),
            Verdict::Step(step) => *step,
        };
        let log = if Behind::is_possible(&job) { self.graph_log(job.id)? } else { Vec::new() };
        let mut behind = Behind::of(&job, &log);
        behind.takes_key(granted!(self.key_again(&job, created, request.payload.as_ref(), now)?));
        self.look_behind(&mut behind, now)?;
        let mut rows = HashMap::new();
        for id in behind.rows() {
            rows.extend(self.job(id)?.map(|job| (id, job)));
        }
        let back = behind.back(&step.job, |id| rows.get(&id), &request.actor, now);
        for ((scope, key), hold) in &back.keys {
            self.take_key(&scope.to_text(), key.as_str(), hold)?;
        }
        self.write(&job, &step)?;
        let mut done = Done::Moved(step.job.version, step.job.status);
        rows.insert(job.id, step.job);
        for step in back.steps {
            let Some(before) = rows.get(&step.job.id) else { continue };
            self.write(before, &step)?;
            if step.job.id == job.id {
                done = Done::Moved(step.job.version, step.job.status);
            }
            rows.insert(step.job.id, step.job);
        }
        Ok(Ok(done))
    }

    /// Finds the jobs behind one that is redriven which may come back with it.
    fn look_behind(&self, behind: &mut Behind, now: Timestamp) -> Tried<()> {
        loop {
            let next = behind.to_look_at();
            if next.is_empty() {
                break;
            }
            for id in next {
                if let Some(job) = self.job(id)? {
                    behind.found(&job, &self.graph_log(id)?);
                }
            }
        }
        for id in behind.jobs() {
            let Some(job) = self.job(id)?.filter(|job| job.unique_policy.is_some()) else { continue };
            behind.needs_key(id, self.key_again(&job, self.created(id)?, None, now)?);
        }
        Ok(())
    }

    pub(crate) fn seal(&self, request: &Seal, now: Timestamp) -> Tried<Answer> {
        let Some(mut job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        let Some((facts, _)) = self.created(job.id)? else { return Ok(Err(Refusal::NotFound)) };
        let sealed = self.event_by_key(job.id, &seal_key())?.map(|event| event.version);
        let mut done = Done::Already(sealed.unwrap_or_default());
        for step in granted!(request.decide(&job, &facts, sealed, now)) {
            self.write(&job, &step)?;
            done = Done::Moved(step.job.version, step.job.status);
            job = step.job;
        }
        Ok(Ok(done))
    }

    /// The unique key that a job takes anew when it comes back, if it has one and does not hold it still.
    fn key_again(
        &self,
        job: &Job,
        created: Option<(Facts, Option<Payload>)>,
        brought: Option<&Payload>,
        now: Timestamp,
    ) -> Tried<Result<Option<(UniqueKey, Hold)>, Refusal>> {
        let Some((facts, first)) = created.filter(|_| job.unique_policy.is_some()) else {
            return Ok(Ok(None));
        };
        let payload = self.payload_now(job, first)?;
        let Some(unique) = &facts.unique else { return Ok(Ok(None)) };
        let held = self.hold(&unique.scope, &unique.key)?;
        let hold = key_again(job, &facts, brought.or(payload.as_ref()), held.as_ref(), now);
        Ok(hold.map(|hold| hold.map(|hold| ((unique.scope.clone(), unique.key.clone()), hold))))
    }

    pub(crate) fn fork(&self, request: &Fork, now: Timestamp) -> Tried<Answer> {
        if let Some(there) = self.job(request.id)? {
            let log = self.log(there.id, there.version)?;
            return Ok(request.made_before(&log).map(Done::Already));
        }
        let Some(source) = self.job(request.from)? else { return Ok(Err(Refusal::NotFound)) };
        let to = granted!(request.copies_to(&source));
        let forked = granted!(request.decide(self.log(request.from, to)?, to, now));
        for event in forked.copied.iter().chain([&forked.step.event]) {
            self.append_event(event)?;
        }
        if let Some(EventKind::JobCreated(facts)) = forked.copied.first().map(|event| &event.what) {
            self.tag(request.id, facts)?;
        }
        self.insert_job(&forked.step.job, now)?;
        Ok(Ok(Done::Moved(forked.step.job.version, forked.step.job.status)))
    }
}
