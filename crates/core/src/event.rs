//! What happened: the append-only log of a job.

use crate::flow::Dependent;
use crate::ids::{ApprovalId, JobId};
use crate::job::{Facts, Metadata, Version};
use crate::lease::LeaseHash;
use crate::name::{Actor, Key, Name, Who};
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::status::Status;
use crate::time::Timestamp;
use crate::wait::{Decision, WaitFor};
use serde::{Deserialize, Serialize};

/// One entry of a job's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Whose log.
    pub job: JobId,
    /// Its place: 1, 2, 3 … without a gap.
    pub version: Version,
    /// When.
    pub at: Timestamp,
    /// Who: `api`, `worker:…`, `operator:…`, `engine`, `sql:…`.
    pub actor: Actor,
    /// The attempt it belongs to.
    pub attempt: i32,
    /// The generation it belongs to.
    pub generation: i32,
    /// The lease it was written under, or that it began or settled.
    pub lease: Option<LeaseHash>,
    /// The caller's key: one event of a job per key.
    pub key: Option<Key>,
    /// What happened.
    pub what: EventKind,
    /// The caller's bytes: payload, result, error, checkpoint, step value, signal.
    pub payload: Option<Payload>,
}

impl Event {
    /// Where its job came to stand by it; none if the job stayed where it was.
    pub fn moved_to(&self) -> Option<Status> {
        Some(match &self.what {
            EventKind::JobCreated(facts) if facts.graph.as_ref().is_some_and(|g| g.waits_for().is_some()) => {
                Status::Waiting
            }
            EventKind::JobCreated(_) | EventKind::JobRedriven(_) | EventKind::JobForked(_) => Status::Pending,
            EventKind::JobAssigned(_) => Status::Assigned,
            EventKind::JobClaimed | EventKind::JobStarted => Status::Running,
            EventKind::JobOrphaned => Status::Orphaned,
            EventKind::JobRetried(_) | EventKind::JobReleased(_) => Status::Retry,
            EventKind::JobWaiting(_) | EventKind::JobRearmed(_) => Status::Waiting,
            EventKind::JobCompleted => Status::Completed,
            EventKind::JobFailed(_) => Status::Failed,
            EventKind::JobTimedOut(detail) if detail.due_at.is_some() => Status::Retry,
            EventKind::JobTimedOut(_) => Status::TimedOut,
            EventKind::JobCancelled(_) | EventKind::JobSkipped(_) => Status::Cancelled,
            _ => return None,
        })
    }
}

macro_rules! events {
    (
        plain { $($(#[$pdoc:meta])* $plain:ident = $pname:literal,)* }
        told { $($(#[$tdoc:meta])* $told:ident($detail:ty) = $tname:literal,)* }
    ) => {
        /// What happened, in the past tense, with what the row needs to follow from it.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum EventKind {
            $($(#[$pdoc])* $plain,)*
            $($(#[$tdoc])* $told($detail),)*
            /// An event of the caller's own type.
            Noted(Name),
            /// Stored, but it does not read back. Logs and the feed show it as such; no decision is made with it.
            Unreadable(Box<Unreadable>),
        }

        impl EventKind {
            /// Every type that the engine writes itself.
            pub const TYPES: &[&str] = &[$($pname,)* $($tname,)*];

            /// The type's name in the log.
            pub fn type_name(&self) -> &str {
                match self {
                    $(Self::$plain => $pname,)*
                    $(Self::$told(_) => $tname,)*
                    Self::Noted(name) => name.as_str(),
                    Self::Unreadable(stored) => &stored.type_name,
                }
            }

            /// The detail that is stored beside the payload, as canonical JSON.
            pub fn detail(&self) -> Option<String> {
                match self {
                    $(Self::$told(detail) => serde_json::to_string(detail).ok(),)*
                    Self::Unreadable(stored) => stored.detail.clone(),
                    _ => None,
                }
            }

            /// Reads a stored event back.
            pub fn read(type_name: &str, detail: Option<&str>) -> Result<Self, Unreadable> {
                let unreadable = |why: String| {
                    let detail = detail.map(str::to_owned);
                    Unreadable { type_name: type_name.to_owned(), detail, why }
                };
                match type_name {
                    $($pname => Ok(Self::$plain),)*
                    // A caller's own `node_*` or `tool_*` entry, not written by the step verb.
                    other if detail.is_none() && !other.starts_with("job_") => {
                        Name::parse("type", other).map(Self::Noted).map_err(|e| unreadable(e.to_string()))
                    }
                    $($tname => serde_json::from_str(detail.unwrap_or("null"))
                        .map(Self::$told)
                        .map_err(|e| unreadable(e.to_string())),)*
                    other => Name::parse("type", other).map(Self::Noted).map_err(|e| unreadable(e.to_string())),
                }
            }
        }
    };
}

events! {
    plain {
        /// A worker took it; after a lost lease this is also where the crash is counted.
        JobClaimed = "job_claimed",
        /// The assigned worker started it.
        JobStarted = "job_started",
        /// Its worker was gone before it started.
        JobOrphaned = "job_orphaned",
        /// Done; the payload is the result.
        JobCompleted = "job_completed",
        /// It came back from the archive, finished as it had been.
        JobRestored = "job_restored",
        /// What it was given, found and printed was erased; the payload holds the hashes of the events that it changed.
        JobErased = "job_erased",
        /// An open flow: no job is added any more.
        JobSealed = "job_sealed",
    }
    told {
        /// Enqueued; the payload is the job's.
        JobCreated(Box<Facts>) = "job_created",
        /// A leader gave it to a worker.
        JobAssigned(Assigned) = "job_assigned",
        /// An attempt failed and will be repeated; the payload is the error.
        JobRetried(Retried) = "job_retried",
        /// A worker gave it back without using a retry, or a leader took back what a lost worker held.
        JobReleased(Released) = "job_released",
        /// It gave up; the payload is the error.
        JobFailed(Failed) = "job_failed",
        /// An attempt took too long; the payload is the error.
        JobTimedOut(TimedOut) = "job_timed_out",
        /// It waits and holds no worker.
        JobWaiting(Waiting) = "job_waiting",
        /// A signal came; the payload is the signal's.
        JobSignalled(Signalled) = "job_signalled",
        /// A wait ended without what it waited for.
        JobWoken(Woken) = "job_woken",
        /// It has more children to wait for.
        JobChildrenAdded(ChildrenAdded) = "job_children_added",
        /// One of its children finished.
        JobChildFinished(ChildFinished) = "job_child_finished",
        /// Jobs were made that wait for its end.
        JobDependentsAdded(DependentsAdded) = "job_dependents_added",
        /// A job that it waited for ended as it asks.
        JobUpstreamFinished(UpstreamFinished) = "job_upstream_finished",
        /// A job that it waited for ended otherwise than it asks: it never runs. The payload is the error.
        JobSkipped(Skipped) = "job_skipped",
        /// A job that it waited for came back: it was skipped, and waits again.
        JobRearmed(Rearmed) = "job_rearmed",
        /// Its holder was asked to stop.
        JobCancelRequested(CancelRequested) = "job_cancel_requested",
        /// Stopped on request, or because it stood still; then the payload is the error.
        JobCancelled(Cancelled) = "job_cancelled",
        /// An operator sent it back to the start of the line.
        JobRedriven(Redriven) = "job_redriven",
        /// A later request took its place while it waited; the payload is that request's.
        JobReplaced(Replaced) = "job_replaced",
        /// It began as the log of another job up to a version.
        JobForked(Forked) = "job_forked",
        /// Progress, stage, metadata or checkpoint; the payload is the checkpoint.
        JobProgressed(Progressed) = "job_progressed",
        /// An approval was asked, or asked again with a fresh link.
        JobApprovalAsked(ApprovalAsked) = "job_approval_asked",
        /// A vote on an approval.
        JobApprovalVoted(ApprovalVoted) = "job_approval_voted",
        /// A step began.
        NodeStarted(StepNamed) = "node_started",
        /// A step ended; the payload is its value.
        NodeFinished(StepNamed) = "node_finished",
        /// A tool was called; the payload is its arguments.
        ToolCalled(StepNamed) = "tool_called",
        /// A tool returned; the payload is its value.
        ToolReturned(StepNamed) = "tool_returned",
    }
}

macro_rules! details {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            pub struct $name { $($(#[$fdoc])* pub $field: $ty,)* }
        )*
    };
}

details! {
    /// Detail of [`EventKind::JobAssigned`].
    Assigned {
        /// To whom.
        worker: Who,
        /// Under which epoch.
        epoch: i64,
        /// When it lapses.
        deadline_at: Timestamp,
    }
    /// Detail of [`EventKind::JobRetried`].
    Retried {
        /// The error's code.
        code: Who,
        /// Retries used now.
        retries: i32,
        /// When the next try is due.
        due_at: Timestamp,
    }
    /// Detail of [`EventKind::JobReleased`].
    Released {
        /// When it is due again.
        due_at: Timestamp,
        /// Whether nobody gave it back: its lease was over, which counts as a crash.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lost: bool,
        /// Until when its key is held, or its queue if it has no key: what it calls refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_until: Option<Timestamp>,
    }
    /// Detail of [`EventKind::JobFailed`].
    Failed {
        /// The error's code.
        code: Who,
    }
    /// Detail of [`EventKind::JobTimedOut`].
    TimedOut {
        /// When the next try is due; none when no retry was left.
        due_at: Option<Timestamp>,
    }
    /// Detail of [`EventKind::JobWaiting`].
    Waiting {
        /// What for.
        waits_for: WaitFor,
        /// Its name.
        name: Option<Name>,
        /// From when it is due, if it is: a timer, or what it waits for was there already.
        due_at: Option<Timestamp>,
        /// When it stops waiting.
        deadline_at: Option<Timestamp>,
        /// The earlier event that already answers this wait: a kept signal, a vote.
        answered_by: Option<Version>,
    }
    /// Detail of [`EventKind::JobSignalled`].
    Signalled {
        /// Its name.
        name: Name,
        /// Whether a wait took it at once; else it is kept.
        woke: bool,
        /// Whether it is kept and woke a job that waits for any news.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        noticed: bool,
    }
    /// Detail of [`EventKind::JobWoken`]: the wait expired.
    Woken {
        /// What the job waited for.
        waits_for: WaitFor,
    }
    /// Detail of [`EventKind::JobChildrenAdded`].
    ChildrenAdded {
        /// Their ids.
        children: Vec<JobId>,
    }
    /// Detail of [`EventKind::JobChildFinished`].
    ChildFinished {
        /// Which.
        child: JobId,
        /// How.
        status: Status,
        /// Whether it was the last one and ended a wait.
        woke: bool,
    }
    /// Detail of [`EventKind::JobDependentsAdded`].
    DependentsAdded {
        /// Who waits for which end.
        dependents: Vec<Dependent>,
    }
    /// Detail of [`EventKind::JobUpstreamFinished`].
    UpstreamFinished {
        /// Which.
        upstream: JobId,
        /// How.
        status: Status,
        /// Whether it was the last one and ended the wait.
        woke: bool,
    }
    /// Detail of [`EventKind::JobSkipped`].
    Skipped {
        /// The job that ended otherwise than this one asks.
        upstream: JobId,
        /// How.
        status: Status,
    }
    /// Detail of [`EventKind::JobRearmed`].
    Rearmed {
        /// The job whose redrive brought it back.
        redriven: JobId,
        /// What it waits for now.
        upstream: Vec<JobId>,
    }
    /// Detail of [`EventKind::JobCancelRequested`].
    CancelRequested {
        /// Why.
        reason: Option<String>,
        /// When it is forced.
        force_at: Timestamp,
    }
    /// Detail of [`EventKind::JobCancelled`].
    Cancelled {
        /// Why.
        reason: Option<String>,
        /// The code of the error that the payload is, where the engine cancelled it by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Who>,
    }
    /// Detail of [`EventKind::JobRedriven`].
    Redriven {
        /// From when it may run.
        due_at: Timestamp,
        /// Whether recorded steps are forgotten.
        from_start: bool,
    }
    /// Detail of [`EventKind::JobReplaced`].
    Replaced {
        /// From when it may run.
        due_at: Timestamp,
    }
    /// Detail of [`EventKind::JobForked`].
    Forked {
        /// The job whose log this one began with.
        from: JobId,
        /// Up to which version.
        from_version: Version,
    }
    /// Detail of [`EventKind::JobProgressed`].
    Progressed {
        /// New progress.
        progress: Option<i32>,
        /// New stage.
        stage: Option<String>,
        /// The whole metadata after the merge, if it changed.
        metadata: Option<Metadata>,
        /// Units of its rates that it cost beside those it was started for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        charged: Option<i32>,
    }
    /// Detail of [`EventKind::JobApprovalAsked`].
    ApprovalAsked {
        /// Which.
        approval: ApprovalId,
        /// Its name.
        name: Name,
        /// What is asked of people.
        prompt: String,
        /// Names or roles that may vote; anybody with the right to vote when empty.
        approvers: Vec<String>,
        /// Votes needed.
        required: i32,
        /// When silence denies.
        expires_at: Timestamp,
        /// The access key under which the job asked; it does not vote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asker: Option<Who>,
    }
    /// Detail of [`EventKind::JobApprovalVoted`].
    ApprovalVoted {
        /// On which.
        approval: ApprovalId,
        /// Its name.
        name: Name,
        /// Yes or no.
        decision: Decision,
        /// Whose.
        by: Who,
        /// Why.
        reason: Option<String>,
        /// Whether it ended a wait.
        woke: bool,
    }
    /// Detail of the step events.
    StepNamed {
        /// The step's name.
        name: Name,
    }
}

/// A stored event that does not read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event of type {type_name} does not read back: {why}")]
pub struct Unreadable {
    /// Its type, as it is stored.
    pub type_name: String,
    /// Its detail, as it is stored.
    pub detail: Option<String>,
    /// Why.
    pub why: String,
}

impl EventKind {
    /// A stored event that does not read back.
    pub fn unreadable(type_name: &str, detail: Option<&str>, why: String) -> Self {
        let (type_name, detail) = (type_name.to_owned(), detail.map(str::to_owned));
        Self::Unreadable(Box::new(Unreadable { type_name, detail, why }))
    }

    /// Whether its payload is an error: small, and read by whoever groups errors.
    pub fn is_error(&self) -> bool {
        matches!(self.type_name(), "job_failed" | "job_retried" | "job_timed_out")
    }

    /// Whether it is the end of a step: work is on record, so lost leases count from zero again.
    pub fn ends_step(&self) -> bool {
        matches!(self.type_name(), "node_finished" | "tool_returned")
    }
}

impl Event {
    /// Whether this event, found by its key, is what a request with that key would have written: the same type
    /// and, for a signal, the same name. Then the request is a repeat; else its key was used for something else.
    pub fn repeated_by(&self, type_name: &str, signal: Option<&Name>) -> Result<Version, Refusal> {
        let same_name = match &self.what {
            EventKind::JobSignalled(d) => signal == Some(&d.name),
            _ => true,
        };
        if self.what.type_name() == type_name && same_name {
            return Ok(self.version);
        }
        Err(Refusal::KeyReused(self.version))
    }
}
