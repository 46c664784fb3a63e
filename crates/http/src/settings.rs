//! Settings of the store: one document, changed while everything runs.

use crate::call::{Call, Reply, ok};
use crate::wire::new_job::lease_ms;
use crate::wire::settings::{RuleWish, SettingsBody};
use crate::wire::time::{Span, Time};
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::retention::RetentionRule;
use windlass_core::settings::{Settings, SettingsState};
use windlass_core::{Invalid, Name, Status};
use windlass_store::PutSettings;

impl RuleWish {
    fn rule(self) -> Result<RetentionRule, Invalid> {
        let status = |word: String| {
            let why = "must be completed, failed, timed_out or cancelled";
            Status::parse(&word).ok_or_else(|| Invalid::new("retention.status", &word, why))
        };
        Ok(RetentionRule {
            status: self.status.map(status).transpose()?,
            queue: self.queue.map(|name| Name::parse("retention.queue", name)).transpose()?,
            kind: self.kind.map(|name| Name::parse("retention.kind", name)).transpose()?,
            keep_ms: self.keep.map(Span::ms),
        })
    }
}

/// All settings.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Settings)]
pub(crate) struct SettingsFields {
    default_lease: Option<Span>,
    missed_after: Span,
    missed_max: u32,
    reassign_after: Span,
    trigger_events_kept: Span,
    webhook_tolerance: Span,
    webhooks_per_minute: u32,
    retention: Vec<RuleFields>,
    retention_archive: bool,
    tombstones_kept: Option<Span>,
    log_bodies_kept: Option<Span>,
    cancel_idle_after: Option<Span>,
    seals: bool,
}

/// How long some finished jobs are kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RetentionRule)]
pub(crate) struct RuleFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    keep: Option<Span>,
}

impl From<RetentionRule> for RuleFields {
    fn from(rule: RetentionRule) -> Self {
        Self {
            status: rule.status.map(Status::as_str),
            queue: rule.queue.map(|name| name.to_string()),
            kind: rule.kind.map(|name| name.to_string()),
            keep: rule.keep_ms.map(Span::from_ms),
        }
    }
}

/// The settings as they stand.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettingsState)]
pub(crate) struct SettingsShape {
    /// What is in force.
    settings: SettingsFields,
    /// Grows with every change; 0 while nobody changed anything.
    version: i64,
    /// When they were changed last.
    changed_at: Option<Time>,
    /// By whom.
    changed_by: Option<String>,
}

impl SettingsShape {
    fn of(state: SettingsState) -> Self {
        let SettingsState { settings, version, changed } = state;
        Self {
            settings: SettingsFields {
                default_lease: settings.default_lease_ms.map(|lease| Span::from_ms(lease.get())),
                missed_after: Span::from_ms(settings.missed_after_ms),
                missed_max: settings.missed_max,
                reassign_after: Span::from_ms(settings.reassign_after_ms),
                trigger_events_kept: Span::from_ms(settings.trigger_events_kept_ms),
                webhook_tolerance: Span::from_ms(settings.webhook_tolerance_ms),
                webhooks_per_minute: settings.webhooks_per_minute,
                retention: settings.retention.into_iter().map(RuleFields::from).collect(),
                retention_archive: settings.retention_archive,
                tombstones_kept: settings.tombstones_kept_ms.map(Span::from_ms),
                log_bodies_kept: settings.log_bodies_kept_ms.map(Span::from_ms),
                cancel_idle_after: settings.cancel_idle_after_ms.map(Span::from_ms),
                seals: settings.seals,
            },
            version,
            changed_at: changed.as_ref().map(|(at, _)| Time(*at)),
            changed_by: changed.map(|(_, by)| by.to_string()),
        }
    }
}

/// `GET /v1/settings`
pub(crate) async fn settings(call: Call) -> Reply {
    let mut state = call.store().settings((), None).await?;
    // A rule that names a queue says that there is one.
    state.settings.retention.retain(|rule| rule.queue.as_ref().is_none_or(|queue| call.who.sees(queue)));
    ok(&SettingsShape::of(state))
}

/// `PUT /v1/settings`
pub(crate) async fn put(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let SettingsBody { settings: wish, expected_version } = call.body()?;
    let usual = Settings::default();
    let rules = wish.retention.unwrap_or_default().into_iter().map(RuleWish::rule);
    let ms = |span: Option<Span>, usual: i64| span.map_or(usual, Span::ms);
    let settings = Settings {
        default_lease_ms: lease_ms("default_lease", wish.default_lease)?,
        missed_after_ms: ms(wish.missed_after, usual.missed_after_ms),
        missed_max: wish.missed_max.unwrap_or(usual.missed_max),
        reassign_after_ms: ms(wish.reassign_after, usual.reassign_after_ms),
        trigger_events_kept_ms: ms(wish.trigger_events_kept, usual.trigger_events_kept_ms),
        webhook_tolerance_ms: ms(wish.webhook_tolerance, usual.webhook_tolerance_ms),
        webhooks_per_minute: wish.webhooks_per_minute.unwrap_or(usual.webhooks_per_minute),
        retention: rules.collect::<Result<_, _>>()?,
        retention_archive: wish.retention_archive.unwrap_or(usual.retention_archive),
        tombstones_kept_ms: wish.tombstones_kept.map(Span::ms),
        log_bodies_kept_ms: wish.log_bodies_kept.map(Span::ms),
        cancel_idle_after_ms: wish.cancel_idle_after.map(Span::ms),
        seals: wish.seals.unwrap_or(usual.seals),
    };
    let request = PutSettings { settings, expected_version, actor: call.actor() };
    let state = call.store().put_settings(request, None).await??;
    call.app.settings.forget();
    ok(&SettingsShape::of(state))
}
