//! Typed handlers on a real worker.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Add, Task, places, task};
use windlass::{Context, Error, HandlerError, Health, Shutdown, Status, Worker};

#[tokio::test]
async fn state_layers_and_several_queues() {
    for place in places().await {
        let client = &place.client;
        let seen = Arc::new(AtomicUsize::new(0));
        let layer = {
            let seen = Arc::clone(&seen);
            tower::util::MapRequestLayer::new(move |attempt: windlass::Attempt| {
                seen.fetch_add(1, Ordering::SeqCst);
                attempt
            })
        };
        let worker = Worker::new(client.clone())
            .handle(|Add(a, b), _: Context| async move { Ok(a + b) })
            .layer(layer)
            .state("state".to_owned())
            .queue("tasks", 2)
            .queue("default", 2)
            .handle(
                |job: Task, ctx: Context<String>| async move { Ok(format!("{} {}", ctx.state(), job.text)) },
            );
        let (sum, text) =
            (client.enqueue(Add(1, 2)).await.unwrap(), client.enqueue(task("x")).await.unwrap());
        let done = async {
            assert_eq!(client.wait::<Add>(sum.id).await.unwrap(), 3);
            assert_eq!(client.wait::<Task>(text.id).await.unwrap(), "state x");
        };
        worker.run_until(done).await.unwrap();
        assert_eq!(
            seen.load(Ordering::SeqCst),
            2,
            "{}: handlers given before and after a layer are inside it",
            place.what
        );
    }
}

/// A layer whose service cannot be cloned: no more than one job of a kind begins in 40 ms, and all of them run.
#[tokio::test]
async fn a_rate_limit_is_shared_by_all_attempts() {
    for place in places().await {
        let client = &place.client;
        let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = Arc::clone(&begun);
        let apart = Duration::from_millis(40);
        let worker = Worker::new(client.clone())
            .queue("default", 8)
            .handle(move |Add(a, b), _: Context| {
                told.lock().unwrap().push(tokio::time::Instant::now());
                async move { Ok(a + b) }
            })
            .layer(tower::limit::RateLimitLayer::new(1, apart));
        let sent = client.enqueue_many((0..6).map(|n| Add(n, 1))).await.unwrap();
        let done = async {
            for (n, sent) in sent.iter().enumerate() {
                assert_eq!(client.wait::<Add>(sent.id).await.unwrap(), n as i64 + 1);
            }
        };
        worker.run_until(done).await.unwrap();
        let begun = begun.lock().unwrap();
        assert_eq!(begun.len(), 6);
        let whole = begun[5].duration_since(begun[0]);
        assert!(whole >= 4 * apart, "{}: {whole:?}", place.what);
    }
}

/// Hooks hear of every beginning and of every end, whichever way it comes.
#[tokio::test]
async fn hooks_hear_of_every_end() {
    for place in places().await {
        let client = &place.client;
        let (begun, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
        let (counted, told) = (Arc::clone(&begun), Arc::clone(&ends));
        let worker = Worker::new(client.clone())
            .queue("tasks", 1)
            .on_begin(move |_| _ = counted.fetch_add(1, Ordering::SeqCst))
            .on_end(move |attempt, end| {
                let end = match end {
                    windlass::HandlerEnd::Failed(error) => error.message().to_owned(),
                    end => format!("{end:?}"),
                };
                told.lock().unwrap().push((attempt.number(), end));
            })
            .handle(|_: Task, ctx: Context| async move {
                ctx.sleep("nap", Duration::from_millis(1)).await?;
                if ctx.attempt().number() == 2 {
                    return Err(HandlerError::retry_after(Duration::from_millis(1), "once more"));
                }
                Ok(String::new())
            });
        let id = client.enqueue(task("")).await.unwrap().id;
        worker.run_until(async { _ = client.wait::<Task>(id).await.unwrap() }).await.unwrap();
        let expected = [(1, "Dropped".to_owned()), (2, "once more".to_owned()), (3, "Returned".to_owned())];
        assert_eq!(*ends.lock().unwrap(), expected, "{}", place.what);
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }
}

#[tokio::test]
async fn errors_mean_what_they_say() {
    for place in places().await {
        let client = &place.client;
        // On a slow machine an attempt may be given back before it begins, so attempts are not counted by their fence.
        let begun = Arc::new(Mutex::new(Vec::new()));
        let handler = move |job: Task, ctx: Context| {
            let mut begun = begun.lock().unwrap();
            let times = begun.iter().filter(|text| **text == job.text).count() + 1;
            begun.push(job.text.clone());
            async move {
                match (job.text.as_str(), times) {
                    ("permanent", _) => Err(HandlerError::permanent("never").code("never")),
                    ("snooze", 1) => Err(HandlerError::snooze(Duration::from_millis(10))),
                    ("retry", 1) => Err(std::io::Error::other("the line is dead"))?,
                    ("panic", 1) => panic!("on purpose"),
                    _ => Ok(format!("{times} {}", ctx.attempt().job().retries)),
                }
            }
        };
        let worker = Worker::new(client.clone()).queue("tasks", 4).handle(handler);
        let soon = windlass::Backoff { base_ms: 1, ..Default::default() };
        let send = async |text: &str| client.enqueue(task(text)).backoff(soon).await.unwrap().id;
        let ids = [send("permanent").await, send("snooze").await, send("retry").await, send("panic").await];
        let done = async {
            let ended = client.wait::<Task>(ids[0]).await.unwrap_err();
            assert!(
                matches!(&ended, Error::Ended(e) if e.code == "never" && e.status == Status::Failed),
                "{ended}"
            );
            assert_eq!(client.wait::<Task>(ids[1]).await.unwrap(), "2 0", "a snooze uses no retry");
            assert_eq!(client.wait::<Task>(ids[2]).await.unwrap(), "2 1");
            assert_eq!(client.wait::<Task>(ids[3]).await.unwrap(), "2 1");
        };
        worker.run_until(done).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_worker_cannot_do_is_told_when_it_is_run() {
    let client = windlass::connect("memory:").await.unwrap();
    let worker = || Worker::new(client.clone()).handle(|Add(a, b), _: Context| async move { Ok(a + b) });
    let told = worker().queue("no good", 1).run_until(async {}).await.unwrap_err();
    assert!(matches!(&told, Error::Invalid(invalid) if invalid.field == "queue"), "{told}");
    let told = worker().run_until(async {}).await.unwrap_err().to_string();
    assert!(told.contains("no queue"), "{told}");
    let told =
        Worker::new(client.clone()).queue("default", 1).run_until(async {}).await.unwrap_err().to_string();
    assert!(told.contains("no handler"), "{told}");
}

#[tokio::test]
async fn other_kinds_are_left_alone_and_readiness_is_told() {
    let client = windlass::connect("memory:").await.unwrap();
    let worker = Worker::new(client.clone())
        .queue("default", 1)
        .handle(|Add(a, b), _: Context| async move { Ok(a + b) });
    let (mut health, shutdown) = (worker.health(), Shutdown::new());
    let other = client.enqueue(task("x")).queue("default").await.unwrap().id;
    let sent = client.enqueue(Add(1, 2)).await.unwrap().id;
    let (ran, ()) = tokio::join!(worker.run(shutdown.clone()), async {
        health.wait_for(Health::is_ready).await.unwrap();
        client.wait::<Add>(sent).await.unwrap();
        shutdown.graceful();
    });
    ran.unwrap();
    assert_eq!(*health.borrow(), Health::Stopped);
    let view = client.job(other).await.unwrap().unwrap();
    assert_eq!((view.job.status, view.job.attempt), (Status::Pending, 0));
}
