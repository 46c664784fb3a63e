//! Alerts, as they are asked for and shown.

use super::object::two_way;
use super::time::{Span, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::alert::{Alert, AlertState, Metric};
use windlass_core::{Invalid, Name};
use windlass_store::Paper;

two_way!(AlertBody);

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AlertMetric)]
pub enum MetricWord {
    /// A job has been due for longer than `longer_than`, 5 minutes.
    OldestDue,
    /// More than `percent` of the jobs that ended in the last five minutes, of ten at least, ended badly.
    FailureRate,
    /// Jobs are due in a queue that no worker serves.
    NoWorker,
    /// An approval that nobody has decided runs out within `longer_than`, an hour.
    ApprovalExpires,
    /// A schedule should have fired longer ago than `longer_than`, a minute, or cannot be reckoned.
    ScheduleMissed,
}

impl From<MetricWord> for Metric {
    fn from(word: MetricWord) -> Self {
        match word {
            MetricWord::OldestDue => Self::OldestDue,
            MetricWord::FailureRate => Self::FailureRate,
            MetricWord::NoWorker => Self::NoWorker,
            MetricWord::ApprovalExpires => Self::ApprovalExpires,
            MetricWord::ScheduleMissed => Self::ScheduleMissed,
        }
    }
}

impl From<Metric> for MetricWord {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::OldestDue => Self::OldestDue,
            Metric::FailureRate => Self::FailureRate,
            Metric::NoWorker => Self::NoWorker,
            Metric::ApprovalExpires => Self::ApprovalExpires,
            Metric::ScheduleMissed => Self::ScheduleMissed,
        }
    }
}

/// Something that should not last.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewAlert)]
pub struct AlertBody {
    /// What is watched.
    pub metric: MetricWord,
    /// In this queue; in all, each for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The length of time that it is measured against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer_than: Option<Span>,
    /// The share that it is measured against, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub percent: Option<i64>,
    /// How long it must hold before it fires; at once.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub holds_for: Option<Span>,
    /// The subscription through whose address each change is sent, signed as it signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<String>,
    /// Only if it is at this version; 0 if it must not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub expected_version: Option<i64>,
}

impl AlertBody {
    /// The alert as it is kept.
    pub(crate) fn resolve(self) -> Result<Alert, Invalid> {
        let alert = Alert {
            metric: self.metric.into(),
            queue: self.queue.map(|name| Name::parse("queue", name)).transpose()?,
            than_ms: self.longer_than.map(Span::ms),
            percent: self.percent,
            for_ms: self.holds_for.map_or(0, Span::ms),
            notify: self.notify.map(|name| Name::parse("notify", name)).transpose()?,
        };
        alert.check()?;
        Ok(alert)
    }
}

/// An alert as it stands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Alert)]
pub struct AlertShape {
    /// Its name.
    pub name: String,
    /// What is watched.
    pub metric: MetricWord,
    /// In this queue; in all.
    pub queue: Option<String>,
    /// The length of time that it is measured against.
    pub longer_than: Option<Span>,
    /// The share that it is measured against.
    pub percent: Option<i64>,
    /// How long it must hold before it fires.
    #[serde(rename = "for")]
    pub holds_for: Span,
    /// The subscription through whose address each change is sent.
    pub notify: Option<String>,
    /// Since when it fires; null while it does not.
    pub firing_since: Option<Time>,
    /// Why it fires.
    pub why: Option<String>,
    /// Why the last change could not be sent.
    pub unsent: Option<String>,
    /// Grows with every change, also of its state.
    pub version: i64,
}

impl AlertShape {
    pub(crate) fn of(paper: &Paper, state: AlertState) -> Self {
        let AlertState { alert, firing, unsent, .. } = state;
        let than = alert.metric.usual_ms().map(|usual| alert.than_ms.unwrap_or(usual));
        Self {
            name: paper.name.to_string(),
            metric: alert.metric.into(),
            queue: alert.queue.map(|name| name.to_string()),
            longer_than: than.map(Span::from_ms),
            percent: alert.percent,
            holds_for: Span::from_ms(alert.for_ms),
            notify: alert.notify.map(|name| name.to_string()),
            firing_since: firing.as_ref().map(|firing| Time(firing.since)),
            why: firing.map(|firing| firing.why),
            unsent,
            version: paper.version,
        }
    }
}

/// Every alert, by name.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Alerts)]
pub struct AlertsPage {
    /// They.
    pub alerts: Vec<AlertShape>,
}
