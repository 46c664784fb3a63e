//! What limits a queue: how many of its jobs run at once and how fast they start, as a whole and per key, and in which turn
//! keys are served.
//!
//! A **lane** is a queue's jobs of one key, first in, first out by priority, due time and id. A **slot** is a job that runs
//! or is assigned: nothing else counts, so no slot can be lost. A lease that is over keeps its slot until it is taken over.

mod rule;
mod turns;

pub use rule::{Entry, Full, LaneMode, LaneRule, Lanes};
pub use turns::Turns;

use crate::breaker::{Breaker, Broken};
use crate::job::Job;
use crate::limits::{self, FLOW_CONCURRENCY_MAX, Invalid};
use crate::name::Key;
use crate::rate::Rate;
use crate::span;
use crate::status::Status;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;

/// Shortest aging, in milliseconds.
const AGING_MIN_MS: i64 = 1_000;
/// Longest aging, in milliseconds (30 days).
const AGING_MAX_MS: i64 = 30 * 86_400_000;

/// The number of a lane, made from its key. Two keys with one number share a lane; among a million keys of a queue that is
/// expected once in ten million stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(i64);

impl Lane {
    /// Where jobs without a key stand.
    pub const PLAIN: Self = Self(0);

    /// The lane of a key: never [`Lane::PLAIN`].
    pub fn of(key: &Key) -> Self {
        let hash = Sha256::digest(key.as_str().as_bytes());
        let (eight, _) = hash.split_at(8);
        let number = eight.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Self(i64::try_from(number >> 1).unwrap_or(i64::MAX).max(1))
    }

    /// A lane by its number, as a store keeps it.
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> i64 {
        self.0
    }
}

/// The rules of a queue. Without any it is served by priority and due time alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueLimits {
    /// How many of its jobs run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// How fast its jobs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Rules for keys. Once it is there, even without a rule in it, keys take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<Lanes>,
    /// By how much older a job of a lane must be to go before one of the next higher priority, in milliseconds; without it
    /// priority decides alone, and a low one may never be served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aging_ms: Option<i64>,
    /// When it breaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Breaker>,
    /// That it broke. No setting: who leads sets it and takes it away, and so does who sets its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
    /// Whether it, or one of its keys, may be held: see [`LaneHold`](crate::hold::LaneHold). No setting: the first hold sets
    /// it, and a claim that finds none takes it away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

impl QueueLimits {
    /// Whether there is a rule.
    pub fn has_rules(&self) -> bool {
        self.concurrency.is_some()
            || self.rate.is_some()
            || self.lanes.is_some()
            || self.aging_ms.is_some()
            || self.breaker.is_some()
    }

    /// Whether there is neither a rule nor a hold.
    pub fn is_empty(&self) -> bool {
        !self.has_rules() && !self.held
    }

    /// Whether keys take turns: there are rules for them, or one of them may be held.
    pub fn takes_turns(&self) -> bool {
        self.lanes.is_some() || self.held
    }

    /// Whether the queue or a key has a rate.
    pub fn has_rates(&self) -> bool {
        let of_lanes =
            |lanes: &Lanes| lanes.each.rate.is_some() || lanes.keys.values().any(|rule| rule.rate.is_some());
        self.rate.is_some() || self.lanes.as_ref().is_some_and(of_lanes)
    }

    /// Accepts what is within the limits.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(n) = self.concurrency {
            limits::within("flow.concurrency", n.into(), 1, FLOW_CONCURRENCY_MAX)?;
        }
        self.rate.map_or(Ok(()), |rate| rate.check("flow.rate"))?;
        if let Some(ms) = self.aging_ms {
            span::within_ms("flow.aging", ms, AGING_MIN_MS, AGING_MAX_MS)?;
        }
        self.breaker.map_or(Ok(()), Breaker::check)?;
        self.lanes.as_ref().map_or(Ok(()), Lanes::check)
    }

    /// The priorities of a queue as they are looked at: one after the other, or all at once where jobs age.
    pub fn levels(&self, priorities: impl IntoIterator<Item = i32>) -> Vec<Vec<i32>> {
        match self.aging_ms {
            Some(_) => vec![priorities.into_iter().collect()],
            None => priorities.into_iter().map(|priority| vec![priority]).collect(),
        }
    }

    /// By what jobs of a lane are ordered that are looked at together, before their ids: a job waits behind none of the next
    /// higher priority that came later by more than the aging.
    pub fn rank(&self, priority: i32, due_at: Timestamp) -> Timestamp {
        due_at.plus_ms(-i64::from(priority) * self.aging_ms.unwrap_or_default())
    }

    /// Whether there is a slot for a job of this lane beside those that are held.
    pub fn has_room(&self, lane: Option<Lane>, held: Held) -> bool {
        let turns = Turns::new(self, held, None, Lane::PLAIN, 1);
        turns.wants() > 0 && turns.room(self.lane(lane)) > 0
    }

    /// The lane in which these rules count a job.
    pub fn lane(&self, lane: Option<Lane>) -> Lane {
        lane.filter(|_| self.takes_turns()).unwrap_or(Lane::PLAIN)
    }

    /// How many jobs of a key may run at once; none if as many as there are.
    fn lane_concurrency(&self, key: Option<&Key>) -> Option<i64> {
        let (lanes, key) = (self.lanes.as_ref()?, key?);
        let own = lanes.keys.get(key).and_then(|rule| rule.concurrency);
        own.or(lanes.each.concurrency).map(i64::from)
    }

    /// That the queue broke and starts no further job now.
    pub fn broken_at(&self, held: &Held, now: Timestamp) -> Option<Broken> {
        self.broken.filter(|broken| !broken.tries(now) || held.total() > 0)
    }

    /// What a job with this key stands behind, in words; none if there is a slot for it.
    pub fn full(&self, key: Option<&Key>, held: &Held) -> Option<String> {
        if let (Some(key), Some(most)) = (key, self.lane_concurrency(key)) {
            let has = held.of(Lane::of(key));
            if has >= most {
                return Some(format!("key {key} has {has} of {most} running"));
            }
        }
        let most = self.concurrency.map(i64::from)?;
        let has = held.total();
        (has >= most).then(|| format!("the queue has {has} of {most} running"))
    }
}

/// In words: `40 at once, 100/s, 2 per key, 10/m per key; acme 3 in a turn`.
impl fmt::Display for QueueLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<String> = self.concurrency.iter().map(|n| format!("{n} at once")).collect();
        said.extend(self.rate.iter().map(ToString::to_string));
        if let Some(lanes) = &self.lanes {
            let LaneRule { concurrency, weight, rate, backlog, full, mode } = lanes.each;
            if lanes.each == LaneRule::default() {
                said.push("keys take turns".to_owned());
            }
            said.extend(concurrency.map(|n| format!("{n} per key")));
            said.extend(rate.map(|rate| format!("{rate} per key")));
            said.extend(weight.map(|n| format!("{n} in a turn")));
            said.extend(backlog.map(|n| format!("{n} waiting per key, then {}", full.unwrap_or_default())));
            said.extend(
                mode.filter(|mode| *mode == LaneMode::Newest).map(|_| "the newest of a key".to_owned()),
            );
        }
        said.extend(self.aging_ms.map(|ms| format!("aging {}", span::to_text(ms))));
        said.extend(self.breaker.map(|breaker| breaker.to_string()));
        f.write_str(&said.join(", "))?;
        let keys = self.lanes.iter().flat_map(|lanes| &lanes.keys);
        keys.into_iter().try_for_each(|(key, rule)| write!(f, "; {key} {rule}"))
    }
}

/// How many slots of a queue are taken, per lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held(HashMap<Lane, i64>);

impl Held {
    /// Counts a slot that is taken.
    pub fn take(&mut self, lane: Lane) {
        *self.0.entry(lane).or_default() += 1;
    }

    /// How many slots a lane takes.
    pub fn of(&self, lane: Lane) -> i64 {
        self.0.get(&lane).copied().unwrap_or_default()
    }

    /// How many slots all lanes take.
    pub fn total(&self) -> i64 {
        self.0.values().sum()
    }
}

impl FromIterator<(Lane, i64)> for Held {
    fn from_iter<T: IntoIterator<Item = (Lane, i64)>>(counts: T) -> Self {
        let mut held = Self::default();
        for (lane, n) in counts {
            *held.0.entry(lane).or_default() += n;
        }
        held
    }
}

impl Job {
    /// Whether it takes a slot of its queue: it runs or is assigned. A lease that is over takes it still.
    pub fn takes_slot(&self) -> bool {
        matches!(self.status, Status::Running | Status::Assigned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn key(text: &str) -> Key {
        Key::try_from(text).unwrap()
    }

    fn lanes(each: LaneRule) -> QueueLimits {
        QueueLimits { lanes: Some(Lanes { each, keys: BTreeMap::new() }), ..QueueLimits::default() }
    }

    fn jobs(lane: i64, n: i64) -> (Lane, Vec<(i64, i64)>) {
        (Lane(lane), (0..n).map(|job| (lane, job)).collect())
    }

    #[test]
    fn a_key_has_one_lane_and_never_the_plain_one() {
        assert_eq!(Lane::of(&key("acme")), Lane::of(&key("acme")));
        assert_ne!(Lane::of(&key("acme")), Lane::of(&key("globex")));
        assert!((0..1_000).all(|n| Lane::of(&key(&n.to_string())) > Lane::PLAIN));
    }

    #[test]
    fn lanes_take_turns_from_behind_the_last_one() {
        let mut turns = Turns::new(&lanes(LaneRule::default()), Held::default(), None, Lane(5), 5);
        let served = turns.serve([jobs(3, 9), jobs(5, 1), jobs(7, 2)], |_| 1);
        assert_eq!(served, [(7, 0), (3, 0), (5, 0), (7, 1), (3, 1)]);
        assert_eq!((turns.from(), turns.wants()), (Lane(3), 0));
    }

    #[test]
    fn the_next_claim_skips_no_lane_that_this_one_did_not_look_at() {
        let turns = |from| Turns::new(&lanes(LaneRule::default()), Held::default(), None, Lane(from), 1);
        let next = |from, served: &[i64], stops: &[i64]| {
            let mut turns = turns(from);
            turns.serve(served.iter().map(|lane| jobs(*lane, 1)), |_| 1);
            stops.iter().for_each(|lane| turns.stop(Lane(*lane)));
            turns.next().number()
        };
        assert_eq!(next(5, &[], &[]), 5);
        assert_eq!(next(5, &[8], &[]), 8);
        assert_eq!(next(5, &[], &[9, 7, 3]), 7, "the nearest of several priorities");
        assert_eq!(next(5, &[6], &[9]), 6, "those behind it at its priority come next");
        assert_eq!(next(5, &[2], &[9]), 9);
        assert_eq!(next(5, &[5], &[3]), 3, "after all the others it is far away");
    }

    #[test]
    fn few_lanes_share_the_whole_claim() {
        let mut turns = Turns::new(&lanes(LaneRule::default()), Held::default(), None, Lane::PLAIN, 10);
        assert_eq!(turns.serve([jobs(1, 9), jobs(2, 1)], |_| 1).len(), 10);
    }

    #[test]
    fn a_weight_is_how_many_a_turn_hands_out() {
        let mut flow = lanes(LaneRule::default());
        let heavy = LaneRule { weight: Some(3), ..LaneRule::default() };
        flow.lanes.as_mut().unwrap().keys.insert(key("heavy"), heavy);
        let lane = Lane::of(&key("heavy")).number();
        let mut turns = Turns::new(&flow, Held::default(), None, Lane(lane - 1), 8);
        let served: Vec<i64> =
            turns.serve([jobs(lane, 9), jobs(lane + 1, 9)], |_| 1).iter().map(|j| j.0).collect();
        assert_eq!(served, [lane, lane, lane, lane + 1, lane, lane, lane, lane + 1]);
    }

    #[test]
    fn limits_count_what_is_held() {
        let rule = LaneRule { concurrency: Some(2), ..LaneRule::default() };
        let flow = QueueLimits { concurrency: Some(4), ..lanes(rule) };
        let held = Held::from_iter([(Lane(1), 1), (Lane(2), 2)]);
        let mut turns = Turns::new(&flow, held, None, Lane::PLAIN, 100);
        assert_eq!((turns.room(Lane(1)), turns.room(Lane(2)), turns.wants()), (1, 0, 1));
        assert_eq!(turns.serve([jobs(0, 1), jobs(2, 5), jobs(1, 5)], |_| 1), [(1, 0)]);
        assert_eq!(turns.wants(), 0, "the queue is full");
    }

    #[test]
    fn more_may_run_than_a_limit_that_was_lowered() {
        let flow = QueueLimits { concurrency: Some(2), ..QueueLimits::default() };
        let turns = Turns::new(&flow, Held::from_iter([(Lane::PLAIN, 5)]), None, Lane::PLAIN, 10);
        assert_eq!(turns.wants(), 0);
    }

    #[test]
    fn it_is_enough_to_know_as_many_as_a_turn_needs() {
        let turns = Turns::new(&lanes(LaneRule::default()), Held::default(), None, Lane::PLAIN, 10);
        assert_eq!((turns.depth(Lane(1), 3), turns.depth(Lane(1), 10)), (10, 1));
    }

    #[test]
    fn rules_out_of_bounds_are_refused_by_name() {
        let rule = |concurrency, weight| lanes(LaneRule { concurrency, weight, ..LaneRule::default() });
        for (flow, field) in [
            (QueueLimits { concurrency: Some(0), ..QueueLimits::default() }, "flow.concurrency"),
            (rule(Some(0), None), "flow.lanes.concurrency"),
            (rule(None, Some(0)), "flow.lanes.weight"),
            (rule(None, Some(1_001)), "flow.lanes.weight"),
        ] {
            assert_eq!(flow.check().unwrap_err().field, field);
        }
        assert!(rule(Some(1), Some(1)).check().is_ok());
    }

    #[test]
    fn a_full_lane_and_a_full_queue_say_so() {
        let flow = QueueLimits {
            concurrency: Some(3),
            ..lanes(LaneRule { concurrency: Some(2), ..LaneRule::default() })
        };
        let acme = key("acme");
        let held = |acme_has: i64, others: i64| {
            Held::from_iter([(Lane::of(&acme), acme_has), (Lane::PLAIN, others)])
        };
        assert_eq!(flow.full(Some(&acme), &held(1, 1)), None);
        assert_eq!(flow.full(Some(&acme), &held(2, 0)).as_deref(), Some("key acme has 2 of 2 running"));
        assert_eq!(flow.full(None, &held(2, 0)), None);
        assert_eq!(flow.full(None, &held(2, 1)).as_deref(), Some("the queue has 3 of 3 running"));
    }

    #[test]
    fn rules_are_said_in_words() {
        let rate = |units| Some(Rate { units, per_ms: 1_000, burst: None });
        let each = LaneRule { concurrency: Some(2), rate: rate(5), ..LaneRule::default() };
        let mut flow = QueueLimits { concurrency: Some(40), rate: rate(100), ..lanes(each) };
        assert_eq!(flow.to_string(), "40 at once, 100/s, 2 per key, 5/s per key");
        let own = LaneRule { weight: Some(3), ..LaneRule::default() };
        flow.lanes.as_mut().unwrap().keys.insert(key("acme"), own);
        assert_eq!(flow.to_string(), "40 at once, 100/s, 2 per key, 5/s per key; acme 3 in a turn");
        assert_eq!(lanes(LaneRule::default()).to_string(), "keys take turns");
    }
}
