//! Limits that are settings: the store refuses what passes the hard bounds, [`Limited`] what passes the settings.

use crate::fixtures::{checkpoint, fork, step_ends};
use crate::{Bed, at, invariants, is_invalid, json, name, time};
use std::sync::Arc;
use windlass_core::limits::{Limits, PAYLOAD_DEFAULT_BYTES, PAYLOAD_MAX_BYTES};
use windlass_core::{Actor, Done, LeaseMs, NewJob, Outcome, Payload, QueueDefaults, Refusal, Status};
use windlass_store::{
    Claimed, Enqueue, EnqueueClaimed, Fork, Limited, Progress, PutQueue, Settle, SettleItem,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! limit_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            limit: a_job_stays_within_the_settings,
            what_a_handler_records_stays_within_the_settings,
            settings_reach_up_to_the_hard_bounds_and_no_further,
            a_timeout_of_zero_is_none,
            leases_last_from_a_second_to_a_day,
        );
    };
}

/// The same bed with limits that small values pass.
fn narrow(bed: &Bed) -> Bed {
    within(bed, Limits { payload_bytes: 20, result_bytes: 10, max_retries: 3 })
}

fn within(bed: &Bed, limits: Limits) -> Bed {
    Bed { store: Arc::new(Limited::new(bed.store.clone(), limits)), ..bed.clone() }
}

/// JSON of exactly so many bytes.
fn sized(bytes: usize) -> Payload {
    Payload::json("payload", format!("\"{}\"", "x".repeat(bytes - 2)), bytes).expect("JSON")
}

fn with_payload(bed: &Bed, bytes: usize) -> NewJob {
    NewJob { payload: Some(sized(bytes)), ..bed.job("work") }
}

/// Asserts that a refusal names the field, the size and the limit.
fn names<T: std::fmt::Debug>(answer: &Result<T, Refusal>, field: &str, size: &str, limit: &str) {
    is_invalid(answer, field);
    let told = answer.as_ref().expect_err("a refusal").to_string();
    assert!(told.contains(size) && told.contains(limit), "{told}");
}

/// Q15
pub async fn a_job_stays_within_the_settings(bed: Bed) {
    let bed = narrow(&bed);
    let (index, refusal) = bed.enqueue_refused(vec![bed.job("work"), with_payload(&bed, 21)], at(0)).await;
    assert_eq!(index, 1);
    names(&Err::<(), _>(refusal), "payload", "21 bytes", "at most 20 bytes");
    let mut patient = bed.job("work");
    patient.facts.max_retries = 4;
    let (_, refusal) = bed.enqueue_refused(vec![patient.clone()], at(0)).await;
    names(&Err::<(), _>(refusal), "max_retries", "4", "between 0 and 3");
    let request = EnqueueClaimed { job: with_payload(&bed, 21), actor: Actor::api(), claim: bed.claim("w") };
    let handed = bed.store.enqueue_claimed(request, at(0)).await.expect("the store answers");
    names(&handed, "payload", "21 bytes", "at most 20 bytes");
    assert_eq!(invariants::every_job(&bed).await, [], "nothing was written");
    patient.facts.max_retries = 3;
    bed.enqueue_all(vec![with_payload(&bed, 20), patient], at(0)).await;
    let defaults = |max_retries| QueueDefaults { max_retries: Some(max_retries), ..QueueDefaults::default() };
    let puts = |max_retries| PutQueue {
        defaults: Some(defaults(max_retries)),
        ..PutQueue::new(name("q"), Actor::api())
    };
    let refused = bed.store.put_queue(puts(4), at(1)).await.expect("the store answers");
    names(&refused, "max_retries", "4", "between 0 and 3");
    assert_eq!(bed.store.put_queue(puts(3), at(1)).await.expect("the store answers"), Ok(()));
}

fn completes_with(held: &Claimed, bytes: usize) -> SettleItem {
    SettleItem { job: held.job.id, token: held.lease.token, outcome: Outcome::Complete(Some(sized(bytes))) }
}

/// Q15, T8
pub async fn what_a_handler_records_stays_within_the_settings(bed: Bed) {
    let bed = narrow(&bed);
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    let large = Progress { checkpoint: Some(sized(11)), ..checkpoint(&held, "1") };
    names(&bed.reports(large, at(1)).await, "checkpoint", "11 bytes", "at most 10 bytes");
    names(
        &bed.records(step_ends(&held, "s", "123456789.1"), at(1)).await,
        "value",
        "11 bytes",
        "at most 10 bytes",
    );
    bed.is_unchanged(&before).await;
    bed.reports(checkpoint(&held, "\"12345678\""), at(1)).await.expect("the largest passes");
    bed.records(step_ends(&held, "s", "1234567890"), at(1)).await.expect("the largest passes");
    // In a batch each item stands alone.
    let (second, third) = (bed.a_held_job("w", at(2)).await, bed.a_held_job("w", at(2)).await);
    let all = [(&held, 10), (&second, 11), (&third, 10)];
    let items = all.map(|(held, bytes)| completes_with(held, bytes)).to_vec();
    let answers = bed.store.settle(Settle { items }, at(3)).await.expect("the store answers");
    assert_eq!(answers[0].as_ref().map(|_| ()), Ok(()));
    names(&answers[1], "result", "11 bytes", "at most 10 bytes");
    assert_eq!(answers[2], Ok(Done::Moved(3, Status::Completed)));
    assert_eq!(bed.row(second.job.id).await.status, Status::Running);
    let items = vec![completes_with(&second, 11)];
    let answers = bed.store.settle(Settle { items }, at(3)).await.expect("the store answers");
    names(&answers[0], "result", "11 bytes", "at most 10 bytes");
    bed.settles(&second, Outcome::Complete(None), at(3)).await.expect("it may complete");
    assert_eq!(bed.store.settle(Settle { items: vec![] }, at(3)).await, Ok(vec![]));
    let forked = |bytes| Fork { payload: Some(sized(bytes)), ..fork(held.job.id, bed.id()) };
    names(&bed.forks(forked(21), at(4)).await, "payload", "21 bytes", "at most 20 bytes");
    bed.forks(forked(20), at(4)).await.expect("the largest passes");
}

/// Q15: 1 MiB by default, and what the widest setting allows, every store takes.
pub async fn settings_reach_up_to_the_hard_bounds_and_no_further(bed: Bed) {
    let usual = within(&bed, Limits::default());
    usual.enqueue(with_payload(&bed, PAYLOAD_DEFAULT_BYTES), at(0)).await;
    let (_, refusal) =
        usual.enqueue_refused(vec![with_payload(&bed, PAYLOAD_DEFAULT_BYTES + 1)], at(0)).await;
    names(&Err::<(), _>(refusal), "payload", "1048577 bytes", "at most 1048576 bytes");
    let widest =
        Limits { payload_bytes: PAYLOAD_MAX_BYTES, result_bytes: PAYLOAD_MAX_BYTES, ..Limits::default() };
    let wide = within(&bed, widest.check().expect("within the bounds"));
    let large = with_payload(&bed, PAYLOAD_MAX_BYTES);
    let held = wide.holds("w", large.clone(), at(0)).await;
    assert_eq!(held.payload, large.payload);
    let done = wide.settles(&held, Outcome::Complete(large.payload.clone()), at(1)).await;
    assert_eq!(done, Ok(Done::Moved(3, Status::Completed)));
    assert_eq!(wide.view(large.id, at(2)).await.result, large.payload);
    let request = Enqueue {
        jobs: vec![with_payload(&bed, PAYLOAD_MAX_BYTES + 1)],
        actor: Actor::api(),
        idempotency: None,
    };
    let refused = bed.store.enqueue(request, at(3)).await.expect("the store answers");
    let refused = refused.map_err(|refused| refused.refusal);
    names(&refused, "payload", "16777217 bytes", "at most 16777216 bytes");
}

/// Q15, Q2
pub async fn a_timeout_of_zero_is_none(bed: Bed) {
    let with = |timeout_ms| {
        let mut job = bed.job("work");
        (job.facts.timeout_ms, job.facts.max_retries) = (timeout_ms, 0);
        job
    };
    let day = LeaseMs::new(86_400_000).expect("a day");
    let ids = [bed.enqueue(with(Some(0)), at(0)).await.id, bed.enqueue(with(None), at(0)).await.id];
    let mut all = Vec::new();
    for job in ids {
        let claim = windlass_core::decide::Claim { lease_ms: day, ..bed.claim("w") };
        let request = windlass_store::ClaimOne { job, claim };
        let held = bed.store.claim_one(request, at(0)).await.expect("the store answers").expect("claimed");
        assert_eq!((held.job.timeout_ms, held.job.deadline_at), (None, None));
        assert_eq!(held.job.lease_expires_at, Some(time(86_400_000)), "nothing cuts the lease short");
        all.push(held);
    }
    assert_eq!(bed.sweeps(at(86_000_000)).await, []);
    for held in all {
        bed.settles(&held, crate::completes(), at(86_000_000)).await.expect("it was never too late");
    }
    let many = bed.enqueue_all(vec![with(Some(0)), with(Some(5))], at(86_000_000)).await;
    assert_eq!(bed.row(many[0].id).await.timeout_ms, None);
    assert_eq!(bed.row(many[1].id).await.timeout_ms, Some(5));
    let (_, refusal) = bed.enqueue_refused(vec![with(Some(-1))], at(86_000_000)).await;
    is_invalid(&Err::<(), _>(refusal), "timeout");
    let defaults = QueueDefaults { timeout_ms: Some(0), ..QueueDefaults::default() };
    let request = PutQueue { defaults: Some(defaults), ..PutQueue::new(name("q"), Actor::api()) };
    assert_eq!(bed.store.put_queue(request, at(86_000_000)).await.expect("the store answers"), Ok(()));
}

/// Q15, Q10
pub async fn leases_last_from_a_second_to_a_day(bed: Bed) {
    for ms in [i64::MIN, -1, 0, 999, 86_400_001, i64::MAX] {
        let refused = LeaseMs::new(ms).map_err(Refusal::from);
        names(&refused, "lease", &windlass_core::span::to_text(ms), "between 1 s and 24 h");
    }
    for ms in [1_000, 86_400_000] {
        let mut job = bed.job("work");
        job.facts.lease_ms = Some(LeaseMs::new(ms).expect("a lease"));
        let held = bed.holds("w", job, at(2)).await;
        assert_eq!(held.lease.expires_at, time(ms + 2), "the job's own");
        assert_eq!(bed.extends(&held, ms, at(2)).await.map(|e| e.expires_at), Ok(time(ms + 2)));
        bed.settles(&held, Outcome::Complete(Some(json("1"))), at(2)).await.expect("it may complete");
    }
}
