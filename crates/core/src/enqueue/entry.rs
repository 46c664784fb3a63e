//! What a lane whose rules look at jobs that come makes of one: it enters, is refused or left out, or takes the place of
//! those before it.
//!
//! A store loads the lane under a lock that every enqueue into it takes, so two of them never count the same.

use super::{Enqueued, Known, Planner};
use crate::decide::{Cancel, Command, Move, decide, error_payload};
use crate::event::{self, EventKind};
use crate::ids::JobId;
use crate::job::{Job, NewJob};
use crate::lane::{Entry, Full};
use crate::limits;
use crate::name::{Actor, Who};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use std::collections::btree_map;

/// The code of a job that was cancelled because a newer one of its key came.
pub const SUPERSEDED: &str = "superseded";

/// A lane that a job comes to, as far as its rules ask.
#[derive(Debug, Clone)]
pub struct Ahead {
    /// What its rules ask.
    pub entry: Entry,
    /// How many stand in line, due or not; counted up to the backlog, if there is one.
    pub waiting: i64,
    /// Where the newest takes the place of the others: those in line, and those that run or are assigned, locked.
    pub others: Vec<Job>,
    /// New jobs of the request, in its order.
    entered: Vec<JobId>,
}

impl Ahead {
    /// A lane as a store found it.
    pub fn new(entry: Entry, waiting: i64, others: Vec<Job>) -> Self {
        let waiting = entry.backlog.map_or(0, |most| waiting.min(most));
        Self { entry, waiting, others, entered: Vec::new() }
    }

    /// Who makes room for the newest: all that stand in line and, if those that run and were not asked to stop take every
    /// slot, the one of them that began first.
    fn make_room(&self) -> impl Iterator<Item = &Job> {
        let mut running: Vec<&Job> =
            self.others.iter().filter(|job| job.takes_slot() && job.cancel_requested_at.is_none()).collect();
        running.sort_by_key(|job| (job.started_at, job.id));
        let is_full = self.entry.concurrency.is_some_and(|most| running.len() as i64 >= most);
        let stops = running.into_iter().next().filter(|_| is_full);
        self.others.iter().filter(|job| job.stands_in_line()).chain(stops)
    }
}

impl Job {
    /// Whether it stands in line: it may run, now or later, and has no slot.
    pub fn stands_in_line(&self) -> bool {
        self.due_at.is_some() && !self.takes_slot()
    }
}

impl<K: Known> Planner<'_, '_, K> {
    /// Whether a new job enters its lane; one that does not is refused, or answered for. A job that waits for others does not
    /// stand in line yet, so no rule looks at it.
    pub(super) fn enters(&mut self, job: &NewJob) -> Result<bool, Refusal> {
        let (queue, facts) = (&job.facts.queue, &job.facts);
        let Some(key) = &facts.key else { return Ok(true) };
        if facts.graph.as_ref().is_some_and(|graph| graph.waits_for().is_some()) {
            return Ok(true);
        }
        let lane = match self.lanes.entry((queue.clone(), key.clone())) {
            btree_map::Entry::Occupied(lane) => lane.into_mut(),
            btree_map::Entry::Vacant(free) => match self.known.ahead(queue, key) {
                Some(lane) => free.insert(lane),
                None => return Ok(true),
            },
        };
        let waiting = lane.waiting + lane.entered.len() as i64;
        if lane.entry.backlog.is_none_or(|most| waiting < most) {
            lane.entered.push(job.id);
            return Ok(true);
        }
        match lane.entry.full {
            Full::Refuse => Err(Refusal::LaneFull { queue: queue.clone(), key: key.clone(), waiting }),
            Full::Drop => {
                self.plan.answers.push(Enqueued::dropped(job));
                Ok(false)
            }
        }
    }

    /// Lets the newest of each lane take the place of the others, those of the request included.
    pub(super) fn give_way(&mut self) {
        for lane in std::mem::take(&mut self.lanes).into_values().filter(|lane| lane.entry.newest) {
            let Some((newest, earlier)) = lane.entered.split_last() else { continue };
            let mut all: Vec<JobId> =
                lane.make_room().map(|job| job.id).chain(earlier.iter().copied()).collect();
            all.sort_unstable();
            self.plan.give_way.extend(all.into_iter().map(|job| GivesWay { job, to: *newest }));
        }
    }
}

/// A job whose place a newer one of its key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivesWay {
    /// The job.
    pub job: JobId,
    /// The newer one.
    pub to: JobId,
}

impl GivesWay {
    /// How it moves: it is cancelled, or its holder is asked to stop. None if it has ended or was asked before.
    pub fn step(self, job: &Job, now: Timestamp) -> Option<Move> {
        let now = now.max(job.updated_at);
        if job.status.is_terminal() || job.cancel_requested_at.is_some() {
            return None;
        }
        let message = format!("job {} of the same key came later", self.to);
        if job.is_held(now) {
            let wish = Cancel {
                actor: Actor::engine(),
                reason: Some(format!("{SUPERSEDED}: {message}")),
                force: false,
                force_after_ms: limits::FORCE_AFTER_DEFAULT_MS,
            };
            return decide(job, Command::Cancel(wish), now).ok();
        }
        let error = error_payload(SUPERSEDED, &message);
        let detail = event::Cancelled { reason: Some(message), code: Some(Who::word(SUPERSEDED)) };
        let what = EventKind::JobCancelled(detail);
        Some(Move::new(job, now, Actor::engine(), what).payload(Some(error)).done())
    }
}
