//! What operators do to a job: cancel, redrive, fork.

use crate::append::granted;
use crate::db::Tx;
use crate::error::Tried;
use windlass_core::decide::seal_key;
use windlass_core::end::{counted_again, key_again};
use windlass_core::operate::Verdict;
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
        granted!(self.take_key_again(&job, created, request.payload.as_ref(), now)?);
        let done = self.finish(&job, step)?;
        let parent = job.parent_id.map_or(Ok(None), |id| self.job(id))?;
        if let Some(parent) = parent
            && let Some(step) = counted_again(&parent, job.id, &request.actor, now)
        {
            self.write(&parent, &step)?;
        }
        Ok(done)
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

    /// A job that comes back needs its unique key back.
    fn take_key_again(
        &self,
        job: &Job,
        created: Option<(Facts, Option<Payload>)>,
        brought: Option<&Payload>,
        now: Timestamp,
    ) -> Tried<Result<(), Refusal>> {
        let Some((facts, first)) = created.filter(|_| job.unique_policy.is_some()) else { return Ok(Ok(())) };
        let payload = self.payload_now(job, first)?;
        let Some(unique) = &facts.unique else { return Ok(Ok(())) };
        let held = self.hold(&unique.scope, &unique.key)?;
        if let Some(hold) = granted!(key_again(job, &facts, brought.or(payload.as_ref()), held.as_ref(), now))
        {
            self.take_key(&unique.scope.to_text(), unique.key.as_str(), &hold)?;
        }
        Ok(Ok(()))
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
