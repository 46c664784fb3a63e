//! `/v1/stats`: how much happened over time.

use crate::call::{Call, Reply, json, ok};
use crate::wire::stats::RebuildBody;
use crate::wire::time::{Span, Time};
use axum::http::StatusCode;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use windlass_core::follow::STATS;
use windlass_core::stats::{Histogram, Tally};
use windlass_core::{Invalid, Name, Timestamp};
use windlass_store::{Gauge, ROLLUPS_MAX, ReadGauges, ReadRollups, RebuildStats, Resolution, Rollup, fresh};

/// The most steps of an answer.
const STEPS_MAX: i64 = 360;
/// The most series of an answer, beside the one of all others.
const SERIES_MAX: usize = 20;
/// Steps that are aimed at when nothing is said.
const STEPS: i64 = 60;

/// What happened over time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats)]
pub(crate) struct StatsShape {
    /// The beginning of the first step.
    from: Time,
    /// The end of the last step.
    to: Time,
    /// How long a step is.
    step: Span,
    /// Until when events are counted, at least; null if none are.
    as_of: Option<Time>,
    /// Whether all rows were read. If not, ask for less: a shorter time, one queue, one kind.
    complete: bool,
    /// The upper ends of the buckets of `wait` and `run`, in seconds.
    bounds: Vec<f64>,
    /// The series, those with most events first. What is beyond the first 20 is added up in one with `other`.
    series: Vec<SeriesShape>,
}

/// One series.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StatsSeries)]
struct SeriesShape {
    /// Its queue, if it is by queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    /// Its kind, if it is by kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Its outcome, if it is by outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// Whether it is the sum of all that are not shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    other: bool,
    /// The steps in which there was something.
    points: Vec<PointShape>,
}

/// One step of a series.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StatsPoint)]
struct PointShape {
    /// When it begins.
    at: Time,
    /// How many, by what they were: enqueued, started, completed, retried, failed, timed_out, cancelled, released, waited,
    /// lost, redriven.
    counts: BTreeMap<&'static str, i64>,
    /// How long jobs stood in line.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<TimesShape>,
    /// How long attempts ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<TimesShape>,
    /// How the queue stood, at its worst; not by kind or outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    gauges: Option<GaugesShape>,
}

/// Lengths of time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Times)]
struct TimesShape {
    /// How many.
    count: i64,
    /// Half of them took no longer, in seconds, within 17.5 %.
    p50: f64,
    /// 95 of 100 took no longer.
    p95: f64,
    /// 99 of 100 took no longer.
    p99: f64,
    /// Number of a bucket and how many are in it. Buckets of steps and series add up.
    buckets: Vec<(u8, i64)>,
}

/// How a queue stood.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = Gauges)]
struct GaugesShape {
    /// Jobs that a worker could take.
    depth: i64,
    /// How long the oldest of them had been due, in seconds.
    oldest: f64,
    /// Jobs that ran.
    busy: i64,
    /// Jobs that live workers could run at once.
    capacity: i64,
}

/// What a series is of.
type SeriesKey = (Option<Name>, Option<Name>, Option<Tally>);

/// What happened in one step of a series.
#[derive(Default)]
struct Point {
    counts: BTreeMap<Tally, i64>,
    wait: Histogram,
    run: Histogram,
    /// Of each slot, all queues together.
    gauges: BTreeMap<Timestamp, GaugesShape>,
}

impl Point {
    fn add(&mut self, row: &Rollup) {
        *self.counts.entry(row.key.tally).or_default() += row.count;
        match row.key.tally {
            Tally::Started => self.wait.merge(&row.times),
            _ => self.run.merge(&row.times),
        }
    }

    fn merge(&mut self, other: Self) {
        for (tally, count) in other.counts {
            *self.counts.entry(tally).or_default() += count;
        }
        self.wait.merge(&other.wait);
        self.run.merge(&other.run);
        for (slot, gauge) in other.gauges {
            self.gauges.entry(slot).or_default().add(&gauge);
        }
    }

    fn shape(self, at: Timestamp) -> PointShape {
        let worst = self.gauges.into_values().reduce(|a, b| GaugesShape {
            depth: a.depth.max(b.depth),
            oldest: a.oldest.max(b.oldest),
            busy: a.busy.max(b.busy),
            capacity: a.capacity.max(b.capacity),
        });
        PointShape {
            at: Time(at),
            counts: self.counts.into_iter().map(|(tally, count)| (tally.as_str(), count)).collect(),
            wait: times(&self.wait),
            run: times(&self.run),
            gauges: worst,
        }
    }
}

impl GaugesShape {
    /// Of several queues at one time: together, and the oldest of all.
    fn add(&mut self, other: &Self) {
        self.depth += other.depth;
        self.oldest = self.oldest.max(other.oldest);
        self.busy += other.busy;
        self.capacity += other.capacity;
    }

    fn of(gauge: &Gauge) -> Self {
        let oldest = gauge.oldest_ms as f64 / 1e3;
        Self { depth: gauge.depth, oldest, busy: gauge.busy, capacity: gauge.capacity }
    }
}

fn times(of: &Histogram) -> Option<TimesShape> {
    let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|part| of.quantile_s(part));
    Some(TimesShape { count: of.count(), p50: p50?, p95: p95?, p99: p99?, buckets: of.buckets().collect() })
}

/// Which steps are asked for.
struct Steps {
    from: Timestamp,
    to: Timestamp,
    step_ms: i64,
    resolution: Resolution,
}

impl Steps {
    /// Whole steps that hold the time between two moments.
    fn of(from: Timestamp, to: Timestamp, step_ms: Option<i64>, now: Timestamp) -> Result<Self, Invalid> {
        let (minute, hour) = (Resolution::Minute.ms(), Resolution::Hour.ms());
        let length_ms = (to.as_micros().saturating_sub(from.as_micros())) / 1_000;
        if length_ms <= 0 {
            return Err(Invalid::new("from", from, format!("must lie before to ({to})")));
        }
        let is_old = from < now.plus_ms(-Resolution::Minute.kept_ms());
        let whole = |ms: i64| ms.div_euclid(minute).max(1) * minute;
        let chosen = match whole(length_ms / STEPS) {
            ms if is_old || ms >= hour => (ms + hour - 1) / hour * hour,
            ms => ms,
        };
        let step_ms = step_ms.unwrap_or(chosen);
        let shown = || windlass_core::span::to_text(step_ms);
        if step_ms <= 0 || step_ms % minute != 0 {
            return Err(Invalid::new("step", shown(), "must be whole minutes"));
        }
        if is_old && step_ms % hour != 0 {
            let told = "must be whole hours where from is more than 48 hours ago: minutes are kept so long";
            return Err(Invalid::new("step", shown(), told));
        }
        let resolution = if step_ms % hour == 0 { Resolution::Hour } else { Resolution::Minute };
        let from = resolution.floor(from);
        let steps = (to.as_micros() - from.as_micros() + step_ms * 1_000 - 1) / (step_ms * 1_000);
        if steps > STEPS_MAX {
            let told =
                format!("makes {steps} steps; at most {STEPS_MAX}, so make it longer, or the time shorter");
            return Err(Invalid::new("step", shown(), told));
        }
        Ok(Self { from, to: from.plus_ms(steps * step_ms), step_ms, resolution })
    }

    fn begin(&self, at: Timestamp) -> Timestamp {
        let n = (at.as_micros() - self.from.as_micros()).div_euclid(self.step_ms * 1_000);
        self.from.plus_ms(n * self.step_ms)
    }
}

/// Series by what they are of, each by step.
type Series = BTreeMap<SeriesKey, BTreeMap<Timestamp, Point>>;

/// The series with most events, and all others as one.
fn shapes(series: Series) -> Vec<SeriesShape> {
    let weight = |points: &BTreeMap<Timestamp, Point>| {
        points.values().flat_map(|point| point.counts.values()).sum::<i64>()
    };
    let mut all: Vec<(SeriesKey, BTreeMap<Timestamp, Point>)> = series.into_iter().collect();
    all.sort_by_key(|(_, points)| std::cmp::Reverse(weight(points)));
    let rest = all.split_off(all.len().min(SERIES_MAX));
    let shape = |(queue, kind, outcome): SeriesKey, other, points: BTreeMap<Timestamp, Point>| SeriesShape {
        queue: queue.map(|name| name.to_string()),
        kind: kind.map(|name| name.to_string()),
        outcome: outcome.map(Tally::as_str),
        other,
        points: points.into_iter().map(|(at, point)| point.shape(at)).collect(),
    };
    let mut shapes: Vec<_> = all.into_iter().map(|(key, points)| shape(key, false, points)).collect();
    if !rest.is_empty() {
        let mut other: BTreeMap<Timestamp, Point> = BTreeMap::new();
        for (at, point) in rest.into_iter().flat_map(|(_, points)| points) {
            other.entry(at).or_default().merge(point);
        }
        shapes.push(shape((None, None, None), true, other));
    }
    shapes
}

/// `GET /v1/stats`
pub(crate) async fn stats(call: Call) -> Reply {
    let now = fresh::wall_clock();
    let query = &call.query;
    let to = query.time("to")?.unwrap_or(now);
    let from = query.time("from")?.unwrap_or(to.plus_ms(-Resolution::Hour.ms()));
    let steps = Steps::of(from, to, query.span_ms("step", i64::MAX)?, now)?;
    let (mut by_queue, mut by_kind, mut by_outcome) = (false, false, false);
    for word in query.many("by") {
        match word {
            "queue" => by_queue = true,
            "kind" => by_kind = true,
            "outcome" => by_outcome = true,
            other => return Err(Invalid::new("by", other, "must be queue, kind or outcome").into()),
        }
    }
    let (queue, kind) = (query.name("queue")?, query.name("kind")?);
    if let Some(queue) = &queue {
        call.who.check_queue(queue)?;
    }
    let Steps { from, to, step_ms, resolution } = steps;
    let read =
        ReadRollups { resolution, from, to, queue: queue.clone(), kind: kind.clone(), limit: ROLLUPS_MAX };
    let rows = call.store().rollups(read, None).await?;
    let complete = rows.len() < ROLLUPS_MAX;
    let mut series = Series::new();
    for row in rows.iter().filter(|row| call.who.sees(&row.key.queue)) {
        let key = (
            by_queue.then(|| row.key.queue.clone()),
            by_kind.then(|| row.key.kind.clone()),
            by_outcome.then_some(row.key.tally),
        );
        series.entry(key).or_default().entry(steps.begin(row.key.at)).or_default().add(row);
    }
    if !by_kind && !by_outcome && kind.is_none() {
        let wanted = |gauge: &Gauge| {
            call.who.sees(&gauge.queue) && queue.as_ref().is_none_or(|queue| *queue == gauge.queue)
        };
        let gauges = call.store().gauges(ReadGauges { resolution, from, to }, None).await?;
        for gauge in gauges.into_iter().filter(wanted) {
            let key = (by_queue.then(|| gauge.queue.clone()), None, None);
            let point = series.entry(key).or_default().entry(steps.begin(gauge.at)).or_default();
            point.gauges.entry(gauge.at).or_default().add(&GaugesShape::of(&gauge));
        }
    }
    let place = call.store().place(Name::parse("reader", STATS)?, None).await?;
    ok(&StatsShape {
        from: Time(from),
        to: Time(to),
        step: Span::from_ms(step_ms),
        as_of: place.filter(|place| place.cursor.is_some()).map(|place| Time(place.moved_at)),
        complete,
        bounds: Histogram::bounds_s().collect(),
        series: shapes(series),
    })
}

/// What is counted again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StatsRebuild)]
pub(crate) struct Rebuilding {
    /// From when on; null if everything.
    since: Option<Time>,
}

/// `POST /v1/stats/rebuild`
pub(crate) async fn rebuild(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let body: RebuildBody = call.body()?;
    let request = RebuildStats { since: body.since.map(|at| at.0), actor: call.actor() };
    let place = call.store().rebuild_stats(request, None).await?;
    json(StatusCode::ACCEPTED, &Rebuilding { since: place.since.map(Time) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_767_225_630_000_000);

    fn hours_ago(hours: i64) -> Timestamp {
        NOW.plus_ms(-hours * Resolution::Hour.ms())
    }

    #[test]
    fn steps_are_whole_and_few() {
        let hour = Steps::of(hours_ago(1), NOW, None, NOW).unwrap();
        assert_eq!((hour.step_ms, hour.resolution), (60_000, Resolution::Minute));
        assert_eq!(
            (hour.to.as_micros() - hour.from.as_micros()) / 60_000_000,
            61,
            "both broken minutes are in it"
        );
        let week = Steps::of(hours_ago(24 * 7), NOW, None, NOW).unwrap();
        assert_eq!((week.step_ms, week.resolution), (3 * 3_600_000, Resolution::Hour));
        assert_eq!(week.begin(NOW).plus_ms(week.step_ms), week.to);
        for (from, to, step, field) in [
            (NOW, hours_ago(1), None, "from"),
            (hours_ago(1), NOW, Some(1_500), "step"),
            (hours_ago(1), NOW, Some(0), "step"),
            (hours_ago(47), NOW, Some(60_000), "step"),
            (hours_ago(50), NOW, Some(60_000), "step"),
        ] {
            let refused = Steps::of(from, to, step, NOW).err().expect("a refusal");
            assert_eq!(refused.field, field, "{refused:?}");
        }
    }

    #[test]
    fn what_is_beyond_the_largest_series_is_one() {
        let mut series = Series::new();
        for n in 0..25_i64 {
            let name = Name::parse("queue", format!("q{n}")).unwrap();
            let mut point = Point::default();
            point.counts.insert(Tally::Completed, n);
            series.entry((Some(name), None, None)).or_default().insert(NOW, point);
        }
        let shapes = shapes(series);
        assert_eq!(shapes.len(), SERIES_MAX + 1);
        assert_eq!(shapes[0].queue.as_deref(), Some("q24"));
        let other = &shapes[SERIES_MAX];
        assert_eq!((other.other, other.points[0].counts["completed"]), (true, 1 + 2 + 3 + 4));
    }
}
