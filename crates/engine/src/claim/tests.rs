//! Claims on a clock that moves only while everybody sleeps, so it tells whether a job had to wait for a poll.

use crate::handler::Handler;
use crate::shutdown::Shutdown;
use crate::worker::Worker;
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use windlass_core::step::Recorded;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Actor, Answer, ApprovalId, AuditEntry, Event, Facts, FeedCursor, Job, JobId, LogLine, Name,
    NewJob, Refusal, Status, Term, Who, Worker as Known,
};
use windlass_memory::MemoryStore;
use windlass_store::*;

/// A store that takes a moment before and after each verb, and counts claims.
#[derive(Debug)]
struct Slow {
    inner: MemoryStore,
    seed: AtomicU64,
    claims: AtomicU64,
}

impl Slow {
    fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(), seed: seed.into(), claims: AtomicU64::new(0) })
    }

    fn claims(&self) -> u64 {
        self.claims.load(Ordering::Relaxed)
    }

    /// A number below `end`, another each time.
    fn draw(&self, end: u64) -> u64 {
        let n = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 33) % end
    }

    async fn nap(&self) {
        match self.draw(4) {
            0 => {}
            ms => sleep(Duration::from_millis(ms)).await,
        }
    }
}

macro_rules! slow {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl $group for Slow {
                $(
                    async fn $verb(&self, request: $request, now: Now) -> StoreResult<$answer> {
                        self.claims.fetch_add(u64::from(stringify!($verb) == "claim"), Ordering::Relaxed);
                        self.nap().await;
                        let answer = $group::$verb(&self.inner, request, now).await;
                        self.nap().await;
                        answer
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

// The table names the workers of the registry like those of this crate.
mod verbs {
    use super::*;
    type Worker = Known;
    every_verb!(slow);
}

/// A worker on such a store, all on this one thread. Every job naps, and then says so.
struct Running {
    store: Arc<Slow>,
    ended: UnboundedReceiver<()>,
    shutdown: Shutdown,
    engine: JoinSet<()>,
}

impl Running {
    async fn start(seed: u64, concurrency: usize) -> Self {
        let (store, shutdown, (tell, ended)) = (Slow::new(seed), Shutdown::new(), unbounded_channel());
        let napper = Arc::clone(&store);
        let naps = Handler::from_fn(move |_| {
            let (napper, tell) = (Arc::clone(&napper), tell.clone());
            async move {
                napper.nap().await;
                tell.send(())?;
                Ok(None)
            }
        });
        let worker = Worker::new(Arc::clone(&store) as Arc<dyn Store>)
            .queue("first", concurrency)
            .queue("second", concurrency)
            .handle("job", naps);
        let mut engine = JoinSet::new();
        engine.spawn(worker.engine(shutdown.clone(), Shutdown::new()).unwrap());
        // Its first look finds nothing.
        sleep(Duration::from_millis(20)).await;
        Self { store, ended, shutdown, engine }
    }

    async fn stop(self) {
        self.shutdown.graceful();
        self.engine.join_all().await;
    }
}

async fn put(store: &Slow, queue: &str) -> JobId {
    let name = |text| Name::parse("name", text).unwrap();
    let (id, facts) = (fresh::job_id(), Facts::new(name("job"), name(queue)));
    let jobs = vec![NewJob { id, facts, payload: None, parent_token: None }];
    let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
    store.enqueue(request, None).await.unwrap().unwrap();
    id
}

/// (pickup) A job that comes alone is claimed once, and nothing is asked for before the next poll or hint.
#[tokio::test(start_paused = true)]
async fn a_single_job_costs_one_claim() {
    let mut running = Running::start(7, 4).await;
    for n in 1..=100 {
        let before = running.store.claims();
        let (id, sent) = (put(&running.store, "first").await, Instant::now());
        running.ended.recv().await.unwrap();
        while running.store.inner.job(id, None).await.unwrap().unwrap().job.status != Status::Completed {
            sleep(Duration::from_millis(1)).await;
        }
        // Longer than all of its ramp, shorter than the pause between two polls.
        sleep(Duration::from_millis(700)).await;
        assert_eq!(running.store.claims() - before, 1, "job {n}, after {:?}", sent.elapsed());
    }
    running.stop().await;
}

/// (pickup) Whenever a job comes, in the middle of a claim, of a settle or while there is no room: it never waits for a poll.
#[tokio::test(start_paused = true)]
async fn no_moment_to_enqueue_is_missed() {
    for seed in 0..300 {
        let mut running = Running::start(seed, 1 + seed as usize % 3).await;
        let begun = Instant::now();
        let mut producers = JoinSet::new();
        for _ in 0..3 {
            let store = Arc::clone(&running.store);
            producers.spawn(async move {
                for _ in 0..5 {
                    store.nap().await;
                    put(&store, if store.draw(2) == 0 { "first" } else { "second" }).await;
                }
            });
        }
        for _ in 0..15 {
            running.ended.recv().await.unwrap();
        }
        assert!(begun.elapsed() < Duration::from_millis(800), "seed {seed}: {:?}", begun.elapsed());
        producers.join_all().await;
        running.stop().await;
    }
}

/// (shutdown) Whenever a worker is told to end, also while a claim is under way that brings all it asked for: what it holds is
/// completed or given back at once, and nobody waits for a lease to be over.
#[tokio::test(start_paused = true)]
async fn no_moment_to_end_leaves_a_lease_behind() {
    for seed in 0..300 {
        let running = Running::start(seed, 1 + seed as usize % 3).await;
        let mut jobs = Vec::new();
        for _ in 0..6 {
            jobs.push(put(&running.store, "first").await);
            jobs.push(put(&running.store, "second").await);
        }
        let store = Arc::clone(&running.store);
        sleep(Duration::from_millis(store.draw(20))).await;
        let told = Instant::now();
        running.stop().await;
        assert!(told.elapsed() < Duration::from_secs(1), "seed {seed}: it ended after {:?}", told.elapsed());
        for id in jobs {
            let job = store.inner.job(id, None).await.unwrap().unwrap().job;
            // What was given back is due again, with no retry used up.
            let status = job.status;
            assert!(
                matches!(status, Status::Pending | Status::Retry | Status::Completed),
                "seed {seed}: it is {status}"
            );
            assert_eq!((job.retries, job.crashes), (0, 0), "seed {seed}");
        }
    }
}
