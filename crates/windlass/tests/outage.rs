//! The database is away for thirty seconds under load, killed as a power cut would: nothing that was acknowledged is lost,
//! nothing runs under two live leases, and work resumes by itself.

#[path = "../../postgres/tests/support/cluster.rs"]
#[allow(dead_code, reason = "of what a cluster can do only some is needed here")]
mod cluster;
mod support;

use cluster::Cluster;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Task, task};
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

/// J9, J12, Q14
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
