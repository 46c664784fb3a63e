//! Durable steps: recorded once; later attempts get the record.

use crate::context::Context;
use crate::saga::Undo;
use crate::value::{encode, named, read};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use windlass_core::limits::EVENT_PAYLOAD_MAX_BYTES;
use windlass_core::step::{RecordedStep, StepRun, StepState};
use windlass_core::undo::Undoes;
use windlass_core::{Backoff, Name, Payload};
use windlass_engine::HandlerError;

/// The event that says that a step failed and is tried again within its attempt.
const RETRIED: &str = "step_retried";

impl<S: Send + Sync + 'static> Context<S> {
    /// Does something once: runs `work` and records its value under `name`; a later attempt of the job gets the recorded
    /// value and does not run it again. It runs again only if its process died before the record, or if it failed.
    ///
    /// Steps are found by name, in any order and number. A name used twice in one attempt is an error; in a loop, put what is
    /// looped over into the name. For calls to the outside that must not be repeated blindly see [`Context::tool`].
    ///
    /// ```
    /// # use windlass::{Backoff, Context, HandlerError};
    /// # use std::time::Duration;
    /// # async fn fetch(page: u32) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// async fn handle(ctx: Context) -> Result<usize, HandlerError> {
    ///     let mut length = 0;
    ///     for page in 1..=3 {
    ///         let text = ctx
    ///             .step(&format!("fetch-{page}"), || fetch(page))
    ///             .timeout(Duration::from_secs(10))
    ///             .retry(Backoff::default(), 5)
    ///             .await?;
    ///         length += text.len();
    ///     }
    ///     Ok(length)
    /// }
    /// ```
    pub fn step<'a, T, E, F, Fut>(&'a self, name: &str, mut work: F) -> Step<'a, S, T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Into<HandlerError> + 'a,
        F: FnMut() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        let work: Work<'a, T> = Box::new(move || {
            let tried = work();
            Box::pin(async move { tried.await.map_err(Into::into) })
        });
        let plan =
            Plan { ctx: self, name: named("step", name), work, timeout: None, retry: None, undo: None };
        Step { plan: Some(plan), running: None }
    }
}

type Work<'a, T> = Box<dyn FnMut() -> BoxFuture<'a, Result<T, HandlerError>> + Send + 'a>;

/// A step, which runs when awaited. Made by [`Context::step`].
#[must_use = "nothing runs before it is awaited"]
pub struct Step<'a, S, T> {
    plan: Option<Plan<'a, S, T>>,
    running: Option<BoxFuture<'a, Result<T, HandlerError>>>,
}

/// What a step is.
struct Plan<'a, S, T> {
    ctx: &'a Context<S>,
    name: Result<Name, HandlerError>,
    work: Work<'a, T>,
    timeout: Option<Duration>,
    retry: Option<(Backoff, u32)>,
    undo: Option<(Result<Name, HandlerError>, Undo<T>)>,
}

impl<'a, S, T> Step<'a, S, T> {
    fn plan(mut self, change: impl FnOnce(&mut Plan<'a, S, T>)) -> Self {
        if let Some(plan) = &mut self.plan {
            change(plan);
        }
        self
    }

    /// How long one try of it may take. What takes longer has failed with the code `step_timed_out`.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.plan(|plan| plan.timeout = Some(timeout))
    }

    /// Tries it again within the attempt, up to so many times more; each failure is noted in the job's history. The worker
    /// keeps the job meanwhile, so this is for seconds; the job's own retries are for what takes longer.
    pub fn retry(self, backoff: Backoff, times: u32) -> Self {
        self.plan(|plan| plan.retry = Some((backoff, times)))
    }

    /// Undoes it when the job ends in any way but completed: `undo` gets the step's value. What was done last is undone first.
    ///
    /// Before the step begins, a job of the kind `<kind>:undo` is enqueued behind this one. It is skipped when this one
    /// completes. Else any worker with this handler runs it: the handler is played back on what is on record, up to the last
    /// step that can be undone, and then each undo is a step of that job, by its name. So it makes no difference who ended the
    /// job and how: its handler, a panic, a timeout, a crash, a cancel or a denial while it waits. An undo that fails is tried
    /// again by that job's own retries.
    ///
    /// A job that is redriven does not find a step done that was undone: it fails with the code `step_undone`. Redrive it from
    /// the start.
    pub fn undo<E, U, Fut>(self, name: &str, undo: U) -> Self
    where
        E: Into<HandlerError> + 'static,
        U: FnOnce(T) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        let undo: Undo<T> = Box::new(move |value| {
            let undone = undo(value);
            Box::pin(async move { undone.await.map_err(Into::into) })
        });
        self.plan(|plan| plan.undo = Some((named("undo", name), undo)))
    }
}

/// One try, within its time.
async fn within<T>(
    name: &Name,
    timeout: Option<Duration>,
    work: BoxFuture<'_, Result<T, HandlerError>>,
) -> Result<T, HandlerError> {
    let Some(limit) = timeout else { return work.await };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("step {name} took longer than {limit:?}");
        Err(HandlerError::in_doubt(message).code("step_timed_out"))
    })
}

/// What is on record of a step that can be undone: in a replay it is kept for that.
fn may_be_undone<S, T: DeserializeOwned + Send + 'static>(
    ctx: &Context<S>,
    step: &RecordedStep,
    undo_name: Name,
    undo: Undo<T>,
) -> Result<(), HandlerError> {
    match step.run {
        StepRun::Earlier => {
            let message = format!(
                "step {} was handed to undoing when the job ended before; redrive the job from the start",
                step.name
            );
            return Err(HandlerError::permanent(message).code("step_undone"));
        }
        StepRun::This if ctx.attempt.is_replay() => {
            // The undo has a value of its own, so that the type need not be Clone.
            ctx.undos.add(step.name.clone(), step.version, undo_name, ended(step)?, undo);
        }
        StepRun::This | StepRun::Original => {}
    }
    Ok(())
}

async fn note<S>(
    ctx: &Context<S>,
    name: &Name,
    tried: u32,
    error: &HandlerError,
) -> Result<(), HandlerError> {
    let message: String = error.message().chars().take(1_000).collect();
    let said =
        serde_json::json!({ "name": name, "try": tried, "code": error.error_code(), "message": message });
    let payload = encode("the error", &said, EVENT_PAYLOAD_MAX_BYTES)?;
    ctx.attempt.note(&named("event type", RETRIED)?, Some(payload)).await.map(|_| ())
}

impl<S: Send + Sync + 'static, T: Serialize + DeserializeOwned + Send + 'static> Plan<'_, S, T> {
    /// The recorded value, or what the work gives, which is recorded.
    async fn run(mut self) -> Result<T, HandlerError> {
        let (ctx, name) = (self.ctx, self.name.clone()?);
        ctx.attempt.take_name(&name)?;
        let undo = match self.undo.take() {
            Some((undo_name, undo)) => Some((undo_name?, undo)),
            None => None,
        };
        let mut mark = None;
        if let Some((undo_name, _)) = &undo {
            ctx.undos.take_name(undo_name)?;
            mark = Some(Undoes::mark(undo_name).map_err(HandlerError::permanent)?);
        }
        let known = ctx.attempt.recorded(&name).await?;
        match known.filter(|step| matches!(step.state, StepState::Ended { .. })) {
            Some(step) => {
                if let Some((undo_name, undo)) = undo {
                    may_be_undone(ctx, &step, undo_name, undo)?;
                }
                ended(&step)
            }
            None => {
                let _open = ctx.attempt.open_step();
                let done = async {
                    if mark.is_some() {
                        ctx.attempt.plan_undo().await?;
                    }
                    ctx.attempt.step_started(&name, false, mark).await?;
                    let value = self.tries(&name).await?;
                    let max = ctx.client.inner.limits.result_bytes;
                    let payload = encode_checked(&format!("the value of step {name}"), &value, max)?;
                    ctx.attempt.step_finished(&name, false, Some(payload)).await?;
                    Ok(value)
                };
                ctx.attempt.traced("step", &name, done).await
            }
        }
    }

    /// Does the work, as often as it may fail.
    async fn tries(&mut self, name: &Name) -> Result<T, HandlerError> {
        let (backoff, times) = self.retry.unwrap_or_default();
        let mut tried = 0;
        loop {
            let error = match within(name, self.timeout, (self.work)()).await {
                Err(error) if tried < times && !error.is_final() => error,
                end => return end,
            };
            note(self.ctx, name, tried + 1, &error).await?;
            let n = i32::try_from(tried).unwrap_or(i32::MAX);
            let delay = backoff.delay_ms(n, self.ctx.id(), self.ctx.attempt().number());
            tokio::time::sleep(Duration::from_millis(u64::try_from(delay).unwrap_or(0))).await;
            tried += 1;
        }
    }
}

impl<S: Send + Sync + 'static, T: Serialize + DeserializeOwned + Send + 'static> Future for Step<'_, S, T> {
    type Output = Result<T, HandlerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        if let Some(plan) = self.plan.take() {
            self.running = Some(Box::pin(plan.run()));
        }
        match &mut self.running {
            Some(running) => running.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

// Nothing in it is pinned in place: what runs stands in a box.
impl<S, T> Unpin for Step<'_, S, T> {}

impl<S, T> std::fmt::Debug for Step<'_, S, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.plan.as_ref().map(|plan| &plan.name);
        f.debug_struct("Step").field("name", &name).finish_non_exhaustive()
    }
}

/// The bytes of a value that a later attempt reads back. What does not read back is refused now, while somebody looks.
pub(crate) fn encode_checked<T: Serialize + DeserializeOwned>(
    what: &str,
    value: &T,
    max: usize,
) -> Result<Payload, HandlerError> {
    let payload = encode(what, value, max)?;
    read::<T>(what, Some(&payload)).map_err(|e| {
        let message =
            format!("{e}; a later attempt could not read it, so it is not recorded: change the type");
        HandlerError::permanent(message).code("step_unreadable")
    })?;
    Ok(payload)
}

/// The value that is on record for a step or tool that ended.
pub(crate) fn ended<T: DeserializeOwned>(step: &RecordedStep) -> Result<T, HandlerError> {
    let value = match &step.state {
        StepState::Ended { value } => value.as_ref(),
        StepState::Begun { .. } => None,
    };
    let what = format!("the value on record for step {}", step.name);
    read(&what, value).map_err(|e| {
        let message = format!("{e}; rename the step to do it anew, or let the type read what was written");
        HandlerError::permanent(message).code("step_unreadable")
    })
}
