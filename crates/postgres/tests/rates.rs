//! Queues with rates where several processes claim at once, each with connections of its own, and where the clock goes back.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use windlass_conformance::rates::is_within;
use windlass_conformance::{Bed, at, completes, key, name, who};
use windlass_core::decide::Claim;
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::{Filter, Lane, LeaseMs, QueueLimits, Rate, Status};
use windlass_postgres::Options;
use windlass_store::{ClaimMany, ClaimOne, List, fresh};

async fn open(url: &str) -> Bed {
    Bed::new(Arc::new(Options::new(url).pool(4).open().await.expect("a store")))
}

fn of_queue(units: i32, per_ms: i64, burst: i32) -> QueueLimits {
    QueueLimits { rate: Some(Rate { units, per_ms, burst: Some(burst) }), ..QueueLimits::default() }
}

async fn enqueue(bed: &Bed, of: &str, costs: &[i32]) {
    let job = |cost: &i32| {
        let mut job = bed.job("work");
        (job.id, job.facts.key, job.facts.cost) = (fresh::job_id(), Some(key(of)), *cost);
        job
    };
    bed.enqueue_all(costs.iter().map(job).collect(), at(0)).await;
}

/// F7: four processes of four claimers each, by queue and by id, some of which vanish. By the times in the log no span sees
/// more starts than the rates and one burst.
#[test]
fn processes_that_race_never_pass_a_rate() {
    support::wait_for(async {
        let (url, _database) = support::database().await;
        let first = open(&url).await;
        let (each, whole) = (100, 250);
        let rate = |units, burst| Rate { units, per_ms: 1_000, burst: Some(burst) };
        let (each, whole) = (rate(each, 3), rate(whole, 8));
        let rule = LaneRule { rate: Some(each), ..LaneRule::default() };
        let lanes = Some(Lanes { each: rule, keys: BTreeMap::new() });
        first.limits(QueueLimits { rate: Some(whole), lanes, ..QueueLimits::default() }, at(0)).await;
        for of in ["a", "b", "c", "d"] {
            enqueue(&first, of, &[1, 2, 1, 1, 3].repeat(4)).await;
        }
        let mut racers = JoinSet::new();
        for n in 0..4 {
            let bed = open(&url).await;
            for m in 0..4 {
                racers.spawn(races(bed.clone(), format!("w{n}-{m}"), m == 0));
            }
        }
        racers.join_all().await;
        let starts = first.all_starts().await;
        assert!(starts.len() > 80, "{} starts, some of them again", starts.len());
        is_within(starts.iter().map(|(_, start)| *start).collect(), whole);
        for of in ["a", "b", "c", "d"] {
            let lane = Some(Lane::of(&key(of)));
            is_within(starts.iter().filter(|(of, _)| *of == lane).map(|(_, start)| *start).collect(), each);
        }
    });
}

/// Claims by the server's clock until nothing is left.
async fn races(bed: Bed, worker: String, by_id: bool) {
    let claim = || {
        let lease_ms = LeaseMs::new(1_000).expect("a lease");
        Claim { worker: who(&worker), secret: fresh::secret(), lease_ms }
    };
    let list = |statuses: Vec<Status>| {
        let filter = Filter { statuses, ..Filter::default() };
        bed.store.jobs(List { filter, cursor: None, limit: 1 }, None)
    };
    let mut vanished = false;
    loop {
        let held = if by_id {
            let due = list(vec![Status::Pending]).await.expect("the store answers").expect("a page");
            let next = due.items.first().map(|next| ClaimOne { job: next.job.id, claim: claim() });
            match next {
                // Another may hold the row or the queue for too long: then nothing happened.
                Some(request) => {
                    bed.store.claim_one(request, None).await.ok().and_then(Result::ok).into_iter().collect()
                }
                None => vec![],
            }
        } else {
            let queues = vec![name("default")];
            let request = ClaimMany { queues, kinds: vec![], max: 3, from: None, claim: claim() };
            bed.store.claim(request, None).await.expect("the store answers")
        };
        if held.is_empty() {
            let open = list(vec![Status::Pending, Status::Running]).await.expect("the store answers");
            if open.expect("a page").items.is_empty() {
                return;
            }
        }
        for held in held {
            // Each abandons its first job: the lease runs out, and another takes it over.
            if std::mem::replace(&mut vanished, true) {
                // Refused if its lease was lost by then.
                let _lost = bed.settles(&held, completes(), None).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// F7: what was paid before a failover to a server whose clock is an hour behind does not stop the queue for an hour.
#[test]
fn a_clock_that_goes_back_stops_a_queue_for_no_longer_than_its_burst() {
    const HOUR_MS: i64 = 3_600_000;
    support::wait_for(async {
        let (url, _database) = support::database().await;
        let bed = open(&url).await;
        bed.limits(of_queue(1, 1_000, 3), at(0)).await;
        enqueue(&bed, "a", &[1; 9]).await;
        assert_eq!(bed.claims("w", 9, at(HOUR_MS)).await.len(), 3);
        assert_eq!(bed.claims("w", 9, at(10)).await, [], "what was used stays used");
        assert_eq!(bed.claims("w", 9, at(1_010)).await.len(), 1);
        assert_eq!(bed.claims("w", 9, at(3_010)).await.len(), 2);
        assert_eq!(bed.claims("w", 9, at(9_010)).await.len(), 3);
    });
}

/// F9, F7: nothing is kept for a queue without rates; what means nothing any more is forgotten by the next claim.
#[test]
fn only_queues_with_rates_keep_buckets() {
    support::wait_for(async {
        let (url, _database) = support::database().await;
        let (bed, hand) = (open(&url).await, support::hand(&url).await);
        let buckets = async || -> i64 {
            let row = hand.query_one("SELECT count(*) FROM windlass.buckets", &[]).await.expect("an answer");
            row.get(0)
        };
        enqueue(&bed, "a", &[1; 9]).await;
        bed.limits(QueueLimits { concurrency: Some(5), ..QueueLimits::default() }, at(0)).await;
        assert_eq!((bed.claims("w", 2, at(1)).await.len(), buckets().await), (2, 0));
        let mut flow = of_queue(10, 1_000, 1);
        let rate = flow.rate;
        let each = LaneRule { rate, ..LaneRule::default() };
        flow.lanes = Some(Lanes { each, keys: BTreeMap::new() });
        bed.limits(flow, at(0)).await;
        assert_eq!(
            (bed.claims("w", 2, at(2)).await.len(), buckets().await),
            (1, 2),
            "the key's and the queue's"
        );
        let job = bed.a_job(at(200)).await;
        bed.claims_by_id("w", job, at(200)).await.expect("a unit");
        assert_eq!(buckets().await, 1, "the queue's; the key's is full again");
    });
}
