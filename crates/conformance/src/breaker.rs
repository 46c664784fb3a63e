//! Breakers: a queue whose jobs fail starts nothing for a while, then one job at a time.

use crate::lanes::{ids, put};
use crate::{Bed, at, completes, fails, is_invalid, name, stop, time, who};
use windlass_core::breaker::{Attempts, BreakQueue, Breaker, Broken};
use windlass_core::{Actor, LeaseMs, QueueDefaults, QueueLimits, QueueMode, Refusal, Status};
use windlass_store::{AcquireTerm, Now, PutQueue, ReadAudit};

/// This module's laws, as tests.
#[macro_export]
macro_rules! breaker_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            breaker: a_broken_queue_starts_nothing_and_then_one_at_a_time,
            a_lost_run_is_taken_over_when_it_tries_again,
            a_stale_leader_breaks_and_mends_nothing,
            breakers_are_checked_kept_and_audited,
            every_door_is_shut_while_it_is_broken,
        );
    };
}

const PAUSE_MS: i64 = 5_000;
const COUNT: Attempts = Attempts { ended: 10, failed: 6 };

fn breaker() -> QueueLimits {
    let breaker = Breaker { errors: 5, of: 10, within_ms: 60_000, pause_ms: PAUSE_MS };
    QueueLimits { breaker: Some(breaker), ..QueueLimits::default() }
}

impl Bed {
    /// Leads, and returns the epoch.
    async fn leads_at(&self, now: Now) -> i64 {
        let term = AcquireTerm { name: name("leader"), holder: who("node"), ttl_ms: LeaseMs::DEFAULT };
        self.store.acquire_term(term, now).await.expect("the store answers").expect("our term").epoch
    }

    async fn breaks(&self, epoch: i64, count: Option<Attempts>, now: Now) -> Result<bool, Refusal> {
        let request = BreakQueue { term: name("leader"), epoch, queue: name("default"), count };
        self.store.break_queue(request, now).await.expect("the store answers")
    }

    async fn broken(&self, now: Now) -> Option<Broken> {
        let queues = self.store.queues(10, now).await.expect("the store answers");
        let queue = queues.into_iter().find(|state| state.queue.name == name("default"))?.queue;
        queue.flow?.broken
    }

    async fn actions(&self) -> Vec<String> {
        let read = ReadAudit { before: None, limit: 100 };
        let entries = self.store.audit(read, None).await.expect("the store answers");
        entries.iter().rev().map(|entry| entry.action.to_string()).collect()
    }
}

/// F19
pub async fn a_broken_queue_starts_nothing_and_then_one_at_a_time(bed: Bed) {
    bed.limits(breaker(), at(0)).await;
    let epoch = bed.leads_at(at(0)).await;
    for _ in 0..4 {
        bed.a_job(at(0)).await;
    }
    let elsewhere = bed.enqueue(bed.job_in("work", "other"), at(0)).await.id;
    assert_eq!(bed.breaks(epoch, Some(COUNT), at(1_000)).await, Ok(true));
    let broken = Broken { at: time(1_000), until: time(1_000 + PAUSE_MS), count: COUNT };
    assert_eq!(bed.broken(at(1_000)).await, Some(broken));
    let taken = bed.claims_from("w", &["default", "other"], 9, at(2_000)).await;
    assert_eq!(ids(&taken), [elsewhere], "no other queue is concerned");
    assert_eq!(bed.claims("w", 9, at(5_999)).await, []);
    let tried = bed.claims("w", 9, at(6_000)).await;
    assert_eq!(tried.len(), 1, "one is tried");
    assert_eq!(bed.claims("w", 9, at(6_001)).await, [], "and no other beside it");
    bed.settles(&tried[0], fails("broken"), at(6_002)).await.expect("it fails");
    assert_eq!(bed.breaks(epoch, Some(COUNT), at(6_003)).await, Ok(true));
    let again = bed.broken(at(6_003)).await.expect("still broken");
    assert_eq!(
        (again.at, again.until),
        (time(1_000), time(6_003 + PAUSE_MS)),
        "since when it is broken stays"
    );
    assert_eq!(bed.claims("w", 9, at(11_002)).await, []);
    let tried = bed.claims("w", 9, at(11_003)).await;
    assert_eq!(tried.len(), 1);
    bed.settles(&tried[0], completes(), at(11_004)).await.expect("done");
    // Until the leader has noticed, one at a time.
    let next = bed.claims("w", 9, at(11_005)).await;
    assert_eq!(next.len(), 1);
    assert_eq!(bed.breaks(epoch, None, at(11_006)).await, Ok(true));
    assert_eq!(bed.broken(at(11_006)).await, None);
    assert_eq!(bed.claims("w", 9, at(11_007)).await.len(), 2, "all that is left");
    assert_eq!(bed.breaks(epoch, None, at(11_008)).await, Ok(false), "it is whole");
}

/// F19
pub async fn a_lost_run_is_taken_over_when_it_tries_again(bed: Bed) {
    bed.limits(breaker(), at(0)).await;
    let epoch = bed.leads_at(at(0)).await;
    let lost = bed.a_held_job("w", at(0)).await.job.id;
    bed.breaks(epoch, Some(COUNT), at(29_000)).await.expect("broken");
    assert_eq!(bed.claims("v", 9, at(30_001)).await, []);
    assert_eq!(ids(&bed.claims("v", 9, at(34_000)).await), [lost]);
    assert_eq!(bed.claims("v", 9, at(34_001)).await, []);
}

/// F19
pub async fn a_stale_leader_breaks_and_mends_nothing(bed: Bed) {
    bed.limits(breaker(), at(0)).await;
    let epoch = bed.leads_at(at(0)).await;
    for stale in [epoch - 1, epoch + 1] {
        assert_eq!(bed.breaks(stale, Some(COUNT), at(1)).await, Err(Refusal::StaleEpoch(epoch)));
    }
    assert_eq!(bed.broken(at(1)).await, None);
    assert_eq!(bed.breaks(epoch, Some(COUNT), at(2)).await, Ok(true));
    // Its term is over: nobody leads, and what it wrote holds.
    assert_eq!(bed.breaks(epoch, None, at(31_000)).await, Err(Refusal::StaleEpoch(epoch)));
    assert!(bed.broken(at(31_000)).await.is_some());
    let next = bed.leads_at(at(31_001)).await;
    assert_eq!(bed.breaks(epoch, None, at(31_002)).await, Err(Refusal::StaleEpoch(next)));
    assert_eq!(bed.breaks(next, None, at(31_002)).await, Ok(true));
}

/// F19, F8
pub async fn breakers_are_checked_kept_and_audited(bed: Bed) {
    let wrong = |errors: i32, of: i32| {
        let mut flow = breaker();
        flow.breaker = flow.breaker.map(|breaker| Breaker { errors, of, ..breaker });
        flow
    };
    for (flow, field) in [(wrong(0, 10), "flow.breaker.errors"), (wrong(2, 1), "flow.breaker.errors")] {
        let answer = bed.store.put_queue(put(flow, None), at(0)).await.expect("the store answers");
        is_invalid(&answer, field);
    }
    let epoch = bed.leads_at(at(0)).await;
    assert_eq!(bed.breaks(epoch, Some(COUNT), at(0)).await, Ok(false), "it has no breaker");
    bed.limits(breaker(), at(1)).await;
    let job = bed.a_job(at(1)).await;
    assert_eq!(bed.breaks(epoch, Some(COUNT), at(2)).await, Ok(true));
    let blocked = bed.view(job, at(3)).await.blocked.expect("it says why");
    assert_eq!((blocked.reason, blocked.since), ("broken", time(2)));
    assert!(blocked.by.contains("6 of 10 attempts failed"), "{blocked:?}");
    // Other settings leave it as it is; its limits mend it, also when they stay the same.
    let defaults = QueueDefaults { max_retries: Some(3), ..QueueDefaults::default() };
    let request = PutQueue { defaults: Some(defaults), ..PutQueue::new(name("default"), Actor::api()) };
    bed.store.put_queue(request, at(4)).await.expect("the store answers").expect("set");
    assert!(bed.broken(at(4)).await.is_some());
    bed.limits(breaker(), at(5)).await;
    assert_eq!(bed.broken(at(5)).await, None);
    assert_eq!(bed.breaks(epoch, Some(COUNT), at(6)).await, Ok(true));
    assert_eq!(bed.breaks(epoch, None, at(7)).await, Ok(true));
    let actions = bed.actions().await;
    let of_it: Vec<&str> =
        actions.iter().map(String::as_str).filter(|one| one.starts_with("queue.")).collect();
    let expected = ["queue.put", "queue.break", "queue.put", "queue.put", "queue.break", "queue.mend"];
    assert_eq!(of_it, expected);
    assert_eq!(ids(&bed.claims("w", 9, at(8)).await), [job]);
}

/// F19: also for who asks by id, and for the leader of a push queue; a cancel goes through.
pub async fn every_door_is_shut_while_it_is_broken(bed: Bed) {
    bed.limits(breaker(), at(0)).await;
    let epoch = bed.leads_at(at(0)).await;
    let (first, second) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    bed.breaks(epoch, Some(COUNT), at(1)).await.expect("broken");
    let refused = Err(Refusal::NotClaimable(Status::Pending));
    assert_eq!(bed.claims_by_id("w", first, at(2)).await, refused);
    let held = bed.claims_by_id("w", first, at(1 + PAUSE_MS)).await.expect("it is tried");
    assert_eq!(bed.claims_by_id("w", second, at(2 + PAUSE_MS)).await, refused);
    bed.cancels(second, stop(), at(3 + PAUSE_MS)).await.expect("cancelled");
    bed.settles(&held, completes(), at(4 + PAUSE_MS)).await.expect("done");
    let pushed = put(breaker(), Some(QueueMode::Push));
    bed.store.put_queue(pushed, at(6_000)).await.expect("the store answers").expect("set");
    let third = bed.a_job(at(6_000)).await;
    bed.breaks(epoch, Some(COUNT), at(6_000)).await.expect("broken");
    let assign = windlass_store::Assign {
        term: name("leader"),
        epoch,
        items: vec![(third, who("w"))],
        lapse_ms: 10_000,
    };
    let answers = bed.store.assign(assign.clone(), at(6_001)).await.expect("the store answers");
    assert!(answers[0].is_err(), "{answers:?}");
    let answers = bed.store.assign(assign, at(6_000 + PAUSE_MS)).await.expect("the store answers");
    assert!(answers[0].is_ok(), "{answers:?}");
}
