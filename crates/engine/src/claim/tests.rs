//! Claims on a clock that moves only while everybody sleeps, so it tells whether a job had to wait for a poll.

use crate::handler::Handler;
use crate::offer::Offers;
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
    AccessKey, Actor, Answer, ApprovalId, AuditEntry, Event, Facts, FeedCursor, Fingerprint, Job, JobId,
    Life, LogLine, LogPart, Name, NewJob, Queue, Refusal, Status, Term, Timestamp, TriggerEventId, Who,
    Worker as Known,
};
use windlass_memory::MemoryStore;
use windlass_store::*;

/// A store that takes a moment before and after each verb, and counts claims.
#[derive(Debug)]
struct Slow {
    inner: MemoryStore,
    seed: AtomicU64,
    claims: AtomicU64,
    /// Claims that are under way, and how many there ever were at once.
    open: AtomicU64,
    at_once: AtomicU64,
}

impl Slow {
    fn new(seed: u64) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        let inner = MemoryStore::new();
        Arc::new(Self { inner, seed: seed.into(), claims: zero(), open: zero(), at_once: zero() })
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
                        let claims = u64::from(stringify!($verb) == "claim");
                        self.claims.fetch_add(claims, Ordering::Relaxed);
                        let open = self.open.fetch_add(claims, Ordering::Relaxed) + claims;
                        self.at_once.fetch_max(open, Ordering::Relaxed);
                        self.nap().await;
                        let answer = $group::$verb(&self.inner, request, now).await;
                        self.nap().await;
                        self.open.fetch_sub(claims, Ordering::Relaxed);
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
    offers: Offers,
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
        let offers = Offers::default();
        let worker = Worker::new(Arc::clone(&store) as Arc<dyn Store>)
            .offers(offers.clone())
            .queue("first", concurrency)
            .queue("second", concurrency)
            .handle("job", naps);
        let mut engine = JoinSet::new();
        engine.spawn(worker.engine(shutdown.clone(), Shutdown::new()).unwrap());
        // Its first look finds nothing.
        sleep(Duration::from_millis(20)).await;
        Self { store, offers, ended, shutdown, engine }
    }

    async fn stop(self) {
        self.shutdown.graceful();
        self.engine.join_all().await;
    }
}

fn job(queue: &str) -> NewJob {
    let name = |text| Name::parse("name", text).unwrap();
    let facts = Facts::new(name("job"), name(queue));
    NewJob { id: fresh::job_id(), facts, payload: None, parent_token: None }
}

async fn put(store: &Slow, queue: &str) -> JobId {
    let job = job(queue);
    let id = job.id;
    let request = Enqueue { jobs: vec![job], actor: Actor::api(), idempotency: None };
    store.enqueue(request, None).await.unwrap().unwrap();
    id
}

/// As [`put`], or into the hands of a worker that waits, if there is one: then it says so.
async fn send(store: &Arc<Slow>, offers: &Offers, queue: &str) -> (JobId, bool) {
    let job = job(queue);
    let id = job.id;
    let Some(offer) = offers.take(&job.facts) else { return (put(store, queue).await, false) };
    let store = Arc::clone(store) as Arc<dyn Store>;
    offer.hand_over(store, job, Actor::api(), Duration::ZERO).await.unwrap().unwrap();
    (id, true)
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

/// (pickup) A job that is put into the hands of a worker that waits costs no claim at all.
#[tokio::test(start_paused = true)]
async fn a_job_for_a_worker_that_waits_costs_no_claim() {
    let mut running = Running::start(7, 2).await;
    for n in 1..=100 {
        let before = running.store.claims();
        let (id, handed) = send(&running.store, &running.offers, "first").await;
        assert!(handed, "job {n}: it waits");
        running.ended.recv().await.unwrap();
        while running.store.inner.job(id, None).await.unwrap().unwrap().job.status != Status::Completed {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(running.store.claims(), before, "job {n}");
        // Behind a poll, so that it does not come between.
        while running.store.claims() == before {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
    running.stop().await;
}

/// (order) A queue that runs one job at a time takes none out of turn, and one that runs two keeps a place for those in theirs.
#[tokio::test(start_paused = true)]
async fn the_last_place_is_for_jobs_in_their_turn() {
    let running = Running::start(1, 1).await;
    assert!(running.offers.take(&job("first").facts).is_none());
    running.stop().await;
    let running = Running::start(1, 2).await;
    let mut later = job("first");
    later.facts.run_at = windlass_core::RunAt::After(1);
    assert!(running.offers.take(&later.facts).is_none(), "for later");
    assert!(running.offers.take(&job("third").facts).is_none(), "another queue");
    later.facts = Facts::new(Name::parse("name", "other").unwrap(), Name::parse("name", "first").unwrap());
    assert!(running.offers.take(&later.facts).is_none(), "another kind");
    let taken = running.offers.take(&job("first").facts);
    assert!(taken.is_some());
    assert!(running.offers.take(&job("first").facts).is_none(), "one at a time");
    // While it is under way, jobs come in their turn.
    let mut running = running;
    put(&running.store, "first").await;
    running.ended.recv().await.unwrap();
    drop(taken);
    running.stop().await;
}

/// (lost answers) Whoever takes an offer along and is never heard of again keeps nothing from the worker: it asks what came of it.
#[tokio::test(start_paused = true)]
async fn an_offer_without_an_answer_is_asked_for() {
    let mut running = Running::start(3, 2).await;
    let job = job("first");
    let offer = running.offers.take(&job.facts).unwrap();
    let request = EnqueueClaimed { job, actor: Actor::api(), claim: offer.claim().clone() };
    running.store.enqueue_claimed(request, None).await.unwrap().unwrap().claimed.unwrap();
    let begun = Instant::now();
    drop(offer);
    running.ended.recv().await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    running.stop().await;
}

/// (drain) A drained worker offers nothing, until it is told to take jobs again.
#[tokio::test(start_paused = true)]
async fn a_drained_worker_offers_nothing() {
    let running = Running::start(5, 4).await;
    let worker = running.store.workers((), None).await.unwrap().remove(0).id;
    let actor = Actor::try_from("operator:ann").unwrap();
    let tell = |drain| DrainWorker { id: worker.clone(), drain, actor: actor.clone() };
    running.store.drain_worker(tell(true), None).await.unwrap();
    // It hears of it when it reports itself.
    sleep(Duration::from_secs(60)).await;
    assert!(running.offers.take(&job("first").facts).is_none());
    running.store.drain_worker(tell(false), None).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(running.offers.take(&job("first").facts).is_some(), "it takes jobs again");
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
            let (store, offers) = (Arc::clone(&running.store), running.offers.clone());
            producers.spawn(async move {
                for _ in 0..5 {
                    store.nap().await;
                    let queue = if store.draw(2) == 0 { "first" } else { "second" };
                    match store.draw(2) {
                        0 => _ = put(&store, queue).await,
                        _ => _ = send(&store, &offers, queue).await,
                    }
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
        let (store, offers) = (Arc::clone(&running.store), running.offers.clone());
        let mut jobs = Vec::new();
        for _ in 0..6 {
            jobs.push(put(&store, "first").await);
            jobs.push(put(&store, "second").await);
        }
        sleep(Duration::from_millis(store.draw(20))).await;
        let told = Instant::now();
        // Some are put into its hands while it ends.
        let (sent, ()) = tokio::join!(
            async {
                let mut sent = Vec::new();
                for _ in 0..6 {
                    sent.push(send(&store, &offers, "first").await.0);
                }
                sent
            },
            running.stop()
        );
        jobs.extend(sent);
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

/// (drain) A deep line is claimed ahead: the next claim is under way before the last one is answered. Whenever the worker is
/// told to end, what both bring is completed or given back.
#[tokio::test(start_paused = true)]
async fn no_moment_to_end_leaves_a_claim_ahead_behind() {
    let (mut at_once, mut left) = (0, 0);
    for seed in 0..12 {
        let mut running = Running::start(seed, 300).await;
        let store = Arc::clone(&running.store);
        let mut ids = Vec::new();
        for _ in 0..3 {
            let jobs: Vec<NewJob> = (0..1_000).map(|_| job("first")).collect();
            ids.extend(jobs.iter().map(|job| job.id));
            let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
            store.inner.enqueue(request, None).await.unwrap().unwrap();
        }
        // It ends sooner or later, the last time after everything.
        let wanted = if seed == 11 { ids.len() as u64 } else { store.draw(2_000) };
        for _ in 0..wanted {
            running.ended.recv().await.unwrap();
        }
        running.stop().await;
        at_once = at_once.max(store.at_once.load(Ordering::Relaxed));
        for id in ids {
            let job = store.inner.job(id, None).await.unwrap().unwrap().job;
            let status = job.status;
            assert!(
                matches!(status, Status::Pending | Status::Retry | Status::Completed),
                "seed {seed}: {status}"
            );
            assert_eq!((job.retries, job.crashes), (0, 0), "seed {seed}");
            left += u32::from(status != Status::Completed);
        }
    }
    assert_eq!(at_once, 2, "one ahead, never more");
    assert!(left > 0, "some were told to end half-way");
}
