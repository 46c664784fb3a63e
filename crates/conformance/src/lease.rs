//! How leases are kept and lost.

use crate::{
    Bed, at, completes, fails, fails_for_good, name, note, report, sleeps_until, step_begins, stop, time,
};
use tokio::task::JoinSet;
use windlass_core::decide::Cancel as Wish;
use windlass_core::limits::BATCH_MAX;
use windlass_core::{Done, JobId, LeaseMs, NewJob, Outcome, Refusal, RunAt, Status, Timestamp, Token};
use windlass_store::{Append, ClaimMany, Claimed, Extend, Extended, Now, Progress, RecordStep, WriteLogs};

/// This module's laws, as tests.
#[macro_export]
macro_rules! lease_laws {
    ($($make:tt)*) => {
        $crate::law_tests!([$($make)*], lease:
            a_renewal_moves_the_end_and_nothing_else,
            a_renewal_never_shortens_a_lease,
            a_lease_holds_to_its_last_microsecond,
            every_verb_of_a_holder_is_refused_in_the_same_order,
            an_expired_lease_is_never_revived,
            a_lost_lease_is_lost_for_every_verb,
            no_renewal_passes_the_timeout_of_the_attempt,
            past_the_timeout_only_the_timeout_may_be_told,
            a_holder_learns_of_a_cancel_with_every_call,
            no_renewal_passes_a_forced_cancel,
            one_jobs_token_never_opens_another,
            leases_are_renewed_each_for_itself,
            a_batch_of_too_many_renewals_is_refused_beyond_the_limit,
            lease_durations_outside_the_limits_cannot_be_made,
            a_renewal_and_a_reclaim_never_both_win,
            one_moment_written_ahead_freezes_no_lease_and_no_delay,
        );
    };
}

/// J8, Q4
pub async fn a_renewal_moves_the_end_and_nothing_else(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    let renewed = bed.extends(&held, 60_000, at(10_000)).await;
    assert_eq!(renewed, Ok(Extended { expires_at: time(70_000), cancel_requested: false }));
    let after = bed.snapshot(held.job.id).await;
    assert_eq!((after.job.lease_expires_at, after.job.due_at), (at(70_000), at(70_000)));
    assert_eq!(after.job.folded(), before.job.folded(), "no version, no time of change");
    assert_eq!(after.log, before.log, "no event");
    assert_eq!(bed.claims("v", 1, at(69_999)).await, [], "it holds");
    bed.settles(&held, completes(), at(69_999)).await.expect("the same token is still good");
}

/// J8
pub async fn a_renewal_never_shortens_a_lease(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let renewed = bed.extends(&held, 1_000, at(1)).await.expect("renewed");
    assert_eq!(renewed.expires_at, time(30_000));
    assert_eq!(bed.row(held.job.id).await.lease_expires_at, at(30_000));
}

/// Q4, Q6, J8
pub async fn a_lease_holds_to_its_last_microsecond(bed: Bed) {
    for (n, verb) in VERBS.into_iter().enumerate() {
        let start = 100_000 * n as i64;
        let held = bed.holds("w", bed.job("work"), at(start)).await;
        let last = Some(Timestamp::from_micros(time(start + 30_000).as_micros() - 1));
        assert_eq!(tried(&bed, verb, held.job.id, held.lease.token, last).await, None, "{verb}");
        let held = bed.holds("w", bed.job("work"), at(start + 40_000)).await;
        let before = bed.snapshot(held.job.id).await;
        let over = at(start + 70_000);
        let refused = tried(&bed, verb, held.job.id, held.lease.token, over).await;
        assert_eq!(refused, Some(Refusal::Expired), "{verb}");
        bed.is_unchanged(&before).await;
    }
}

/// Q6, J6, J8, T4
pub async fn every_verb_of_a_holder_is_refused_in_the_same_order(bed: Bed) {
    let nobody = bed.id();
    let stranger = |job: JobId| Bed::secret(99).token(job, 1);
    for verb in VERBS {
        let refused = tried(&bed, verb, nobody, stranger(nobody), at(0)).await;
        assert_eq!(refused, Some(Refusal::NotFound), "{verb}");
    }
    for status in Status::ALL {
        let id = bed.a_job_that_is(status, 0).await;
        let before = bed.snapshot(id).await;
        for verb in VERBS {
            let expected = match status {
                Status::Running => Refusal::Mismatch,
                status if status.is_terminal() => Refusal::Finished(status),
                status => Refusal::NotLeased(status),
            };
            let refused = tried(&bed, verb, id, stranger(id), at(1_000)).await;
            assert_eq!(refused, Some(expected), "{verb} while {status}");
        }
        if status == Status::Running {
            for verb in VERBS {
                let refused = tried(&bed, verb, id, stranger(id), at(31_000)).await;
                assert_eq!(refused, Some(Refusal::Expired), "{verb}: expired comes before mismatch");
            }
        }
        bed.is_unchanged(&before).await;
    }
}

/// J8, Q6
pub async fn an_expired_lease_is_never_revived(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    for now in [at(30_000), at(30_001), at(86_400_000)] {
        assert_eq!(bed.extends(&held, 60_000, now).await, Err(Refusal::Expired));
    }
    bed.is_unchanged(&before).await;
    assert_eq!(bed.claims_one("v", at(30_001)).await.job.id, held.job.id, "it is anybody's");
}

/// J8, Q6, J6
pub async fn a_lost_lease_is_lost_for_every_verb(bed: Bed) {
    let lost = bed.a_held_job("a", at(0)).await;
    let held = bed.claims_one("b", at(30_000)).await;
    assert_eq!(held.job.id, lost.job.id);
    let before = bed.snapshot(held.job.id).await;
    for verb in VERBS {
        let refused = tried(&bed, verb, lost.job.id, lost.lease.token, at(30_001)).await;
        assert_eq!(refused, Some(Refusal::Mismatch), "{verb}");
    }
    bed.is_unchanged(&before).await;
    bed.settles(&held, completes(), at(30_002)).await.expect("the new holder is not disturbed");
    for verb in VERBS {
        let refused = tried(&bed, verb, lost.job.id, lost.lease.token, at(30_003)).await;
        assert_eq!(refused, Some(Refusal::Finished(Status::Completed)), "{verb}");
    }
}

/// J8, M5
pub async fn no_renewal_passes_the_timeout_of_the_attempt(bed: Bed) {
    let mut job = bed.job("work");
    (job.facts.timeout_ms, job.facts.grace_ms) = (Some(40_000), 5_000);
    let held = bed.holds("w", job, at(0)).await;
    assert_eq!(bed.extends(&held, 15_000, at(20_000)).await.map(|e| e.expires_at), Ok(time(35_000)));
    assert_eq!(bed.extends(&held, 30_000, at(20_000)).await.map(|e| e.expires_at), Ok(time(40_000)));
    assert_eq!(bed.extends(&held, 86_400_000, at(39_999)).await.map(|e| e.expires_at), Ok(time(40_000)));
    assert_eq!(bed.row(held.job.id).await.due_at, at(45_000), "the grace comes on top");
    assert_eq!(bed.extends(&held, 30_000, at(40_000)).await, Err(Refusal::Expired));
}

/// J8, Q6, T5
pub async fn past_the_timeout_only_the_timeout_may_be_told(bed: Bed) {
    let mut job = bed.job("work");
    // In the grace the lease is still held, but the attempt has taken too long.
    (job.facts.timeout_ms, job.facts.grace_ms, job.facts.max_retries) = (Some(10_000), 5_000, 0);
    let held = bed.holds("w", job, at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    for verb in VERBS {
        let refused = tried(&bed, verb, held.job.id, held.lease.token, at(10_000)).await;
        assert_eq!(refused, Some(Refusal::Expired), "{verb}");
    }
    bed.is_unchanged(&before).await;
    let done = bed.settles(&held, Outcome::TimeOut, at(10_001)).await;
    assert_eq!(done, Ok(Done::Moved(3, Status::TimedOut)));
}

/// T7, J8
pub async fn a_holder_learns_of_a_cancel_with_every_call(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let seen = || Append { token: Some(held.lease.token), ..note(id, "seen") };
    let half = || Progress { progress: Some(50), ..report(&held) };
    let told = async |now: i64| {
        let told = [
            bed.extends(&held, 30_000, at(now)).await.expect("renewed").cancel_requested,
            bed.reports(half(), at(now)).await.expect("reported").cancel_requested,
            bed.appends(seen(), at(now)).await.expect("noted").cancel_requested,
            bed.records(step_begins(&held, "s"), at(now)).await.expect("recorded").cancel_requested,
        ];
        assert!(told.iter().all(|t| *t == told[0]), "all calls tell the same: {told:?}");
        told[0]
    };
    assert!(!told(1).await, "nobody asked yet");
    bed.cancels(id, stop(), at(2)).await.expect("requested");
    assert!(told(3).await, "now it should stop");
}

/// T7, J8
pub async fn no_renewal_passes_a_forced_cancel(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    bed.cancels(held.job.id, Wish { force_after_ms: 5_000, ..stop() }, at(1_000)).await.expect("requested");
    let renewed = bed.extends(&held, 30_000, at(2_000)).await;
    assert_eq!(renewed, Ok(Extended { expires_at: time(6_000), cancel_requested: true }));
    assert_eq!(bed.extends(&held, 30_000, at(6_000)).await, Err(Refusal::Expired));
    assert_eq!(bed.settles(&held, completes(), at(6_000)).await, Err(Refusal::Expired), "late");
    assert_eq!(bed.claims("v", 5, at(6_000)).await, [], "whoever claims buries it");
    assert_eq!(bed.row(held.job.id).await.status, Status::Cancelled);
}

/// J8, Q6, R1
pub async fn one_jobs_token_never_opens_another(bed: Bed) {
    bed.enqueue_all(vec![bed.job("work"), bed.job("work")], at(0)).await;
    let request = ClaimMany::new(crate::who("w"), vec![name("default")], 2, Bed::secret(1));
    let held = bed.store.claim(request, at(0)).await.expect("the store answers");
    assert_ne!(held[0].lease.token, held[1].lease.token, "one claim, one secret, two tokens");
    for (mine, other) in [(0, 1), (1, 0)] {
        let before = bed.snapshot(held[mine].job.id).await;
        for verb in VERBS {
            let refused = tried(&bed, verb, held[mine].job.id, held[other].lease.token, at(1)).await;
            assert_eq!(refused, Some(Refusal::Mismatch), "{verb}");
        }
        bed.is_unchanged(&before).await;
    }
}

/// J8, Q6
pub async fn leases_are_renewed_each_for_itself(bed: Bed) {
    bed.enqueue_all((0..5).map(|_| bed.job("work")).collect(), at(0)).await;
    let held = bed.claims("w", 5, at(0)).await;
    bed.settles(&held[1], completes(), at(1)).await.expect("completed");
    bed.settles(&held[2], fails("later"), at(1)).await.expect("retried");
    let nobody = bed.id();
    let lease = |c: &Claimed| (c.job.id, c.lease.token);
    let leases = vec![
        lease(&held[0]),
        lease(&held[1]),
        (nobody, held[0].lease.token),
        lease(&held[2]),
        (held[3].job.id, held[0].lease.token),
        lease(&held[4]),
        lease(&held[0]),
    ];
    let request = Extend { leases, extend_ms: LeaseMs::new(60_000).expect("a lease") };
    let answers = bed.store.extend(request, at(10_000)).await.expect("the store answers");
    let renewed = Ok(Extended { expires_at: time(70_000), cancel_requested: false });
    let expected = [
        renewed.clone(),
        Err(Refusal::Finished(Status::Completed)),
        Err(Refusal::NotFound),
        Err(Refusal::NotLeased(Status::Retry)),
        Err(Refusal::Mismatch),
        renewed.clone(),
        renewed,
    ];
    assert_eq!(answers, expected);
    assert_eq!(bed.row(held[3].job.id).await.lease_expires_at, at(30_000), "not renewed");
    assert_eq!(bed.row(held[4].job.id).await.lease_expires_at, at(70_000), "renewed after the bad ones");
    let nothing = Extend { leases: vec![], extend_ms: LeaseMs::DEFAULT };
    assert_eq!(bed.store.extend(nothing, at(10_001)).await, Ok(vec![]));
}

/// Q2, J8
pub async fn a_batch_of_too_many_renewals_is_refused_beyond_the_limit(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let mut leases = vec![(bed.id(), held.lease.token); BATCH_MAX];
    leases.push((held.job.id, held.lease.token));
    let request = Extend { leases, extend_ms: LeaseMs::DEFAULT };
    let answers = bed.store.extend(request, at(1)).await.expect("the store answers");
    assert_eq!(answers.len(), BATCH_MAX + 1);
    assert!(answers[..BATCH_MAX].iter().all(|a| *a == Err(Refusal::NotFound)));
    assert!(matches!(answers[BATCH_MAX], Err(Refusal::Invalid(_))), "{:?}", answers[BATCH_MAX]);
    assert_eq!(bed.row(held.job.id).await.lease_expires_at, at(30_000));
}

/// Q10
pub async fn lease_durations_outside_the_limits_cannot_be_made(_bed: Bed) {
    for ms in [i64::MIN, -1, 0, 999, 86_400_001, i64::MAX] {
        let refused = LeaseMs::new(ms).expect_err("out of limits");
        assert_eq!(refused.field, "lease");
        let read: Result<LeaseMs, _> = serde_json::from_str(&ms.to_string());
        assert!(read.is_err(), "nor be read from a document: {ms}");
    }
    assert_eq!(LeaseMs::new(1_000).map(LeaseMs::get), Ok(1_000));
    assert_eq!(LeaseMs::new(86_400_000).map(LeaseMs::get), Ok(86_400_000));
    assert_eq!(LeaseMs::DEFAULT.get(), 30_000);
}

/// J8, Q5, R1
pub async fn a_renewal_and_a_reclaim_never_both_win(bed: Bed) {
    for (now, reclaimed) in [(29_999, 0), (30_000, 1)] {
        let held = bed.holds("a", NewJob { id: bed.id(), ..bed.job("work") }, at(0)).await;
        let start = bed.row(held.job.id).await.updated_at;
        let now = Some(start.plus_ms(now));
        let mut racers = JoinSet::new();
        for n in 0..24 {
            let (bed, held) = (bed.clone(), held.clone());
            racers.spawn(async move {
                if n % 2 == 0 {
                    (bed.extends(&held, 30_000, now).await.is_ok(), 0)
                } else {
                    (false, bed.claims(&format!("w{n}"), 1, now).await.len())
                }
            });
        }
        let ends = racers.join_all().await;
        let (renewals, claims) =
            (ends.iter().filter(|e| e.0).count(), ends.iter().map(|e| e.1).sum::<usize>());
        // A claim passes over what another call has locked just then; it is looked at again within a second.
        let missed = usize::from(claims == 0 && reclaimed == 1);
        let later = bed.claims("later", missed, now.map(|now| now.plus_ms(1_000))).await.len();
        assert_eq!(claims + later, reclaimed, "over is over, and live is live");
        assert_eq!(renewals, if reclaimed == 0 { 12 } else { 0 });
        bed.cancels(held.job.id, crate::stop_at_once(), now).await.expect("out of the way");
    }
}

/// Everything only a live lease may do.
const VERBS: [&str; 11] =
    ["extend", "complete", "fail", "die", "release", "wait", "append", "progress", "step", "end step", "log"];

/// Tries a holder's verb under a token: why it was refused, if it was.
async fn tried(bed: &Bed, verb: &str, job: JobId, token: Token, now: Now) -> Option<Refusal> {
    let settle = async |outcome| bed.settles_by(job, token, outcome, now).await.err();
    let say = Progress {
        job,
        token,
        progress: Some(1),
        stage: None,
        metadata: None,
        checkpoint: None,
        charge: None,
        key: None,
    };
    let step = RecordStep { job, token, name: name("s"), tool: false, finished: false, payload: None };
    match verb {
        "extend" => bed.extends_by(job, token, 30_000, now).await.err(),
        "complete" => settle(completes()).await,
        "fail" => settle(fails("broken")).await,
        "die" => settle(fails_for_good("broken")).await,
        "release" => settle(Outcome::Release(RunAt::Now)).await,
        "wait" => settle(sleeps_until(0)).await,
        "append" => bed.appends(Append { token: Some(token), ..note(job, "seen") }, now).await.err(),
        "progress" => bed.reports(say, now).await.err(),
        "step" => bed.records(step, now).await.err(),
        "end step" => bed.records(RecordStep { finished: true, ..step }, now).await.err(),
        "log" => {
            let request = WriteLogs { job, token, lines: vec!["hello".into()] };
            bed.store.write_logs(request, now).await.expect("the store answers").err()
        }
        other => panic!("no verb {other}"),
    }
}

/// Q4, J8: whoever wrote with a clock that was an hour ahead, leases are over and delays pass as if nobody had.
pub async fn one_moment_written_ahead_freezes_no_lease_and_no_delay(bed: Bed) {
    let ahead = Some(windlass_store::fresh::wall_clock().plus_ms(3_600_000));
    bed.enqueue(bed.job_in("work", "elsewhere"), ahead).await;
    let mut leased = bed.job("work");
    leased.facts.lease_ms = Some(LeaseMs::new(1_000).expect("the shortest lease"));
    let mut delayed = bed.job("work");
    delayed.facts.run_at = RunAt::After(300);
    let mut wanted = std::collections::HashSet::from([leased.id, delayed.id]);
    bed.enqueue(leased, None).await;
    let lost = bed.claims_one("w", None).await;
    bed.enqueue(delayed, None).await;
    // A deadline only so that a store that stands still is not waited for during the whole hour.
    for _ in 0..600 {
        for claimed in bed.claims("v", 10, None).await {
            wanted.remove(&claimed.job.id);
        }
        if wanted.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(wanted.is_empty(), "never claimed again: {wanted:?}");
    let refused = bed.settles(&lost, completes(), None).await;
    assert!(refused.is_err(), "the lost lease settles nothing: {refused:?}");
}
