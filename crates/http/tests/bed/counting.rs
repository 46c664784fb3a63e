//! A store that counts how often each of its reading verbs is called, and can be made to answer nothing.

use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use windlass_core::step::Recorded;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Answer, ApprovalId, AuditEntry, Event, FeedCursor, Job, JobId, Life, LogLine, Name, Refusal,
    Status, Term, Who, Worker,
};
use windlass_store::*;

/// Counts calls: of the feed, of claims, and of everything.
#[derive(Debug)]
pub struct Counting {
    inner: Arc<dyn Store>,
    pub all: AtomicU64,
    pub feeds: AtomicU64,
    pub claims: AtomicU64,
    /// While it is set, no verb answers.
    pub is_stuck: AtomicBool,
}

impl Counting {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            all: AtomicU64::new(0),
            feeds: AtomicU64::new(0),
            claims: AtomicU64::new(0),
            is_stuck: AtomicBool::new(false),
        }
    }

    pub fn count(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    async fn note(&self, verb: &str) {
        while self.is_stuck.load(Ordering::Relaxed) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        match verb {
            "feed" => self.feeds.fetch_add(1, Ordering::Relaxed),
            "claim" => self.claims.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

macro_rules! counting {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl $group for Counting {
                $(
                    async fn $verb(&self, request: $request, now: Now) -> StoreResult<$answer> {
                        self.note(stringify!($verb)).await;
                        self.inner.$verb(request, now).await
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

counting! {
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
        steps(JobId) -> Option<Recorded>;
        cancel(Cancel) -> Answer;
        redrive(Redrive) -> Answer;
        fork(Fork) -> Answer;
        write_logs(WriteLogs) -> Result<(), Refusal>;
        logs(ReadLogs) -> Vec<LogLine>;
        find_key(FindKey) -> Option<Hold>;
    }
    Leases {
        claim(ClaimMany) -> Vec<Claimed>;
        claim_one(ClaimOne) -> Result<Claimed, Refusal>;
        enqueue_claimed(EnqueueClaimed) -> Result<EnqueuedClaimed, Refusal>;
        assign(Assign) -> Vec<Answer>;
        start(Start) -> Result<Claimed, Refusal>;
        extend(Extend) -> Vec<Result<Extended, Refusal>>;
        settle(Settle) -> Vec<Answer>;
        sweep(Sweep) -> Vec<Swept>;
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
    Retention {
        archive(ReadArchive) -> Vec<Archived>;
        purge(Purge) -> Vec<Result<(), Refusal>>;
        purged(JobId) -> Option<Status>;
    }
    Registry {
        put_queue(PutQueue) -> Result<(), Refusal>;
        pause_queue(PauseQueue) -> ();
        queues(i64) -> Vec<QueueState>;
        put_worker(PutWorker) -> Worker;
        drain_worker(DrainWorker) -> Option<Worker>;
        remove_worker(Who) -> ();
        workers(()) -> Vec<Worker>;
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
