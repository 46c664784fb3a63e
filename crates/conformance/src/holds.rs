//! Keys and queues that are held because what their jobs call takes no more, and charges for what a job turned out to cost.

use crate::lanes::{CLAIMERS, ids, in_order, put};
use crate::{Bed, at, completes, is_invalid, key, name, report, stop, time, together, who};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::{
    Actor, Done, EventKind, Filter, JobId, Lane, Outcome, QueueLimits, QueueMode, Rate, Refusal, Status,
};
use windlass_store::{Claimed, List, ListLanes, Now, Progress, ReleaseLane};

/// This module's laws, as tests.
#[macro_export]
macro_rules! holds_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            holds: a_rate_limited_job_holds_its_key_and_uses_no_retry,
            a_job_without_a_key_holds_its_queue,
            a_hold_is_never_made_shorter_and_lasts_a_day_at_most,
            a_hold_ends_by_itself_and_leaves_nothing,
            an_operator_lets_a_lane_go,
            every_door_asks_whether_a_lane_is_held,
            a_lost_run_of_a_held_key_waits,
            rules_change_while_a_key_is_held,
            a_repeated_rate_limit_holds_once,
            a_cancelled_job_holds_nothing,
            many_claimers_never_start_a_held_key,
            a_charge_moves_the_buckets,
            a_charge_may_leave_a_debt,
            a_charge_is_checked_and_written_once,
            the_keys_of_a_queue_are_listed,
        );
    };
}

fn held_for(ms: i64) -> Outcome {
    Outcome::RateLimited(ms)
}

fn fair() -> QueueLimits {
    QueueLimits { lanes: Some(Lanes::default()), ..QueueLimits::default() }
}

fn rated(units: i32, burst: i32) -> QueueLimits {
    let rate = Some(Rate { units, per_ms: 1_000, burst: Some(burst) });
    let each = LaneRule { rate, ..LaneRule::default() };
    QueueLimits { lanes: Some(Lanes { each, keys: BTreeMap::new() }), ..QueueLimits::default() }
}

impl Bed {
    async fn lets_go(&self, of: Option<&str>, now: Now) -> bool {
        let request = ReleaseLane { queue: name("default"), key: of.map(key), actor: Actor::api() };
        self.store.release_lane(request, now).await.expect("the store answers")
    }

    async fn blocked_by(&self, job: JobId, now: Now) -> Option<(&'static str, String, String)> {
        self.view(job, now).await.blocked.map(|blocked| (blocked.reason, blocked.by, blocked.fix))
    }

    async fn flow(&self) -> Option<QueueLimits> {
        let queues = self.store.queues(1, at(0)).await.expect("the store answers");
        queues
            .into_iter()
            .find(|state| state.queue.name == name("default"))
            .and_then(|state| state.queue.flow)
    }

    /// Takes one job by its id and says that what it calls takes no more.
    async fn is_limited(&self, job: JobId, ms: i64, now: Now) -> Claimed {
        let held = self.claims_by_id("w", job, now).await.expect("it is handed out");
        self.settles(&held, held_for(ms), now).await.expect("it is given back");
        held
    }
}

/// F17, F6: also in a queue without rules.
pub async fn a_rate_limited_job_holds_its_key_and_uses_no_retry(bed: Bed) {
    let a = bed.enqueues("a", 2, at(0)).await;
    let held = bed.claims("w", 1, at(1)).await;
    assert_eq!(ids(&held), a[..1]);
    let done = bed.settles(&held[0], held_for(10_000), at(5)).await.expect("it is given back");
    assert_eq!(done, Done::Moved(3, Status::Retry));
    let row = bed.row(a[0]).await;
    assert_eq!((row.retries, row.crashes, row.due_at), (0, 0, Some(time(5))));
    match &bed.log(a[0]).await[2].what {
        EventKind::JobReleased(released) => assert_eq!(released.held_until, Some(time(10_005))),
        other => panic!("{other:?}"),
    }
    let b = bed.enqueues("b", 2, at(6)).await;
    let plain = bed.a_job(at(6)).await;
    let others: BTreeSet<JobId> = ids(&bed.claims("w", 10, at(7)).await).into_iter().collect();
    assert_eq!(others, BTreeSet::from([b[0], b[1], plain]), "no other key is delayed");
    for job in a.clone() {
        let (reason, by, fix) = bed.blocked_by(job, at(8)).await.expect("it is blocked");
        assert_eq!((reason, by), ("held", format!("key a is held until {}", time(10_005))));
        assert!(fix.contains("windlass lanes release default"), "{fix}");
    }
    assert_eq!(bed.claims("w", 10, at(10_004)).await, []);
    assert_eq!(bed.blocked_by(a[0], at(10_005)).await.map(|(reason, ..)| reason), Some("no_worker"));
    assert_eq!(ids(&bed.claims("w", 10, at(10_005)).await), [a[1], a[0]], "in the order of their due times");
}

/// F17
pub async fn a_job_without_a_key_holds_its_queue(bed: Bed) {
    bed.limits(fair(), at(0)).await;
    let plain = bed.a_job(at(0)).await;
    let other = bed.enqueue(bed.job_in("work", "other"), at(0)).await.id;
    bed.is_limited(plain, 1_000, at(1)).await;
    let keyed = bed.enqueues("a", 1, at(2)).await;
    let held = async |ms: i64| {
        let queues = bed.store.queues(1, at(ms)).await.expect("the store answers");
        queues
            .into_iter()
            .find(|state| state.queue.name == name("default"))
            .and_then(|state| state.held_until)
    };
    assert_eq!((held(3).await, held(1_001).await), (Some(time(1_001)), None));
    assert_eq!(ids(&bed.claims_from("w", &["default", "other"], 10, at(3)).await), [other]);
    let (reason, by, _) = bed.blocked_by(keyed[0], at(3)).await.expect("it is blocked");
    assert_eq!((reason, by), ("held", format!("the queue is held until {}", time(1_001))));
    assert_eq!(bed.claims("w", 10, at(1_001)).await.len(), 2);
}

/// F17
pub async fn a_hold_is_never_made_shorter_and_lasts_a_day_at_most(bed: Bed) {
    const DAY_MS: i64 = 86_400_000;
    bed.limits(fair(), at(0)).await;
    let jobs = bed.enqueues("a", 3, at(0)).await;
    let held = bed.claims("w", 3, at(1)).await;
    bed.settles(&held[0], held_for(5_000), at(10)).await.expect("given back");
    bed.settles(&held[1], held_for(1_000), at(11)).await.expect("given back");
    assert_eq!(bed.claims("w", 3, at(5_009)).await, [], "the longer one counts");
    assert_eq!(bed.claims("w", 3, at(5_010)).await.len(), 2);
    bed.settles(&held[2], held_for(10 * DAY_MS), at(5_020)).await.expect("given back");
    assert_eq!(bed.claims_by_id("v", jobs[2], at(DAY_MS)).await, Err(Refusal::NotClaimable(Status::Retry)));
    bed.claims_by_id("v", jobs[2], at(DAY_MS + 5_020)).await.expect("after a day it is tried");
}

/// F17, F9
pub async fn a_hold_ends_by_itself_and_leaves_nothing(bed: Bed) {
    let job = bed.enqueues("a", 1, at(0)).await[0];
    assert_eq!(bed.flow().await, None);
    bed.is_limited(job, 100, at(1)).await;
    assert!(bed.flow().await.is_some_and(|flow| flow.held && !flow.has_rules()));
    assert_eq!(bed.claims("w", 1, at(50)).await, []);
    assert_eq!(ids(&bed.claims("w", 1, at(101)).await), [job]);
    assert_eq!(bed.flow().await, None, "the queue is a plain one again");
    assert!(bed.audit().await.is_empty(), "no operator did anything");
}

/// F17, F8
pub async fn an_operator_lets_a_lane_go(bed: Bed) {
    let (a, b) = (bed.enqueues("a", 1, at(0)).await, bed.enqueues("b", 1, at(0)).await);
    bed.is_limited(a[0], 60_000, at(1)).await;
    bed.is_limited(b[0], 60_000, at(1)).await;
    assert!(!bed.lets_go(None, at(2)).await, "the queue is not held");
    assert!(bed.lets_go(Some("a"), at(3)).await);
    assert!(!bed.lets_go(Some("a"), at(4)).await, "nothing is left to let go");
    assert_eq!(ids(&bed.claims("w", 10, at(5)).await), a);
    let audit = bed.audit().await;
    assert_eq!(audit.len(), 1);
    assert_eq!((audit[0].action.as_str(), audit[0].target.as_str()), ("queue.release", "default"));
    assert_eq!(audit[0].detail["key"], "a");
    assert_eq!(audit[0].detail["held_until"], time(60_001).to_string());
    assert!(!bed.lets_go(Some("b"), at(60_001)).await, "it is over");
}

/// F17
pub async fn every_door_asks_whether_a_lane_is_held(bed: Bed) {
    let jobs = bed.enqueues("a", 2, at(0)).await;
    bed.is_limited(jobs[0], 1_000, at(1)).await;
    let none = Err(Refusal::NotClaimable(Status::Pending));
    assert_eq!(bed.claims_by_id("w", jobs[1], at(2)).await, none);
    let push = windlass_store::PutQueue { flow: None, ..put(fair(), Some(QueueMode::Push)) };
    bed.store.put_queue(push, at(3)).await.expect("the store answers").expect("set");
    let epoch = bed.leads("a", at(3)).await.expect("the term is free").epoch;
    assert_eq!(bed.gives(jobs[1], "w", epoch, at(4)).await, Err(Refusal::NotClaimable(Status::Pending)));
    assert!(bed.gives(jobs[1], "w", epoch, at(1_001)).await.is_ok());
}

/// F17, F2
pub async fn a_lost_run_of_a_held_key_waits(bed: Bed) {
    bed.limits(fair(), at(0)).await;
    let jobs = bed.enqueues("a", 2, at(0)).await;
    let held = bed.claims("w", 2, at(1)).await;
    // The lease of the first is over at 30,001.
    bed.settles(&held[1], held_for(60_000), at(2)).await.expect("given back");
    assert_eq!(bed.claims("w", 2, at(40_000)).await, []);
    let taken = bed.claims("w", 2, at(60_002)).await;
    assert_eq!(ids(&taken), jobs, "the lost run first");
    assert_eq!(taken[0].job.crashes, 1);
}

/// F17, F8: what is held stays held, whatever the rules are.
pub async fn rules_change_while_a_key_is_held(bed: Bed) {
    let a = bed.enqueues("a", 2, at(0)).await;
    bed.is_limited(a[0], 1_000, at(1)).await;
    for (n, flow) in [rated(5, 5), fair(), QueueLimits::default()].into_iter().enumerate() {
        bed.limits(flow, at(2)).await;
        assert_eq!(bed.claims("w", 10, at(3)).await, [], "under rules {n}");
    }
    let said = bed.audit().await;
    assert!(said.iter().all(|entry| entry.detail["after"]["flow"].get("held").is_none()), "{said:?}");
    assert_eq!(bed.claims("w", 10, at(1_001)).await.len(), 2);
    assert_eq!(bed.flow().await, None);
}

/// F17, Q4
pub async fn a_repeated_rate_limit_holds_once(bed: Bed) {
    let a = bed.enqueues("a", 1, at(0)).await;
    let held = bed.is_limited(a[0], 1_000, at(1)).await;
    assert_eq!(bed.settles(&held, held_for(1_000), at(500)).await, Ok(Done::Already(3)));
    assert_eq!(ids(&bed.claims("w", 10, at(1_001)).await), a, "the repeat held nothing for longer");
}

/// F17
pub async fn a_cancelled_job_holds_nothing(bed: Bed) {
    let a = bed.enqueues("a", 2, at(0)).await;
    let held = bed.claims("w", 1, at(1)).await;
    bed.cancels(a[0], stop(), at(2)).await.expect("asked to stop");
    assert_eq!(bed.settles(&held[0], held_for(1_000), at(3)).await, Ok(Done::Moved(4, Status::Cancelled)));
    assert_eq!(ids(&bed.claims("w", 10, at(4)).await), a[1..]);
}

/// F17: by the times in the log, no job of a key starts while it is held.
pub async fn many_claimers_never_start_a_held_key(bed: Bed) {
    bed.limits(fair(), None).await;
    for of in ["a", "b", "c"] {
        bed.enqueues(of, 12, None).await;
    }
    let racers = (0..CLAIMERS).map(|n| {
        let bed = bed.clone();
        async move {
            let worker = format!("w{n}");
            loop {
                let held = bed.claims(&worker, 2, None).await;
                if held.is_empty() && bed.is_done().await {
                    return;
                }
                for held in held {
                    // A third of the first attempts is refused by what they call.
                    let refused = held.job.attempt == 1 && held.job.id.as_bytes()[15] % 3 == 0;
                    let outcome = if refused { held_for(40) } else { completes() };
                    bed.settles(&held, outcome, None).await.expect("it is held");
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    });
    together(racers).await;
    let list = List { filter: Filter::default(), cursor: None, limit: 1_000 };
    let jobs = bed.store.jobs(list, None).await.expect("the store answers").expect("a page").items;
    let (mut holds, mut starts) = (Vec::new(), Vec::new());
    for job in &jobs {
        let lane = job.job.lane.unwrap_or(Lane::PLAIN);
        for event in bed.log(job.job.id).await {
            match &event.what {
                EventKind::JobReleased(released) => {
                    holds.push((lane, event.at, released.held_until.expect("it holds its key")));
                }
                EventKind::JobClaimed => starts.push((lane, event.at)),
                _ => {}
            }
        }
    }
    assert!(holds.len() > 3 && starts.len() == jobs.len() + holds.len(), "{} holds", holds.len());
    for (lane, from, until) in holds {
        let early = starts.iter().find(|(of, at)| *of == lane && *at > from && *at < until);
        assert_eq!(early, None, "held from {from} until {until}");
    }
}

impl Bed {
    async fn is_done(&self) -> bool {
        let statuses = vec![Status::Pending, Status::Retry, Status::Running];
        let list = List { filter: Filter { statuses, ..Filter::default() }, cursor: None, limit: 1 };
        let page = self.store.jobs(list, None).await.expect("the store answers").expect("a page");
        page.items.is_empty()
    }

    async fn charges(&self, held: &Claimed, units: i32, now: Now) {
        let request = Progress { charge: Some(units), ..report(held) };
        self.reports(request, now).await.expect("charged");
    }
}

/// F17, F7: the bucket of the key and that of the queue.
pub async fn a_charge_moves_the_buckets(bed: Bed) {
    let whole = Rate { units: 100, per_ms: 1_000, burst: Some(4) };
    bed.limits(QueueLimits { rate: Some(whole), ..rated(10, 3) }, at(0)).await;
    bed.enqueues("a", 9, at(0)).await;
    let held = bed.claims_by_id("w", bed.enqueues("a", 1, at(0)).await[0], at(1)).await.expect("a unit");
    // One of three units is used; two more are now.
    bed.charges(&held, 2, at(1)).await;
    assert_eq!(bed.claims("w", 9, at(2)).await, []);
    assert_eq!(bed.claims("w", 9, at(100)).await, []);
    assert_eq!(bed.claims("w", 9, at(101)).await.len(), 1, "the next unit of the key");
    let log = bed.log(held.job.id).await;
    match &log[2].what {
        EventKind::JobProgressed(said) => assert_eq!(said.charged, Some(2)),
        other => panic!("{other:?}"),
    }
    bed.enqueues("b", 9, at(200)).await;
    assert_eq!(
        bed.claims_behind(Lane::of(&key("a")), 9, at(10_000)).await.len(),
        4,
        "the burst of the queue"
    );
}

/// F17, F7
pub async fn a_charge_may_leave_a_debt(bed: Bed) {
    bed.limits(rated(10, 3), at(0)).await;
    let jobs = bed.enqueues("a", 4, at(0)).await;
    let held = bed.claims_by_id("w", jobs[0], at(0)).await.expect("a unit");
    bed.charges(&held, 99, at(0)).await;
    // 100 units take ten seconds, three of them may be ahead.
    assert_eq!(bed.claims("w", 9, at(9_799)).await, []);
    let (reason, by, fix) = bed.blocked_by(jobs[1], at(9_799)).await.expect("it is blocked");
    assert_eq!((reason, by.as_str()), ("rate", "key a has used its 10/s in bursts of 3"));
    assert!(fix.contains(&time(9_800).to_string()), "{fix}");
    assert_eq!(bed.claims("w", 9, at(9_800)).await.len(), 1);
    let b = bed.enqueues("b", 2, at(9_900)).await;
    let held = bed.claims_by_id("w", b[0], at(9_900)).await.expect("a unit");
    bed.charges(&held, 1_000, at(9_900)).await;
    assert!(bed.lets_go(Some("b"), at(9_901)).await, "a debt is let go too");
    bed.claims_by_id("w", b[1], at(9_902)).await.expect("it starts");
}

/// F17, Q4
pub async fn a_charge_is_checked_and_written_once(bed: Bed) {
    bed.limits(rated(10, 3), at(0)).await;
    let jobs = bed.enqueues("a", 2, at(0)).await;
    let held = bed.claims_by_id("w", jobs[0], at(0)).await.expect("a unit");
    let charge = |units: i32| Progress { charge: Some(units), ..report(&held) };
    for wrong in [0, -1, 1_000_001] {
        is_invalid(&bed.reports(charge(wrong), at(1)).await, "units");
    }
    let once = Progress { key: Some(key("k")), ..charge(20) };
    bed.reports(once.clone(), at(1)).await.expect("charged");
    let again = bed.reports(once, at(2)).await.expect("known");
    assert!(again.done.is_repeat());
    bed.claims_by_id("w", jobs[1], at(1_899)).await.expect_err("21 units, two of them ahead");
    bed.claims_by_id("w", jobs[1], at(1_900)).await.expect("and not 41");
    bed.settles(&held, completes(), at(1_901)).await.expect("done");
    bed.reports(charge(1), at(1_902)).await.expect_err("it is held no more");
    // Where there is no rate it only stands in the log.
    let plain = bed.enqueue(bed.job_in("work", "other"), at(0)).await.id;
    let held = bed.claims_by_id(who("w").as_str(), plain, at(1_903)).await.expect("taken");
    bed.charges(&held, 5, at(1_904)).await;
    assert_eq!(bed.types(plain).await, ["job_created", "job_claimed", "job_progressed"]);
}

/// F17, F5: a page at a time, in the order of their lanes.
pub async fn the_keys_of_a_queue_are_listed(bed: Bed) {
    let read = async |after: Lane, limit: usize, ms: i64| {
        let request = ListLanes { queue: name("default"), after, limit };
        bed.store.lanes(request, at(ms)).await.expect("the store answers")
    };
    let a = bed.enqueues("a", 3, at(0)).await;
    assert_eq!(read(Lane::PLAIN, 9, 0).await, [], "without rules keys take no turns");
    bed.limits(rated(1, 1), at(0)).await;
    bed.enqueues("b", 2, at(1)).await;
    let c = bed.enqueues("c", 1, at(1)).await;
    bed.a_job(at(1)).await;
    bed.claims_by_id("w", a[0], at(2)).await.expect("a unit");
    bed.is_limited(c[0], 5_000, at(3)).await;
    let lanes = read(Lane::PLAIN, 9, 4).await;
    let order: Vec<String> = lanes.iter().filter_map(|lane| Some(lane.key.as_ref()?.to_string())).collect();
    assert_eq!(order, in_order(["a", "b", "c"]));
    let of = |text: &str| lanes.iter().find(|lane| lane.key == Some(key(text))).expect("it is listed");
    assert_eq!((of("a").running, of("a").due.n, of("a").held_until), (1, 2, None));
    assert_eq!(of("a").next_at, Some(time(1_002)));
    assert_eq!((of("b").running, of("b").due.n, of("b").next_at), (0, 2, None));
    assert_eq!((of("c").running, of("c").due.n, of("c").held_until), (0, 1, Some(time(5_003))));
    let first = read(Lane::PLAIN, 2, 4).await;
    let rest = read(first[1].lane, 2, 4).await;
    assert_eq!([first, rest].concat(), lanes);
}
