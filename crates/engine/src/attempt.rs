//! What a handler is given: one attempt of one job, and what it may ask of the store under its lease.
//!
//! The verbs are in the modules beside this one: steps in `record`, waits and approvals in `wait`, progress, notes
//! and log lines in `report`, children in `spawn`. Each asks again by itself when an answer is lost. A verb that finds
//! the lease lost never comes back: the runner drops the handler, whose result nobody would take.

use crate::control::{Control, Standing};
use crate::error::HandlerError;
use crate::recall::Recall;
use crate::record::{Names, Record};
use crate::repeat::repeat_unless;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use windlass_core::{
    Facts, Job, JobId, LeaseMs, Metadata, Name, Payload, Refusal, Timestamp, Token, Wake, Who,
};
use windlass_store::work::Work;
use windlass_store::{Claimed, HolderReply, StoreError, StoreResult};

/// One attempt of one job. Cheap to clone.
#[derive(Clone)]
pub struct Attempt {
    inner: Arc<Inner>,
}

struct Inner {
    source: Arc<dyn Work>,
    claimed: Claimed,
    /// When this process learned of the claim: with `started_at` it tells the store's time, which without it stands
    /// still.
    began: Option<Instant>,
    control: Control,
    /// What names this attempt has used; a blocking lock, held for a look-up.
    names: Mutex<Names>,
    /// What earlier attempts left on record, read when first needed.
    record: OnceCell<Arc<Record>>,
    /// What this worker knows of the records of jobs that waited; none outside of a worker.
    recall: Option<Arc<Recall>>,
    /// The newest checkpoint; a blocking lock, held for an assignment.
    checkpoint: Mutex<Option<Payload>>,
    /// Whether this attempt spawned a child that no earlier one had.
    added_children: AtomicBool,
    /// Whether a transaction of the handler's own locked the job, and nothing shows yet that it has ended.
    locked_by_handler: AtomicBool,
    /// The job that undoes this one, once it is there.
    undo_planned: OnceCell<()>,
    /// Whether it only plays back what is on record of a job that has ended.
    is_replay: bool,
}

impl Attempt {
    pub(crate) fn new(source: Arc<dyn Work>, claimed: Claimed, began: Option<Instant>) -> Self {
        Self::knowing(source, claimed, began, None)
    }

    /// An attempt of a worker that keeps the records of jobs that wait.
    pub(crate) fn knowing(
        source: Arc<dyn Work>,
        claimed: Claimed,
        began: Option<Instant>,
        recall: Option<Arc<Recall>>,
    ) -> Self {
        let control = Control::new(claimed.job.cancel_requested_at.is_some());
        Self::over(source, claimed, began, control, None, recall)
    }

    /// An attempt that plays back what is on record of a job that has ended, and does nothing.
    pub(crate) fn of_record(
        source: Arc<dyn Work>,
        claimed: Claimed,
        began: Option<Instant>,
        record: Record,
    ) -> Self {
        // Nobody stops it: a handler that looked for a cancel would not come to all that was done.
        Self::over(source, claimed, began, Control::new(false), Some(record), None)
    }

    fn over(
        source: Arc<dyn Work>,
        claimed: Claimed,
        began: Option<Instant>,
        control: Control,
        replayed: Option<Record>,
        recall: Option<Arc<Recall>>,
    ) -> Self {
        let is_replay = replayed.is_some();
        let record = OnceCell::new_with(replayed.map(Arc::new));
        let checkpoint = Mutex::new(claimed.checkpoint.clone());
        let names = Mutex::default();
        let (added_children, locked_by_handler) = (AtomicBool::new(false), AtomicBool::new(false));
        let inner = Inner {
            source,
            claimed,
            began,
            control,
            names,
            record,
            recall,
            checkpoint,
            added_children,
            locked_by_handler,
            undo_planned: OnceCell::new(),
            is_replay,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The job's identity.
    pub fn job_id(&self) -> JobId {
        self.claimed().job.id
    }

    /// Where the job stood when it was claimed.
    pub fn job(&self) -> &Job {
        &self.claimed().job
    }

    /// What never changes about it.
    pub fn facts(&self) -> &Facts {
        &self.claimed().facts
    }

    /// What to do.
    pub fn kind(&self) -> &Name {
        &self.claimed().job.kind
    }

    /// What to work on.
    pub fn payload(&self) -> Option<&Payload> {
        self.claimed().payload.as_ref()
    }

    /// The job's metadata when it was claimed.
    pub fn metadata(&self) -> &Metadata {
        &self.claimed().metadata
    }

    /// The fence: it grows with every execution over the job's whole life, and is higher after the store was restored than
    /// ever before, though the attempts that the restore forgot are counted again. Write it beside what you change elsewhere,
    /// and refuse a smaller one there.
    pub fn fence(&self) -> i64 {
        self.claimed().lease.fence
    }

    /// Which execution of the job this is, from 1 on.
    pub fn number(&self) -> i32 {
        self.claimed().lease.attempt
    }

    /// What proves this attempt's lease, for programs that act for it.
    pub fn lease_token(&self) -> Token {
        self.claimed().lease.token
    }

    /// Who runs it.
    pub fn worker(&self) -> &Who {
        &self.claimed().lease.worker
    }

    /// How the job's last wait ended, when that is why it runs.
    pub fn wake(&self) -> Option<&Wake> {
        self.claimed().wake.as_ref()
    }

    /// The newest checkpoint, of an earlier attempt or of this one.
    pub fn checkpoint_value(&self) -> Option<Payload> {
        self.inner.checkpoint.lock().ok().and_then(|kept| kept.clone())
    }

    /// The store's time, as far as this process can tell: the claim's moment and what has passed since.
    pub fn now(&self) -> Timestamp {
        let started_at = self.job().started_at.unwrap_or(self.job().updated_at);
        let passed = self.inner.began.map_or(Duration::ZERO, |began| began.elapsed());
        let passed = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(started_at.as_micros().saturating_add(passed))
    }

    /// Whether it only plays back what is on record of a job that has ended: see [`Attempt::replay`].
    pub fn is_replay(&self) -> bool {
        self.inner.is_replay
    }

    pub(crate) fn undo_planned(&self) -> &OnceCell<()> {
        &self.inner.undo_planned
    }

    pub(crate) fn shared_source(&self) -> &Arc<dyn Work> {
        &self.inner.source
    }

    /// Where the job is, with the verbs that a worker has.
    pub(crate) fn source(&self) -> &dyn Work {
        &*self.inner.source
    }

    /// Whether somebody wants the job stopped.
    pub fn is_cancelled(&self) -> bool {
        self.control().is_cancelled()
    }

    /// Waits until somebody wants the job stopped. A handler that then returns [`HandlerError::cancelled`] stops in
    /// its own time; one that does not is dropped after the worker's cancel grace.
    pub async fn cancelled(&self) {
        self.control().until(|c| c.is_cancelled().then_some(())).await;
    }

    /// Whether the worker is about to end.
    pub fn is_stopping(&self) -> bool {
        self.control().is_stopping()
    }

    /// Waits until the worker is about to end: time to write a checkpoint and return [`HandlerError::snooze`].
    /// Whoever does not is dropped at the deadline and given back without using a retry.
    pub async fn stopping(&self) {
        self.control().until(|c| c.is_stopping().then_some(())).await;
    }

    pub(crate) fn claimed(&self) -> &Claimed {
        &self.inner.claimed
    }

    /// When this process learned of the claim.
    pub(crate) fn known_since(&self) -> Option<Instant> {
        self.inner.began
    }

    pub(crate) fn control(&self) -> &Control {
        &self.inner.control
    }

    pub(crate) fn names(&self) -> &Mutex<Names> {
        &self.inner.names
    }

    pub(crate) fn record(&self) -> &OnceCell<Arc<Record>> {
        &self.inner.record
    }

    pub(crate) fn recall(&self) -> Option<&Recall> {
        self.inner.recall.as_deref()
    }

    pub(crate) fn add_children(&self) {
        self.inner.added_children.store(true, Ordering::Release);
    }

    /// Whether this attempt spawned a child that no earlier one had.
    pub fn has_added_children(&self) -> bool {
        self.inner.added_children.load(Ordering::Acquire)
    }

    pub(crate) fn keep_checkpoint(&self, checkpoint: Payload) {
        if let Ok(mut kept) = self.inner.checkpoint.lock() {
            *kept = Some(checkpoint);
        }
    }

    /// Says that a transaction of the handler's own locks the job from now on, until it ends. A verb that then finds the job
    /// locked is refused at once with the code `job_busy`: to ask again would be to wait for itself.
    pub fn lock_by_handler(&self) {
        self.inner.locked_by_handler.store(true, Ordering::Release);
    }

    /// Calls a verb of the store, with the very same request again while the store does not answer. Without the store
    /// nobody renews the lease either, so an outage that is longer than the lease ends the attempt before this gives up.
    pub async fn call<T, Fut>(&self, verb: impl FnMut() -> Fut) -> Result<T, HandlerError>
    where
        Fut: Future<Output = StoreResult<T>>,
    {
        if self.control().is_gone() {
            return Err(self.ended().await);
        }
        self.call_on(self.job_id(), verb).await.map_err(|error| match error {
            StoreError::Busy(_) if self.is_locked_by_handler() => self.locks_itself(),
            StoreError::Unsupported(_) => HandlerError::permanent(error).code("unsupported"),
            error => error.into(),
        })
    }

    /// As [`Attempt::call`], for a verb on any job, with the store's own word when it fails.
    pub async fn call_on<T, Fut>(&self, job: JobId, verb: impl FnMut() -> Fut) -> StoreResult<T>
    where
        Fut: Future<Output = StoreResult<T>>,
    {
        let is_own_lock = |error: &StoreError| {
            matches!(error, StoreError::Busy(_)) && job == self.job_id() && self.is_locked_by_handler()
        };
        // Twice: whoever holds a lease is dropped with it before this gives up, and its budget is not used.
        repeat_unless(2 * self.leased_for(), is_own_lock, verb).await
    }

    /// Whether the handler is still there.
    pub fn is_running(&self) -> bool {
        !self.control().is_gone()
    }

    fn is_locked_by_handler(&self) -> bool {
        self.inner.locked_by_handler.load(Ordering::Acquire)
    }

    fn locks_itself(&self) -> HandlerError {
        let message = format!(
            "job {} is locked, as it seems by this handler's own transaction (assert_lease and complete_in lock it); commit \
             or roll back before you call ctx again",
            self.job_id()
        );
        HandlerError::retry(message).code("job_busy")
    }

    /// How long the store gave the lease for.
    pub fn leased_for(&self) -> Duration {
        let (lease, job) = (&self.claimed().lease, self.job());
        let micros = job.started_at.map(|at| lease.expires_at.as_micros().saturating_sub(at.as_micros()));
        let given = micros.and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros);
        given.unwrap_or(Duration::from_millis(LeaseMs::DEFAULT.get().unsigned_abs()))
    }

    /// What the store answered about this attempt: a lost lease ends it here and now.
    pub(crate) async fn held<T>(&self, what: &str, answer: Result<T, Refusal>) -> Result<T, HandlerError> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(refusal) if is_loss(&refusal) => {
                self.control().move_to(Standing::Lost);
                Err(self.ended().await)
            }
            Err(refusal) => Err(HandlerError::refused(what, &refusal)),
        }
    }

    /// Never comes back to the handler, which is dropped meanwhile; a task that it left behind is told.
    pub(crate) async fn ended(&self) -> HandlerError {
        self.control().left().await;
        let message = format!(
            "attempt {} of job {} has ended; what it left behind must end too",
            self.number(),
            self.job_id()
        );
        HandlerError::permanent(message).code("attempt_ended")
    }

    /// As [`Attempt::held`], for verbs that tell whether to stop.
    pub(crate) async fn told(
        &self,
        what: &str,
        answer: Result<HolderReply, Refusal>,
    ) -> Result<HolderReply, HandlerError> {
        let told = self.held(what, answer).await?;
        // The row was written, so nobody's transaction keeps it locked any more.
        self.inner.locked_by_handler.store(false, Ordering::Release);
        if told.cancel_requested {
            self.control().cancel();
        }
        Ok(told)
    }
}

/// Whether a refusal means that somebody else may hold the job, or nobody.
pub(crate) fn is_loss(refusal: &Refusal) -> bool {
    use Refusal::{Expired, Finished, Mismatch, NotFound, NotLeased};
    matches!(refusal, NotFound | Finished(_) | NotLeased(_) | Expired | Mismatch)
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (job, kind, number) = (self.job_id(), self.kind(), self.number());
        f.debug_struct("Attempt").field("job", &job).field("kind", kind).field("number", &number).finish()
    }
}
