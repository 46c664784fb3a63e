//! What a handler is given beside its job: the attempt, the program's own state, and the verbs of a durable run.
//!
//! The verbs are in files of their own: `step`, `tool`, `pause` (sleep and signals), `approve`, `spawn`, `tx`.

use crate::client::Client;
use crate::saga::Undos;
use crate::value::{encode, named, read};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use windlass_core::limits::EVENT_PAYLOAD_MAX_BYTES;
use windlass_core::{JobId, Metadata, Timestamp, Token, Version, Wake};
use windlass_engine::{Attempt, HandlerError, Report};

/// One attempt of one job, with the state that [`Worker::state`](crate::Worker::state) was given. Cheap to clone.
///
/// A verb whose answer was lost is asked again by itself. A verb that finds the lease lost, and a wait that is not over,
/// never come back: the handler's future is dropped there, so nothing that follows in it runs.
pub struct Context<S = ()> {
    pub(crate) attempt: Attempt,
    pub(crate) state: Arc<S>,
    pub(crate) client: Client,
    /// Whether the attempt was completed inside the handler's own transaction.
    pub(crate) completed: Arc<AtomicBool>,
    /// What can be undone of it.
    pub(crate) undos: Undos,
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        Self {
            attempt: self.attempt.clone(),
            state: Arc::clone(&self.state),
            client: self.client.clone(),
            completed: Arc::clone(&self.completed),
            undos: self.undos.clone(),
        }
    }
}

impl<S> std::fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

impl<S> Context<S> {
    pub(crate) fn new(attempt: Attempt, state: Arc<S>, client: Client) -> Self {
        let client = client.of(&attempt);
        Self { attempt, state, client, completed: Arc::default(), undos: Undos::default() }
    }

    /// The program's own state, as the worker was given it.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// A client to the store that the job is in.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The attempt itself, untyped: what never changes about the job, and the verbs on bytes.
    pub fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// The job's identity.
    pub fn id(&self) -> JobId {
        self.attempt.job_id()
    }

    /// The fence: it grows with every execution over the job's whole life, and is higher after the store was restored than
    /// ever before, though the attempts that the restore forgot are counted again. Write it beside what you change elsewhere,
    /// and refuse a smaller one there; then a worker that lost its lease changes nothing.
    pub fn fence(&self) -> i64 {
        self.attempt.fence()
    }

    /// What proves this attempt's lease, for programs that act for it: `.to_text()` gives what the SQL functions take.
    pub fn lease_token(&self) -> Token {
        self.attempt.lease_token()
    }

    /// Whose job it is: the key it was enqueued with.
    pub fn key(&self) -> Option<&str> {
        self.attempt.facts().key.as_ref().map(|key| key.as_str())
    }

    /// The job's metadata when it was claimed.
    pub fn metadata(&self) -> &Metadata {
        self.attempt.metadata()
    }

    /// How the job's last wait ended, when that is why it runs.
    pub fn wake(&self) -> Option<&Wake> {
        self.attempt.wake()
    }

    /// The store's time, as far as this process can tell.
    pub fn now(&self) -> Timestamp {
        self.attempt.now()
    }

    /// Whether somebody wants the job stopped.
    pub fn is_cancelled(&self) -> bool {
        self.attempt.is_cancelled()
    }

    /// Waits until somebody wants the job stopped. A handler that then returns [`HandlerError::cancelled`] stops in its own
    /// time; one that does not is dropped a little later.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError};
    /// # async fn long_work() -> Result<u32, std::io::Error> { Ok(1) }
    /// async fn handle(ctx: Context) -> Result<u32, HandlerError> {
    ///     tokio::select! {
    ///         done = long_work() => Ok(done?),
    ///         () = ctx.cancelled() => Err(HandlerError::cancelled()),
    ///     }
    /// }
    /// ```
    pub async fn cancelled(&self) {
        self.attempt.cancelled().await;
    }

    /// Whether the worker is about to end.
    pub fn is_stopping(&self) -> bool {
        self.attempt.is_stopping()
    }

    /// Waits until the worker is about to end: time for a checkpoint and [`HandlerError::snooze`]. Whoever does not stop
    /// is dropped at the worker's deadline, and the job is given back without using a retry.
    pub async fn stopping(&self) {
        self.attempt.stopping().await;
    }

    /// Reports how far it is, 0 to 100, and where, for people who look.
    pub async fn progress(&self, percent: u8, stage: &str) -> Result<(), HandlerError> {
        let stage = (!stage.is_empty()).then_some(stage);
        self.attempt.progress(i64::from(percent), stage).await
    }

    /// What this handler calls takes no more before a while is over, such as an answer 429 with `Retry-After`. Return it as
    /// the handler's error: the job comes back then, without using a retry, and until then no job of the same key starts, or
    /// of the same queue if this job has no key. At most a day.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError};
    /// # use std::time::Duration;
    /// # fn answered(ctx: &Context, retry_after: Duration) -> Result<(), HandlerError> {
    /// return Err(ctx.rate_limited(retry_after));
    /// # }
    /// ```
    pub fn rate_limited(&self, after: Duration) -> HandlerError {
        HandlerError::rate_limited(after)
    }

    /// Charges units of the rates of this job's key and queue beside those it was started for: what the work turned out to
    /// cost, such as the tokens of an answer. Nothing more of them starts before that is paid.
    pub async fn charge(&self, units: u32) -> Result<(), HandlerError> {
        self.attempt.charge(i32::try_from(units).unwrap_or(i32::MAX)).await
    }

    /// Merges a value into the job's metadata.
    pub async fn set_metadata(&self, key: &str, value: impl Serialize) -> Result<(), HandlerError> {
        let wrong = |e: serde_json::Error| {
            HandlerError::permanent(format!("metadata {key} is not JSON: {e}")).code("invalid")
        };
        let value = serde_json::to_value(value).map_err(wrong)?;
        let metadata = Some(Metadata::from_iter([(key.to_owned(), value)]));
        self.attempt.report(Report { metadata, ..Report::default() }).await
    }

    /// Keeps a value for the next attempt of this job, which finds it with [`Context::checkpoint_value`]. The last one counts.
    ///
    /// For work that has no natural steps, such as reading a long list; [`Context::step`] is simpler where it fits.
    pub async fn checkpoint(&self, value: &impl Serialize) -> Result<(), HandlerError> {
        let payload = encode("the checkpoint", value, self.client.inner.limits.result_bytes)?;
        self.attempt.checkpoint(payload).await
    }

    /// The newest checkpoint, of an earlier attempt or of this one.
    pub fn checkpoint_value<T: DeserializeOwned>(&self) -> Result<Option<T>, HandlerError> {
        self.attempt.checkpoint_value().map(|payload| read("the checkpoint", Some(&payload))).transpose()
    }

    /// Writes a line to the job's log.
    pub async fn log(&self, line: impl Into<String>) -> Result<(), HandlerError> {
        self.attempt.log(vec![line.into()]).await
    }

    /// Notes an event of your own type in the job's history, such as `plan_generated`, and answers its version.
    pub async fn note(&self, type_name: &str, payload: &impl Serialize) -> Result<Version, HandlerError> {
        let type_name = named("event type", type_name)?;
        let payload = encode(&format!("event {type_name}"), payload, EVENT_PAYLOAD_MAX_BYTES)?;
        self.attempt.note(&type_name, Some(payload)).await
    }
}
