//! Debounce, throttle and singleton: what becomes of many requests for the same.

use crate::lanes::CLAIMERS;
use crate::{Bed, Racer, at, completes, is_invalid, json, key, name, redrive, stop, time, together};
use std::collections::BTreeSet;
use windlass_core::unique::{Debounce, Policy, Scope};
use windlass_core::{EventKind, Filter, JobId, NewJob, Payload, Refusal, RunAt, Status, Unique};
use windlass_store::{Claimed, Enqueued, List, Now};

/// This module's laws, as tests.
#[macro_export]
macro_rules! debounce_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            debounce: the_latest_request_wins,
            a_bound_ends_the_wait,
            what_runs_or_has_ended_is_followed_by_another,
            queues_kinds_and_keys_are_debounced_apart,
            a_debounce_is_checked,
            many_requests_at_once_make_one_job,
            a_claim_and_a_debounce_lose_nothing,
            a_throttle_is_a_key_for_a_time,
            a_singleton_is_a_key_while_it_is_live,
        );
    };
}

const DELAY_MS: i64 = 1_000;
const MAX_MS: i64 = 2_500;

fn numbered(n: usize) -> Payload {
    json(&format!("{{\"n\":{n}}}"))
}

impl Bed {
    /// A job that gives way to a later one, in a queue.
    fn debounced_in(&self, queue: &str, of: &str, n: usize) -> NewJob {
        let mut job = self.job_in("work", queue);
        let debounce = Debounce::new(DELAY_MS, Some(MAX_MS));
        job.facts.unique = Some(Unique::debounced(name(queue), name("work"), key(of), debounce));
        job.facts.run_at = RunAt::After(DELAY_MS);
        job.payload = Some(numbered(n));
        job
    }

    async fn debounces(&self, of: &str, n: usize, now: Now) -> Enqueued {
        self.enqueue(self.debounced_in("default", of, n), now).await
    }

    async fn all_ids(&self) -> BTreeSet<JobId> {
        let list = List { filter: Filter::default(), cursor: None, limit: 1_000 };
        let page = self.store.jobs(list, None).await.expect("the store answers").expect("a page");
        page.items.iter().map(|listed| listed.job.id).collect()
    }
}

/// F11
pub async fn the_latest_request_wins(bed: Bed) {
    let first = bed.debounces("a", 1, at(0)).await;
    assert_eq!((first.existed, bed.row(first.id).await.due_at), (false, Some(time(DELAY_MS))));
    let again = bed.debounces("a", 2, at(500)).await;
    assert_eq!(again, Enqueued::there(first.id));
    let view = bed.view(first.id, at(500)).await;
    assert_eq!((view.payload, view.job.due_at), (Some(numbered(2)), Some(time(1_500))));
    assert_eq!((view.job.status, view.job.attempt, view.job.version), (Status::Pending, 0, 2));
    let log = bed.log(first.id).await;
    assert_eq!(log[0].payload, Some(numbered(1)), "the first payload stays in the log");
    assert!(matches!(&log[1].what, EventKind::JobReplaced(d) if d.due_at == time(1_500)), "{:?}", log[1]);
    assert_eq!(log[1].payload, Some(numbered(2)));
    assert_eq!(bed.claims("w", 9, at(1_499)).await, []);
    let held = bed.claims("w", 9, at(1_500)).await;
    assert_eq!((held.len(), held[0].payload.clone()), (1, Some(numbered(2))));
    bed.settles(&held[0], completes(), at(1_501)).await.expect("done");
    assert_eq!(bed.all_ids().await.len(), 1);
}

/// F11: a stream of requests without a pause delays a job no longer than its bound.
pub async fn a_bound_ends_the_wait(bed: Bed) {
    let first = bed.debounces("a", 0, at(0)).await.id;
    for n in 1..=4_i64 {
        bed.debounces("a", usize::try_from(n).expect("small"), at(n * 600)).await;
        let due = (n * 600 + DELAY_MS).min(MAX_MS);
        assert_eq!(bed.row(first).await.due_at, Some(time(due)));
    }
    let held = bed.claims("w", 9, at(MAX_MS)).await;
    assert_eq!((held[0].job.id, held[0].payload.clone()), (first, Some(numbered(4))));
    // One that nobody took in time gets the payload all the same, and is due at once.
    let late = bed.debounces("b", 1, at(3_000)).await.id;
    bed.debounces("b", 2, at(9_000)).await;
    assert_eq!(bed.row(late).await.due_at, Some(time(9_000)));
}

/// F11
pub async fn what_runs_or_has_ended_is_followed_by_another(bed: Bed) {
    let first = bed.debounces("a", 1, at(0)).await.id;
    let held = bed.claims("w", 9, at(1_000)).await;
    let second = bed.debounces("a", 2, at(1_001)).await;
    assert!(!second.existed && second.id != first, "what runs is not changed");
    assert_eq!(bed.view(first, at(1_001)).await.payload, Some(numbered(1)));
    bed.settles(&held[0], completes(), at(1_002)).await.expect("done");
    let third = bed.debounces("a", 3, at(1_003)).await;
    assert_eq!((third.id, third.existed), (second.id, true), "the end of the first frees no other's key");
    bed.cancels(second.id, stop(), at(1_004)).await.expect("cancelled");
    let fourth = bed.debounces("a", 4, at(1_005)).await;
    assert!(!fourth.existed, "what was cancelled waits no more");
    assert_eq!(bed.redrives(redrive(second.id), at(1_006)).await, Err(Refusal::UniqueTaken(fourth.id)));
}

/// F11
pub async fn queues_kinds_and_keys_are_debounced_apart(bed: Bed) {
    let mut other_kind = bed.debounced_in("default", "a", 3);
    other_kind.facts.kind = name("other");
    let debounce = Debounce::new(DELAY_MS, None);
    assert_eq!(debounce.max_ms, 10 * DELAY_MS);
    other_kind.facts.unique = Some(Unique::debounced(name("default"), name("other"), key("a"), debounce));
    let mut plain = bed.job("work");
    plain.facts.unique = Some(Unique::in_queue(name("default"), key("a")));
    let jobs = vec![
        bed.debounced_in("default", "a", 1),
        bed.debounced_in("other", "a", 2),
        other_kind,
        bed.debounced_in("default", "b", 4),
        plain,
    ];
    let made = bed.enqueue_all(jobs, at(0)).await;
    assert!(made.iter().all(|one| !one.existed), "{made:?}");
}

/// F11: and nothing is written of a request that is refused.
pub async fn a_debounce_is_checked(bed: Bed) {
    let with = |delay_ms: i64, max_ms: i64| {
        let mut job = bed.debounced_in("default", "a", 1);
        let debounce = Debounce { delay_ms, max_ms };
        job.facts.unique = Some(Unique::debounced(name("default"), name("work"), key("a"), debounce));
        job
    };
    for (wrong, field) in [
        (with(0, 10), "debounce.delay"),
        (with(86_400_001, 86_400_001), "debounce.delay"),
        (with(10, 9), "debounce.max"),
    ] {
        let (_, refusal) = bed.enqueue_refused(vec![wrong], at(0)).await;
        is_invalid(&Err::<(), _>(refusal), field);
    }
    let twice = vec![bed.debounced_in("default", "a", 1), bed.debounced_in("default", "a", 2)];
    let (index, refusal) = bed.enqueue_refused(twice, at(0)).await;
    is_invalid(&Err::<(), _>(refusal), "debounce");
    assert_eq!((index, bed.all_ids().await.len()), (1, 0));
}

/// F11: one job, every request in its log once, and the payload of the last.
pub async fn many_requests_at_once_make_one_job(bed: Bed) {
    let callers = (0..CLAIMERS).map(|n| {
        let bed = bed.clone();
        let mut job = bed.debounced_in("default", "a", n);
        let debounce = Debounce::new(3_600_000, None);
        job.facts.unique = Some(Unique::debounced(name("default"), name("work"), key("a"), debounce));
        job.facts.run_at = RunAt::After(3_600_000);
        async move { bed.enqueue(job, None).await }
    });
    let answers = together(callers).await;
    let ids: BTreeSet<JobId> = answers.iter().map(|answer| answer.id).collect();
    assert_eq!((ids.len(), bed.all_ids().await), (1, ids.clone()));
    assert_eq!(answers.iter().filter(|answer| !answer.existed).count(), 1);
    let id = answers[0].id;
    let log = bed.log(id).await;
    let said: BTreeSet<Vec<u8>> =
        log.iter().filter_map(|event| Some(event.payload.as_ref()?.as_bytes().to_vec())).collect();
    assert_eq!((log.len(), said.len()), (CLAIMERS, CLAIMERS), "each of them once");
    let last = log.last().and_then(|event| event.payload.clone());
    assert_eq!(bed.view(id, None).await.payload, last);
}

/// F11: either the new payload runs, or another job is made for it.
pub async fn a_claim_and_a_debounce_lose_nothing(bed: Bed) {
    for round in 0..20_i64 {
        let (of, from) = (format!("k{round}"), round * 10_000);
        let first = bed.debounces(&of, 1, at(from)).await.id;
        let (claimer, caller) = (bed.clone(), bed.clone());
        let now = at(from + DELAY_MS);
        let asked = of.clone();
        let claims: Racer<Vec<Claimed>> = Box::pin(async move { claimer.claims("w", 1, now).await });
        let enqueues: Racer<Vec<Claimed>> = Box::pin(async move {
            caller.debounces(&asked, 2, now).await;
            Vec::new()
        });
        let mut taken = together([claims, enqueues]).await.concat();
        let held = bed.view(first, now).await;
        let waiting = bed.debounces(&of, 3, at(from + DELAY_MS + 1)).await;
        match held.job.status {
            // The claim came first: the second payload has a job of its own, which the third request found.
            Status::Running if held.payload == Some(numbered(1)) => {
                assert!(waiting.existed && waiting.id != first, "round {round}");
                assert_eq!(bed.log(waiting.id).await[0].payload, Some(numbered(2)));
            }
            // The request came first, and its payload runs: it was due at once only if it was not moved.
            Status::Running => assert_eq!((held.payload, waiting.existed), (Some(numbered(2)), false)),
            status => {
                assert_eq!((status, held.payload, waiting.id), (Status::Pending, Some(numbered(2)), first));
            }
        }
        taken.extend(bed.claims("w", 9, at(from + 9_000)).await);
        for held in taken {
            bed.settles(&held, completes(), at(from + 9_001)).await.expect("done");
        }
    }
}

/// F11: at most one per window, whatever becomes of it.
pub async fn a_throttle_is_a_key_for_a_time(bed: Bed) {
    let throttled = |n: usize| {
        let mut job = bed.job("work");
        let (scope, policy) = (Scope::Queue(name("default")), Policy::Ttl(1_000));
        job.facts.unique = Some(Unique { scope, key: key("a"), policy });
        job.payload = Some(numbered(n));
        job
    };
    let callers = (0..CLAIMERS).map(|n| {
        let (bed, job) = (bed.clone(), throttled(n));
        async move { bed.enqueue(job, at(0)).await }
    });
    let answers = together(callers).await;
    assert_eq!(answers.iter().filter(|answer| !answer.existed).count(), 1);
    let held = bed.claims("w", 9, at(1)).await;
    bed.settles(&held[0], completes(), at(2)).await.expect("done");
    assert!(bed.enqueue(throttled(1), at(999)).await.existed, "also after its end");
    assert!(!bed.enqueue(throttled(2), at(1_000)).await.existed, "the next window");
}

/// F11: at most one alive.
pub async fn a_singleton_is_a_key_while_it_is_live(bed: Bed) {
    let single = || {
        let mut job = bed.job("work");
        let (scope, policy) = (Scope::Queue(name("default")), Policy::Active);
        job.facts.unique = Some(Unique { scope, key: key("a"), policy });
        job
    };
    let callers = (0..CLAIMERS).map(|_| {
        let (bed, job) = (bed.clone(), single());
        async move { bed.enqueue(job, at(0)).await }
    });
    let answers = together(callers).await;
    assert_eq!(answers.iter().filter(|answer| !answer.existed).count(), 1);
    let held = bed.claims("w", 9, at(1)).await;
    assert!(bed.enqueue(single(), at(2)).await.existed, "while it runs");
    bed.settles(&held[0], completes(), at(3)).await.expect("done");
    assert!(!bed.enqueue(single(), at(4)).await.existed, "after its end");
}
