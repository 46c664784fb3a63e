//! Steps and waits: what is on record is not done again, and a job that waits holds no worker.

mod bed;

use bed::{Bed, Bell, Running, error_of, handler, json, name, new_job};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use windlass_core::step::StepState;
use windlass_core::wait::{Decision, Voter, WakeOutcome};
use windlass_core::{Backoff, Payload, Status, WaitFor};
use windlass_engine::{Attempt, HandlerError, Report};
use windlass_store::CastVote;

/// A step as a caller would build it: recorded once, given back afterwards.
async fn step(attempt: &Attempt, step: &str, ran: &AtomicUsize) -> Result<Option<Payload>, HandlerError> {
    let step = name(step);
    attempt.take_name(&step)?;
    if let Some(known) = attempt.recorded(&step).await?
        && let StepState::Ended { value } = known.state
    {
        return Ok(value);
    }
    attempt.step_started(&step, false, None).await?;
    let value = Some(json(&format!("{}", ran.fetch_add(1, Ordering::AcqRel))));
    attempt.step_finished(&step, false, value.clone()).await?;
    Ok(value)
}

fn at_once(facts: &mut windlass_core::Facts) {
    facts.backoff = Some(Backoff { base_ms: 0, max_ms: 0, multiplier: 1.0, jitter: false });
}

on_every_store! {
    /// J11, M8: an attempt that comes back passes over the steps and waits that have ended, by name.
    #[test]
    async fn a_resumed_run_passes_over_what_has_ended(bed: Bed) {
        let (ran, bell) = (Arc::new(AtomicUsize::new(0)), Bell::default());
        let (counted, hung) = (Arc::clone(&ran), bell.clone());
        let acts = handler(move |attempt| {
            let (ran, rope) = (Arc::clone(&counted), hung.hang_up());
            async move {
                let _rope = rope;
                assert_eq!(step(&attempt, "one", &ran).await?, Some(json("0")));
                let slept = attempt.sleep(&name("first"), Duration::from_millis(20)).await?;
                assert_eq!((slept.waited_for, slept.outcome), (WaitFor::Timer, WakeOutcome::Fired));
                assert_eq!(step(&attempt, "two", &ran).await?, Some(json("1")));
                let came = attempt.wait_for(&name("go"), None).await?;
                assert_eq!((came.outcome, came.payload), (WakeOutcome::Signalled, Some(json("\"now\""))));
                attempt.sleep(&name("second"), Duration::from_millis(20)).await?;
                let same = attempt.ended_wait(WaitFor::Timer, &name("first")).await?;
                assert_eq!(same.map(|wake| wake.outcome), Some(WakeOutcome::Fired));
                Ok(Some(json("\"done\"")))
            }
        });
        let running = Running::start(bed.worker().handle("acts", acts));
        let id = bed.put("acts").await;
        bed.until(id, "waits for go", |view| {
            view.job.status == Status::Waiting && view.job.waiting_for == Some(WaitFor::Signal)
        }).await;
        assert_eq!(bell.rang(), 2, "nothing of it is left in the worker");
        bed.signal(id, "go", "\"now\"").await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!(view.result, Some(json("\"done\"")));
        assert_eq!((view.job.attempt, view.job.retries, view.job.crashes), (4, 0, 0));
        assert_eq!(ran.load(Ordering::Acquire), 2, "each step once");
        assert_eq!(bed.count(id, "job_waiting").await, 3, "each wait once");
        running.stop().await;
    }

    /// J10, M8: a pending wait ends the attempt, whatever the handler does about it.
    #[test]
    async fn a_pending_wait_cannot_be_swallowed(bed: Bed) {
        let past = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&past);
        let sly = handler(move |attempt| {
            let past = Arc::clone(&counted);
            async move {
                let (woken, go) = (attempt.wake().is_some(), name("go"));
                tokio::select! {
                    biased;
                    ended = attempt.wait_for(&go, None) => { ended?; }
                    () = std::future::ready(()) => { past.fetch_add(1, Ordering::AcqRel); }
                }
                Ok(Some(json(&woken.to_string())))
            }
        });
        let running = Running::start(bed.worker().handle("sly", sly));
        let id = bed.put("sly").await;
        bed.until_is(id, Status::Waiting).await;
        assert_eq!(past.load(Ordering::Acquire), 1, "it went past, and it did not help");
        bed.signal(id, "go", "null").await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!(view.result, Some(json("true")));
        running.stop().await;
    }

    /// M8: a signal that came before is not waited for, and one that never comes ends the wait in time.
    #[test]
    async fn an_early_signal_counts_and_a_wait_expires(bed: Bed) {
        let waits = handler(async |attempt| {
            let early = attempt.wait_for(&name("early"), None).await?;
            let never = attempt.wait_for(&name("never"), Some(Duration::from_millis(50))).await?;
            assert_eq!(early.outcome, WakeOutcome::Signalled);
            assert_eq!(never.outcome, WakeOutcome::Expired);
            Ok(early.payload)
        });
        let id = bed.put("waits").await;
        bed.signal(id, "early", "1").await;
        let running = Running::start(bed.worker().handle("waits", waits));
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!(view.result, Some(json("1")));
        running.stop().await;
    }

    /// J11: a name used twice in one attempt is an error, not another's value.
    #[test]
    async fn a_name_used_twice_is_an_error(bed: Bed) {
        let steps = handler(async |attempt| {
            attempt.take_name(&name("same"))?;
            attempt.take_name(&name("same"))?;
            Ok(None)
        });
        let waits = handler(async |attempt| {
            attempt.sleep(&name("same"), Duration::ZERO).await?;
            // A step and another kind of wait may have the name.
            attempt.take_name(&name("same"))?;
            attempt.join(&name("same"), None).await?;
            attempt.sleep(&name("same"), Duration::ZERO).await?;
            Ok(None)
        });
        let running = Running::start(bed.worker().handle("steps", steps).handle("waits", waits));
        for kind in ["steps", "waits"] {
            let id = bed.put(kind).await;
            let view = bed.until_is(id, Status::Failed).await;
            let (code, message) = error_of(&view);
            assert!(code == "name_used_twice" && message.contains("same"), "{code}: {message}");
        }
        running.stop().await;
    }

    /// J11: a tool that was called and never returned is reported as in doubt.
    #[test]
    async fn a_tool_that_never_returned_is_in_doubt(bed: Bed) {
        let calls = handler(async |attempt| {
            let tool = name("pay");
            if let Some(known) = attempt.recorded(&tool).await? {
                assert_eq!(known.state, StepState::Begun { args: Some(json("7")) });
                return Ok(Some(json("\"in doubt\"")));
            }
            attempt.step_started(&tool, true, Some(json("7"))).await?;
            Err(HandlerError::retry("died in the middle"))
        });
        let running = Running::start(bed.worker().handle("calls", calls));
        let id = bed.put_with("calls", at_once).await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!(view.result, Some(json("\"in doubt\"")));
        running.stop().await;
    }

    /// M8: an approval frees the worker and lets the job go on; what was decided is not asked again.
    #[test]
    async fn an_approval_is_asked_and_awaited(bed: Bed) {
        let (send, links) = tokio::sync::mpsc::unbounded_channel();
        let asks = handler(move |attempt| {
            let send = send.clone();
            async move {
                let gate = name("send");
                if attempt.ended_wait(WaitFor::Approval, &gate).await?.is_none() {
                    let asked = attempt.ask(&gate, "send to all?", vec![], 1, None).await?;
                    let _ = send.send((asked.approval.id, asked.link.expect("a link")));
                }
                let wake = attempt.approval(&gate).await?;
                assert_eq!(wake.outcome, WakeOutcome::Approved);
                Ok(None)
            }
        });
        let mut links = links;
        let running = Running::start(bed.worker().handle("asks", asks));
        let id = bed.put("asks").await;
        bed.until_is(id, Status::Waiting).await;
        let (approval, link) = links.recv().await.unwrap();
        let voter = Voter::Link { token: link.to_text(), key: None };
        let vote = CastVote { approval, decision: Decision::Approve, voter, reason: None };
        bed.store.vote(vote, None).await.unwrap().unwrap();
        bed.until_is(id, Status::Completed).await;
        running.stop().await;
        assert!(links.try_recv().is_err(), "asked once");
    }

    /// J10, J11: children are spawned once, however often the parent begins, and joined without a worker.
    #[test]
    async fn children_are_spawned_once_and_joined(bed: Bed) {
        let store = Arc::clone(&bed.store);
        let parent = handler(move |attempt| {
            let store = Arc::clone(&store);
            async move {
            let children = ["a", "b", "c"].map(|text| {
                // Another priority in every attempt: what does the same work and is there already stays as it is.
                let mut child = new_job("child");
                child.payload = Some(json("1"));
                child.facts.priority = attempt.number();
                child.id = attempt.child_id(&name(text));
                child
            });
            let spawned = attempt.spawn(children.to_vec()).await?;
            assert!(spawned.iter().all(|child| child.existed == (attempt.number() > 1)), "{spawned:?}");
            assert_eq!(spawned.iter().map(|c| c.id).collect::<Vec<_>>(), children.map(|c| c.id));
            if attempt.number() == 1 {
                return Err(HandlerError::retry("died after the spawn"));
            }
            let joined = attempt.join(&name("all"), None).await?;
            assert_eq!(joined.outcome, WakeOutcome::Joined);
            let mut sum = 0;
            for child in spawned {
                let view = store.job(child.id, None).await?.expect("a child");
                sum += view.result.expect("a result").parse::<i64>()?;
            }
            Ok(Some(json(&sum.to_string())))
            }
        });
        let child = handler(async |attempt| Ok(attempt.payload().cloned()));
        let running = Running::start(bed.worker().handle("parent", parent).handle("child", child));
        let id = bed.put_with("parent", at_once).await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!(view.result, Some(json("3")), "all three from the first attempt");
        running.stop().await;
    }

    /// T4, J11: what an attempt reports is kept, and its notes and log lines stand where they belong.
    #[test]
    async fn an_attempt_reports(bed: Bed) {
        let reports = handler(async |attempt| {
            let last = attempt.checkpoint_value();
            if last.is_some() {
                return Ok(last);
            }
            let metadata = Some(serde_json::Map::from_iter([("seen".to_owned(), true.into())]));
            let stage = Some("half".to_owned());
            attempt.report(Report { progress: Some(50), stage, metadata, ..Report::default() }).await?;
            attempt.checkpoint(json("{\"page\":3}")).await?;
            assert_eq!(attempt.checkpoint_value(), Some(json("{\"page\":3}")));
            attempt.log(vec!["one".into(), "two".into()]).await?;
            attempt.note(&name("plan_generated"), Some(json("[1]"))).await?;
            assert!(attempt.now() >= attempt.job().started_at.unwrap());
            let refused = attempt.progress(101, None).await.unwrap_err();
            assert!(refused.is_permanent() && refused.message().contains("101"), "{refused}");
            Err(HandlerError::retry("once more"))
        });
        let running = Running::start(bed.worker().handle("reports", reports));
        let id = bed.put_with("reports", at_once).await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!(view.result, Some(json("{\"page\":3}")));
        assert_eq!((view.job.stage.as_deref(), view.metadata.get("seen")), (Some("half"), Some(&true.into())));
        assert_eq!(bed.count(id, "plan_generated").await, 1);
        let read = windlass_store::ReadLogs { job: id, after: 0, limit: 10 };
        let lines = bed.store.logs(read, None).await.unwrap();
        assert_eq!(lines.iter().map(|line| line.line.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        running.stop().await;
    }
}

/// J10: a task that a handler left behind is told that its attempt has ended, and leaks nothing.
#[test]
fn what_a_handler_leaves_behind_is_told() {
    bed::wait_for(async {
        let bed = Bed::memory().await;
        let (send, mut told) = tokio::sync::mpsc::unbounded_channel();
        let leaves = handler(move |attempt| {
            let send = send.clone();
            async move {
                if attempt.number() == 1 {
                    let left = attempt.clone();
                    let mut tasks = tokio::task::JoinSet::new();
                    tasks.spawn(async move {
                        let waited = left.wait_for(&name("go"), None).await;
                        let late = left.progress(50, None).await;
                        let _ = send.send((waited.map(|_| ()), late));
                    });
                    tasks.detach_all();
                    std::future::pending::<()>().await;
                }
                Ok(None)
            }
        });
        let running = Running::start(bed.worker().handle("leaves", leaves));
        let id = bed.put("leaves").await;
        bed.until_is(id, Status::Waiting).await;
        let (waited, late) = told.recv().await.unwrap();
        assert_eq!(waited.unwrap_err().error_code(), "attempt_ended");
        assert_eq!(late.unwrap_err().error_code(), "attempt_ended");
        bed.signal(id, "go", "null").await;
        bed.until_is(id, Status::Completed).await;
        running.stop().await;
    });
}

/// J11: after a redrive from the start everything is done anew, children included.
#[test]
fn a_redrive_from_the_start_begins_anew() {
    bed::wait_for(async {
        let bed = Bed::memory().await;
        let (send, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let acts = handler(move |attempt| {
            let send = send.clone();
            async move {
                let recorded = attempt.recorded(&name("one")).await?.is_some();
                send.send((recorded, attempt.child_id(&name("child"))))?;
                attempt.step_finished(&name("one"), false, None).await?;
                Err(HandlerError::permanent("no"))
            }
        });
        let running = Running::start(bed.worker().handle("acts", acts));
        let id = bed.put("acts").await;
        for from_start in [false, true] {
            bed.until_is(id, Status::Failed).await;
            let run_at = windlass_core::RunAt::Now;
            let actor = windlass_core::Actor::api();
            let redrive = windlass_store::Redrive {
                payload: None,
                job: id,
                run_at,
                from_start,
                actor,
                key: None,
                expected_version: None,
            };
            bed.store.redrive(redrive, None).await.unwrap().unwrap();
        }
        let mut next = async || seen.recv().await.unwrap();
        let (first, second, third) = (next().await, next().await, next().await);
        assert_eq!((first.0, second.0, third.0), (false, true, false), "forgotten only from the start");
        assert!(first.1 == second.1 && first.1 != third.1);
        running.stop().await;
    });
}
