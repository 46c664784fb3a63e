//! Idle work: unfinished jobs that nothing has happened to for long, and that no time will move.
//!
//! They wait for a worker, a signal or a decision that may never come. They are reported, and cancelled by the leader where the
//! settings say so. A job that waits for other jobs is reported and never cancelled: the others are, and it learns of their end.

use crate::decide::{Move, error_payload};
use crate::event::{self, EventKind};
use crate::ids::JobId;
use crate::job::Job;
use crate::name::{Actor, Name, Who};
use crate::refusal::Refusal;
use crate::span;
use crate::status::Status;
use crate::term::Term;
use crate::time::Timestamp;
use crate::trigger::leads;
use crate::wait::WaitFor;

/// How long a job stands still before it is reported, in milliseconds, where the settings do not say.
pub const IDLE_AFTER_MS: i64 = 30 * 86_400_000;
/// The error code of a job that was cancelled because it stood still.
pub const IDLE: &str = "idle";

/// Idle jobs to cancel, by the leader.
#[derive(Debug, Clone)]
pub struct CancelIdle {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// How long a job must have stood still, in milliseconds.
    pub idle_ms: i64,
    /// The jobs, each looked at again under its lock.
    pub jobs: Vec<JobId>,
}

impl CancelIdle {
    /// Refuses who does not lead.
    pub fn decide(&self, term: Option<&Term>, now: Timestamp) -> Result<(), Refusal> {
        leads(term, self.epoch, now)
    }

    /// Cancels one of the jobs, if it still stands as it did: one that moved meanwhile is left alone.
    pub fn decide_one(&self, job: &Job, now: Timestamp) -> Result<Move, Refusal> {
        if job.status.is_terminal() {
            return Err(Refusal::Finished(job.status));
        }
        if !job.is_idle(self.idle_ms, now) || job.waits_for_jobs() {
            return Err(Refusal::VersionMismatch(job.version));
        }
        let message = format!("nothing happened to it for {}", span::to_text(self.idle_ms));
        let error = error_payload(IDLE, &message);
        let detail = event::Cancelled { reason: Some(message), code: Some(Who::word(IDLE)) };
        Ok(Move::new(job, now, Actor::engine(), EventKind::JobCancelled(detail)).payload(Some(error)).done())
    }
}

impl Job {
    /// Whether nothing has happened to it for so long, and nothing will by itself: it runs nowhere, is not due later and has no
    /// deadline to come.
    pub fn is_idle(&self, idle_ms: i64, now: Timestamp) -> bool {
        let later = |time: Option<Timestamp>| time.is_some_and(|time| time > now);
        let is_unheld = !self.status.is_terminal() && self.status != Status::Running;
        is_unheld
            && self.updated_at.plus_ms(idle_ms) <= now
            && !later(self.due_at)
            && !later(self.deadline_at)
    }

    /// Whether it stands still because other jobs have not ended.
    pub fn waits_for_jobs(&self) -> bool {
        match self.waiting_for {
            Some(WaitFor::Children | WaitFor::Upstream | WaitFor::Flow) => self.due_at.is_none(),
            Some(WaitFor::News) => self.due_at.is_none() && self.children > 0,
            _ => false,
        }
    }
}
