//! Graphs of jobs: which job waits for which, what the end of one means for the others, and when a flow is over.
//!
//! An edge points from a job that exists to one that is being created, so no cycle can be written. The upstream job's log
//! lists its dependents ([`dependents`]), event 1 of a dependent lists its edges, and the row counts what is left in
//! `children`. `windlass.finished` in PostgreSQL's `guard.sql` is a second copy of [`Ending::told`] and
//! [`Ending::reaches`].

mod arrange;
mod rearm;

pub use arrange::{Before, Node, arrange};
pub use rearm::{Back, Behind};

use crate::decide::{Cancel, Command, Move, decide, error_payload, fail};
use crate::end::Ending;
use crate::event::{self, Event, EventKind};
use crate::ids::JobId;
use crate::job::{Facts, Job, RunAt, Version};
use crate::limits::{self, Invalid};
use crate::name::{Actor, Name, Who};
use crate::refusal::Refusal;
use crate::status::Status;
use crate::time::Timestamp;
use crate::wait::WaitFor;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The kind of a flow that has no callback. No worker runs it: the engine completes it.
pub const FLOW_KIND: &str = "windlass.flow";
/// The code of a job that was skipped because an upstream job ended otherwise than it asks.
pub const SKIPPED: &str = "skipped";
/// The code of a flow that failed because one of its jobs did.
pub const CHILD_FAILED: &str = "child_failed";

/// So many upstream jobs are named where people read why a job waits.
const UPSTREAM_SHOWN: usize = 10;

/// Which end of an upstream job lets its dependent run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// It completed.
    #[default]
    Success,
    /// It ended in any other way: failed, timed out, cancelled or skipped.
    Failure,
    /// It ended.
    Finished,
}

impl On {
    /// Every condition.
    pub const ALL: [Self; 3] = [Self::Success, Self::Failure, Self::Finished];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Finished => "finished",
        }
    }

    /// The condition a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|on| on.as_str() == word)
    }

    /// Whether an end of this status meets it.
    pub fn is_met(self, status: Status) -> bool {
        match self {
            Self::Success => status == Status::Completed,
            Self::Failure => status != Status::Completed,
            Self::Finished => true,
        }
    }
}

/// What a job waits for before its first run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The upstream job.
    pub job: JobId,
    /// Which end of it.
    #[serde(default)]
    pub on: On,
    /// By which name this job knows it; its result is read by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
}

/// When the callback of a flow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// When all jobs have ended, in whatever way.
    #[default]
    All,
    /// When all jobs have completed. The first that does not fails the flow.
    Success,
    /// With the first job that does not complete. When all complete, the flow is completed without it.
    FirstFailure,
}

impl Join {
    /// Every join.
    pub const ALL: [Self; 3] = [Self::All, Self::Success, Self::FirstFailure];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Success => "success",
            Self::FirstFailure => "first_failure",
        }
    }

    /// The join a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|join| join.as_str() == word)
    }
}

/// What makes a job the parent of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Flow {
    /// When its callback runs.
    #[serde(default)]
    pub join: Join,
    /// Whether jobs may be added until it is sealed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// A job's place in a graph: a part of its facts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Graph {
    /// Its name within its flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Edge>,
    /// What makes it the parent of a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
}

impl Graph {
    /// What the job waits for when it is born; none if it may run at once.
    pub fn waits_for(&self) -> Option<WaitFor> {
        match (self.flow, self.after.is_empty()) {
            (Some(_), _) => Some(WaitFor::Flow),
            (None, false) => Some(WaitFor::Upstream),
            (None, true) => None,
        }
    }

    /// How much it waits for when it is born: its edges, or the seal of an open flow.
    pub fn count(&self) -> i32 {
        self.after.len() as i32 + i32::from(self.flow.is_some_and(|flow| flow.open))
    }

    /// Accepts what is within the limits.
    pub fn check(&self, facts: &Facts) -> Result<(), Invalid> {
        limits::count("after", self.after.len(), limits::ENQUEUE_MAX)?;
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.after.iter().find(|edge| !seen.insert(edge.job)) {
            return Err(Invalid::new("after", twice.job.to_string(), "must name each job once"));
        }
        if self.waits_for().is_some() && facts.run_at != RunAt::Now {
            let limit = "must be left out for a job that waits for others";
            return Err(Invalid::new("run_at", "given", limit));
        }
        if self.flow.is_some() && !self.after.is_empty() {
            return Err(Invalid::new(
                "after",
                "given",
                "must be left out for a flow: give it to the flow's jobs",
            ));
        }
        Ok(())
    }
}

impl Facts {
    /// The edges of a job that waits for others.
    pub fn after(&self) -> &[Edge] {
        self.graph.as_ref().map_or(&[], |graph| &graph.after)
    }

    /// The first of the jobs that it waits for, as people read them.
    pub fn upstream(&self) -> Vec<String> {
        let named = |edge: &Edge| match &edge.name {
            Some(name) => format!("{name} {}", edge.job),
            None => edge.job.to_string(),
        };
        self.after().iter().take(UPSTREAM_SHOWN).map(named).collect()
    }

    /// What makes it the parent of a flow.
    pub fn flow(&self) -> Option<Flow> {
        self.graph.as_ref()?.flow
    }

    /// Whether only the engine writes jobs of this kind.
    pub fn is_reserved_kind(&self) -> bool {
        self.kind.as_str() == FLOW_KIND && self.flow().is_none()
    }
}

/// A job that waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependent {
    /// Which.
    pub job: JobId,
    /// For which end.
    pub on: On,
}

/// Types of events that say who waits for a job and which children it has.
pub const GRAPH_EVENTS: [&str; 5] =
    ["job_dependents_added", "job_children_added", "job_redriven", "job_rearmed", "job_forked"];

/// Who waits for the end of a job, by id, from its log. Those that learned of an end before the job came back learn of no
/// second one.
pub fn dependents(log: &[Event]) -> Vec<Dependent> {
    let mut found = BTreeMap::new();
    for event in log {
        match &event.what {
            EventKind::JobDependentsAdded(d) => found.extend(d.dependents.iter().map(|d| (d.job, *d))),
            EventKind::JobRedriven(_) | EventKind::JobRearmed(_) | EventKind::JobForked(_) => found.clear(),
            _ => {}
        }
    }
    found.into_values().collect()
}

/// The children of a job, by id, from its log.
pub fn children(log: &[Event]) -> BTreeSet<JobId> {
    let mut found = BTreeSet::new();
    for event in log {
        match &event.what {
            EventKind::JobChildrenAdded(d) => found.extend(d.children.iter().copied()),
            EventKind::JobForked(_) => found.clear(),
            _ => {}
        }
    }
    found
}

/// How a job moves to which others were given that wait for it.
pub fn gains(job: &Job, dependents: Vec<Dependent>, actor: &Actor, now: Timestamp) -> Move {
    let what = EventKind::JobDependentsAdded(event::DependentsAdded { dependents });
    Move::new(job, now.max(job.updated_at), actor.clone(), what).done()
}

/// How a dependent moves when an upstream job has ended: it counts one less and wakes with the last, or it is skipped.
/// None if it does not wait.
pub fn upstream_ended(
    dependent: &Job,
    on: On,
    upstream: JobId,
    status: Status,
    now: Timestamp,
) -> Option<Move> {
    let now = now.max(dependent.updated_at);
    let waits = dependent.status == Status::Waiting
        && dependent.waiting_for == Some(WaitFor::Upstream)
        && dependent.due_at.is_none();
    if !waits {
        return None;
    }
    if on.is_met(status) {
        let woke = dependent.children <= 1;
        let what = EventKind::JobUpstreamFinished(event::UpstreamFinished { upstream, status, woke });
        return Some(Move::new(dependent, now, Actor::engine(), what).done());
    }
    let message = match on {
        On::Failure => format!("job {upstream} is {status}, and this job runs only after its failure"),
        _ => format!("job {upstream} is {status}, and this job runs only after its success"),
    };
    let what = EventKind::JobSkipped(event::Skipped { upstream, status });
    let step = Move::new(dependent, now, Actor::engine(), what);
    Some(step.payload(Some(error_payload(SKIPPED, &message))).done())
}

/// How a flow is joined.
fn join_of(parent: &Job) -> Option<Join> {
    let waits = parent.status == Status::Waiting
        && parent.waiting_for == Some(WaitFor::Flow)
        && parent.due_at.is_none();
    waits.then(|| parent.wait_name.as_ref().and_then(|name| Join::parse(name.as_str())).unwrap_or_default())
}

/// Whether a flow has a callback of its own; else the engine completes it.
fn has_callback(parent: &Job) -> bool {
    parent.kind.as_str() != FLOW_KIND
}

/// Whether the end of this child runs the callback of a flow.
pub(crate) fn child_wakes_flow(parent: &Job, status: Status) -> bool {
    let Some(join) = join_of(parent).filter(|_| has_callback(parent)) else { return false };
    let failed = status != Status::Completed;
    match join {
        Join::All => parent.children == 1,
        Join::Success => parent.children == 1 && !failed,
        Join::FirstFailure => failed,
    }
}

/// How a flow ends by itself, after what its row counts has changed: it has no callback, or none that is to run. `failed`
/// names the child that has just not completed.
pub fn ends_flow(parent: &Job, failed: Option<JobId>, now: Timestamp) -> Option<Move> {
    let now = now.max(parent.updated_at);
    let join = join_of(parent)?;
    if let Some(child) = failed
        && join != Join::All
    {
        let message = format!("job {child} did not complete");
        return Some(fail(parent, Who::word(CHILD_FAILED), &message, now));
    }
    if parent.children > 0 {
        return None;
    }
    if has_callback(parent) && join != Join::FirstFailure {
        let woken = event::Woken { waits_for: WaitFor::Flow };
        return Some(Move::new(parent, now, Actor::engine(), EventKind::JobWoken(woken)).done());
    }
    Some(Move::new(parent, now, Actor::engine(), EventKind::JobCompleted).done())
}

/// Whether a job waits for the jobs of its flow: only then it matters whether it was sealed.
pub fn waits_for_flow(job: &Job) -> bool {
    job.waiting_for == Some(WaitFor::Flow)
}

/// What is asked of an open flow: to take no more jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// The flow.
    pub job: JobId,
    /// Who seals it.
    pub actor: Actor,
}

impl Seal {
    /// How the flow moves: it counts one less, and may end by that. `sealed` is the event by which it was sealed before.
    pub fn decide(
        &self,
        job: &Job,
        facts: &Facts,
        sealed: Option<Version>,
        now: Timestamp,
    ) -> Result<Vec<Move>, Refusal> {
        if !facts.flow().is_some_and(|flow| flow.open) {
            return Err(Refusal::FlowNotOpen);
        }
        if sealed.is_some() {
            return Ok(Vec::new());
        }
        let now = now.max(job.updated_at);
        let counted = decide(job, Command::Seal(self.actor.clone()), now)?;
        let end = ends_flow(&counted.job, None, now);
        Ok([counted].into_iter().chain(end).collect())
    }
}

impl Ending {
    /// How a dependent moves by this end; none if it does not wait for it any more.
    pub fn reaches(&self, dependent: &Job, on: On, now: Timestamp) -> Option<Move> {
        upstream_ended(dependent, on, self.job, self.status, now)
    }

    /// How a child of a flow that was cancelled moves: it is cancelled, or its holder is asked to stop. None if it has
    /// ended or was asked before.
    pub fn cancels(&self, child: &Job, now: Timestamp) -> Option<Move> {
        let wish = Cancel {
            actor: Actor::engine(),
            reason: Some(format!("its flow {} was cancelled", self.job)),
            force: false,
            force_after_ms: limits::FORCE_AFTER_DEFAULT_MS,
        };
        let now = now.max(child.updated_at);
        if child.cancel_requested_at.is_some() {
            return None;
        }
        decide(child, Command::Cancel(wish), now).ok()
    }
}
