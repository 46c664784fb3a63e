//! The verbs of the store, each to its module: in a transaction, or as a read.

use crate::PostgresStore;
use crate::{assign, claim, enqueue, feed, lease, settle, sweep, view};
use async_trait::async_trait;
use std::sync::Arc;
use windlass_core::step::Recorded;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Answer, ApprovalId, AuditEntry, Event, FeedCursor, Fingerprint, Job, JobId, Life, LogLine,
    LogPart, Name, Queue, Refusal, Term, Timestamp, TriggerEventId, Who, Worker,
};
use windlass_store::*;

macro_rules! verbs {
    ($($group:ident {
        $(write $verb:ident($asked:ty) -> $answer:ty;)*
        $(read $seen:ident($wanted:ty) -> $found:ty = $method:ident;)*
        $(also { $($rest:item)* })?
    })*) => {
        $(
            #[async_trait]
            impl $group for PostgresStore {
                $(
                    async fn $verb(&self, request: $asked, now: Now) -> StoreResult<$answer> {
                        let request = Arc::new(request);
                        self.connections.transact(now, move |tx| {
                            let request = Arc::clone(&request);
                            Box::pin(async move { tx.$verb(&request).await })
                        }).await
                    }
                )*
                $(
                    async fn $seen(&self, request: $wanted, now: Now) -> StoreResult<$found> {
                        let request = Arc::new(request);
                        self.connections.read(move |db| {
                            let request = Arc::clone(&request);
                            Box::pin(async move { db.$method(&request, now).await })
                        }).await
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

verbs! {
    Jobs {
        write append(Append) -> Result<HolderReply, Refusal>;
        write progress(Progress) -> Result<HolderReply, Refusal>;
        write record_step(RecordStep) -> Result<HolderReply, Refusal>;
        write cancel(Cancel) -> Answer;
        write redrive(Redrive) -> Answer;
        write seal(Seal) -> Answer;
        write fork(Fork) -> Answer;
        write write_logs(WriteLogs) -> Result<(), Refusal>;
        read jobs(List) -> Result<Page<Listed>, Refusal> = jobs;
        read counts(i64) -> Counts = counts;
        read events(ReadEvents) -> Vec<Event> = events;
        read at_version(AtVersion) -> Option<Job> = at_version;
        read steps(ReadSteps) -> Option<Recorded> = steps;
        read logs(ReadLogs) -> Vec<LogLine> = logs;
        read find_key(FindKey) -> Option<Hold> = find_key;
        also {
            async fn enqueue(
                &self,
                request: Enqueue,
                now: Now,
            ) -> StoreResult<Result<Vec<Enqueued>, BatchRefusal>> {
                enqueue::enqueue(&self.connections, &self.positions.2, &self.enqueues, request, now).await
            }
            async fn job(&self, request: JobId, now: Now) -> StoreResult<Option<JobView>> {
                view::view(&self.connections, &self.views, request, now).await
            }
        }
    }
    Leases {
        write cancel_idle(CancelIdle) -> Result<Vec<Answer>, Refusal>;
        write claim_one(ClaimOne) -> Result<Claimed, Refusal>;
        write start(Start) -> Result<Claimed, Refusal>;
        also {
            async fn enqueue_claimed(
                &self,
                request: EnqueueClaimed,
                now: Now,
            ) -> StoreResult<Result<EnqueuedClaimed, Refusal>> {
                enqueue::enqueue_claimed(&self.connections, &self.positions.2, request, now).await
            }
            async fn unassigned(&self, request: ReadUnassigned, now: Now) -> StoreResult<UnassignedPage> {
                assign::unassigned(&self.connections, &self.positions, request, now).await
            }
            async fn assign(&self, request: Assign, now: Now) -> StoreResult<Vec<Answer>> {
                assign::assign(&self.connections, request, now).await
            }
            async fn claim(&self, request: ClaimMany, now: Now) -> StoreResult<Vec<Claimed>> {
                claim::claim(&self.connections, &self.positions, request, now).await
            }
            async fn extend(&self, request: Extend, now: Now) -> StoreResult<Vec<Result<Extended, Refusal>>> {
                lease::extend(&self.connections, &self.extends, request, now).await
            }
            async fn settle(&self, request: Settle, now: Now) -> StoreResult<Vec<Answer>> {
                settle::settle(&self.connections, &self.settles, request, now).await
            }
            async fn sweep(&self, request: Sweep, now: Now) -> StoreResult<Vec<Swept>> {
                sweep::sweep(&self.connections, request, now).await
            }
        }
    }
    Waits {
        write signal(Signal) -> Answer;
        write ask(Ask) -> Result<Asked, Refusal>;
        write vote(CastVote) -> Answer;
        read approval(ApprovalId) -> Option<ApprovalView> = approval;
        read approvals(ListApprovals) -> Vec<ApprovalView> = approvals;
    }
    Terms {
        write acquire_term(AcquireTerm) -> Result<Term, Term>;
        write resign_term(ResignTerm) -> Result<(), Refusal>;
        read term(Name) -> Option<Term> = term;
        also {
            async fn renew_term(&self, request: RenewTerm, now: Now) -> StoreResult<Result<Term, Refusal>> {
                let request = Arc::new(request);
                self.connections.transact_renewal(now, move |tx| {
                    let request = Arc::clone(&request);
                    Box::pin(async move { tx.renew_term(&request).await })
                }).await
            }
        }
    }
    Schedules {
        write put_schedule(PutSchedule) -> Result<ScheduleState, Refusal>;
        write pause_schedule(PauseSchedule) -> Result<ScheduleState, Refusal>;
        write remove_schedule(RemoveSchedule) -> Result<(), Refusal>;
        write apply_schedules(ApplySchedules) -> Result<Vec<Applied>, Refusal>;
        write fire_schedule(FireSchedule) -> Result<Vec<Enqueued>, Refusal>;
        read schedule(Name) -> Option<ScheduleState> = schedule;
        read schedules(()) -> Vec<ScheduleState> = schedules;
        read due_schedules(usize) -> Vec<Name> = due_schedules;
    }
    Triggers {
        write put_trigger(PutTrigger) -> Result<TriggerState, Refusal>;
        write put_trigger_secret(PutTriggerSecret) -> Result<TriggerState, Refusal>;
        write remove_trigger(RemoveTrigger) -> Result<(), Refusal>;
        write ingest(Ingest) -> Result<Ingested, Refusal>;
        write process_trigger_event(ProcessTriggerEvent) -> Result<Option<TriggerEvent>, Refusal>;
        write forget_trigger_events(ForgetTriggerEvents) -> Result<usize, Refusal>;
        read trigger(Name) -> Option<TriggerState> = trigger;
        read triggers(()) -> Vec<TriggerState> = triggers;
        read trigger_secrets(Name) -> Vec<WebhookSecret> = trigger_secrets;
        read trigger_events(ReadTriggerEvents) -> Vec<TriggerEvent> = trigger_events;
        read due_trigger_events(usize) -> Vec<TriggerEventId> = due_trigger_events;
    }
    Readers {
        write advance(Advance) -> Result<Place, Refusal>;
        read place(Name) -> Option<Place> = place;
        read places(()) -> Vec<Place> = places;
    }
    Subscriptions {
        write put_subscription(PutSubscription) -> Result<SubscriptionState, Refusal>;
        write pause_subscription(PauseSubscription) -> Result<SubscriptionState, Refusal>;
        write report_subscription(ReportSubscription) -> Result<SubscriptionState, Refusal>;
        write remove_subscription(RemoveSubscription) -> Result<(), Refusal>;
        read subscription(Name) -> Option<SubscriptionState> = subscription;
        read subscriptions(()) -> Vec<SubscriptionState> = subscriptions;
        read credential(Name) -> Option<Credential> = credential;
    }
    Papers {
        write put_paper(PutPaper) -> Result<Paper, Refusal>;
        write remove_paper(RemovePaper) -> Result<(), Refusal>;
        read paper((PaperKind, Name)) -> Option<Paper> = paper;
        read papers(ListPapers) -> Vec<Paper> = papers;
    }
    Stats {
        write rebuild_stats(RebuildStats) -> Place;
        write put_problem(PutProblem) -> Result<ProblemView, Refusal>;
        read rollups(ReadRollups) -> Vec<Rollup> = rollups;
        read gauges(ReadGauges) -> Vec<Gauge> = gauges;
        read problems(ListProblems) -> Vec<ProblemView> = problems;
        read problem(Fingerprint) -> Option<ProblemView> = problem;
    }
    Retention {
        write purge(Purge) -> Vec<Result<(), Refusal>>;
        write restore(Restore) -> Answer;
        write forget_tombstones(ForgetTombstones) -> Result<usize, Refusal>;
        write erase(Erase) -> Answer;
        write move_logs(MoveLogs) -> Result<Vec<Result<(), Refusal>>, Refusal>;
        read old_logs(ReadOldLogs) -> Vec<(Timestamp, JobId)> = old_logs;
        read log_parts(JobId) -> Vec<LogPart> = log_parts;
        read archive(ReadArchive) -> Vec<Archived> = archive;
        read purged(JobId) -> Option<Tombstone> = purged;
    }
    Seals {
        read seals(ReadSeals) -> Vec<LogSeal> = seals;
        read last_seal(()) -> Option<LogSeal> = last_seal;
        read event_hashes(Vec<EventKey>) -> Vec<Option<EventHash>> = event_hashes;
        read removals(Vec<JobId>) -> Vec<Removal> = removals;
    }
    Registry {
        write pause_queue(PauseQueue) -> ();
        write break_queue(BreakQueue) -> Result<bool, Refusal>;
        write release_lane(ReleaseLane) -> bool;
        write put_settings(PutSettings) -> Result<SettingsState, Refusal>;
        write put_worker(PutWorker) -> Worker;
        write drain_worker(DrainWorker) -> Option<Worker>;
        write remove_worker(Who) -> ();
        write write_audit(WriteAudit) -> ();
        write put_access_key(PutAccessKey) -> bool;
        write revoke_access_key(RevokeAccessKey) -> Option<AccessKey>;
        write remember(Remember) -> Result<Vec<u8>, Refusal>;
        read queue_settings(()) -> Vec<Queue> = queue_settings;
        read queues(i64) -> Vec<QueueState> = queues;
        read lanes(ListLanes) -> Vec<LaneState> = lanes;
        read settings(()) -> SettingsState = settings;
        read workers(()) -> Vec<Worker> = workers;
        read candidates(Vec<Name>) -> Vec<Candidate> = candidates;
        read audit(ReadAudit) -> Vec<AuditEntry> = audit;
        read access_key([u8; 32]) -> Option<AccessKey> = access_key;
        read access_keys(()) -> Vec<AccessKey> = access_keys;
        read recall(Idempotency) -> Result<Option<Vec<u8>>, Refusal> = recall;
        also {
            async fn put_queue(&self, request: PutQueue, now: Now) -> StoreResult<Result<(), Refusal>> {
                let request = Arc::new(request);
                let put = self.connections.transact(now, move |tx| {
                    let request = Arc::clone(&request);
                    Box::pin(async move { tx.put_queue(&request).await })
                }).await;
                self.positions.2.forget();
                put
            }
        }
    }
    Feed {
        write adopt(Adopt) -> Life;
        also {
            async fn feed_head(&self, (): (), _: Now) -> StoreResult<FeedCursor> {
                feed::feed_head(&self.connections).await
            }
            async fn feed(&self, request: ReadFeed, _: Now) -> StoreResult<Result<FeedPage, Refusal>> {
                feed::feed(&self.connections, request).await
            }
            fn hints(&self) -> Hints {
                self.connections.wakeups.hints()
            }
            fn nudge(&self) {
                self.connections.wakeups.hint(true);
            }
        }
    }
}
