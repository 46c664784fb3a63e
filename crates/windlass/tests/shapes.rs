//! Shapes of jobs and handlers: derived jobs, steps that are tried again, signals in a loop, deployments.

mod support;

use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Add, Task, task};
use windlass::serde_json::{Value, json};
use windlass::testing::Rig;
use windlass::{Backoff, Context, HandlerError, Job, JobId, OnUnreadable, Status, UniquePolicy, Worker};

/// What happened, in order.
type Book = Arc<Mutex<Vec<String>>>;

fn write(book: &Book, line: impl Into<String>) {
    book.lock().expect("unpoisoned").push(line.into());
}

fn worker<F, Fut>(rig: &Rig, handler: F) -> (Worker<Book>, Book)
where
    F: Fn(Task, Context<Book>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, HandlerError>> + Send + 'static,
{
    let book = Book::default();
    (Worker::new(rig.client().clone()).state(Arc::clone(&book)).queue("tasks", 1).handle(handler), book)
}

async fn run_out<S: Send + Sync + 'static>(rig: &Rig, worker: &Worker<S>) {
    for _ in 0..10 {
        rig.drain(worker).await;
        rig.advance(Duration::from_secs(600));
    }
}

async fn events(rig: &Rig, id: JobId, type_name: &str) -> usize {
    let all = rig.client().events(id).await.expect("the log");
    all.iter().filter(|event| event.what.type_name() == type_name).count()
}

/// At once.
const NOW: Backoff = Backoff { base_ms: 0, max_ms: 0, multiplier: 1.0, jitter: false };

/// J11: a step's own retries use no attempt, and are on record.
#[tokio::test]
async fn a_step_is_tried_again_within_its_attempt() {
    let rig = Rig::new();
    let (worker, book) = worker(&rig, |_, ctx| async move {
        let step = ctx.step("flaky", || async {
            write(ctx.state(), "try");
            match ctx.state().lock().unwrap().len() {
                1 => Err(HandlerError::retry("busy").code("busy")),
                2 => Ok(None),
                _ => Ok(Some(7)),
            }
        });
        Ok(format!("{:?}", step.retry(NOW, 5).await?))
    });
    let id = rig.client().enqueue(task("t")).await.unwrap().id;
    run_out(&rig, &worker).await;
    assert_eq!(rig.output::<Task>(id).await, "None");
    let lines = book.lock().expect("unpoisoned").len();
    assert_eq!((lines, rig.view(id).await.job.attempt), (2, 1));
    assert_eq!(events(&rig, id, "step_retried").await, 1);
}

/// J11: a try that takes too long has failed; what no try can help is not tried again.
#[tokio::test]
async fn a_step_has_a_time_of_its_own() {
    let rig = Rig::new();
    let (worker, book) = worker(&rig, |_, ctx| async move {
        let step = ctx.step("hangs", || async {
            write(ctx.state(), "try");
            std::future::pending::<Result<(), HandlerError>>().await
        });
        let late = step.timeout(Duration::from_millis(5)).retry(NOW, 2).await.unwrap_err();
        assert_eq!(late.error_code(), "step_timed_out");
        let never = ctx.step("never", || async { Err::<(), _>(HandlerError::permanent("no")) });
        never.retry(NOW, 2).await?;
        Ok(String::new())
    });
    let id = rig.client().enqueue(task("t")).await.unwrap().id;
    run_out(&rig, &worker).await;
    assert_eq!((rig.view(id).await.job.status, book.lock().unwrap().len()), (Status::Failed, 3));
    assert_eq!(events(&rig, id, "step_retried").await, 2);
}

/// M8: signals are taken in order, each once, by a loop.
#[tokio::test]
async fn a_loop_takes_signals_in_order() {
    let rig = Rig::new();
    let (worker, _) = worker(&rig, |_, ctx| async move {
        let mut heard = String::new();
        loop {
            let word: String = ctx.recv("word").await?;
            if word == "end" {
                return Ok(heard);
            }
            heard.push_str(&word);
        }
    });
    let id = rig.client().enqueue(task("t")).await.unwrap().id;
    for word in ["a", "b"] {
        rig.client().signal(id, "word", word).await.unwrap();
    }
    run_out(&rig, &worker).await;
    for word in ["c", "end"] {
        rig.client().signal(id, "word", word).await.unwrap();
        run_out(&rig, &worker).await;
    }
    assert_eq!(rig.output::<Task>(id).await, "abc");
}

/// Everything that a type can say of its jobs.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "report", queue = "reports", output = u64, priority = 3, max_retries = 7)]
#[job(timeout = Duration::from_secs(30), backoff = NOW, unique = UniquePolicy::Active)]
#[job(version = 2, upgrade = from_month)]
struct Report {
    year: u32,
    month: u32,
}

fn from_month(from: u32, value: Value) -> Result<Value, HandlerError> {
    assert_eq!(from, 1);
    let text = value["month"].as_str().ok_or_else(|| HandlerError::permanent("no month"))?;
    let (year, month) = text.split_once('-').ok_or_else(|| HandlerError::permanent("no year"))?;
    Ok(json!({ "year": year.parse::<u32>()?, "month": month.parse::<u32>()? }))
}

/// The same kind, as an older program knows it.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "report", queue = "reports", output = u64)]
struct OldReport {
    month: String,
}

/// (library) What stands on the type is what its jobs fall back to.
#[tokio::test]
async fn a_type_says_what_its_jobs_fall_back_to() {
    let client = windlass::connect("memory:").await.unwrap();
    let sent = client.enqueue(Report { year: 2026, month: 1 }).await.unwrap();
    let facts = client.job(sent.id).await.unwrap().unwrap().facts;
    assert_eq!((facts.queue.as_str(), facts.priority, facts.max_retries), ("reports", 3, 7));
    assert_eq!((facts.timeout_ms, facts.backoff), (Some(30_000), Some(NOW)));
    assert_eq!(facts.metadata["payload_version"], 2);
    let again = client.enqueue(Report { year: 2026, month: 1 }).await.unwrap();
    assert!(again.existed && again.id == sent.id);
    let own = client.enqueue(Report { year: 2026, month: 2 }).priority(1).max_retries(0).await.unwrap();
    let facts = client.job(own.id).await.unwrap().unwrap().facts;
    assert_eq!((facts.priority, facts.max_retries), (1, 0), "the job's own word counts");
}

/// (deploy) A newer program reads an older payload; an older one leaves a newer payload to others.
#[tokio::test]
async fn payloads_outlive_deployments() {
    let rig = Rig::new();
    let handles = |job: Report, _: Context| async move { Ok(u64::from(job.year * 100 + job.month)) };
    let new = Worker::new(rig.client().clone()).queue("reports", 1).handle(handles);
    let refuses = |_: OldReport, _: Context| async { Err(HandlerError::permanent("it was read")) };
    let minute = Duration::from_secs(60);
    let old = Worker::new(rig.client().clone()).queue("reports", 1);
    let old = old.on_unreadable(OnUnreadable::Release(minute)).handle(refuses);
    let older = rig.client().enqueue(OldReport { month: "2026-03".into() }).await.unwrap().id;
    rig.drain(&new).await;
    assert_eq!(rig.output::<Report>(older).await, 202_603);
    let newer = rig.client().enqueue(Report { year: 2026, month: 4 }).await.unwrap().id;
    rig.drain(&old).await;
    let view = rig.view(newer).await;
    assert_eq!((view.job.status, view.job.retries), (Status::Retry, 0), "left to others");
    rig.advance(minute);
    rig.drain(&new).await;
    assert_eq!(rig.output::<Report>(newer).await, 202_604);
}

/// (library) A function that blocks runs on a thread of its own; its panic is the job's.
#[tokio::test]
async fn a_handler_may_block() {
    let rig = Rig::new();
    let worker = Worker::new(rig.client().clone()).queue("default", 1);
    let worker = worker.handle_blocking(|Add(a, b), _ctx: Context| {
        std::thread::sleep(Duration::from_millis(1));
        assert!(a < 10, "too much");
        Ok(a + b)
    });
    let good = rig.client().enqueue(Add(1, 2)).await.unwrap().id;
    let bad = rig.client().enqueue(Add(10, 2)).max_retries(0).await.unwrap().id;
    run_out(&rig, &worker).await;
    assert_eq!(rig.output::<Add>(good).await, 3);
    assert_eq!(rig.view(bad).await.job.error_code.map(|code| code.to_string()), Some("panicked".into()));
}

/// (library) Jobs that come together are handled in one call, each with its own outcome.
#[tokio::test]
async fn a_batch_has_an_outcome_for_each() {
    let client = windlass::connect("memory:").await.unwrap();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sizes);
    let handler = move |jobs: Vec<(Add, Context)>| {
        seen.lock().unwrap().push(jobs.len());
        let sum = |(Add(a, b), _): (Add, Context)| {
            if a == 3 { Err(HandlerError::permanent("three")) } else { Ok(a + b) }
        };
        async move { jobs.into_iter().map(sum).collect() }
    };
    let jobs = client.enqueue_many((0..10).map(|n| Add(n, 1))).await.unwrap();
    let worker = Worker::new(client.clone()).queue("default", 10);
    let worker = worker.handle_batch(4, Duration::from_millis(200), handler);
    let ended = async {
        for (n, job) in jobs.into_iter().enumerate() {
            match client.wait::<Add>(job.id).await {
                Ok(sum) => assert_eq!(usize::try_from(sum), Ok(n + 1)),
                Err(error) => assert!(n == 3 && error.to_string().contains("three"), "{error}"),
            }
        }
    };
    worker.run_until(ended).await.unwrap();
    let sizes = sizes.lock().unwrap();
    assert!(sizes.iter().sum::<usize>() == 10 && sizes.iter().all(|size| *size <= 4), "{sizes:?}");
    assert!(sizes.contains(&4), "they came together: {sizes:?}");
}
