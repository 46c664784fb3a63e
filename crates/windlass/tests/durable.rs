//! Steps, tools and what does not fit: what is on record is not done again. On the rig: no database, no waiting.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Task, task};
use windlass::testing::Rig;
use windlass::{Client, Context, HandlerError, InDoubt, JobId, Status, Worker};

/// How often something happened.
type Count = Arc<AtomicUsize>;

async fn bump(count: &AtomicUsize) -> Result<usize, std::io::Error> {
    Ok(count.fetch_add(1, Ordering::SeqCst) + 1)
}

fn fails_once(ctx: &Context<Count>) -> Result<(), HandlerError> {
    if ctx.fence() == 1 { Err(HandlerError::retry("the first attempt fails")) } else { Ok(()) }
}

fn worker<F, Fut>(rig: &Rig, handler: F) -> (Worker<Count>, Count)
where
    F: Fn(Task, Context<Count>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, HandlerError>> + Send + 'static,
{
    let count = Count::default();
    (Worker::new(rig.client().clone()).state(Arc::clone(&count)).queue("tasks", 1).handle(handler), count)
}

/// Runs everything, also what is due only after a backoff.
async fn run_out<S: Send + Sync + 'static>(rig: &Rig, worker: &Worker<S>) {
    for _ in 0..20 {
        rig.drain(worker).await;
        rig.advance(Duration::from_secs(600));
    }
}

async fn enqueue(client: &Client) -> JobId {
    client.enqueue(task("t")).await.expect("a job").id
}

async fn error_of(rig: &Rig, id: JobId) -> (Status, String, String) {
    let view = rig.view(id).await;
    let error: serde_json::Value = view.error.expect("an error").0.parse().expect("JSON");
    let word = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    (view.job.status, word("code"), word("message"))
}

/// J11
#[tokio::test]
async fn a_recorded_step_is_not_run_again() {
    let rig = Rig::new();
    let (worker, count) = worker(&rig, |_, ctx| async move {
        let n = ctx.step("once", || bump(ctx.state())).await?;
        fails_once(&ctx)?;
        let m = ctx.step("after", || bump(ctx.state())).await?;
        Ok(format!("{n} {m}"))
    });
    let id = enqueue(rig.client()).await;
    run_out(&rig, &worker).await;
    assert_eq!(rig.output::<Task>(id).await, "1 2");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_step_that_failed_is_run_again() {
    let rig = Rig::new();
    let (worker, _) = worker(&rig, |_, ctx| async move {
        let tried = ctx.step("tries", || async {
            let n = bump(ctx.state()).await?;
            if n < 3 { Err(HandlerError::retry(n)) } else { Ok(n) }
        });
        Ok(tried.await?.to_string())
    });
    let id = enqueue(rig.client()).await;
    run_out(&rig, &worker).await;
    assert_eq!(rig.output::<Task>(id).await, "3");
}

#[tokio::test]
async fn a_name_used_twice_fails_for_good() {
    let rig = Rig::new();
    let (worker, _) = worker(&rig, |_, ctx| async move {
        ctx.step("same", || bump(ctx.state())).await?;
        ctx.step("same", || bump(ctx.state())).await?;
        Ok(String::new())
    });
    let id = enqueue(rig.client()).await;
    rig.drain(&worker).await;
    let (status, code, message) = error_of(&rig, id).await;
    assert_eq!((status, code.as_str()), (Status::Failed, "name_used_twice"), "{message}");
}

#[tokio::test]
async fn a_record_of_another_type_says_how_to_go_on() {
    let rig = Rig::new();
    let (worker, _) = worker(&rig, |_, ctx| async move {
        if ctx.fence() == 1 {
            ctx.step("value", || async { Ok::<_, HandlerError>("text".to_owned()) }).await?;
        }
        fails_once(&ctx)?;
        Ok(ctx.step("value", || async { Ok::<_, HandlerError>(7) }).await?.to_string())
    });
    let id = enqueue(rig.client()).await;
    run_out(&rig, &worker).await;
    let (status, code, message) = error_of(&rig, id).await;
    assert_eq!((status, code.as_str()), (Status::Failed, "step_unreadable"));
    assert!(message.contains("rename the step"), "{message}");
}

/// What a handler does that dies in the middle of a call: the call never comes back, and then the lease is over.
async fn die_in_tool(rig: &Rig, worker: &Worker<Count>, count: &AtomicUsize) {
    let called = async {
        while count.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        ran = rig.run_one(worker) => panic!("the call came back: {ran:?}"),
        () = called => {}
    }
    rig.advance(Duration::from_secs(31));
}

/// Calls a tool that never answers in the first attempt.
async fn dying_call(ctx: &Context<Count>) -> Result<usize, std::io::Error> {
    let n = bump(ctx.state()).await?;
    if ctx.fence() == 1 {
        std::future::pending::<()>().await;
    }
    Ok(n)
}

/// J11: called and never returned is in doubt, and the handler chooses.
#[tokio::test]
async fn a_tool_in_doubt_fails_until_a_person_redrives_it() {
    let rig = Rig::new();
    let (worker, count) =
        worker(&rig, |_, ctx| async move { Ok(ctx.tool("pay", &5, || dying_call(&ctx)).await?.to_string()) });
    let id = enqueue(rig.client()).await;
    die_in_tool(&rig, &worker, &count).await;
    rig.drain(&worker).await;
    let (status, code, message) = error_of(&rig, id).await;
    assert_eq!((status, code.as_str()), (Status::Failed, "tool_in_doubt"), "{message}");
    assert_eq!(count.load(Ordering::SeqCst), 1, "it was not called again");
    rig.client().redrive(id).await.unwrap();
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(id).await, "2");
}

#[tokio::test]
async fn a_tool_in_doubt_is_repeated_where_that_does_no_harm() {
    let rig = Rig::new();
    let (worker, count) = worker(&rig, |_, ctx| async move {
        Ok(ctx.tool("pay", &5, || dying_call(&ctx)).in_doubt(InDoubt::Repeat).await?.to_string())
    });
    let id = enqueue(rig.client()).await;
    die_in_tool(&rig, &worker, &count).await;
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(id).await, "2");
}

#[tokio::test]
async fn a_tool_in_doubt_is_taken_for_done_where_the_outside_says_so() {
    for acted in [true, false] {
        let rig = Rig::new();
        let (worker, count) = worker(&rig, move |_, ctx| async move {
            let found = || async move { Ok::<_, std::io::Error>(acted.then_some(77)) };
            let n = ctx.tool("pay", &5, || dying_call(&ctx)).check(found).await?;
            // A later attempt has it from the record.
            if ctx.fence() == 2 {
                return Err(HandlerError::retry("once more"));
            }
            Ok(n.to_string())
        });
        let id = enqueue(rig.client()).await;
        die_in_tool(&rig, &worker, &count).await;
        run_out(&rig, &worker).await;
        assert_eq!(rig.output::<Task>(id).await, if acted { "77" } else { "2" });
        assert_eq!(count.load(Ordering::SeqCst), if acted { 1 } else { 2 });
    }
}

#[tokio::test]
async fn a_tool_that_answers_with_an_error_is_not_in_doubt() {
    let rig = Rig::new();
    let (worker, count) = worker(&rig, |_, ctx| async move {
        let call = || async {
            let n = bump(ctx.state()).await?;
            if n < 3 { Err(HandlerError::retry("the line is dead").code("line")) } else { Ok(n) }
        };
        Ok(ctx.tool("call", &"args", call).await?.to_string())
    });
    let id = enqueue(rig.client()).await;
    run_out(&rig, &worker).await;
    assert_eq!((rig.output::<Task>(id).await.as_str(), count.load(Ordering::SeqCst)), ("3", 3));
    let events = rig.client().events(id).await.unwrap();
    let failed: Vec<_> = events.iter().filter(|e| e.what.type_name() == "tool_failed").collect();
    assert_eq!(failed.len(), 2);
    let said: serde_json::Value = failed[0].payload.as_ref().unwrap().parse().unwrap();
    assert_eq!((said["name"].as_str(), said["code"].as_str()), (Some("call"), Some("line")));
}

#[tokio::test]
async fn what_is_too_large_fails_for_good_and_names_size_and_limit() {
    let too_large = || "x".repeat(1 << 20);
    let rig = Rig::new();
    let (worker, _) = worker(&rig, move |job, ctx| async move {
        match job.text.as_str() {
            "result" => Ok(too_large()),
            "checkpoint" => ctx.checkpoint(&too_large()).await.map(|()| String::new()),
            _ => ctx.step("value", || async { Ok::<_, HandlerError>(too_large()) }).await,
        }
    });
    for what in ["result", "checkpoint", "value"] {
        let id = rig.client().enqueue(task(what)).await.unwrap().id;
        rig.drain(&worker).await;
        let (status, code, message) = error_of(&rig, id).await;
        assert_eq!((status, code.as_str()), (Status::Failed, "too_large"), "{message}");
        let names =
            message.contains(what) && message.contains("1048578 bytes") && message.contains("1048576");
        assert!(names, "{message}");
    }
}

#[tokio::test]
async fn a_payload_that_does_not_read_fails_for_good_with_the_reason() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Old {
        number: u32,
    }
    impl windlass::Job for Old {
        const KIND: &str = "task";
        const QUEUE: &str = "tasks";
        type Output = ();
    }
    let rig = Rig::new();
    let (worker, _) = worker(&rig, |_, _| async { Ok(String::new()) });
    let id = rig.client().enqueue(Old { number: 7 }).await.unwrap().id;
    let ran = rig.run_one(&worker).await.unwrap();
    assert_eq!((ran.id, ran.attempt, ran.status), (id, 1, Status::Failed));
    let (_, code, message) = error_of(&rig, id).await;
    assert_eq!(code, "payload_unreadable");
    assert!(message.contains("missing field `text`"), "{message}");
}

#[tokio::test]
async fn a_checkpoint_progress_notes_and_lines_are_kept() {
    let rig = Rig::new();
    let (worker, _) = worker(&rig, |_, ctx| async move {
        let from: u32 = ctx.checkpoint_value()?.unwrap_or(0);
        ctx.progress(40, "reading").await?;
        ctx.checkpoint(&(from + 10)).await?;
        assert_eq!(ctx.checkpoint_value::<u32>()?, Some(from + 10));
        ctx.log("a line").await?;
        ctx.set_metadata("color", "red").await?;
        ctx.note("plan_generated", &["a", "b"]).await?;
        fails_once(&ctx)?;
        Ok(from.to_string())
    });
    let id = enqueue(rig.client()).await;
    run_out(&rig, &worker).await;
    assert_eq!(rig.output::<Task>(id).await, "10");
    let view = rig.view(id).await;
    assert_eq!((view.job.stage.as_deref(), &view.metadata["color"]), (Some("reading"), &"red".into()));
    assert_eq!(view.checkpoint.unwrap().parse::<u32>().unwrap(), 20);
    let types: Vec<_> = rig.client().events(id).await.unwrap();
    assert_eq!(types.iter().filter(|e| e.what.type_name() == "plan_generated").count(), 2);
    let read = windlass_store::ReadLogs { job: id, after: 0, limit: 10 };
    assert_eq!(rig.client().store().logs(read, None).await.unwrap().len(), 2);
}
