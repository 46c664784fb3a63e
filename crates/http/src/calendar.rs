//! `GET /v1/calendar`: what fires in a stretch of time, over all schedules.

use crate::call::{Call, Reply, ok};
use crate::wire::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use windlass_core::schedule::ScheduleState;
use windlass_core::{Invalid, Timestamp};
use windlass_store::fresh;

const HOUR_MS: i64 = 3_600_000;
/// The stretch when nothing is said.
const DAY_MS: i64 = 24 * HOUR_MS;
/// The longest stretch.
const LONGEST_MS: i64 = 35 * DAY_MS;
/// Slots of one schedule that are named; of one with more, each hour says how many.
const NAMED: usize = 200;
/// Slots that are looked at, over all schedules.
const LOOKED: usize = 20_000;

/// What fires in a stretch of time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Calendar)]
pub(crate) struct CalendarShape {
    from: Time,
    to: Time,
    /// Schedules that fire in it, by name. What is paused does not.
    schedules: Vec<Fires>,
    /// Whether it is all of it: 20,000 slots are looked at, at most.
    complete: bool,
}

/// When one schedule fires.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CalendarSchedule)]
pub(crate) struct Fires {
    name: String,
    /// How often.
    count: usize,
    /// Each slot; none of one with more than 200.
    slots: Vec<Time>,
    /// How many in each hour, of one with more.
    hours: Vec<Hour>,
}

/// How often a schedule fires in an hour.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CalendarHour)]
pub(crate) struct Hour {
    /// When it begins, in UTC.
    at: Time,
    count: usize,
}

/// `GET /v1/calendar`
pub(crate) async fn calendar(call: Call) -> Reply {
    let from = call.query.time("from")?.unwrap_or_else(fresh::wall_clock);
    let to = call.query.time("to")?.unwrap_or_else(|| from.plus_ms(DAY_MS));
    if to <= from || to > from.plus_ms(LONGEST_MS) {
        return Err(Invalid::new("to", to, "must be after `from`, by at most 35 days").into());
    }
    let mut left = LOOKED;
    let mut schedules = Vec::new();
    for state in call.store().schedules((), None).await? {
        if state.paused.is_some() || !call.who.sees(&state.schedule.job.queue) {
            continue;
        }
        // Others are served between two of them.
        tokio::task::yield_now().await;
        let slots = slots(&state, from, to, left);
        left -= slots.len();
        if !slots.is_empty() {
            schedules.push(Fires::of(state.name.to_string(), slots));
        }
    }
    ok(&CalendarShape { from: Time(from), to: Time(to), schedules, complete: left > 0 })
}

/// The slots of a schedule in a stretch, at most so many. One that cannot be reckoned has none.
fn slots(state: &ScheduleState, from: Timestamp, to: Timestamp, most: usize) -> Vec<Timestamp> {
    let Ok(slots) = state.schedule.slots(state.created_at) else { return Vec::new() };
    // A slot at the very beginning counts.
    let mut after = Timestamp::from_micros(from.as_micros() - 1);
    let mut found = Vec::new();
    while found.len() < most
        && let Some(slot) = slots.after(after).filter(|slot| *slot < to)
    {
        found.push(slot);
        after = slot;
    }
    found
}

impl Fires {
    fn of(name: String, slots: Vec<Timestamp>) -> Self {
        let count = slots.len();
        if count <= NAMED {
            return Self { name, count, slots: slots.into_iter().map(Time).collect(), hours: Vec::new() };
        }
        let mut hours: BTreeMap<i64, usize> = BTreeMap::new();
        for slot in slots {
            *hours.entry(slot.as_micros().div_euclid(HOUR_MS * 1_000)).or_default() += 1;
        }
        let hour = |(n, count)| Hour { at: Time(Timestamp::from_micros(n * HOUR_MS * 1_000)), count };
        Self { name, count, slots: Vec::new(), hours: hours.into_iter().map(hour).collect() }
    }
}
