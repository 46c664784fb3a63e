//! Limits of a queue, both ways.

use super::object::two_way;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::{Invalid, Key, QueueLimits};

two_way!(LimitsShape, LanesShape, LaneShape);

/// Limits of a queue. They hold across all workers, and are in force with the next claim.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = QueueLimits)]
pub struct LimitsShape {
    /// How many of its jobs run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100000)]
    pub concurrency: Option<i32>,
    /// Rules for keys. Once it is there, also when empty, keys take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LanesShape>,
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
}

impl From<&QueueLimits> for LimitsShape {
    fn from(flow: &QueueLimits) -> Self {
        Self { concurrency: flow.concurrency, lanes: flow.lanes.as_ref().map(LanesShape::from) }
    }
}

impl From<&Lanes> for LanesShape {
    fn from(lanes: &Lanes) -> Self {
        let LaneRule { concurrency, weight } = lanes.each;
        let keys = lanes.keys.iter().map(|(key, rule)| {
            let LaneRule { concurrency, weight } = *rule;
            (key.to_string(), LaneShape { concurrency, weight })
        });
        Self { concurrency, weight, keys: keys.collect() }
    }
}

impl TryFrom<LimitsShape> for QueueLimits {
    type Error = Invalid;
    fn try_from(shape: LimitsShape) -> Result<Self, Invalid> {
        let LimitsShape { concurrency, lanes } = shape;
        Ok(Self { concurrency, lanes: lanes.map(Lanes::try_from).transpose()? })
    }
}

impl TryFrom<LanesShape> for Lanes {
    type Error = Invalid;
    fn try_from(shape: LanesShape) -> Result<Self, Invalid> {
        let LanesShape { concurrency, weight, keys } = shape;
        let keys = keys.into_iter().map(|(key, LaneShape { concurrency, weight })| {
            Ok((Key::parse("flow.lanes.keys", key)?, LaneRule { concurrency, weight }))
        });
        Ok(Self { each: LaneRule { concurrency, weight }, keys: keys.collect::<Result<_, Invalid>>()? })
    }
}
