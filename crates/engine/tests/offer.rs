//! Jobs put into the hands of a worker that waits: run once, whatever is lost on the way.

mod bed;

use bed::{Bed, Running, handler, new_job, until};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinSet;
use windlass_core::{Actor, JobId, NewJob, Status};
use windlass_engine::{Handler, Offer, Offers};
use windlass_store::{Enqueue, Faults, Faulty, Store};

const PATIENCE: Duration = Duration::from_secs(30);

/// Counts how often each job was run.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<HashMap<JobId, usize>>>);

impl Ran {
    fn handler(&self) -> Handler {
        let ran = self.clone();
        handler(move |attempt| {
            *ran.0.lock().expect("a lock").entry(attempt.job_id()).or_default() += 1;
            async { Ok(None) }
        })
    }

    fn times(&self, id: JobId) -> usize {
        self.0.lock().expect("a lock").get(&id).copied().unwrap_or_default()
    }
}

/// The offer of a worker, as soon as it makes one.
async fn offered(offers: &Offers, job: &NewJob) -> Offer {
    let mut found = None;
    until("an offer", || {
        found = offers.take(&job.facts);
        found.is_some()
    })
    .await;
    found.expect("an offer")
}

/// Enqueues a job as a client does: into the hands of a worker that waits, or else into the queue.
async fn send(store: &Arc<dyn Store>, offer: Option<Offer>, job: NewJob) {
    let Some(offer) = offer else {
        let request = Enqueue { jobs: vec![job], actor: Actor::api(), idempotency: None };
        let sent = windlass_engine::repeat(PATIENCE, || store.enqueue(request.clone(), None)).await;
        sent.expect("the store").expect("accepted");
        return;
    };
    let handed = offer.hand_over(Arc::clone(store), job, Actor::api(), PATIENCE).await;
    handed.expect("the store").expect("accepted");
}

on_every_store! {
    /// J12, Q4: the job that a waiting worker is handed is claimed where it is enqueued, and runs.
    #[test]
    async fn a_job_goes_into_the_hands_of_a_worker_that_waits(bed: Bed) {
        let (offers, ran) = (Offers::default(), Ran::default());
        let running = Running::start(bed.worker().offers(offers.clone()).handle("job", ran.handler()));
        for _ in 0..20 {
            let job = new_job("job");
            let id = job.id;
            let offer = offered(&offers, &job).await;
            let told = offer.hand_over(Arc::clone(&bed.store), job, Actor::api(), PATIENCE).await;
            assert_eq!(told.unwrap().unwrap().id, id);
            let log = bed.log(id).await;
            assert_eq!(log[1].what.type_name(), "job_claimed", "with the answer it is somebody's");
            bed.until_is(id, Status::Completed).await;
            assert_eq!(ran.times(id), 1);
        }
        running.stop().await;
        assert!(offers.take(&new_job("job").facts).is_none(), "nothing is offered any more");
    }

    /// J12: who enqueues and is dropped half-way leaves no job behind that nobody runs.
    #[test]
    async fn a_caller_that_is_dropped_keeps_nothing_from_the_worker(bed: Bed) {
        let (offers, ran) = (Offers::default(), Ran::default());
        let running = Running::start(bed.worker().offers(offers.clone()).handle("job", ran.handler()));
        for n in 0..20 {
            let job = new_job("job");
            let id = job.id;
            let offer = offered(&offers, &job).await;
            let handing = offer.hand_over(Arc::clone(&bed.store), job, Actor::api(), PATIENCE);
            // Begun, and dropped a moment later each time.
            let _ = tokio::time::timeout(Duration::from_micros(n * 100), handing).await;
            until("it ran", || ran.times(id) == 1).await;
            let view = bed.until_is(id, Status::Completed).await;
            assert_eq!((view.job.attempt, view.job.crashes), (1, 0), "dropped after {n}00 µs");
        }
        running.stop().await;
    }

    /// J12: who enqueues and then looks elsewhere does not keep the job from the worker either.
    #[test]
    async fn a_caller_that_looks_elsewhere_keeps_nothing_from_the_worker(bed: Bed) {
        let (offers, ran) = (Offers::default(), Ran::default());
        let running = Running::start(bed.worker().offers(offers.clone()).handle("job", ran.handler()));
        let job = new_job("job");
        let id = job.id;
        let offer = offered(&offers, &job).await;
        let mut handing = Box::pin(offer.hand_over(Arc::clone(&bed.store), job, Actor::api(), PATIENCE));
        let begun = std::future::poll_fn(|cx| Poll::Ready(handing.as_mut().poll(cx))).await;
        until("it ran", || ran.times(id) == 1).await;
        bed.until_is(id, Status::Completed).await;
        // Memory may have answered already.
        let told = match begun {
            Poll::Ready(told) => told,
            Poll::Pending => handing.await,
        };
        assert_eq!(told.unwrap().unwrap().id, id);
        running.stop().await;
    }

    /// J12, Q7, R1: many enqueue at once over a store that loses, doubles and refuses calls, while workers come and go; every
    /// job is run once, under one lease.
    #[test]
    async fn every_job_is_run_once_whatever_is_lost(bed: Bed) {
        for seed in [1, 2, 3] {
            let faults = Faults { seed, fail_before: 10, lose_answer: 15, delay: 10, duplicate: 15 };
            let sick: Arc<dyn Store> = Arc::new(Faulty::new(Arc::clone(&bed.store), faults));
            let (offers, ran) = (Offers::default(), Ran::default());
            let worker = || {
                let worker = windlass_engine::Worker::new(Arc::clone(&sick)).queue("default", 4);
                Running::start(worker.offers(offers.clone()).handle("job", ran.handler()))
            };
            let (first, second) = (worker(), worker());
            let mut senders = JoinSet::new();
            for n in 0..8 {
                let (sick, offers) = (Arc::clone(&sick), offers.clone());
                senders.spawn(async move {
                    let mut ids = Vec::new();
                    for _ in 0..15 {
                        let job = new_job("job");
                        ids.push(job.id);
                        // Half of them wait for a worker that waits.
                        let offer = match n % 2 {
                            0 => Some(offered(&offers, &job).await),
                            _ => offers.take(&job.facts),
                        };
                        send(&sick, offer, job).await;
                        tokio::time::sleep(Duration::from_millis(n)).await;
                    }
                    ids
                });
            }
            // One ends while jobs are put into its hands, and another takes its place.
            tokio::time::sleep(Duration::from_millis(30)).await;
            first.stop().await;
            let third = worker();
            for id in senders.join_all().await.into_iter().flatten() {
                let view = bed.until_is(id, Status::Completed).await;
                let released = bed.count(id, "job_released").await;
                assert_eq!(ran.times(id), 1, "seed {seed}");
                assert_eq!(bed.count(id, "job_claimed").await, 1 + released, "seed {seed}");
                assert_eq!((view.job.crashes, view.job.retries), (0, 0), "seed {seed}");
            }
            second.stop().await;
            third.stop().await;
        }
    }
}
