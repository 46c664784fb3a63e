//! The database is away, killed as a power cut would: nothing that was acknowledged is lost, nothing runs under two live
//! leases, work resumes by itself, no retry is used when it is back within the lease, and whoever watches misses nothing.

#[path = "../../postgres/tests/support/cluster.rs"]
#[allow(dead_code, reason = "of what a cluster can do only some is needed here")]
mod cluster;
mod support;

use cluster::Cluster;
use futures_util::{Stream, StreamExt};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Add, Task, task};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use windlass::{Client, Context, Event, EventKind, HandlerError, JobId, Shutdown, Status, Worker};

/// How long the database is away.
const AWAY: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(3);
/// How long the engine may take to be back at work; its longest pause is two seconds.
const RESUMED: Duration = Duration::from_secs(20);

/// From when to when an attempt's handler was alive.
type Alive = (i64, Instant, Instant);

#[derive(Clone, Default)]
struct Seen {
    alive: Arc<Mutex<HashMap<JobId, Vec<Alive>>>>,
    ended: Arc<AtomicUsize>,
}

/// Writes down when a handler was alive, when it is dropped.
struct Stretch(Seen, JobId, i64, Instant);

impl Drop for Stretch {
    fn drop(&mut self) {
        let mut alive = self.0.alive.lock().expect("no panic");
        alive.entry(self.1).or_default().push((self.2, self.3, Instant::now()));
    }
}

async fn naps(_: Task, ctx: Context<Seen>) -> Result<String, HandlerError> {
    let _stretch = Stretch(ctx.state().clone(), ctx.id(), ctx.fence(), Instant::now());
    ctx.step("nap", || async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        Ok::<_, HandlerError>(())
    })
    .await?;
    ctx.state().ended.fetch_add(1, Ordering::AcqRel);
    Ok(String::new())
}

/// Enqueues until told to stop; answers what was acknowledged.
async fn produce(client: Client, stop: Arc<AtomicBool>) -> Vec<JobId> {
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::Acquire) {
        // What is not acknowledged is not promised.
        if let Ok(sent) = client.enqueue(task("")).await {
            acknowledged.push(sent.id);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    acknowledged
}

async fn until(what: &str, time: Duration, holds: impl Fn() -> bool) {
    let looked = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(time, looked).await.is_ok(), "never {what}");
}

/// Between two claims there is an end of the first, or its whole lease.
fn check_log(log: &[Event]) {
    let mut held: Option<i64> = None;
    for event in log {
        let at = event.at.as_micros();
        match &event.what {
            EventKind::JobClaimed => {
                let over = held.is_none_or(|since| at - since >= LEASE.as_micros() as i64);
                assert!(over, "claimed while somebody held it: {log:?}");
                held = Some(at);
            }
            EventKind::JobCompleted | EventKind::JobReleased(_) | EventKind::JobRetried(_) => held = None,
            _ => {}
        }
    }
}

/// J12, Q14
#[test]
fn thirty_seconds_without_a_database() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.unwrap().block_on(async {
        let mut cluster = Cluster::start(&[]);
        let url = cluster.url();
        let client = windlass::connect(&url).await.unwrap();
        let (seen, shutdown, stop) = (Seen::default(), Shutdown::new(), Arc::new(AtomicBool::new(false)));
        let (mut workers, mut producers) = (JoinSet::new(), JoinSet::new());
        for _ in 0..2 {
            let own = windlass::connect(&url).await.unwrap();
            let worker = Worker::new(own).state(seen.clone()).queue("tasks", 8).lease(LEASE).handle(naps);
            workers.spawn(worker.run(shutdown.clone()));
        }
        for _ in 0..4 {
            producers.spawn(produce(client.clone(), Arc::clone(&stop)));
        }
        let ended = |more: usize| {
            let (seen, from) = (seen.clone(), seen.ended.load(Ordering::Acquire));
            move || seen.ended.load(Ordering::Acquire) >= from + more
        };
        until("some load", Duration::from_secs(60), ended(100)).await;
        cluster.kill();
        tokio::time::sleep(AWAY).await;
        let halted = seen.ended.load(Ordering::Acquire);
        cluster.restart();
        until("at work again", RESUMED, ended(1)).await;
        until("a good while of work", Duration::from_secs(60), ended(200)).await;
        stop.store(true, Ordering::Release);
        let acknowledged: Vec<JobId> = producers.join_all().await.into_iter().flatten().collect();
        let mut again = 0;
        for id in &acknowledged {
            let done = async {
                while client.job(*id).await.unwrap().unwrap().job.status != Status::Completed {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            assert!(timeout(Duration::from_secs(60), done).await.is_ok(), "job {id} was lost");
            let log = client.events(*id).await.unwrap();
            check_log(&log);
            again += usize::from(log.iter().filter(|event| event.what == EventKind::JobClaimed).count() > 1);
        }
        assert!(again > 0, "of {} jobs, {halted} before, none was caught by the outage", acknowledged.len());
        shutdown.graceful();
        while let Some(ended) = workers.join_next().await {
            ended.unwrap().unwrap();
        }
        for (id, mut stretches) in std::mem::take(&mut *seen.alive.lock().unwrap()) {
            stretches.sort_by_key(|(fence, ..)| *fence);
            let apart = stretches.windows(2).all(|pair| pair[0].2 <= pair[1].1);
            assert!(apart, "two handlers of job {id} at once: {stretches:?}");
        }
        drop(client);
        drop(cluster);
    });
}

/// Runs a test on as many threads as a server would have.
fn wait_for(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let in_time = async { timeout(Duration::from_secs(180), test).await };
    runtime.expect("a runtime").block_on(in_time).expect("it ends within three minutes");
}

/// What the handlers of one test share.
#[derive(Default)]
struct Halt {
    begun: AtomicUsize,
    is_away: AtomicBool,
}

/// Begins, waits until the database is away, and does what its text says.
async fn goes_on(job: Task, ctx: Context<Arc<Halt>>) -> Result<String, HandlerError> {
    ctx.state().begun.fetch_add(1, Ordering::AcqRel);
    while !ctx.state().is_away.load(Ordering::Acquire) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let client = ctx.client();
    match job.text.as_str() {
        "step" => ctx.step("step", || async { Ok::<_, HandlerError>(()) }).await?,
        "note" => drop(ctx.note("noted", &1).await?),
        "spawn" => drop(ctx.spawn("child", Add(1, 2)).queue("elsewhere").await?),
        "enqueue" => drop(client.enqueue(Add(1, 2)).queue("elsewhere").await?),
        "read" => drop(client.job(ctx.id()).await?),
        "signal" => drop(client.signal(ctx.id(), "to-myself", 1).await?),
        "watch" => drop(client.watch(ctx.id()).next().await),
        "sleep" => ctx.sleep("nap", Duration::from_millis(10)).await?,
        _ => {}
    }
    Ok(job.text)
}

/// Q14: an outage shorter than the lease uses no retry, whatever the handlers asked of the store meanwhile. It is longer than
/// a client without a lease would ask.
#[test]
fn an_outage_shorter_than_the_lease_uses_no_retry() {
    wait_for(async {
        let mut cluster = Cluster::start(&[]);
        let client = windlass::connect(&cluster.url()).await.unwrap();
        let halt = Arc::new(Halt::default());
        let verbs = ["step", "note", "spawn", "enqueue", "read", "signal", "watch", "sleep", "nothing"];
        let own = windlass::connect(&cluster.url()).await.unwrap();
        let worker = Worker::new(own).state(Arc::clone(&halt)).queue("tasks", verbs.len());
        let (worker, shutdown) = (worker.lease(2 * AWAY).handle(goes_on), Shutdown::new());
        let mut workers = JoinSet::new();
        workers.spawn(worker.run(shutdown.clone()));
        let sent = client.enqueue_many(verbs.map(task)).await.unwrap();
        until("all of them run", AWAY, || halt.begun.load(Ordering::Acquire) == verbs.len()).await;
        cluster.kill();
        halt.is_away.store(true, Ordering::Release);
        tokio::time::sleep(Duration::from_secs(13)).await;
        cluster.restart();
        for (sent, verb) in sent.iter().zip(verbs) {
            assert_eq!(client.wait::<Task>(sent.id).await.unwrap(), verb);
            let job = client.job(sent.id).await.unwrap().unwrap().job;
            let attempts = if verb == "sleep" { 2 } else { 1 };
            assert_eq!((job.attempt, job.retries, job.crashes), (attempts, 0, 0), "{verb}");
        }
        shutdown.graceful();
        workers.join_next().await.unwrap().unwrap().unwrap();
        drop((client, cluster));
    });
}

/// The versions that a stream brings, whatever errors come between them.
fn versions<E>(events: impl Stream<Item = Result<i64, E>>) -> impl Stream<Item = i64> {
    events.filter_map(async |event| event.ok())
}

/// J9: through a real restart of the database a watch and the feed miss nothing and repeat nothing, also for a slow reader, and
/// idle watchers hear of the end.
#[test]
fn watchers_miss_nothing_through_a_restart() {
    wait_for(async {
        let mut cluster = Cluster::start(&[]);
        let client = windlass::connect(&cluster.url()).await.unwrap();
        let writer = windlass::connect(&cluster.url()).await.unwrap();
        let head = client.feed_head().await.unwrap();
        let id = writer.enqueue(task("watched")).await.unwrap().id;
        let idle = writer.enqueue_many((0..20).map(|_| Add(1, 2))).await.unwrap();
        let watch = versions(client.watch(id).map(|event| event.map(|event| event.version)));
        let slow =
            versions(client.watch(id).map(|event| event.map(|event| event.version))).then(async |version| {
                tokio::time::sleep(Duration::from_millis(30)).await;
                version
            });
        let fed = client.feed(head).filter(|event| {
            let other = event.as_ref().is_ok_and(|event| event.event.job != id);
            async move { !other }
        });
        let fed = versions(fed.map(|event| event.map(|event| event.event.version)));
        let idlers = futures_util::future::join_all(idle.iter().map(|sent| {
            versions(client.watch(sent.id).map(|event| event.map(|event| event.version))).collect::<Vec<_>>()
        }));
        const SIGNALS: i64 = 120;
        let acts = async {
            for n in 0..SIGNALS {
                if n == SIGNALS / 2 {
                    cluster.kill();
                    tokio::time::sleep(Duration::from_secs(4)).await;
                    cluster.restart();
                }
                // A key of its own: one whose answer was lost is sent again.
                while writer.signal(id, "tick", n).key(&format!("tick-{n}")).await.is_err() {}
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            for id in idle.iter().map(|sent| sent.id).chain([id]) {
                while writer.cancel(id).await.is_err() {}
            }
        };
        let all = usize::try_from(SIGNALS).unwrap() + 2;
        let (watched, slowly, fed, idled, ()) = tokio::join!(
            watch.collect::<Vec<_>>(),
            slow.collect::<Vec<_>>(),
            fed.take(all).collect::<Vec<_>>(),
            idlers,
            acts
        );
        let expected: Vec<i64> = (1..=SIGNALS + 2).collect();
        assert_eq!(watched, expected);
        assert_eq!(slowly, expected);
        assert_eq!(fed, expected);
        assert!(idled.iter().all(|versions| versions == &[1, 2]), "{idled:?}");
        drop((client, writer, cluster));
    });
}
