//! Queues with rates: so many units of their jobs start per period, of the whole queue and of each key.

use crate::lanes::{CLAIMERS, ids, in_order, keys, put};
use crate::{Bed, at, completes, is_invalid, key, name, stop, time, together};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use windlass_core::decide::Claim;
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::{
    EventKind, Filter, JobId, Lane, LeaseMs, NewJob, QueueLimits, QueueMode, Rate, Refusal, Status, Timestamp,
};
use windlass_store::{ClaimMany, List, ReadFeed};

/// This module's laws, as tests.
#[macro_export]
macro_rules! rates_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            rates: rates_are_checked_kept_and_audited,
            a_job_keeps_its_cost,
            a_queue_starts_a_burst_and_then_one_by_one,
            a_key_starts_no_faster_than_its_rate_and_delays_no_other,
            a_key_may_have_a_rate_of_its_own,
            rates_and_limits_hold_together,
            a_job_pays_what_it_costs,
            a_cost_above_the_burst_waits_for_a_full_bucket_and_leaves_a_debt,
            nothing_passes_a_job_that_cannot_be_paid_for,
            what_is_taken_over_pays_again,
            what_ends_by_being_looked_at_pays_nothing,
            every_door_pays,
            an_assignment_pays,
            a_repeated_claim_pays_once,
            rates_change_while_jobs_run,
            a_clock_that_jumps_passes_no_rate,
            a_job_behind_a_rate_says_so,
            many_claimers_never_pass_a_rate,
        );
    };
}

const SECOND_MS: i64 = 1_000;

fn rate(units: i32, burst: i32) -> Rate {
    Rate { units, per_ms: SECOND_MS, burst: Some(burst) }
}

fn of_queue(rate: Rate) -> QueueLimits {
    QueueLimits { rate: Some(rate), ..QueueLimits::default() }
}

fn of_keys(rate: Rate) -> QueueLimits {
    let each = LaneRule { rate: Some(rate), ..LaneRule::default() };
    QueueLimits { lanes: Some(Lanes { each, keys: BTreeMap::new() }), ..QueueLimits::default() }
}

impl Bed {
    /// How many jobs a claim of many is given at a moment.
    async fn starts(&self, ms: i64) -> usize {
        self.claims("w", 100, at(ms)).await.len()
    }

    fn costing(&self, of: Option<&str>, cost: i32) -> NewJob {
        let mut job = of.map_or_else(|| self.job("work"), |of| self.keyed(of));
        job.facts.cost = cost;
        job
    }

    async fn enqueues_costing(&self, of: Option<&str>, costs: &[i32], ms: i64) -> Vec<JobId> {
        let jobs = costs.iter().map(|cost| self.costing(of, *cost)).collect();
        self.enqueue_all(jobs, at(ms)).await.iter().map(|enqueued| enqueued.id).collect()
    }
}

/// F7, F8
pub async fn rates_are_checked_kept_and_audited(bed: Bed) {
    for (flow, field) in [
        (of_queue(rate(0, 1)), "flow.rate.units"),
        (of_queue(rate(1, 0)), "flow.rate.burst"),
        (of_queue(Rate { per_ms: 10, ..rate(1, 1) }), "flow.rate.per"),
        (of_queue(rate(20_000, 1)), "flow.rate"),
        (of_keys(rate(0, 1)), "flow.lanes.rate.units"),
    ] {
        let refused = bed.store.put_queue(put(flow, None), at(0)).await.expect("the store answers");
        is_invalid(&refused, field);
    }
    let flow = QueueLimits { rate: Some(Rate { burst: None, ..rate(5, 1) }), ..of_keys(rate(2, 1)) };
    bed.limits(flow.clone(), at(1)).await;
    let kept = async || {
        let queues = bed.store.queues(1, at(1)).await.expect("the store answers");
        queues
            .into_iter()
            .find(|state| state.queue.name == name("default"))
            .and_then(|state| state.queue.flow)
    };
    assert_eq!(kept().await, Some(flow));
    bed.limits(QueueLimits::default(), at(2)).await;
    assert_eq!(kept().await, None);
    let mut audit = bed.audit().await;
    audit.sort_by_key(|entry| entry.seq);
    let said: Vec<_> = audit.iter().map(|e| (e.action.as_str(), e.detail["after"]["flow"].clone())).collect();
    let rules = serde_json::json!({
        "rate": {"units": 5, "per_ms": 1_000},
        "lanes": {"rate": {"units": 2, "per_ms": 1_000, "burst": 1}},
    });
    assert_eq!(said, [("queue.put", rules), ("queue.put", serde_json::Value::Null)]);
}

/// F7
pub async fn a_job_keeps_its_cost(bed: Bed) {
    let id = bed.enqueue(bed.costing(None, 5), at(0)).await.id;
    assert_eq!(bed.view(id, at(0)).await.facts.cost, 5);
    assert_eq!(bed.claims("w", 1, at(1)).await[0].facts.cost, 5);
    let plain = bed.a_job(at(2)).await;
    assert_eq!(bed.view(plain, at(2)).await.facts.cost, 1);
    for cost in [0, -1, 1_001] {
        let (_, refusal) = bed.enqueue_refused(vec![bed.costing(None, cost)], at(3)).await;
        is_invalid(&Err::<(), _>(refusal), "cost");
    }
}

/// F7: after a pause a burst, then a job per unit, and never more than a burst is saved up.
pub async fn a_queue_starts_a_burst_and_then_one_by_one(bed: Bed) {
    bed.limits(of_queue(rate(10, 3)), at(0)).await;
    let jobs = bed.enqueues("a", 20, at(0)).await;
    let first = bed.claims("w", 100, at(1)).await;
    assert_eq!(ids(&first), jobs[..3], "keys do not matter where there is no rule for them");
    for held in &first {
        bed.settles(held, completes(), at(2)).await.expect("settled");
    }
    assert_eq!(bed.starts(100).await, 0, "an end brings no unit");
    assert_eq!(bed.starts(101).await, 1, "100 ms later there is one");
    assert_eq!(bed.starts(101).await, 0);
    assert_eq!(bed.starts(300).await, 1);
    assert_eq!(bed.starts(301).await, 1);
    assert_eq!(bed.starts(10_000).await, 3, "a long pause is worth a burst");
    assert_eq!(bed.starts(10_100).await, 1);
}

/// F7, F6
pub async fn a_key_starts_no_faster_than_its_rate_and_delays_no_other(bed: Bed) {
    bed.limits(of_keys(rate(1, 2)), at(0)).await;
    let many = bed.enqueues("many", 9, at(0)).await;
    let few = bed.enqueues("few", 1, at(1)).await;
    let first: BTreeSet<JobId> = ids(&bed.claims("w", 10, at(2)).await).into_iter().collect();
    assert_eq!(first, BTreeSet::from([many[0], many[1], few[0]]));
    let other = bed.enqueues("other", 3, at(3)).await;
    for _ in 0..2 {
        bed.a_job(at(3)).await;
    }
    assert_eq!(ids(&bed.claims_behind(Lane::PLAIN, 1, at(4)).await), other[..1]);
    assert_eq!(bed.starts(5).await, 3, "one of that key, and those without one");
    assert_eq!(ids(&bed.claims("w", 10, at(1_002)).await), many[2..3]);
}

/// F7
pub async fn a_key_may_have_a_rate_of_its_own(bed: Bed) {
    let mut flow = of_keys(rate(1, 1));
    let own = LaneRule { rate: Some(rate(3, 3)), ..LaneRule::default() };
    flow.lanes.as_mut().expect("lanes").keys.insert(key("large"), own);
    bed.limits(QueueLimits { rate: Some(rate(5, 5)), ..flow }, at(0)).await;
    for of in ["large", "small", "tiny"] {
        bed.enqueues(of, 4, at(0)).await;
    }
    bed.enqueues("more", 4, at(0)).await;
    let taken = keys(&bed.claims("w", 10, at(1)).await);
    let of = |key: &str| taken.iter().filter(|taken| *taken == key).count();
    assert_eq!(taken.len(), 5, "what the queue allows: {taken:?}");
    assert!(of("large") <= 3 && ["small", "tiny", "more"].iter().all(|key| of(key) <= 1), "{taken:?}");
}

/// F7, F1
pub async fn rates_and_limits_hold_together(bed: Bed) {
    let mut flow = of_keys(rate(1, 3));
    flow.lanes.as_mut().expect("lanes").each.concurrency = Some(2);
    bed.limits(flow, at(0)).await;
    bed.enqueues("a", 9, at(0)).await;
    let held = bed.claims("w", 10, at(1)).await;
    assert_eq!(held.len(), 2, "two slots");
    bed.settles(&held[0], completes(), at(2)).await.expect("settled");
    bed.settles(&held[1], completes(), at(2)).await.expect("settled");
    assert_eq!(bed.starts(3).await, 1, "one unit was left");
    assert_eq!(bed.starts(1_001).await, 1, "the last slot, by the next unit");
    assert_eq!(bed.starts(9_000).await, 0, "units there are, and no slot");
}

/// F7
pub async fn a_job_pays_what_it_costs(bed: Bed) {
    bed.limits(of_queue(rate(10, 10)), at(0)).await;
    let jobs = bed.enqueues_costing(None, &[4, 1, 5, 1, 3], 0).await;
    assert_eq!(ids(&bed.claims("w", 10, at(1)).await), jobs[..3], "ten units");
    assert_eq!(ids(&bed.claims("w", 10, at(101)).await), jobs[3..4]);
    assert_eq!(bed.starts(400).await, 0);
    assert_eq!(ids(&bed.claims("w", 10, at(401)).await), jobs[4..]);
}

/// F7
pub async fn a_cost_above_the_burst_waits_for_a_full_bucket_and_leaves_a_debt(bed: Bed) {
    bed.limits(of_keys(rate(1, 2)), at(0)).await;
    let jobs = bed.enqueues_costing(Some("a"), &[1, 5, 1, 1], 0).await;
    assert_eq!(ids(&bed.claims("w", 10, at(0)).await), jobs[..1]);
    assert_eq!(bed.starts(999).await, 0, "the bucket is not full");
    assert_eq!(ids(&bed.claims("w", 10, at(1_000)).await), jobs[1..2]);
    assert_eq!(bed.starts(4_999).await, 0, "five units are paid for, two of them ahead");
    assert_eq!(ids(&bed.claims("w", 10, at(5_000)).await), jobs[2..3]);
    assert_eq!(ids(&bed.claims("w", 10, at(6_000)).await), jobs[3..]);
}

/// F7, F4: or a dear job would wait for ever behind cheap ones.
pub async fn nothing_passes_a_job_that_cannot_be_paid_for(bed: Bed) {
    bed.limits(of_keys(rate(1, 4)), at(0)).await;
    let a = bed.enqueues_costing(Some("a"), &[2, 3, 1], 0).await;
    let mut low = bed.costing(Some("a"), 1);
    low.facts.priority = -1;
    let low = bed.enqueue(low, at(0)).await.id;
    let b = bed.enqueues_costing(Some("b"), &[1], 0).await;
    let first: BTreeSet<JobId> = ids(&bed.claims("w", 10, at(0)).await).into_iter().collect();
    assert_eq!(first, BTreeSet::from([a[0], b[0]]), "the lane stands still, also at lower priorities");
    assert_eq!(ids(&bed.claims("w", 10, at(1_000)).await), a[1..2]);
    assert_eq!(ids(&bed.claims("w", 10, at(2_000)).await), a[2..]);
    assert_eq!(ids(&bed.claims("w", 10, at(3_000)).await), [low]);

    bed.limits(QueueLimits { lanes: Some(Lanes::default()), ..of_queue(rate(1, 4)) }, at(10_000)).await;
    let [one, two] = in_order(["one", "two"]);
    let dear = bed.enqueues_costing(Some(two), &[3], 10_000).await;
    let cheap = bed.enqueues_costing(Some(one), &[2, 1, 1], 10_000).await;
    let held = bed.claims_behind(Lane::PLAIN, 10, at(10_000)).await;
    assert_eq!(ids(&held), cheap[..1], "its turn is next, and the queue waits with it");
    let behind = Lane::of(&key(one));
    assert_eq!(ids(&bed.claims_behind(behind, 10, at(11_000)).await), dear);
}

/// F7, F2: an attempt is a start.
pub async fn what_is_taken_over_pays_again(bed: Bed) {
    bed.limits(of_queue(Rate { per_ms: 60_000, ..rate(1, 1) }), at(0)).await;
    let jobs = bed.enqueues("a", 2, at(0)).await;
    assert_eq!(ids(&bed.claims("w", 10, at(0)).await), jobs[..1]);
    assert_eq!(bed.claims("v", 10, at(30_000)).await, [], "its lease is over, and no unit is there");
    assert_eq!(bed.claims("v", 10, at(59_999)).await, []);
    let taken = bed.claims("v", 10, at(60_000)).await;
    assert_eq!(ids(&taken), jobs[..1], "before what is new");
    assert_eq!(taken[0].job.attempt, 2);
    bed.settles(&taken[0], completes(), at(60_001)).await.expect("settled");
    assert_eq!(bed.claims("v", 10, at(119_999)).await, []);
    assert_eq!(ids(&bed.claims("v", 10, at(120_000)).await), jobs[1..]);
}

/// F7, F2
pub async fn what_ends_by_being_looked_at_pays_nothing(bed: Bed) {
    bed.limits(of_queue(Rate { per_ms: 40_000, ..rate(1, 1) }), at(0)).await;
    let jobs = bed.enqueues("a", 2, at(0)).await;
    assert_eq!(ids(&bed.claims("w", 10, at(0)).await), jobs[..1]);
    bed.cancels(jobs[0], stop(), at(20_000)).await.expect("requested");
    assert_eq!(bed.claims("v", 10, at(30_000)).await, []);
    assert_eq!(bed.row(jobs[0]).await.status, Status::Cancelled, "also while no unit is there");
    assert_eq!(ids(&bed.claims("v", 10, at(40_000)).await), jobs[1..], "it took no unit");
}

/// F7
pub async fn every_door_pays(bed: Bed) {
    bed.limits(of_keys(rate(1, 1)), at(0)).await;
    let jobs = bed.enqueues("a", 3, at(0)).await;
    bed.claims_by_id("w", jobs[1], at(1)).await.expect("there is a unit");
    let none = Err(Refusal::NotClaimable(Status::Pending));
    assert_eq!(bed.claims_by_id("w", jobs[0], at(2)).await, none);
    assert_eq!(bed.claims("w", 10, at(2)).await, []);
    assert_eq!(bed.claims_by_id("w", jobs[0], at(1_000)).await, none);
    bed.claims_by_id("w", jobs[0], at(1_001)).await.expect("there is the next unit");
    assert_eq!(ids(&bed.claims("w", 10, at(2_001)).await), jobs[2..]);
    let running = Err(Refusal::NotClaimable(Status::Running));
    assert_eq!(bed.claims_by_id("v", jobs[1], at(30_000)).await, running, "it is held");
    bed.claims_by_id("v", jobs[1], at(30_001)).await.expect("taken over");
    bed.claims_by_id("v", jobs[0], at(31_000)).await.expect_err("a lost run needs a unit too");
    bed.claims_by_id("v", jobs[0], at(31_001)).await.expect("taken over");
}

/// F7
pub async fn an_assignment_pays(bed: Bed) {
    let request = put(of_keys(rate(1, 1)), Some(QueueMode::Push));
    bed.store.put_queue(request, at(0)).await.expect("the store answers").expect("set");
    let epoch = bed.leads("a", at(0)).await.expect("the term is free").epoch;
    let (a, b) = (bed.enqueues("a", 3, at(0)).await, bed.enqueues("b", 1, at(0)).await);
    let items = [a[0], a[1], b[0], a[0]].map(|job| (job, crate::who("w"))).to_vec();
    let request = windlass_store::Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
    let answers = bed.store.assign(request, at(1)).await.expect("the store answers");
    let done: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, false, true, true], "{answers:?}");
    assert_eq!(answers[1], Err(Refusal::NotClaimable(Status::Pending)));
    assert_eq!(bed.claims("w", 10, at(2)).await.len(), 2, "a start of what is assigned is paid for");
    assert!(bed.gives(a[1], "w", epoch, at(1_000)).await.is_err());
    assert!(bed.gives(a[1], "w", epoch, at(1_001)).await.is_ok());
    assert!(bed.gives(a[2], "w", epoch, at(1_002)).await.is_err());
}

/// F7, Q4
pub async fn a_repeated_claim_pays_once(bed: Bed) {
    bed.limits(of_queue(rate(1, 3)), at(0)).await;
    let jobs = bed.enqueues("a", 4, at(0)).await;
    let claim = bed.claim("w");
    let request = ClaimMany { queues: vec![name("default")], kinds: vec![], max: 2, from: None, claim };
    let first = bed.store.claim(request.clone(), at(1)).await.expect("the store answers");
    let again = bed.store.claim(request, at(2)).await.expect("the store answers");
    assert_eq!((ids(&first), again.len()), (jobs[..2].to_vec(), 2));
    assert_eq!(ids(&bed.claims("v", 10, at(3)).await), jobs[2..3], "the third unit is there");
}

/// F7, F8
pub async fn rates_change_while_jobs_run(bed: Bed) {
    bed.enqueues("a", 90, at(0)).await;
    assert_eq!(bed.claims("w", 5, at(0)).await.len(), 5);
    bed.limits(of_queue(Rate { per_ms: 3_600_000, ..rate(1, 4) }), at(1)).await;
    assert_eq!(bed.starts(2).await, 4, "what ran before it pays nothing");
    assert_eq!(bed.starts(60_000).await, 0);
    bed.limits(of_queue(rate(10, 10)), at(60_001)).await;
    assert_eq!(bed.starts(60_002).await, 0, "what was used stays used");
    assert_eq!(bed.starts(61_002).await, 10, "and counts for no more than the new burst");
    bed.limits(of_queue(rate(1, 2)), at(70_000)).await;
    assert_eq!(bed.starts(70_001).await, 2);
    bed.limits(QueueLimits::default(), at(70_002)).await;
    assert!(bed.starts(70_003).await > 50, "without a rate all of them start");
}

/// F7: "why is it not running" names the rate, and when it may start.
pub async fn a_job_behind_a_rate_says_so(bed: Bed) {
    let slow = Rate { units: 6, per_ms: 60_000, burst: Some(1) };
    bed.limits(QueueLimits { rate: Some(Rate { burst: None, ..rate(2, 1) }), ..of_keys(slow) }, at(0)).await;
    bed.registers("w", at(0)).await;
    let (a, b) = (bed.enqueues("acme", 2, at(0)).await, bed.enqueues("b", 2, at(0)).await);
    let said = async |id| bed.view(id, at(2)).await.blocked.map(|it| (it.reason, it.by, it.fix));
    assert_eq!(said(a[0]).await, None);
    assert_eq!(ids(&bed.claims_behind(Lane::of(&key("acme")), 1, at(1)).await), b[..1]);
    let from = Lane::from_number(Lane::of(&key("acme")).number() - 1);
    assert_eq!(ids(&bed.claims_behind(from, 1, at(1)).await), a[..1]);
    let (reason, by, fix) = said(a[1]).await.expect("it is blocked");
    assert_eq!((reason, by.as_str()), ("rate", "key acme has used its 6/m in bursts of 1"));
    assert!(fix.contains(&time(10_001).to_string()) && fix.contains("--key-rate"), "{fix}");
    let plain = bed.a_job(at(2)).await;
    let (reason, by, fix) = said(plain).await.expect("it is blocked");
    assert_eq!((reason, by.as_str()), ("rate", "the queue has used its 2/s"));
    assert!(fix.contains(&time(501).to_string()), "{fix}");
    assert_eq!(said(a[0]).await, None, "it runs");
    assert_eq!(bed.view(plain, at(501)).await.blocked, None, "it may start");
}

/// F7: neither a jump ahead nor one back starts more than a burst, and both are over with the jump.
pub async fn a_clock_that_jumps_passes_no_rate(bed: Bed) {
    const HOUR_MS: i64 = 3_600_000;
    let rate = rate(1, 3);
    bed.limits(QueueLimits { rate: Some(rate), ..of_keys(rate) }, at(0)).await;
    bed.enqueues("a", 20, at(0)).await;
    assert_eq!((bed.starts(0).await, bed.starts(900).await), (3, 0));
    assert_eq!((bed.starts(HOUR_MS).await, bed.starts(HOUR_MS).await), (3, 0), "an hour is worth a burst");
    assert_eq!((bed.starts(10).await, bed.starts(1_009).await), (0, 0), "what was used stays used");
    // Where the store's clock went back too, the first unit is there after as long as it takes.
    let back = bed.starts(1_010).await;
    assert!(back <= 1, "{back}");
    assert_eq!((bed.starts(HOUR_MS + 10_000).await, bed.starts(HOUR_MS + 10_999).await), (3, 0));
    assert_eq!(bed.starts(HOUR_MS + 11_000).await, 1);
    is_within(bed.all_starts().await.into_iter().map(|(_, start)| start).collect(), rate);
}

/// F7: by the times in the log, with workers that vanish: in no span, however long, more starts than the rate and one burst.
pub async fn many_claimers_never_pass_a_rate(bed: Bed) {
    let (each, whole) = (rate(100, 4), rate(300, 10));
    bed.limits(QueueLimits { rate: Some(whole), ..of_keys(each) }, None).await;
    let mut jobs = Vec::new();
    for of in ["a", "b", "c", "d", "e"] {
        jobs.extend(bed.enqueues_costing(Some(of), &[1, 1, 3, 1, 2, 1].repeat(4), 0).await);
    }
    let racers = (0..CLAIMERS).map(|n| {
        let bed = bed.clone();
        async move {
            loop {
                let claim = Claim {
                    worker: crate::who(&format!("w{n}")),
                    secret: windlass_store::fresh::secret(),
                    lease_ms: LeaseMs::new(1_000).expect("a lease"),
                };
                // The clock of the store: its moments are what is judged.
                let queues = vec![name("default")];
                let request = ClaimMany { queues, kinds: vec![], max: 3, from: None, claim };
                let held = bed.store.claim(request, None).await.expect("the store answers");
                if held.is_empty() && all_completed(&bed).await {
                    return;
                }
                for held in held {
                    // One in nine first attempts is abandoned: its lease runs out.
                    if held.job.attempt > 1 || held.job.id.as_bytes()[15] % 9 != 0 {
                        // Refused if its lease was lost by then.
                        let _lost = bed.settles(&held, completes(), None).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    together(racers).await;
    let starts = bed.all_starts().await;
    assert!(starts.len() >= jobs.len(), "{} starts", starts.len());
    is_within(starts.iter().map(|(_, start)| *start).collect(), whole);
    let lanes: BTreeSet<Option<Lane>> = starts.iter().map(|(lane, _)| *lane).collect();
    assert_eq!(lanes.len(), 5);
    for lane in lanes {
        is_within(starts.iter().filter(|(of, _)| *of == lane).map(|(_, start)| *start).collect(), each);
    }
}

async fn all_completed(bed: &Bed) -> bool {
    let statuses = vec![Status::Pending, Status::Running];
    let list = List { filter: Filter { statuses, ..Filter::default() }, cursor: None, limit: 1 };
    let page = bed.store.jobs(list, None).await.expect("the store answers").expect("a page");
    page.items.is_empty()
}

/// From every start to every later one, no more units than the time between them and one burst are worth.
pub fn is_within(mut starts: Vec<(Timestamp, i32)>, rate: Rate) {
    starts.sort_unstable();
    let burst = i64::from(rate.burst.unwrap_or(rate.units));
    let unit_us = rate.per_ms * 1_000 / i64::from(rate.units);
    for (n, (from, _)) in starts.iter().enumerate() {
        let mut units = 0;
        for (until, cost) in &starts[n..] {
            units += i64::from(*cost);
            let span_us = until.as_micros() - from.as_micros();
            assert!((units - burst) * unit_us <= span_us, "{units} units within {span_us} µs at {rate}");
        }
    }
}

impl Bed {
    /// Every start on record: its lane, its moment and what it cost.
    pub async fn all_starts(&self) -> Vec<(Option<Lane>, (Timestamp, i32))> {
        let (mut after, mut known, mut starts) = (None, BTreeMap::new(), Vec::new());
        loop {
            let read = ReadFeed { after, limit: 1_000, payloads: false };
            let page = self.store.feed(read, None).await.expect("the store answers").expect("a page");
            if page.events.is_empty() {
                return starts;
            }
            for event in page.events.iter().map(|fed| &fed.event) {
                match &event.what {
                    EventKind::JobCreated(facts) => {
                        known.insert(event.job, (facts.key.as_ref().map(Lane::of), facts.cost));
                    }
                    EventKind::JobClaimed => {
                        let (lane, cost) = known[&event.job];
                        starts.push((lane, (event.at, cost)));
                    }
                    _ => {}
                }
            }
            after = Some(page.next);
        }
    }
}
