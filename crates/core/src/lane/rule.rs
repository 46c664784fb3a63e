//! Rules for the keys of a queue: what holds while their jobs run, and when another comes.

use super::QueueLimits;
use crate::limits::{self, FLOW_BACKLOG_MAX, FLOW_CONCURRENCY_MAX, FLOW_KEYS_MAX, FLOW_WEIGHT_MAX, Invalid};
use crate::name::Key;
use crate::rate::Rate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Rules for the keys of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lanes {
    /// What holds for every key.
    #[serde(flatten)]
    pub each: LaneRule,
    /// What holds for some keys instead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<Key, LaneRule>,
}

/// Rules for one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaneRule {
    /// How many of its jobs run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// How many of its jobs are handed out in one turn; one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// How fast its jobs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many of its jobs may stand in line, due or not, when another comes; any number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<i32>,
    /// What becomes of a job that comes when so many stand in line; it is refused when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Full>,
    /// Whether its jobs wait for each other, as when absent, or the newest takes the place of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<LaneMode>,
}

/// What becomes of a job that comes to a lane where as many wait as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    /// Its request is refused.
    #[default]
    Refuse,
    /// It is left out, and the rest of its request is written.
    Drop,
}

impl Full {
    /// Every answer.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Drop];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Drop => "drop",
        }
    }

    /// The answer a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|full| full.as_str() == word)
    }
}

/// What happens to the next one: `refused`, `dropped`.
impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "refused",
            Self::Drop => "dropped",
        })
    }
}

/// Which jobs of a lane are worth running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneMode {
    /// All of them, one after the other.
    #[default]
    Wait,
    /// The newest: the others of its lane that stand in line are cancelled when it comes, and the oldest that runs is asked to
    /// stop if there is no slot.
    Newest,
}

impl LaneMode {
    /// Every mode.
    pub const ALL: [Self; 2] = [Self::Wait, Self::Newest];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Newest => "newest",
        }
    }

    /// The mode a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

impl LaneRule {
    fn check(self) -> Result<(), Invalid> {
        if let Some(n) = self.concurrency {
            limits::within("flow.lanes.concurrency", n.into(), 1, FLOW_CONCURRENCY_MAX)?;
        }
        if let Some(n) = self.weight {
            limits::within("flow.lanes.weight", n.into(), 1, FLOW_WEIGHT_MAX)?;
        }
        if let Some(n) = self.backlog {
            limits::within("flow.lanes.backlog", n.into(), 1, FLOW_BACKLOG_MAX)?;
        }
        self.rate.map_or(Ok(()), |rate| rate.check("flow.lanes.rate"))
    }

    /// Whether a job that comes is looked at.
    fn asks_at_entry(self) -> bool {
        self.backlog.is_some() || self.mode == Some(LaneMode::Newest)
    }
}

impl Lanes {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        self.each.check()?;
        limits::count("flow.lanes.keys", self.keys.len(), FLOW_KEYS_MAX)?;
        self.keys.values().try_for_each(|rule| rule.check())?;
        let mut all = self.keys.values().chain([&self.each]);
        match all.clone().find_map(|rule| rule.full) {
            Some(full) if all.all(|rule| rule.backlog.is_none()) => {
                Err(Invalid::new("flow.lanes.full", full.as_str(), "needs a backlog: how many jobs may wait"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for LaneRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { concurrency, weight, rate, backlog, full, mode } = self;
        let mut said: Vec<String> = concurrency.iter().map(|n| format!("{n} at once")).collect();
        said.extend(rate.iter().map(ToString::to_string));
        said.extend(weight.iter().map(|n| format!("{n} in a turn")));
        said.extend(backlog.iter().map(|n| format!("{n} waiting")));
        said.extend(full.iter().map(|full| format!("then {full}")));
        said.extend(mode.iter().map(|mode| match mode {
            LaneMode::Wait => "each of them".to_owned(),
            LaneMode::Newest => "the newest".to_owned(),
        }));
        f.write_str(&said.join(", "))
    }
}

/// What the rules of a lane ask when a job comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// How many may stand in line; any number when absent.
    pub backlog: Option<i64>,
    /// What becomes of the next one.
    pub full: Full,
    /// Whether the newest takes the place of the others.
    pub newest: bool,
    /// How many run at once; any number when absent.
    pub concurrency: Option<i64>,
}

impl QueueLimits {
    /// What a job with this key meets when it comes; none where any number may wait.
    pub fn entry(&self, key: &Key) -> Option<Entry> {
        let lanes = self.lanes.as_ref()?;
        let (each, own) = (lanes.each, lanes.keys.get(key).copied().unwrap_or_default());
        let newest = own.mode.or(each.mode) == Some(LaneMode::Newest);
        let entry = Entry {
            // What is cancelled for the newest does not wait.
            backlog: own.backlog.or(each.backlog).filter(|_| !newest).map(i64::from),
            full: own.full.or(each.full).unwrap_or_default(),
            newest,
            concurrency: own.concurrency.or(each.concurrency).map(i64::from),
        };
        (newest || entry.backlog.is_some()).then_some(entry)
    }

    /// Whether jobs of some key are looked at when they come.
    pub fn asks_at_entry(&self) -> bool {
        let asks = |lanes: &Lanes| lanes.keys.values().chain([&lanes.each]).any(|rule| rule.asks_at_entry());
        self.lanes.as_ref().is_some_and(asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::parse("key", text).unwrap()
    }

    fn limits(each: LaneRule, acme: LaneRule) -> QueueLimits {
        let lanes = Lanes { each, keys: [(key("acme"), acme)].into() };
        QueueLimits { lanes: Some(lanes), ..QueueLimits::default() }
    }

    #[test]
    fn a_key_has_rules_of_its_own_for_jobs_that_come() {
        let each = LaneRule { backlog: Some(5), concurrency: Some(2), ..LaneRule::default() };
        let acme = LaneRule { full: Some(Full::Drop), backlog: Some(7), ..LaneRule::default() };
        let flow = limits(each, acme);
        let entry = flow.entry(&key("acme")).unwrap();
        assert_eq!((entry.backlog, entry.full, entry.concurrency), (Some(7), Full::Drop, Some(2)));
        let entry = flow.entry(&key("globex")).unwrap();
        assert_eq!((entry.backlog, entry.full, entry.newest), (Some(5), Full::Refuse, false));
        assert!(flow.asks_at_entry());
        assert_eq!(
            flow.to_string(),
            "2 per key, 5 waiting per key, then refused; acme 7 waiting, then dropped"
        );
    }

    #[test]
    fn the_newest_of_a_key_waits_alone() {
        let newest = LaneRule { mode: Some(LaneMode::Newest), ..LaneRule::default() };
        let waits = LaneRule { mode: Some(LaneMode::Wait), ..LaneRule::default() };
        let flow = limits(LaneRule { backlog: Some(5), ..newest }, waits);
        assert_eq!(flow.entry(&key("globex")).map(|e| (e.newest, e.backlog)), Some((true, None)));
        assert_eq!(flow.entry(&key("acme")).map(|e| (e.newest, e.backlog)), Some((false, Some(5))));
        let only_acme = limits(LaneRule::default(), newest);
        assert!(only_acme.asks_at_entry() && only_acme.entry(&key("globex")).is_none());
        assert_eq!(only_acme.to_string(), "keys take turns; acme the newest");
        assert!(!limits(LaneRule::default(), waits).asks_at_entry());
        assert!(QueueLimits::default().entry(&key("acme")).is_none());
    }

    #[test]
    fn what_may_wait_is_bounded() {
        for (rule, field) in [
            (LaneRule { backlog: Some(0), ..LaneRule::default() }, "flow.lanes.backlog"),
            (LaneRule { backlog: Some(10_001), ..LaneRule::default() }, "flow.lanes.backlog"),
            (LaneRule { full: Some(Full::Drop), ..LaneRule::default() }, "flow.lanes.full"),
        ] {
            assert_eq!(limits(rule, LaneRule::default()).check().unwrap_err().field, field);
        }
        let drop = LaneRule { full: Some(Full::Drop), ..LaneRule::default() };
        limits(drop, LaneRule { backlog: Some(1), ..LaneRule::default() }).check().unwrap();
    }
}
