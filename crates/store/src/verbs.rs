//! The verbs as one table, from which the decorators are made. A verb that is missing here does not compile.

/// Calls `$then!` with every verb: trait, name, request, answer. The types must be in scope where it is called, and the
/// store must have a field `inner` with `hints()`.
#[macro_export]
macro_rules! every_verb {
    ($then:ident) => {
        $then! {
            Jobs {
                enqueue(Enqueue) -> Result<Vec<Enqueued>, BatchRefusal>;
                job(JobId) -> Option<JobView>;
                jobs(List) -> Result<Page<Listed>, Refusal>;
                counts(i64) -> Counts;
                events(ReadEvents) -> Vec<Event>;
                at_version(AtVersion) -> Option<Job>;
                append(Append) -> Result<HolderReply, Refusal>;
                progress(Progress) -> Result<HolderReply, Refusal>;
                record_step(RecordStep) -> Result<HolderReply, Refusal>;
                steps(ReadSteps) -> Option<Recorded>;
                cancel(Cancel) -> Answer;
                redrive(Redrive) -> Answer;
                seal(Seal) -> Answer;
                fork(Fork) -> Answer;
                write_logs(WriteLogs) -> Result<(), Refusal>;
                logs(ReadLogs) -> Vec<LogLine>;
                find_key(FindKey) -> Option<Hold>;
            }
            Leases {
                claim(ClaimMany) -> Vec<Claimed>;
                claim_one(ClaimOne) -> Result<Claimed, Refusal>;
                enqueue_claimed(EnqueueClaimed) -> Result<EnqueuedClaimed, Refusal>;
                unassigned(ReadUnassigned) -> UnassignedPage;
                assign(Assign) -> Vec<Answer>;
                start(Start) -> Result<Claimed, Refusal>;
                extend(Extend) -> Vec<Result<Extended, Refusal>>;
                settle(Settle) -> Vec<Answer>;
                sweep(Sweep) -> Vec<Swept>;
                cancel_idle(CancelIdle) -> Result<Vec<Answer>, Refusal>;
            }
            Waits {
                signal(Signal) -> Answer;
                ask(Ask) -> Result<Asked, Refusal>;
                vote(CastVote) -> Answer;
                approval(ApprovalId) -> Option<ApprovalView>;
                approvals(ListApprovals) -> Vec<ApprovalView>;
            }
            Terms {
                acquire_term(AcquireTerm) -> Result<Term, Term>;
                renew_term(RenewTerm) -> Result<Term, Refusal>;
                resign_term(ResignTerm) -> Result<(), Refusal>;
                term(Name) -> Option<Term>;
            }
            Schedules {
                put_schedule(PutSchedule) -> Result<ScheduleState, Refusal>;
                pause_schedule(PauseSchedule) -> Result<ScheduleState, Refusal>;
                remove_schedule(RemoveSchedule) -> Result<(), Refusal>;
                apply_schedules(ApplySchedules) -> Result<Vec<Applied>, Refusal>;
                schedule(Name) -> Option<ScheduleState>;
                schedules(()) -> Vec<ScheduleState>;
                due_schedules(usize) -> Vec<Name>;
                fire_schedule(FireSchedule) -> Result<Vec<Enqueued>, Refusal>;
            }
            Triggers {
                put_trigger(PutTrigger) -> Result<TriggerState, Refusal>;
                put_trigger_secret(PutTriggerSecret) -> Result<TriggerState, Refusal>;
                remove_trigger(RemoveTrigger) -> Result<(), Refusal>;
                trigger(Name) -> Option<TriggerState>;
                triggers(()) -> Vec<TriggerState>;
                trigger_secrets(Name) -> Vec<WebhookSecret>;
                ingest(Ingest) -> Result<Ingested, Refusal>;
                trigger_events(ReadTriggerEvents) -> Vec<TriggerEvent>;
                due_trigger_events(usize) -> Vec<TriggerEventId>;
                process_trigger_event(ProcessTriggerEvent) -> Result<Option<TriggerEvent>, Refusal>;
                forget_trigger_events(ForgetTriggerEvents) -> Result<usize, Refusal>;
            }
            Readers {
                place(Name) -> Option<Place>;
                places(()) -> Vec<Place>;
                advance(Advance) -> Result<Place, Refusal>;
            }
            Subscriptions {
                put_subscription(PutSubscription) -> Result<SubscriptionState, Refusal>;
                pause_subscription(PauseSubscription) -> Result<SubscriptionState, Refusal>;
                report_subscription(ReportSubscription) -> Result<SubscriptionState, Refusal>;
                remove_subscription(RemoveSubscription) -> Result<(), Refusal>;
                subscription(Name) -> Option<SubscriptionState>;
                subscriptions(()) -> Vec<SubscriptionState>;
                credential(Name) -> Option<Credential>;
            }
            Papers {
                put_paper(PutPaper) -> Result<Paper, Refusal>;
                remove_paper(RemovePaper) -> Result<(), Refusal>;
                paper((PaperKind, Name)) -> Option<Paper>;
                papers(ListPapers) -> Vec<Paper>;
            }
            Stats {
                rebuild_stats(RebuildStats) -> Place;
                rollups(ReadRollups) -> Vec<Rollup>;
                gauges(ReadGauges) -> Vec<Gauge>;
                problems(ListProblems) -> Vec<ProblemView>;
                problem(Fingerprint) -> Option<ProblemView>;
                put_problem(PutProblem) -> Result<ProblemView, Refusal>;
            }
            Retention {
                archive(ReadArchive) -> Vec<Archived>;
                purge(Purge) -> Vec<Result<(), Refusal>>;
                purged(JobId) -> Option<Tombstone>;
                restore(Restore) -> Answer;
                forget_tombstones(ForgetTombstones) -> Result<usize, Refusal>;
                old_logs(ReadOldLogs) -> Vec<(Timestamp, JobId)>;
                move_logs(MoveLogs) -> Result<Vec<Result<(), Refusal>>, Refusal>;
                log_parts(JobId) -> Vec<LogPart>;
                erase(Erase) -> Answer;
            }
            Seals {
                seals(ReadSeals) -> Vec<LogSeal>;
                last_seal(()) -> Option<LogSeal>;
                event_hashes(Vec<EventKey>) -> Vec<Option<EventHash>>;
                removals(Vec<JobId>) -> Vec<Removal>;
            }
            Registry {
                put_queue(PutQueue) -> Result<(), Refusal>;
                pause_queue(PauseQueue) -> ();
                break_queue(BreakQueue) -> Result<bool, Refusal>;
                release_lane(ReleaseLane) -> bool;
                lanes(ListLanes) -> Vec<LaneState>;
                queue_settings(()) -> Vec<Queue>;
                queues(i64) -> Vec<QueueState>;
                settings(()) -> SettingsState;
                put_settings(PutSettings) -> Result<SettingsState, Refusal>;
                put_worker(PutWorker) -> Worker;
                drain_worker(DrainWorker) -> Option<Worker>;
                remove_worker(Who) -> ();
                workers(()) -> Vec<Worker>;
                candidates(Vec<Name>) -> Vec<Candidate>;
                write_audit(WriteAudit) -> ();
                audit(ReadAudit) -> Vec<AuditEntry>;
                put_access_key(PutAccessKey) -> bool;
                access_key([u8; 32]) -> Option<AccessKey>;
                access_keys(()) -> Vec<AccessKey>;
                revoke_access_key(RevokeAccessKey) -> Option<AccessKey>;
                remember(Remember) -> Result<Vec<u8>, Refusal>;
                recall(Idempotency) -> Result<Option<Vec<u8>>, Refusal>;
            }
            Feed {
                feed_head(()) -> FeedCursor;
                feed(ReadFeed) -> Result<FeedPage, Refusal>;
                adopt(Adopt) -> Life;
                ;
                fn hints(&self) -> Hints { self.inner.hints() }
                fn nudge(&self) { self.inner.nudge() }
            }
        }
    };
}
