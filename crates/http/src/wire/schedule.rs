//! Schedules as they are asked for, and as they stand.

use super::new_job::NewJobShape;
use super::object::two_way;
use super::time::{Moment, Span, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use windlass_core::Facts;

two_way!(ScheduleBody, ApplyBody, BackfillBody);

/// What becomes of slots that passed while nobody led.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Missed)]
pub enum MissedWord {
    /// The newest is fired, late.
    Once,
    /// They are left out.
    Skip,
    /// The newest `missed_max` are fired.
    All,
}

/// What becomes of a slot while the last job lives.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Overlap)]
pub enum OverlapWord {
    /// It is fired.
    Allow,
    /// It is left out.
    Skip,
    /// It is fired, and the older job is cancelled.
    Cancel,
}

/// A schedule: when, and what it enqueues. What is left out is as usual.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewSchedule)]
pub struct ScheduleBody {
    /// Five fields, six with seconds in front, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. This or `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// A fixed interval of at least a second, from `starts_at` or else from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// The time zone of `cron`, by its IANA name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "UTC")]
    pub timezone: Option<String>,
    /// What is enqueued at each slot.
    pub job: NewJobShape,
    /// `once`, unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedWord>,
    /// How many missed slots `all` makes up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub missed_max: Option<u32>,
    /// `allow`, unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<OverlapWord>,
    /// Jobs run up to so long after their slot, each its own while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// Nothing fires before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    /// Nothing fires from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Time>,
    /// Only if it is at this version; 0 if it must not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub expected_version: Option<i64>,
}

/// Schedules as they are to be.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = ApplySchedules)]
pub struct ApplyBody {
    /// By name, at most 10000.
    pub schedules: BTreeMap<String, ScheduleBody>,
    /// Whether every schedule that is not named is removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prune: bool,
    /// Whether nothing is written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A stretch of the past to make up for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Backfill)]
pub struct BackfillBody {
    /// From this moment on.
    pub from: Moment,
    /// Until before this one, which is not in the future.
    pub to: Moment,
    /// Whether nothing is enqueued.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A schedule as it stands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Schedule)]
pub struct ScheduleShape {
    /// Its name.
    pub name: String,
    /// When it fires, if by a cron text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// When it fires, if in an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// The time zone of `cron`.
    pub timezone: String,
    /// What is enqueued at each slot.
    pub job: ScheduledJob,
    /// What becomes of missed slots.
    pub missed: MissedWord,
    /// How many of them `all` makes up for.
    pub missed_max: u32,
    /// What becomes of a slot while the last job lives.
    pub overlap: OverlapWord,
    /// Jobs run up to so long after their slot.
    pub jitter: Span,
    /// Nothing fires before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Time>,
    /// Nothing fires from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Time>,
    /// Grows with every change by a person.
    pub version: i64,
    /// When it was paused, and by whom.
    pub paused: Option<PausedShape>,
    /// The slot that comes next; null while it is paused, and when there is no more.
    pub next_at: Option<Time>,
    /// The slot that was fired last.
    pub last_slot: Option<Time>,
    /// Its job.
    pub last_job: Option<String>,
    /// Why it does not fire although it is not paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// When it was made.
    pub created_at: Time,
    /// When a person changed it last.
    pub updated_at: Time,
}

/// What a schedule enqueues.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct ScheduledJob {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub facts: Facts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

/// Since when and by whom something is paused.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = SchedulePaused)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct PausedShape {
    pub at: Time,
    pub by: String,
}

/// Every schedule, by name.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Schedules)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct SchedulesPage {
    pub schedules: Vec<ScheduleShape>,
}
