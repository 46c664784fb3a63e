//! What operators do to jobs: cancel, redrive, fork.

use crate::state::State;
use windlass_core::decide::seal_key;
use windlass_core::end::key_again;
use windlass_core::enqueue::UniqueKey;
use windlass_core::flow::Behind;
use windlass_core::operate::Verdict;
use windlass_core::unique::Hold;
use windlass_core::{Answer, Done, Event, JobId, Payload, Refusal, Timestamp};
use windlass_store::{Cancel, Fork, Redrive, Seal};

impl State {
    /// Writes what was decided.
    pub fn carry(&mut self, verdict: Verdict) -> Done {
        match verdict {
            Verdict::Already(version) => Done::Already(version),
            Verdict::Step(step) => self.write(*step),
        }
    }

    /// Cancels at once, or asks the holder to stop.
    pub fn cancel(&mut self, request: Cancel, now: Timestamp) -> Answer {
        let verdict = request.decide(&self.entry(request.job)?.job, now)?;
        Ok(self.carry(verdict))
    }

    /// Sends a dead or cancelled job back to pending. Its unique key must be free, or still its own.
    pub fn redrive(&mut self, request: Redrive, now: Timestamp) -> Answer {
        let entry = self.entry(request.job)?;
        let is_erased = entry.facts().is_some_and(|facts| facts.erased);
        let verdict = request.decide(&entry.job, is_erased, entry.keyed(request.key.as_ref()), now)?;
        let step = match verdict {
            Verdict::Already(version) => return Ok(Done::Already(version)),
            Verdict::Step(step) => step,
        };
        let mut behind = Behind::of(&entry.job, &entry.events);
        behind.takes_key(self.key_again(request.job, request.payload.as_ref(), now)?);
        self.look_behind(&mut behind, now);
        let row = |id| self.entries.get(&id).map(|there| &there.job);
        let back = behind.back(&step.job, row, &request.actor, now);
        self.holds.extend(back.keys);
        let mut done = self.write(*step);
        for step in back.steps {
            let is_own = step.job.id == request.job;
            let moved = self.write(step);
            done = if is_own { moved } else { done };
        }
        Ok(done)
    }

    /// Finds the jobs behind one that is redriven which may come back with it.
    fn look_behind(&self, behind: &mut Behind, now: Timestamp) {
        loop {
            let next = behind.to_look_at();
            if next.is_empty() {
                break;
            }
            for there in next.iter().filter_map(|id| self.entries.get(id)) {
                behind.found(&there.job, &there.events);
            }
        }
        for id in behind.jobs() {
            behind.needs_key(id, self.key_again(id, None, now));
        }
    }

    /// Seals an open flow.
    pub fn seal(&mut self, request: Seal, now: Timestamp) -> Answer {
        let entry = self.entry(request.job)?;
        let facts = entry.facts().ok_or(Refusal::NotFound)?;
        let sealed = entry.keyed(Some(&seal_key())).map(|event| event.version);
        let steps = request.decide(&entry.job, facts, sealed, now)?;
        let mut done = Done::Already(sealed.unwrap_or_default());
        for step in steps {
            done = self.write(step);
        }
        Ok(done)
    }

    /// The unique key that a job takes anew when it comes back, if it has one and does not hold it still.
    fn key_again(
        &self,
        job: JobId,
        brought: Option<&Payload>,
        now: Timestamp,
    ) -> Result<Option<(UniqueKey, Hold)>, Refusal> {
        let entry = self.entry(job)?;
        let Some((facts, unique)) = entry.facts().and_then(|facts| Some((facts, facts.unique.as_ref()?)))
        else {
            return Ok(None);
        };
        let key = (unique.scope.clone(), unique.key.clone());
        let payload = brought.cloned().or_else(|| entry.payload_now());
        let hold = key_again(&entry.job, facts, payload.as_ref(), self.holds.get(&key), now)?;
        Ok(hold.map(|hold| (key, hold)))
    }

    /// Makes a new job that begins with another's log.
    pub fn fork(&mut self, request: Fork, now: Timestamp) -> Answer {
        if let Some(there) = self.entries.get(&request.id) {
            return request.made_before(&there.events).map(Done::Already);
        }
        let source = self.entry(request.from)?;
        let to = request.copies_to(&source.job)?;
        let log: Vec<Event> = source.events.iter().filter(|event| event.version <= to).cloned().collect();
        let forked = request.decide(log, to, now)?;
        self.create(forked.row, forked.copied, now);
        Ok(self.write(forked.step))
    }
}
