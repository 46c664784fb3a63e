//! Lanes that are held: a handler was refused by what it calls, and nobody asks that again before a moment.
//!
//! A hold is of a job's key, or of its whole queue if the job has no key. It ends by time, after a day at most, or by an
//! operator. It delays no other key. A hold never becomes shorter by a second one.

use crate::decide::Move;
use crate::event::EventKind;
use crate::job::{Job, Metadata};
use crate::lane::{Held, Lane, QueueLimits};
use crate::list::Count;
use crate::name::{Actor, Key, Name};
use crate::rate::{Bucket, Rates, WHOLE};
use crate::registry::{Queue, WriteAudit};
use crate::time::Timestamp;

/// Longest hold, in milliseconds (a day). What asks for longer is held that long, and then tried.
pub const HOLD_MAX_MS: i64 = 86_400_000;

/// A lane to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneHold {
    /// Which: a key's, or [`WHOLE`].
    pub lane: Lane,
    /// Until when.
    pub until: Timestamp,
}

impl LaneHold {
    /// What a step asks to hold; none if nothing.
    pub fn of(step: &Move) -> Option<Self> {
        match &step.event.what {
            EventKind::JobReleased(released) => {
                Some(Self { lane: lane_of(&step.job), until: released.held_until? })
            }
            _ => None,
        }
    }

    /// The bucket of the lane with this hold.
    pub fn put(self, before: Option<Bucket>, now: Timestamp) -> Bucket {
        let before = before.unwrap_or_else(|| Bucket::empty(now));
        let held_until = before.held_until.map_or(self.until, |until| until.max(self.until));
        Bucket { held_until: Some(held_until), ..before }
    }
}

/// The lane that is held for a job: that of its key, or the whole queue.
fn lane_of(job: &Job) -> Lane {
    job.lane.unwrap_or(WHOLE)
}

impl Queue {
    /// The queue once something of it is held; none if it says so already.
    pub fn with_hold(before: Option<&Self>, name: &Name) -> Option<Self> {
        let queue = before.cloned().unwrap_or_else(|| Self::new(name.clone()));
        let flow = queue.flow.clone().unwrap_or_default();
        (!flow.held).then_some(Self { flow: Some(QueueLimits { held: true, ..flow }), ..queue })
    }

    /// The queue once nothing of it is held any more.
    pub fn without_holds(&self) -> Self {
        let flow = self.flow.clone().map(|flow| QueueLimits { held: false, ..flow });
        Self { flow: flow.filter(|flow| !flow.is_empty()), ..self.clone() }
    }

    /// Its rules; none if it has none.
    pub fn rules(&self) -> Option<&QueueLimits> {
        self.flow.as_ref().filter(|flow| flow.has_rules())
    }
}

/// A lane of a queue whose keys take turns, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneState {
    /// Its number: pages go on behind it.
    pub lane: Lane,
    /// Its key; none if no job of it is left that could say so.
    pub key: Option<Key>,
    /// How many of its jobs run or are assigned.
    pub running: i64,
    /// How many of its jobs could start now if nothing kept them.
    pub due: Count,
    /// Until when it is held; none if it is not.
    pub held_until: Option<Timestamp>,
    /// When its next unit is there; none if it has one, or no rate.
    pub next_at: Option<Timestamp>,
}

/// Up to where the due jobs of a lane are counted.
pub const LANE_DUE_CAP: i64 = 1_000;

impl LaneState {
    /// A lane as a store found it: its jobs that are due are counted one beyond the cap.
    pub fn of(lane: Lane, key: Option<Key>, due: i64, held: &Held, rates: Option<&Rates>) -> Self {
        Self {
            lane,
            key,
            running: held.of(lane),
            due: Count { n: due.min(LANE_DUE_CAP), capped: due > LANE_DUE_CAP },
            held_until: rates.and_then(|rates| rates.held_until(lane)),
            next_at: rates.and_then(|rates| rates.next_at(lane)),
        }
    }
}

/// A lane to let go: neither a hold nor a debt keeps it any longer.
#[derive(Debug, Clone)]
pub struct ReleaseLane {
    /// Of which queue.
    pub queue: Name,
    /// Which key; the whole queue when absent. Its keys stay held.
    pub key: Option<Key>,
    /// Who lets it go.
    pub actor: Actor,
}

impl ReleaseLane {
    /// Which lane.
    pub fn lane(&self) -> Lane {
        self.key.as_ref().map_or(WHOLE, Lane::of)
    }

    /// What is put on record, where there was something to let go.
    pub fn audit(&self, before: Bucket) -> WriteAudit {
        let mut detail = Metadata::new();
        if let Some(key) = &self.key {
            detail.insert("key".to_owned(), key.as_str().into());
        }
        if let Some(until) = before.held_until {
            detail.insert("held_until".to_owned(), until.to_string().into());
        }
        detail.insert("paid_until".to_owned(), before.paid_until.to_string().into());
        WriteAudit::of(self.actor.clone(), "queue.release", &self.queue, detail)
    }
}
