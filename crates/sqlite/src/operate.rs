//! What operators do to a job: cancel, redrive, fork.

use crate::db::Tx;
use crate::error::Tried;
use windlass_core::decide::{self, Command, cancel_is_on_record, counts_children, decide};
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::payload::fits;
use windlass_core::unique::Hold;
use windlass_core::{Actor, Answer, Done, Event, EventKind, Invalid, Job, Refusal, Timestamp, Version};
use windlass_store::{Cancel, Fork, Redrive};

impl Tx<'_, '_> {
    pub(crate) fn cancel(&self, request: &Cancel, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        if cancel_is_on_record(&job, &request.wish, now) {
            return Ok(Ok(Done::Already(job.version)));
        }
        self.carry(&job, Command::Cancel(request.wish.clone()), now)
    }

    pub(crate) fn redrive(&self, request: &Redrive, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        match self.already(job.id, request.key.as_ref(), "job_redriven", None)? {
            Ok(None) => {}
            Ok(Some(version)) => return Ok(Ok(Done::Already(version))),
            Err(refusal) => return Ok(Err(refusal)),
        }
        let command = Command::Redrive(request.actor.clone(), request.run_at, request.from_start);
        let step = match decide(&job, command, now) {
            Ok(step) => step.key(request.key.clone()),
            Err(refusal) => return Ok(Err(refusal)),
        };
        match self.take_key_again(&job, now)? {
            Err(refusal) => Ok(Err(refusal)),
            Ok(()) => {
                let done = self.finish(&job, step)?;
                self.count_again(&job, &request.actor, now)?;
                Ok(done)
            }
        }
    }

    /// A child that comes back: its end was counted and will be again, so it is one more to wait for.
    fn count_again(&self, job: &Job, actor: &Actor, now: Timestamp) -> Tried<()> {
        let Some(parent) = job.parent_id.map_or(Ok(None), |id| self.job(id))? else { return Ok(()) };
        if counts_children(&parent)
            && let Ok(step) = decide(&parent, Command::AddChildren(actor.clone(), None, vec![job.id]), now)
        {
            self.write(&parent, &step)?;
        }
        Ok(())
    }

    /// A job that comes back needs its unique key back.
    fn take_key_again(&self, job: &Job, now: Timestamp) -> Tried<Result<(), Refusal>> {
        let Some((facts, payload)) = job.unique_policy.map_or(Ok(None), |_| self.created(job.id))? else {
            return Ok(Ok(()));
        };
        let Some(unique) = facts.unique else { return Ok(Ok(())) };
        match self.find_key(&unique.scope, &unique.key, now)? {
            Some(hold) if hold.job != job.id => return Ok(Err(Refusal::UniqueTaken(hold.job))),
            Some(_) => {}
            None => {
                let hold = Hold::take(job.id, &unique, payload.as_ref(), now);
                self.take_key(&unique.scope.to_text(), unique.key.as_str(), &hold)?;
            }
        }
        Ok(Ok(()))
    }

    pub(crate) fn fork(&self, request: &Fork, now: Timestamp) -> Tried<Answer> {
        if let Some(there) = self.job(request.id)? {
            return self.forked_before(&there, request);
        }
        let Some(source) = self.job(request.from)? else { return Ok(Err(Refusal::NotFound)) };
        let to = request.from_version.unwrap_or(source.version);
        if !(1..=source.version).contains(&to) {
            let limit = format!("must be between 1 and {}", source.version);
            return Ok(Err(Invalid::new("from_version", to, limit).into()));
        }
        if let Err(invalid) = fits("payload", request.payload.as_ref(), PAYLOAD_MAX_BYTES) {
            return Ok(Err(invalid.into()));
        }
        let copied = self.copy_log(request, to)?;
        let Some(row) = Job::fold(&copied) else { return Ok(Err(Refusal::NotFound)) };
        let step = decide::fork(&row, request.from, to, request.actor.clone(), now);
        self.append_event(&step.event)?;
        self.insert_job(&step.job, now)?;
        Ok(Ok(Done::Moved(step.job.version, step.job.status)))
    }

    fn forked_before(&self, there: &Job, request: &Fork) -> Tried<Answer> {
        // A copied log may tell of older forks; the last counts.
        let log = self.log(there.id, there.version)?;
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

    fn copy_log(&self, request: &Fork, to: Version) -> Tried<Vec<Event>> {
        let log = self.log(request.from, to)?;
        let copied = decide::copy_log(log, request.id, request.payload.as_ref());
        for event in &copied {
            self.append_event(event)?;
        }
        if let Some(EventKind::JobCreated(facts)) = copied.first().map(|e| &e.what) {
            self.tag(request.id, facts)?;
        }
        Ok(copied)
    }
}
