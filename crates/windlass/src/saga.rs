//! Undoing what a job did. A job that is about to do something undoable gets a job behind it that runs when it ends badly:
//! that one plays the handler back on what is on record, and undoes what it came past, last first.

use crate::context::Context;
use crate::value::{encode, named};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::{BTreeSet, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use windlass_core::limits::EVENT_PAYLOAD_MAX_BYTES;
use windlass_core::step::StepState;
use windlass_core::{Name, Version};
use windlass_engine::{Attempt, HandlerError};

/// How long a handler that is played back may stand at something that is not on record while another of its branches has
/// still to come to a step that is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Undoes a step, given its value.
pub(crate) type Undo<T> = Box<dyn FnOnce(T) -> BoxFuture<'static, Result<(), HandlerError>> + Send>;

type Undoing = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), HandlerError>> + Send>;

/// A step that a replay came past, and what undoes it.
struct Done {
    step: Name,
    /// The event that ended it.
    version: Version,
    undo: Name,
    undoing: Undoing,
}

/// What can be undone of an attempt.
#[derive(Clone, Default)]
pub(crate) struct Undos(Arc<Kept>);

#[derive(Default)]
struct Kept {
    /// Names of undos that this attempt has used. A blocking lock, held for a look-up.
    names: Mutex<HashSet<Name>>,
    /// A blocking lock, held for a push.
    done: Mutex<Vec<Done>>,
    added: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Undos {
    /// Takes the name of an undo: it is a step of the job that undoes, where a name serves once.
    pub(crate) fn take_name(&self, name: &Name) -> Result<(), HandlerError> {
        if lock(&self.0.names).insert(name.clone()) {
            return Ok(());
        }
        let message = format!("undo name {name} was used twice in one attempt; give each its own name");
        Err(HandlerError::permanent(message).code("name_used_twice"))
    }

    /// Keeps what undoes a step that is on record.
    pub(crate) fn add<T: Send + 'static>(
        &self,
        step: Name,
        version: Version,
        undo: Name,
        value: T,
        with: Undo<T>,
    ) {
        lock(&self.0.done).push(Done { step, version, undo, undoing: Box::new(move || with(value)) });
        self.0.added.notify_waiters();
    }

    /// Those of these steps that the replay did not come to.
    fn missing(&self, steps: &BTreeSet<Name>) -> Vec<Name> {
        let done = lock(&self.0.done);
        steps.iter().filter(|name| !done.iter().any(|done| done.step == **name)).cloned().collect()
    }

    /// Waits until the replay has come to all of these.
    async fn all(&self, steps: &BTreeSet<Name>) {
        loop {
            let mut added = std::pin::pin!(self.0.added.notified());
            added.as_mut().enable();
            if self.missing(steps).is_empty() {
                return;
            }
            added.await;
        }
    }

    /// All of them, what was done last first.
    fn take(&self) -> Vec<Done> {
        let mut done = std::mem::take(&mut *lock(&self.0.done));
        done.sort_by_key(|done| std::cmp::Reverse(done.version));
        done
    }
}

/// Undoes these steps of an ended job. `ctx` is its replay, `handler` its handler on that, and `own` the attempt of the job
/// that undoes: every undo is a step of it.
///
/// Nothing is undone before the replay has come to all of them, for what was done last is undone first. An attempt whose
/// replay does not is tried again, as a handler's failure between two steps may pass; the last undoes what it can.
pub(crate) async fn unwind<S: Send + Sync + 'static, T>(
    own: &Attempt,
    ctx: &Context<S>,
    undoable: &BTreeSet<Name>,
    handler: impl Future<Output = Result<T, HandlerError>>,
) -> Result<(), HandlerError> {
    let stopped = play_back(ctx, undoable, handler).await;
    ctx.attempt.end_replay();
    let missing = ctx.undos.missing(undoable);
    let is_last = own.job().retries >= own.job().max_retries;
    if missing.is_empty() || is_last {
        undo_all(own, ctx.undos.take()).await?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<&str> = missing.iter().map(Name::as_str).collect();
    let message = format!("the handler did not come to {} again: {stopped}", missing.join(", "));
    Err(HandlerError::retry(message).code("undo_incomplete"))
}

/// Runs a handler on what is on record until it has come to all these steps, and answers what stopped it if it did not.
async fn play_back<S: Send + Sync + 'static, T>(
    ctx: &Context<S>,
    undoable: &BTreeSet<Name>,
    handler: impl Future<Output = Result<T, HandlerError>>,
) -> String {
    let stuck = async {
        ctx.attempt.stood_still().await;
        tokio::time::sleep(PATIENCE).await;
    };
    tokio::select! {
        biased;
        () = ctx.undos.all(undoable) => String::new(),
        end = AssertUnwindSafe(handler).catch_unwind() => match end {
            Ok(Ok(_)) => "it returned".to_owned(),
            Ok(Err(error)) => error.message().to_owned(),
            Err(_) => "it panicked".to_owned(),
        },
        () = stuck => "it stands at something that is not on record".to_owned(),
    }
}

/// Undoes what was done, last first. One that fails does not keep the others from being undone, and stands in the history;
/// the next attempt tries those again that are not on record.
async fn undo_all(own: &Attempt, done: Vec<Done>) -> Result<(), HandlerError> {
    let (mut failed, mut may_pass) = (Vec::new(), false);
    for Done { undo: name, undoing, .. } in done {
        own.take_name(&name)?;
        let known = own.recorded(&name).await?;
        if known.is_some_and(|step| matches!(step.state, StepState::Ended { .. })) {
            continue;
        }
        own.step_started(&name, false, None).await?;
        let undone = AssertUnwindSafe(async { undoing().await }).catch_unwind();
        let undone = own.traced("undo", &name, async {
            undone.await.unwrap_or_else(|_| Err(HandlerError::retry("it panicked").code("panicked")))
        });
        match undone.await {
            Ok(()) => own.step_finished(&name, false, None).await?,
            Err(error) => {
                let message: String = error.message().chars().take(1_000).collect();
                let said =
                    serde_json::json!({ "name": name, "code": error.error_code(), "message": message });
                let payload = encode("the error", &said, EVENT_PAYLOAD_MAX_BYTES)?;
                own.note(&named("event type", "undo_failed")?, Some(payload)).await?;
                may_pass |= !error.is_permanent();
                failed.push(format!("{name}: {message}"));
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let message = failed.join("; ");
    let error = if may_pass { HandlerError::retry(message) } else { HandlerError::permanent(message) };
    Err(error.code("undo_failed"))
}
