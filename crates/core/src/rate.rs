//! How fast the jobs of a queue start: so many units per period, as a whole and per key.
//!
//! A **unit** is what one start costs; a job may cost more (its `cost`). A **bucket** keeps one moment, `paid_until`: each
//! start moves it on by the time its units take at the rate, and a start is allowed while it stays within the burst from
//! now. In the past it means nothing, so a bucket needs no refill, no sweep and no repair: it heals by time.
//!
//! What this promises: no span of `per` sees starts of more than `units + burst` units. A job that costs more than the
//! burst waits for a full bucket and leaves a debt; then it is `units` and that cost.

use crate::hold::HOLD_MAX_MS;
use crate::lane::{Lane, QueueLimits};
use crate::limits::{self, FLOW_UNITS_MAX, FLOW_UNITS_PER_SECOND_MAX, Invalid};
use crate::name::Key;
use crate::span;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

/// The bucket of a whole queue, among those of its lanes.
pub const WHOLE: Lane = Lane::from_number(-1);

/// Shortest period of a rate, in milliseconds.
const PER_MIN_MS: i64 = 1_000;
/// Longest period of a rate, in milliseconds (30 days).
const PER_MAX_MS: i64 = 30 * 86_400_000;

/// So many units per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many units.
    pub units: i32,
    /// In which time, in milliseconds.
    pub per_ms: i64,
    /// How many units may start at once after a pause; as many as `units` when absent, 1 spreads them evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<i32>,
}

impl Rate {
    /// Reads what people write: `100/s`, `10/m`, `5/10s`, `1000/h`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::new(field, text, "must be units per time, like 100/s, 10/m, 5/10s or 1000/h");
        let (units, per) = text.trim().split_once('/').ok_or_else(wrong)?;
        let units = units.trim().parse().map_err(|_| wrong())?;
        let per = per.trim();
        let per = if per.starts_with(|c: char| c.is_ascii_alphabetic()) {
            format!("1{per}")
        } else {
            per.to_owned()
        };
        let per_ms = span::parse_ms(field, &per).map_err(|_| wrong())?;
        Ok(Self { units, per_ms, burst: None })
    }

    /// Accepts a rate within the limits. `field` is where it stands, such as `flow.rate`.
    pub fn check(self, field: &str) -> Result<(), Invalid> {
        limits::within(&format!("{field}.units"), self.units.into(), 1, FLOW_UNITS_MAX)?;
        span::within_ms(&format!("{field}.per"), self.per_ms, PER_MIN_MS, PER_MAX_MS)?;
        if let Some(burst) = self.burst {
            limits::within(&format!("{field}.burst"), burst.into(), 1, FLOW_UNITS_MAX)?;
        }
        if i64::from(self.units) * 1_000 > FLOW_UNITS_PER_SECOND_MAX * self.per_ms {
            let limit = format!("must be at most {FLOW_UNITS_PER_SECOND_MAX} units a second");
            return Err(Invalid::new(field, self, limit));
        }
        Ok(())
    }

    /// How many units may start at once.
    fn burst(self) -> i64 {
        self.burst.unwrap_or(self.units).max(1).into()
    }

    /// How long one unit takes, in microseconds; rounded up, so that the rate is never passed.
    fn unit_us(self) -> i64 {
        let (per_us, units) = (self.per_ms.saturating_mul(1_000), i64::from(self.units.max(1)));
        (per_us / units + i64::from(per_us % units != 0)).max(1)
    }

    /// How long so many units take, in microseconds.
    fn takes_us(self, units: i64) -> i64 {
        self.unit_us().saturating_mul(units)
    }
}

/// As [`Rate::parse`] reads it, with its burst where that is said.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = span::to_text(self.per_ms);
        let one = ["1s", "1m", "1h", "1d"].contains(&per.as_str());
        write!(f, "{}/{}", self.units, if one { &per[1..] } else { &per })?;
        self.burst.map_or(Ok(()), |burst| write!(f, " in bursts of {burst}"))
    }
}

/// What a store keeps of a queue's or a lane's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Up to when starts are paid for.
    pub paid_until: Timestamp,
    /// What the last start cost, or the whole debt after a charge. Only that, if it was more than the burst, lets the bucket
    /// be further ahead than the burst.
    pub cost: i32,
    /// Until when the lane is held; none if nobody holds it.
    pub held_until: Option<Timestamp>,
}

impl Bucket {
    /// A bucket that says nothing.
    pub fn empty(now: Timestamp) -> Self {
        Self { paid_until: now, cost: 0, held_until: None }
    }

    /// Whether it still says anything.
    pub fn counts_at(&self, now: Timestamp) -> bool {
        self.paid_until > now || self.held_until.is_some_and(|until| until > now)
    }
}

/// The buckets of a queue at one moment. What hands out its jobs asks and pays here, under the lock of the queue.
#[derive(Debug, Clone)]
pub struct Rates {
    now: Timestamp,
    whole: Option<Rate>,
    each: Option<Rate>,
    own: HashMap<Lane, Rate>,
    buckets: HashMap<Lane, Bucket>,
    /// Lanes that are held, and until when.
    holds: HashMap<Lane, Timestamp>,
    /// Buckets to be kept as they are now.
    changed: BTreeSet<Lane>,
    /// Lanes whose next job cannot be paid for: they stand still for the rest of a claim.
    closed: HashSet<Lane>,
    /// Whether the next job cannot be paid for from the bucket of the queue.
    shut: bool,
}

impl Rates {
    /// The rates of a queue with the buckets that are kept for it; none if it has no rates and nothing can be held.
    /// A lane that is held stands still as if it could not pay.
    ///
    /// A bucket that is further ahead than its burst was charged before the clock went back, or at a slower rate: it counts
    /// as empty, so that nothing stands still for longer than it takes to fill.
    pub fn new(
        flow: &QueueLimits,
        kept: impl IntoIterator<Item = (Lane, Bucket)>,
        now: Timestamp,
    ) -> Option<Self> {
        if !flow.has_rates() && !flow.held {
            return None;
        }
        let lanes = flow.lanes.as_ref();
        let own = lanes.into_iter().flat_map(|lanes| &lanes.keys);
        let mut rates = Self {
            now,
            whole: flow.rate,
            each: lanes.and_then(|lanes| lanes.each.rate),
            own: own.filter_map(|(key, rule)| Some((Lane::of(key), rule.rate?))).collect(),
            buckets: HashMap::new(),
            holds: HashMap::new(),
            changed: BTreeSet::new(),
            closed: HashSet::new(),
            shut: false,
        };
        for (lane, mut bucket) in kept {
            if let Some(until) = bucket.held_until.filter(|until| *until > now) {
                // The clock may have gone back since.
                rates.holds.insert(lane, until.min(now.plus_ms(HOLD_MAX_MS)));
                rates.shut |= lane == WHOLE;
                rates.closed.insert(lane);
            }
            let Some(rate) = rates.rate(lane) else { continue };
            let most = plus_us(now, rate.takes_us(rate.burst().max(bucket.cost.into())));
            if bucket.paid_until > most {
                bucket.paid_until = most;
                rates.changed.insert(lane);
            }
            rates.buckets.insert(lane, bucket);
        }
        Some(rates)
    }

    fn rate(&self, lane: Lane) -> Option<Rate> {
        match lane {
            WHOLE => self.whole,
            Lane::PLAIN => None,
            lane => self.own.get(&lane).copied().or(self.each),
        }
    }

    fn paid_until(&self, lane: Lane) -> Timestamp {
        self.buckets.get(&lane).map_or(self.now, |bucket| bucket.paid_until.max(self.now))
    }

    /// From when a start may be paid for out of one bucket.
    fn ready_at(&self, lane: Lane, cost: i32) -> Timestamp {
        let Some(rate) = self.rate(lane) else { return self.now };
        let ahead = rate.takes_us((rate.burst() - i64::from(cost)).max(0));
        plus_us(self.paid_until(lane), -ahead)
    }

    /// How many jobs that cost one unit could start out of one bucket.
    fn units_in(&self, lane: Lane) -> usize {
        let Some(rate) = self.rate(lane) else { return usize::MAX };
        let ahead = self.paid_until(lane).as_micros() - self.now.as_micros();
        usize::try_from((rate.takes_us(rate.burst()) - ahead) / rate.unit_us()).unwrap_or_default()
    }

    /// How many jobs of a lane that cost one unit could start.
    pub fn room(&self, lane: Lane) -> usize {
        if self.closed.contains(&lane) { 0 } else { self.units_in(lane) }
    }

    /// How many jobs of the queue that cost one unit could start.
    pub fn wants(&self) -> usize {
        if self.shut { 0 } else { self.units_in(WHOLE) }
    }

    /// Whether the next job of a lane can be paid for out of the lane's bucket. If not, the lane stands still for the rest
    /// of the claim: what is behind that job does not pass it.
    pub fn opens(&mut self, lane: Lane, cost: i32) -> bool {
        let opens = !self.closed.contains(&lane) && self.ready_at(lane, cost) <= self.now;
        if !opens {
            self.closed.insert(lane);
        }
        opens
    }

    /// Whether the job that is next may start. If the queue's bucket cannot pay for it, nothing else starts in this claim:
    /// cheaper jobs do not pass it for ever.
    pub fn admits(&mut self, lane: Lane, cost: i32) -> bool {
        if self.shut || !self.opens(lane, cost) {
            return false;
        }
        self.shut = self.ready_at(WHOLE, cost) > self.now;
        !self.shut
    }

    /// Pays for a start.
    pub fn pay(&mut self, lane: Lane, cost: i32) {
        for lane in [lane, WHOLE] {
            let Some(rate) = self.rate(lane) else { continue };
            let paid_until = plus_us(self.paid_until(lane), rate.takes_us(cost.into()));
            let held_until = self.buckets.get(&lane).and_then(|bucket| bucket.held_until);
            self.buckets.insert(lane, Bucket { paid_until, cost, held_until });
            self.changed.insert(lane);
        }
    }

    /// Adds units that a start turned out to cost. The debt of a bucket is at most a million units.
    pub fn charge(&mut self, lane: Lane, units: i32) {
        self.pay(lane, units);
        for lane in [lane, WHOLE] {
            let (Some(rate), Some(bucket)) = (self.rate(lane), self.buckets.get_mut(&lane)) else { continue };
            let most = plus_us(self.now, rate.takes_us(FLOW_UNITS_MAX));
            bucket.paid_until = bucket.paid_until.min(most);
            let ahead_us = bucket.paid_until.as_micros() - self.now.as_micros();
            let debt = ahead_us.div_euclid(rate.unit_us().max(1)) + 1;
            bucket.cost = i32::try_from(debt.min(FLOW_UNITS_MAX)).unwrap_or(i32::MAX);
        }
    }

    /// Whether the queue or a lane is held.
    pub fn has_holds(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Until when a lane is held; none if it is not.
    pub fn held_until(&self, lane: Lane) -> Option<Timestamp> {
        self.holds.get(&lane).copied()
    }

    /// When the next unit of a lane is there; none if there is one, or no rate.
    pub fn next_at(&self, lane: Lane) -> Option<Timestamp> {
        Some(self.ready_at(lane, 1)).filter(|at| *at > self.now)
    }

    /// Who holds back a job with this key, in words, and until when; none if nobody does.
    pub fn held(&self, key: Option<&Key>) -> Option<(String, Timestamp)> {
        let of_key =
            key.and_then(|key| Some((format!("key {key} is held"), *self.holds.get(&Lane::of(key))?)));
        let of_queue = self.holds.get(&WHOLE).map(|until| ("the queue is held".to_owned(), *until));
        of_key.into_iter().chain(of_queue).max_by_key(|(_, at)| *at)
    }

    /// What is to be kept, in the order of lanes.
    pub fn changed(&self) -> impl Iterator<Item = (Lane, Bucket)> {
        self.changed.iter().filter_map(|lane| Some((*lane, *self.buckets.get(lane)?)))
    }

    /// What a job with this key and cost stands behind, in words, and when it may start; none if it may now.
    pub fn behind(&self, key: Option<&Key>, cost: i32) -> Option<(String, Timestamp)> {
        let lane = key.map_or(Lane::PLAIN, Lane::of);
        let of = |whose: String, lane: Lane| {
            let (rate, at) = (self.rate(lane)?, self.ready_at(lane, cost));
            (at > self.now).then(|| (format!("{whose} has used its {rate}"), at))
        };
        let of_key = key.and_then(|key| of(format!("key {key}"), lane));
        let of_queue = of("the queue".to_owned(), WHOLE);
        // Where both are used up, what lasts longer is the answer.
        of_key.into_iter().chain(of_queue).max_by_key(|(_, at)| *at)
    }
}

fn plus_us(at: Timestamp, us: i64) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_add(us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::{Held, LaneRule, Lanes, Turns};
    use std::collections::BTreeMap;

    const SECOND_US: i64 = 1_000_000;

    fn at(us: i64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    fn rate(units: i32, per_ms: i64, burst: i32) -> Rate {
        Rate { units, per_ms, burst: Some(burst) }
    }

    fn of_queue(rate: Rate) -> QueueLimits {
        QueueLimits { rate: Some(rate), ..QueueLimits::default() }
    }

    fn of_keys(rate: Rate) -> QueueLimits {
        let each = LaneRule { rate: Some(rate), ..LaneRule::default() };
        QueueLimits { lanes: Some(Lanes { each, keys: BTreeMap::new() }), ..QueueLimits::default() }
    }

    /// A store that keeps what is to be kept.
    #[derive(Default)]
    struct Kept(BTreeMap<Lane, Bucket>);

    impl Kept {
        fn at(&self, flow: &QueueLimits, us: i64) -> Rates {
            Rates::new(flow, self.0.clone(), at(us)).unwrap()
        }

        fn starts(&mut self, flow: &QueueLimits, lane: Lane, cost: i32, us: i64) -> bool {
            let mut rates = self.at(flow, us);
            let admits = rates.admits(lane, cost);
            if admits {
                rates.pay(lane, cost);
            }
            self.0.extend(rates.changed());
            admits
        }
    }

    #[test]
    fn a_rate_reads_back_as_people_write_it() {
        for text in ["100/s", "10/m", "5/10s", "1000/h", "3/d", "1/1h30m"] {
            assert_eq!(Rate::parse("rate", text).unwrap().to_string(), text);
        }
        assert_eq!(Rate::parse("rate", " 7 / 60s ").unwrap().to_string(), "7/m");
        assert_eq!(rate(100, 1_000, 10).to_string(), "100/s in bursts of 10");
        for text in ["", "100", "/s", "x/s", "5/", "5/parsec", "1.5/s", "5//s"] {
            let invalid = Rate::parse("--rate", text).unwrap_err();
            assert!(invalid.field == "--rate" && invalid.limit.contains("100/s"), "{text}: {invalid}");
        }
    }

    #[test]
    fn rates_out_of_bounds_are_refused_by_name() {
        for (wrong, field) in [
            (rate(0, 1_000, 1), "flow.rate.units"),
            (rate(1_000_001, 86_400_000, 1), "flow.rate.units"),
            (rate(1, 999, 1), "flow.rate.per"),
            (rate(1, 31 * 86_400_000, 1), "flow.rate.per"),
            (rate(1, 1_000, 0), "flow.rate.burst"),
            (rate(10_001, 1_000, 1), "flow.rate"),
        ] {
            assert_eq!(of_queue(wrong).check().unwrap_err().field, field);
        }
        assert!(of_queue(rate(10_000, 1_000, 1)).check().is_ok());
        assert_eq!(of_keys(rate(0, 1_000, 1)).check().unwrap_err().field, "flow.lanes.rate.units");
    }

    #[test]
    fn a_burst_then_one_by_one() {
        let (flow, mut kept) = (of_queue(rate(10, 1_000, 3)), Kept::default());
        let first: Vec<bool> = (0..4).map(|_| kept.starts(&flow, Lane::PLAIN, 1, 0)).collect();
        assert_eq!(first, [true, true, true, false]);
        assert!(!kept.starts(&flow, Lane::PLAIN, 1, 99_999));
        assert!(kept.starts(&flow, Lane::PLAIN, 1, 100_000));
        assert!(!kept.starts(&flow, Lane::PLAIN, 1, 100_001));
        let later: Vec<bool> = (0..4).map(|_| kept.starts(&flow, Lane::PLAIN, 1, 60 * SECOND_US)).collect();
        assert_eq!(later, [true, true, true, false], "a pause is worth a burst and no more");
    }

    /// Every window, over many rates and costs, with somebody who tries all the time.
    #[test]
    fn no_window_sees_more_than_units_and_burst() {
        for (units, per_ms, burst) in
            [(10, 1_000, 1), (7, 1_000, 3), (3, 2_000, 10), (1, 1_000, 1), (100, 1_000, 100)]
        {
            let (flow, mut kept) = (of_queue(rate(units, per_ms, burst)), Kept::default());
            let (mut starts, mut largest) = (Vec::new(), i64::from(burst));
            for n in 0..4_000_i64 {
                let (us, cost) = (n * 1_777, if n % 5 == 0 { 1 + (n % 13) as i32 } else { 1 });
                if kept.starts(&flow, Lane::PLAIN, cost, us) {
                    starts.push((us, i64::from(cost)));
                    largest = largest.max(cost.into());
                }
            }
            assert!(starts.len() > 3, "{units}: {}", starts.len());
            for (n, (from, _)) in starts.iter().enumerate() {
                let within = starts[n..].iter().take_while(|(us, _)| us - from <= per_ms * 1_000);
                let sum: i64 = within.map(|(_, cost)| cost).sum();
                assert!(sum <= i64::from(units) + largest, "{sum} from {from} of {units} and {largest}");
            }
        }
    }

    #[test]
    fn a_cost_above_the_burst_waits_for_a_full_bucket_and_leaves_a_debt() {
        let (flow, mut kept) = (of_queue(rate(1, 1_000, 2)), Kept::default());
        assert!(kept.starts(&flow, Lane::PLAIN, 1, 0));
        assert!(!kept.starts(&flow, Lane::PLAIN, 5, 999_999), "not full");
        assert!(kept.starts(&flow, Lane::PLAIN, 5, SECOND_US));
        // Five units are paid for up to second 6, two of them ahead.
        assert!(!kept.starts(&flow, Lane::PLAIN, 1, 5 * SECOND_US - 1));
        assert!(kept.starts(&flow, Lane::PLAIN, 1, 5 * SECOND_US));
    }

    #[test]
    fn a_dear_job_is_not_passed_by_cheaper_ones() {
        let flow = of_queue(rate(10, 1_000, 10));
        let mut rates = Kept::default().at(&flow, 0);
        (0..7).for_each(|_| rates.pay(Lane::PLAIN, 1));
        assert_eq!((rates.wants(), rates.admits(Lane::PLAIN, 5)), (3, false));
        assert!(!rates.admits(Lane::PLAIN, 1), "the whole queue waits with it");
        assert_eq!(rates.wants(), 0);
    }

    #[test]
    fn a_lane_that_is_used_up_delays_no_other() {
        let (flow, a, b) = (of_keys(rate(10, 1_000, 2)), Lane::from_number(1), Lane::from_number(2));
        let mut turns =
            Turns::new(&flow, Held::default(), Kept::default().at(&flow, 0).into(), Lane::PLAIN, 10);
        let jobs = |lane: i64, n: i64| (0..n).map(move |job| (lane, job)).collect::<Vec<_>>();
        let served = turns.serve([(a, jobs(1, 5)), (b, jobs(2, 1)), (Lane::PLAIN, jobs(0, 4))], |_| 1);
        assert_eq!(served, [(1, 0), (2, 0), (0, 0), (1, 1), (0, 1), (0, 2), (0, 3)]);
        let dear = |job: &(i64, i64)| if *job == (1, 0) { 3 } else { 1 };
        let mut kept = Kept::default();
        assert!(kept.starts(&flow, a, 1, 0));
        let mut turns = Turns::new(&flow, Held::default(), Some(kept.at(&flow, 0)), Lane::PLAIN, 10);
        let served = turns.serve([(a, jobs(1, 2)), (b, jobs(2, 1))], dear);
        assert_eq!((served, turns.room(a)), (vec![(2, 0)], 0), "what is behind it waits too");
    }

    #[test]
    fn a_clock_that_goes_back_freezes_nothing_for_longer_than_a_burst() {
        let (flow, mut kept) = (of_queue(rate(1, 1_000, 3)), Kept::default());
        let hour = 3_600 * SECOND_US;
        (0..3).for_each(|_| assert!(kept.starts(&flow, Lane::PLAIN, 1, hour)));
        assert!(!kept.starts(&flow, Lane::PLAIN, 1, 0), "it counts as empty");
        assert!(kept.starts(&flow, Lane::PLAIN, 1, SECOND_US));
        let (flow, mut kept) = (of_queue(rate(1, 1_000, 1)), Kept::default());
        assert!(kept.starts(&flow, Lane::PLAIN, 20, 0));
        assert!(!kept.starts(&flow, Lane::PLAIN, 1, 20 * SECOND_US - 1), "a debt is not forgotten");
        assert!(kept.starts(&flow, Lane::PLAIN, 1, 20 * SECOND_US));
    }

    #[test]
    fn what_a_slower_rate_charged_does_not_hold_a_faster_one_back() {
        let mut kept = Kept::default();
        let slow = of_queue(rate(1, 3_600_000, 5));
        (0..5).for_each(|_| assert!(kept.starts(&slow, Lane::PLAIN, 1, 0)));
        let fast = of_queue(rate(10, 1_000, 10));
        assert!(!kept.starts(&fast, Lane::PLAIN, 1, 1));
        assert!(kept.starts(&fast, Lane::PLAIN, 1, SECOND_US));
    }

    #[test]
    fn what_a_job_stands_behind_is_said_with_its_moment() {
        let acme = Key::try_from("acme").unwrap();
        let flow = QueueLimits { rate: Some(rate(1, 1_000, 1)), ..of_keys(rate(6, 60_000, 1)) };
        let mut kept = Kept::default();
        assert_eq!(kept.at(&flow, 0).behind(Some(&acme), 1), None);
        assert!(kept.starts(&flow, Lane::of(&acme), 1, 0));
        let (by, until) = kept.at(&flow, 5).behind(Some(&acme), 1).unwrap();
        assert_eq!((by.as_str(), until), ("key acme has used its 6/m in bursts of 1", at(10 * SECOND_US)));
        let (by, until) = kept.at(&flow, 5).behind(None, 1).unwrap();
        assert_eq!((by.as_str(), until), ("the queue has used its 1/s in bursts of 1", at(SECOND_US)));
        assert_eq!(kept.at(&flow, SECOND_US).behind(None, 1), None);
    }
}
