//! One attempt, from its start to its outcome: the handler runs until it returns, waits, is told to stop, or is lost.

use crate::attempt::Attempt;
use crate::control::{Control, Standing};
use crate::error::{HandlerError, failure};
use crate::handler::Handler;
use crate::task::panic_message;
use crate::trace;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tower::ServiceExt;
use tracing::Instrument;
use windlass_core::outcome::Found;
use windlass_core::{Backoff, Outcome, Payload, RunAt, Wait};
use windlass_store::{Claimed, Store, work};

/// What bounds an attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    /// When it has taken too long, as the store knows too.
    pub(crate) timeout_at: Option<Instant>,
    /// How long its handler may take, where only this worker says so.
    pub(crate) timeout: Option<Duration>,
    /// How long a handler may go on after it was asked to stop; for ever when absent.
    pub(crate) cancel_grace: Option<Duration>,
    /// How long to wait before the next try, where the job itself does not say.
    pub(crate) backoff: Option<Backoff>,
}

impl Bounds {
    /// The bounds of a handler that begins now.
    pub(crate) fn begun(self, now: Instant) -> Self {
        let timeout_at = self.timeout.and_then(|timeout| now.checked_add(timeout));
        Self { timeout_at: self.timeout_at.or(timeout_at), ..self }
    }
}

/// Runs one claimed job to its outcome, which the caller settles; none if the lease was lost on the way and there is
/// nothing to settle.
///
/// Nothing is renewed meanwhile, no timeout is kept, and for the handler the store's time stands still at the moment of
/// the claim: this is for tests with a clock of their own.
pub async fn run_once(store: Arc<dyn Store>, claimed: Claimed, handler: &Handler) -> Option<Outcome> {
    let attempt = Attempt::new(work::on(store), claimed, None);
    drive(handler.clone(), &attempt, Bounds::default()).await
}

/// What a handler returned, or its panic.
type Returned = Result<Result<Option<Payload>, HandlerError>, Box<dyn Any + Send>>;

/// What made the runner stop looking at the handler.
enum Stop {
    Returned(Returned),
    Notified(Notice),
    TimedOut,
    NotStopped,
}

enum Notice {
    Waits(Wait),
    Cancelled,
    Gone,
}

/// Runs a handler until there is an end, and answers what to settle; nothing if the lease was lost. The handler's
/// future is dropped before this returns.
pub(crate) async fn drive(handler: Handler, attempt: &Attempt, bounds: Bounds) -> Option<Outcome> {
    let span = trace::span(attempt);
    let running = AssertUnwindSafe(handler.oneshot(attempt.clone())).catch_unwind();
    let mut running: BoxFuture<'_, _> = running.instrument(span.clone()).boxed();
    let stop = watch(&mut running, attempt, bounds).await;
    // A handler that panics while it is torn down takes nobody with it.
    let torn = catch_unwind(AssertUnwindSafe(|| drop(running)));
    if let Err(panic) = torn {
        tracing::warn!(parent: &span, panic = panic_message(&*panic), "the handler panicked while it was dropped");
    }
    attempt.control().leave();
    let outcome = conclude(stop, attempt, bounds);
    trace::ended(&span, outcome.as_ref(), attempt);
    outcome
}

async fn watch(running: &mut BoxFuture<'_, Returned>, attempt: &Attempt, bounds: Bounds) -> Stop {
    let control = attempt.control();
    let mut stop_at: Option<Instant> = None;
    let mut cancel_known = bounds.cancel_grace.is_none();
    loop {
        tokio::select! {
            biased;
            end = &mut *running => return Stop::Returned(end),
            told = control.until(|c| news(c, cancel_known)) => match told {
                Notice::Cancelled => {
                    stop_at = bounds.cancel_grace.and_then(|grace| Instant::now().checked_add(grace));
                    cancel_known = true;
                }
                told => return Stop::Notified(told),
            },
            () = at(bounds.timeout_at) => return Stop::TimedOut,
            () = at(stop_at) => return Stop::NotStopped,
        }
    }
}

fn news(control: &Control, cancel_known: bool) -> Option<Notice> {
    if control.standing() != Standing::Running {
        return Some(Notice::Gone);
    }
    if let Some(wait) = control.take_posted() {
        return Some(Notice::Waits(wait));
    }
    (!cancel_known && control.is_cancelled()).then_some(Notice::Cancelled)
}

/// Waits for a moment; for ever when there is none.
pub(crate) async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// What follows. Whoever was quicker counts: a lease that was lost stays lost, a posted wait goes before a result.
fn conclude(stop: Stop, attempt: &Attempt, bounds: Bounds) -> Option<Outcome> {
    let control = attempt.control();
    if !control.move_to(Standing::Ended) {
        return (control.standing() == Standing::GivenBack).then_some(Outcome::Release(RunAt::Now));
    }
    let outcome = match (control.take_posted(), stop) {
        (Some(wait), _) | (None, Stop::Notified(Notice::Waits(wait))) => {
            attempt.keep_record();
            Outcome::Wait(wait, Found::default())
        }
        (None, Stop::Returned(Ok(Ok(result)))) => Outcome::Complete(result),
        (None, Stop::Returned(Ok(Err(error)))) => error.into_outcome(),
        (None, Stop::Returned(Err(panic))) => {
            let message = format!("the handler panicked: {}", panic_message(&*panic));
            Outcome::Fail { error: failure("panicked", &message), permanent: false, run_at: None }
        }
        (None, Stop::TimedOut) => Outcome::TimeOut,
        (None, Stop::Notified(_) | Stop::NotStopped) => Outcome::Cancelled {
            reason: Some("the handler did not stop by itself and was dropped".to_owned()),
        },
    };
    Some(backed_off(outcome, attempt, bounds.backoff))
}

/// A retry without a time gets the one of the policy, unless the job has a backoff of its own.
fn backed_off(outcome: Outcome, attempt: &Attempt, backoff: Option<Backoff>) -> Outcome {
    match (outcome, backoff) {
        (Outcome::Fail { error, permanent: false, run_at: None }, Some(backoff)) => {
            let delay = backoff.delay_ms(attempt.job().retries, attempt.job_id(), attempt.number());
            Outcome::Fail { error, permanent: false, run_at: Some(RunAt::After(delay)) }
        }
        (outcome, _) => outcome,
    }
}
