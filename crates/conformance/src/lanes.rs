//! Queues with rules: so many of their jobs run at once, of the whole queue and of each key, and keys take turns.

use crate::{Bed, at, completes, fails_until, is_invalid, key, name, redrive, together, waits_for_signal};
use crate::{stop, time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use windlass_core::decide::Claim;
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::{
    Actor, Filter, JobId, Lane, LeaseMs, NewJob, QueueLimits, QueueMode, Refusal, RunAt, Status,
};
use windlass_store::{ClaimMany, Claimed, EnqueueClaimed, List, Now, PutQueue};

/// This module's laws, as tests.
#[macro_export]
macro_rules! lanes_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            lanes: a_job_keeps_its_key,
            limits_are_checked_kept_and_audited,
            a_queue_runs_no_more_than_its_limit,
            a_key_runs_no_more_than_its_limit_and_delays_no_other,
            a_key_may_have_a_limit_of_its_own,
            what_ends_or_waits_or_is_retried_frees_its_slot,
            a_redriven_job_needs_a_slot_again,
            a_lost_run_keeps_its_slot_until_it_is_taken_over,
            a_late_renewal_keeps_its_slot,
            a_run_that_is_lost_too_often_frees_its_slot,
            every_door_asks_for_a_slot,
            an_assignment_takes_a_slot,
            a_lost_run_that_is_taken_back_frees_its_slot_for_the_next,
            limits_change_while_jobs_run,
            a_first_limit_counts_what_runs_already,
            a_rule_moves_to_another_key_while_jobs_run,
            a_lane_is_first_in_first_out,
            keys_take_turns,
            weights_are_shares,
            priority_goes_before_fairness,
            jobs_without_a_key_are_one_lane_without_a_limit_of_its_own,
            without_rules_keys_do_not_matter,
            a_claim_of_some_kinds_passes_over_others,
            a_repeated_claim_is_given_the_same,
            queues_are_served_in_the_order_asked_for,
            a_job_behind_a_limit_says_so,
            an_older_job_passes_a_higher_priority,
            where_jobs_age_keys_take_turns_and_priority_counts_within_a_key,
            many_claimers_never_pass_a_limit,
        );
    };
}

fn per_key(n: i32) -> QueueLimits {
    let each = LaneRule { concurrency: Some(n), ..LaneRule::default() };
    QueueLimits { lanes: Some(Lanes { each, keys: BTreeMap::new() }), ..QueueLimits::default() }
}

fn fair() -> QueueLimits {
    QueueLimits { lanes: Some(Lanes::default()), ..QueueLimits::default() }
}

fn limit(n: i32) -> QueueLimits {
    QueueLimits { concurrency: Some(n), ..QueueLimits::default() }
}

pub(crate) fn put(flow: QueueLimits, mode: Option<QueueMode>) -> PutQueue {
    PutQueue { mode, flow: Some(flow), ..PutQueue::new(name("default"), Actor::api()) }
}

impl Bed {
    /// Sets these limits on the queue of every job that names none.
    pub async fn limits(&self, flow: QueueLimits, now: Now) {
        let request = put(flow, None);
        self.store.put_queue(request, now).await.expect("the store answers").expect("it is set");
    }

    pub(crate) fn keyed(&self, of: &str) -> NewJob {
        let mut job = self.job("work");
        job.facts.key = Some(key(of));
        job
    }

    /// So many jobs of a key.
    pub(crate) async fn enqueues(&self, of: &str, n: usize, now: Now) -> Vec<JobId> {
        let jobs = (0..n).map(|_| self.keyed(of)).collect();
        self.enqueue_all(jobs, now).await.iter().map(|enqueued| enqueued.id).collect()
    }

    /// A claim that begins behind a lane.
    pub(crate) async fn claims_behind(&self, from: Lane, max: usize, now: Now) -> Vec<Claimed> {
        let (queues, claim) = (vec![name("default")], self.claim("w"));
        let request = ClaimMany { queues, kinds: vec![], max, from: Some(from), claim };
        self.store.claim(request, now).await.expect("the store answers")
    }
}

pub(crate) fn ids(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|held| held.job.id).collect()
}

pub(crate) fn keys(claimed: &[Claimed]) -> Vec<String> {
    claimed.iter().map(|held| held.facts.key.as_ref().map(ToString::to_string).unwrap_or_default()).collect()
}

/// The names of some keys, in the order of their lanes.
pub(crate) fn in_order<const N: usize>(mut names: [&str; N]) -> [&str; N] {
    names.sort_by_key(|of| Lane::of(&key(of)));
    names
}

/// F4
pub async fn a_job_keeps_its_key(bed: Bed) {
    let id = bed.enqueues("acme", 1, at(0)).await[0];
    let view = bed.view(id, at(0)).await;
    assert_eq!(view.facts.key, Some(key("acme")));
    assert_eq!(view.job.lane, Some(Lane::of(&key("acme"))));
    assert_eq!(bed.row(bed.a_job(at(0)).await).await.lane, None);
}

/// F8
pub async fn limits_are_checked_kept_and_audited(bed: Bed) {
    let refused = bed.store.put_queue(put(limit(0), None), at(0)).await.expect("the store answers");
    is_invalid(&refused, "flow.concurrency");
    let refused = bed.store.put_queue(put(per_key(0), None), at(0)).await.expect("the store answers");
    is_invalid(&refused, "flow.lanes.concurrency");
    bed.limits(QueueLimits { concurrency: Some(4), ..per_key(2) }, at(1)).await;
    let kept = || async {
        let queues = bed.store.queues(1, at(1)).await.expect("the store answers");
        queues
            .into_iter()
            .find(|state| state.queue.name == name("default"))
            .and_then(|state| state.queue.flow)
    };
    assert_eq!(kept().await, Some(QueueLimits { concurrency: Some(4), ..per_key(2) }));
    let other = PutQueue { flow: None, ..put(limit(1), Some(QueueMode::Pull)) };
    bed.store.put_queue(other, at(2)).await.expect("the store answers").expect("set");
    assert_eq!(
        kept().await,
        Some(QueueLimits { concurrency: Some(4), ..per_key(2) }),
        "they stay as they are"
    );
    bed.limits(QueueLimits::default(), at(3)).await;
    assert_eq!(kept().await, None);
    let mut audit = bed.audit().await;
    audit.sort_by_key(|entry| entry.seq);
    let said: Vec<_> = audit.iter().map(|e| (e.action.as_str(), e.detail["after"]["flow"].clone())).collect();
    let rules = serde_json::json!({"concurrency": 4, "lanes": {"concurrency": 2}});
    assert_eq!(said, [("queue.put", rules), ("queue.put", serde_json::Value::Null)]);
}

/// F1
pub async fn a_queue_runs_no_more_than_its_limit(bed: Bed) {
    bed.limits(limit(3), at(0)).await;
    let jobs = bed.enqueues("a", 5, at(0)).await;
    let first = bed.claims("w", 10, at(1)).await;
    assert_eq!(ids(&first), jobs[..3], "keys do not matter where there is no rule for them");
    assert_eq!(bed.claims("v", 10, at(2)).await, []);
    bed.settles(&first[1], completes(), at(3)).await.expect("settled");
    assert_eq!(ids(&bed.claims("v", 10, at(4)).await), [jobs[3]]);
    assert_eq!(bed.claims("v", 10, at(5)).await, []);
}

/// F1, F6
pub async fn a_key_runs_no_more_than_its_limit_and_delays_no_other(bed: Bed) {
    bed.limits(per_key(2), at(0)).await;
    let many = bed.enqueues("many", 9, at(0)).await;
    let few = bed.enqueues("few", 1, at(1)).await;
    let first: BTreeSet<JobId> = ids(&bed.claims("w", 10, at(2)).await).into_iter().collect();
    assert_eq!(first, BTreeSet::from([many[0], many[1], few[0]]));
    assert_eq!(bed.claims("w", 10, at(3)).await, [], "many is full, and nothing else is there");
    let other = bed.enqueues("other", 1, at(4)).await;
    assert_eq!(ids(&bed.claims("w", 1, at(5)).await), other);
}

/// F1
pub async fn a_key_may_have_a_limit_of_its_own(bed: Bed) {
    let mut flow = per_key(1);
    let own = LaneRule { concurrency: Some(3), ..LaneRule::default() };
    flow.lanes.as_mut().expect("lanes").keys.insert(key("large"), own);
    bed.limits(QueueLimits { concurrency: Some(5), ..flow }, at(0)).await;
    for of in ["large", "small", "tiny"] {
        bed.enqueues(of, 4, at(0)).await;
    }
    let mut taken = keys(&bed.claims("w", 10, at(1)).await);
    taken.sort_unstable();
    assert_eq!(taken, ["large", "large", "large", "small", "tiny"], "and the queue is full");
}

/// F1, F3
pub async fn what_ends_or_waits_or_is_retried_frees_its_slot(bed: Bed) {
    bed.limits(per_key(1), at(0)).await;
    let jobs = bed.enqueues("a", 5, at(0)).await;
    let mut ms = 1;
    let later = RunAt::At(time(1_000_000));
    for (n, outcome) in
        [completes(), fails_until("later", later), waits_for_signal("go")].into_iter().enumerate()
    {
        let held = bed.claims("w", 10, at(ms)).await;
        assert_eq!(ids(&held), [jobs[n]]);
        bed.settles(&held[0], outcome, at(ms + 1)).await.expect("settled");
        ms += 2;
    }
    let held = bed.claims("w", 10, at(ms)).await;
    assert_eq!(ids(&held), [jobs[3]]);
    bed.signals(jobs[2], "go", "api", at(ms + 1)).await.expect("signalled");
    assert_eq!(bed.claims("w", 10, at(ms + 2)).await, [], "what woke finds no slot");
    bed.cancels(jobs[3], crate::stop_at_once(), at(ms + 3)).await.expect("cancelled");
    assert_eq!(
        bed.settles(&held[0], completes(), at(ms + 4)).await,
        Err(Refusal::Finished(Status::Cancelled))
    );
    let next = bed.claims("w", 10, at(ms + 5)).await;
    assert_eq!(ids(&next).len(), 1, "a stale holder frees nothing more");
}

/// F1
pub async fn a_redriven_job_needs_a_slot_again(bed: Bed) {
    bed.limits(limit(1), at(0)).await;
    let first = bed.a_held_job("w", at(0)).await;
    bed.settles(&first, crate::fails_for_good("broken"), at(1)).await.expect("settled");
    let second = bed.a_held_job("w", at(2)).await;
    bed.redrives(redrive(first.job.id), at(3)).await.expect("redriven");
    assert_eq!(bed.claims("w", 10, at(4)).await, []);
    bed.settles(&second, completes(), at(5)).await.expect("settled");
    assert_eq!(ids(&bed.claims("w", 10, at(6)).await), [first.job.id]);
}

/// F2, F1: a lease that is over counts until it is taken over, and is before what is new.
pub async fn a_lost_run_keeps_its_slot_until_it_is_taken_over(bed: Bed) {
    bed.limits(per_key(1), at(0)).await;
    let late = bed.enqueue(bed.keyed("a"), at(50)).await.id;
    let held = bed.claims("w", 1, at(60)).await;
    assert_eq!(ids(&held), [late]);
    let mut early = bed.keyed("a");
    early.facts.run_at = RunAt::At(time(0));
    let early = bed.enqueue(early, at(60)).await.id;
    assert_eq!(bed.claims("v", 10, at(30_059)).await, [], "the lease is live");
    let taken = bed.claims("v", 10, at(30_060)).await;
    assert_eq!(ids(&taken), [late], "taken over, although another is before it in line");
    assert_eq!((taken[0].job.attempt, taken[0].job.crashes), (2, 1));
    bed.settles(&taken[0], completes(), at(30_061)).await.expect("settled");
    assert_eq!(ids(&bed.claims("v", 10, at(30_062)).await), [early]);
}

/// F1, F3: in its grace a holder may still renew or finish, so its slot is not free.
pub async fn a_late_renewal_keeps_its_slot(bed: Bed) {
    bed.limits(limit(1), at(0)).await;
    let mut job = bed.job("work");
    job.facts.grace_ms = 5_000;
    let held = bed.holds("w", job, at(0)).await;
    bed.a_job(at(1)).await;
    assert_eq!(bed.claims("v", 10, at(33_000)).await, [], "in its grace");
    bed.extends(&held, 30_000, at(34_000)).await.expect("renewed");
    assert_eq!(bed.claims("v", 10, at(60_000)).await, []);
    bed.settles(&held, completes(), at(60_001)).await.expect("settled");
    assert_eq!(bed.claims("v", 10, at(60_002)).await.len(), 1);
}

/// F2
pub async fn a_run_that_is_lost_too_often_frees_its_slot(bed: Bed) {
    bed.limits(per_key(1), at(0)).await;
    let jobs = bed.enqueues("a", 2, at(0)).await;
    for n in 0..3 {
        assert_eq!(ids(&bed.claims("w", 10, at(n * 30_000)).await), [jobs[0]]);
    }
    let next = bed.claims("w", 10, at(90_000)).await;
    assert_eq!(ids(&next), [jobs[1]], "the slot is free with the same claim");
    assert_eq!(bed.row(jobs[0]).await.status, Status::Failed);
    bed.cancels(jobs[1], stop(), at(90_001)).await.expect("requested");
    let third = bed.enqueues("a", 1, at(90_002)).await;
    assert_eq!(ids(&bed.claims("w", 10, at(120_000)).await), third, "so is that of one that was to stop");
}

/// F1
pub async fn every_door_asks_for_a_slot(bed: Bed) {
    bed.limits(per_key(1), at(0)).await;
    let jobs = bed.enqueues("a", 3, at(0)).await;
    let held = bed.claims_by_id("w", jobs[1], at(1)).await.expect("there is a slot");
    let full = Err(Refusal::NotClaimable(Status::Pending));
    assert_eq!(bed.claims_by_id("v", jobs[0], at(2)).await, full);
    assert_eq!(bed.claims("v", 10, at(2)).await, []);
    let new = EnqueueClaimed { job: bed.keyed("b"), actor: Actor::api(), claim: bed.claim("v") };
    let new = bed.store.enqueue_claimed(new, at(3)).await.expect("the store answers").expect("enqueued");
    assert_eq!((new.enqueued.existed, new.claimed), (false, None), "somebody else may be next");
    let over = at(30_001);
    let again = bed.claims_by_id("v", jobs[1], over).await.expect("a lost run has its slot");
    assert_eq!(bed.claims_by_id("v", jobs[0], over).await, Err(Refusal::NotClaimable(Status::Pending)));
    assert!(bed.settles(&held, completes(), over).await.is_err(), "a stale holder frees nothing");
    assert_eq!(bed.claims_by_id("v", jobs[0], over).await, Err(Refusal::NotClaimable(Status::Pending)));
    bed.settles(&again, completes(), at(30_002)).await.expect("settled");
    assert!(bed.claims_by_id("v", jobs[0], at(30_003)).await.is_ok());
}

/// F1
pub async fn an_assignment_takes_a_slot(bed: Bed) {
    let request = put(per_key(1), Some(QueueMode::Push));
    bed.store.put_queue(request, at(0)).await.expect("the store answers").expect("set");
    let epoch = bed.leads("a", at(0)).await.expect("the term is free").epoch;
    let (a, b) = (bed.enqueues("a", 3, at(0)).await, bed.enqueues("b", 1, at(0)).await);
    let items = [a[0], a[1], b[0], a[0]].map(|job| (job, crate::who("w"))).to_vec();
    let request = windlass_store::Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
    let answers = bed.store.assign(request, at(1)).await.expect("the store answers");
    let told: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(told, [true, false, true, true], "{answers:?}");
    assert_eq!(answers[1], Err(Refusal::NotClaimable(Status::Pending)));
    let held = bed.claims("w", 10, at(2)).await;
    assert_eq!(held.len(), 2);
    assert!(bed.gives(a[1], "w", epoch, at(3)).await.is_err(), "running takes the same slot");
    let of_a = held.iter().find(|held| held.job.id == a[0]).expect("it runs");
    bed.settles(of_a, completes(), at(4)).await.expect("settled");
    assert!(bed.gives(a[1], "w", epoch, at(5)).await.is_ok());
}

/// F1, F2: of one request, in its order.
pub async fn a_lost_run_that_is_taken_back_frees_its_slot_for_the_next(bed: Bed) {
    let request = put(limit(1), Some(QueueMode::Push));
    bed.store.put_queue(request, at(0)).await.expect("the store answers").expect("set");
    let jobs = bed.enqueues("a", 3, at(0)).await;
    let epoch = bed.leads("a", at(0)).await.expect("the term is free").epoch;
    bed.gives(jobs[0], "w", epoch, at(1)).await.expect("assigned");
    assert_eq!(bed.claims("w", 9, at(2)).await.len(), 1);
    let epoch = bed.leads("a", at(40_000)).await.expect("the term is free").epoch;
    let items = [jobs[1], jobs[0], jobs[2]].map(|job| (job, crate::who("w"))).to_vec();
    let request = windlass_store::Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
    let answers = bed.store.assign(request, at(40_000)).await.expect("the store answers");
    let done: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(done, [false, true, true], "{answers:?}");
    assert_eq!(bed.row(jobs[0]).await.status, Status::Retry);
    assert_eq!(bed.row(jobs[2]).await.status, Status::Assigned);
}

/// F8
pub async fn limits_change_while_jobs_run(bed: Bed) {
    bed.limits(limit(3), at(0)).await;
    bed.enqueues("a", 9, at(0)).await;
    let held = bed.claims("w", 10, at(1)).await;
    assert_eq!(held.len(), 3);
    bed.limits(limit(2), at(2)).await;
    bed.settles(&held[0], completes(), at(3)).await.expect("a lowered limit stops nobody");
    assert_eq!(bed.claims("w", 10, at(4)).await, []);
    bed.limits(limit(4), at(5)).await;
    assert_eq!(bed.claims("w", 10, at(6)).await.len(), 2);
    bed.limits(QueueLimits::default(), at(7)).await;
    assert_eq!(bed.claims("w", 10, at(8)).await.len(), 4, "without limits all of them run");
    bed.limits(limit(9), at(9)).await;
    bed.enqueues("a", 9, at(9)).await;
    assert_eq!(bed.claims("w", 10, at(10)).await.len(), 1, "and are counted again");
}

/// F8, F1
pub async fn a_first_limit_counts_what_runs_already(bed: Bed) {
    bed.enqueues("a", 4, at(0)).await;
    let held = bed.claims("w", 2, at(1)).await;
    bed.limits(per_key(3), at(2)).await;
    assert_eq!(bed.claims("w", 10, at(3)).await.len(), 1);
    bed.settles(&held[0], completes(), at(4)).await.expect("settled");
    assert_eq!(bed.claims("w", 10, at(5)).await.len(), 1);
    bed.enqueues("a", 1, at(5)).await;
    let over = bed.claims("v", 1, at(30_001)).await;
    assert_eq!(ids(&over), [held[1].job.id], "a run of before the limit is taken over");
}

/// F8, F1: a key was renamed in the rules.
pub async fn a_rule_moves_to_another_key_while_jobs_run(bed: Bed) {
    let with_three = |of: &str| {
        let mut flow = per_key(1);
        let own = LaneRule { concurrency: Some(3), ..LaneRule::default() };
        flow.lanes.as_mut().expect("lanes").keys.insert(key(of), own);
        flow
    };
    bed.limits(with_three("old"), at(0)).await;
    bed.enqueues("old", 5, at(0)).await;
    bed.enqueues("new", 5, at(0)).await;
    let (old, new): (Vec<_>, Vec<_>) =
        bed.claims("w", 10, at(1)).await.into_iter().partition(|held| held.facts.key == Some(key("old")));
    assert_eq!((old.len(), new.len()), (3, 1));
    bed.limits(with_three("new"), at(2)).await;
    let more = bed.claims("w", 10, at(3)).await;
    assert_eq!(keys(&more), ["new", "new"], "the other two of three, and none of the old key");
    for (n, held) in old.iter().enumerate() {
        bed.settles(held, completes(), at(4)).await.expect("settled");
        let next = bed.claims("w", 10, at(5)).await;
        assert_eq!(keys(&next), vec!["old"; n / 2], "{n}: one of the old key once none of it runs");
    }
    bed.settles(&new[0], completes(), at(6)).await.expect("settled");
    assert_eq!(keys(&bed.claims("w", 10, at(7)).await), ["new"]);
    let mut left = 0;
    for n in 0..6 {
        // What nobody settled is taken over, and no slot was lost.
        for held in bed.claims("v", 10, at(40_000 + n)).await {
            bed.settles(&held, completes(), at(40_000 + n)).await.expect("settled");
            left += 1;
        }
    }
    assert_eq!(left, 6, "ten jobs, four of which had ended");
}

/// F4
pub async fn a_lane_is_first_in_first_out(bed: Bed) {
    bed.limits(per_key(1), at(0)).await;
    let plan = [(0, 20), (0, 10), (3, 30), (0, 10)];
    let mut jobs = Vec::new();
    for (priority, due) in plan {
        let mut job = bed.keyed("a");
        (job.facts.priority, job.facts.run_at) = (priority, RunAt::At(time(due)));
        jobs.push(bed.enqueue(job, at(0)).await.id);
    }
    let mut order = Vec::new();
    for n in 0..4 {
        let held = bed.claims("w", 10, at(40 + n)).await;
        assert_eq!(held.len(), 1);
        order.push(held[0].job.id);
        bed.settles(&held[0], completes(), at(40 + n)).await.expect("settled");
    }
    assert_eq!(order, [jobs[2], jobs[1], jobs[3], jobs[0]]);
}

/// F5: a key with many jobs delays another's first by one round at most.
pub async fn keys_take_turns(bed: Bed) {
    bed.limits(fair(), at(0)).await;
    bed.enqueues("heavy", 50, at(0)).await;
    for of in ["a", "b", "c"] {
        bed.enqueues(of, 2, at(1)).await;
    }
    let [first, second, third, fourth] = in_order(["heavy", "a", "b", "c"]);
    let from = Lane::of(&key(first));
    let held = bed.claims_behind(from, 6, at(2)).await;
    assert_eq!(keys(&held), [second, third, fourth, first, second, third], "round and round");
    let mut counts = BTreeMap::<String, usize>::new();
    for n in 0..6 {
        // Where the last claim of this store ended.
        let next = bed.claims("w", 1, at(3 + n)).await;
        *counts.entry(keys(&next).remove(0)).or_default() += 1;
    }
    let left = |of: &str| if [second, third].contains(&of) { 2 } else { 1 };
    for of in ["a", "b", "c"] {
        assert!(
            counts.get(of).copied().unwrap_or_default() >= 2 - left(of),
            "{of} has had its turn: {counts:?}"
        );
    }
    let rest = bed.claims("w", 100, at(10)).await;
    assert_eq!(rest.len(), 44, "few lanes share the whole claim");
}

/// F5
pub async fn weights_are_shares(bed: Bed) {
    let [one, two] = in_order(["one", "two"]);
    let mut flow = fair();
    let heavy = LaneRule { weight: Some(3), ..LaneRule::default() };
    flow.lanes.as_mut().expect("lanes").keys.insert(key(one), heavy);
    bed.limits(flow, at(0)).await;
    bed.enqueues("one", 20, at(0)).await;
    bed.enqueues("two", 20, at(0)).await;
    let held = bed.claims_behind(Lane::PLAIN, 8, at(1)).await;
    assert_eq!(keys(&held), [one, one, one, two, one, one, one, two]);
}

/// F5, Q13
pub async fn priority_goes_before_fairness(bed: Bed) {
    bed.limits(fair(), at(0)).await;
    bed.enqueues("a", 2, at(0)).await;
    let mut urgent: Vec<NewJob> = (0..2).map(|_| bed.keyed("b")).collect();
    urgent.iter_mut().for_each(|job| job.facts.priority = 1);
    bed.enqueue_all(urgent, at(1)).await;
    assert_eq!(keys(&bed.claims("w", 10, at(2)).await), ["b", "b", "a", "a"]);
}

/// F5, F1
pub async fn jobs_without_a_key_are_one_lane_without_a_limit_of_its_own(bed: Bed) {
    bed.limits(per_key(1), at(0)).await;
    bed.enqueues("a", 3, at(0)).await;
    for _ in 0..3 {
        bed.a_job(at(1)).await;
    }
    let held = bed.claims_behind(Lane::PLAIN, 10, at(2)).await;
    assert_eq!(keys(&held), ["a", "", "", ""]);
}

/// F9
pub async fn without_rules_keys_do_not_matter(bed: Bed) {
    let (a, b) = (bed.enqueues("a", 3, at(0)).await, bed.enqueues("b", 1, at(1)).await);
    let held = bed.claims("w", 10, at(2)).await;
    assert_eq!(ids(&held), [a, b].concat());
    assert_eq!(held[0].job.lane, Some(Lane::of(&key("a"))));
}

/// F4, F6
pub async fn a_claim_of_some_kinds_passes_over_others(bed: Bed) {
    bed.limits(per_key(2), at(0)).await;
    let mut red = bed.keyed("a");
    red.facts.kind = name("red");
    bed.enqueue(red, at(0)).await;
    let blue = bed.enqueues("a", 3, at(1)).await;
    let claim = bed.claim("w");
    let request =
        ClaimMany { queues: vec![name("default")], kinds: vec![name("work")], max: 9, from: None, claim };
    let held = bed.store.claim(request, at(2)).await.expect("the store answers");
    assert_eq!(ids(&held), blue[..2]);
}

/// F1, Q4
pub async fn a_repeated_claim_is_given_the_same(bed: Bed) {
    bed.limits(per_key(1), at(0)).await;
    bed.enqueues("a", 2, at(0)).await;
    bed.enqueues("b", 2, at(0)).await;
    let claim = bed.claim("w");
    let request = ClaimMany { queues: vec![name("default")], kinds: vec![], max: 10, from: None, claim };
    let first = bed.store.claim(request.clone(), at(1)).await.expect("the store answers");
    let mut again = bed.store.claim(request, at(2)).await.expect("the store answers");
    let mut sorted = first.clone();
    sorted.sort_by_key(|held| held.job.id);
    again.sort_by_key(|held| held.job.id);
    assert_eq!((first.len(), again), (2, sorted));
}

/// F6, Q13
pub async fn queues_are_served_in_the_order_asked_for(bed: Bed) {
    bed.limits(limit(1), at(0)).await;
    for queue in ["before", "default", "after"] {
        bed.enqueue_all(vec![bed.job_in("work", queue), bed.job_in("work", queue)], at(0)).await;
    }
    let queues = ["before", "default", "after"];
    let one = bed.claims_from("w", &["default", "after"], 1, at(1)).await;
    assert_eq!(one[0].job.queue, name("default"));
    bed.settles(&one[0], completes(), at(1)).await.expect("settled");
    let held = bed.claims_from("w", &queues, 4, at(2)).await;
    let from: Vec<String> = held.iter().map(|held| held.job.queue.to_string()).collect();
    assert_eq!(from, ["before", "before", "default", "after"]);
}

/// F1: "why is it not running" names the limit.
pub async fn a_job_behind_a_limit_says_so(bed: Bed) {
    bed.limits(QueueLimits { concurrency: Some(3), ..per_key(2) }, at(0)).await;
    bed.registers("w", at(0)).await;
    let (a, b) = (bed.enqueues("acme", 3, at(0)).await, bed.enqueues("b", 2, at(1)).await);
    let said = |id| {
        let bed = bed.clone();
        async move { bed.view(id, at(2)).await.blocked.map(|blocked| (blocked.reason, blocked.by)) }
    };
    assert_eq!(said(a[0]).await, None);
    let from = Lane::from_number(Lane::of(&key("acme")).number() - 1);
    assert_eq!(bed.claims_behind(from, 10, at(2)).await.len(), 3);
    assert_eq!(said(a[2]).await, Some(("limit", "key acme has 2 of 2 running".to_owned())));
    assert_eq!(said(b[1]).await, Some(("limit", "the queue has 3 of 3 running".to_owned())));
    assert_eq!(said(a[0]).await, None, "it runs");
}

/// How many claimers race.
pub(crate) const CLAIMERS: usize = 16;

/// F1, F2: with workers that vanish, in snapshots while they race and by the whole log afterwards.
pub async fn many_claimers_never_pass_a_limit(bed: Bed) {
    const PER_KEY: usize = 2;
    const OF_QUEUE: usize = 7;
    bed.limits(QueueLimits { concurrency: Some(OF_QUEUE as i32), ..per_key(PER_KEY as i32) }, at(0)).await;
    let mut jobs = Vec::new();
    for of in ["a", "b", "c", "d", "e"] {
        jobs.extend(bed.enqueues(of, 24, at(0)).await);
    }
    let clock = Arc::new(AtomicI64::new(1));
    let racers = (0..=CLAIMERS).map(|n| {
        let (bed, clock) = (bed.clone(), Arc::clone(&clock));
        async move {
            let mut idle = 0;
            // The last one only looks.
            while idle < 60 {
                let now = clock.fetch_add(5, Ordering::Relaxed);
                if n == CLAIMERS {
                    bed.is_within(PER_KEY, OF_QUEUE).await;
                    idle += 1;
                    continue;
                }
                let worker = crate::who(&format!("w{n}"));
                let secret = windlass_store::fresh::secret();
                let claim = Claim { worker, secret, lease_ms: LeaseMs::new(1_000).expect("a lease") };
                let request =
                    ClaimMany { queues: vec![name("default")], kinds: vec![], max: 3, from: None, claim };
                let held = bed.store.claim(request, at(now)).await.expect("the store answers");
                idle = if held.is_empty() { idle + 1 } else { 0 };
                for held in held {
                    // One in nine first attempts is abandoned: its lease runs out.
                    let vanishes = held.job.attempt == 1 && held.job.id.as_bytes()[15] % 9 == 0;
                    if !vanishes {
                        let now = at(clock.fetch_add(5, Ordering::Relaxed));
                        // Refused if its lease was lost by then.
                        let _lost = bed.settles(&held, completes(), now).await;
                    }
                }
            }
        }
    });
    together(racers).await;
    let mut ms = clock.load(Ordering::Relaxed);
    loop {
        ms += 40_000;
        let held = bed.claims("last", 100, at(ms)).await;
        if held.is_empty() {
            break;
        }
        for held in held {
            bed.settles(&held, completes(), at(ms)).await.expect("settled");
        }
    }
    for job in &jobs {
        assert_eq!(bed.row(*job).await.status, Status::Completed, "no slot was lost for good");
    }
    bed.never_passed(PER_KEY, OF_QUEUE).await;
}

impl Bed {
    /// What runs now is within the limits.
    async fn is_within(&self, per_key: usize, of_queue: usize) {
        let filter = Filter { statuses: vec![Status::Running], ..Filter::default() };
        let list = List { filter, cursor: None, limit: 1_000 };
        let page = self.store.jobs(list, None).await.expect("the store answers").expect("a page");
        let mut lanes = BTreeMap::<_, usize>::new();
        page.items.iter().for_each(|listed| *lanes.entry(listed.job.lane).or_default() += 1);
        assert!(page.items.len() <= of_queue, "{} run", page.items.len());
        assert!(lanes.values().all(|n| *n <= per_key), "{lanes:?}");
    }

    /// In the order of the feed, nothing ever ran beyond the limits.
    async fn never_passed(&self, per_key: usize, of_queue: usize) {
        let (mut after, mut lanes, mut running) = (None, BTreeMap::new(), BTreeMap::new());
        loop {
            let read = windlass_store::ReadFeed { after, limit: 1_000, payloads: false };
            let page = self.store.feed(read, None).await.expect("the store answers").expect("a page");
            if page.events.is_empty() {
                return;
            }
            for fed in &page.events {
                let event = &fed.event;
                match event.what.type_name() {
                    "job_created" => {
                        let lane = windlass_core::Job::created(event).expect("a first event").lane;
                        lanes.insert(event.job, lane);
                    }
                    "job_claimed" => drop(running.insert(event.job, lanes[&event.job])),
                    _ => drop(running.remove(&event.job)),
                }
                let mut counts = BTreeMap::<Option<Lane>, usize>::new();
                running.values().for_each(|lane| *counts.entry(*lane).or_default() += 1);
                assert!(running.len() <= of_queue && counts.values().all(|n| *n <= per_key), "{counts:?}");
            }
            after = Some(page.next);
        }
    }
}

fn aging(ms: i64) -> QueueLimits {
    QueueLimits { aging_ms: Some(ms), ..QueueLimits::default() }
}

/// F10: a job waits behind none of the next higher priority that came later by more than the aging.
pub async fn an_older_job_passes_a_higher_priority(bed: Bed) {
    let refused = bed.store.put_queue(put(aging(999), None), at(0)).await.expect("the store answers");
    is_invalid(&refused, "flow.aging");
    let with = async |priority: i32, ms: i64| {
        let mut job = bed.job("work");
        job.facts.priority = priority;
        bed.enqueue(job, at(ms)).await.id
    };
    let (low, lowest) = (with(0, 0).await, with(-5, 0).await);
    let (soon, later) = (with(1, 999).await, with(1, 1_001).await);
    let last = with(5, 9_999).await;
    // Without the rule priority decides alone.
    let first = bed.claims("w", 1, at(10_000)).await;
    assert_eq!(ids(&first), [last]);
    bed.settles(&first[0], completes(), at(10_000)).await.expect("done");
    let last = with(5, 10_001).await;
    bed.limits(aging(1_000), at(10_002)).await;
    let mut order = Vec::new();
    for n in 0..5 {
        order.extend(ids(&bed.claims("w", 1, at(10_003 + n)).await));
    }
    // By due time and a second per priority: −1, 0, 1, 5,000 and 5,001 ms.
    assert_eq!(order, [soon, low, later, lowest, last]);
    // However many of a higher priority come, the lowest is served once they came ten seconds later.
    let low = with(-5, 20_000).await;
    for ms in [29_999, 30_001, 30_002] {
        with(5, ms).await;
    }
    bed.claims("w", 1, at(40_000)).await;
    assert_eq!(ids(&bed.claims("w", 1, at(40_001)).await), [low]);
}

/// F10, F5
pub async fn where_jobs_age_keys_take_turns_and_priority_counts_within_a_key(bed: Bed) {
    bed.limits(QueueLimits { aging_ms: Some(1_000), ..fair() }, at(0)).await;
    let with = async |of: &str, priority: i32, ms: i64| {
        let mut job = bed.keyed(of);
        job.facts.priority = priority;
        bed.enqueue(job, at(ms)).await.id
    };
    let [one, two] = in_order(["a", "b"]);
    let (old, high, higher) = (with(one, 0, 0).await, with(one, 1, 500).await, with(one, 2, 2_001).await);
    let (low, lower) = (with(two, 0, 400).await, with(two, -1, 0).await);
    let claimed = bed.claims_behind(Lane::PLAIN, 10, at(3_000)).await;
    assert_eq!(ids(&claimed), [high, low, old, lower, higher]);
}
