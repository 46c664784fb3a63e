//! Settings of the whole store that change while it runs: one document, the same for every process.
//!
//! What belongs to one process (its store, its address) is a flag of that process and not here. A request brings the whole
//! document and the version it was made from, so two writers do not overwrite each other.

use crate::job::Metadata;
use crate::lease::LeaseMs;
use crate::limits::{self, HORIZON_MS, Invalid, LEASE_MAX_MS};
use crate::name::Actor;
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::retention::{self, RetentionRule};
use crate::schedule::{MISSED_AFTER_MS, MISSED_MAX};
use crate::span::within_ms;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How long a processed event of a trigger is kept, in milliseconds: so long a duplicate is known as one.
pub const EVENTS_KEPT_MS: i64 = 30 * 86_400_000;
/// How far the timestamp of a webhook may be from now, in milliseconds.
pub const WEBHOOK_TOLERANCE_MS: i64 = 300_000;
/// How many webhooks one trigger takes per minute and server.
pub const WEBHOOKS_PER_MINUTE: u32 = 600;
/// Most webhooks per minute that can be set.
pub const WEBHOOKS_PER_MINUTE_MAX: i64 = 1_000_000;

/// How long a worker has to start what it was assigned, in milliseconds.
pub const REASSIGN_AFTER_MS: i64 = 10_000;

/// The document. A field that an older version wrote nothing for has its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// How long a lease lasts when a worker that claims through a server does not say, in milliseconds; null is what the
    /// server was started with.
    pub default_lease_ms: Option<LeaseMs>,
    /// From when on a slot of a schedule counts as missed, in milliseconds after its time.
    pub missed_after_ms: i64,
    /// The most missed slots that any schedule makes up for in one go, whatever its own `missed_max` says.
    pub missed_max: u32,
    /// How long a worker has to start what it was assigned, in milliseconds. If it is gone by then, another gets the job.
    pub reassign_after_ms: i64,
    /// How long a processed event of a trigger is kept, in milliseconds.
    pub trigger_events_kept_ms: i64,
    /// How far the timestamp of a webhook may be from now, in milliseconds.
    pub webhook_tolerance_ms: i64,
    /// How many webhooks one trigger takes per minute and server.
    pub webhooks_per_minute: u32,
    /// How long finished jobs are kept; for ever without a rule.
    pub retention: Vec<RetentionRule>,
    /// Whether a finished job is written to the archive before it is removed.
    pub retention_archive: bool,
    /// How long it is known of a removed job where it was archived, in milliseconds; for ever when absent.
    pub tombstones_kept_ms: Option<i64>,
    /// How long log lines stay in the database before they move to the archive, in milliseconds; for ever when absent.
    pub log_bodies_kept_ms: Option<i64>,
    /// How long nothing happens to an unfinished job before it is cancelled, in milliseconds; never when absent.
    pub cancel_idle_after_ms: Option<i64>,
    /// Whether the log is sealed.
    pub seals: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_lease_ms: None,
            missed_after_ms: MISSED_AFTER_MS,
            missed_max: MISSED_MAX as u32,
            reassign_after_ms: REASSIGN_AFTER_MS,
            trigger_events_kept_ms: EVENTS_KEPT_MS,
            webhook_tolerance_ms: WEBHOOK_TOLERANCE_MS,
            webhooks_per_minute: WEBHOOKS_PER_MINUTE,
            retention: Vec::new(),
            retention_archive: true,
            tombstones_kept_ms: None,
            log_bodies_kept_ms: None,
            cancel_idle_after_ms: None,
            seals: true,
        }
    }
}

impl Settings {
    /// Accepts what is within the limits.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(lease) = self.default_lease_ms {
            LeaseMs::new(lease.get())?;
        }
        within_ms("missed_after", self.missed_after_ms, 1_000, 86_400_000)?;
        limits::within("missed_max", self.missed_max.into(), 1, MISSED_MAX)?;
        within_ms("reassign_after", self.reassign_after_ms, 1_000, LEASE_MAX_MS)?;
        within_ms("trigger_events_kept", self.trigger_events_kept_ms, 60_000, HORIZON_MS)?;
        within_ms("webhook_tolerance", self.webhook_tolerance_ms, 1_000, 3_600_000)?;
        limits::within("webhooks_per_minute", self.webhooks_per_minute.into(), 1, WEBHOOKS_PER_MINUTE_MAX)?;
        let spans = [
            ("tombstones_kept", self.tombstones_kept_ms),
            ("log_bodies_kept", self.log_bodies_kept_ms),
            ("cancel_idle_after", self.cancel_idle_after_ms),
        ];
        for (name, ms) in spans {
            ms.map(|ms| within_ms(name, ms, 1_000, HORIZON_MS)).transpose()?;
        }
        retention::check(&self.retention)
    }
}

/// The settings as they are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SettingsState {
    /// What is set.
    pub settings: Settings,
    /// Grows with every change; 0 while nobody changed anything.
    pub version: i64,
    /// When they were changed last, and by whom.
    pub changed: Option<(Timestamp, Actor)>,
}

/// Settings to put in force.
#[derive(Debug, Clone)]
pub struct PutSettings {
    /// All of them.
    pub settings: Settings,
    /// The version they were made from.
    pub expected_version: i64,
    /// Who.
    pub actor: Actor,
}

impl PutSettings {
    /// The settings after this; none if they are so already.
    pub fn decide(
        &self,
        before: &SettingsState,
        now: Timestamp,
    ) -> Result<Option<(SettingsState, WriteAudit)>, Refusal> {
        self.settings.check()?;
        if before.settings == self.settings {
            // A repeat after a lost answer comes with the version of before.
            return Ok(None);
        }
        if self.expected_version != before.version {
            return Err(Refusal::SettingsChanged(before.version));
        }
        let json = |settings: &Settings| serde_json::to_value(settings).unwrap_or_default();
        let detail = Metadata::from_iter([
            ("before".to_owned(), json(&before.settings)),
            ("after".to_owned(), json(&self.settings)),
        ]);
        let audit = WriteAudit::of(self.actor.clone(), "settings.put", "settings", detail);
        let changed = Some((now, self.actor.clone()));
        Ok(Some((
            SettingsState { settings: self.settings.clone(), version: before.version + 1, changed },
            audit,
        )))
    }
}
