//! Schedules as they are asked for.

use super::new_job::NewJobShape;
use super::object::two_way;
use super::time::{Moment, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

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
