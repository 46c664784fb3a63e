//! Settings of the store as they are put.

use super::object::two_way;
use super::time::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

two_way!(SettingsBody, SettingsWish, RuleWish);

/// Settings to put in force.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = PutSettings)]
pub struct SettingsBody {
    /// All of them.
    pub settings: SettingsWish,
    /// The version they were made from: at any other they are refused.
    #[schema(minimum = 0)]
    pub expected_version: i64,
}

/// All settings. What is left out has its default.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewSettings)]
pub struct SettingsWish {
    /// How long a lease lasts when a worker that claims through a server does not say; null is what the server was started
    /// with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_lease: Option<Span>,
    /// From when on a slot of a schedule counts as missed; 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_after: Option<Span>,
    /// The most missed slots that any schedule makes up for in one go; 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub missed_max: Option<u32>,
    /// How long a worker has to start what it was assigned; 10 s. If it is gone by then, another gets the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reassign_after: Option<Span>,
    /// How long a processed event of a trigger is kept, and a duplicate of it known; 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_events_kept: Option<Span>,
    /// How far the timestamp of a webhook may be from now; 5 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_tolerance: Option<Span>,
    /// How many webhooks one trigger takes per minute and server; 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000000)]
    pub webhooks_per_minute: Option<u32>,
    /// How long finished jobs are kept, by rules of which the most specific decides; for ever without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub retention: Option<Vec<RuleWish>>,
    /// Whether a finished job is written to the archive before it is removed; yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_archive: Option<bool>,
    /// How long it is known of a removed job where it was archived; null is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstones_kept: Option<Span>,
    /// How long log lines stay in the database before they move to the archive; null is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bodies_kept: Option<Span>,
    /// How long nothing happens to an unfinished job before it is cancelled; null is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_idle_after: Option<Span>,
    /// Whether the log is sealed, so that a change of it behind the engine's back shows; yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seals: Option<bool>,
}

/// How long some finished jobs are kept.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewRetentionRule)]
pub struct RuleWish {
    /// Jobs that ended so: completed, failed, timed_out or cancelled; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Jobs of this queue; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Jobs of this kind; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How long after their end they are kept; null is for ever.
    pub keep: Option<Span>,
}
