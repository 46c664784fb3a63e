//! How attempts end: every way a handler can return, panic, wait too long or be stopped.

mod bed;

use bed::{Bed, Bell, DEADLINE, Running, error_of, handler, json, name, new_job};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use windlass_core::decide::Cancel;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::{Actor, Backoff, EventKind, Facts, Outcome, Payload, Status};
use windlass_engine::{HandlerError, Policy, run_once};
use windlass_store::{ClaimMany, fresh};

fn at_once(facts: &mut Facts) {
    facts.backoff = Some(Backoff { base_ms: 0, max_ms: 0, multiplier: 1.0, jitter: false });
}

fn wish() -> Cancel {
    Cancel { actor: Actor::api(), reason: None, force: false, force_after_ms: 30_000 }
}

on_every_store! {
    /// Q14, J12: what is enqueued is run once, with its payload, and its result is kept.
    #[test]
    async fn jobs_are_run_and_completed(bed: Bed) {
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        let echo = handler(move |attempt| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { Ok(attempt.payload().cloned()) }
        });
        let running = Running::start(bed.worker().handle("echo", echo));
        let jobs: Vec<_> = (0..300).map(|_| new_job("echo")).collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        bed.put_all(jobs).await;
        for id in &ids {
            let view = bed.until_is(*id, Status::Completed).await;
            assert_eq!(view.result, Some(json("{\"n\":1}")));
            assert_eq!(view.job.attempt, 1);
        }
        running.stop().await;
        assert_eq!(ran.load(Ordering::Relaxed), 300);
        assert!(bed.store.workers((), None).await.unwrap().is_empty(), "it takes its name off the list");
    }

    /// Q14: a kind that nobody here handles is left to others.
    #[test]
    async fn unknown_kinds_are_untouched(bed: Bed) {
        let stranger = bed.put("stranger").await;
        let running = Running::start(bed.worker().handle("known", handler(async |_| Ok(None))));
        let known = bed.put("known").await;
        bed.until_is(known, Status::Completed).await;
        running.stop().await;
        let view = bed.job(stranger).await;
        assert_eq!((view.job.status, view.job.version), (Status::Pending, 1), "nothing happened to it");
    }

    /// M13, Q14: an error that may pass is retried while the budget lasts.
    #[test]
    async fn an_error_is_retried_then_dead(bed: Bed) {
        let fails = handler(async |_| Err(std::io::Error::other("the line is dead").into()));
        let running = Running::start(bed.worker().handle("fails", fails));
        let id = bed.put_with("fails", |facts| {
            facts.max_retries = 2;
            at_once(facts);
        }).await;
        let view = bed.until_is(id, Status::Failed).await;
        assert_eq!((view.job.attempt, view.job.retries), (3, 2));
        assert_eq!(error_of(&view), ("failed".into(), "the line is dead".into()));
        running.stop().await;
    }

    /// M13, Q14: an error that cannot pass makes the job dead at once.
    #[test]
    async fn a_permanent_error_is_dead_at_once(bed: Bed) {
        let fails = handler(async |_| Err(HandlerError::permanent("no such customer").code("unknown")));
        let running = Running::start(bed.worker().handle("fails", fails));
        let id = bed.put("fails").await;
        let view = bed.until_is(id, Status::Failed).await;
        assert_eq!(view.job.attempt, 1);
        assert_eq!(error_of(&view), ("unknown".into(), "no such customer".into()));
        running.stop().await;
    }

    /// Q14: a panic is a failure, of that attempt and of nobody else.
    #[test]
    async fn a_panic_is_a_failure(bed: Bed) {
        let panics = handler(|attempt| {
            // Before the first await and after it.
            assert!(attempt.number() != 1, "early");
            async move {
                tokio::task::yield_now().await;
                assert!(attempt.number() != 2, "late");
                Ok(None)
            }
        });
        let running = Running::start(bed.worker().handle("panics", panics));
        let id = bed.put_with("panics", at_once).await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!((view.job.attempt, view.job.retries), (3, 2));
        let said: Vec<String> = bed.log(id).await.iter().filter_map(|e| e.payload.as_ref())
            .map(|p| String::from_utf8_lossy(p.as_bytes()).into_owned()).filter(|t| t.contains("panicked")).collect();
        assert!(said.len() == 2 && said[0].contains("early") && said[1].contains("late"), "{said:?}");
        running.stop().await;
    }

    /// Q14: an attempt that takes too long is recorded as that and retried while the budget lasts.
    #[test]
    async fn an_attempt_that_takes_too_long_is_timed_out(bed: Bed) {
        let hangs = handler(async |_| std::future::pending().await);
        let running = Running::start(bed.worker().handle("hangs", hangs));
        let id = bed.put_with("hangs", |facts| {
            facts.timeout_ms = Some(150);
            facts.max_retries = 1;
            at_once(facts);
        }).await;
        let view = bed.until_is(id, Status::TimedOut).await;
        assert_eq!(view.job.retries, 1);
        // By what is on record, not by attempts: a slow machine may claim it and let it go again before its handler begins.
        assert_eq!(bed.count(id, "job_timed_out").await, 2);
        running.stop().await;
    }

    /// M13: a snooze comes back and uses no retry.
    #[test]
    async fn a_snooze_uses_no_retry(bed: Bed) {
        let snoozes = handler(async |attempt| {
            if attempt.number() < 3 { Err(HandlerError::snooze(Duration::from_millis(30))) } else { Ok(None) }
        });
        let running = Running::start(bed.worker().handle("snoozes", snoozes));
        let id = bed.put("snoozes").await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!((view.job.attempt, view.job.retries), (3, 0));
        running.stop().await;
    }

    /// F17, M13: what a service refuses comes back, uses no retry, and holds its queue, as it has no key.
    #[test]
    async fn a_rate_limit_uses_no_retry_and_holds_the_queue(bed: Bed) {
        let limited = handler(async |attempt| {
            attempt.charge(3).await?;
            if attempt.number() < 2 { Err(HandlerError::rate_limited(Duration::from_millis(50))) } else { Ok(None) }
        });
        let running = Running::start(bed.worker().handle("limited", limited));
        let id = bed.put("limited").await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!((view.job.attempt, view.job.retries), (2, 0));
        let log = bed.log(id).await;
        let released = log.iter().find_map(|event| match &event.what {
            EventKind::JobReleased(released) => Some((event.at, released.held_until)),
            _ => None,
        });
        let (at, until) = released.expect("it was given back");
        assert_eq!(until, Some(at.plus_ms(50)));
        let again = log.iter().filter(|event| matches!(event.what, EventKind::JobClaimed)).nth(1);
        assert!(again.is_some_and(|event| Some(event.at) >= until), "{log:#?}");
        running.stop().await;
    }

    /// Q14, M13: a handler may say when to try again.
    #[test]
    async fn a_retry_comes_at_the_time_given(bed: Bed) {
        let fails = handler(async |attempt| {
            if attempt.number() > 1 { return Ok(None); }
            Err(HandlerError::retry_after(Duration::from_secs(3_600), "later"))
        });
        let running = Running::start(bed.worker().handle("fails", fails));
        let id = bed.put("fails").await;
        let view = bed.until_is(id, Status::Retry).await;
        let wait = view.job.due_at.unwrap().as_micros() - view.job.updated_at.as_micros();
        assert_eq!(wait, 3_600_000_000);
        assert_eq!(view.job.retries, 1);
        running.stop().await;
    }

    /// M9, Q14: what the job does not say, its kind says, also to the worker.
    #[test]
    async fn a_policy_of_the_kind_gives_timeout_and_backoff(bed: Bed) {
        let backoff = Backoff { base_ms: 7_200_000, max_ms: 7_200_000, multiplier: 1.0, jitter: false };
        let policy = Policy { timeout_ms: Some(100), backoff: Some(backoff), ..Policy::default() };
        let acts = handler(async |attempt| {
            if attempt.kind().as_str() == "hangs" { std::future::pending::<()>().await; }
            Err(HandlerError::retry("not today"))
        });
        let worker = bed.worker().handle("hangs", acts.clone()).handle("fails", acts);
        let running = Running::start(worker.kind_policy("hangs", policy).kind_policy("fails", policy));
        let hangs = bed.put_with("hangs", |facts| facts.max_retries = 0).await;
        let fails = bed.put("fails").await;
        bed.until_is(hangs, Status::TimedOut).await;
        let view = bed.until_is(fails, Status::Retry).await;
        let wait = view.job.due_at.unwrap().as_micros() - view.job.updated_at.as_micros();
        assert_eq!(wait, 7_200_000_000);
        running.stop().await;
    }

    /// M9: a timeout of the kind counts from the handler's begin, so that one that is shorter than a claim takes still lets it
    /// begin.
    #[test]
    async fn a_timeout_of_the_kind_counts_from_the_begin(bed: Bed) {
        let policy = Policy { timeout_ms: Some(1), ..Policy::default() };
        let hangs = handler(async |_| std::future::pending().await);
        let running = Running::start(bed.worker().handle("hangs", hangs).kind_policy("hangs", policy));
        let id = bed.put_with("hangs", |facts| facts.max_retries = 0).await;
        bed.until_is(id, Status::TimedOut).await;
        running.stop().await;
    }

    /// T8: a result that is too large fails the job for good and says how large it may be.
    #[test]
    async fn a_result_that_is_too_large_is_told(bed: Bed) {
        let large = handler(async |_| Ok(Some(Payload::stored(vec![b' '; PAYLOAD_MAX_BYTES + 1], false))));
        let running = Running::start(bed.worker().handle("large", large));
        let id = bed.put("large").await;
        let view = bed.until_is(id, Status::Failed).await;
        assert!(error_of(&view).1.contains("at most 16777216 bytes"), "{:?}", view.error);
        assert_eq!(view.job.attempt, 1);
        running.stop().await;
    }

    /// T7: a handler that hears of a cancel stops in its own time.
    #[test]
    async fn a_cancel_reaches_the_handler(bed: Bed) {
        let stops = handler(async |attempt| {
            attempt.cancelled().await;
            assert!(attempt.is_cancelled());
            Err(HandlerError::cancelled())
        });
        let running = Running::start(bed.worker().lease(Duration::from_secs(4)).handle("stops", stops));
        let id = bed.put("stops").await;
        bed.until_is(id, Status::Running).await;
        bed.store.cancel(windlass_store::Cancel { job: id, wish: wish(), expected_version: None }, None).await.unwrap().unwrap();
        let view = bed.until_is(id, Status::Cancelled).await;
        let last = bed.log(id).await.pop().unwrap();
        assert!(last.actor.worker_id().is_some(), "by its worker, not by force: {last:?}");
        assert_eq!(view.job.attempt, 1);
        running.stop().await;
    }

    /// T7: one that does not is dropped after the grace.
    #[test]
    async fn a_handler_deaf_to_a_cancel_is_dropped(bed: Bed) {
        let bell = Bell::default();
        let hung = bell.clone();
        let deaf = handler(move |_| {
            let rope = hung.hang_up();
            async move {
                let _rope = rope;
                std::future::pending().await
            }
        });
        let worker = bed.worker().lease(Duration::from_secs(4)).cancel_grace(Duration::from_millis(50));
        let running = Running::start(worker.handle("deaf", deaf));
        let id = bed.put("deaf").await;
        bed.until_is(id, Status::Running).await;
        bed.store.cancel(windlass_store::Cancel { job: id, wish: wish(), expected_version: None }, None).await.unwrap().unwrap();
        bed.until_is(id, Status::Cancelled).await;
        assert_eq!(bell.rang(), 1, "the future was dropped before it was settled");
        running.stop().await;
    }

    /// M9: what a queue's defaults say, its jobs fall back to.
    #[test]
    async fn a_queues_defaults_reach_its_worker(bed: Bed) {
        let defaults = Policy { timeout_ms: Some(100), ..Policy::default() };
        let request = windlass_store::PutQueue { defaults: Some(defaults), ..windlass_store::PutQueue::new(name("default"), Actor::api()) };
        bed.store.put_queue(request, None).await.unwrap().unwrap();
        let hangs = handler(async |_| std::future::pending().await);
        let running = Running::start(bed.worker().handle("hangs", hangs));
        // Whoever is on the list knows the defaults; a job that was quicker would have no timeout.
        bed.until_registered().await;
        let id = bed.put_with("hangs", |facts| facts.max_retries = 0).await;
        bed.until_is(id, Status::TimedOut).await;
        running.stop().await;
    }

    /// Q14: one claimed job, run by hand to its outcome.
    #[test]
    async fn one_job_is_run_by_hand(bed: Bed) {
        bed.put("echo").await;
        let request = ClaimMany::new(bed::who("hand"), vec![name("default")], 1, fresh::secret());
        let claimed = bed.store.claim(request, None).await.unwrap().pop().unwrap();
        let echo = handler(async |attempt| {
            assert_eq!(attempt.now(), attempt.job().started_at.unwrap(), "time stands still");
            Ok(attempt.payload().cloned())
        });
        let outcome = tokio::time::timeout(DEADLINE, run_once(Arc::clone(&bed.store), claimed, &echo)).await.unwrap();
        assert_eq!(outcome, Some(Outcome::Complete(Some(json("{\"n\":1}")))));
    }
}
