//! What each verb is asked and what it answers. A request that a rule of `core` decides by itself stands there, beside its
//! rule.

pub use windlass_core::approve::{Ask, Asked, CastVote};
pub use windlass_core::breaker::BreakQueue;
pub use windlass_core::dispatch::{Candidate, Unassigned};
pub use windlass_core::enqueue::{BatchRefusal, Enqueue, Enqueued};
pub use windlass_core::erase::Erase;
pub use windlass_core::flow::Seal;
pub use windlass_core::follow::{Advance, Findings, Place, RebuildStats};
pub use windlass_core::hold::{LaneState, ReleaseLane};
pub use windlass_core::idle::CancelIdle;
pub use windlass_core::logs::{LogRange, MoveLogs};
pub use windlass_core::operate::{Cancel, Fork, Redrive};
pub use windlass_core::paper::{ListPapers, Paper, PaperKind, PutPaper, RemovePaper};
pub use windlass_core::problem::{Problem, ProblemState, PutProblem, Sighting};
pub use windlass_core::registry::{
    DrainWorker, Idempotency, PauseQueue, PutAccessKey, PutQueue, PutWorker, Remember, RevokeAccessKey,
    SetEndpoint, WriteAudit,
};
pub use windlass_core::retention::{ForgetTombstones, Restore, Tombstone};
pub use windlass_core::schedule::{
    Applied, ApplySchedules, FireSchedule, MissedLimits, PauseSchedule, PutSchedule, RemoveSchedule,
    ScheduleState,
};
pub use windlass_core::seal::{EventHash, LogSeal, Removal, SealHead, SealedEvent};
pub use windlass_core::settings::{PutSettings, SettingsState};
pub use windlass_core::stats::{Gauge, Resolution, Rollup};
pub use windlass_core::subscription::{
    Credential, Delivery, PauseSubscription, PutSubscription, RemoveSubscription, ReportSubscription,
    SubscriptionState,
};
pub use windlass_core::term::{AcquireTerm, RenewTerm, ResignTerm};
pub use windlass_core::trigger::webhook::WebhookSecret;
pub use windlass_core::trigger::{
    EventsOf, ForgetTriggerEvents, Ingest, Ingested, ProcessTriggerEvent, PutTrigger, PutTriggerSecret,
    ReadTriggerEvents, RemoveTrigger, TriggerEvent, TriggerState,
};

use windlass_core::decide::Claim;
use windlass_core::unique::Scope;
use windlass_core::wait::{ApprovalStatus, Vote};
use windlass_core::{
    Actor, Answer, Approval, ApprovalId, Blocked, Count, Done, Event, Facts, FeedCursor, Filter, Fingerprint,
    Job, JobId, Key, Lane, Lease, LeaseMs, LogLine, LogPart, Metadata, Name, NewJob, Outcome, Payload, Queue,
    Secret, Status, Timestamp, Token, Version, Wake, Who,
};

/// The moment a verb happens at. `None` is the store's own clock; tests bring their own.
pub type Now = Option<Timestamp>;

// ---- jobs

/// One job with everything its pointers point at.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    /// Where it stands.
    pub job: Job,
    /// What never changes.
    pub facts: Facts,
    /// What it was given.
    pub payload: Option<Payload>,
    /// What it gave.
    pub result: Option<Payload>,
    /// Its last error: JSON with `code` and `message`.
    pub error: Option<(Payload, Timestamp)>,
    /// Its last checkpoint.
    pub checkpoint: Option<Payload>,
    /// Its metadata now.
    pub metadata: Metadata,
    /// Why it is not running.
    pub blocked: Option<Blocked>,
}

/// A row of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Where it stands.
    pub job: Job,
    /// What never changes. Where that does not read back: only kind and queue, from the row.
    pub facts: Facts,
    /// What of its row or its first event does not read back. What could not be read is then absent or made up.
    pub unreadable: Option<String>,
}

/// A page of a list to read.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// Which jobs.
    pub filter: Filter,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// At most 1,000.
    pub limit: usize,
}

/// A page. It may be short; only a missing cursor is the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where to go on.
    pub next: Option<String>,
}

/// How many jobs stand where, counted up to a cap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// By status; statuses without jobs are absent.
    pub statuses: Vec<(Status, Count)>,
}

/// A stretch of one job's log to read.
#[derive(Debug, Clone, Copy)]
pub struct ReadEvents {
    /// Whose.
    pub job: JobId,
    /// After this version; when newest first, before it (0: from the newest).
    pub after: Version,
    /// At most 1,000.
    pub limit: usize,
    /// From the newest down.
    pub newest_first: bool,
}

/// A job as it stood.
#[derive(Debug, Clone, Copy)]
pub struct AtVersion {
    /// Which.
    pub job: JobId,
    /// When, in its own count.
    pub version: Version,
}

/// A note to append.
#[derive(Debug, Clone)]
pub struct Append {
    /// To whose log.
    pub job: JobId,
    /// Its type.
    pub type_name: Name,
    /// Its bytes.
    pub payload: Option<Payload>,
    /// Who writes it, unless a lease says so.
    pub actor: Actor,
    /// The lease to write under.
    pub token: Option<Token>,
    /// The version the writer believes in.
    pub expected_version: Option<Version>,
    /// Recognises a repeat.
    pub key: Option<Key>,
}

/// What a holder reports: one change.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Of which job.
    pub job: JobId,
    /// Its lease.
    pub token: Token,
    /// 0..100.
    pub progress: Option<i64>,
    /// Free text.
    pub stage: Option<String>,
    /// Merged into what is there, key by key.
    pub metadata: Option<Metadata>,
    /// Opaque JSON for the next attempt.
    pub checkpoint: Option<Payload>,
    /// Units of its rates that it cost beside those it was started for. Its key's bucket and its queue's pay for them at once,
    /// if that takes a debt.
    pub charge: Option<i32>,
    /// Recognises a repeat.
    pub key: Option<Key>,
}

/// A step that began or ended.
#[derive(Debug, Clone)]
pub struct RecordStep {
    /// Of which job.
    pub job: JobId,
    /// Its lease.
    pub token: Token,
    /// The step.
    pub name: Name,
    /// Whether it is a tool call.
    pub tool: bool,
    /// Whether it ended.
    pub finished: bool,
    /// Arguments or value.
    pub payload: Option<Payload>,
}

/// What a holder learns from a call of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderReply {
    /// What became of the call.
    pub done: Done,
    /// Whether it should stop.
    pub cancel_requested: bool,
}

/// Log lines of a holder.
#[derive(Debug, Clone)]
pub struct WriteLogs {
    /// Whose.
    pub job: JobId,
    /// Its lease.
    pub token: Token,
    /// The lines.
    pub lines: Vec<String>,
}

/// What is on record of a job.
#[derive(Debug, Clone, Copy)]
pub struct ReadSteps {
    /// Whose.
    pub job: JobId,
    /// Only what came after this version, at which an attempt of the job was claimed; 0 for everything.
    pub after: Version,
}

impl ReadSteps {
    /// Everything that is on record.
    pub const fn all(job: JobId) -> Self {
        Self { job, after: 0 }
    }
}

/// Log lines to read.
#[derive(Debug, Clone, Copy)]
pub struct ReadLogs {
    /// Whose.
    pub job: JobId,
    /// After this line.
    pub after: i64,
    /// At most 1,000.
    pub limit: usize,
}

// ---- leases

/// A claim of many.
#[derive(Debug, Clone)]
pub struct ClaimMany {
    /// In this order.
    pub queues: Vec<Name>,
    /// Only these; all when empty.
    pub kinds: Vec<Name>,
    /// At most 1,000; at most 100 from a queue with rules.
    pub max: usize,
    /// Behind which lane of queues with rules the first turn is; where this store's last claim ended when absent.
    pub from: Option<Lane>,
    /// Who, with which secret, for how long.
    pub claim: Claim,
}

/// A claim of one job by its id.
#[derive(Debug, Clone)]
pub struct ClaimOne {
    /// Which.
    pub job: JobId,
    /// Who, with which secret, for how long.
    pub claim: Claim,
}

/// A job to enqueue for a worker that waits for it.
#[derive(Debug, Clone)]
pub struct EnqueueClaimed {
    /// The job.
    pub job: NewJob,
    /// Who enqueues.
    pub actor: Actor,
    /// For whom, with which secret, for how long.
    pub claim: Claim,
}

/// A job that was enqueued for a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct EnqueuedClaimed {
    /// The answer for who enqueued it.
    pub enqueued: Enqueued,
    /// The job in the worker's hands; none if it was there already, is for later, or its queue is paused.
    pub claimed: Option<Box<Claimed>>,
}

/// A job in a worker's hands.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// Where it stands.
    pub job: Job,
    /// What proves it.
    pub lease: Lease,
    /// What never changes.
    pub facts: Facts,
    /// What to work on.
    pub payload: Option<Payload>,
    /// Where the last attempt left off.
    pub checkpoint: Option<Payload>,
    /// Its metadata now.
    pub metadata: Metadata,
    /// How its last wait ended.
    pub wake: Option<Wake>,
    /// How many finished steps are on record.
    pub steps_recorded: i64,
}

/// Leases to renew.
#[derive(Debug, Clone)]
pub struct Extend {
    /// Which.
    pub leases: Vec<(JobId, Token)>,
    /// For how long from now.
    pub extend_ms: LeaseMs,
}

/// A renewed lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    /// Until when.
    pub expires_at: Timestamp,
    /// Whether the holder should stop.
    pub cancel_requested: bool,
}

/// Attempts to end. Each stands alone.
#[derive(Debug, Clone)]
pub struct Settle {
    /// Which and how.
    pub items: Vec<SettleItem>,
}

/// One attempt to end.
#[derive(Debug, Clone)]
pub struct SettleItem {
    /// Which.
    pub job: JobId,
    /// Its lease.
    pub token: Token,
    /// How.
    pub outcome: Outcome,
}

/// Jobs to give to workers.
#[derive(Debug, Clone)]
pub struct Assign {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// Which to whom.
    pub items: Vec<(JobId, Who)>,
    /// How long a worker has to start, in milliseconds.
    pub lapse_ms: i64,
}

/// Due jobs of push queues to look for.
#[derive(Debug, Clone, Default)]
pub struct ReadUnassigned {
    /// Where to go on in queues that were looked at: behind this job. Others are looked at from their beginning.
    pub after: Vec<UnassignedPlace>,
    /// At most so many of each queue, and 1,000.
    pub limit: usize,
}

/// A place in the line of a push queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnassignedPlace {
    /// The queue.
    pub queue: Name,
    /// The priority.
    pub priority: i32,
    /// The due time.
    pub due_at: Timestamp,
    /// The job.
    pub id: JobId,
}

/// Due jobs of push queues.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnassignedPage {
    /// Every queue in mode push that is not paused.
    pub queues: Vec<Name>,
    /// Jobs that nobody has, each queue in the order of its line. A run whose lease is over is among them.
    pub jobs: Vec<Unassigned>,
}

/// An assigned job to start.
#[derive(Debug, Clone)]
pub struct Start {
    /// Which.
    pub job: JobId,
    /// The version of the assignment.
    pub assignment: Version,
    /// The epoch of the assignment.
    pub epoch: i64,
    /// Who, with which secret, for how long.
    pub claim: Claim,
}

/// Everything past its deadline, up to a limit.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// At most 10,000.
    pub limit: usize,
}

// ---- waits

/// A signal.
#[derive(Debug, Clone)]
pub struct Signal {
    /// To which job.
    pub job: JobId,
    /// Its name.
    pub name: Name,
    /// What it brings.
    pub payload: Option<Payload>,
    /// Who sends it.
    pub actor: Actor,
    /// Recognises a repeat.
    pub key: Option<Key>,
}

/// An approval with what the log says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalView {
    /// Where it stands.
    pub approval: Approval,
    /// What was asked.
    pub prompt: String,
    /// Who may vote.
    pub approvers: Vec<String>,
    /// Who asked.
    pub asked_by: Actor,
    /// The votes so far.
    pub votes: Vec<Vote>,
}

/// A page of approvals to read, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListApprovals {
    /// Of this job.
    pub job: Option<JobId>,
    /// Standing here now.
    pub status: Option<ApprovalStatus>,
    /// Older than this one.
    pub before: Option<ApprovalId>,
    /// At most 1,000.
    pub limit: usize,
}

// ---- feed

/// A stretch of the feed to read.
#[derive(Debug, Clone)]
pub struct ReadFeed {
    /// After here; from the beginning when absent.
    pub after: Option<FeedCursor>,
    /// At most 1,000.
    pub limit: usize,
    /// Whether events bring their payloads. Who only wants to know what happened to which job leaves them where they are;
    /// errors, which are small, come all the same.
    pub payloads: bool,
}

/// An event with where it stands in the feed and what list filters ask about.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEvent {
    /// Resumes after this event.
    pub cursor: FeedCursor,
    /// The event.
    pub event: Event,
    /// The job's queue.
    pub queue: Name,
    /// The job's kind.
    pub kind: Name,
}

/// What was read of the feed.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedPage {
    /// The events, in order.
    pub events: Vec<FeedEvent>,
    /// Where to go on.
    pub next: FeedCursor,
}

/// A new incarnation to begin.
#[derive(Debug, Clone)]
pub struct Adopt {
    /// Who says so.
    pub actor: Actor,
}

// ---- stats

/// The most rows of numbers that are read at once.
pub const ROLLUPS_MAX: usize = 200_000;

/// Rows of numbers to read.
#[derive(Debug, Clone)]
pub struct ReadRollups {
    /// Of minutes or hours.
    pub resolution: Resolution,
    /// Slots that begin at this moment or later.
    pub from: Timestamp,
    /// Slots that begin before this moment.
    pub to: Timestamp,
    /// Of this queue only.
    pub queue: Option<Name>,
    /// Of this kind only.
    pub kind: Option<Name>,
    /// At most [`ROLLUPS_MAX`].
    pub limit: usize,
}

/// Gauges to read: at most [`ROLLUPS_MAX`].
#[derive(Debug, Clone, Copy)]
pub struct ReadGauges {
    /// Of minutes or hours.
    pub resolution: Resolution,
    /// Slots that begin at this moment or later.
    pub from: Timestamp,
    /// Slots that begin before this moment.
    pub to: Timestamp,
}

/// A page of problems to read, last seen first.
#[derive(Debug, Clone, Default)]
pub struct ListProblems {
    /// In this state only.
    pub state: Option<ProblemState>,
    /// Of this kind only.
    pub kind: Option<Name>,
    /// Last seen before this one.
    pub before: Option<(Timestamp, Fingerprint)>,
    /// At most 1,000.
    pub limit: usize,
}

/// A problem with how often it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct ProblemView {
    /// The problem.
    pub problem: Problem,
    /// By hour, oldest first: errors, and after how many of them the job gave up. Lists show the last 48 hours.
    pub hours: Vec<(Timestamp, i64, i64)>,
    /// Errors in 90 days.
    pub errors: i64,
    /// After how many of them the job gave up.
    pub dead: i64,
}

// ---- retention

/// An event by its job and version.
pub type EventKey = (JobId, Version);

/// A stretch of the chain of seals.
#[derive(Debug, Clone, Copy)]
pub struct ReadSeals {
    /// Behind the seal with this number.
    pub after: i64,
    /// At most 100: one may have 34 kB.
    pub limit: usize,
}

/// Finished jobs to archive.
#[derive(Debug, Clone, Copy)]
pub struct ReadArchive {
    /// Ended before.
    pub finished_before: Timestamp,
    /// At most 1,000.
    pub limit: usize,
}

/// A finished job, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Archived {
    /// Its row.
    pub job: Job,
    /// Its log.
    pub events: Vec<Event>,
    /// Its log lines that are in the store.
    pub logs: Vec<LogLine>,
    /// Where its older lines are.
    pub log_parts: Vec<LogPart>,
}

/// Jobs with old log lines to find.
#[derive(Debug, Clone, Copy)]
pub struct ReadOldLogs {
    /// Lines older than this.
    pub before: Timestamp,
    /// Behind this line's time and job; from the oldest when absent.
    pub after: Option<(Timestamp, JobId)>,
    /// At most 1,000.
    pub limit: usize,
}

/// Finished jobs to remove, each at the version that was archived.
#[derive(Debug, Clone)]
pub struct Purge {
    /// Which, at which version.
    pub jobs: Vec<(JobId, Version)>,
    /// The part of the archive that holds them; nothing is left of them without it but unique keys.
    pub archive: Option<String>,
}

// ---- registry

/// A queue with what stands in it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueState {
    /// Its settings.
    pub queue: Queue,
    /// Jobs that a worker could take now.
    pub due: Count,
    /// Since when the oldest of them is due.
    pub oldest_due_at: Option<Timestamp>,
    /// Until when the whole queue is held; none if it is not. Its keys may be.
    pub held_until: Option<Timestamp>,
}

/// A page of a queue's lanes to read, by their numbers.
#[derive(Debug, Clone)]
pub struct ListLanes {
    /// Of which queue.
    pub queue: Name,
    /// Behind this lane; from the first when [`Lane::PLAIN`].
    pub after: Lane,
    /// At most 1,000.
    pub limit: usize,
}

/// A page of the audit to read, newest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadAudit {
    /// Older than this entry; from the newest when absent.
    pub before: Option<i64>,
    /// At most 1,000.
    pub limit: usize,
}

/// A unique key to look up.
#[derive(Debug, Clone)]
pub struct FindKey {
    /// Within what.
    pub scope: Scope,
    /// Which.
    pub key: Key,
}

/// What [`crate::Leases::sweep`] did to one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Swept {
    /// Which.
    pub job: JobId,
    /// What became of it.
    pub answer: Answer,
}

impl ClaimMany {
    /// A claim by `worker` from `queues` with a secret of its own and the default lease.
    pub fn new(worker: Who, queues: Vec<Name>, max: usize, secret: Secret) -> Self {
        let claim = Claim { worker, secret, lease_ms: LeaseMs::DEFAULT };
        Self { queues, kinds: Vec::new(), max, from: None, claim }
    }
}
