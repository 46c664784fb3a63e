//! Undoing what a job did, in reverse order, when it fails for good or stops because of a cancel.

use crate::context::Context;
use crate::value::encode;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};
use windlass_core::Name;
use windlass_core::limits::EVENT_PAYLOAD_MAX_BYTES;
use windlass_core::step::StepState;
use windlass_engine::{HandlerError, Then};

/// Undoes a step, given its value.
pub(crate) type Undo<T> = Box<dyn FnOnce(T) -> BoxFuture<'static, Result<(), HandlerError>> + Send>;

type Undoing = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), HandlerError>> + Send>;

/// What an attempt would have to undo, in the order it was done.
#[derive(Clone, Default)]
pub(crate) struct Undos(Arc<Mutex<Vec<(Name, Undoing)>>>);

impl Undos {
    pub(crate) fn add<T: Send + 'static>(&self, name: Name, value: T, undo: Undo<T>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, Box::new(move || undo(value))));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take_last(&self) -> Option<(Name, Undoing)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Runs a handler. If the job is about to end in a failure or a cancel, what it did is undone first.
pub(crate) async fn run<S: Send + Sync + 'static, T>(
    ctx: &Context<S>,
    handler: impl Future<Output = Result<T, HandlerError>>,
) -> Result<T, HandlerError> {
    let stopped = async {
        ctx.cancelled().await;
        if ctx.undos.is_empty() {
            // Nothing to undo: the handler stops in its own time, or is dropped.
            std::future::pending::<()>().await;
        }
    };
    let error = tokio::select! {
        biased;
        end = handler => match end {
            Err(error) if ends_job(ctx, &error) => error,
            end => return end,
        },
        () = stopped => HandlerError::cancelled(),
    };
    undo_all(ctx).await?;
    Err(error)
}

/// Whether no other attempt follows this error.
fn ends_job<S>(ctx: &Context<S>, error: &HandlerError) -> bool {
    let job = ctx.attempt.job();
    match error.then() {
        Then::Permanent | Then::Cancelled => true,
        Then::Retry | Then::RetryAt(_) => job.retries >= job.max_retries,
        _ => false,
    }
}

/// Undoes what was done, last first. One that fails does not keep the others from being undone, and stands in the history.
async fn undo_all<S: Send + Sync + 'static>(ctx: &Context<S>) -> Result<(), HandlerError> {
    while let Some((name, undo)) = ctx.undos.take_last() {
        ctx.attempt.take_name(&name)?;
        let known = ctx.attempt.recorded(&name).await?;
        if known.is_some_and(|step| matches!(step.state, StepState::Ended { .. })) {
            continue;
        }
        ctx.attempt.step_started(&name, false, None).await?;
        match undo().await {
            Ok(()) => ctx.attempt.step_finished(&name, false, None).await?,
            Err(error) => {
                let said = serde_json::json!({ "name": name, "code": error.error_code(), "message": error.message() });
                let payload = encode("the error", &said, EVENT_PAYLOAD_MAX_BYTES)?;
                ctx.attempt.note(&crate::value::named("event type", "undo_failed")?, Some(payload)).await?;
            }
        }
    }
    Ok(())
}
