//! Queues with rules where several processes claim at once, each with connections of its own.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::task::JoinSet;
use windlass_conformance::{Bed, Made, at, completes, key, name, who};
use windlass_core::decide::Claim;
use windlass_core::lane::{Full, LaneMode, LaneRule, Lanes};
use windlass_core::{EventKind, Lane, LeaseMs, QueueLimits, Status};
use windlass_postgres::Options;
use windlass_store::{ClaimMany, ClaimOne, ReadFeed, fresh};

const PER_KEY: i32 = 2;
const OF_QUEUE: i32 = 5;

async fn open(url: &str) -> Bed {
    Bed::new(Arc::new(Options::new(url).pool(4).open().await.expect("a store")))
}

async fn enqueue(bed: &Bed, of: &str, n: usize) {
    let job = |_| {
        let mut job = bed.job("work");
        job.id = fresh::job_id();
        job.facts.key = Some(key(of));
        job
    };
    bed.enqueue_all((0..n).map(job).collect(), at(0)).await;
}

/// Four processes of four claimers each, by queue and by id, some of which vanish. The log says in the order of its numbers
/// that no limit was passed: a slot is counted before it is taken, and freed before it is counted as free.
#[test]
fn processes_that_race_never_pass_a_limit() {
    support::wait_for(async {
        let (url, _database) = support::database().await;
        let first = open(&url).await;
        let each = LaneRule { concurrency: Some(PER_KEY), ..LaneRule::default() };
        let lanes = Some(Lanes { each, keys: BTreeMap::new() });
        first
            .limits(QueueLimits { concurrency: Some(OF_QUEUE), lanes, ..QueueLimits::default() }, at(0))
            .await;
        for of in ["a", "b", "c", "d"] {
            enqueue(&first, of, 20).await;
        }
        let clock = Arc::new(AtomicI64::new(1));
        let mut racers = JoinSet::new();
        for n in 0..4 {
            let bed = open(&url).await;
            for m in 0..4 {
                racers.spawn(races(bed.clone(), format!("w{n}-{m}"), m == 0, Arc::clone(&clock)));
            }
        }
        racers.join_all().await;
        let counts = first.store.counts(1_000, None).await.expect("the store answers");
        assert!(counts.statuses.iter().any(|(status, _)| *status == Status::Completed), "{counts:?}");
        never_passed(&first).await;
    });
}

async fn races(bed: Bed, worker: String, by_id: bool, clock: Arc<AtomicI64>) {
    let tick = || at(clock.fetch_add(7, Ordering::Relaxed));
    let claim = || {
        let lease_ms = LeaseMs::new(1_000).expect("a lease");
        Claim { worker: who(&worker), secret: fresh::secret(), lease_ms }
    };
    let mut idle = 0;
    while idle < 25 {
        let held = if by_id {
            let due = bed.store.jobs(pending(), None).await.expect("the store answers").expect("a page");
            let Some(next) = due.items.first() else { break };
            let request = ClaimOne { job: next.job.id, claim: claim() };
            // Another may hold the row or the queue for too long: then nothing happened.
            bed.store.claim_one(request, tick()).await.ok().and_then(Result::ok).into_iter().collect()
        } else {
            let queues = vec![name("default")];
            let request = ClaimMany { queues, kinds: vec![], max: 3, from: None, claim: claim() };
            bed.store.claim(request, tick()).await.expect("the store answers")
        };
        idle = if held.is_empty() { idle + 1 } else { 0 };
        for held in held {
            if held.job.attempt > 1 || held.job.id.as_bytes()[15] % 9 != 0 {
                // Refused if its lease was lost by then.
                let _lost = bed.settles(&held, completes(), tick()).await;
            }
        }
    }
}

fn pending() -> windlass_store::List {
    let filter = windlass_core::Filter { statuses: vec![Status::Pending], ..Default::default() };
    windlass_store::List { filter, cursor: None, limit: 1 }
}

async fn never_passed(bed: &Bed) {
    let (mut after, mut lanes, mut running, mut claims) = (None, BTreeMap::new(), BTreeMap::new(), 0);
    loop {
        let read = ReadFeed { after, limit: 1_000, payloads: false };
        let page = bed.store.feed(read, None).await.expect("the store answers").expect("a page");
        if page.events.is_empty() {
            break;
        }
        for event in page.events.iter().map(|fed| &fed.event) {
            match event.what.type_name() {
                "job_created" => {
                    let job = windlass_core::Job::created(event).expect("a first event");
                    lanes.insert(event.job, job.lane);
                }
                "job_claimed" => {
                    claims += 1;
                    running.insert(event.job, lanes[&event.job]);
                }
                _ => drop(running.remove(&event.job)),
            }
            let mut counts = BTreeMap::<Option<Lane>, i32>::new();
            running.values().for_each(|lane| *counts.entry(*lane).or_default() += 1);
            assert!(counts.values().all(|n| *n <= PER_KEY), "{counts:?}");
            assert!(counts.values().sum::<i32>() <= OF_QUEUE, "{counts:?}");
        }
        after = Some(page.next);
    }
    assert!(claims > 40, "{claims} claims raced");
}

/// F5, F6
#[test]
fn a_free_one_of_a_hundred_thousand_keys_is_found() {
    windlass_conformance::a_crowd_of_keys(|| async {
        let (url, database) = support::database().await;
        let store = Options::new(&url).pool(4).open().await.expect("a store");
        Made { store: Arc::new(store), keep: Box::new(database) }
    });
}

/// F9: nothing is written beside the job for a queue without rules, also when its jobs have keys; with rules, those that
/// ended are forgotten by the next claim.
#[test]
fn only_queues_with_rules_list_their_slots() {
    support::wait_for(async {
        let (url, _database) = support::database().await;
        let (bed, hand) = (open(&url).await, support::hand(&url).await);
        let slots = async || -> i64 {
            let row = hand.query_one("SELECT count(*) FROM windlass.slots", &[]).await.expect("an answer");
            row.get(0)
        };
        enqueue(&bed, "a", 4).await;
        let held = bed.claims("w", 1, at(1)).await;
        assert_eq!(slots().await, 0);
        bed.limits(QueueLimits { concurrency: Some(2), ..QueueLimits::default() }, at(0)).await;
        assert_eq!(slots().await, 1, "what runs already");
        let more = bed.claims("w", 4, at(2)).await;
        assert_eq!((more.len(), slots().await), (1, 2));
        bed.settles(&held[0], completes(), at(3)).await.expect("settled");
        assert_eq!(slots().await, 2, "settling writes nothing more");
        assert_eq!((bed.claims("w", 4, at(4)).await.len(), slots().await), (1, 2));
    });
}

/// What somebody removed from the slots is named, and mended from the rows of jobs: the limit holds again.
#[test]
fn slots_that_were_removed_are_found_and_mended() {
    support::wait_for(async {
        let (url, _database) = support::database().await;
        let store = Arc::new(Options::new(&url).open().await.expect("a store"));
        let (bed, hand) = (Bed::new(Arc::clone(&store) as _), support::hand(&url).await);
        bed.limits(QueueLimits { concurrency: Some(2), ..QueueLimits::default() }, at(0)).await;
        enqueue(&bed, "a", 4).await;
        let held = bed.claims("w", 4, at(1)).await;
        hand.batch_execute("DELETE FROM windlass.slots").await.expect("removed");
        let wrong = store.out_of_line(10).await.expect("an answer");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong.iter().all(|(id, why)| held.iter().any(|h| h.job.id == *id) && why.contains("slots")));
        assert_eq!(store.mend_line().await.expect("mended"), 2);
        assert_eq!(store.out_of_line(10).await.expect("an answer"), []);
        assert_eq!(bed.claims("w", 4, at(2)).await, [], "both slots are taken");
    });
}

/// Four processes of four producers each, single and in batches, while others claim: by the order of the log never more of a
/// key wait than may, and of a key whose newest counts nobody but the last is left.
#[test]
fn processes_that_race_never_pass_a_backlog() {
    const MOST: i64 = 4;
    support::wait_for(async {
        let (url, _database) = support::database().await;
        let first = open(&url).await;
        let each = LaneRule { backlog: Some(MOST as i32), full: Some(Full::Drop), ..LaneRule::default() };
        let newest = LaneRule { mode: Some(LaneMode::Newest), concurrency: Some(1), ..LaneRule::default() };
        let lanes = Some(Lanes { each, keys: [(key("n"), newest)].into() });
        first.limits(QueueLimits { lanes, ..QueueLimits::default() }, at(0)).await;
        let mut racers = JoinSet::new();
        for n in 0..4 {
            let bed = open(&url).await;
            for m in 0..4 {
                let (bed, of) = (bed.clone(), ["b", "n"][m % 2]);
                racers.spawn(async move {
                    for round in 0..15 {
                        let job = |_| {
                            let mut job = bed.job("work");
                            job.id = fresh::job_id();
                            job.facts.key = Some(key(of));
                            job
                        };
                        bed.enqueue_all((0..=round % 3).map(job).collect(), None).await;
                        if m == 0 {
                            for held in bed.claims(&format!("w{n}"), 2, None).await {
                                // One that was asked to stop may be cancelled by then.
                                let _ended = bed.settles(&held, completes(), None).await;
                            }
                        }
                    }
                });
            }
        }
        racers.join_all().await;
        let (mut after, mut keys, mut waiting, mut last) = (None, BTreeMap::new(), 0, None);
        loop {
            let read = ReadFeed { after, limit: 1_000, payloads: false };
            let page = first.store.feed(read, None).await.expect("the store answers").expect("a page");
            if page.events.is_empty() {
                break;
            }
            for fed in &page.events {
                let of_b = |keys: &BTreeMap<_, bool>| i64::from(keys[&fed.event.job]);
                match &fed.event.what {
                    EventKind::JobCreated(facts) => {
                        let is_b = facts.key == Some(key("b"));
                        keys.insert(fed.event.job, is_b);
                        waiting += of_b(&keys);
                        assert!(waiting <= MOST, "{waiting} wait");
                        last = if is_b { last } else { Some(fed.event.job) };
                    }
                    EventKind::JobClaimed => waiting -= of_b(&keys),
                    _ => {}
                }
            }
            after = Some(page.next);
        }
        let of_n: Vec<_> = keys.iter().filter(|(_, is_b)| !**is_b).map(|(id, _)| *id).collect();
        assert_eq!(of_n.len(), 8 * 30, "nothing of it was dropped");
        for id in of_n.iter().filter(|id| Some(**id) != last) {
            let row = first.row(*id).await;
            assert!(row.status.is_terminal(), "{row:?}");
        }
        let row = first.row(last.expect("a last one")).await;
        assert!([Status::Completed, Status::Pending].contains(&row.status), "{row:?}");
    });
}
