//! Ending attempts: each stands alone, and a repeat finds itself in the job's log.

use crate::state::{Entry, State, in_batch};
use windlass_core::decide::{Command, decide};
use windlass_core::hold::LaneHold;
use windlass_core::outcome::Found;
use windlass_core::step::{denial, kept_signal, news};
use windlass_core::wait::{Wait, WaitFor};
use windlass_core::{Answer, Done, Outcome, Timestamp};
use windlass_store::{Settle, SettleItem};

impl State {
    /// Ends attempts, each for itself, in order.
    pub fn settle(&mut self, request: Settle, now: Timestamp) -> Vec<Answer> {
        let settle = |(index, item): (usize, SettleItem)| {
            in_batch(index)?;
            self.settle_one(item, now)
        };
        request.items.into_iter().enumerate().map(settle).collect()
    }

    fn settle_one(&mut self, item: SettleItem, now: Timestamp) -> Answer {
        let entry = self.entry(item.job)?;
        let hash = item.token.hash();
        let asked = item.outcome.clone();
        let outcome = match item.outcome {
            Outcome::Wait(wait, _) => {
                let found = self.found(entry, &wait);
                Outcome::Wait(wait, found)
            }
            outcome => outcome,
        };
        match decide(&entry.job, Command::Settle(hash, outcome), now) {
            Ok(step) => {
                let (queue, hold, at) = (step.job.queue.clone(), LaneHold::of(&step), step.event.at);
                let done = self.write(step);
                if let Some(hold) = hold {
                    self.hold_lane(&queue, hold, at);
                }
                Ok(done)
            }
            Err(refusal) => asked.settled_in(hash, entry.events.iter()).map(Done::Already).ok_or(refusal),
        }
    }

    /// What already answers a wait.
    fn found(&self, entry: &Entry, wait: &Wait) -> Found {
        if wait.waits_for == WaitFor::News {
            return Found { news: news(&entry.events, wait.since), ..Found::default() };
        }
        let Some(name) = &wait.name else { return Found::default() };
        match wait.waits_for {
            WaitFor::Signal if entry.job.signals > 0 => {
                Found { signal: kept_signal(&entry.events, name, entry.job.steps_from), ..Found::default() }
            }
            WaitFor::Approval => {
                let newest = self.newest_approval(entry, name);
                let known = newest.filter(|approval| approval.counts_for(&entry.job));
                let denial = known.and_then(|approval| denial(&entry.events, approval.id));
                Found { approval: known.cloned(), denial, ..Found::default() }
            }
            _ => Found::default(),
        }
    }
}
