//! What a handler says when it does not complete.

use std::error::Error;
use std::fmt;
use std::time::Duration;
use windlass_core::limits::{EVENT_PAYLOAD_MAX_BYTES, HORIZON_MS, ID_TEXT_MAX_BYTES, TEXT_MAX_BYTES};
use windlass_core::{Failure, Outcome, Refusal, RunAt, Timestamp};

/// Why a handler did not complete, and what is to follow.
///
/// Every error turns into one that is retried, so `?` does what one expects: on every [`std::error::Error`], on
/// `Box<dyn Error>`, on `anyhow::Error` and on a text. It is no [`std::error::Error`] itself, because only so can it be
/// made from all of them. For a `Box<dyn Error + Send + Sync>` there is [`HandlerError::boxed`].
///
/// ```
/// use windlass_engine::HandlerError;
/// let lost: HandlerError = std::io::Error::other("the line is dead").into();
/// assert!(!lost.is_permanent());
/// let wrong = HandlerError::permanent("no such customer").code("customer_unknown");
/// assert!(wrong.is_permanent());
/// let busy = HandlerError::retry("the mail server is busy").code("smtp_busy").details(&serde_json::json!({ "wait_s": 30 }));
/// assert_eq!(busy.error_code(), "smtp_busy");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HandlerError {
    then: Then,
    code: String,
    message: String,
    details: Option<Box<serde_json::Value>>,
    /// Whether what failed may have happened all the same.
    in_doubt: bool,
}

/// What follows when a handler did not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Then {
    /// Another try by the job's backoff, while its budget lasts.
    Retry,
    /// Another try at this time, while its budget lasts.
    RetryAt(RunAt),
    /// No other try: it is dead.
    Permanent,
    /// Not now: again at this time, without using the budget.
    Snooze(RunAt),
    /// Not now, and nothing else of its key or queue either: so many milliseconds, without using the budget.
    RateLimited(i64),
    /// It stopped because it was asked to.
    Cancelled,
}

impl HandlerError {
    fn new(then: Then, code: &str, message: String) -> Self {
        Self { then, code: code.to_owned(), message, details: None, in_doubt: false }
    }

    /// Another try by the job's backoff.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::new(Then::Retry, "failed", error.to_string())
    }

    /// Another try at a given time.
    pub fn retry_at(at: Timestamp, error: impl fmt::Display) -> Self {
        Self::new(Then::RetryAt(RunAt::At(at)), "failed", error.to_string())
    }

    /// Another try after a while.
    pub fn retry_after(after: Duration, error: impl fmt::Display) -> Self {
        Self::new(Then::RetryAt(RunAt::After(ms(after))), "failed", error.to_string())
    }

    /// No other try can help: the job is dead at once.
    pub fn permanent(error: impl fmt::Display) -> Self {
        Self::new(Then::Permanent, "failed", error.to_string())
    }

    /// Not now: again after a while, without using a retry.
    pub fn snooze(after: Duration) -> Self {
        Self::new(Then::Snooze(RunAt::After(ms(after))), "snoozed", "snoozed".to_owned())
    }

    /// What the handler calls takes no more before a while is over, such as an answer 429 with `Retry-After`: again then,
    /// without using a retry. Until then no job of this one's key starts, or of its queue if it has no key; at most a day.
    pub fn rate_limited(after: Duration) -> Self {
        Self::new(Then::RateLimited(ms(after)), "rate_limited", "rate limited".to_owned())
    }

    /// It stopped because it was asked to; see [`crate::Attempt::cancelled`].
    pub fn cancelled() -> Self {
        Self::new(Then::Cancelled, "cancelled", "stopped on request".to_owned())
    }

    /// Another try; and whether what failed happened is not known, as after a timeout of the caller's own or a broken
    /// connection. A tool call that ends in it stays in doubt. Errors of [`std::io`] that say so and the timeouts of tokio
    /// are recognised by themselves.
    pub fn in_doubt(error: impl fmt::Display) -> Self {
        Self { in_doubt: true, ..Self::retry(error) }
    }

    /// From an error in a box that can be sent, which `?` does not take.
    pub fn boxed(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::from_boxed(error)
    }

    /// Sets the code that stands beside the message: for lists and alarms, so a word that does not change.
    #[must_use]
    pub fn code(mut self, code: &str) -> Self {
        code.clone_into(&mut self.code);
        self
    }

    /// Keeps a value beside the message, for programs that read the error. One that is no JSON or takes more than 32 KiB is
    /// left out.
    #[must_use]
    pub fn details(mut self, details: &impl serde::Serialize) -> Self {
        let fits = |value: &serde_json::Value| value.to_string().len() <= EVENT_PAYLOAD_MAX_BYTES / 2;
        self.details = serde_json::to_value(details).ok().filter(fits).map(Box::new);
        self
    }

    /// What follows.
    pub fn then(&self) -> Then {
        self.then
    }

    /// Whether no other try follows.
    pub fn is_permanent(&self) -> bool {
        self.then == Then::Permanent
    }

    /// Whether trying the same again is not wanted: it is permanent, a snooze, a rate limit, or a stop on request.
    pub fn is_final(&self) -> bool {
        !matches!(self.then, Then::Retry | Then::RetryAt(_))
    }

    /// What went wrong, in words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What went wrong, as a word.
    pub fn error_code(&self) -> &str {
        &self.code
    }

    /// The value beside the message.
    pub fn error_details(&self) -> Option<&serde_json::Value> {
        self.details.as_deref()
    }

    /// Whether what failed may have happened all the same.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// A refusal of the store that the handler's own doing brought about: trying again would only repeat it, unless it met a
    /// full lane.
    pub(crate) fn refused(what: &str, refusal: &Refusal) -> Self {
        let message = format!("{what}: {refusal}");
        let passes = matches!(refusal, Refusal::LaneFull { .. });
        let error = if passes { Self::retry(message) } else { Self::permanent(message) };
        error.code(refusal.code())
    }

    /// From whatever a layer answered, which may be a handler's own word on its way out.
    pub(crate) fn from_boxed(error: Box<dyn Error + Send + Sync>) -> Self {
        match error.downcast::<Carried>() {
            Ok(carried) => carried.0,
            Err(other) => Self::caused(other.as_ref()),
        }
    }

    fn caused(error: &(dyn Error + 'static)) -> Self {
        Self { in_doubt: leaves_doubt(error), ..Self::retry(chain(error)) }
    }

    /// How the attempt ends by it.
    pub(crate) fn into_outcome(self) -> Outcome {
        let (permanent, run_at) = match self.then {
            Then::Snooze(run_at) => return Outcome::Release(run_at),
            Then::RateLimited(after_ms) => return Outcome::RateLimited(after_ms),
            Then::Cancelled => {
                return Outcome::Cancelled { reason: Some(fitting(&self.message, TEXT_MAX_BYTES)) };
            }
            Then::Retry => (false, None),
            Then::RetryAt(run_at) => (false, Some(run_at)),
            Then::Permanent => (true, None),
        };
        let error = failure(&self.code, &self.message);
        let error = match self.details {
            Some(details) => error.clone().with_details(*details).unwrap_or(error),
            None => error,
        };
        Outcome::Fail { error, permanent, run_at }
    }
}

/// A failure that is surely within the limits, so that the store never refuses to hear of it.
pub(crate) fn failure(code: &str, message: &str) -> Failure {
    // An error stands in the log as JSON, where a character may take six bytes.
    let message = fitting(message, EVENT_PAYLOAD_MAX_BYTES / 8);
    let code: String = fitting(code, ID_TEXT_MAX_BYTES).chars().filter(|c| !c.is_control()).collect();
    Failure::new(&code, &message)
        .or_else(|_| Failure::new("", ""))
        .expect("an empty failure is given words of its own")
}

/// Text without NUL and not longer than `max` bytes.
fn fitting(text: &str, max: usize) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    if text.len() > max {
        let mut end = max - "…".len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

fn ms(duration: Duration) -> i64 {
    match duration {
        Duration::MAX => HORIZON_MS,
        duration => i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
    }
}

/// Whether an error, or what caused it, says that nobody heard the answer.
fn leaves_doubt(error: &(dyn Error + 'static)) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    let mut cause = Some(error);
    while let Some(error) = cause {
        let broken = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let is_io = matches!(
            broken,
            Some(BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut | UnexpectedEof)
        );
        if is_io || error.is::<tokio::time::error::Elapsed>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error and what caused it, in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Many errors repeat their cause in their own words.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Into<Box<dyn Error>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        match error.into().downcast::<Carried>() {
            Ok(carried) => carried.0,
            Err(other) => Self::caused(other.as_ref()),
        }
    }
}

impl From<HandlerError> for Box<dyn Error + Send + Sync> {
    fn from(error: HandlerError) -> Self {
        Box::new(Carried(error))
    }
}

/// A handler's word on its way through layers that know only boxed errors.
#[derive(Debug)]
struct Carried(HandlerError);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Carried {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the mail was not sent")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn an_error_brings_its_causes() {
        let error = HandlerError::from(Outer(std::io::Error::other("the line is dead")));
        assert_eq!(error.message(), "the mail was not sent: the line is dead");
        assert_eq!(error.then(), Then::Retry);
    }

    /// Every error that a handler meets turns into one by `?`.
    #[test]
    fn question_marks_work_on_what_there_is() {
        fn fails<E>(error: E) -> Result<(), HandlerError>
        where
            HandlerError: From<E>,
        {
            Err(error)?
        }
        let io = || std::io::Error::other("the line is dead");
        for error in [
            fails(io()),
            fails(Box::<dyn Error>::from(io())),
            fails(anyhow::Error::new(io())),
            fails("the line is dead"),
            fails("the line is dead".to_owned()),
            Err(HandlerError::boxed(Box::new(io()))),
        ] {
            let error = error.unwrap_err();
            assert_eq!((error.message(), error.then()), ("the line is dead", Then::Retry));
            assert!(!error.is_in_doubt());
        }
        let outer = fails(anyhow::Error::new(io()).context("the mail was not sent")).unwrap_err();
        assert_eq!(outer.message(), "the mail was not sent: the line is dead");
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_heard_of_is_in_doubt() {
        let late =
            tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await.unwrap_err();
        let cut = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(HandlerError::from(late).is_in_doubt() && HandlerError::from(Outer(cut())).is_in_doubt());
        assert!(HandlerError::boxed(Box::new(cut())).is_in_doubt());
        assert!(!HandlerError::from(refused).is_in_doubt(), "nobody was reached");
    }

    #[test]
    fn a_boxed_word_comes_out_as_it_went_in() {
        let word = HandlerError::permanent("no").code("never");
        assert_eq!(HandlerError::from_boxed(word.clone().into()), word);
        assert_eq!(HandlerError::from_boxed("plain".into()).then(), Then::Retry);
    }

    #[test]
    fn no_failure_is_too_long_or_odd_for_the_log() {
        let long = "\u{1}".repeat(1 << 20);
        let Outcome::Fail { error, .. } = HandlerError::retry(&long).code(&long).into_outcome() else {
            panic!("a failure")
        };
        assert_ne!(error, failure("", ""), "it still says something");
        let cut = fitting(&"ä".repeat(100), 51);
        assert!(cut.len() <= 51 && cut.ends_with('…'), "{cut}");
    }
}
