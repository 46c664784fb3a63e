use super::*;
use crate::event::{self, Retried};
use crate::ids::JobId;
use crate::job::Facts;
use crate::name::{Actor, Who};

const START: i64 = 1_767_225_600_000_000;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_micros(START).plus_ms(ms)
}

fn event(version: Version, ms: i64, what: EventKind) -> Event {
    Event {
        job: JobId::from_bytes([7; 16]),
        version,
        at: at(ms),
        actor: Actor::api(),
        attempt: 0,
        generation: 0,
        lease: None,
        key: None,
        what,
        payload: None,
    }
}

/// A life: enqueued, begun after 2 s, failed after 1 s, due again 5 s later, lost after 30 s, done after 4 s.
fn life() -> Vec<Event> {
    let facts = Facts::new(Name::word("work"), Name::word("default"));
    let retried = Retried { code: Who::word("x"), retries: 1, due_at: at(8_000) };
    vec![
        event(1, 0, EventKind::JobCreated(Box::new(facts))),
        event(2, 2_000, EventKind::JobClaimed),
        event(3, 3_000, EventKind::JobRetried(retried)),
        event(4, 9_000, EventKind::JobClaimed),
        event(5, 9_500, EventKind::NodeFinished(event::StepNamed { name: Name::word("s") })),
        event(6, 39_000, EventKind::JobClaimed),
        event(7, 43_000, EventKind::JobCompleted),
    ]
}

/// Folds a log as a reader that looks every job up.
fn rolled_up(log: &[Event]) -> Vec<Rollup> {
    let (queue, kind) = (Name::word("default"), Name::word("work"));
    let mut rows = Rollups::default();
    for (n, event) in log.iter().enumerate() {
        let before = Job::fold(&log[..n]).and_then(|job| Standing::of(&job).ok());
        rows.count(&queue, &kind, event, before, 1);
    }
    rows.into_rows()
}

fn row(rows: &[Rollup], tally: Tally) -> &Rollup {
    let is_it = |row: &&Rollup| row.key.tally == tally && row.key.resolution == Resolution::Hour;
    rows.iter().find(is_it).expect("a row")
}

#[test]
fn a_life_is_counted_with_its_times() {
    let rows = rolled_up(&life());
    let of = |tally| (row(&rows, tally).count, row(&rows, tally).times.to_text());
    let bucket = |ms: i64| {
        let mut one = Histogram::default();
        one.add(ms * 1_000, 1);
        one.to_text()
    };
    assert_eq!(of(Tally::Enqueued), (1, String::new()));
    assert_eq!(of(Tally::Started).0, 3);
    assert_eq!(
        row(&rows, Tally::Started).times.count(),
        2,
        "a job whose lease was over did not wait in line"
    );
    assert_eq!(of(Tally::Retried), (1, bucket(1_000)));
    assert_eq!(of(Tally::Lost), (1, bucket(30_000)));
    assert_eq!(of(Tally::Completed), (1, bucket(4_000)));
    for minute in rows.iter().filter(|row| row.key.resolution == Resolution::Minute) {
        assert_eq!(minute.count, row(&rows, minute.key.tally).count, "all of it is in one minute");
    }
}

#[test]
fn what_is_known_from_events_is_what_a_look_would_find() {
    let log = life();
    let mut known = None;
    for (n, event) in log.iter().enumerate() {
        if let Some(known) = known {
            let job = Job::fold(&log[..n]).expect("a job");
            assert_eq!(Ok(known), Standing::of(&job), "before event {}", event.version);
        }
        known = Standing::after(known, event);
    }
}

#[test]
fn numbers_add_up_whatever_the_order_and_can_be_taken_back() {
    let (log, whole) = (life(), rolled_up(&life()));
    let (queue, kind) = (Name::word("default"), Name::word("work"));
    let mut parts = Rollups::default();
    for n in (0..log.len()).rev() {
        let before = Job::fold(&log[..n]).and_then(|job| Standing::of(&job).ok());
        let mut one = Rollups::default();
        one.count(&queue, &kind, &log[n], before, 1);
        parts.merge(one.into_rows());
    }
    assert_eq!(parts.clone().into_rows(), whole);
    for n in 0..log.len() {
        let before = Job::fold(&log[..n]).and_then(|job| Standing::of(&job).ok());
        parts.count(&queue, &kind, &log[n], before, -1);
    }
    assert_eq!(parts.into_rows(), []);
}

#[test]
fn quantiles_are_within_the_promised_error_and_survive_storing() {
    assert!(BOUNDS.windows(2).all(|pair| {
        let ratio = pair[1] as f64 / pair[0] as f64;
        (1.376..1.381).contains(&ratio)
    }));
    for ms in [1, 2, 5, 17, 99, 1_000, 12_345, 600_000, 86_400_000, 604_800_000] {
        let mut times = Histogram::default();
        times.add(ms * 1_000, 3);
        let said = times.quantile_s(0.5).expect("a value") * 1e3;
        assert!((said / ms as f64 - 1.0).abs() < 0.175, "{ms} ms: {said}");
        assert_eq!(Histogram::parse(&times.to_text()), Some(times));
    }
    let mut times = Histogram::default();
    for (micros, count) in [(-5, 1), (i64::MAX, 2), (0, 1)] {
        times.add(micros, count);
    }
    assert_eq!(times.to_text(), "0:2 63:2");
    assert_eq!(times.quantile_s(0.5), Some(0.001));
    assert_eq!(Histogram::default().quantile_s(0.5), None);
    for wrong in ["64:1", "x:1", "1", "1:x"] {
        assert_eq!(Histogram::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn slots_begin_at_whole_minutes_and_hours() {
    assert_eq!(Resolution::Minute.floor(at(61_234)), at(60_000));
    assert_eq!(Resolution::Hour.floor(at(3_599_999)), at(0));
    assert_eq!(Resolution::Minute.floor(Timestamp::from_micros(-1)), Timestamp::from_micros(-60_000_000));
    for one in Resolution::ALL {
        assert_eq!(Resolution::parse(one.as_str()), Some(one));
    }
    for tally in Tally::ALL {
        assert_eq!(Tally::parse(tally.as_str()), Some(*tally));
    }
}
