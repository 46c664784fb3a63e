//! What becomes of a job that comes to a full lane: it is refused, dropped, or takes the place of those before it.

use crate::flow::after;
use crate::lanes::{CLAIMERS, ids};
use crate::{
    Bed, Racer, at, completes, fails_until, is_invalid, key, name, redrive, together, waits_for_signal,
};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::flow::On;
use windlass_core::lane::{Full, LaneMode, LaneRule, Lanes};
use windlass_core::unique::{Debounce, Policy, Scope};
use windlass_core::{
    Actor, Event, EventKind, JobId, NewJob, Outcome, QueueLimits, Refusal, RunAt, Status, Unique,
};
use windlass_store::{Enqueue, EnqueueClaimed, Enqueued, Idempotency, ReadFeed};

/// This module's laws, as tests.
#[macro_export]
macro_rules! backlog_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            backlog: a_full_lane_refuses_what_comes,
            a_full_lane_drops_what_comes,
            what_stands_in_line_counts,
            a_repeat_is_no_new_job,
            what_is_dropped_leaves_nothing_behind,
            a_backlog_is_checked_and_changed,
            the_newest_takes_the_place_of_those_that_wait,
            the_oldest_that_runs_is_asked_to_stop,
            of_one_request_the_last_is_the_newest,
            who_gives_way_has_ended_for_others_too,
            every_door_looks,
            many_producers_never_pass_a_backlog,
            in_the_end_the_newest_runs,
        );
    };
}

fn rules(each: LaneRule) -> QueueLimits {
    QueueLimits { lanes: Some(Lanes { each, keys: BTreeMap::new() }), ..QueueLimits::default() }
}

fn backlog(n: i32, full: Full) -> QueueLimits {
    rules(LaneRule { backlog: Some(n), full: Some(full), ..LaneRule::default() })
}

fn newest(concurrency: Option<i32>) -> QueueLimits {
    rules(LaneRule { mode: Some(LaneMode::Newest), concurrency, ..LaneRule::default() })
}

fn full_of(of: &str, waiting: i64) -> Refusal {
    Refusal::LaneFull { queue: name("default"), key: key(of), waiting }
}

impl Bed {
    async fn is_there(&self, job: JobId) -> bool {
        self.store.job(job, None).await.expect("the store answers").is_some()
    }

    /// The code of a job's error, and what it says.
    async fn error_of(&self, job: JobId) -> (Status, String, String) {
        let view = self.view(job, at(0)).await;
        let code = view.job.error_code.as_ref().map(ToString::to_string).unwrap_or_default();
        let said = view.error.map(|(payload, _)| String::from_utf8_lossy(payload.as_bytes()).into_owned());
        (view.job.status, code, said.unwrap_or_default())
    }

    /// Every event, in the order of the feed.
    async fn fed(&self) -> Vec<Event> {
        let (mut after, mut events) = (None, Vec::new());
        loop {
            let read = ReadFeed { after, limit: 1_000, payloads: false };
            let page = self.store.feed(read, None).await.expect("the store answers").expect("a page");
            if page.events.is_empty() {
                return events;
            }
            after = Some(page.next);
            events.extend(page.events.into_iter().map(|fed| fed.event));
        }
    }
}

/// F18
pub async fn a_full_lane_refuses_what_comes(bed: Bed) {
    bed.limits(backlog(2, Full::Refuse), at(0)).await;
    bed.enqueues("acme", 2, at(0)).await;
    assert_eq!(bed.enqueue_refused(vec![bed.keyed("acme")], at(1)).await, (0, full_of("acme", 2)));
    // Others are not concerned.
    bed.enqueues("globex", 2, at(1)).await;
    bed.a_job(at(1)).await;
    let mut elsewhere = bed.keyed("acme");
    elsewhere.facts.queue = name("other");
    bed.enqueue(elsewhere, at(1)).await;
    // Of a request all or nothing is written, and it says which.
    let (mut jobs, fits) = (vec![bed.keyed("initech"), bed.keyed("initech")], bed.keyed("initech"));
    jobs.push(fits.clone());
    let first = jobs[0].id;
    assert_eq!(bed.enqueue_refused(jobs, at(2)).await, (2, full_of("initech", 2)));
    assert!(!bed.is_there(first).await && !bed.is_there(fits.id).await);
    assert!(!bed.enqueue(fits, at(2)).await.existed);
    // What runs waits no more.
    let held = bed.claims("w", 9, at(3)).await;
    assert_eq!(held.len(), 6);
    bed.enqueues("acme", 2, at(4)).await;
    assert_eq!(bed.enqueue_refused(vec![bed.keyed("acme")], at(5)).await, (0, full_of("acme", 2)));
}

/// F18: and the rest of its request is written.
pub async fn a_full_lane_drops_what_comes(bed: Bed) {
    bed.limits(backlog(2, Full::Drop), at(0)).await;
    let jobs: Vec<NewJob> = ["a", "a", "a", "b"].into_iter().map(|of| bed.keyed(of)).collect();
    let idempotency = Some(Idempotency { key: key("once"), request_hash: [7; 32] });
    let request = Enqueue { jobs: jobs.clone(), actor: Actor::api(), idempotency };
    let made = bed.store.enqueue(request.clone(), at(0)).await.expect("the store answers").expect("written");
    let dropped: Vec<bool> = made.iter().map(|one| one.dropped).collect();
    assert_eq!(dropped, [false, false, true, false]);
    assert_eq!(made[2], Enqueued::dropped(&jobs[2]));
    assert!(!bed.is_there(jobs[2].id).await && bed.is_there(jobs[3].id).await);
    bed.claims("w", 9, at(1)).await;
    // The answer is remembered with the request; without that it is another one, and there is room now.
    let again = bed.store.enqueue(request, at(2)).await.expect("the store answers").expect("remembered");
    assert_eq!(again, made);
    assert!(!bed.enqueue(jobs[2].clone(), at(3)).await.dropped);
}

/// F18: what may run now or later and has no slot. What comes back to the line is never refused.
pub async fn what_stands_in_line_counts(bed: Bed) {
    bed.limits(backlog(2, Full::Refuse), at(0)).await;
    let mut later = bed.keyed("a");
    later.facts.run_at = RunAt::After(3_600_000);
    bed.enqueue(later, at(0)).await;
    let fails = bed.enqueues("a", 1, at(0)).await[0];
    let held = bed.claims_one("w", at(1)).await;
    assert_eq!(held.job.id, fails);
    bed.settles(&held, fails_until("broken", RunAt::After(60_000)), at(2)).await.expect("to be retried");
    assert_eq!(bed.enqueue_refused(vec![bed.keyed("a")], at(3)).await, (0, full_of("a", 2)), "a retry waits");
    // A job that waits for a signal, or for others, does not stand in line.
    let signalled = bed.enqueues("b", 1, at(4)).await[0];
    let held = bed.claims_one("w", at(4)).await;
    bed.settles(&held, waits_for_signal("go"), at(5)).await.expect("it waits");
    let mut downstream = after(&bed, &[(signalled, On::Success)]);
    downstream.facts.key = Some(key("b"));
    bed.enqueue(downstream, at(6)).await;
    bed.enqueues("b", 2, at(6)).await;
    bed.enqueue_refused(vec![bed.keyed("b")], at(7)).await;
    // A third comes back all the same.
    bed.cancels(fails, crate::stop(), at(8)).await.expect("cancelled");
    bed.enqueues("a", 1, at(9)).await;
    bed.redrives(redrive(fails), at(10)).await.expect("redriven");
    assert!(bed.row(fails).await.due_at.is_some());
}

/// F18: what is there already is answered as ever.
pub async fn a_repeat_is_no_new_job(bed: Bed) {
    bed.limits(backlog(2, Full::Refuse), at(0)).await;
    let (first, mut unique) = (bed.keyed("a"), bed.keyed("a"));
    unique.facts.unique = Some(Unique::in_queue(name("default"), key("u")));
    bed.enqueue_all(vec![first.clone(), unique.clone()], at(0)).await;
    assert_eq!(bed.enqueue(first.clone(), at(1)).await, Enqueued::there(first.id));
    let holder = unique.id;
    unique.id = bed.id();
    assert_eq!(bed.enqueue(unique, at(1)).await, Enqueued::there(holder));
    let debounced = || {
        let mut job = bed.keyed("b");
        let debounce = Debounce::new(1_000, None);
        job.facts.unique = Some(Unique::debounced(name("default"), name("work"), key("b"), debounce));
        job.facts.run_at = RunAt::After(1_000);
        job
    };
    let one = bed.enqueue(debounced(), at(2)).await.id;
    bed.enqueues("b", 1, at(2)).await;
    assert_eq!(bed.enqueue(debounced(), at(3)).await, Enqueued::there(one), "it adds nothing to the line");
    bed.cancels(one, crate::stop(), at(4)).await.expect("cancelled");
    bed.enqueues("b", 1, at(4)).await;
    assert_eq!(bed.enqueue_refused(vec![debounced()], at(5)).await, (0, full_of("b", 2)));
}

/// F18: neither a unique key nor a child that its parent would wait for.
pub async fn what_is_dropped_leaves_nothing_behind(bed: Bed) {
    bed.limits(backlog(1, Full::Drop), at(0)).await;
    let parent = bed.a_held_job("w", at(0)).await;
    bed.enqueues("a", 1, at(1)).await;
    let mut child = bed.keyed("a");
    child.facts.parent_id = Some(parent.job.id);
    let unique = Unique { scope: Scope::Queue(name("default")), key: key("u"), policy: Policy::Active };
    child.facts.unique = Some(unique.clone());
    assert!(bed.enqueue(child.clone(), at(1)).await.dropped);
    assert_eq!(bed.row(parent.job.id).await.children, 0);
    assert_eq!(bed.holder_of(&unique, at(1)).await, None);
    // Nobody waits for what is not there.
    let mut waits = after(&bed, &[(child.id, On::Finished)]);
    waits.facts.key = None;
    let (index, refusal) = bed.enqueue_refused(vec![child.clone(), waits], at(2)).await;
    assert_eq!((index, refusal), (1, Refusal::UpstreamNotFound(child.id)));
}

/// F18, F8
pub async fn a_backlog_is_checked_and_changed(bed: Bed) {
    for (n, field) in [(0, "flow.lanes.backlog"), (10_001, "flow.lanes.backlog")] {
        let request = crate::lanes::put(backlog(n, Full::Refuse), None);
        let answer = bed.store.put_queue(request, at(0)).await.expect("the store answers");
        is_invalid(&answer, field);
    }
    let alone = rules(LaneRule { full: Some(Full::Drop), ..LaneRule::default() });
    let answer = bed.store.put_queue(crate::lanes::put(alone, None), at(0)).await.expect("the store answers");
    is_invalid(&answer, "flow.lanes.full");
    // A first rule counts what waits already; a lowered one removes nothing, a raised one lets in.
    bed.enqueues("a", 3, at(0)).await;
    bed.limits(backlog(2, Full::Refuse), at(1)).await;
    assert_eq!(bed.enqueue_refused(vec![bed.keyed("a")], at(2)).await, (0, full_of("a", 2)));
    let mut own = backlog(2, Full::Refuse);
    if let Some(lanes) = &mut own.lanes {
        lanes.keys.insert(key("a"), LaneRule { backlog: Some(4), ..LaneRule::default() });
    }
    bed.limits(own, at(3)).await;
    bed.enqueues("a", 1, at(4)).await;
    assert_eq!(bed.enqueue_refused(vec![bed.keyed("a")], at(5)).await, (0, full_of("a", 4)));
    bed.limits(QueueLimits::default(), at(6)).await;
    bed.enqueues("a", 1, at(7)).await;
    assert_eq!(bed.claims("w", 9, at(8)).await.len(), 5);
}

/// F18
pub async fn the_newest_takes_the_place_of_those_that_wait(bed: Bed) {
    bed.limits(newest(None), at(0)).await;
    let first = bed.enqueues("a", 1, at(0)).await[0];
    let mut later = bed.keyed("a");
    later.facts.run_at = RunAt::After(3_600_000);
    later.facts.priority = 3;
    let second = bed.enqueue(later, at(1)).await.id;
    let other = bed.enqueues("b", 1, at(1)).await[0];
    let third = bed.enqueues("a", 1, at(2)).await[0];
    for (gone, by) in [(first, second), (second, third)] {
        let (status, code, said) = bed.error_of(gone).await;
        assert_eq!((status, code.as_str()), (Status::Cancelled, "superseded"));
        assert!(said.contains(&by.to_string()), "{said}");
        assert_eq!(bed.types(gone).await, ["job_created", "job_cancelled"]);
    }
    // Without a limit nobody that runs is asked to stop.
    let held = bed.claims("w", 9, at(3)).await;
    assert_eq!(ids(&held).into_iter().collect::<BTreeSet<_>>(), [other, third].into());
    bed.enqueues("a", 1, at(4)).await;
    assert_eq!(bed.row(third).await.cancel_requested_at, None);
    // What is to be retried gives way too.
    let of_a = held.iter().find(|held| held.job.id == third).expect("it runs");
    bed.settles(of_a, fails_until("broken", RunAt::After(1_000)), at(5)).await.expect("to be retried");
    bed.enqueues("a", 1, at(6)).await;
    assert_eq!(bed.error_of(third).await.1, "superseded");
}

/// F18: one slot is enough for the newest, so one that was asked before is enough.
pub async fn the_oldest_that_runs_is_asked_to_stop(bed: Bed) {
    bed.limits(newest(Some(2)), at(0)).await;
    let first = bed.enqueues("a", 1, at(0)).await[0];
    let oldest = bed.claims_one("w", at(0)).await;
    let second = bed.enqueues("a", 1, at(1)).await[0];
    bed.claims_one("w", at(1)).await;
    assert_eq!(bed.row(first).await.cancel_requested_at, None, "there was a slot");
    let third = bed.enqueues("a", 1, at(2)).await[0];
    assert_eq!(bed.row(first).await.cancel_requested_at, Some(crate::time(2)));
    let log = bed.log(first).await;
    let asked = log.last().map(|event| &event.what);
    let why = match asked {
        Some(EventKind::JobCancelRequested(asked)) => asked.reason.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    assert!(why.contains("superseded") && why.contains(&third.to_string()), "{why}");
    assert_eq!(bed.claims("w", 9, at(3)).await, [], "it waits for the slot");
    let fourth = bed.enqueues("a", 1, at(4)).await[0];
    assert_eq!(bed.row(second).await.cancel_requested_at, None);
    assert_eq!(bed.error_of(third).await.1, "superseded");
    bed.settles(&oldest, Outcome::Cancelled { reason: None }, at(5)).await.expect("it stops");
    assert_eq!(ids(&bed.claims("w", 9, at(6)).await), [fourth]);
}

/// F18
pub async fn of_one_request_the_last_is_the_newest(bed: Bed) {
    bed.limits(newest(Some(1)), at(0)).await;
    let before = bed.enqueues("a", 1, at(0)).await[0];
    let made = bed.enqueues("a", 3, at(1)).await;
    for gone in [before, made[0], made[1]] {
        let (status, code, said) = bed.error_of(gone).await;
        assert_eq!((status, code.as_str()), (Status::Cancelled, "superseded"));
        assert!(said.contains(&made[2].to_string()), "{said}");
    }
    assert_eq!(ids(&bed.claims("w", 9, at(2)).await), [made[2]]);
}

/// F18: its unique key, its parent and those who wait for it learn of it, in any order of ids.
pub async fn who_gives_way_has_ended_for_others_too(bed: Bed) {
    bed.limits(newest(Some(1)), at(0)).await;
    let (early, mut parent) = (bed.id(), bed.keyed("a"));
    parent.facts.max_retries = 5;
    let held = bed.holds("w", parent, at(0)).await;
    let mut child = bed.keyed("c");
    child.facts.parent_id = Some(held.job.id);
    let unique = Unique { scope: Scope::Queue(name("default")), key: key("u"), policy: Policy::Active };
    child.facts.unique = Some(unique.clone());
    let mut young = child.clone();
    (young.id, young.facts.key, young.facts.unique) = (early, Some(key("a")), None);
    let child = bed.enqueue(child, at(1)).await.id;
    // Now the parent stands in line again, with a child in its own lane that has a smaller id.
    bed.settles(&held, fails_until("broken", RunAt::After(60_000)), at(2)).await.expect("to be retried");
    let mut downstream = after(&bed, &[(child, On::Success)]);
    downstream.facts.key = None;
    let downstream = bed.enqueue(downstream, at(3)).await.id;
    bed.enqueue(young, at(4)).await;
    assert_eq!(bed.error_of(held.job.id).await.1, "superseded", "the child is newer than its parent");
    bed.enqueues("c", 1, at(5)).await;
    assert_eq!(bed.error_of(child).await.1, "superseded");
    assert_eq!(bed.error_of(downstream).await.1, "skipped");
    assert_eq!(bed.holder_of(&unique, at(5)).await, None);
    assert_eq!(bed.row(held.job.id).await.children, 1, "the young one is left");
    bed.enqueues("a", 1, at(6)).await;
    assert_eq!(
        (bed.error_of(early).await.1.as_str(), bed.row(held.job.id).await.children),
        ("superseded", 0)
    );
}

/// F18: also a job that would be handed to a worker that waits.
pub async fn every_door_looks(bed: Bed) {
    bed.limits(backlog(1, Full::Drop), at(0)).await;
    bed.enqueues("a", 1, at(0)).await;
    let hands = async |job: NewJob| {
        let request = EnqueueClaimed { job, actor: Actor::api(), claim: bed.claim("w") };
        bed.store.enqueue_claimed(request, at(1)).await.expect("the store answers")
    };
    let job = bed.keyed("a");
    let handed = hands(job.clone()).await.expect("an answer");
    assert_eq!((handed.enqueued, handed.claimed.is_none()), (Enqueued::dropped(&job), true));
    bed.limits(backlog(1, Full::Refuse), at(2)).await;
    assert_eq!(hands(bed.keyed("a")).await.map(|handed| handed.enqueued), Err(full_of("a", 1)));
}

/// F18: by the order in which it was written, never more than may wait, however many come at once.
pub async fn many_producers_never_pass_a_backlog(bed: Bed) {
    const MOST: i64 = 5;
    bed.limits(backlog(MOST as i32, Full::Drop), None).await;
    let producers = (0..CLAIMERS).map(|n| -> Racer<usize> {
        let bed = bed.clone();
        Box::pin(async move {
            let mut made = 0;
            for round in 0..12 {
                // Alone, and several in one request.
                let jobs = (0..=round % 3).map(|_| bed.keyed(if n % 8 == 0 { "b" } else { "a" })).collect();
                made += bed.enqueue_all(jobs, None).await.iter().filter(|one| !one.dropped).count();
            }
            made
        })
    });
    let claimers = (0..2).map(|n| -> Racer<usize> {
        let bed = bed.clone();
        Box::pin(async move {
            for _ in 0..25 {
                for held in bed.claims(&format!("w{n}"), 3, None).await {
                    bed.settles(&held, completes(), None).await.expect("done");
                }
            }
            0
        })
    });
    let made: usize = together(producers.chain(claimers)).await.into_iter().sum();
    let (mut lanes, mut waiting) = (BTreeMap::new(), BTreeMap::<_, i64>::new());
    for event in bed.fed().await {
        match &event.what {
            EventKind::JobCreated(facts) => {
                lanes.insert(event.job, facts.key.clone());
                let waiting = waiting.entry(facts.key.clone()).or_default();
                *waiting += 1;
                assert!(*waiting <= MOST, "{waiting} wait");
            }
            EventKind::JobClaimed => *waiting.entry(lanes[&event.job].clone()).or_default() -= 1,
            _ => {}
        }
    }
    assert_eq!(lanes.len(), made, "what was not dropped is there");
    assert!(made >= 2 * MOST as usize);
}

/// F18: the one that came last is not cancelled, and nobody else is left to run.
pub async fn in_the_end_the_newest_runs(bed: Bed) {
    bed.limits(newest(Some(1)), None).await;
    let producers = (0..CLAIMERS).map(|_| -> Racer<()> {
        let bed = bed.clone();
        Box::pin(async move {
            for _ in 0..6 {
                bed.enqueues("a", 1, None).await;
            }
        })
    });
    let worker = bed.clone();
    let claimer: Racer<()> = Box::pin(async move {
        for _ in 0..30 {
            for held in worker.claims("w", 1, None).await {
                // Asked to stop or not, it ends; one that was asked long ago is cancelled by then.
                let _ended = worker.settles(&held, completes(), None).await;
            }
        }
    });
    together(producers.chain([claimer])).await;
    let created = |event: &&Event| matches!(event.what, EventKind::JobCreated(_));
    let all: Vec<JobId> = bed.fed().await.iter().filter(created).map(|event| event.job).collect();
    let (last, others) = all.split_last().expect("jobs");
    assert_eq!(all.len(), CLAIMERS * 6);
    for job in others {
        let row = bed.row(*job).await;
        assert!(row.status.is_terminal(), "{row:?}");
    }
    let row = bed.row(*last).await;
    let runs = bed.claims("w", 9, None).await;
    match row.status {
        Status::Completed => assert_eq!(runs, []),
        status => assert_eq!((status, ids(&runs)), (Status::Pending, vec![*last])),
    }
}
