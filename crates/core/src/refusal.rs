//! Answers about one job. A refusal is an expected answer, never an error of the store.

use crate::ids::JobId;
use crate::job::Version;
use crate::limits::Invalid;
use crate::name::{Key, Name};
use crate::retention::Tombstone;
use crate::status::Status;

/// The change was made, now or earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// Made now; the job stands at this version and status.
    Moved(Version, Status),
    /// This very request was carried out before, at this version.
    Already(Version),
}

impl Done {
    /// The version at which the change stands in the log.
    pub const fn version(self) -> Version {
        match self {
            Self::Moved(v, _) | Self::Already(v) => v,
        }
    }

    /// Whether it was carried out before.
    pub const fn is_repeat(self) -> bool {
        matches!(self, Self::Already(_))
    }
}

/// What a verb answers about one job.
pub type Answer = Result<Done, Refusal>;

/// Why nothing was changed. Where several reasons hold, the first of this order is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another transaction keeps the job's row, or its parent's, locked: the job was not looked at. Ask again.
    #[error(
        "another transaction keeps the job or its parent locked; nothing was changed, send the same request again"
    )]
    Busy,
    /// What is stored of the job does not read back, and why: no rule can decide on it.
    #[error(
        "what is stored of the job does not read back and nothing was changed: {0}; run `windlass verify`"
    )]
    Unreadable(String),
    /// No such job.
    #[error("there is no such job; it was never enqueued here, or was removed after it finished")]
    NotFound,
    /// The job ended so and was removed; a tombstone or its unique key is left.
    #[error("{0}")]
    Purged(Tombstone),
    /// The job has ended.
    #[error("the job has finished: it is {0}")]
    Finished(Status),
    /// Nobody holds the job.
    #[error("the job is {0}, nobody holds it; stop working on it")]
    NotLeased(Status),
    /// The lease is over.
    #[error("the lease is over; stop working on the job, another worker may run it")]
    Expired,
    /// Somebody else holds the job.
    #[error("the job is held under another lease; stop working on it")]
    Mismatch,
    /// The event key stands for something else.
    #[error("the key is on record at version {0} for something else; use a new key")]
    KeyReused(Version),
    /// The log has moved on.
    #[error("the job is at version {0}; read what is new, then decide again")]
    VersionMismatch(Version),
    /// The value is outside its limits.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The id is taken by a job with another body.
    #[error("a job with this id and another body exists; use a new id")]
    JobExists,
    /// The parent does not exist.
    #[error("there is no job {0} to be the parent")]
    ParentNotFound(JobId),
    /// A job to wait for does not exist.
    #[error("there is no job {0} to wait for; it must exist, or come earlier in the same request")]
    UpstreamNotFound(JobId),
    /// The flow takes no more jobs.
    #[error("the job is not an open flow; jobs are added, and it is sealed, only while it is open")]
    FlowNotOpen,
    /// As many jobs of this key wait as may.
    #[error(
        "key {key} has {waiting} jobs waiting in queue {queue}, as many as may; send it again later, or leave it"
    )]
    LaneFull {
        /// The queue.
        queue: Name,
        /// The key.
        key: Key,
        /// How many wait.
        waiting: i64,
    },
    /// The idempotency key came with another body before.
    #[error("this idempotency key was used with another body; use a new key")]
    IdempotencyKeyReused,
    /// `job_…` types are the engine's own.
    #[error("event type {0} is the engine's own; use a type that does not start with job_")]
    EventTypeReserved(String),
    /// `node_…` and `tool_…` types are a holder's.
    #[error("event type {0} needs the lease token of the job's holder")]
    LeaseRequired(String),
    /// The step is on record with another value.
    #[error("the step is recorded at version {0} with another value; a recorded step never changes")]
    StepRecorded(Version),
    /// Only a finished job can be redriven, and erased.
    #[error(
        "the job is {0}; a failed, timed out or cancelled job can be redriven, and a finished one erased: cancel it first"
    )]
    NotFinished(Status),
    /// A completed job is final.
    #[error("the job is completed, which is final; enqueue or fork a new one")]
    Completed,
    /// What the job was given is gone, so it cannot run again.
    #[error("the payload of the job was erased, so neither it nor a fork of it can run; enqueue a new one")]
    Erased,
    /// Another job has taken the unique key.
    #[error("job {0} has taken the unique key meanwhile; cancel it first, or leave this one")]
    UniqueTaken(JobId),
    /// The job cannot be taken now.
    #[error("the job is {0} and cannot be taken now")]
    NotClaimable(Status),
    /// The job is not assigned to this worker under this assignment and epoch.
    #[error("the job is not assigned to this worker under this assignment and epoch; launch nothing")]
    NotAssigned,
    /// The epoch is not the current one.
    #[error("the epoch is over, the current one is {0}; stop acting as leader")]
    StaleEpoch(i64),
    /// No such schedule.
    #[error("there is no schedule {0}")]
    ScheduleNotFound(String),
    /// No such trigger.
    #[error("there is no trigger {0}; make it first")]
    TriggerNotFound(String),
    /// No such subscription.
    #[error("there is no subscription {0}; make it first")]
    SubscriptionNotFound(String),
    /// No such paper.
    #[error("there is no {0} {1}")]
    PaperNotFound(&'static str, String),
    /// A webhook is not signed as it must be, and why.
    #[error("{0}")]
    SignatureRefused(String),
    /// The settings have moved on.
    #[error("the settings are at version {0}; read them, then change them again")]
    SettingsChanged(Version),
    /// No such problem.
    #[error("there is no problem {0}; it was never seen, or not for 90 days")]
    ProblemNotFound(String),
    /// No such approval.
    #[error("there is no such approval")]
    ApprovalNotFound,
    /// The link token is not this approval's.
    #[error("the token does not belong to this approval; a newer link may have replaced it")]
    ApprovalTokenWrong,
    /// The link token cannot be one.
    #[error("the token is malformed; copy the whole link")]
    ApprovalTokenMalformed,
    /// Decided, or this voter has voted.
    #[error("the approval is decided already, or this vote was cast")]
    ApprovalDecided,
    /// Too late.
    #[error("the approval has expired, which denies it")]
    ApprovalExpired,
    /// This voter may not vote here.
    #[error("this key is not among the approvers")]
    ApprovalForbidden,
    /// Several people have to say yes, and a link does not show who uses it.
    #[error("this approval needs {0} people, and a link does not show who uses it; sign in with a key")]
    ApprovalNeedsKeys(i32),
    /// The place in the feed is of no use any more, and why.
    #[error(
        "the cursor is of no use any more: {0}; read what you need from the lists, then begin without a cursor"
    )]
    CursorExpired(&'static str),
}

impl Refusal {
    /// The stable code of the public contract.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Busy => "job_busy",
            Self::Unreadable(_) => "job_unreadable",
            Self::NotFound => "not_found",
            Self::Purged(_) => "job_purged",
            Self::Finished(_) => "job_finished",
            Self::NotLeased(_) => "not_leased",
            Self::Expired => "lease_expired",
            Self::Mismatch => "lease_mismatch",
            Self::KeyReused(_) => "key_reused",
            Self::VersionMismatch(_) => "version_mismatch",
            Self::Invalid(_) => "invalid",
            Self::JobExists => "job_exists",
            Self::ParentNotFound(_) => "parent_not_found",
            Self::UpstreamNotFound(_) => "upstream_not_found",
            Self::FlowNotOpen => "flow_not_open",
            Self::LaneFull { .. } => "lane_full",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::EventTypeReserved(_) => "event_type_reserved",
            Self::LeaseRequired(_) => "lease_required",
            Self::StepRecorded(_) => "step_recorded",
            Self::NotFinished(_) => "job_not_finished",
            Self::Completed => "job_completed",
            Self::Erased => "job_erased",
            Self::UniqueTaken(_) => "unique_taken",
            Self::NotClaimable(_) => "not_claimable",
            Self::NotAssigned => "not_assigned",
            Self::StaleEpoch(_) => "stale_epoch",
            Self::ScheduleNotFound(_) => "schedule_not_found",
            Self::TriggerNotFound(_) => "trigger_not_found",
            Self::SubscriptionNotFound(_) => "subscription_not_found",
            Self::PaperNotFound(..) => "not_found",
            Self::SignatureRefused(_) => "signature_refused",
            Self::SettingsChanged(_) => "version_mismatch",
            Self::ProblemNotFound(_) => "problem_not_found",
            Self::ApprovalNotFound => "approval_not_found",
            Self::ApprovalTokenMalformed => "token_malformed",
            Self::ApprovalDecided => "approval_decided",
            Self::ApprovalExpired => "approval_expired",
            Self::ApprovalForbidden | Self::ApprovalNeedsKeys(_) | Self::ApprovalTokenWrong => {
                "approval_forbidden"
            }
            Self::CursorExpired(_) => "cursor_expired",
        }
    }
}
