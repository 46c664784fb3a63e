//! What operators do to a job: cancel, redrive, fork.

use crate::append::granted;
use crate::db::Tx;
use crate::error::{Failure, Tried};
use windlass_core::decide::seal_key;
use windlass_core::end::{counted_again, key_again};
use windlass_core::operate::Verdict;
use windlass_core::{Answer, Done, Facts, Job, Payload, Refusal, Timestamp};
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
        // Before the first write: a refusal leaves nothing behind.
        granted!(self.take_key_again(&job, created, request.payload.as_ref(), now).await?);
        let done = self.finish(&job, step).await?;
        // The parent is locked already.
        if let Some(id) = job.parent_id
            && let Some(parent) = self.job(id).await?
            && let Some(step) = counted_again(&parent, job.id, &request.actor, now)
        {
            self.write(&parent, &step).await?;
        }
        Ok(done)
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

    /// A job that comes back needs its unique key back.
    async fn take_key_again(
        &self,
        job: &Job,
        created: Option<(Facts, Option<Payload>)>,
        brought: Option<&Payload>,
        now: Timestamp,
    ) -> Tried<Result<(), Refusal>> {
        let Some((facts, first)) = created.filter(|_| job.unique_policy.is_some()) else { return Ok(Ok(())) };
        let payload = self.payload_now(job, first).await?;
        let Some(unique) = &facts.unique else { return Ok(Ok(())) };
        let (scope, key) = (unique.scope.to_text(), unique.key.as_str());
        // Not locked: what is decided on it is checked when the key is taken.
        let held = self.hold(&scope, key).await?;
        if let Some(hold) = granted!(key_again(job, &facts, brought.or(payload.as_ref()), held.as_ref(), now))
            && !self.take_key(&scope, key, &hold, now).await?
        {
            return Err(Failure::Raced);
        }
        Ok(Ok(()))
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
