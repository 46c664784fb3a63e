//! What operators do to a job: cancel, redrive, fork.

use crate::db::Tx;
use crate::error::{Failure, Tried};
use windlass_core::decide::{self, Command, cancel_is_on_record, counts_children, decide};
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::payload::fits;
use windlass_core::unique::Hold;
use windlass_core::{Actor, Answer, Done, EventKind, Invalid, Job, Refusal, Timestamp};
use windlass_store::{Cancel, Fork, Redrive};

impl Tx<'_> {
    pub(crate) async fn cancel(&self, request: &Cancel) -> Tried<Answer> {
        let (Some(job), now) = self.lock(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        if cancel_is_on_record(&job, &request.wish, now) {
            return Ok(Ok(Done::Already(job.version)));
        }
        self.carry(&job, Command::Cancel(request.wish.clone()), now).await
    }

    pub(crate) async fn redrive(&self, request: &Redrive) -> Tried<Answer> {
        let (Some(job), now) = self.lock(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        match self.already(job.id, request.key.as_ref(), "job_redriven", None).await? {
            Ok(None) => {}
            Ok(Some(version)) => return Ok(Ok(Done::Already(version))),
            Err(refusal) => return Ok(Err(refusal)),
        }
        let command = Command::Redrive(request.actor.clone(), request.run_at, request.from_start);
        let step = match decide(&job, command, now) {
            Ok(step) => step.key(request.key.clone()),
            Err(refusal) => return Ok(Err(refusal)),
        };
        // Before the first write: a refusal leaves nothing behind.
        if let Err(refusal) = self.take_key_again(&job, now).await? {
            return Ok(Err(refusal));
        }
        let done = self.finish(&job, step).await?;
        self.count_again(&job, &request.actor, now).await?;
        Ok(done)
    }

    /// A child that comes back: its end was counted and will be again, so it is one more to wait for. The parent
    /// is locked already.
    async fn count_again(&self, job: &Job, actor: &Actor, now: Timestamp) -> Tried<()> {
        let Some(parent) = job.parent_id else { return Ok(()) };
        let Some(parent) = self.job(parent).await? else { return Ok(()) };
        let now = now.max(parent.updated_at);
        if counts_children(&parent)
            && let Ok(step) = decide(&parent, Command::AddChildren(actor.clone(), None, vec![job.id]), now)
        {
            self.write(&parent, &step).await?;
        }
        Ok(())
    }

    /// A job that comes back needs its unique key back.
    async fn take_key_again(&self, job: &Job, now: Timestamp) -> Tried<Result<(), Refusal>> {
        if job.unique_policy.is_none() {
            return Ok(Ok(()));
        }
        let Some((facts, payload)) = self.created(job.id).await? else { return Ok(Ok(())) };
        let Some(unique) = facts.unique else { return Ok(Ok(())) };
        let (scope, key) = (unique.scope.to_text(), unique.key.as_str());
        if self.take_key(&scope, key, &Hold::take(job.id, &unique, payload.as_ref(), now), now).await? {
            return Ok(Ok(()));
        }
        // It is held, and locked by our try: a fresh look sees whose it is.
        Ok(match self.hold(&scope, key).await? {
            Some(hold) if hold.job == job.id => Ok(()),
            Some(hold) => Err(Refusal::UniqueTaken(hold.job)),
            None => return Err(Failure::Raced),
        })
    }

    pub(crate) async fn fork(&self, request: &Fork) -> Tried<Answer> {
        if let Some(there) = self.job(request.id).await? {
            return self.forked_before(&there, request).await;
        }
        // No lock: what is on record up to a version never changes.
        let Some(source) = self.job(request.from).await? else { return Ok(Err(Refusal::NotFound)) };
        let to = request.from_version.unwrap_or(source.version);
        if !(1..=source.version).contains(&to) {
            let limit = format!("must be between 1 and {}", source.version);
            return Ok(Err(Invalid::new("from_version", to, limit).into()));
        }
        if let Err(invalid) = fits("payload", request.payload.as_ref(), PAYLOAD_MAX_BYTES) {
            return Ok(Err(invalid.into()));
        }
        let log = self.log(request.from, to).await?;
        let copied = decide::copy_log(log, request.id, request.payload.as_ref());
        let Some(row) = Job::fold(&copied) else { return Ok(Err(Refusal::NotFound)) };
        let now = self.now().await?.max(row.updated_at);
        let step = decide::fork(&row, request.from, to, request.actor.clone(), now);
        // The row first: whoever made a job with this id meanwhile is found there and nowhere else.
        if !self.insert_job(&step.job, now).await? {
            return Err(Failure::Raced);
        }
        for event in copied.iter().chain([&step.event]) {
            self.append_event(event).await?;
        }
        Ok(Ok(Done::Moved(step.job.version, step.job.status)))
    }

    async fn forked_before(&self, there: &Job, request: &Fork) -> Tried<Answer> {
        // A copied log may tell of older forks; the last counts.
        let log = self.log(there.id, there.version).await?;
        let last = log.iter().rev().find_map(|e| match &e.what {
            EventKind::JobForked(d) => Some((e.version, d)),
            _ => None,
        });
        Ok(match last {
            Some((version, d))
                if d.from == request.from && request.from_version.is_none_or(|v| v == d.from_version) =>
            {
                Ok(Done::Already(version))
            }
            _ => Err(Refusal::JobExists),
        })
    }
}
