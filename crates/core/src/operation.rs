//! Operations: something done to many jobs by the leader, page by page, that can be watched and stopped.
//!
//! An operation is a [paper](crate::paper). It begins when its hold is over, so that who meant something else can stop it
//! before anything was done. After each page it says how far it has come; a leader that takes over goes on from there, and
//! what was done to a job already is not done again.

use crate::bulk::BulkAction;
use crate::ids::JobId;
use crate::limits::Invalid;
use crate::list::Filter;
use crate::name::{Actor, Name};
use crate::refusal::Refusal;
use crate::span::within_ms;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest hold, in milliseconds.
pub const HOLD_MAX_MS: i64 = 24 * 3_600_000;
/// The most jobs that are named one by one.
pub const IDS_MAX: usize = 1_000;

/// Which jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Those that it matches when they are looked at.
    Filter(Box<Filter>),
    /// These.
    Ids(Vec<JobId>),
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing is done yet.
    Held,
    /// It goes on.
    Running,
    /// Every job was looked at.
    Done,
    /// Somebody stopped it.
    Stopped,
}

impl Phase {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
        }
    }

    /// Whether nothing more happens.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Stopped)
    }
}

/// What was found and done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Jobs that were looked at and that the action is for.
    pub matched: u64,
    /// Jobs that were acted on.
    pub done: u64,
    /// Jobs that had moved on meanwhile.
    pub skipped: u64,
}

impl Tally {
    fn plus(self, more: Self) -> Self {
        Self {
            matched: self.matched + more.matched,
            done: self.done + more.done,
            skipped: self.skipped + more.skipped,
        }
    }
}

/// An operation as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// What is done.
    pub action: BulkAction,
    /// To which jobs.
    pub which: Which,
    /// From when redriven jobs may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// Over which period redriven jobs are spread, in milliseconds.
    #[serde(default)]
    pub spread_ms: i64,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For whom the leader acts.
    pub by: Actor,
    /// When its hold is over.
    pub begins_at: Timestamp,
    /// How far it is.
    pub phase: Phase,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// What was found and done so far.
    pub tally: Tally,
    /// Who stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Actor>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl Operation {
    /// A new one: what is to be done, to which jobs, for whom, and how long nothing happens.
    pub fn new(
        action: BulkAction,
        which: Which,
        by: Actor,
        hold_ms: i64,
        now: Timestamp,
    ) -> Result<Self, Invalid> {
        within_ms("hold", hold_ms, 0, HOLD_MAX_MS)?;
        if let Which::Ids(ids) = &which
            && (ids.is_empty() || ids.len() > IDS_MAX)
        {
            return Err(Invalid::new("ids", ids.len(), format!("must be 1 to {IDS_MAX} jobs")));
        }
        Ok(Self {
            action,
            which,
            run_at: None,
            spread_ms: 0,
            reason: None,
            by,
            begins_at: now.plus_ms(hold_ms),
            phase: Phase::Held,
            cursor: None,
            tally: Tally::default(),
            stopped_by: None,
            ended_at: None,
        })
    }

    /// The queue it is about; none for every queue, or for jobs named one by one.
    pub fn queue(&self) -> Option<&Name> {
        match &self.which {
            Which::Filter(filter) => filter.queue.as_ref(),
            Which::Ids(_) => None,
        }
    }

    /// After one more page, of which this was found and done, and behind which the next one begins. One that was stopped
    /// meanwhile stays stopped, and says what was done all the same.
    pub fn after_page(mut self, found: Tally, next: Option<String>, now: Timestamp) -> Self {
        self.tally = self.tally.plus(found);
        if self.phase.is_over() {
            return self;
        }
        self.phase = if next.is_some() { Phase::Running } else { Phase::Done };
        self.ended_at = next.is_none().then_some(now);
        self.cursor = next;
        self
    }

    /// Stopped by somebody; none if it is over already.
    pub fn stop(mut self, by: Actor, now: Timestamp) -> Option<Self> {
        if self.phase.is_over() {
            return None;
        }
        self.phase = Phase::Stopped;
        self.stopped_by = Some(by);
        self.ended_at = Some(now);
        Some(self)
    }

    /// The operation that a paper is.
    pub fn read(paper: &crate::paper::Paper) -> Result<Self, Refusal> {
        let unreadable = |why| Refusal::Unreadable(format!("operation {}: {why}", paper.name));
        serde_json::from_value(paper.body.clone()).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(ids: usize, hold_ms: i64) -> Result<Operation, Invalid> {
        let now = Timestamp::from_micros(1_000_000);
        let ids = (0..ids as u64).map(|n| JobId::from_parts(now, n.to_be_bytes())).collect();
        Operation::new(BulkAction::Redrive, Which::Ids(ids), Actor::engine(), hold_ms, now)
    }

    #[test]
    fn holds_and_lists_have_bounds() {
        assert!(new(1, -1).is_err() && new(1, HOLD_MAX_MS + 1).is_err());
        assert!(new(0, 0).is_err() && new(IDS_MAX + 1, 0).is_err());
        let held = new(1, 10_000).expect("an operation");
        assert_eq!((held.phase, held.begins_at), (Phase::Held, Timestamp::from_micros(11_000_000)));
    }

    #[test]
    fn one_that_was_stopped_meanwhile_stays_stopped_and_counts() {
        let now = Timestamp::from_micros(2_000_000);
        let found = Tally { matched: 3, done: 2, skipped: 1 };
        let running = new(1, 0).expect("an operation").after_page(found, Some("c".into()), now);
        assert_eq!((running.phase, running.cursor.as_deref()), (Phase::Running, Some("c")));
        let stopped = running.clone().stop(Actor::engine(), now).expect("stopped");
        let counted = stopped.after_page(found, None, now);
        assert_eq!((counted.phase, counted.tally.done), (Phase::Stopped, 4));
        assert_eq!(counted.stop(Actor::engine(), now), None);
        let done = running.after_page(found, None, now);
        assert_eq!((done.phase, done.ended_at, done.cursor), (Phase::Done, Some(now), None));
    }

    #[test]
    fn it_reads_back() {
        let one = new(2, 0).expect("an operation");
        let text = serde_json::to_string(&one).expect("text");
        assert_eq!(serde_json::from_str::<Operation>(&text).expect("the same"), one);
    }
}
