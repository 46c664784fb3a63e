//! Alerts: something that should not last, watched by the leader, shown on the page and sent out once per change.
//!
//! An alert is a [paper](crate::paper). What it watches must hold for a while before it fires; it is over as soon as that
//! does not hold any more. Each change has a number, so that a message which is sent again is known by it.

use crate::limits::{Invalid, within};
use crate::name::Name;
use crate::refusal::Refusal;
use crate::span::within_ms;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest time of an alert, in milliseconds.
const LONGEST_MS: i64 = 30 * 86_400_000;
/// How much of a reason is kept.
const WHY_MAX: usize = 500;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// A job has been due for longer than that.
    OldestDue,
    /// More jobs than that, in percent, ended badly in the last five minutes.
    FailureRate,
    /// Jobs are due in a queue that no worker serves.
    NoWorker,
    /// An approval that nobody has decided runs out within that time.
    ApprovalExpires,
    /// A schedule should have fired longer ago than that.
    ScheduleMissed,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OldestDue, Self::FailureRate, Self::NoWorker, Self::ApprovalExpires, Self::ScheduleMissed];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OldestDue => "oldest_due",
            Self::FailureRate => "failure_rate",
            Self::NoWorker => "no_worker",
            Self::ApprovalExpires => "approval_expires",
            Self::ScheduleMissed => "schedule_missed",
        }
    }

    /// The length of time that it is measured against; none where it needs none.
    pub const fn usual_ms(self) -> Option<i64> {
        match self {
            Self::OldestDue => Some(5 * 60_000),
            Self::ApprovalExpires => Some(3_600_000),
            Self::ScheduleMissed => Some(60_000),
            Self::FailureRate | Self::NoWorker => None,
        }
    }
}

/// What a person wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// What is watched.
    pub metric: Metric,
    /// In this queue; in all, each for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    /// The length of time that it is measured against, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub than_ms: Option<i64>,
    /// The share that it is measured against, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
    /// How long it must hold before it fires, in milliseconds.
    #[serde(default)]
    pub for_ms: i64,
    /// The subscription through whose address it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Name>,
}

impl Alert {
    /// Accepts what can be watched.
    pub fn check(&self) -> Result<(), Invalid> {
        within_ms("for", self.for_ms, 0, LONGEST_MS)?;
        match (self.metric.usual_ms(), self.than_ms) {
            (Some(_), Some(ms)) => within_ms("longer_than", ms, 1_000, LONGEST_MS).map(|_| ())?,
            (None, Some(_)) => {
                let limit = format!("is not for {}", self.metric.as_str());
                return Err(Invalid::new("longer_than", "given", limit));
            }
            (_, None) => {}
        }
        match (self.metric, self.percent) {
            (Metric::FailureRate, None) => {
                Err(Invalid::new("percent", "none", "failure_rate needs one, 1 to 100"))
            }
            (Metric::FailureRate, Some(percent)) => within("percent", percent, 1, 100).map(|_| ()),
            (_, Some(_)) => Err(Invalid::new("percent", "given", "is for failure_rate only")),
            (_, None) => Ok(()),
        }
    }

    /// The length of time that it is measured against.
    pub fn than_ms(&self) -> i64 {
        self.than_ms.or(self.metric.usual_ms()).unwrap_or(0)
    }
}

/// That it fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing {
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub why: String,
}

/// An alert as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertState {
    /// What a person wrote.
    pub alert: Alert,
    /// Since when it holds, without firing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_since: Option<Timestamp>,
    /// That it fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firing: Option<Firing>,
    /// Grows each time that it begins or ends to fire.
    #[serde(default)]
    pub changes: i64,
    /// The last change that was sent, or need not be.
    #[serde(default)]
    pub sent: i64,
    /// Why the last change could not be sent yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<String>,
}

impl AlertState {
    /// One that was never looked at.
    pub fn new(alert: Alert) -> Self {
        Self { alert, holds_since: None, firing: None, changes: 0, sent: 0, unsent: None }
    }

    /// After a look, which found that it holds, and why, or that it does not; none if nothing changes.
    pub fn after_look(&self, found: Option<&str>, now: Timestamp) -> Option<Self> {
        let mut next = self.clone();
        match (found, &self.firing) {
            (Some(_), Some(_)) => return None,
            (Some(why), None) => {
                let since = self.holds_since.unwrap_or(now);
                if now < since.plus_ms(self.alert.for_ms) {
                    next.holds_since = Some(since);
                } else {
                    next.holds_since = None;
                    next.firing = Some(Firing { since: now, why: why.chars().take(WHY_MAX).collect() });
                    next.changed();
                }
            }
            (None, Some(_)) => {
                next.firing = None;
                next.changed();
            }
            (None, None) => next.holds_since = None,
        }
        (next != *self).then_some(next)
    }

    fn changed(&mut self) {
        self.changes += 1;
        self.unsent = None;
        if self.alert.notify.is_none() {
            self.sent = self.changes;
        }
    }

    /// Whether the last change is still to be sent.
    pub const fn is_unsent(&self) -> bool {
        self.sent < self.changes
    }

    /// The alert that a paper is.
    pub fn read(paper: &crate::paper::Paper) -> Result<Self, Refusal> {
        let unreadable = |why| Refusal::Unreadable(format!("alert {}: {why}", paper.name));
        serde_json::from_value(paper.body.clone()).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(for_ms: i64, notify: bool) -> AlertState {
        let notify = notify.then(|| Name::parse("notify", "ops").expect("a name"));
        let metric = Metric::NoWorker;
        AlertState::new(Alert { metric, queue: None, than_ms: None, percent: None, for_ms, notify })
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    #[test]
    fn it_fires_once_it_has_held_for_long_enough() {
        let one = alert(1_000, true);
        assert_eq!(one.after_look(None, at(0)), None);
        let holds = one.after_look(Some("mail"), at(0)).expect("it holds");
        assert!(holds.firing.is_none() && !holds.is_unsent());
        assert_eq!(holds.after_look(Some("mail"), at(999)), None);
        assert_eq!(holds.after_look(None, at(500)), Some(one), "it was over before it fired");
        let fires = holds.after_look(Some("mail"), at(1_000)).expect("it fires");
        assert_eq!(fires.firing.as_ref().map(|firing| firing.why.as_str()), Some("mail"));
        assert!(fires.is_unsent() && fires.changes == 1);
        assert_eq!(fires.after_look(Some("mail, sms"), at(2_000)), None, "it fires already");
        let over = fires.after_look(None, at(3_000)).expect("it is over");
        assert!(over.firing.is_none() && over.is_unsent() && over.changes == 2);
    }

    #[test]
    fn one_that_nobody_is_told_of_has_nothing_to_send() {
        let fires = alert(0, false).after_look(Some("mail"), at(0)).expect("at once");
        assert!(fires.firing.is_some() && !fires.is_unsent());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let bad = |metric, than_ms, percent| {
            Alert { metric, queue: None, than_ms, percent, for_ms: 0, notify: None }.check().is_err()
        };
        assert!(bad(Metric::FailureRate, None, None) && bad(Metric::FailureRate, None, Some(101)));
        assert!(bad(Metric::NoWorker, Some(1_000), None) && bad(Metric::OldestDue, Some(1), None));
        assert!(bad(Metric::OldestDue, None, Some(5)));
        assert!(!bad(Metric::OldestDue, None, None) && !bad(Metric::FailureRate, None, Some(20)));
    }
}
