//! The limits users meet, as named constants, and the refusal that names field, value and limit.

use crate::job::NewJob;
use crate::payload::{Payload, fits};
use serde::{Deserialize, Serialize};

/// Longest kind, queue, tag, step, signal or approval name, in bytes.
pub const NAME_MAX_BYTES: usize = 128;
/// Longest worker id, agent id, term holder or error code, in bytes.
pub const ID_TEXT_MAX_BYTES: usize = 128;
/// Longest actor, in bytes: a worker id and its prefix fit.
pub const ACTOR_MAX_BYTES: usize = 160;
/// Most tags on one job.
pub const TAGS_MAX: usize = 16;
/// Most labels that one job requires of its worker.
pub const REQUIRES_MAX: usize = 16;
/// Longest value of such a label, in bytes.
pub const LABEL_MAX_BYTES: usize = 256;
/// Longest unique key, event key or idempotency key, in bytes.
pub const KEY_MAX_BYTES: usize = 512;
/// Largest payload, result, checkpoint and step value that any setting allows, in bytes (16 MiB).
pub const PAYLOAD_MAX_BYTES: usize = 16 << 20;
/// Largest payload, result, checkpoint and step value when no setting says otherwise, in bytes (1 MiB).
pub const PAYLOAD_DEFAULT_BYTES: usize = 1 << 20;
/// Largest payload of a caller's own event and largest error, in bytes.
pub const EVENT_PAYLOAD_MAX_BYTES: usize = 64 << 10;
/// Largest metadata document, in bytes, also after a merge.
pub const METADATA_MAX_BYTES: usize = 16 << 10;
/// Longest line of a job's log, in bytes.
pub const LOG_LINE_MAX_BYTES: usize = 16 << 10;
/// Longest stage, reason and approval prompt, in bytes.
pub const TEXT_MAX_BYTES: usize = 4 << 10;
/// Deepest nesting of JSON.
pub const JSON_DEPTH_MAX: usize = 64;
/// Lowest priority.
pub const PRIORITY_MIN: i64 = -5;
/// Highest priority; claimed first.
pub const PRIORITY_MAX: i64 = 5;
/// Retries when the job says nothing.
pub const MAX_RETRIES_DEFAULT: i64 = 3;
/// Most retries a job may ask for.
pub const MAX_RETRIES_MAX: i64 = 100;
/// Shortest lease, in milliseconds.
pub const LEASE_MIN_MS: i64 = 1_000;
/// Longest lease, in milliseconds (24 h).
pub const LEASE_MAX_MS: i64 = 86_400_000;
/// The lease when nobody says otherwise, in milliseconds.
pub const LEASE_DEFAULT_MS: i64 = 30_000;
/// Longest grace after a lease, in milliseconds (24 h).
pub const GRACE_MAX_MS: i64 = 86_400_000;
/// Longest timeout of one attempt, in milliseconds (30 days).
pub const TIMEOUT_MAX_MS: i64 = 30 * 86_400_000;
/// How far from now a run time, a timer or an expiry may be, in milliseconds (10 years).
pub const HORIZON_MS: i64 = 3_653 * 86_400_000;
/// Leases lost in a row before a job is failed as `crashed`.
pub const CRASHES_MAX: i32 = 3;
/// How long a holder has to notice a requested cancel, in milliseconds.
pub const FORCE_AFTER_DEFAULT_MS: i64 = 30_000;
/// How long an approval may be decided, in milliseconds (24 h).
pub const APPROVAL_EXPIRES_DEFAULT_MS: i64 = 86_400_000;
/// Longest life of an approval, in milliseconds (7 days).
pub const APPROVAL_EXPIRES_MAX_MS: i64 = 7 * 86_400_000;
/// Most votes an approval may require.
pub const APPROVAL_VOTES_MAX: i64 = 100;
/// Most approvers named by one approval.
pub const APPROVERS_MAX: usize = 100;
/// Most jobs in one enqueue.
pub const ENQUEUE_MAX: usize = 10_000;
/// Most jobs in one claim.
pub const CLAIM_MAX: usize = 1_000;
/// Most jobs that one claim takes from a queue with rules.
pub const LANED_CLAIM_MAX: usize = 100;
/// Most entries of a line that a claim reads to find the jobs of one lane for its kinds, or those without a key.
pub const LANED_LOOK_MAX: usize = 5_000;
/// Most lanes of a priority that a claim looks at for those that may start a job, unless few jobs are due; the next claim goes
/// on behind them.
pub const LANED_WALK_MAX: usize = 1_000;
/// Highest concurrency that a queue or its keys may be limited to.
pub const FLOW_CONCURRENCY_MAX: i64 = 100_000;
/// Most jobs that a key's turn may hand out.
pub const FLOW_WEIGHT_MAX: i64 = 1_000;
/// Most jobs of a key that a rule lets wait: they are counted whenever another comes.
pub const FLOW_BACKLOG_MAX: i64 = 10_000;
/// Most jobs of a key that one newer job takes the place of; the next one goes on with the rest.
pub const SUPERSEDED_MAX: usize = 1_000;
/// Most units of a rate, and of its burst.
pub const FLOW_UNITS_MAX: i64 = 1_000_000;
/// Fastest rate, in units a second: then a unit takes 100 µs, and rounding costs at most a hundredth of the rate.
pub const FLOW_UNITS_PER_SECOND_MAX: i64 = 10_000;
/// Longest delay of a debounced job, in milliseconds (a day).
pub const DEBOUNCE_MAX_MS: i64 = 86_400_000;
/// Most units that one job may cost.
pub const COST_MAX: i64 = 1_000;
/// Most keys of a queue with rules of their own.
pub const FLOW_KEYS_MAX: usize = 1_000;
/// Most items in one extend, settle, assign or sweep.
pub const BATCH_MAX: usize = 10_000;
/// Most rows of one page of any list.
pub const PAGE_MAX: usize = 1_000;
/// How long an answer to an idempotency key is remembered, in milliseconds (24 h).
pub const ANSWER_KEPT_MS: i64 = 86_400_000;

/// The limits that are settings. The constants of this file are the hard bounds they stay within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of a job, in bytes; 1 MiB by default, at most 16 MiB.
    pub payload_bytes: usize,
    /// Largest result, checkpoint and step value, in bytes; 1 MiB by default, at most 16 MiB.
    pub result_bytes: usize,
    /// Most retries a job or queue may ask for; 100 by default, which is also the most.
    pub max_retries: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes: PAYLOAD_DEFAULT_BYTES,
            result_bytes: PAYLOAD_DEFAULT_BYTES,
            max_retries: MAX_RETRIES_MAX,
        }
    }
}

impl Limits {
    /// Accepts limits within the hard bounds.
    pub fn check(self) -> Result<Self, Invalid> {
        let bytes = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        within("payload_max_bytes", bytes(self.payload_bytes), 1, bytes(PAYLOAD_MAX_BYTES))?;
        within("result_max_bytes", bytes(self.result_bytes), 1, bytes(PAYLOAD_MAX_BYTES))?;
        // Below the default, every job that says nothing of retries would be refused.
        within("retries_max", self.max_retries, MAX_RETRIES_DEFAULT, MAX_RETRIES_MAX)?;
        Ok(self)
    }

    /// Accepts a job to be enqueued.
    pub fn check_job(&self, job: &NewJob) -> Result<(), Invalid> {
        self.check_retries(job.facts.max_retries)?;
        self.check_payload("payload", job.payload.as_ref())
    }

    /// Accepts a payload that a job is given.
    pub fn check_payload(&self, field: &str, payload: Option<&Payload>) -> Result<(), Invalid> {
        fits(field, payload, self.payload_bytes)
    }

    /// Accepts what a handler records: a result, a checkpoint, the value of a step.
    pub fn check_result(&self, field: &str, payload: Option<&Payload>) -> Result<(), Invalid> {
        fits(field, payload, self.result_bytes)
    }

    /// Accepts a budget of retries.
    pub fn check_retries(&self, max_retries: i32) -> Result<(), Invalid> {
        within("max_retries", max_retries.into(), 0, self.max_retries).map(|_| ())
    }
}

/// A value outside its limits: which field, what was given, what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{field} is {value}: {limit}")]
pub struct Invalid {
    /// The field as users know it.
    pub field: String,
    /// The value that was given, shortened.
    pub value: String,
    /// What is allowed.
    pub limit: String,
}

impl Invalid {
    /// A refusal of `value` in `field`. Long values are shortened: a refusal never carries a payload.
    pub fn new(field: &str, value: impl std::fmt::Display, limit: impl Into<String>) -> Self {
        let value = value.to_string();
        // Read as it was given, but for what a terminal would obey or nobody would see.
        let seen = |c: char| if is_hidden(c) { c.escape_unicode().collect() } else { String::from(c) };
        let text: String = value.chars().take(97).map(seen).collect();
        let is_whole = value.chars().nth(96).is_none();
        let value = if is_whole { text } else { text.chars().take(96).chain(['…']).collect() };
        Self { field: field.into(), value, limit: limit.into() }
    }
}

/// Whether a character commands a terminal, turns the direction of writing, or is not seen at all.
pub const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Accepts `value` within `min..=max`.
pub fn within(field: &str, value: i64, min: i64, max: i64) -> Result<i64, Invalid> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(Invalid::new(field, value, format!("must be between {min} and {max}")))
}

/// Accepts free text: not longer than `max` bytes, no NUL.
pub fn text(field: &str, value: &str, max: usize) -> Result<(), Invalid> {
    if value.len() > max {
        return Err(Invalid::new(
            field,
            format!("{} bytes long", value.len()),
            format!("at most {max} bytes"),
        ));
    }
    if value.contains('\0') {
        return Err(Invalid::new(field, value, "must not contain the character \\u0000"));
    }
    Ok(())
}

/// Accepts a count of things.
pub fn count(field: &str, value: usize, max: usize) -> Result<(), Invalid> {
    if value > max {
        return Err(Invalid::new(field, format!("{value} items"), format!("at most {max} items")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Q15
    #[test]
    fn settings_stay_within_the_hard_bounds() {
        let default = Limits::default();
        assert_eq!(
            (default.payload_bytes, default.result_bytes, default.max_retries),
            (1 << 20, 1 << 20, 100)
        );
        assert!(default.check().is_ok());
        let refused = |limits: Limits| limits.check().unwrap_err().field;
        for bytes in [0, (16 << 20) + 1, usize::MAX] {
            assert_eq!(refused(Limits { payload_bytes: bytes, ..default }), "payload_max_bytes");
            assert_eq!(refused(Limits { result_bytes: bytes, ..default }), "result_max_bytes");
        }
        for max_retries in [-1, 2, 101, i64::MAX] {
            assert_eq!(refused(Limits { max_retries, ..default }), "retries_max");
        }
        let widest = Limits { payload_bytes: 16 << 20, result_bytes: 16 << 20, max_retries: 3 };
        assert_eq!(widest.check(), Ok(widest));
    }
}
