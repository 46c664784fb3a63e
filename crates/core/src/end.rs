//! What a job's end entails, and what its return does: its unique key, its approvals, its parent, the jobs
//! that wait for it.
//!
//! `windlass.finished` in PostgreSQL's and the trigger `jobs_by_hand` in SQLite's `guard.sql` are second copies of this
//! rule, for a status that is set at an SQL prompt; the set-based completions leave out every job that it says anything
//! about.

use crate::decide::{Command, Move, counts_children, decide};
use crate::flow::ends_flow;
use crate::ids::JobId;
use crate::job::{Facts, Job};
use crate::name::Actor;
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::status::Status;
use crate::time::Timestamp;
use crate::unique::Hold;
use crate::wait::WaitFor;

/// Events before the first approval can have been asked: created and claimed, and then the end instead of the question.
const EVENTS_WITHOUT_APPROVAL: i64 = 3;

/// What follows when a job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// The job.
    pub job: JobId,
    /// How it ended.
    pub status: Status,
    /// Whether it gives back its unique key, if it still holds it.
    pub frees_key: bool,
    /// Whether it may have open approvals. They are closed by [`Approval::closed`](crate::Approval::closed).
    pub closes_approvals: bool,
    /// The parent to load and lock, which learns of it by [`Ending::told`].
    pub parent: Option<JobId>,
    /// Whether others wait for it: [`dependents`](crate::flow::dependents), each of which learns of it by
    /// [`Ending::reaches`].
    pub has_dependents: bool,
    /// Whether it is a flow that was cancelled before its jobs had ended: its live
    /// [`children`](crate::flow::children) are cancelled by [`Ending::cancels`].
    pub cancels_children: bool,
}

impl Ending {
    /// What the step from one row to the next entails; none if the job did not end by it.
    pub fn of(before: &Job, after: &Job) -> Option<Self> {
        (after.status.is_terminal() && !before.status.is_terminal()).then(|| Self {
            job: after.id,
            status: after.status,
            frees_key: after.unique_policy.is_some_and(|policy| policy.frees_at(after.status)),
            closes_approvals: after.version > EVENTS_WITHOUT_APPROVAL,
            parent: after.parent_id,
            has_dependents: after.dependents > 0,
            cancels_children: after.status == Status::Cancelled && before.waiting_for == Some(WaitFor::Flow),
        })
    }

    /// How the parent moves: it counts one child less and wakes with the last. A flow may end by that. Nothing if it does
    /// not count this one.
    pub fn told(&self, parent: &Job, now: Timestamp) -> Vec<Move> {
        // Whatever the clock says, time never runs backwards within a job.
        let now = now.max(parent.updated_at);
        let counts = counts_children(parent) && parent.children > 0;
        let step = counts.then(|| decide(parent, Command::ChildFinished(self.job, self.status), now).ok());
        let Some(counted) = step.flatten() else { return Vec::new() };
        let failed = (self.status != Status::Completed).then_some(self.job);
        let end = ends_flow(&counted.job, failed, now);
        [counted].into_iter().chain(end).collect()
    }
}

/// How the parent of jobs that come back moves: their ends were counted and will be again, so they are more to wait for.
/// None if the parent does not count children any more.
pub fn counted_again(parent: &Job, children: Vec<JobId>, actor: &Actor, now: Timestamp) -> Option<Move> {
    let now = now.max(parent.updated_at);
    let command = Command::AddChildren(actor.clone(), None, children);
    counts_children(parent).then(|| decide(parent, command, now).ok()).flatten()
}

/// The hold on its unique key that a job takes when it comes back, given who holds that key now. None if it has no key
/// or holds it still.
pub fn key_again(
    job: &Job,
    facts: &Facts,
    payload: Option<&Payload>,
    held: Option<&Hold>,
    now: Timestamp,
) -> Result<Option<Hold>, Refusal> {
    let (Some(unique), Some(_)) = (&facts.unique, job.unique_policy) else { return Ok(None) };
    match held.filter(|hold| hold.is_held(now)) {
        Some(hold) if hold.job == job.id => Ok(None),
        Some(hold) => Err(Refusal::UniqueTaken(hold.job)),
        None => Ok(Some(Hold::take(job.id, unique, payload, now))),
    }
}
