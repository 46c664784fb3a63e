//! Ordinary code that used to lose or repeat work: loops, `join!`, timeouts of the caller's own. On the rig.

mod support;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Add, Task, task};
use windlass::testing::Rig;
use windlass::{Backoff, Context, HandlerError, InDoubt, JobId, Refusal, Status, Worker};

type Count = Arc<AtomicUsize>;

/// A worker whose handler does the task, and which adds numbers for it.
fn worker<F, Fut>(rig: &Rig, handler: F) -> (Worker<Count>, Count)
where
    F: Fn(Task, Context<Count>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, HandlerError>> + Send + 'static,
{
    let count = Count::default();
    let worker =
        Worker::new(rig.client().clone()).state(Arc::clone(&count)).queue("tasks", 1).queue("default", 8);
    (worker.handle(handler).handle(|Add(a, b), _ctx| async move { Ok(a + b) }), count)
}

/// Runs everything, also what is due only after a backoff or a sleep.
async fn run_out<S: Send + Sync + 'static>(rig: &Rig, worker: &Worker<S>) {
    for _ in 0..10 {
        rig.drain(worker).await;
        rig.advance(Duration::from_secs(600));
    }
}

async fn run_one<F, Fut>(handler: F) -> (Rig, JobId, Count)
where
    F: Fn(Task, Context<Count>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, HandlerError>> + Send + 'static,
{
    let rig = Rig::new();
    let (worker, count) = worker(&rig, handler);
    let id = rig.client().enqueue(task("t")).await.expect("a job").id;
    run_out(&rig, &worker).await;
    (rig, id, count)
}

async fn code_of(rig: &Rig, id: JobId) -> (Status, String) {
    let view = rig.view(id).await;
    let error: serde_json::Value = view.error.expect("an error").0.parse().expect("JSON");
    (view.job.status, error["code"].as_str().unwrap_or_default().to_owned())
}

/// J12: one name in a loop is an error, and not one child with three equal answers.
#[tokio::test]
async fn a_child_name_used_twice_fails_for_good() {
    let (rig, id, _) = run_one(|_, ctx| async move {
        for n in 1..=3 {
            ctx.spawn("child", Add(n, n)).await?;
        }
        Ok(String::new())
    })
    .await;
    assert_eq!(code_of(&rig, id).await, (Status::Failed, "name_used_twice".into()));
}

/// J12: another payload under a name that an earlier attempt used is an error; the same one is the same child.
#[tokio::test]
async fn a_child_that_differs_between_attempts_fails_for_good() {
    let (rig, id, _) = run_one(|_, ctx| async move {
        ctx.spawn("same", Add(1, 1)).priority(ctx.attempt().number()).await?;
        ctx.spawn("other", Add(1, ctx.fence())).await?;
        Err(HandlerError::retry("again"))
    })
    .await;
    assert_eq!(code_of(&rig, id).await, (Status::Failed, "child_differs".into()));
}

/// J12: a child that a later attempt adds is waited for, under the same name of the join too.
#[tokio::test]
async fn a_join_answers_only_for_children_that_ended() {
    let (rig, id, _) = run_one(|_, ctx| async move {
        let mut children = vec![ctx.spawn("a", Add(1, 2)).await?];
        if ctx.wake().is_some() {
            // As if the code had changed while the job waited.
            children.push(ctx.spawn("b", Add(3, 4)).await?);
        }
        let sums = ctx.join("all", &children).await?;
        Ok(format!("{sums:?}"))
    })
    .await;
    assert_eq!(rig.output::<Task>(id).await, "[Ok(3), Ok(7)]");
}

/// J11: a wait that is asked for while a step runs lets the step end and be recorded.
#[tokio::test]
async fn a_wait_beside_a_step_does_not_drop_it() {
    let (rig, id, count) = run_one(|_, ctx| async move {
        let step = ctx.step("slow", || async {
            ctx.state().fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            ctx.state().fetch_add(100, Ordering::SeqCst);
            Ok::<_, HandlerError>(7)
        });
        let tool = ctx.tool("pay", &1, || async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok::<_, HandlerError>(8)
        });
        let (n, m, ()) =
            tokio::try_join!(step, async { tool.await }, ctx.sleep("nap", Duration::from_secs(60)))?;
        Ok(format!("{n} {m}"))
    })
    .await;
    assert_eq!(rig.output::<Task>(id).await, "7 8");
    assert_eq!(count.load(Ordering::SeqCst), 101, "begun once, ended once");
    assert_eq!(rig.view(id).await.job.attempt, 2, "one wait");
}

/// J11: in a race that a step wins, the wait is given up and the handler goes on.
#[tokio::test]
async fn a_wait_that_lost_a_race_is_withdrawn() {
    let (rig, id, _) = run_one(|_, ctx| async move {
        let step = ctx.step("quick", || async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, HandlerError>(7)
        });
        tokio::select! {
            n = step => Ok(n?.to_string()),
            slept = ctx.sleep("nap", Duration::from_secs(60)) => slept.map(|()| "slept".to_owned()),
        }
    })
    .await;
    assert_eq!(rig.output::<Task>(id).await, "7");
    assert_eq!(rig.view(id).await.job.attempt, 1);
}

async fn never_answers(count: &AtomicUsize) -> Result<usize, HandlerError> {
    count.fetch_add(1, Ordering::SeqCst);
    Ok(tokio::time::timeout(Duration::from_millis(5), std::future::pending()).await?)
}

/// J10: a call that nobody heard the answer of is in doubt, and is asked about before it is made again.
#[tokio::test]
async fn a_call_that_timed_out_is_in_doubt() {
    let (rig, id, count) =
        run_one(
            |_, ctx| async move { Ok(ctx.tool("pay", &1, || never_answers(ctx.state())).await?.to_string()) },
        )
        .await;
    assert_eq!(code_of(&rig, id).await, (Status::Failed, "tool_in_doubt".into()));
    assert_eq!(count.load(Ordering::SeqCst), 1, "not paid twice");

    let (rig, id, count) = run_one(|_, ctx| async move {
        let paid = ctx
            .tool("pay", &1, || never_answers(ctx.state()))
            .check(|| async { Ok::<_, HandlerError>(Some(ctx.state().load(Ordering::SeqCst) + 41)) });
        Ok(paid.await?.to_string())
    })
    .await;
    assert_eq!((rig.output::<Task>(id).await, count.load(Ordering::SeqCst)), ("42".into(), 1));
}

/// J10: the caller says which of its errors leave a doubt; the others are answers.
#[tokio::test]
async fn a_caller_says_what_leaves_a_doubt() {
    let (rig, id, count) = run_one(|_, ctx| async move {
        let call = || async {
            let n = ctx.state().fetch_add(1, Ordering::SeqCst);
            Err::<(), _>(std::io::Error::other(if n == 0 { "busy" } else { "gateway gave up" }))
        };
        ctx.tool("pay", &1, call).doubt_if(|e| e.to_string().contains("gave up")).await?;
        Ok(String::new())
    })
    .await;
    assert_eq!(code_of(&rig, id).await, (Status::Failed, "tool_in_doubt".into()));
    assert_eq!(count.load(Ordering::SeqCst), 2, "the first answer was one");
    let (rig, id, count) = run_one(|_, ctx| async move {
        let call = || async {
            ctx.state().fetch_add(1, Ordering::SeqCst);
            Err::<(), _>(HandlerError::in_doubt("who knows"))
        };
        ctx.tool("pay", &1, call).in_doubt(InDoubt::Repeat).await?;
        Ok(String::new())
    })
    .await;
    assert_eq!((code_of(&rig, id).await.0, count.load(Ordering::SeqCst)), (Status::Failed, 4));
}

/// Writes what it does not read.
#[derive(Debug, Serialize, Deserialize)]
struct OneWay {
    #[serde(skip_serializing)]
    secret: String,
}

/// J11: a value that a later attempt could not read is refused when it is written.
#[tokio::test]
async fn a_value_that_does_not_read_back_is_refused_at_once() {
    let (rig, id, _) = run_one(|_, ctx| async move {
        let value =
            ctx.step("odd", || async { Ok::<_, HandlerError>(OneWay { secret: "s".into() }) }).await?;
        Ok(value.secret)
    })
    .await;
    assert_eq!(code_of(&rig, id).await, (Status::Failed, "step_unreadable".into()));
    assert_eq!(rig.view(id).await.job.attempt, 1);
}

/// M12: what a handler says of its failure is read back typed.
#[tokio::test]
async fn details_of_a_failure_read_back_typed() {
    let (rig, id, _) = run_one(|_, _| async {
        Err(HandlerError::permanent("busy").code("smtp_busy").details(&("mx1", 421)))
    })
    .await;
    let error = rig.client().wait::<Task>(id).await.unwrap_err();
    let windlass::Error::Ended(ended) = error else { panic!("{error}") };
    assert_eq!(
        (ended.code.as_str(), ended.details::<(String, u32)>()),
        ("smtp_busy", Some(("mx1".into(), 421)))
    );
    assert_eq!(ended.details::<u32>(), None);
}

/// Waits for as long as there is, in the way that the job names.
async fn longest_wait(job: Task, ctx: Context) -> Result<String, HandlerError> {
    match job.text.as_str() {
        "snooze" => Err(HandlerError::snooze(Duration::MAX)),
        "retry_after" => Err(HandlerError::retry_after(Duration::MAX, "not today")),
        "rate_limited" => Err(HandlerError::rate_limited(Duration::MAX)),
        "sleep" => ctx.sleep("long", Duration::MAX).await.map(|()| String::new()),
        "race" => ctx.race().timer(Duration::MAX).await.map(|winner| format!("{winner:?}")),
        _ => {
            let step = ctx.step("step", || async { Ok::<_, HandlerError>("in time".to_owned()) });
            step.timeout(Duration::MAX).retry(Backoff::default(), 1).await
        }
    }
}

/// (library) Two handlers of one kind are an error before anything runs, and nothing is too long for a duration.
#[tokio::test]
async fn what_a_worker_is_given_is_checked_when_it_starts() {
    let client = windlass::connect("memory:").await.unwrap();
    let add = |Add(a, b), _ctx: Context| async move { Ok(a + b) };
    let worker = Worker::new(client.clone()).queue("default", 1).handle(add).handle(add);
    let error = worker.run_until(async {}).await.unwrap_err().to_string();
    assert!(error.contains("add") && error.contains("two handlers"), "{error}");

    let longest = Worker::new(client.clone())
        .queue("default", 1)
        .lease(Duration::MAX)
        .cancel_grace(Duration::MAX)
        .shutdown_deadline(Duration::MAX)
        .handle(|_: Add, ctx: Context| async move {
            ctx.wait_for::<i64>("never").expires(Duration::MAX).await?;
            Ok(0)
        });
    let id = client
        .enqueue(Add(1, 2))
        .lease(Duration::MAX)
        .grace(Duration::MAX)
        .timeout(Duration::MAX)
        .unique("k")
        .unique_for(Duration::MAX)
        .await
        .unwrap()
        .id;
    let waits = async {
        while client.job(id).await.unwrap().unwrap().job.status != Status::Waiting {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.cancel(id).force_after(Duration::MAX).await.unwrap();
    };
    longest.run_until(waits).await.unwrap();
    let worker = Worker::new(client.clone()).queue("tasks", 4).poll_every(Duration::MAX).handle(longest_wait);
    let waits = async {
        for what in ["snooze", "retry_after", "sleep", "race", "step", "rate_limited"] {
            let id = client.enqueue(task(what)).await.unwrap().id;
            let status = async || client.job(id).await.unwrap().unwrap().job.status;
            if what == "step" {
                assert_eq!(client.wait::<Task>(id).await.unwrap(), "in time");
                continue;
            }
            let expected = match what {
                "sleep" | "race" => Status::Waiting,
                _ => Status::Retry,
            };
            let ended = async {
                while client.job(id).await.unwrap().unwrap().job.attempt == 0 || status().await != expected {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
            assert!(ended.is_ok(), "{what}: {:?}", client.job(id).await.unwrap().unwrap().job);
            client.cancel(id).await.unwrap();
        }
    };
    worker.run_until(waits).await.unwrap();
    let late = client.enqueue(Add(1, 2)).delay(Duration::MAX).await.unwrap();
    assert_eq!(client.job(late.id).await.unwrap().unwrap().job.status, Status::Pending);
    assert!(!matches!(client.signal(id, "s", ()).await, Err(windlass::Error::Refused(Refusal::NotFound))));
}
