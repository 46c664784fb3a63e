//! One job at a time: its view, its log, how it stood, and why it is not running.

use crate::{Bed, at, completes, fails_for_good, for_signal, for_timer, name, note, stop, time, who};
use windlass_core::{Actor, Blocked, Job, JobId, LeaseMs, RunAt, Timestamp};
use windlass_store::{AtVersion, PauseQueue, PutWorker, ReadEvents, ReadLogs, ReadSteps};

/// This module's laws, as tests.
#[macro_export]
macro_rules! view_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            view: an_unknown_job_reads_as_nothing,
            the_newest_events_come_first_when_asked_so,
            a_log_is_read_page_by_page_in_order,
            a_blocked_job_says_why_and_since_when,
            a_job_that_is_about_to_run_or_ended_is_not_blocked,
            a_worker_that_cannot_take_the_job_does_not_count,
        );
    };
}

async fn events(bed: &Bed, job: JobId, after: i64, limit: usize, newest_first: bool) -> Vec<i64> {
    let request = ReadEvents { job, after, limit, newest_first };
    let events = bed.store.events(request, at(0)).await.expect("the store answers");
    events.iter().map(|e| e.version).collect()
}

async fn blocked(bed: &Bed, job: JobId, ms: i64) -> Option<Blocked> {
    bed.view(job, at(ms)).await.blocked
}

async fn reason(bed: &Bed, job: JobId, ms: i64) -> (&'static str, Timestamp) {
    let blocked = blocked(bed, job, ms).await.expect("it is blocked");
    assert!(!blocked.by.is_empty() && !blocked.fix.is_empty(), "{blocked:?}");
    (blocked.reason, blocked.since)
}

/// J3, T10
pub async fn an_unknown_job_reads_as_nothing(bed: Bed) {
    bed.a_job(at(0)).await;
    let unknown = bed.id();
    assert_eq!(bed.store.job(unknown, at(0)).await, Ok(None));
    assert!(events(&bed, unknown, 0, 100, false).await.is_empty());
    assert!(events(&bed, unknown, 0, 100, true).await.is_empty());
    let version = AtVersion { job: unknown, version: 1 };
    assert_eq!(bed.store.at_version(version, at(0)).await, Ok(None));
    assert_eq!(bed.store.steps(ReadSteps::all(unknown), at(0)).await, Ok(None));
    let logs = ReadLogs { job: unknown, after: 0, limit: 10 };
    assert_eq!(bed.store.logs(logs, at(0)).await, Ok(vec![]));
}

/// T10
pub async fn the_newest_events_come_first_when_asked_so(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    for _ in 0..149 {
        bed.appends(note(id, "noted"), at(0)).await.expect("a note is taken");
    }
    let down = |from: i64, n: i64| (0..n).map(|k| from - k).collect::<Vec<_>>();
    assert_eq!(events(&bed, id, 0, 100, true).await, down(150, 100));
    assert_eq!(events(&bed, id, 51, 100, true).await, down(50, 50), "older than 51");
    assert!(events(&bed, id, 1, 100, true).await.is_empty());
    assert_eq!(events(&bed, id, 0, 1, true).await, [150]);
}

/// J3, J4
pub async fn a_log_is_read_page_by_page_in_order(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    for _ in 0..7 {
        bed.appends(note(id, "noted"), at(0)).await.expect("a note is taken");
    }
    assert_eq!(bed.row(id).await.version, 9, "a version is the number of events");
    let mut seen = Vec::new();
    loop {
        let page = events(&bed, id, seen.last().copied().unwrap_or(0), 4, false).await;
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, (1..=9).collect::<Vec<_>>());
    assert!(events(&bed, id, 9, 4, false).await.is_empty());
    let log = bed.log(id).await;
    for version in 1..=9 {
        let request = AtVersion { job: id, version };
        let stood = bed.store.at_version(request, at(0)).await.expect("the store answers").expect("it stood");
        let folded = Job::fold(&log[..version as usize]).expect("a log");
        assert_eq!(stood.folded(), folded.folded(), "as it stood at {version}");
    }
    let before = AtVersion { job: id, version: 0 };
    assert_eq!(bed.store.at_version(before, at(0)).await, Ok(None));
}

/// T10, J10: one word, since when, by whom, and what to do.
pub async fn a_blocked_job_says_why_and_since_when(bed: Bed) {
    let idle = bed.a_job(at(0)).await;
    assert_eq!(reason(&bed, idle, 1).await, ("no_worker", time(0)));
    let mut later = bed.job("work");
    later.facts.run_at = RunAt::At(time(60_000));
    let later = bed.enqueue(later, at(1)).await.id;
    assert_eq!(reason(&bed, later, 2).await, ("not_due", time(1)));
    let actor = Actor::try_from("operator:ann").expect("an actor");
    let pause = PauseQueue { name: name("default"), pause: true, actor };
    bed.store.pause_queue(pause.clone(), at(2)).await.expect("the store answers");
    let paused = blocked(&bed, idle, 3).await.expect("it is blocked");
    assert_eq!((paused.reason, paused.since, paused.by.as_str()), ("paused", time(2), "operator:ann"));
    assert_eq!(reason(&bed, later, 3).await.0, "paused", "the pause comes first");
    bed.store.pause_queue(PauseQueue { pause: false, ..pause }, at(4)).await.expect("the store answers");
    let held = bed.claims_by_id("w", idle, at(5)).await.expect("it is due");
    assert_eq!(blocked(&bed, idle, 5).await, None, "it runs");
    bed.cancels(idle, stop(), at(6)).await.expect("a live job can be cancelled");
    assert_eq!(reason(&bed, idle, 7).await, ("cancelling", time(6)));
    bed.settles(&held, fails_for_good("broken"), at(8)).await.expect("the holder may fail it");
    for wait in [for_signal("go"), for_timer(time(50_000))] {
        let held = bed.holds("w", bed.job("work"), at(9)).await;
        bed.waits(&held, wait, at(10)).await.expect("the holder may wait");
        assert_eq!(reason(&bed, held.job.id, 11).await, ("waiting", time(10)));
    }
    let given = bed.enqueue(bed.job("work"), at(12)).await.id;
    bed.assigns(given, "w", 5_000, at(13)).await;
    let assigned = blocked(&bed, given, 14).await.expect("it is blocked");
    assert_eq!((assigned.reason, assigned.since, assigned.by.as_str()), ("assigned", time(13), "w"));
}

/// T10
pub async fn a_job_that_is_about_to_run_or_ended_is_not_blocked(bed: Bed) {
    bed.registers("w", at(0)).await;
    let held = bed.a_held_job("w", at(0)).await;
    let due = bed.a_job(at(0)).await;
    assert_eq!(blocked(&bed, due, 1).await, None, "a worker will take it");
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    assert_eq!(blocked(&bed, held.job.id, 2).await, None);
    assert_eq!(reason(&bed, due, 30_000).await, ("no_worker", time(0)), "the worker is gone");
}

/// T10
pub async fn a_worker_that_cannot_take_the_job_does_not_count(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let worker = |id: &str, queue: &str, kinds: &[&str], draining| PutWorker {
        id: who(id),
        queues: vec![name(queue)],
        kinds: kinds.iter().map(|k| name(k)).collect(),
        capacity: 1,
        slots: Default::default(),
        labels: serde_json::Map::new(),
        draining,
        ttl_ms: LeaseMs::DEFAULT,
    };
    let others = [
        worker("other-queue", "other", &[], false),
        worker("other-kind", "default", &["play"], false),
        worker("draining", "default", &[], true),
    ];
    for other in others {
        bed.store.put_worker(other, at(0)).await.expect("the store answers");
    }
    assert_eq!(reason(&bed, id, 1).await.0, "no_worker");
    let fit = worker("fit", "default", &["play", "work"], false);
    bed.store.put_worker(fit, at(0)).await.expect("the store answers");
    assert_eq!(blocked(&bed, id, 1).await, None);
}
