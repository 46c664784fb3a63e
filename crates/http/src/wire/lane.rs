//! Limits and rates of a queue, both ways.

use super::object::two_way;
use super::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use windlass_core::breaker::{Breaker, Broken};
use windlass_core::hold::LaneState;
use windlass_core::lane::{Full, LaneMode, LaneRule, Lanes};
use windlass_core::{Invalid, Key, QueueLimits, Rate};

two_way!(LimitsShape, LanesShape, LaneShape, RateShape, BreakerShape, LetGoBody);

/// Limits of a queue. They hold across all workers, and are in force with the next claim.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = QueueLimits)]
pub struct LimitsShape {
    /// How many of its jobs run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100000)]
    pub concurrency: Option<i32>,
    /// How fast its jobs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateShape>,
    /// Rules for keys. Once it is there, also when empty, keys take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LanesShape>,
    /// By how much older a job of a key must be to go before one of the next higher priority, a second to 30 days. Without it
    /// priority decides alone, and a low one may never be served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aging: Option<Span>,
    /// When it breaks: nothing of it starts for a while, then one job at a time until one succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerShape>,
}

/// When a queue breaks: `errors` of `of` attempts that ended `within` a span failed, or a larger part of more.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Breaker)]
pub struct BreakerShape {
    /// How many of `of` must fail.
    #[schema(minimum = 1, maximum = 10000)]
    pub errors: i32,
    /// With fewer attempts than that nothing is decided.
    #[schema(minimum = 1, maximum = 10000)]
    pub of: i32,
    /// In which time, between a second and an hour.
    pub within: Span,
    /// For how long nothing starts then, between a second and a day.
    pub pause: Span,
}

/// That a queue broke.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = Broken)]
pub struct BrokenShape {
    /// Since when.
    pub at: Time,
    /// Until then nothing starts; from then on one job at a time is tried until one succeeds.
    pub until: Time,
    /// How many attempts were counted.
    pub ended: i64,
    /// How many of them failed or took too long.
    pub failed: i64,
}

impl From<Broken> for BrokenShape {
    fn from(Broken { at, until, count }: Broken) -> Self {
        Self { at: Time(at), until: Time(until), ended: count.ended, failed: count.failed }
    }
}

impl From<Breaker> for BreakerShape {
    fn from(Breaker { errors, of, within_ms, pause_ms }: Breaker) -> Self {
        Self { errors, of, within: Span::from_ms(within_ms), pause: Span::from_ms(pause_ms) }
    }
}

impl From<BreakerShape> for Breaker {
    fn from(BreakerShape { errors, of, within, pause }: BreakerShape) -> Self {
        Self { errors, of, within_ms: within.ms(), pause_ms: pause.ms() }
    }
}

/// Rules for the keys of a queue.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Lanes)]
pub struct LanesShape {
    /// How many jobs of one key run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100000)]
    pub concurrency: Option<i32>,
    /// How many jobs of a key are handed out in one turn; one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<i32>,
    /// How fast the jobs of one key start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateShape>,
    /// How many jobs of one key may stand in line, due or not, when another comes, 1 to 10,000; any number when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000)]
    pub backlog: Option<i32>,
    /// What becomes of a job that comes when so many wait: `refuse` (429 `lane_full`), as when left out, or `drop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub full: Option<Full>,
    /// `wait`, as when left out, or `newest`: a job that comes cancels those of its key that stand in line (`superseded`), and
    /// asks the oldest that runs to stop if there is no slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub mode: Option<LaneMode>,
    /// What holds for some keys instead, at most 1,000.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, LaneShape>,
}

/// Rules for one key.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Lane)]
pub struct LaneShape {
    /// How many of its jobs run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100000)]
    pub concurrency: Option<i32>,
    /// How many of its jobs are handed out in one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub weight: Option<i32>,
    /// How fast its jobs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateShape>,
    /// How many of its jobs may stand in line, due or not, when another comes, 1 to 10,000; any number when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000)]
    pub backlog: Option<i32>,
    /// What becomes of a job that comes when so many wait: `refuse` (429 `lane_full`), as when left out, or `drop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub full: Option<Full>,
    /// `wait`, as when left out, or `newest`: a job that comes cancels those of its key that stand in line (`superseded`), and
    /// asks the oldest that runs to stop if there is no slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub mode: Option<LaneMode>,
}

/// So many units per period; a start takes as many as the job costs. No period sees starts of more than `units` and `burst`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Rate)]
pub struct RateShape {
    /// How many units; at most 10,000 a second.
    #[schema(minimum = 1, maximum = 1000000)]
    pub units: i32,
    /// In which time, between a second and 30 days.
    pub per: Span,
    /// How many units may start at once after a pause; as many as `units` when left out, 1 spreads them evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000000)]
    pub burst: Option<i32>,
}

/// The keys of a queue, in the order of their turns; none of a queue whose keys take no turns.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = LanesPage)]
pub struct LanesPage {
    /// A page of them.
    pub lanes: Vec<LaneStateShape>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// A key of a queue, as it stands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = LaneState)]
pub struct LaneStateShape {
    /// The key; null if no job of it is left that could say so.
    pub key: Option<String>,
    /// How many of its jobs run or are assigned.
    pub running: i64,
    /// How many of its jobs could start now if nothing kept them.
    pub due: i64,
    /// Whether there are more than that.
    pub due_capped: bool,
    /// Until when it is held; null if it is not.
    pub held_until: Option<Time>,
    /// When its next unit is there; null if it has one, or no rate.
    pub next_at: Option<Time>,
}

impl From<LaneState> for LaneStateShape {
    fn from(state: LaneState) -> Self {
        let LaneState { key, running, due, held_until, next_at, .. } = state;
        Self {
            key: key.map(|key| key.to_string()),
            running,
            due: due.n,
            due_capped: due.capped,
            held_until: held_until.map(Time),
            next_at: next_at.map(Time),
        }
    }
}

/// What to let go.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = LetGo)]
pub struct LetGoBody {
    /// Which key; the whole queue when it is absent. Its keys stay held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What was let go.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = LaneReleased)]
pub struct LetGo {
    /// Whether a hold or a debt kept it.
    pub released: bool,
}

impl From<Rate> for RateShape {
    fn from(Rate { units, per_ms, burst }: Rate) -> Self {
        Self { units, per: Span::from_ms(per_ms), burst }
    }
}

impl From<RateShape> for Rate {
    fn from(RateShape { units, per, burst }: RateShape) -> Self {
        Self { units, per_ms: per.ms(), burst }
    }
}

impl From<LaneRule> for LaneShape {
    fn from(LaneRule { concurrency, weight, rate, backlog, full, mode }: LaneRule) -> Self {
        Self { concurrency, weight, rate: rate.map(RateShape::from), backlog, full, mode }
    }
}

impl From<LaneShape> for LaneRule {
    fn from(LaneShape { concurrency, weight, rate, backlog, full, mode }: LaneShape) -> Self {
        Self { concurrency, weight, rate: rate.map(Rate::from), backlog, full, mode }
    }
}

impl From<&QueueLimits> for LimitsShape {
    fn from(flow: &QueueLimits) -> Self {
        Self {
            concurrency: flow.concurrency,
            rate: flow.rate.map(RateShape::from),
            lanes: flow.lanes.as_ref().map(LanesShape::from),
            aging: flow.aging_ms.map(Span::from_ms),
            breaker: flow.breaker.map(BreakerShape::from),
        }
    }
}

impl From<&Lanes> for LanesShape {
    fn from(lanes: &Lanes) -> Self {
        let LaneShape { concurrency, weight, rate, backlog, full, mode } = lanes.each.into();
        let keys = lanes.keys.iter().map(|(key, rule)| (key.to_string(), (*rule).into()));
        Self { concurrency, weight, rate, backlog, full, mode, keys: keys.collect() }
    }
}

impl TryFrom<LimitsShape> for QueueLimits {
    type Error = Invalid;
    fn try_from(shape: LimitsShape) -> Result<Self, Invalid> {
        let LimitsShape { concurrency, rate, lanes, aging, breaker } = shape;
        let lanes = lanes.map(Lanes::try_from).transpose()?;
        Ok(Self {
            concurrency,
            rate: rate.map(Rate::from),
            lanes,
            aging_ms: aging.map(Span::ms),
            breaker: breaker.map(Breaker::from),
            ..Self::default()
        })
    }
}

impl TryFrom<LanesShape> for Lanes {
    type Error = Invalid;
    fn try_from(shape: LanesShape) -> Result<Self, Invalid> {
        let LanesShape { concurrency, weight, rate, backlog, full, mode, keys } = shape;
        let keys = keys.into_iter().map(|(key, rule)| Ok((Key::parse("flow.lanes.keys", key)?, rule.into())));
        let each = LaneShape { concurrency, weight, rate, backlog, full, mode }.into();
        Ok(Self { each, keys: keys.collect::<Result<_, Invalid>>()? })
    }
}
