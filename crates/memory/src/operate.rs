//! What operators do to jobs: cancel, redrive, fork.

use crate::state::{State, UniqueKey};
use windlass_core::decide::{self, Command, cancel_is_on_record, counts_children, decide};
use windlass_core::limits::{self, PAYLOAD_MAX_BYTES};
use windlass_core::payload::fits;
use windlass_core::unique::Hold;
use windlass_core::{Answer, Done, Event, EventKind, Job, JobId, Refusal, Timestamp, Version};
use windlass_store::{Cancel, Fork, Redrive};

impl State {
    /// Cancels at once, or asks the holder to stop.
    pub fn cancel(&mut self, request: Cancel, now: Timestamp) -> Answer {
        let job = &self.entry(request.job)?.job;
        if cancel_is_on_record(job, &request.wish, now) {
            return Ok(Done::Already(job.version));
        }
        let step = decide(job, Command::Cancel(request.wish), now)?;
        Ok(self.write(step))
    }

    /// Sends a dead or cancelled job back to pending. Its unique key must be free, or still its own.
    pub fn redrive(&mut self, request: Redrive, now: Timestamp) -> Answer {
        let entry = self.entry(request.job)?;
        if let Some(known) = entry.keyed(request.key.as_ref()) {
            return known.repeated_by("job_redriven", None).map(Done::Already);
        }
        let command = Command::Redrive(request.actor.clone(), request.run_at, request.from_start);
        let step = decide(&entry.job, command, now)?.key(request.key);
        let taken = self.retake_key(request.job, now)?;
        self.holds.extend(taken);
        // Its end was counted and will be again, so it counts as one more to wait for.
        let parent = step.job.parent_id.and_then(|parent| self.entries.get(&parent));
        let again = parent.filter(|parent| counts_children(&parent.job)).and_then(|parent| {
            decide(&parent.job, Command::AddChildren(request.actor, None, vec![request.job]), now).ok()
        });
        let done = self.write(step);
        if let Some(step) = again {
            self.write(step);
        }
        Ok(done)
    }

    /// The unique key that a redriven job takes anew, if it has one and does not hold it still.
    fn retake_key(&self, id: JobId, now: Timestamp) -> Result<Option<(UniqueKey, Hold)>, Refusal> {
        let entry = self.entry(id)?;
        let unique = entry.facts().and_then(|facts| facts.unique.as_ref());
        let (Some(unique), Some(_)) = (unique, entry.job.unique_policy) else { return Ok(None) };
        let key = (unique.scope.clone(), unique.key.clone());
        match self.holds.get(&key).filter(|hold| hold.is_held(now)) {
            Some(hold) if hold.job == id => Ok(None),
            Some(hold) => Err(Refusal::UniqueTaken(hold.job)),
            None => Ok(Some((key, Hold::take(id, unique, entry.payload(Some(1)).as_ref(), now)))),
        }
    }

    /// Makes a new job that begins with another's log.
    pub fn fork(&mut self, request: Fork, now: Timestamp) -> Answer {
        if let Some(known) = self.forked(&request)? {
            return Ok(Done::Already(known));
        }
        let source = self.entry(request.from)?;
        let from_version = request.from_version.unwrap_or(source.job.version);
        limits::within("from_version", from_version, 1, source.job.version)?;
        fits("payload", request.payload.as_ref(), PAYLOAD_MAX_BYTES)?;
        let upto = usize::try_from(from_version).unwrap_or(usize::MAX);
        let log: Vec<Event> = source.events.iter().take(upto).cloned().collect();
        let events = decide::copy_log(log, request.id, request.payload.as_ref());
        let copied = Job::fold(&events).ok_or(Refusal::NotFound)?;
        let step = decide::fork(&copied, request.from, from_version, request.actor, now);
        self.create(copied, events, now);
        Ok(self.write(step))
    }

    /// The event by which this very fork was made before. A copied log may tell of older forks; the last counts.
    fn forked(&self, request: &Fork) -> Result<Option<Version>, Refusal> {
        let Some(entry) = self.entries.get(&request.id) else { return Ok(None) };
        let fork = entry.events.iter().rev().find_map(|event| match &event.what {
            EventKind::JobForked(fork) => Some((event.version, fork)),
            _ => None,
        });
        match fork {
            Some((version, fork))
                if fork.from == request.from
                    && request.from_version.is_none_or(|wanted| wanted == fork.from_version) =>
            {
                Ok(Some(version))
            }
            _ => Err(Refusal::JobExists),
        }
    }
}
