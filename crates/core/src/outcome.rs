//! How a holder ends an attempt, and what follows.

use crate::decide::{
    Move, backoff_ms, cancelled, check_holder, check_lease, denied, error_payload, fail, holder, time_out,
};
use crate::event::{self, Event, EventKind};
use crate::hold::HOLD_MAX_MS;
use crate::job::{Job, RunAt, Version};
use crate::lease::LeaseHash;
use crate::limits::{self, Invalid};
use crate::name::Who;
use crate::payload::{Payload, fits};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::wait::{Approval, ApprovalStatus, Wait, WaitFor};

/// How a holder ends an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done, with a result.
    Complete(Option<Payload>),
    /// Failed; retried while the budget lasts, unless permanent.
    Fail {
        /// What went wrong.
        error: Failure,
        /// Whether no retry can help.
        permanent: bool,
        /// When to try again; the job's backoff decides when nothing is said.
        run_at: Option<RunAt>,
    },
    /// Given back without using a retry: shutdown, snooze.
    Release(RunAt),
    /// Given back without using a retry, and its key is held so long, in milliseconds, or its queue if it has no key: what it
    /// calls takes no more before that. At most a day.
    RateLimited(i64),
    /// The attempt took longer than its timeout.
    TimeOut,
    /// Stopped because a cancel was requested.
    Cancelled {
        /// Why, if the holder has something to add.
        reason: Option<String>,
    },
    /// Waits, holding no worker. The store adds what already answers the wait.
    Wait(Wait, Found),
}

impl Outcome {
    /// Where in a job's log this outcome stands under a lease already, so that it is a repeat. What was copied
    /// from another job says nothing about this one.
    pub fn settled_in<'e>(
        &self,
        lease: LeaseHash,
        log: impl DoubleEndedIterator<Item = &'e Event>,
    ) -> Option<Version> {
        log.rev()
            .take_while(|event| !matches!(event.what, EventKind::JobForked(_)))
            .find(|event| event.lease == Some(lease) && self.settles_as().contains(&event.what.type_name()))
            .map(|event| event.version)
    }

    /// The event types that this outcome is on record as.
    fn settles_as(&self) -> &'static [&'static str] {
        match self {
            Self::Complete(_) => &["job_completed"],
            Self::Fail { permanent: true, .. } => &["job_failed", "job_cancelled"],
            Self::Fail { .. } => &["job_retried", "job_failed", "job_cancelled"],
            Self::Release(_) | Self::RateLimited(_) => &["job_released", "job_cancelled"],
            Self::TimeOut => &["job_timed_out", "job_cancelled"],
            Self::Cancelled { .. } => &["job_cancelled"],
            Self::Wait(..) => &["job_waiting", "job_failed", "job_cancelled"],
        }
    }
}

/// An error as a handler reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: Who,
    message: String,
    details: Option<serde_json::Value>,
}

impl Failure {
    /// Accepts a code and a message; empty ones get defaults, so every failure says something.
    pub fn new(code: &str, message: &str) -> Result<Self, Invalid> {
        let code = Who::parse("error.code", if code.is_empty() { "failed" } else { code })?;
        limits::text("error.message", message, limits::EVENT_PAYLOAD_MAX_BYTES)?;
        let message = if message.is_empty() { "the handler gave no reason" } else { message };
        Ok(Self { code, message: message.to_owned(), details: None })
    }

    /// With a value that says more, for programs that read the error.
    pub fn with_details(mut self, details: serde_json::Value) -> Result<Self, Invalid> {
        Payload::from_value("error.details", &details, limits::EVENT_PAYLOAD_MAX_BYTES / 2)?;
        self.details = Some(details);
        Ok(self)
    }

    /// One word.
    pub fn code(&self) -> &Who {
        &self.code
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What says more.
    pub fn details(&self) -> Option<&serde_json::Value> {
        self.details.as_ref()
    }

    /// How it stands in the log.
    fn payload(&self) -> Payload {
        let Some(details) = &self.details else { return error_payload(self.code.as_str(), &self.message) };
        let error =
            serde_json::json!({ "code": self.code.as_str(), "message": self.message, "details": details });
        Payload::stored(error.to_string().into_bytes(), true)
    }
}

/// What the store found under the lock that already answers a wait.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The oldest kept signal of the awaited name.
    pub signal: Option<Version>,
    /// The newest approval of the awaited name.
    pub approval: Option<Approval>,
    /// Why it was denied, if it was.
    pub denial: Option<String>,
    /// The first news that the holder has not seen.
    pub news: Option<Version>,
}

pub(crate) fn settle(job: &Job, hash: LeaseHash, outcome: Outcome, now: Timestamp) -> Result<Move, Refusal> {
    match outcome {
        Outcome::TimeOut | Outcome::Cancelled { .. } => check_holder(job, hash, now)?,
        _ => check_lease(job, hash, now)?,
    }
    let stop = |reason: Option<String>| cancelled(job, holder(job), reason, now);
    let step = match outcome {
        Outcome::Complete(result) => {
            fits("result", result.as_ref(), limits::PAYLOAD_MAX_BYTES)?;
            Move::new(job, now, holder(job), EventKind::JobCompleted).payload(result)
        }
        Outcome::Fail { error, permanent, run_at } => {
            let due_at = run_at.map(|r| r.check("run_at", now)).transpose()?;
            if permanent || job.retries >= job.max_retries {
                let payload = error.payload();
                by_holder(job, fail(job, error.code, &error.message, now).payload(Some(payload)))
            } else if job.cancel_requested_at.is_some() {
                stop(Some(error.message))
            } else {
                let payload = error.payload();
                let what = EventKind::JobRetried(event::Retried {
                    code: error.code,
                    retries: job.retries + 1,
                    due_at: due_at.unwrap_or_else(|| now.plus_ms(backoff_ms(job))),
                });
                Move::new(job, now, holder(job), what).payload(Some(payload))
            }
        }
        Outcome::Release(run_at) => {
            let due_at = run_at.check("run_at", now)?;
            if job.cancel_requested_at.is_some() {
                stop(None)
            } else {
                let released = event::Released { due_at, lost: false, held_until: None };
                Move::new(job, now, holder(job), EventKind::JobReleased(released))
            }
        }
        Outcome::RateLimited(_) if job.cancel_requested_at.is_some() => stop(None),
        Outcome::RateLimited(after_ms) => {
            // Due at once: it is the hold that keeps it, and whoever ends the hold lets it go.
            let held_until = Some(now.plus_ms(after_ms.clamp(0, HOLD_MAX_MS)));
            let released = event::Released { due_at: now, lost: false, held_until };
            Move::new(job, now, holder(job), EventKind::JobReleased(released))
        }
        Outcome::TimeOut if job.cancel_requested_at.is_some() => stop(None),
        Outcome::TimeOut => by_holder(job, time_out(job, now)),
        Outcome::Cancelled { reason } => {
            if let Some(reason) = &reason {
                limits::text("reason", reason, limits::TEXT_MAX_BYTES)?;
            }
            stop(reason)
        }
        Outcome::Wait(wait, found) => {
            let waiting = wait_on(job, wait, found, now)?;
            if job.cancel_requested_at.is_some() { stop(None) } else { waiting }
        }
    };
    Ok(again(job, step.lease(hash)))
}

fn by_holder(job: &Job, mut step: Move) -> Move {
    step.event.actor = holder(job);
    step
}

/// Applies the finished event to the row as it was.
fn again(job: &Job, step: Move) -> Move {
    Move { job: job.clone(), event: step.event }.done()
}

fn wait_on(job: &Job, wait: Wait, found: Found, now: Timestamp) -> Result<Move, Refusal> {
    let missing = |field: &str| Refusal::Invalid(Invalid::new(field, "missing", "is required for this wait"));
    let expires_at = wait.expires_at.map(|t| t.near("expires", now)).transpose()?;
    let mut detail = event::Waiting {
        waits_for: wait.waits_for,
        name: wait.name,
        due_at: None,
        deadline_at: expires_at,
        answered_by: None,
    };
    match wait.waits_for {
        WaitFor::Timer => {
            detail.due_at = Some(wait.until.ok_or_else(|| missing("until"))?.near("until", now)?);
            detail.deadline_at = None;
        }
        WaitFor::Signal => {
            detail.name.as_ref().ok_or_else(|| missing("name"))?;
            detail.answered_by = found.signal;
            detail.due_at = found.signal.map(|_| now);
        }
        WaitFor::Children => detail.due_at = (job.children == 0).then_some(now),
        WaitFor::Upstream | WaitFor::Flow => {
            let limit = "is a wait that only a job's creation begins";
            return Err(Invalid::new("for", wait.waits_for.as_str(), limit).into());
        }
        WaitFor::News => {
            detail.answered_by = found.news;
            detail.due_at = found.news.map(|_| now);
        }
        WaitFor::Approval => {
            detail.name.as_ref().ok_or_else(|| missing("name"))?;
            let approval = found.approval.ok_or(Refusal::ApprovalNotFound)?;
            match approval.status_at(now) {
                ApprovalStatus::Pending => detail.deadline_at = Some(approval.expires_at),
                ApprovalStatus::Approved => {
                    detail.answered_by = Some(approval.asked_version);
                    detail.due_at = Some(now);
                }
                ApprovalStatus::Denied => {
                    return Ok(denied(job, found.denial.as_deref(), now));
                }
                ApprovalStatus::Expired => {
                    let message = "the approval was not decided in time";
                    return Ok(fail(job, Who::word("approval_expired"), message, now));
                }
                ApprovalStatus::Void => return Err(Refusal::ApprovalNotFound),
            }
        }
    }
    if detail.due_at.is_some() {
        detail.deadline_at = None;
    }
    Ok(Move::new(job, now, holder(job), EventKind::JobWaiting(detail)))
}
