//! How jobs are handed out, once each.

use crate::{
    Bed, at, checkpoint, completes, fails_until, for_children, json, name, note, report, sleeps_until,
    step_begins, step_ends, stop, time, waits_for_signal, who,
};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;
use windlass_core::decide::{Claim, Command, decide};
use windlass_core::limits::{CLAIM_MAX, CRASHES_MAX};
use windlass_core::wait::{WaitFor, WakeOutcome};
use windlass_core::{
    Actor, Count, Done, Filter, JobId, LeaseMs, NewJob, Outcome, Refusal, RunAt, Secret, Status, Timestamp,
    Wake,
};
use windlass_store::{
    Append, ClaimMany, ClaimOne, Claimed, List, Now, PauseQueue, Progress, RecordStep, Settle, SettleItem,
    Signal, Sweep,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! claim_laws {
    ($($make:tt)*) => {
        $crate::law_tests!([$($make)*], claim:
            a_claim_hands_out_a_job_under_a_lease,
            nothing_to_do_is_an_empty_answer,
            a_claim_takes_no_more_than_it_asked_for_or_may,
            many_at_once_are_handed_out_as_one_would_be,
            a_held_job_is_nobody_elses_until_its_lease_is_over,
            a_future_job_is_not_claimable_one_microsecond_early,
            a_retry_is_not_claimable_one_microsecond_early,
            a_waiting_job_is_never_claimed_by_accident,
            the_order_is_priority_then_due_time_then_id,
            reclaimed_and_scheduled_jobs_keep_their_turn,
            queues_are_looked_at_in_the_order_given,
            a_paused_queue_hands_out_nothing,
            only_the_kinds_asked_for_are_handed_out,
            a_job_is_claimed_by_its_id,
            a_job_that_cannot_be_taken_says_where_it_stands,
            the_same_secret_again_returns_the_same_jobs,
            what_was_claimed_by_id_is_held_under_its_secret_too,
            the_same_secret_again_by_id_returns_the_same_job,
            what_one_secret_takes_twice_is_held_once,
            a_secret_used_for_ever_makes_a_new_token_each_time,
            a_large_claim_is_held_like_a_small_one,
            a_jobs_own_lease_rules,
            a_lost_lease_is_reclaimed_by_the_claim_and_counted,
            a_job_that_kills_its_worker_again_and_again_ends_crashed,
            work_on_record_makes_crashes_count_from_zero,
            a_reclaimed_job_that_was_to_be_cancelled_is_cancelled,
            a_reclaimed_job_past_its_timeout_is_timed_out,
            a_claim_goes_through_the_line_once_and_in_order,
            in_the_grace_only_the_holder_may_act,
            the_next_attempt_gets_what_the_last_one_left,
            thirty_two_claimers_never_share_a_job,
            one_of_thirty_two_reclaims_a_lost_lease,
            one_of_thirty_two_claims_a_job_by_its_id,
        );
    };
}

/// J7, Q4, T4
pub async fn a_claim_hands_out_a_job_under_a_lease(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.metadata.insert("tenant".into(), "acme".into());
    bed.enqueue(job.clone(), at(0)).await;
    let claim = bed.claim("w-1");
    let secret = claim.secret;
    let request = ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max: 10, claim };
    let claimed = bed.store.claim(request, at(5)).await.expect("the store answers");
    let [held] = claimed.try_into().expect("one job");
    let Claimed { job: row, lease, facts, payload, .. } = held.clone();
    assert_eq!((row.status, row.version, row.attempt), (Status::Running, 2, 1));
    assert_eq!((row.started_at, row.updated_at), (at(5), time(5)));
    assert_eq!((row.lease_expires_at, row.due_at), (at(30_005), at(30_005)));
    assert_eq!((lease.job, lease.attempt, lease.expires_at), (job.id, 1, time(30_005)));
    assert_eq!((&lease.worker, row.worker_id.as_ref()), (&who("w-1"), Some(&who("w-1"))));
    assert_eq!(lease.token, secret.token(job.id, 1), "the claimer can derive it again");
    assert_eq!(row.lease_hash, Some(lease.token.hash()), "the row keeps only a hash");
    assert_eq!((facts, payload), (job.facts.clone(), job.payload));
    assert_eq!(held.metadata, job.facts.metadata);
    assert_eq!((held.checkpoint, held.wake, held.steps_recorded), (None, None, 0));
    assert_eq!(bed.row(job.id).await, row, "what was handed out is what is stored");
    let log = bed.log(job.id).await;
    assert_eq!(log[1].what.type_name(), "job_claimed");
    assert_eq!((&log[1].actor, log[1].attempt), (&Actor::worker(&who("w-1")), 1));
    assert_eq!(log[1].lease, Some(lease.token.hash()));
}

/// J7
pub async fn nothing_to_do_is_an_empty_answer(bed: Bed) {
    assert_eq!(bed.claims("w", 10, at(0)).await, []);
    assert_eq!(bed.claims_from("w", &["nobody-knows"], 10, at(0)).await, []);
    let id = bed.a_job(at(0)).await;
    assert_eq!(bed.claims_from("w", &[], 10, at(0)).await, []);
    assert_eq!(bed.claims("w", 0, at(0)).await, []);
    assert_eq!(bed.row(id).await.status, Status::Pending);
}

/// J7, Q2
pub async fn a_claim_takes_no_more_than_it_asked_for_or_may(bed: Bed) {
    let jobs = (0..CLAIM_MAX + 5).map(|_| bed.job("work")).collect();
    bed.enqueue_all(jobs, at(0)).await;
    assert_eq!(bed.claims("w", 3, at(0)).await.len(), 3);
    assert_eq!(bed.claims("w", usize::MAX, at(0)).await.len(), CLAIM_MAX);
    assert_eq!(bed.claims("w", usize::MAX, at(0)).await.len(), 2);
}

/// Q4, J7: jobs of every shape, handed out by one claim: each stands as the rule has it for one alone.
pub async fn many_at_once_are_handed_out_as_one_would_be(bed: Bed) {
    let held: Vec<Claimed> = {
        bed.enqueue_all((0..3).map(|_| bed.job("work")).collect(), at(0)).await;
        bed.claims("w", 3, at(0)).await
    };
    let outcomes = [waits_for_signal("paid"), Outcome::Release(RunAt::Now), fails_until("again", RunAt::Now)];
    for (held, outcome) in held.iter().zip(outcomes) {
        bed.settles(held, outcome, at(1)).await.expect("the holder may settle");
    }
    bed.signals(held[0].job.id, "paid", "bank", at(2)).await.expect("it wakes");
    let mut ids: Vec<JobId> = held.iter().map(|held| held.job.id).collect();
    for n in 0..4 {
        let mut job = bed.job("work");
        job.facts.grace_ms = [0, 700, 700, 0][n];
        job.facts.timeout_ms = [None, None, Some(5_000), Some(90_000)][n];
        job.facts.lease_ms = [LeaseMs::new(9_000).ok(), None, LeaseMs::new(7_000).ok(), None][n];
        ids.push(bed.enqueue(job, at(3)).await.id);
    }
    let mut before = Vec::new();
    for id in &ids {
        before.push(bed.row(*id).await);
    }
    let claim = bed.claim("v");
    let request =
        ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max: 10, claim: claim.clone() };
    let claimed = bed.store.claim(request, at(100)).await.expect("the store answers");
    assert_eq!(claimed.len(), ids.len());
    for before in before {
        let one = decide(&before, Command::Claim(claim.clone()), time(100)).expect("it may be claimed");
        assert_eq!(bed.row(before.id).await, one.job, "as it is stored");
        let handed = claimed.iter().find(|held| held.job.id == before.id).expect("it was handed out");
        assert_eq!(handed.job, one.job, "as it was handed out");
        assert_eq!(bed.log(before.id).await.last(), Some(&one.event), "as it is logged");
    }
}

/// Q4, J7
pub async fn a_held_job_is_nobody_elses_until_its_lease_is_over(bed: Bed) {
    let held = bed.a_held_job("a", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    for now in [at(0), at(29_999), early(30_000)] {
        assert_eq!(bed.claims("b", 10, now).await, []);
        assert_eq!(bed.claims("a", 10, now).await, [], "not even to its holder under another secret");
        let refused = bed.claims_by_id("b", held.job.id, now).await;
        assert_eq!(refused, Err(Refusal::NotClaimable(Status::Running)));
    }
    bed.is_unchanged(&before).await;
    let again = bed.claims_one("b", at(30_000)).await;
    assert_eq!((again.job.id, again.lease.attempt), (held.job.id, 2), "an end that is `<= now` is over");
}

/// Q3
pub async fn a_future_job_is_not_claimable_one_microsecond_early(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.run_at = RunAt::At(time(1_000));
    let id = bed.enqueue(job, at(0)).await.id;
    assert_eq!(bed.claims("w", 10, early(1_000)).await, []);
    let refused = bed.claims_by_id("w", id, early(1_000)).await;
    assert_eq!(refused, Err(Refusal::NotClaimable(Status::Pending)));
    assert_eq!(bed.claims_one("w", at(1_000)).await.job.id, id);
}

/// Q3, Q8, M5
pub async fn a_retry_is_not_claimable_one_microsecond_early(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    bed.settles(&held, fails_until("later", RunAt::At(time(5_000))), at(1)).await.expect("retried");
    assert_eq!(bed.claims("w", 10, early(5_000)).await, []);
    assert_eq!(bed.claims_one("w", at(5_000)).await.lease.attempt, 2);
}

/// J10
pub async fn a_waiting_job_is_never_claimed_by_accident(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    bed.settles(&held, waits_for_signal("go"), at(0)).await.expect("it waits");
    let id = held.job.id;
    let before = bed.snapshot(id).await;
    let later = at(365 * 86_400_000);
    assert_eq!(bed.claims("w", 10, later).await, []);
    let refused = bed.claims_by_id("w", id, later).await;
    assert_eq!(refused, Err(Refusal::NotClaimable(Status::Waiting)));
    bed.is_unchanged(&before).await;
    let timer = bed.a_held_job("w", at(0)).await;
    bed.settles(&timer, sleeps_until(9_000), at(0)).await.expect("it sleeps");
    assert_eq!(bed.claims("w", 10, early(9_000)).await, []);
    let refused = bed.claims_by_id("w", timer.job.id, early(9_000)).await;
    assert_eq!(refused, Err(Refusal::NotClaimable(Status::Waiting)));
    assert_eq!(bed.claims_one("w", at(9_000)).await.job.id, timer.job.id);
}

/// Q13
pub async fn the_order_is_priority_then_due_time_then_id(bed: Bed) {
    let mut jobs = Vec::new();
    // Ids grow while priorities and due times run through every combination against them.
    for priority in [-5, 3, 0, 5, -1] {
        for due in [20, 0, 10, 0] {
            let mut job = bed.job("work");
            (job.facts.priority, job.facts.run_at) = (priority, RunAt::At(time(due)));
            jobs.push(job);
        }
    }
    jobs.reverse();
    let mut order: Vec<(i32, RunAt, JobId)> =
        jobs.iter().map(|j| (j.facts.priority, j.facts.run_at, j.id)).collect();
    order.sort_by_key(|(priority, run_at, id)| (-priority, run_at.resolve(time(0)), *id));
    let expected: Vec<JobId> = order.iter().map(|(_, _, id)| *id).collect();
    bed.enqueue_all(jobs, at(0)).await;
    let mut handed_out = Vec::new();
    for max in [1, 1, 3, 1, 7, 100] {
        handed_out.extend(bed.claims("w", max, at(50)).await.iter().map(|c| c.job.id));
    }
    assert_eq!(handed_out, expected);
}

/// Q13, Q5
pub async fn reclaimed_and_scheduled_jobs_keep_their_turn(bed: Bed) {
    let lost = bed.a_held_job("gone", at(0)).await;
    let mut scheduled = bed.job("work");
    scheduled.facts.run_at = RunAt::At(time(29_000));
    let scheduled = bed.enqueue(scheduled, at(1)).await.id;
    let newer = bed.enqueue_all(vec![bed.job("work"), bed.job("work")], at(31_000)).await;
    let order: Vec<JobId> = bed.claims("w", 10, at(32_000)).await.iter().map(|c| c.job.id).collect();
    assert_eq!(order, [scheduled, lost.job.id, newer[0].id, newer[1].id], "by when they became due");
}

/// Q13, J7
pub async fn queues_are_looked_at_in_the_order_given(bed: Bed) {
    let mut ids = Vec::new();
    for (queue, priority) in [("a", 5), ("b", -5), ("a", 0), ("c", 5), ("b", 5)] {
        let mut job = bed.job_in("work", queue);
        job.facts.priority = priority;
        ids.push(bed.enqueue(job, at(0)).await.id);
    }
    let claimed = bed.claims_from("w", &["b", "a", "b"], 3, at(0)).await;
    let order: Vec<JobId> = claimed.iter().map(|c| c.job.id).collect();
    assert_eq!(order, [ids[4], ids[1], ids[0]], "the whole first queue before the second");
    let claimed = bed.claims_from("w", &["b", "a"], 3, at(0)).await;
    assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [ids[2]], "never another queue's");
}

/// J7
pub async fn a_paused_queue_hands_out_nothing(bed: Bed) {
    let pause = async |pause: bool, now: Now| {
        let request = PauseQueue { name: name("default"), pause, actor: Actor::api() };
        bed.store.pause_queue(request, now).await.expect("the store answers");
    };
    let held = bed.a_held_job("w", at(0)).await;
    let id = bed.a_job(at(0)).await;
    let other = bed.enqueue(bed.job_in("work", "other"), at(0)).await.id;
    pause(true, at(1)).await;
    let claimed = bed.claims_from("w", &["default", "other"], 10, at(2)).await;
    assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [other]);
    assert_eq!(bed.claims_by_id("w", id, at(2)).await, Err(Refusal::NotClaimable(Status::Pending)));
    assert!(bed.extends(&held, 30_000, at(3)).await.is_ok(), "who holds a job goes on");
    bed.settles(&held, completes(), at(4)).await.expect("and ends it");
    pause(false, at(5)).await;
    assert_eq!(bed.claims_one("w", at(6)).await.job.id, id);
}

/// J7
pub async fn only_the_kinds_asked_for_are_handed_out(bed: Bed) {
    for _ in 0..10 {
        bed.enqueue(bed.job("unwanted"), at(0)).await;
    }
    let (a, b) = (bed.enqueue(bed.job("a"), at(1)).await.id, bed.enqueue(bed.job("b"), at(1)).await.id);
    let claim = async |kinds: &[&str], now: Now| {
        let kinds = kinds.iter().map(|k| name(k)).collect();
        let request =
            ClaimMany { from: None, queues: vec![name("default")], kinds, max: 100, claim: bed.claim("w") };
        let claimed = bed.store.claim(request, now).await.expect("the store answers");
        claimed.iter().map(|c| c.job.id).collect::<Vec<_>>()
    };
    assert_eq!(claim(&["b", "never-seen"], at(2)).await, [b]);
    assert_eq!(claim(&["b"], at(2)).await, []);
    assert_eq!(claim(&["a", "b"], at(30_002)).await, [a, b], "reclaims keep to the kinds as well");
    assert_eq!(claim(&["never-seen"], at(90_000)).await, []);
    assert_eq!(claim(&[], at(90_000)).await.len(), 12, "no kinds are all kinds");
}

/// J7
pub async fn a_job_is_claimed_by_its_id(bed: Bed) {
    let (first, second) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let held = bed.claims_by_id("w", second, at(1)).await.expect("it is there");
    assert_eq!((held.job.id, held.lease.attempt, held.job.version), (second, 1, 2));
    assert_eq!(held.payload, Some(json("{\"n\":1}")));
    assert_eq!(bed.row(first).await.status, Status::Pending);
    assert_eq!(bed.types(second).await, ["job_created", "job_claimed"]);
    bed.settles(&held, completes(), at(2)).await.expect("its token is good");
}

/// J7, Q9, M2
pub async fn a_job_that_cannot_be_taken_says_where_it_stands(bed: Bed) {
    assert_eq!(bed.claims_by_id("w", bed.id(), at(0)).await, Err(Refusal::NotFound));
    for status in Status::ALL {
        if matches!(status, Status::Pending | Status::Orphaned) {
            continue;
        }
        let id = bed.a_job_that_is(status, 0).await;
        let before = bed.snapshot(id).await;
        let expected =
            if status.is_terminal() { Refusal::Finished(status) } else { Refusal::NotClaimable(status) };
        assert_eq!(bed.claims_by_id("w", id, at(1)).await, Err(expected), "{status}");
        let queue = before.job.queue.clone();
        assert_eq!(bed.claims_from("w", &[queue.as_str()], 10, at(1)).await, [], "{status}");
        bed.is_unchanged(&before).await;
    }
    let orphan = bed.a_job_that_is(Status::Orphaned, 0).await;
    assert!(bed.claims_by_id("w", orphan, at(1_000)).await.is_ok(), "an orphan may be taken");
}

/// J7, R1
pub async fn what_was_claimed_by_id_is_held_under_its_secret_too(bed: Bed) {
    let ids = [bed.a_job(at(0)).await, bed.a_job(at(0)).await];
    // It was held before, under another claim: what that left behind must not hide it.
    let before = bed.claims_by_id("w", ids[1], at(0)).await.expect("claimed");
    bed.settles(&before, Outcome::Release(RunAt::Now), at(0)).await.expect("released");
    let claim = bed.claim("w");
    let one = ClaimOne { job: ids[1], claim: claim.clone() };
    bed.store.claim_one(one, at(1)).await.expect("the store answers").expect("claimed");
    let many = ClaimMany { from: None, queues: vec![name("default")], kinds: Vec::new(), max: 1, claim };
    for _ in 0..2 {
        let again = bed.store.claim(many.clone(), at(2)).await.expect("the store answers");
        assert_eq!(
            again.iter().map(|c| c.job.id).collect::<Vec<_>>(),
            [ids[1]],
            "no other job is handed out"
        );
    }
}

/// J7, R1
pub async fn the_same_secret_again_returns_the_same_jobs(bed: Bed) {
    bed.enqueue_all((0..6).map(|_| bed.job("work")).collect(), at(0)).await;
    let claim = |worker: &str, max| ClaimMany {
        from: None,
        queues: vec![name("default")],
        kinds: vec![],
        max,
        claim: claim_with(worker, Bed::secret(1)),
    };
    let store = bed.store.clone();
    let ask =
        async |worker: &str, max, now| store.claim(claim(worker, max), now).await.expect("the store answers");
    let first = ask("w", 3, at(0)).await;
    assert_eq!(first.len(), 3);
    assert_eq!(ask("w", 3, at(1)).await, first, "word for word");
    assert_eq!(ask("w", 100, at(1)).await, first, "nothing is added to a repeat");
    assert_eq!(bed.types(first[0].job.id).await, ["job_created", "job_claimed"]);
    // A renewal shows in the repeat, and what was settled does not come back.
    bed.extends(&first[1], 60_000, at(2)).await.expect("renewed");
    bed.settles(&first[0], completes(), at(2)).await.expect("completed");
    let again = ask("w", 3, at(3)).await;
    assert_eq!(again.iter().map(|c| c.job.id).collect::<Vec<_>>(), [first[1].job.id, first[2].job.id]);
    assert_eq!(again[0].lease.expires_at, time(60_002));
    assert_eq!(again[0].lease.token, first[1].lease.token);
    // The same secret in another worker's hands is another claim.
    let others = ask("v", 100, at(4)).await;
    assert_eq!(others.len(), 3);
    assert!(others.iter().all(|c| first.iter().all(|f| f.job.id != c.job.id)));
}

/// J7, R1
pub async fn what_one_secret_takes_twice_is_held_once(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let claim = claim_with("w", Bed::secret(4));
    let many =
        ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max: 10, claim: claim.clone() };
    // It goes back into the line each time, and what it was held under may still name it.
    for n in 0..4 {
        let held = if n % 2 == 0 {
            bed.store.claim(many.clone(), at(n)).await.expect("the store answers")
        } else {
            let one = ClaimOne { job: id, claim: claim.clone() };
            vec![bed.store.claim_one(one, at(n)).await.expect("the store answers").expect("claimed")]
        };
        assert_eq!(
            held.iter().map(|c| (c.job.id, c.lease.attempt)).collect::<Vec<_>>(),
            [(id, n as i32 + 1)]
        );
        assert_eq!(
            bed.store.claim(many.clone(), at(n)).await.expect("the store answers"),
            held,
            "word for word"
        );
        for filter in [
            Filter { statuses: vec![Status::Running], ..Filter::default() },
            Filter { worker_id: Some(who("w")), ..Filter::default() },
        ] {
            let list = List { filter, cursor: None, limit: 10 };
            let page = bed.store.jobs(list, at(n)).await.expect("the store answers").expect("a page");
            assert_eq!(page.items.iter().map(|l| l.job.id).collect::<Vec<_>>(), [id], "listed once");
        }
        let counts = bed.store.counts(10, at(n)).await.expect("the store answers");
        assert_eq!(counts.statuses, [(Status::Running, Count { n: 1, capped: false })]);
        if n < 3 {
            bed.settles(&held[0], Outcome::Release(RunAt::Now), at(n)).await.expect("released");
        }
    }
    // Its lease runs out: it stands in line once.
    bed.store.sweep(Sweep { limit: 100 }, at(40_000)).await.expect("the store answers");
    assert_eq!(bed.claims_from("v", &["default"], 10, at(40_000)).await.len(), 1);
    assert_eq!(bed.claims_from("u", &["default"], 10, at(40_000)).await, []);
}

/// J7, R1
pub async fn the_same_secret_again_by_id_returns_the_same_job(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let request = ClaimOne { job: id, claim: claim_with("w", Bed::secret(2)) };
    let first = bed.store.claim_one(request.clone(), at(0)).await.expect("the store answers");
    assert!(first.is_ok());
    let again = bed.store.claim_one(request.clone(), at(1)).await.expect("the store answers");
    assert_eq!(again, first, "word for word");
    let other = ClaimOne { claim: claim_with("w", Bed::secret(3)), ..request };
    let refused = bed.store.claim_one(other, at(1)).await.expect("the store answers");
    assert_eq!(refused, Err(Refusal::NotClaimable(Status::Running)));
    assert_eq!(bed.row(id).await.version, 2);
}

/// J7, Q4, R1
pub async fn a_secret_used_for_ever_makes_a_new_token_each_time(bed: Bed) {
    bed.a_job(at(0)).await;
    let request = ClaimMany {
        from: None,
        queues: vec![name("default")],
        kinds: vec![],
        max: 1,
        claim: claim_with("w", Bed::secret(1)),
    };
    let first = bed.store.claim(request.clone(), at(0)).await.expect("the store answers").remove(0);
    let second = bed.store.claim(request, at(30_000)).await.expect("the store answers").remove(0);
    assert_eq!((first.lease.attempt, second.lease.attempt), (1, 2), "the lease was over: a new attempt");
    assert_ne!(first.lease.token, second.lease.token);
    let refused = bed.settles(&first, completes(), at(30_001)).await;
    assert_eq!(refused, Err(Refusal::Mismatch), "the old token is dead although the secret is the same");
    bed.settles(&second, completes(), at(30_002)).await.expect("completed");
}

/// J7, Q4, R1
pub async fn a_large_claim_is_held_like_a_small_one(bed: Bed) {
    bed.enqueue_all((0..40).map(|_| bed.job("work")).collect(), at(0)).await;
    let ask = async |max, now| {
        let claim = claim_with("w", Bed::secret(1));
        let request = ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max, claim };
        bed.store.claim(request, now).await.expect("the store answers")
    };
    let first = ask(30, at(0)).await;
    assert_eq!(first.len(), 30);
    for held in &first {
        assert_eq!(bed.row(held.job.id).await, held.job, "word for word");
        assert_eq!(held.job.lease_hash, Some(held.lease.token.hash()));
    }
    let tokens: HashSet<String> = first.iter().map(|held| held.lease.token.to_text()).collect();
    assert_eq!(tokens.len(), 30, "no two are alike");
    for max in [30, 1, 40] {
        assert_eq!(ask(max, at(1)).await, first, "a repeat");
    }
    let swapped = bed.settles_by(first[0].job.id, first[1].lease.token, completes(), at(2)).await;
    assert_eq!(swapped, Err(Refusal::Mismatch), "no token opens another job");
    bed.settles(&first[0], completes(), at(2)).await.expect("completed");
    assert_eq!(ask(30, at(3)).await, first[1..], "what was settled does not come back");
    // The leases are over: whatever the secret takes now, no token is made again.
    let second = ask(40, at(40_000)).await;
    assert_eq!(second.len(), 39);
    assert!(second.iter().all(|held| !tokens.contains(&held.lease.token.to_text())));
    let late = bed.settles(&first[5], completes(), at(40_001)).await;
    assert_eq!(late, Err(Refusal::Mismatch), "the old token is dead although the secret is the same");
    let by_id = |mut claimed: Vec<Claimed>| {
        claimed.sort_by_key(|held| held.job.id);
        claimed
    };
    assert_eq!(ask(16, at(40_002)).await, by_id(second.clone()), "a repeat comes in the order of ids");
    for held in &second {
        bed.settles(held, completes(), at(40_003)).await.expect("completed");
    }
}

/// J7, Q10
pub async fn a_jobs_own_lease_rules(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.lease_ms = Some(LeaseMs::new(5_000).expect("a lease"));
    let held = bed.holds("w", job, at(0)).await;
    assert_eq!(held.lease.expires_at, time(5_000));
    let mut job = bed.job("work");
    job.facts.timeout_ms = Some(7_000);
    let held = bed.holds("w", job, at(0)).await;
    assert_eq!(held.lease.expires_at, time(7_000), "no lease passes the timeout of its attempt");
    assert_eq!(held.job.deadline_at, at(7_000));
}

/// Q5, J7, Q6
pub async fn a_lost_lease_is_reclaimed_by_the_claim_and_counted(bed: Bed) {
    let lost = bed.a_held_job("gone", at(0)).await;
    let held = bed.claims_one("w", at(30_000)).await;
    let row = &held.job;
    assert_eq!((row.id, row.status, row.attempt), (lost.job.id, Status::Running, 2));
    assert_eq!((row.crashes, row.retries), (1, 0), "a crash uses no retry");
    assert_eq!(held.lease.expires_at, time(60_000), "a whole new lease");
    assert_eq!(bed.types(row.id).await, ["job_created", "job_claimed", "job_claimed"]);
    let before = bed.snapshot(row.id).await;
    assert_eq!(bed.settles(&lost, completes(), at(30_001)).await, Err(Refusal::Mismatch));
    assert_eq!(bed.extends(&lost, 30_000, at(30_001)).await, Err(Refusal::Mismatch));
    bed.is_unchanged(&before).await;
}

/// Q5, Q9, M5
pub async fn a_job_that_kills_its_worker_again_and_again_ends_crashed(bed: Bed) {
    for by_id in [false, true] {
        let id = bed.a_job(at(0)).await;
        let start = bed.row(id).await.updated_at.as_micros() / 1_000 - time(0).as_micros() / 1_000;
        for n in 0..CRASHES_MAX {
            let held = bed.claims_one("victim", at(start + 30_000 * i64::from(n))).await;
            assert_eq!((held.job.id, held.job.crashes), (id, n));
        }
        let end = start + 30_000 * i64::from(CRASHES_MAX);
        let next = bed.a_job(at(end)).await;
        if by_id {
            let refused = bed.claims_by_id("victim", id, at(end)).await;
            assert_eq!(refused, Err(Refusal::Finished(Status::Failed)));
        }
        // The same claim that buries it goes on to the next one.
        let held = bed.claims_one("victim", at(end)).await;
        assert_eq!(held.job.id, next);
        let view = bed.view(id, at(end)).await;
        assert_eq!((view.job.status, view.job.finished_at), (Status::Failed, at(end)));
        assert_eq!(view.job.error_code, Some(who("crashed")));
        assert_eq!(view.job.attempt, CRASHES_MAX, "it was not handed out a fourth time");
        let types = bed.types(id).await;
        assert_eq!(types, ["job_created", "job_claimed", "job_claimed", "job_claimed", "job_failed"]);
        assert_eq!(bed.log(id).await[4].actor, Actor::engine());
        bed.settles(&held, completes(), at(end)).await.expect("completed");
    }
}

/// Q5, J11
pub async fn work_on_record_makes_crashes_count_from_zero(bed: Bed) {
    type Work = fn(&Claimed) -> Vec<Did>;
    let cases: &[(bool, Work)] = &[
        (true, |held| vec![Did::Step(step_ends(held, "s", "1"))]),
        (true, |held| vec![Did::Step(RecordStep { tool: true, ..step_ends(held, "s", "1") })]),
        (true, |held| vec![Did::Report(checkpoint(held, "{\"page\":1}"))]),
        (true, |_| vec![Did::Settle(sleeps_until(0))]),
        (false, |_| vec![]),
        (false, |held| vec![Did::Step(step_begins(held, "s"))]),
        (false, |held| vec![Did::Report(Progress { progress: Some(9), ..report(held) })]),
        (false, |held| vec![Did::Note(note(held.job.id, "seen"))]),
        (false, |_| vec![Did::Settle(Outcome::Release(RunAt::Now))]),
    ];
    for (n, (resets, work)) in cases.iter().enumerate() {
        let job = bed.job_in("work", &format!("q{n}"));
        let (id, queue) = (job.id, job.facts.queue.clone());
        bed.enqueue(job, at(0)).await;
        let claim = async |now: i64| bed.claims_from("w", &[queue.as_str()], 1, at(now)).await.remove(0);
        // Every case at its own moment: the store's time only goes on.
        let start = 1_000_000 * n as i64;
        claim(start).await;
        let held = claim(start + 30_000).await;
        assert_eq!(held.job.crashes, 1);
        let mut settled = false;
        for did in work(&held) {
            settled |= matches!(did, Did::Settle(_));
            did.happen(&bed, &held, at(start + 30_001)).await;
        }
        let expected = i32::from(!resets);
        assert_eq!(bed.row(id).await.crashes, expected, "case {n}");
        let next = claim(start + 60_000).await;
        assert_eq!(next.job.crashes, expected + i32::from(!settled), "case {n}: this loss counts again");
    }
}

/// T7, Q5
pub async fn a_reclaimed_job_that_was_to_be_cancelled_is_cancelled(bed: Bed) {
    for by_id in [false, true] {
        let mut job = bed.job("work");
        job.facts.lease_ms = Some(LeaseMs::new(5_000).expect("a lease"));
        let held = bed.holds("gone", job, at(0)).await;
        let id = held.job.id;
        let asked = bed.row(id).await.updated_at;
        bed.cancels(id, stop(), Some(asked)).await.expect("requested");
        let over = Some(asked.plus_ms(5_000));
        if by_id {
            let refused = bed.claims_by_id("w", id, over).await;
            assert_eq!(refused, Err(Refusal::Finished(Status::Cancelled)));
        } else {
            assert_eq!(bed.claims("w", 10, over).await, []);
        }
        let types = bed.types(id).await;
        assert_eq!(types, ["job_created", "job_claimed", "job_cancel_requested", "job_cancelled"]);
        let row = bed.row(id).await;
        assert_eq!((row.status, row.attempt, row.finished_at), (Status::Cancelled, 1, over));
    }
}

/// Q5, M5, Q8
pub async fn a_reclaimed_job_past_its_timeout_is_timed_out(bed: Bed) {
    let mut job = bed.job("work");
    (job.facts.timeout_ms, job.facts.max_retries) = (Some(4_000), 1);
    job.facts.backoff =
        Some(windlass_core::Backoff { base_ms: 500, max_ms: 500, multiplier: 1.0, jitter: false });
    let held = bed.holds("slow", job, at(0)).await;
    let id = held.job.id;
    assert_eq!(bed.claims("w", 10, early(4_000)).await, []);
    assert_eq!(bed.claims("w", 10, at(4_000)).await, [], "timed out, not handed out");
    let row = bed.row(id).await;
    assert_eq!((row.status, row.retries, row.crashes), (Status::Retry, 1, 0), "a timeout is no crash");
    assert_eq!((row.due_at, row.error_code), (at(4_500), Some(who("timed_out"))));
    let again = bed.claims_one("w", at(4_500)).await;
    assert_eq!((again.job.id, again.lease.attempt), (id, 2));
    let refused = bed.claims_by_id("w", id, at(8_500)).await;
    assert_eq!(refused, Err(Refusal::Finished(Status::TimedOut)), "no retry is left");
    let types = bed.types(id).await;
    assert_eq!(types, ["job_created", "job_claimed", "job_timed_out", "job_claimed", "job_timed_out"]);
    let view = bed.view(id, at(8_500)).await;
    assert_eq!(view.error.map(|(_, when)| when), Some(time(8_500)));
}

/// Q13, Q5, M8: what it ends is told before it reaches whom it is told to, and frees nothing that it has passed.
pub async fn a_claim_goes_through_the_line_once_and_in_order(bed: Bed) {
    // The parents stand in line: in the line of their children and in that of a lower priority.
    for (n, priority) in [(1, 0), (2, -1)] {
        let [before, after] = [12, 16].map(|ms| in_line(&bed, n, ms, priority));
        let ids = [before.id, after.id];
        bed.enqueue_all(vec![before, after], start(n, 0)).await;
        // In the end they stand at 10, 11, 13 and 17.
        for (ms, parent) in [(0, 0), (1, 0), (3, 0), (7, 1)] {
            bed.holds("gone", ending(&bed, n, ids[parent]), start(n, ms)).await;
        }
        let held = bed.claims_from("w", &[&format!("q{n}")], 9, start(n, 20)).await;
        let told = held.iter().map(|c| (c.job.id, c.job.children)).collect::<Vec<_>>();
        let (first, second): (&[&str], &[&str]) = if priority == 0 {
            assert_eq!(told, [(ids[0], 1), (ids[1], 1)], "in the order of the line");
            (
                &["child_finished", "child_finished", "claimed", "child_finished"],
                &["claimed", "child_finished"],
            )
        } else {
            assert_eq!(told, [(ids[0], 0), (ids[1], 0)], "all children were before them");
            (
                &["child_finished", "child_finished", "child_finished", "claimed"],
                &["child_finished", "claimed"],
            )
        };
        for (id, expected) in ids.into_iter().zip([first, second]) {
            let types = bed.types(id).await;
            let types = types.iter().map(|t| t.trim_start_matches("job_"));
            let types: Vec<_> = types.filter(|t| !["created", "children_added"].contains(t)).collect();
            assert_eq!(types, expected);
        }
    }
    // The parents wait for their child: before it, behind it in its line, and behind it.
    for (n, priority, taken) in [(3, 1, false), (4, 0, true), (5, -1, true)] {
        let queue = format!("q{n}");
        let parent = bed.holds("p", in_line(&bed, n, 0, priority), start(n, 0)).await;
        bed.holds("gone", ending(&bed, n, parent.job.id), start(n, 0)).await;
        bed.waits(&parent, for_children(), start(n, 1)).await.expect("the holder may wait");
        let held = bed.claims_from("w", &[&queue], 9, start(n, 20)).await;
        assert_eq!(held.len(), usize::from(taken), "priority {priority}");
        let held = if taken { held } else { bed.claims_from("w", &[&queue], 9, start(n, 20)).await };
        let wake = held[0].wake.as_ref().expect("it waited");
        assert_eq!((held[0].job.id, wake.outcome), (parent.job.id, WakeOutcome::Joined));
    }
}

/// R6, Q4, J8
pub async fn in_the_grace_only_the_holder_may_act(bed: Bed) {
    let graced = || {
        let mut job = bed.job("work");
        job.facts.grace_ms = 10_000;
        job
    };
    let held = bed.holds("a", graced(), at(0)).await;
    let id = held.job.id;
    assert_eq!((held.lease.expires_at, held.job.due_at), (time(30_000), at(40_000)));
    // Past its expiry, before the end of the grace: nobody else gets it, and the holder may renew and report.
    for now in [at(30_000), at(35_000)] {
        assert_eq!(bed.claims("b", 10, now).await, []);
        let refused = bed.claims_by_id("b", id, now).await;
        assert_eq!(refused, Err(Refusal::NotClaimable(Status::Running)));
    }
    bed.reports(checkpoint(&held, "1"), at(35_001)).await.expect("a checkpoint");
    let wrong = bed.settles_by(id, Bed::secret(9).token(id, 1), completes(), at(35_002)).await;
    assert_eq!(wrong, Err(Refusal::Mismatch));
    let renewed = bed.extends(&held, 30_000, at(39_000)).await.expect("renewed");
    assert_eq!(renewed.expires_at, time(69_000));
    assert_eq!(bed.claims("b", 10, early(79_000)).await, []);
    assert_eq!(
        bed.settles(&held, completes(), early(79_000)).await,
        Ok(Done::Moved(4, Status::Completed)),
        "up to the last microsecond"
    );
    // At the end of the grace it is over for the holder, and anybody may take it.
    let held = bed.holds("a", graced(), at(80_000)).await;
    let before = bed.snapshot(held.job.id).await;
    assert_eq!(bed.settles(&held, completes(), at(120_000)).await, Err(Refusal::Expired));
    assert_eq!(bed.extends(&held, 30_000, at(120_000)).await, Err(Refusal::Expired));
    bed.is_unchanged(&before).await;
    let taken = bed.claims_one("b", at(120_000)).await;
    assert_eq!((taken.job.id, taken.lease.attempt), (held.job.id, 2));
}

/// J11, M4, J10
pub async fn the_next_attempt_gets_what_the_last_one_left(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    assert_eq!((held.checkpoint.clone(), held.steps_recorded), (None, 0));
    bed.reports(checkpoint(&held, "{\"page\":1}"), at(1)).await.expect("a checkpoint");
    let metadata = serde_json::from_str("{\"seen\":true}").ok();
    let say = Progress { metadata, ..checkpoint(&held, "{\"page\":2}") };
    bed.reports(say, at(2)).await.expect("a checkpoint");
    bed.records(step_ends(&held, "fetch", "[1]"), at(3)).await.expect("a step");
    bed.records(step_begins(&held, "parse"), at(3)).await.expect("a step");
    bed.settles(&held, waits_for_signal("go"), at(4)).await.expect("it waits");
    let signal = Signal {
        job: held.job.id,
        name: name("go"),
        payload: Some(json("\"now\"")),
        actor: Actor::api(),
        key: None,
    };
    bed.store.signal(signal, at(5)).await.expect("the store answers").expect("signalled");
    let next = bed.claims_one("v", at(5)).await;
    assert_eq!(next.checkpoint, Some(json("{\"page\":2}")));
    assert_eq!(next.metadata.get("seen"), Some(&serde_json::Value::Bool(true)));
    assert_eq!(next.steps_recorded, 1, "only what ended");
    assert_eq!(next.payload, held.payload);
    let wake = Wake {
        waited_for: WaitFor::Signal,
        name: Some(name("go")),
        outcome: WakeOutcome::Signalled,
        payload: Some(json("\"now\"")),
    };
    assert_eq!(next.wake, Some(wake));
}

/// J7, Q4, R1
pub async fn thirty_two_claimers_never_share_a_job(bed: Bed) {
    const JOBS: usize = 2_000;
    bed.enqueue_all((0..JOBS).map(|_| bed.job("work")).collect(), at(0)).await;
    let handed_out = Arc::new(AtomicUsize::new(0));
    let mut claimers = JoinSet::new();
    for claimer in 0..32 {
        let (bed, handed_out) = (bed.clone(), handed_out.clone());
        claimers.spawn(async move {
            let (mut mine, mut idle) = (Vec::new(), 0);
            // A short answer does not mean an empty queue, so only the count ends the race.
            while handed_out.load(Ordering::SeqCst) < JOBS && idle < 10_000 {
                let claimed = bed.claims(&format!("w{claimer}"), 7, at(1)).await;
                idle = if claimed.is_empty() { idle + 1 } else { 0 };
                handed_out.fetch_add(claimed.len(), Ordering::SeqCst);
                mine.extend(claimed);
            }
            mine
        });
    }
    let claimed: Vec<Claimed> = claimers.join_all().await.into_iter().flatten().collect();
    let ids: BTreeSet<JobId> = claimed.iter().map(|c| c.job.id).collect();
    assert_eq!((claimed.len(), ids.len()), (JOBS, JOBS), "every job has one holder");
    assert!(claimed.iter().all(|c| c.lease.attempt == 1 && c.job.version == 2));
    let items =
        claimed.iter().map(|c| SettleItem { job: c.job.id, token: c.lease.token, outcome: completes() });
    let settled = bed.store.settle(Settle { items: items.collect() }, at(2)).await;
    let settled = settled.expect("the store answers");
    assert!(settled.iter().all(|a| *a == Ok(Done::Moved(3, Status::Completed))), "every token is good");
}

/// Q5, R1
pub async fn one_of_thirty_two_reclaims_a_lost_lease(bed: Bed) {
    let lost = bed.a_held_job("gone", at(0)).await;
    let mut racers = JoinSet::new();
    for n in 0..32 {
        let bed = bed.clone();
        racers.spawn(async move { bed.claims(&format!("w{n}"), 5, at(30_000)).await });
    }
    let won: Vec<Claimed> = racers.join_all().await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1, "one winner");
    assert_eq!((won[0].lease.attempt, won[0].job.crashes), (2, 1));
    assert_eq!(bed.types(lost.job.id).await, ["job_created", "job_claimed", "job_claimed"]);
    let settled = bed.settles(&won[0], completes(), at(30_001)).await;
    assert_eq!(settled, Ok(Done::Moved(4, Status::Completed)), "the winner's token is good");
}

/// J7, R1
pub async fn one_of_thirty_two_claims_a_job_by_its_id(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let mut racers = JoinSet::new();
    for n in 0..32 {
        let bed = bed.clone();
        racers.spawn(async move { bed.claims_by_id(&format!("w{n}"), id, at(0)).await });
    }
    let answers = racers.join_all().await;
    assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 1, "one winner");
    let refused = Err(Refusal::NotClaimable(Status::Running));
    assert_eq!(answers.iter().filter(|a| **a == refused).count(), 31, "the others are told");
    assert_eq!(bed.row(id).await.attempt, 1);
}

/// A moment of a case that has a time of its own.
fn start(case: i64, ms: i64) -> Now {
    at(1_000_000 * case + ms)
}

/// A job of a case, due at such a moment.
fn in_line(bed: &Bed, case: i64, ms: i64, priority: i32) -> NewJob {
    let mut job = bed.job_in("work", &format!("q{case}"));
    job.facts.priority = priority;
    job.facts.run_at = RunAt::At(time(1_000_000 * case + ms));
    job
}

/// A child that times out for good ten milliseconds after it was claimed.
fn ending(bed: &Bed, case: i64, parent: JobId) -> NewJob {
    let mut job = bed.job_in("work", &format!("q{case}"));
    (job.facts.parent_id, job.facts.timeout_ms, job.facts.max_retries) = (Some(parent), Some(10), 0);
    job
}

/// Something a holder does.
enum Did {
    Step(RecordStep),
    Report(Progress),
    Note(Append),
    Settle(Outcome),
}

impl Did {
    async fn happen(self, bed: &Bed, held: &Claimed, now: Now) {
        match self {
            Self::Step(step) => drop(bed.records(step, now).await.expect("recorded")),
            Self::Report(report) => drop(bed.reports(report, now).await.expect("reported")),
            Self::Note(note) => drop(bed.appends(note, now).await.expect("noted")),
            Self::Settle(outcome) => drop(bed.settles(held, outcome, now).await.expect("settled")),
        }
    }
}

/// One microsecond before `BASE` plus so many milliseconds.
fn early(ms: i64) -> Now {
    Some(Timestamp::from_micros(time(ms).as_micros() - 1))
}

fn claim_with(worker: &str, secret: Secret) -> Claim {
    Claim { worker: who(worker), secret, lease_ms: LeaseMs::DEFAULT }
}
