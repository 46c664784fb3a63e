//! How attempts end, each for itself.

use crate::db::{Tx, array, sql};
use crate::error::{Failure, Tried, one_items};
use crate::row;
use std::collections::HashMap;
use windlass_core::decide::{Command, decide};
use windlass_core::hold::LaneHold;
use windlass_core::limits::{self, BATCH_MAX, PAYLOAD_MAX_BYTES};
use windlass_core::outcome::Found;
use windlass_core::payload::fits;
use windlass_core::step::{denial, kept_signal, news};
use windlass_core::wait::{ApprovalStatus, Wait};
use windlass_core::{
    Answer, Done, Job, JobId, Outcome, Payload, Refusal, Status, Timestamp, Version, WaitFor,
};
use windlass_store::{Settle, SettleItem};

impl Tx<'_, '_> {
    pub(crate) fn settle(&self, request: &Settle, now: Timestamp) -> Tried<Vec<Answer>> {
        let completed = self.complete(request, now)?;
        let one = |(n, item): (usize, &SettleItem)| match (
            completed.get(&n),
            limits::count("items", n + 1, BATCH_MAX),
        ) {
            (_, Err(invalid)) => Ok(Err(invalid.into())),
            (Some(version), Ok(())) => Ok(Ok(Done::Moved(*version, Status::Completed))),
            (None, Ok(())) => one_items(self.settle_one(item, now)),
        };
        request.items.iter().enumerate().map(one).collect()
    }

    /// Completes in a few statements what can be; answers the versions by the item's place.
    fn complete(&self, request: &Settle, now: Timestamp) -> Tried<HashMap<usize, Version>> {
        let mut places: HashMap<JobId, usize> = HashMap::new();
        let mut asked = Vec::new();
        for (n, item) in request.items.iter().take(BATCH_MAX).enumerate() {
            let Outcome::Complete(result) = &item.outcome else { continue };
            let fits = fits("result", result.as_ref(), PAYLOAD_MAX_BYTES).is_ok();
            if fits && !places.contains_key(&item.job) {
                places.insert(item.job, n);
                asked.push(completion(item, result.as_ref()));
            }
        }
        if asked.len() < 2 || !self.numbers_itself() {
            return Ok(HashMap::new());
        }
        let before = self.last_seq();
        self.execute(sql!("settle_complete_event"), (array(asked), now.as_micros()))?;
        let logged = self.all(sql!("settle_completed"), [before], |r| {
            Ok((JobId::from_bytes(r.get(0)?), r.get::<_, Version>(1)?, r.get::<_, bool>(2)?))
        })?;
        self.appended(logged.len(), now);
        for with_result in [true, false] {
            let ids =
                logged.iter().filter(|(.., has)| *has == with_result).map(|(id, ..)| id.as_bytes().to_vec());
            let ids = array(ids);
            if ids.is_empty() {
                continue;
            }
            let moved = self.execute(sql!("settle_complete"), (&ids, now.as_micros(), with_result))?;
            if moved != ids.len() {
                let message = format!("{} completions were logged and {moved} jobs moved", ids.len());
                return Err(Failure::Unreadable(message));
            }
        }
        Ok(logged.into_iter().filter_map(|(id, version, _)| Some((*places.get(&id)?, version))).collect())
    }

    fn settle_one(&self, item: &SettleItem, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(item.job)? else { return Ok(Err(Refusal::NotFound)) };
        let hash = item.token.hash();
        let outcome = match &item.outcome {
            Outcome::Wait(wait, _) => Outcome::Wait(wait.clone(), self.found(&job, wait)?),
            other => other.clone(),
        };
        match decide(&job, Command::Settle(hash, outcome), now) {
            Ok(step) => {
                self.write(&job, &step)?;
                if let Some(hold) = LaneHold::of(&step) {
                    self.hold_lane(&job.queue, hold, step.event.at)?;
                }
                Ok(Ok(Done::Moved(step.job.version, step.job.status)))
            }
            Err(refusal) => {
                let written = self.all(sql!("settled"), (job.id.as_bytes(), hash.0), row::event)?;
                Ok(item.outcome.settled_in(hash, written.iter()).map(Done::Already).ok_or(refusal))
            }
        }
    }

    /// What already answers a wait.
    fn found(&self, job: &Job, wait: &Wait) -> Tried<Found> {
        if wait.waits_for == WaitFor::News {
            return Ok(Found {
                news: news(&self.remembered(job.id, wait.since)?, wait.since),
                ..Found::default()
            });
        }
        let Some(name) = &wait.name else { return Ok(Found::default()) };
        let signal = if wait.waits_for == WaitFor::Signal && job.signals > 0 {
            kept_signal(&self.remembered(job.id, 0)?, name, job.steps_from)
        } else {
            None
        };
        let approval = match wait.waits_for {
            WaitFor::Approval => self.approval_by_name(job.id, name)?.filter(|a| a.counts_for(job)),
            _ => None,
        };
        let denial = match &approval {
            Some(approval) if approval.status == ApprovalStatus::Denied => {
                denial(&self.remembered(job.id, 0)?, approval.id)
            }
            _ => None,
        };
        Ok(Found { signal, approval, denial, news: None })
    }
}

/// A completion as `settle_complete_event.sql` reads it.
fn completion(item: &SettleItem, result: Option<&Payload>) -> Vec<u8> {
    let bytes = result.map_or(&[][..], Payload::as_bytes);
    let mut out = Vec::with_capacity(33 + bytes.len());
    out.extend_from_slice(item.job.as_bytes());
    out.extend_from_slice(&item.token.hash().0);
    out.push(result.map_or(2, |r| u8::from(r.is_json())));
    out.extend_from_slice(bytes);
    out
}
