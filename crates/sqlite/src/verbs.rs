//! The verbs of the store, each to its module: writes through the writer, reads through a reader.

use crate::SqliteStore;
use async_trait::async_trait;
use std::sync::Arc;
use windlass_core::step::Recorded;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Answer, ApprovalId, AuditEntry, Event, FeedCursor, Fingerprint, Job, JobId, Life, LogLine,
    LogPart, Name, Queue, Refusal, Term, Timestamp, TriggerEventId, Who, Worker,
};
use windlass_store::fresh::wall_clock;
use windlass_store::*;

fn at(now: Now) -> Timestamp {
    now.unwrap_or_else(wall_clock)
}

macro_rules! verbs {
    ($($group:ident {
        $(write $verb:ident($request:ident: $asked:ty) -> $answer:ty;)*
        $(read $seen:ident($wish:ident: $wanted:ty) -> $found:ty = |$db:ident, $now:ident| $body:expr;)*
        $(also { $($rest:item)* })?
    })*) => {
        $(
            #[async_trait]
            impl $group for SqliteStore {
                $(
                    async fn $verb(&self, $request: $asked, now: Now) -> StoreResult<$answer> {
                        self.writer.write(now, move |tx, now| tx.$verb(&$request, now)).await
                    }
                )*
                $(
                    async fn $seen(&self, $wish: $wanted, now: Now) -> StoreResult<$found> {
                        let $now = at(now);
                        self.readers.read(move |$db| { let _ = ($now, &$wish); $body }).await
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

verbs! {
    Jobs {
        write enqueue(request: Enqueue) -> Result<Vec<Enqueued>, BatchRefusal>;
        write append(request: Append) -> Result<HolderReply, Refusal>;
        write progress(request: Progress) -> Result<HolderReply, Refusal>;
        write record_step(request: RecordStep) -> Result<HolderReply, Refusal>;
        write cancel(request: Cancel) -> Answer;
        write redrive(request: Redrive) -> Answer;
        write seal(request: Seal) -> Answer;
        write fork(request: Fork) -> Answer;
        write write_logs(request: WriteLogs) -> Result<(), Refusal>;
        read job(id: JobId) -> Option<JobView> = |db, now| db.view(id, now);
        read jobs(list: List) -> Result<Page<Listed>, Refusal> = |db, now| db.jobs(&list);
        read counts(cap: i64) -> Counts = |db, now| db.counts(cap);
        read events(wish: ReadEvents) -> Vec<Event> = |db, now| db.events(&wish);
        read at_version(wish: AtVersion) -> Option<Job> = |db, now| db.at_version(&wish);
        read steps(wish: ReadSteps) -> Option<Recorded> = |db, now| db.steps(wish);
        read logs(wish: ReadLogs) -> Vec<LogLine> = |db, now| db.logs(&wish);
        read find_key(wish: FindKey) -> Option<Hold> = |db, now| db.find_key(&wish.scope, &wish.key, now);
    }
    Leases {
        write claim_one(request: ClaimOne) -> Result<Claimed, Refusal>;
        write enqueue_claimed(request: EnqueueClaimed) -> Result<EnqueuedClaimed, Refusal>;
        write assign(request: Assign) -> Vec<Answer>;
        write start(request: Start) -> Result<Claimed, Refusal>;
        write extend(request: Extend) -> Vec<Result<Extended, Refusal>>;
        write settle(request: Settle) -> Vec<Answer>;
        write sweep(request: Sweep) -> Vec<Swept>;
        write cancel_idle(request: CancelIdle) -> Result<Vec<Answer>, Refusal>;
        read unassigned(wish: ReadUnassigned) -> UnassignedPage = |db, now| db.unassigned(&wish, now);
        also {
            async fn claim(&self, request: ClaimMany, now: Now) -> StoreResult<Vec<Claimed>> {
                let positions = Arc::clone(&self.positions);
                self.writer.write(now, move |tx, now| tx.claim(&request, &positions, now)).await
            }
        }
    }
    Waits {
        write signal(request: Signal) -> Answer;
        write ask(request: Ask) -> Result<Asked, Refusal>;
        write vote(request: CastVote) -> Answer;
        read approval(id: ApprovalId) -> Option<ApprovalView> = |db, now| db.approval(id);
        read approvals(wish: ListApprovals) -> Vec<ApprovalView> = |db, now| db.approvals(&wish, now);
    }
    Terms {
        write acquire_term(request: AcquireTerm) -> Result<Term, Term>;
        write renew_term(request: RenewTerm) -> Result<Term, Refusal>;
        write resign_term(request: ResignTerm) -> Result<(), Refusal>;
        read term(name: Name) -> Option<Term> = |db, now| db.term(&name);
    }
    Schedules {
        write put_schedule(request: PutSchedule) -> Result<ScheduleState, Refusal>;
        write pause_schedule(request: PauseSchedule) -> Result<ScheduleState, Refusal>;
        write remove_schedule(request: RemoveSchedule) -> Result<(), Refusal>;
        write apply_schedules(request: ApplySchedules) -> Result<Vec<Applied>, Refusal>;
        write fire_schedule(request: FireSchedule) -> Result<Vec<Enqueued>, Refusal>;
        read schedule(name: Name) -> Option<ScheduleState> = |db, now| db.schedule(&name);
        read schedules(none: ()) -> Vec<ScheduleState> = |db, now| db.schedules();
        read due_schedules(limit: usize) -> Vec<Name> = |db, now| db.due_schedules(limit, now);
    }
    Triggers {
        write put_trigger(request: PutTrigger) -> Result<TriggerState, Refusal>;
        write put_trigger_secret(request: PutTriggerSecret) -> Result<TriggerState, Refusal>;
        write remove_trigger(request: RemoveTrigger) -> Result<(), Refusal>;
        write ingest(request: Ingest) -> Result<Ingested, Refusal>;
        write process_trigger_event(request: ProcessTriggerEvent) -> Result<Option<TriggerEvent>, Refusal>;
        write forget_trigger_events(request: ForgetTriggerEvents) -> Result<usize, Refusal>;
        read trigger(name: Name) -> Option<TriggerState> = |db, now| db.trigger(&name);
        read triggers(none: ()) -> Vec<TriggerState> = |db, now| db.triggers();
        read trigger_secrets(name: Name) -> Vec<WebhookSecret> = |db, now| db.trigger_secrets(&name, now);
        read trigger_events(wish: ReadTriggerEvents) -> Vec<TriggerEvent> = |db, now| db.trigger_events(&wish);
        read due_trigger_events(limit: usize) -> Vec<TriggerEventId> = |db, now| db.due_trigger_events(limit, now);
    }
    Readers {
        write advance(request: Advance) -> Result<Place, Refusal>;
        read place(name: Name) -> Option<Place> = |db, now| db.place(&name);
        read places(none: ()) -> Vec<Place> = |db, now| db.places();
    }
    Subscriptions {
        write put_subscription(request: PutSubscription) -> Result<SubscriptionState, Refusal>;
        write pause_subscription(request: PauseSubscription) -> Result<SubscriptionState, Refusal>;
        write report_subscription(request: ReportSubscription) -> Result<SubscriptionState, Refusal>;
        write remove_subscription(request: RemoveSubscription) -> Result<(), Refusal>;
        read subscription(name: Name) -> Option<SubscriptionState> = |db, now| db.subscription(&name);
        read subscriptions(none: ()) -> Vec<SubscriptionState> = |db, now| db.subscriptions();
        read credential(name: Name) -> Option<Credential> = |db, now| db.credential(&name);
    }
    Papers {
        write put_paper(request: PutPaper) -> Result<Paper, Refusal>;
        write remove_paper(request: RemovePaper) -> Result<(), Refusal>;
        read paper(which: (PaperKind, Name)) -> Option<Paper> = |db, now| db.paper(which.0, &which.1);
        read papers(request: ListPapers) -> Vec<Paper> = |db, now| db.papers(&request);
    }
    Stats {
        write rebuild_stats(request: RebuildStats) -> Place;
        write put_problem(request: PutProblem) -> Result<ProblemView, Refusal>;
        read rollups(wish: ReadRollups) -> Vec<Rollup> = |db, now| db.rollups(&wish);
        read gauges(wish: ReadGauges) -> Vec<Gauge> = |db, now| db.gauges(&wish);
        read problems(wish: ListProblems) -> Vec<ProblemView> = |db, now| db.problems(&wish, now);
        read problem(fingerprint: Fingerprint) -> Option<ProblemView> = |db, now| db.problem(&fingerprint);
    }
    Retention {
        write purge(request: Purge) -> Vec<Result<(), Refusal>>;
        write restore(request: Restore) -> Answer;
        write forget_tombstones(request: ForgetTombstones) -> Result<usize, Refusal>;
        write erase(request: Erase) -> Answer;
        write move_logs(request: MoveLogs) -> Result<Vec<Result<(), Refusal>>, Refusal>;
        read old_logs(wish: ReadOldLogs) -> Vec<(Timestamp, JobId)> = |db, now| db.old_logs(&wish);
        read log_parts(id: JobId) -> Vec<LogPart> = |db, now| db.log_parts(id);
        read archive(wish: ReadArchive) -> Vec<Archived> = |db, now| db.archive(wish);
        read purged(id: JobId) -> Option<Tombstone> = |db, now| db.purged(id);
    }
    Seals {
        read seals(wish: ReadSeals) -> Vec<LogSeal> = |db, now| db.seals(wish);
        read last_seal(none: ()) -> Option<LogSeal> = |db, now| db.last_seal();
        read event_hashes(keys: Vec<EventKey>) -> Vec<Option<EventHash>> = |db, now| db.event_hashes(&keys);
        read removals(jobs: Vec<JobId>) -> Vec<Removal> = |db, now| db.removals(&jobs);
    }
    Registry {
        write put_queue(request: PutQueue) -> Result<(), Refusal>;
        write pause_queue(request: PauseQueue) -> ();
        write break_queue(request: BreakQueue) -> Result<bool, Refusal>;
        write release_lane(request: ReleaseLane) -> bool;
        write put_settings(request: PutSettings) -> Result<SettingsState, Refusal>;
        write put_worker(request: PutWorker) -> Worker;
        write drain_worker(request: DrainWorker) -> Option<Worker>;
        write remove_worker(request: Who) -> ();
        write write_audit(request: WriteAudit) -> ();
        write put_access_key(request: PutAccessKey) -> bool;
        write revoke_access_key(request: RevokeAccessKey) -> Option<AccessKey>;
        write remember(request: Remember) -> Result<Vec<u8>, Refusal>;
        read queue_settings(_none: ()) -> Vec<Queue> = |db, _now| db.queue_settings();
        read queues(cap: i64) -> Vec<QueueState> = |db, now| db.queues(cap, now);
        read lanes(request: ListLanes) -> Vec<LaneState> = |db, now| db.lanes(&request, now);
        read settings(none: ()) -> SettingsState = |db, now| db.settings();
        read workers(none: ()) -> Vec<Worker> = |db, now| db.workers();
        read candidates(queues: Vec<Name>) -> Vec<Candidate> = |db, now| db.candidates(&queues, now);
        read audit(wish: ReadAudit) -> Vec<AuditEntry> = |db, now| db.audit(wish);
        read access_key(hash: [u8; 32]) -> Option<AccessKey> = |db, now| db.access_key(hash);
        read access_keys(none: ()) -> Vec<AccessKey> = |db, now| db.access_keys();
        read recall(promise: Idempotency) -> Result<Option<Vec<u8>>, Refusal> = |db, now| db.recall(&promise, now);
    }
    Feed {
        write adopt(request: Adopt) -> Life;
        read feed_head(none: ()) -> FeedCursor = |db, now| db.feed_head();
        read feed(wish: ReadFeed) -> Result<FeedPage, Refusal> = |db, now| db.feed(&wish);
        also {
            fn hints(&self) -> Hints {
                self.hinter.hints()
            }
            fn nudge(&self) {
                self.hinter.nudge();
            }
        }
    }
}
