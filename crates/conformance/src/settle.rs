//! How attempts end.

use crate::{
    Bed, at, completes, fails, fails_for_good, fails_until, failure, is_invalid, json, key, name,
    sleeps_until, stop, stop_at_once, time, waits_for_signal, who,
};
use tokio::task::JoinSet;
use windlass_core::backoff::Backoff;
use windlass_core::limits::{BATCH_MAX, HORIZON_MS, PAYLOAD_MAX_BYTES, TEXT_MAX_BYTES};
use windlass_core::unique::{Policy, Scope};
use windlass_core::{
    Actor, Answer, Done, Failure, JobId, LeaseMs, Outcome, Payload, Refusal, RunAt, Status, Timestamp, Unique,
};
use windlass_store::{Claimed, Settle, SettleItem, Sweep};

/// This module's laws, as tests.
#[macro_export]
macro_rules! settle_laws {
    ($($make:tt)*) => {
        $crate::law_tests!([$($make)*], settle:
            a_completion_is_final_and_keeps_its_result,
            a_result_above_the_limit_is_refused_and_the_job_still_held,
            every_end_told_twice_is_one_end,
            a_repeat_is_known_although_another_worker_took_over,
            another_token_is_told_how_the_job_ended,
            another_outcome_after_the_end_is_refused,
            a_retry_keeps_error_count_and_run_time,
            without_a_run_time_the_backoff_decides,
            the_budget_of_retries_ends_in_failure,
            a_permanent_failure_is_dead_at_once,
            a_failure_without_a_reason_gets_one,
            dead_jobs_are_never_claimed,
            a_release_uses_no_retry,
            a_timeout_is_retried_while_the_budget_lasts,
            a_holder_may_stop_with_or_without_being_asked,
            what_follows_a_requested_cancel,
            a_late_end_never_overwrites_an_end,
            run_times_and_reasons_outside_their_limits_are_refused,
            every_change_is_dated,
            items_of_a_batch_stand_alone,
            completions_together_keep_to_lease_and_timeout,
            completions_together_free_the_keys_of_the_living,
            one_job_twice_in_a_batch_ends_once,
            relatives_in_a_batch_end_in_its_order,
            a_batch_of_too_many_ends_is_refused_beyond_the_limit,
            racing_repeats_of_a_completion_are_one,
            a_forced_cancel_and_a_completion_never_both_win,
            a_requested_cancel_never_beats_a_completion,
            a_stale_worker_and_the_new_holder_never_both_win,
        );
    };
}

/// T8, Q6, M6, J2
pub async fn a_completion_is_final_and_keeps_its_result(bed: Bed) {
    for result in [Some(json("{\"url\":\"s3://bucket/key\"}")), None] {
        let held = bed.a_held_job("w", at(0)).await;
        let now = bed.row(held.job.id).await.updated_at.plus_ms(9);
        let done = bed.settles(&held, Outcome::Complete(result.clone()), Some(now)).await;
        assert_eq!(done, Ok(Done::Moved(3, Status::Completed)));
        let view = bed.view(held.job.id, at(0)).await;
        let row = &view.job;
        assert_eq!((row.status, row.progress, row.version), (Status::Completed, 100, 3));
        assert_eq!((row.finished_at, row.updated_at), (Some(now), now));
        assert_eq!((row.due_at, row.deadline_at, row.lease_hash), (None, None, None));
        assert_eq!((view.result, view.error), (result.clone(), None));
        let log = bed.log(held.job.id).await;
        assert_eq!(log[2].what.type_name(), "job_completed");
        assert_eq!((&log[2].payload, log[2].attempt), (&result, 1));
        assert_eq!(log[2].actor, Actor::worker(&who("w")));
        assert_eq!(log[2].lease, Some(held.lease.token.hash()), "it names the lease it settled");
    }
}

/// T8
pub async fn a_result_above_the_limit_is_refused_and_the_job_still_held(bed: Bed) {
    let sized = |n: usize| Outcome::Complete(Payload::bytes("result", vec![b'1'; n], n).ok());
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    let refused = bed.settles(&held, sized(PAYLOAD_MAX_BYTES + 1), at(1)).await;
    let Err(Refusal::Invalid(invalid)) = &refused else { panic!("too large: {refused:?}") };
    assert!(invalid.to_string().contains("16777216"), "the limit is in the message: {invalid}");
    bed.is_unchanged(&before).await;
    let done = bed.settles(&held, sized(PAYLOAD_MAX_BYTES), at(2)).await;
    assert_eq!(done, Ok(Done::Moved(3, Status::Completed)), "the largest passes");
    let result = bed.view(held.job.id, at(2)).await.result.expect("a result");
    assert_eq!(result.as_bytes().len(), PAYLOAD_MAX_BYTES);
}

/// Q7, R1
pub async fn every_end_told_twice_is_one_end(bed: Bed) {
    let ends: [fn() -> Outcome; 9] = [
        completes,
        || Outcome::Complete(None),
        || fails("broken"),
        || fails_for_good("broken"),
        || Outcome::Release(RunAt::Now),
        || Outcome::TimeOut,
        || Outcome::Cancelled { reason: Some("asked".into()) },
        || waits_for_signal("go"),
        || sleeps_until(0),
    ];
    for (n, end) in ends.into_iter().enumerate() {
        let held = bed.holds("w", bed.job("work"), at(0)).await;
        let done = bed.settles(&held, end(), at(1)).await.expect("settled");
        assert!(matches!(done, Done::Moved(3, _)), "case {n}: {done:?}");
        let before = bed.snapshot(held.job.id).await;
        for now in [at(1), at(2), at(86_400_000)] {
            let again = bed.settles(&held, end(), now).await;
            assert_eq!(again, Ok(Done::Already(3)), "case {n}: however late");
        }
        bed.is_unchanged(&before).await;
    }
}

/// Q7, T5
pub async fn a_repeat_is_known_although_another_worker_took_over(bed: Bed) {
    let first = bed.a_held_job("a", at(0)).await;
    let later = || fails_until("later", RunAt::Now);
    bed.settles(&first, later(), at(1)).await.expect("retried");
    let second = bed.claims_one("b", at(2)).await;
    let before = bed.snapshot(first.job.id).await;
    assert_eq!(bed.settles(&first, later(), at(3)).await, Ok(Done::Already(3)));
    assert_eq!(bed.settles(&first, completes(), at(3)).await, Err(Refusal::Mismatch));
    bed.is_unchanged(&before).await;
    bed.settles(&second, completes(), at(4)).await.expect("completed");
    assert_eq!(bed.settles(&first, later(), at(5)).await, Ok(Done::Already(3)));
    assert_eq!(bed.settles(&second, completes(), at(5)).await, Ok(Done::Already(5)));
    assert_eq!(bed.settles(&first, completes(), at(5)).await, Err(Refusal::Finished(Status::Completed)));
}

/// Q7
pub async fn another_token_is_told_how_the_job_ended(bed: Bed) {
    for end in [Status::Completed, Status::Failed, Status::TimedOut, Status::Cancelled] {
        let id = bed.a_job_that_is(end, 0).await;
        let before = bed.snapshot(id).await;
        let stranger = Bed::secret(7).token(id, 1);
        for outcome in [completes(), fails("broken"), Outcome::TimeOut, Outcome::Cancelled { reason: None }] {
            let refused = bed.settles_by(id, stranger, outcome, at(1)).await;
            assert_eq!(refused, Err(Refusal::Finished(end)));
        }
        bed.is_unchanged(&before).await;
    }
}

/// Q7, M2
pub async fn another_outcome_after_the_end_is_refused(bed: Bed) {
    type End = fn() -> Outcome;
    let cases: [(End, End, Refusal); 6] = [
        (completes, || fails("broken"), Refusal::Finished(Status::Completed)),
        (completes, || Outcome::Release(RunAt::Now), Refusal::Finished(Status::Completed)),
        (|| fails_for_good("broken"), completes, Refusal::Finished(Status::Failed)),
        (|| Outcome::Cancelled { reason: None }, completes, Refusal::Finished(Status::Cancelled)),
        (|| fails("broken"), completes, Refusal::NotLeased(Status::Retry)),
        (|| waits_for_signal("go"), completes, Refusal::NotLeased(Status::Waiting)),
    ];
    for (first, second, refusal) in cases {
        let held = bed.holds("w", bed.job("work"), at(0)).await;
        bed.settles(&held, first(), at(1)).await.expect("settled");
        let before = bed.snapshot(held.job.id).await;
        assert_eq!(bed.settles(&held, second(), at(2)).await, Err(refusal));
        bed.is_unchanged(&before).await;
    }
}

/// Q8, M5, M7
pub async fn a_retry_keeps_error_count_and_run_time(bed: Bed) {
    let run_ats =
        [(RunAt::Now, 5), (RunAt::After(700), 705), (RunAt::At(time(9_000)), 9_000), (RunAt::At(time(1)), 1)];
    for (n, (run_at, due)) in run_ats.into_iter().enumerate() {
        let start = 100_000 * n as i64;
        let held = bed.holds("w", bed.job("work"), at(start)).await;
        // Moments are counted from the start of each case.
        let run_at = if let RunAt::At(t) = run_at { RunAt::At(t.plus_ms(start)) } else { run_at };
        let error = Failure::new("http_503", "the \"upstream\" is down").expect("a failure");
        let outcome = Outcome::Fail { error, permanent: false, run_at: Some(run_at) };
        let done = bed.settles(&held, outcome, at(start + 5)).await;
        assert_eq!(done, Ok(Done::Moved(3, Status::Retry)));
        let view = bed.view(held.job.id, at(0)).await;
        let row = &view.job;
        assert_eq!((row.retries, row.attempt, row.crashes), (1, 1, 0));
        assert_eq!((row.due_at, row.error_version), (at(start + due), Some(3)));
        assert_eq!(row.error_code, Some(who("http_503")));
        let (error, when) = view.error.expect("the error is kept");
        assert_eq!(when, time(start + 5), "with the time of the failure");
        let error: serde_json::Value = error.parse().expect("JSON");
        assert_eq!(error["message"], "the \"upstream\" is down");
        let log = bed.log(held.job.id).await;
        let detail: serde_json::Value =
            serde_json::from_str(&log[2].what.detail().expect("detail")).expect("JSON");
        assert_eq!(detail["retries"], 1, "the entry tells the number of the retry and its time: {detail}");
        assert_eq!(detail["due_at"], time(start + due).as_micros());
        let next = bed.claims_by_id("w", held.job.id, at(start + 50_000)).await.expect("due by now");
        assert_eq!(next.job.error_code, Some(who("http_503")), "the next attempt still knows it");
    }
}

/// Q8, M9, M5
pub async fn without_a_run_time_the_backoff_decides(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.max_retries = 6;
    job.facts.backoff = Some(Backoff { base_ms: 100, max_ms: 1_000, multiplier: 3.0, jitter: false });
    let id = bed.enqueue(job, at(0)).await.id;
    let mut now = 0;
    for (n, delay) in [100, 300, 900, 1_000, 1_000].into_iter().enumerate() {
        let held = bed.claims_one("w", at(now)).await;
        bed.settles(&held, fails("again"), at(now + 7)).await.expect("retried");
        now += 7 + delay;
        let row = bed.row(id).await;
        assert_eq!((row.due_at, row.retries), (at(now), n as i32 + 1), "retry {n}");
    }
    // Without a backoff of its own: the default with full jitter, the same on every store and every replay.
    let held = bed.holds("w", bed.job("work"), at(now)).await;
    bed.settles(&held, fails("again"), at(now)).await.expect("retried");
    let drawn = Backoff::default().delay_ms(0, held.job.id, 1);
    assert!((0..=1_000).contains(&drawn));
    assert_eq!(bed.row(held.job.id).await.due_at, at(now + drawn));
}

/// M5, Q9, M13
pub async fn the_budget_of_retries_ends_in_failure(bed: Bed) {
    for max_retries in [0, 1, 3] {
        let mut job = bed.job("work");
        job.facts.max_retries = max_retries;
        let id = bed.enqueue(job, at(0)).await.id;
        for n in 0..=max_retries {
            let held = bed.claims_one("w", at(0)).await;
            bed.settles(&held, fails_until("again", RunAt::Now), at(0)).await.expect("settled");
            let row = bed.row(id).await;
            let dead = n == max_retries;
            assert_eq!(row.status, if dead { Status::Failed } else { Status::Retry });
            assert_eq!(row.retries, if dead { max_retries } else { n + 1 }, "never above the budget");
        }
        let view = bed.view(id, at(0)).await;
        assert_eq!((view.job.attempt, view.job.error_code), (max_retries + 1, Some(who("again"))));
        assert!(view.error.is_some() && view.job.finished_at.is_some());
        assert_eq!(bed.types(id).await.last().map(String::as_str), Some("job_failed"));
    }
}

/// M13, Q9
pub async fn a_permanent_failure_is_dead_at_once(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let done = bed.settles(&held, fails_for_good("bad_input"), at(3)).await;
    assert_eq!(done, Ok(Done::Moved(3, Status::Failed)));
    let view = bed.view(held.job.id, at(3)).await;
    assert_eq!((view.job.retries, view.job.error_code), (0, Some(who("bad_input"))));
    assert_eq!((view.job.finished_at, view.job.due_at), (at(3), None));
    assert_eq!(bed.log(held.job.id).await[2].actor, Actor::worker(&who("w")));
}

/// Q9
pub async fn a_failure_without_a_reason_gets_one(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let error = Failure::new("", "").expect("empty is allowed");
    let outcome = Outcome::Fail { error, permanent: true, run_at: None };
    bed.settles(&held, outcome, at(1)).await.expect("failed");
    let view = bed.view(held.job.id, at(1)).await;
    assert_eq!(view.job.error_code, Some(who("failed")));
    let error: serde_json::Value = view.error.expect("an error").0.parse().expect("JSON");
    assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{error}");
}

/// Q9, M2, J6
pub async fn dead_jobs_are_never_claimed(bed: Bed) {
    for end in [Status::Completed, Status::Failed, Status::TimedOut, Status::Cancelled] {
        let id = bed.a_job_that_is(end, 0).await;
        let before = bed.snapshot(id).await;
        let queue = before.job.queue.as_str().to_owned();
        for now in [at(1), at(100_000), at(HORIZON_MS)] {
            assert_eq!(bed.claims_from("w", &[&queue], 10, now).await, [], "{end}");
            assert_eq!(bed.claims_by_id("w", id, now).await, Err(Refusal::Finished(end)));
        }
        bed.is_unchanged(&before).await;
    }
}

/// M13, Q8
pub async fn a_release_uses_no_retry(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.max_retries = 1;
    let id = bed.enqueue(job, at(0)).await.id;
    for n in 1..=10 {
        let held = bed.claims_one("w", at(0)).await;
        assert_eq!(held.lease.attempt, n, "every execution counts");
        let done = bed.settles(&held, Outcome::Release(RunAt::Now), at(0)).await.expect("released");
        assert!(matches!(done, Done::Moved(_, Status::Retry)));
    }
    let row = bed.row(id).await;
    assert_eq!((row.status, row.retries, row.crashes, row.due_at), (Status::Retry, 0, 0, at(0)));
    assert_eq!(row.error_version, None, "nothing went wrong");
    let held = bed.claims_one("w", at(1)).await;
    bed.settles(&held, fails_until("later", RunAt::Now), at(1)).await.expect("retried");
    let held = bed.claims_one("w", at(2)).await;
    bed.settles(&held, Outcome::Release(RunAt::After(500)), at(2)).await.expect("released");
    let row = bed.row(id).await;
    assert_eq!((row.retries, row.due_at), (1, at(502)));
    assert_eq!(row.error_code, Some(who("later")), "the last error is kept");
    assert_eq!(bed.claims("w", 1, at(501)).await, []);
    assert_eq!(bed.claims_one("w", at(502)).await.job.id, id);
}

/// M5, Q8, M7
pub async fn a_timeout_is_retried_while_the_budget_lasts(bed: Bed) {
    let mut job = bed.job("work");
    (job.facts.max_retries, job.facts.timeout_ms) = (1, Some(10_000));
    job.facts.backoff = Some(Backoff { base_ms: 50, max_ms: 50, multiplier: 1.0, jitter: false });
    let id = bed.enqueue(job, at(0)).await.id;
    let held = bed.claims_one("w", at(0)).await;
    let done = bed.settles(&held, Outcome::TimeOut, at(9_999)).await;
    assert_eq!(done, Ok(Done::Moved(3, Status::Retry)));
    let row = bed.row(id).await;
    assert_eq!((row.retries, row.due_at, row.deadline_at), (1, at(10_049), None));
    assert_eq!(row.error_code, Some(who("timed_out")));
    let held = bed.claims_one("w", at(10_049)).await;
    assert_eq!(held.job.deadline_at, at(20_049), "each attempt has its own time");
    let done = bed.settles(&held, Outcome::TimeOut, at(20_000)).await;
    assert_eq!(done, Ok(Done::Moved(5, Status::TimedOut)));
    let view = bed.view(id, at(20_000)).await;
    assert_eq!((view.job.retries, view.job.finished_at), (1, at(20_000)));
    assert!(view.error.is_some_and(|(_, when)| when == time(20_000)));
}

/// T7, M10
pub async fn a_holder_may_stop_with_or_without_being_asked(bed: Bed) {
    for asked in [true, false] {
        let held = bed.holds("w", bed.job("work"), at(0)).await;
        let id = held.job.id;
        if asked {
            bed.cancels(id, stop(), at(1)).await.expect("requested");
        }
        let outcome = Outcome::Cancelled { reason: Some("cleaned up".into()) };
        let done = bed.settles(&held, outcome, at(2)).await.expect("cancelled");
        assert!(matches!(done, Done::Moved(_, Status::Cancelled)));
        let last = bed.log(id).await.pop().expect("an event");
        assert_eq!(last.actor, Actor::worker(&who("w")));
        assert_eq!(last.what.detail().as_deref(), Some("{\"reason\":\"cleaned up\"}"));
        assert_eq!(bed.row(id).await.cancel_requested_at, if asked { at(1) } else { None });
    }
}

/// T7, M10, Q7
pub async fn what_follows_a_requested_cancel(bed: Bed) {
    type End = fn() -> Outcome;
    let cases: [(End, Status); 8] = [
        (completes, Status::Completed),
        (|| fails("broken"), Status::Cancelled),
        (|| fails_for_good("broken"), Status::Failed),
        (|| Outcome::Release(RunAt::Now), Status::Cancelled),
        (|| Outcome::TimeOut, Status::Cancelled),
        (|| Outcome::Cancelled { reason: None }, Status::Cancelled),
        (|| sleeps_until(0), Status::Cancelled),
        (|| waits_for_signal("go"), Status::Cancelled),
    ];
    for (n, (end, status)) in cases.into_iter().enumerate() {
        let held = bed.holds("w", bed.job("work"), at(0)).await;
        bed.cancels(held.job.id, stop(), at(0)).await.expect("requested");
        let done = bed.settles(&held, end(), at(1)).await;
        assert_eq!(done, Ok(Done::Moved(4, status)), "case {n}");
        assert_eq!(bed.settles(&held, end(), at(2)).await, Ok(Done::Already(4)), "case {n}");
    }
}

/// T5, T7, M2
pub async fn a_late_end_never_overwrites_an_end(bed: Bed) {
    let try_all = async |held: &Claimed, status: Status, now: i64| {
        let before = bed.snapshot(held.job.id).await;
        assert_eq!(before.job.status, status);
        for outcome in [completes(), fails("broken"), Outcome::Release(RunAt::Now), sleeps_until(0)] {
            assert_eq!(bed.settles(held, outcome, at(now)).await, Err(Refusal::Finished(status)));
        }
        bed.is_unchanged(&before).await;
    };
    let held = bed.holds("w", bed.job("work"), at(0)).await;
    bed.cancels(held.job.id, stop_at_once(), at(1)).await.expect("cancelled");
    try_all(&held, Status::Cancelled, 2).await;
    // A sweep has recorded the timeout before the worker came back.
    let mut job = bed.job("work");
    (job.facts.timeout_ms, job.facts.max_retries) = (Some(1_000), 0);
    let held = bed.holds("w", job, at(10)).await;
    let swept = bed.store.sweep(Sweep { limit: 10 }, at(1_010)).await.expect("the store answers");
    assert_eq!(swept.len(), 1);
    try_all(&held, Status::TimedOut, 1_011).await;
    // A sweep has forced the cancel that the holder did not follow.
    let held = bed.holds("w", bed.job("work"), at(2_000)).await;
    let wish = windlass_core::decide::Cancel { force_after_ms: 500, ..stop() };
    bed.cancels(held.job.id, wish, at(2_000)).await.expect("requested");
    assert_eq!(bed.store.sweep(Sweep { limit: 10 }, at(2_499)).await, Ok(vec![]));
    let swept = bed.store.sweep(Sweep { limit: 10 }, at(2_500)).await.expect("the store answers");
    assert_eq!(swept.len(), 1);
    try_all(&held, Status::Cancelled, 2_501).await;
}

/// Q2, M9
pub async fn run_times_and_reasons_outside_their_limits_are_refused(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    let far = [
        ("run_at", RunAt::At(Timestamp::from_micros(i64::MAX))),
        ("run_at", RunAt::At(Timestamp::from_micros(i64::MIN))),
        ("delay", RunAt::After(-1)),
        ("delay", RunAt::After(HORIZON_MS + 1)),
    ];
    for (field, run_at) in far {
        is_invalid(&bed.settles(&held, fails_until("x", run_at), at(1)).await, field);
        let permanent = Outcome::Fail { error: failure("x"), permanent: true, run_at: Some(run_at) };
        is_invalid(&bed.settles(&held, permanent, at(1)).await, field);
        is_invalid(&bed.settles(&held, Outcome::Release(run_at), at(1)).await, field);
    }
    for reason in ["x".repeat(TEXT_MAX_BYTES + 1), "a\0b".to_owned()] {
        let outcome = Outcome::Cancelled { reason: Some(reason) };
        is_invalid(&bed.settles(&held, outcome, at(1)).await, "reason");
    }
    let wait = |until| {
        crate::waits(windlass_core::Wait {
            waits_for: windlass_core::WaitFor::Timer,
            name: None,
            until,
            expires_at: None,
            since: 0,
        })
    };
    is_invalid(&bed.settles(&held, wait(None), at(1)).await, "until");
    let never = Some(Timestamp::from_micros(i64::MAX));
    is_invalid(&bed.settles(&held, wait(never), at(1)).await, "until");
    bed.is_unchanged(&before).await;
    assert!(Failure::new("x", &"x".repeat(65_537)).is_err() && Failure::new(&"x".repeat(129), "").is_err());
}

/// M6
pub async fn every_change_is_dated(bed: Bed) {
    let id = bed.a_job(at(1)).await;
    let row = async || bed.row(id).await;
    assert_eq!((row().await.created_at, row().await.updated_at), (time(1), time(1)));
    let held = bed.claims_one("w", at(2)).await;
    assert_eq!((row().await.updated_at, row().await.started_at), (time(2), at(2)));
    bed.settles(&held, fails_until("x", RunAt::Now), at(3)).await.expect("retried");
    assert_eq!((row().await.updated_at, row().await.finished_at), (time(3), None));
    let held = bed.claims_one("w", at(4)).await;
    assert_eq!(row().await.started_at, at(4), "of the latest attempt");
    bed.settles(&held, completes(), at(5)).await.expect("completed");
    let end = row().await;
    assert_eq!((end.created_at, end.updated_at, end.finished_at), (time(1), time(5), at(5)));
    let times: Vec<Timestamp> = bed.log(id).await.iter().map(|e| e.at).collect();
    assert_eq!(times, [time(1), time(2), time(3), time(4), time(5)]);
}

/// Q6, R1
pub async fn items_of_a_batch_stand_alone(bed: Bed) {
    bed.enqueue_all((0..6).map(|_| bed.job("work")).collect(), at(0)).await;
    let held = bed.claims("w", 6, at(0)).await;
    let item = |c: &Claimed, outcome| SettleItem { job: c.job.id, token: c.lease.token, outcome };
    bed.cancels(held[1].job.id, stop_at_once(), at(1)).await.expect("cancelled");
    let large = Payload::bytes("result", vec![0; PAYLOAD_MAX_BYTES + 1], usize::MAX).ok();
    let items = vec![
        item(&held[0], completes()),
        item(&held[1], completes()),
        SettleItem { job: bed.id(), ..item(&held[0], completes()) },
        SettleItem { token: held[0].lease.token, ..item(&held[2], completes()) },
        item(&held[3], Outcome::Release(RunAt::After(-1))),
        item(&held[4], Outcome::Complete(large)),
        item(&held[5], fails("later")),
    ];
    let answers = bed.store.settle(Settle { items }, at(2)).await.expect("the store answers");
    assert_eq!(answers[0], Ok(Done::Moved(3, Status::Completed)));
    assert_eq!(answers[1], Err(Refusal::Finished(Status::Cancelled)));
    assert_eq!(answers[2], Err(Refusal::NotFound));
    assert_eq!(answers[3], Err(Refusal::Mismatch));
    is_invalid(&answers[4], "delay");
    assert!(matches!(answers[5], Err(Refusal::Invalid(_))), "{:?}", answers[5]);
    assert_eq!(answers[6], Ok(Done::Moved(3, Status::Retry)));
    for c in [&held[2], &held[3], &held[4]] {
        assert_eq!(bed.snapshot(c.job.id).await.job, c.job, "still held, unchanged");
    }
    assert_eq!(bed.store.settle(Settle { items: vec![] }, at(3)).await, Ok(vec![]));
}

/// M8, Q7: what a child tells its parent, the parent knows when its own turn comes.
pub async fn relatives_in_a_batch_end_in_its_order(bed: Bed) {
    for (n, child_first) in [true, false].into_iter().enumerate() {
        let now = 1_000 * n as i64;
        let parent = bed.a_held_job("p", at(now)).await;
        let child = bed.holds("w", crate::wait::child(&bed, &parent), at(now)).await;
        let item = |c: &Claimed| SettleItem { job: c.job.id, token: c.lease.token, outcome: completes() };
        let mut items = vec![item(&child), item(&parent)];
        if !child_first {
            items.reverse();
        }
        let answers = bed.store.settle(Settle { items }, at(now + 1)).await.expect("the store answers");
        let versions = if child_first { [3, 5] } else { [4, 3] };
        assert_eq!(answers, versions.map(|version| Ok(Done::Moved(version, Status::Completed))));
        assert_eq!(bed.row(parent.job.id).await.children, i32::from(!child_first));
    }
}

/// Q6, M9: completions that come together, at the moment at which the lease of one is over and the timeout of another has
/// passed: these two are refused, and a millisecond before they are not.
pub async fn completions_together_keep_to_lease_and_timeout(bed: Bed) {
    for queue in ["late", "early"] {
        for n in 0..4 {
            let mut job = bed.job_in("work", queue);
            job.facts.lease_ms = (n == 1).then(|| LeaseMs::new(10_000).expect("a lease"));
            job.facts.timeout_ms = (n == 2).then_some(10_000);
            bed.enqueue(job, at(0)).await;
        }
    }
    let (early, late) =
        (bed.claims_from("w", &["early"], 4, at(0)).await, bed.claims_from("w", &["late"], 4, at(0)).await);
    for (queue, held, early) in [("early", early, true), ("late", late, false)] {
        let item =
            |held: &Claimed| SettleItem { job: held.job.id, token: held.lease.token, outcome: completes() };
        let items = held.iter().map(item).collect();
        let end = at(10_000 - i64::from(early));
        let answers = bed.store.settle(Settle { items }, end).await.expect("the store answers");
        let done = Ok(Done::Moved(3, Status::Completed));
        let late = if early { done.clone() } else { Err(Refusal::Expired) };
        assert_eq!(answers, [done.clone(), late.clone(), late, done], "{queue}");
    }
}

/// T3, Q6: jobs that complete together give back the keys that hold only while they live, and no others.
pub async fn completions_together_free_the_keys_of_the_living(bed: Bed) {
    let keyed = |n: usize| {
        let policy = [Policy::Active, Policy::Succeeded, Policy::Active, Policy::Forever][n];
        let mut job = bed.job("work");
        let key = key(&format!("k{n}"));
        job.facts.unique = Some(Unique { scope: Scope::Kind(name("work")), key, policy });
        job
    };
    bed.enqueue_all((0..4).map(keyed).collect(), at(0)).await;
    let held = bed.claims("w", 4, at(0)).await;
    let item =
        |held: &Claimed| SettleItem { job: held.job.id, token: held.lease.token, outcome: completes() };
    let items = held.iter().map(item).collect();
    let answers = bed.store.settle(Settle { items }, at(1)).await.expect("the store answers");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let again = bed.enqueue_all((0..4).map(keyed).collect(), at(2)).await;
    assert_eq!(again.iter().map(|sent| sent.existed).collect::<Vec<_>>(), [false, true, false, true]);
}

/// Q7, R1
pub async fn one_job_twice_in_a_batch_ends_once(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let item = |outcome| SettleItem { job: held.job.id, token: held.lease.token, outcome };
    let items = vec![item(completes()), item(completes()), item(fails("broken"))];
    let answers = bed.store.settle(Settle { items }, at(1)).await.expect("the store answers");
    let expected = [
        Ok(Done::Moved(3, Status::Completed)),
        Ok(Done::Already(3)),
        Err(Refusal::Finished(Status::Completed)),
    ];
    assert_eq!(answers, expected);
}

/// Q2
pub async fn a_batch_of_too_many_ends_is_refused_beyond_the_limit(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    let item = |job| SettleItem { job, token: held.lease.token, outcome: completes() };
    let mut items: Vec<SettleItem> = (0..BATCH_MAX).map(|_| item(bed.id())).collect();
    items.push(item(held.job.id));
    let answers = bed.store.settle(Settle { items }, at(1)).await.expect("the store answers");
    assert_eq!(answers.len(), BATCH_MAX + 1);
    assert!(answers[..BATCH_MAX].iter().all(|a| *a == Err(Refusal::NotFound)));
    assert!(matches!(answers[BATCH_MAX], Err(Refusal::Invalid(_))), "{:?}", answers[BATCH_MAX]);
    bed.is_unchanged(&before).await;
}

/// Q7, R1
pub async fn racing_repeats_of_a_completion_are_one(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let mut racers = JoinSet::new();
    for _ in 0..16 {
        let (bed, held) = (bed.clone(), held.clone());
        racers.spawn(async move { bed.settles(&held, completes(), at(1)).await });
    }
    let answers = racers.join_all().await;
    assert_eq!(count(&answers, &Ok(Done::Moved(3, Status::Completed))), 1);
    assert_eq!(count(&answers, &Ok(Done::Already(3))), 15);
    assert_eq!(bed.types(held.job.id).await, ["job_created", "job_claimed", "job_completed"]);
}

/// T7, R1
pub async fn a_forced_cancel_and_a_completion_never_both_win(bed: Bed) {
    for (held, cancelled, completed) in race_with_cancel(&bed, true).await {
        let status = bed.row(held).await.status;
        match status {
            Status::Completed => {
                assert_eq!(completed, Ok(Done::Moved(3, status)));
                assert_eq!(cancelled, Err(Refusal::Finished(status)));
            }
            _ => {
                assert_eq!(cancelled, Ok(Done::Moved(3, Status::Cancelled)));
                assert_eq!(completed, Err(Refusal::Finished(Status::Cancelled)));
            }
        }
    }
}

/// T7, R1
pub async fn a_requested_cancel_never_beats_a_completion(bed: Bed) {
    for (held, cancelled, completed) in race_with_cancel(&bed, false).await {
        assert_eq!(bed.row(held).await.status, Status::Completed);
        match cancelled {
            Ok(done) => {
                assert_eq!(done, Done::Moved(3, Status::Running), "it was only asked");
                assert_eq!(completed, Ok(Done::Moved(4, Status::Completed)));
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Finished(Status::Completed));
                assert_eq!(completed, Ok(Done::Moved(3, Status::Completed)));
            }
        }
    }
}

/// T5, Q4, Q6, R1
pub async fn a_stale_worker_and_the_new_holder_never_both_win(bed: Bed) {
    let mut racers = JoinSet::new();
    bed.enqueue_all((0..24).map(|_| bed.job("work")).collect(), at(0)).await;
    let stale = bed.claims("stale", 24, at(0)).await;
    let fresh = bed.claims("fresh", 24, at(30_000)).await;
    assert_eq!(fresh.len(), 24);
    for old in stale {
        let new = fresh.iter().find(|c| c.job.id == old.job.id).expect("reclaimed").clone();
        let by_old = bed.clone();
        let by_new = bed.clone();
        racers.spawn(async move {
            let old = async { by_old.settles(&old, completes(), at(30_001)).await };
            let new = async { by_new.settles(&new, fails_for_good("broken"), at(30_001)).await };
            tokio::join!(old, new)
        });
    }
    for (old, new) in racers.join_all().await {
        assert_eq!(new, Ok(Done::Moved(4, Status::Failed)));
        let refused = [Err(Refusal::Mismatch), Err(Refusal::Finished(Status::Failed))];
        assert!(refused.contains(&old), "{old:?}");
    }
}

/// Cancels and completes each of some held jobs at the same moment: the job and both answers.
async fn race_with_cancel(bed: &Bed, force: bool) -> Vec<(JobId, Answer, Answer)> {
    bed.enqueue_all((0..40).map(|_| bed.job("work")).collect(), at(0)).await;
    let mut racers = JoinSet::new();
    for (n, held) in bed.claims("w", 40, at(0)).await.into_iter().enumerate() {
        let (one, other) = (bed.clone(), bed.clone());
        let wish = if force { stop_at_once() } else { stop() };
        racers.spawn(async move {
            let id = held.job.id;
            let cancel = tokio::task::yield_now();
            let cancels = async move {
                if n % 2 == 0 {
                    cancel.await;
                }
                one.cancels(id, wish, at(1)).await
            };
            let completes = async move { other.settles(&held, completes(), at(1)).await };
            let (cancelled, completed) = tokio::join!(cancels, completes);
            (id, cancelled, completed)
        });
    }
    racers.join_all().await
}

fn count(answers: &[Answer], wanted: &Answer) -> usize {
    answers.iter().filter(|a| *a == wanted).count()
}
