//! The store: the few doors through which a job changes, and the many through which it is read.
//!
//! [`Store`] unites small traits by concern, each in the order of a job's life. Every verb takes one request and
//! an optional moment, and answers values: an expected refusal is part of the answer, [`StoreError`] means that
//! the store itself failed. Every verb can be repeated; after [`StoreError::Indeterminate`] it must be. (Log lines, and
//! the beginning of a step, may then stand twice; they decide nothing.)
//!
//! What is never known here: a database, a worker, HTTP.

mod clock;
mod clocked;
mod error;
mod faulty;
pub mod fresh;
pub mod house;
mod limited;
mod requests;
mod traced;
mod turns;
mod verbs;
pub mod work;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::step::Recorded;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Answer, ApprovalId, AuditEntry, Event, FeedCursor, Fingerprint, Job, JobId, Life, LogLine,
    LogPart, Name, Queue, Refusal, Term, Timestamp, TriggerEventId, Who, Worker,
};

pub use clock::Clock;
pub use clocked::Clocked;
pub use error::{StoreError, StoreResult};
pub use faulty::{Fault, Faults, Faulty};
pub use limited::Limited;
pub use requests::*;
pub use traced::Traced;
pub use turns::LanePlaces;

/// One store. Hold it as `Arc<dyn Store>`.
pub trait Store:
    Jobs
    + Leases
    + Waits
    + Terms
    + Schedules
    + Triggers
    + Feed
    + Readers
    + Subscriptions
    + Papers
    + Stats
    + Retention
    + Seals
    + Registry
    + std::fmt::Debug
{
}

impl<T> Store for T where
    T: Jobs
        + Leases
        + Waits
        + Terms
        + Schedules
        + Triggers
        + Feed
        + Readers
        + Subscriptions
        + Papers
        + Stats
        + Retention
        + Seals
        + Registry
        + std::fmt::Debug
{
}

/// Jobs: into the store, their log, and what operators do to them.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Enqueues all jobs of the request, or none and names the first bad one. A job that is there already, by
    /// id with the same body or by unique key, is answered with the first one's id.
    async fn enqueue(&self, request: Enqueue, now: Now) -> StoreResult<Result<Vec<Enqueued>, BatchRefusal>>;
    /// One job with everything its pointers point at.
    async fn job(&self, request: JobId, now: Now) -> StoreResult<Option<JobView>>;
    /// A page of jobs.
    async fn jobs(&self, request: List, now: Now) -> StoreResult<Result<Page<Listed>, Refusal>>;
    /// How many jobs stand where; each count stops at the cap.
    async fn counts(&self, request: i64, now: Now) -> StoreResult<Counts>;
    /// A stretch of a job's log; nothing for an unknown job.
    async fn events(&self, request: ReadEvents, now: Now) -> StoreResult<Vec<Event>>;
    /// A job as it stood at a version, folded from its log.
    async fn at_version(&self, request: AtVersion, now: Now) -> StoreResult<Option<Job>>;
    /// Appends a note, guarded by version, lease, both or neither.
    async fn append(&self, request: Append, now: Now) -> StoreResult<Result<HolderReply, Refusal>>;
    /// Reports progress, stage, metadata and checkpoint in one change.
    async fn progress(&self, request: Progress, now: Now) -> StoreResult<Result<HolderReply, Refusal>>;
    /// Records that a step began or ended. The same end again is `Already`; another value is refused.
    async fn record_step(&self, request: RecordStep, now: Now) -> StoreResult<Result<HolderReply, Refusal>>;
    /// What a resumed run must not do again; none for an unknown job.
    async fn steps(&self, request: ReadSteps, now: Now) -> StoreResult<Option<Recorded>>;
    /// Cancels at once, or asks the holder to stop.
    async fn cancel(&self, request: Cancel, now: Now) -> StoreResult<Answer>;
    /// Sends a dead or cancelled job back to pending.
    async fn redrive(&self, request: Redrive, now: Now) -> StoreResult<Answer>;
    /// Seals an open flow: it takes no more jobs, and ends once those it has have ended.
    async fn seal(&self, request: Seal, now: Now) -> StoreResult<Answer>;
    /// Makes a new job that begins with another's log.
    async fn fork(&self, request: Fork, now: Now) -> StoreResult<Answer>;
    /// Writes log lines under a lease.
    async fn write_logs(&self, request: WriteLogs, now: Now) -> StoreResult<Result<(), Refusal>>;
    /// Reads log lines.
    async fn logs(&self, request: ReadLogs, now: Now) -> StoreResult<Vec<LogLine>>;
    /// Who holds a unique key; none when it is free.
    async fn find_key(&self, request: FindKey, now: Now) -> StoreResult<Option<Hold>>;
}

/// Leases: who may act for a job, from claim to settle, and what happens when nobody does.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Hands out due jobs: queues in the given order, then priority, due time, id; then what this worker was assigned.
    /// Of a queue in mode push, only that. A lease that is over is reclaimed here. The same secret again returns the jobs it already holds. A short answer does not mean an
    /// empty queue.
    async fn claim(&self, request: ClaimMany, now: Now) -> StoreResult<Vec<Claimed>>;
    /// Hands out one job by its id.
    async fn claim_one(&self, request: ClaimOne, now: Now) -> StoreResult<Result<Claimed, Refusal>>;
    /// Enqueues a job and hands it out in the same breath, to a worker that waits for it. What cannot be handed out is
    /// enqueued all the same. The same secret again returns the job that it already holds.
    async fn enqueue_claimed(
        &self,
        request: EnqueueClaimed,
        now: Now,
    ) -> StoreResult<Result<EnqueuedClaimed, Refusal>>;
    /// Due jobs of queues in mode push, for the leader to assign.
    async fn unassigned(&self, request: ReadUnassigned, now: Now) -> StoreResult<UnassignedPage>;
    /// Gives due jobs to workers, under the leader's epoch. A run whose lease is over goes back into line first.
    async fn assign(&self, request: Assign, now: Now) -> StoreResult<Vec<Answer>>;
    /// Starts an assigned job; refused unless it is assigned to this worker, by this assignment and epoch.
    async fn start(&self, request: Start, now: Now) -> StoreResult<Result<Claimed, Refusal>>;
    /// Renews leases, each for itself.
    async fn extend(&self, request: Extend, now: Now) -> StoreResult<Vec<Result<Extended, Refusal>>>;
    /// Ends attempts, each for itself.
    async fn settle(&self, request: Settle, now: Now) -> StoreResult<Vec<Answer>>;
    /// Acts on everything past its deadline: timeouts, forced cancels, expired waits, orphans. One row's trouble
    /// never stops the rest.
    async fn sweep(&self, request: Sweep, now: Now) -> StoreResult<Vec<Swept>>;
    /// Cancels jobs that stand still, under the leader's epoch; each for itself. One that somebody keeps locked is `Busy`, and
    /// one that moved meanwhile is left alone.
    async fn cancel_idle(&self, request: CancelIdle, now: Now) -> StoreResult<Result<Vec<Answer>, Refusal>>;
}

/// Waits: what wakes a job that holds no worker.
#[async_trait]
pub trait Waits: Send + Sync {
    /// Signals a job: wakes it, or is kept until it waits.
    async fn signal(&self, request: Signal, now: Now) -> StoreResult<Answer>;
    /// Asks for an approval. Asking again while undecided replaces the link.
    async fn ask(&self, request: Ask, now: Now) -> StoreResult<Result<Asked, Refusal>>;
    /// Votes. Every refused vote is put on record in the audit.
    async fn vote(&self, request: CastVote, now: Now) -> StoreResult<Answer>;
    /// One approval.
    async fn approval(&self, request: ApprovalId, now: Now) -> StoreResult<Option<ApprovalView>>;
    /// A page of approvals, newest first.
    async fn approvals(&self, request: ListApprovals, now: Now) -> StoreResult<Vec<ApprovalView>>;
}

/// Terms: who leads, under an epoch that grows with every change of holder.
#[async_trait]
pub trait Terms: Send + Sync {
    /// Takes a term that is free or over, or renews one's own; else answers whose it is.
    async fn acquire_term(&self, request: AcquireTerm, now: Now) -> StoreResult<Result<Term, Term>>;
    /// Prolongs one's own live term.
    async fn renew_term(&self, request: RenewTerm, now: Now) -> StoreResult<Result<Term, Refusal>>;
    /// Ends one's own term, so that another can take it at once.
    async fn resign_term(&self, request: ResignTerm, now: Now) -> StoreResult<Result<(), Refusal>>;
    /// Whose term it is or was last.
    async fn term(&self, request: Name, now: Now) -> StoreResult<Option<Term>>;
}

/// Schedules: jobs by the clock.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Makes a schedule or changes it. Audited; what is so already stays as it is.
    async fn put_schedule(
        &self,
        request: PutSchedule,
        now: Now,
    ) -> StoreResult<Result<ScheduleState, Refusal>>;
    /// Pauses or resumes a schedule. Audited; a repeat changes nothing.
    async fn pause_schedule(
        &self,
        request: PauseSchedule,
        now: Now,
    ) -> StoreResult<Result<ScheduleState, Refusal>>;
    /// Removes a schedule; its jobs stay. Audited.
    async fn remove_schedule(&self, request: RemoveSchedule, now: Now) -> StoreResult<Result<(), Refusal>>;
    /// Makes, changes and removes schedules, all or none; answers what became of each. Audited.
    async fn apply_schedules(
        &self,
        request: ApplySchedules,
        now: Now,
    ) -> StoreResult<Result<Vec<Applied>, Refusal>>;
    /// One schedule.
    async fn schedule(&self, request: Name, now: Now) -> StoreResult<Option<ScheduleState>>;
    /// Every schedule, by name. One whose row does not read back says so in its place.
    async fn schedules(&self, request: (), now: Now) -> StoreResult<Vec<ScheduleState>>;
    /// Which schedules have a slot whose time has come, oldest first, so many at most.
    async fn due_schedules(&self, request: usize, now: Now) -> StoreResult<Vec<Name>>;
    /// Makes the jobs of the slots that have come, under the leader's epoch, and moves the schedule on: both or neither.
    async fn fire_schedule(
        &self,
        request: FireSchedule,
        now: Now,
    ) -> StoreResult<Result<Vec<Enqueued>, Refusal>>;
}

/// Triggers: events from outside that start jobs.
#[async_trait]
pub trait Triggers: Send + Sync {
    /// Makes a trigger or changes it; what it could not process yet is tried again at once. Audited; what is so already
    /// stays as it is.
    async fn put_trigger(&self, request: PutTrigger, now: Now) -> StoreResult<Result<TriggerState, Refusal>>;
    /// Gives a trigger the secret that its webhooks are signed with; the one before ends a day later. Audited.
    async fn put_trigger_secret(
        &self,
        request: PutTriggerSecret,
        now: Now,
    ) -> StoreResult<Result<TriggerState, Refusal>>;
    /// Removes a trigger with its secrets; its jobs stay. Audited.
    async fn remove_trigger(&self, request: RemoveTrigger, now: Now) -> StoreResult<Result<(), Refusal>>;
    /// One trigger.
    async fn trigger(&self, request: Name, now: Now) -> StoreResult<Option<TriggerState>>;
    /// Every trigger, by name.
    async fn triggers(&self, request: (), now: Now) -> StoreResult<Vec<TriggerState>>;
    /// The secrets that webhooks of a trigger may be signed with now; none for an unknown one.
    async fn trigger_secrets(&self, request: Name, now: Now) -> StoreResult<Vec<WebhookSecret>>;
    /// Takes an event in and makes its jobs: both or neither. The same dedupe key again is answered with the first event.
    /// Where the jobs cannot be made the event is kept, with the reason.
    async fn ingest(&self, request: Ingest, now: Now) -> StoreResult<Result<Ingested, Refusal>>;
    /// A page of events: what is not processed by time, or all of a trigger, newest first.
    async fn trigger_events(&self, request: ReadTriggerEvents, now: Now) -> StoreResult<Vec<TriggerEvent>>;
    /// Which kept events are to be tried again, oldest first, so many at most.
    async fn due_trigger_events(&self, request: usize, now: Now) -> StoreResult<Vec<TriggerEventId>>;
    /// Makes the jobs of a kept event, under the leader's epoch; none if there is nothing to do.
    async fn process_trigger_event(
        &self,
        request: ProcessTriggerEvent,
        now: Now,
    ) -> StoreResult<Result<Option<TriggerEvent>, Refusal>>;
    /// Removes processed events that are old, under the leader's epoch; answers how many.
    async fn forget_trigger_events(
        &self,
        request: ForgetTriggerEvents,
        now: Now,
    ) -> StoreResult<Result<usize, Refusal>>;
}

/// The feed: every event of every job, in one order, from a cursor.
#[async_trait]
pub trait Feed: Send + Sync {
    /// Where the feed ends now.
    async fn feed_head(&self, request: (), now: Now) -> StoreResult<FeedCursor>;
    /// What came after a cursor: nothing missed, nothing repeated. A cursor that does not fit what the store holds, as
    /// after a restore, is refused: [`Refusal::CursorExpired`].
    async fn feed(&self, request: ReadFeed, now: Now) -> StoreResult<Result<FeedPage, Refusal>>;
    /// Begins a new incarnation of the store, after a restore that it could not notice by itself: every cursor of before
    /// is refused from then on, and every fence is higher than all of before. Audited.
    async fn adopt(&self, request: Adopt, now: Now) -> StoreResult<Life>;
    /// Wake-up hints. They may be late or lost: whoever waits for one also polls.
    fn hints(&self) -> Hints;
    /// Gives such a hint for others who wrote behind this store's back: a job may have become due.
    fn nudge(&self);
}

/// Counters that grow when there may be something new. Coalesced: ten changes may be one hint.
#[derive(Debug, Clone)]
pub struct Hints {
    /// Grows when a job may have become claimable.
    pub due: watch::Receiver<u64>,
    /// Grows when events were written.
    pub feed: watch::Receiver<u64>,
}

/// Where a store's own hints come from.
#[derive(Debug)]
pub struct Hinter {
    due: watch::Sender<u64>,
    feed: watch::Sender<u64>,
}

impl Default for Hinter {
    fn default() -> Self {
        Self { due: watch::Sender::new(0), feed: watch::Sender::new(0) }
    }
}

impl Hinter {
    /// The receiving ends.
    pub fn hints(&self) -> Hints {
        Hints { due: self.due.subscribe(), feed: self.feed.subscribe() }
    }

    /// Whether anybody listens.
    pub fn is_watched(&self) -> bool {
        self.due.receiver_count() + self.feed.receiver_count() > 0
    }

    /// Says that a job may have become due.
    pub fn nudge(&self) {
        self.hint(true);
    }

    /// Says that events were written, and whether a job became due by them.
    pub fn hint(&self, due: bool) {
        self.feed.send_modify(|n| *n += 1);
        if due {
            self.due.send_modify(|n| *n += 1);
        }
    }
}

/// Readers of the feed that keep their place here: any process goes on where another stopped.
#[async_trait]
pub trait Readers: Send + Sync {
    /// How far a reader has come; none if it never moved.
    async fn place(&self, request: Name, now: Now) -> StoreResult<Option<Place>>;
    /// How far every reader has come, by name.
    async fn places(&self, request: (), now: Now) -> StoreResult<Vec<Place>>;
    /// Moves a reader's place together with what it found, under the leader's epoch: both or neither. The same move again
    /// writes nothing. [`Refusal::CursorExpired`] says that the place is not where the reader left it.
    async fn advance(&self, request: Advance, now: Now) -> StoreResult<Result<Place, Refusal>>;
}

/// Subscriptions: events carried out of the store. How far one has come is the place of a reader of its own.
#[async_trait]
pub trait Subscriptions: Send + Sync {
    /// Makes a subscription or changes it. Audited; what is so already stays as it is.
    async fn put_subscription(
        &self,
        request: PutSubscription,
        now: Now,
    ) -> StoreResult<Result<SubscriptionState, Refusal>>;
    /// Pauses or resumes a subscription. Audited; a repeat changes nothing.
    async fn pause_subscription(
        &self,
        request: PauseSubscription,
        now: Now,
    ) -> StoreResult<Result<SubscriptionState, Refusal>>;
    /// Notes how deliveries go, under the leader's epoch; pauses what fails for too long, which is audited.
    async fn report_subscription(
        &self,
        request: ReportSubscription,
        now: Now,
    ) -> StoreResult<Result<SubscriptionState, Refusal>>;
    /// Removes a subscription with its credential and its place. Audited.
    async fn remove_subscription(
        &self,
        request: RemoveSubscription,
        now: Now,
    ) -> StoreResult<Result<(), Refusal>>;
    /// One subscription.
    async fn subscription(&self, request: Name, now: Now) -> StoreResult<Option<SubscriptionState>>;
    /// Every subscription, by name.
    async fn subscriptions(&self, request: (), now: Now) -> StoreResult<Vec<SubscriptionState>>;
    /// What a subscription signs or signs in with; none if it has nothing, or there is no such one.
    async fn credential(&self, request: Name, now: Now) -> StoreResult<Option<Credential>>;
}

/// Papers: what people keep beside the jobs.
#[async_trait]
pub trait Papers: Send + Sync {
    /// Writes a paper, if nobody changed it meanwhile. Audited where the request says so; what says so already stays as it is.
    async fn put_paper(&self, request: PutPaper, now: Now) -> StoreResult<Result<Paper, Refusal>>;
    /// Removes a paper.
    async fn remove_paper(&self, request: RemovePaper, now: Now) -> StoreResult<Result<(), Refusal>>;
    /// One paper.
    async fn paper(&self, request: (PaperKind, Name), now: Now) -> StoreResult<Option<Paper>>;
    /// Papers of a kind, from the last name down.
    async fn papers(&self, request: ListPapers, now: Now) -> StoreResult<Vec<Paper>>;
}

/// Stats and problems: what the reader of that name found.
#[async_trait]
pub trait Stats: Send + Sync {
    /// Removes what was counted since a moment and lets the reader begin again at the beginning of the feed. Audited.
    async fn rebuild_stats(&self, request: RebuildStats, now: Now) -> StoreResult<Place>;
    /// Rows of numbers, by their keys.
    async fn rollups(&self, request: ReadRollups, now: Now) -> StoreResult<Vec<Rollup>>;
    /// How queues stood, by time and queue.
    async fn gauges(&self, request: ReadGauges, now: Now) -> StoreResult<Vec<Gauge>>;
    /// A page of problems, last seen first.
    async fn problems(&self, request: ListProblems, now: Now) -> StoreResult<Vec<ProblemView>>;
    /// One problem.
    async fn problem(&self, request: Fingerprint, now: Now) -> StoreResult<Option<ProblemView>>;
    /// Opens, resolves or mutes a problem. Audited; what is so already stays as it is.
    async fn put_problem(&self, request: PutProblem, now: Now) -> StoreResult<Result<ProblemView, Refusal>>;
}

/// Retention: the unit is a finished job, row and log together.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Finished jobs, whole, oldest end first.
    async fn archive(&self, request: ReadArchive, now: Now) -> StoreResult<Vec<Archived>>;
    /// Removes finished jobs that are still at the version that was archived, and leaves a tombstone that names the archive.
    /// The only door that deletes.
    async fn purge(&self, request: Purge, now: Now) -> StoreResult<Vec<Result<(), Refusal>>>;
    /// What is left of a removed job, while a tombstone or a unique key keeps its id; none for a job that is here or was
    /// never known.
    async fn purged(&self, request: JobId, now: Now) -> StoreResult<Option<Tombstone>>;
    /// Puts an archived job back as it was, finished; refused while its id is taken.
    async fn restore(&self, request: Restore, now: Now) -> StoreResult<Answer>;
    /// Removes old tombstones, under the leader's epoch; answers how many.
    async fn forget_tombstones(
        &self,
        request: ForgetTombstones,
        now: Now,
    ) -> StoreResult<Result<usize, Refusal>>;
    /// Jobs with old log lines, by the age of a line; a job may be named several times.
    async fn old_logs(&self, request: ReadOldLogs, now: Now) -> StoreResult<Vec<(Timestamp, JobId)>>;
    /// Removes log lines that a part of the archive holds and leaves where they are, under the leader's epoch; each range
    /// for itself. Repeated, it changes nothing; lines that are not all here are refused as `NotFound`.
    async fn move_logs(
        &self,
        request: MoveLogs,
        now: Now,
    ) -> StoreResult<Result<Vec<Result<(), Refusal>>, Refusal>>;
    /// Where log lines of a job are that moved to the archive, by their numbers.
    async fn log_parts(&self, request: JobId, now: Now) -> StoreResult<Vec<LogPart>>;
    /// Erases what a finished job was given, found and printed, and leaves an event that says so. A repeat changes nothing.
    async fn erase(&self, request: Erase, now: Now) -> StoreResult<Answer>;
}

/// Seals over the log, and what there is to check them by. They are written by [`Readers::advance`].
#[async_trait]
pub trait Seals: Send + Sync {
    /// A stretch of the chain, upwards.
    async fn seals(&self, request: ReadSeals, now: Now) -> StoreResult<Vec<LogSeal>>;
    /// The end of the chain; none while nothing is sealed.
    async fn last_seal(&self, request: (), now: Now) -> StoreResult<Option<LogSeal>>;
    /// The hash of each of these events as it is stored, at most 1,000; none of one that is not there.
    async fn event_hashes(&self, request: Vec<EventKey>, now: Now) -> StoreResult<Vec<Option<EventHash>>>;
    /// When jobs with these ids were removed, as often as they were.
    async fn removals(&self, request: Vec<JobId>, now: Now) -> StoreResult<Vec<Removal>>;
}

/// What surrounds jobs: queues, settings, workers, audit, access keys, remembered answers.
#[async_trait]
pub trait Registry: Send + Sync {
    /// Sets what a queue's jobs fall back to. Audited.
    async fn put_queue(&self, request: PutQueue, now: Now) -> StoreResult<Result<(), Refusal>>;
    /// Pauses or resumes a queue. Audited; a repeat changes nothing.
    async fn pause_queue(&self, request: PauseQueue, now: Now) -> StoreResult<()>;
    /// Breaks a queue with a breaker, so that nothing of it starts for a while and then one job at a time, or mends it, under a
    /// leader's epoch. False if there is nothing to change. Audited.
    async fn break_queue(&self, request: BreakQueue, now: Now) -> StoreResult<Result<bool, Refusal>>;
    /// Lets a key of a queue, or the queue, go at once: neither a hold nor a debt keeps it. False if nothing kept it. Audited.
    async fn release_lane(&self, request: ReleaseLane, now: Now) -> StoreResult<bool>;
    /// The keys of a queue that take turns, with what runs and waits of each; none of a queue without rules for keys.
    async fn lanes(&self, request: ListLanes, now: Now) -> StoreResult<Vec<LaneState>>;
    /// What was said of queues, by name: one that nobody said anything of is not among them.
    async fn queue_settings(&self, request: (), now: Now) -> StoreResult<Vec<Queue>>;
    /// Every queue that has a setting or a job that could be taken; each count stops at the cap.
    async fn queues(&self, request: i64, now: Now) -> StoreResult<Vec<QueueState>>;
    /// The settings of the store.
    async fn settings(&self, request: (), now: Now) -> StoreResult<SettingsState>;
    /// Puts settings in force, if nobody changed them meanwhile. Audited; what is so already stays as it is.
    async fn put_settings(
        &self,
        request: PutSettings,
        now: Now,
    ) -> StoreResult<Result<SettingsState, Refusal>>;
    /// A worker reports itself.
    async fn put_worker(&self, request: PutWorker, now: Now) -> StoreResult<Worker>;
    /// Tells a worker to take no more, or to take jobs again; none for an unknown one. Audited; a repeat changes nothing.
    async fn drain_worker(&self, request: DrainWorker, now: Now) -> StoreResult<Option<Worker>>;
    /// Forgets a worker that stopped.
    async fn remove_worker(&self, request: Who, now: Now) -> StoreResult<()>;
    /// Every worker that was not forgotten.
    async fn workers(&self, request: (), now: Now) -> StoreResult<Vec<Worker>>;
    /// Live workers of these queues that are not drained, with how much each has.
    async fn candidates(&self, request: Vec<Name>, now: Now) -> StoreResult<Vec<Candidate>>;
    /// Puts an operator's action on record.
    async fn write_audit(&self, request: WriteAudit, now: Now) -> StoreResult<()>;
    /// A page of the audit, newest first.
    async fn audit(&self, request: ReadAudit, now: Now) -> StoreResult<Vec<AuditEntry>>;
    /// Makes an access key; false if the name is taken by another key. Audited.
    async fn put_access_key(&self, request: PutAccessKey, now: Now) -> StoreResult<bool>;
    /// The key with this hash, valid or not.
    async fn access_key(&self, request: [u8; 32], now: Now) -> StoreResult<Option<AccessKey>>;
    /// Every key, by name.
    async fn access_keys(&self, request: (), now: Now) -> StoreResult<Vec<AccessKey>>;
    /// Takes a key back; none for an unknown one. Audited.
    async fn revoke_access_key(&self, request: RevokeAccessKey, now: Now) -> StoreResult<Option<AccessKey>>;
    /// Remembers an answer for 24 hours. The first one stays: a repeat gets it back, another body is refused.
    async fn remember(&self, request: Remember, now: Now) -> StoreResult<Result<Vec<u8>, Refusal>>;
    /// The remembered answer for a key and body.
    async fn recall(&self, request: Idempotency, now: Now) -> StoreResult<Result<Option<Vec<u8>>, Refusal>>;
}
