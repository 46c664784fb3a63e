//! Leases: renewed whatever handlers do, lost with all consequences, taken over by others.

mod bed;

use bed::{Bed, Bell, DEADLINE, Gate, Running, handler, new_job, until};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_core::decide::Cancel;
use windlass_core::{Actor, EventKind, Status};
use windlass_engine::HandlerError;
use windlass_store::{DrainWorker, Faults, Faulty, PauseQueue, Store};

const SECOND: Duration = Duration::from_secs(1);
/// Long enough that a machine busy with other things does not lose one that is renewed.
const LEASE: Duration = Duration::from_secs(4);

/// A store that is never reached.
fn nowhere(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let faults = Faults { seed: 0, fail_before: 100, lose_answer: 0, delay: 0, duplicate: 0 };
    Arc::new(Faulty::new(store, faults))
}

on_every_store! {
    /// Q14, J8: handlers that block every thread for longer than the lease keep their jobs.
    #[test]
    async fn handlers_that_block_their_threads_keep_their_leases(bed: Bed) {
        let blocks = handler(async |_| {
            std::thread::sleep(2 * LEASE + LEASE / 2);
            Ok(None)
        });
        let running = Running::start(bed.worker_apart().lease(LEASE).handle("blocks", blocks));
        let jobs: Vec<_> = (0..4).map(|_| new_job("blocks")).collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        bed.put_all(jobs).await;
        for id in ids {
            let view = bed.until_is(id, Status::Completed).await;
            assert_eq!((view.job.attempt, view.job.crashes), (1, 0), "never lost");
        }
        running.stop().await;
    }

    /// Q14: whoever cannot renew stops by its own clock, and what it was about to say is not heard.
    #[test]
    async fn a_lease_that_ran_out_drops_the_handler(bed: Bed) {
        let bell = Bell::default();
        let (hung, first) = (bell.clone(), Arc::new(AtomicBool::new(true)));
        let handles = handler(move |attempt| {
            let (rope, first) = (hung.hang_up(), first.swap(false, Ordering::AcqRel));
            async move {
                let _rope = rope;
                assert_eq!(first, attempt.number() == 1);
                if first {
                    std::future::pending::<()>().await;
                }
                Ok(None)
            }
        });
        let (store, lease) = (nowhere(Arc::clone(&bed.store)), LEASE);
        let cut_off = bed.worker().renew_through(move || async move { Ok(store) });
        let cut_off = Running::start(cut_off.lease(lease).handle("job", handles.clone()));
        let id = bed.put("job").await;
        bed.until_is(id, Status::Running).await;
        // So that it does not take the job again itself, as soon as the lease is over for everybody.
        let paused = |pause| PauseQueue { name: "default".try_into().unwrap(), pause, actor: Actor::api() };
        bed.store.pause_queue(paused(true), None).await.unwrap();
        until("the handler is dropped", || bell.rang() == 1).await;
        cut_off.stop().await;
        bed.store.pause_queue(paused(false), None).await.unwrap();
        let other = Running::start(bed.worker().handle("job", handles));
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!((view.job.attempt, view.job.retries), (2, 0), "taken over, without using a retry");
        other.stop().await;
    }

    /// Q14: a job that was taken from its holder is dropped there, and its result discarded.
    #[test]
    async fn a_lease_that_was_taken_drops_the_handler(bed: Bed) {
        let bell = Bell::default();
        let hung = bell.clone();
        let waits = handler(move |_| {
            let rope = hung.hang_up();
            async move {
                let _rope = rope;
                std::future::pending().await
            }
        });
        // Renewed after a third. By its own clock the worker would drop the handler too, at the end: so it is not awaited.
        let lease = 30 * SECOND;
        let running = Running::start(bed.worker().lease(lease).handle("waits", waits));
        let id = bed.put("waits").await;
        bed.until_is(id, Status::Running).await;
        let wish = Cancel { actor: Actor::api(), reason: None, force: true, force_after_ms: 0 };
        bed.store.cancel(windlass_store::Cancel { job: id, wish, expected_version: None }, None).await.unwrap().unwrap();
        let dropped = until("the handler is dropped", || bell.rang() == 1);
        tokio::time::timeout(25 * SECOND, dropped).await.expect("the refused renewal drops it");
        assert_eq!(bed.job(id).await.job.status, Status::Cancelled);
        running.stop().await;
    }

    /// Q14: a verb that finds the lease gone never comes back to the handler.
    #[test]
    async fn a_verb_without_a_lease_does_not_return(bed: Bed) {
        let (bell, came_back) = (Bell::default(), Arc::new(AtomicBool::new(false)));
        let (hung, told, store) = (bell.clone(), Arc::clone(&came_back), Arc::clone(&bed.store));
        let acts = handler(move |attempt| {
            let (rope, told, store) = (hung.hang_up(), Arc::clone(&told), Arc::clone(&store));
            async move {
                let _rope = rope;
                let wish = Cancel { actor: Actor::api(), reason: None, force: true, force_after_ms: 0 };
                let job = attempt.job_id();
                store.cancel(windlass_store::Cancel { job, wish, expected_version: None }, None).await?.expect("cancelled");
                let _whatever = attempt.progress(50, None).await;
                told.store(true, Ordering::Release);
                Ok(None)
            }
        });
        let running = Running::start(bed.worker().handle("acts", acts));
        let id = bed.put("acts").await;
        until("the handler is dropped", || bell.rang() == 1).await;
        assert!(!came_back.load(Ordering::Acquire));
        running.stop().await;
        assert_eq!(bed.job(id).await.job.status, Status::Cancelled);
    }

    /// J12: a job whose worker died is taken over as soon as its lease is over, without anybody's help.
    #[test]
    async fn a_dead_workers_job_is_taken_over(bed: Bed) {
        let held = bed.put_and_die("job", |_| {}).await;
        let running = Running::start(bed.worker().handle("job", handler(async |_| Ok(None))));
        let view = bed.until_is(held.job.id, Status::Completed).await;
        assert_eq!(view.job.attempt, 2);
        running.stop().await;
    }

    /// R6: in the grace after its lease only the holder may act; then the job is executed again.
    #[test]
    async fn a_job_is_left_to_its_holder_until_the_grace_is_over(bed: Bed) {
        let held = bed.put_and_die("job", |facts| facts.grace_ms = 1_500).await;
        let running = Running::start(bed.worker().handle("job", handler(async |_| Ok(None))));
        bed.until_is(held.job.id, Status::Completed).await;
        let log = bed.log(held.job.id).await;
        let claims: Vec<i64> =
            log.iter().filter(|e| e.what == EventKind::JobClaimed).map(|e| e.at.as_micros()).collect();
        assert!(claims.len() == 2 && claims[1] - claims[0] >= 2_500_000, "lease and grace passed: {claims:?}");
        running.stop().await;
    }

    /// R6: a worker that is cut off stops by itself when its lease ends, and within the grace gives the job back.
    #[test]
    async fn a_worker_cut_off_gives_back_within_the_grace(bed: Bed) {
        let bell = Bell::default();
        let hung = bell.clone();
        let handles = handler(move |attempt| {
            let rope = hung.hang_up();
            async move {
                let _rope = rope;
                if attempt.number() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(None)
            }
        });
        let store = nowhere(Arc::clone(&bed.store));
        let worker = bed.worker().renew_through(move || async move { Ok(store) });
        let running = Running::start(worker.lease(LEASE).handle("job", handles));
        let id = bed.put_with("job", |facts| facts.grace_ms = 600_000).await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!((view.job.attempt, view.job.crashes), (2, 0), "given back, not lost");
        assert_eq!(bed.count(id, "job_released").await, 1);
        assert_eq!(bell.rang(), 2);
        running.stop().await;
    }

    /// J12: several workers share the work and nobody does another's.
    #[test]
    async fn workers_share_the_work(bed: Bed) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let notes = handler(move |attempt| {
            told.lock().unwrap().push((attempt.job_id(), attempt.worker().clone()));
            async move {
                tokio::task::yield_now().await;
                Ok(None)
            }
        });
        let workers: Vec<_> = (0..3)
            .map(|_| Running::start(bed.worker().queue("default", 2).handle("job", notes.clone())))
            .collect();
        let jobs: Vec<_> = (0..600).map(|_| new_job("job")).collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        for jobs in jobs.chunks(20) {
            bed.put_all(jobs.to_vec()).await;
        }
        for id in ids {
            assert_eq!(bed.until_is(id, Status::Completed).await.job.attempt, 1);
        }
        for worker in workers {
            worker.stop().await;
        }
        let seen = seen.lock().unwrap();
        let jobs: HashSet<_> = seen.iter().map(|(job, _)| *job).collect();
        assert_eq!((seen.len(), jobs.len()), (600, 600), "each once");
    }

    /// J12: what was claimed ahead and finds no lane goes back, so that another worker may begin it.
    #[test]
    async fn what_finds_no_lane_goes_to_another_worker(bed: Bed) {
        let (gate, quick) = (Gate::new(), handler(async |_| Ok(None)));
        let worker = bed.worker().queue("default", 1).lease(LEASE).handle("quick", quick.clone());
        let busy = Running::start(worker.handle("slow", gate.handler()));
        let mut jobs: Vec<_> = (0..1_000).map(|_| new_job("quick")).collect();
        jobs[500] = new_job("slow");
        let (slow, ids) = (jobs[500].id, jobs.iter().map(|job| job.id).collect::<Vec<_>>());
        bed.put_all(jobs).await;
        gate.has_one().await;
        let free = Running::start(bed.worker().handle("quick", quick));
        for id in ids.into_iter().filter(|id| *id != slow) {
            bed.until_is(id, Status::Completed).await;
        }
        assert_eq!(bed.job(slow).await.job.status, Status::Running);
        gate.open.add_permits(1);
        bed.until_is(slow, Status::Completed).await;
        busy.stop().await;
        free.stop().await;
    }

    /// (registry) A worker that an operator drains takes nothing more and finishes what it has.
    #[test]
    async fn a_drained_worker_takes_nothing_more(bed: Bed) {
        let mut running = Running::start(bed.worker().handle("job", handler(async |_| Ok(None))));
        let worker = bed.until_registered().await.pop().unwrap();
        assert_eq!((worker.capacity, worker.kinds.len(), worker.draining), (4, 1, false));
        bed.store.drain_worker(DrainWorker { id: worker.id, drain: true, actor: Actor::api() }, None).await.unwrap();
        running.until_health("draining", |health| *health == windlass_engine::Health::Draining).await;
        let id = bed.put("job").await;
        running.stop().await;
        let view = bed.job(id).await;
        assert_eq!((view.job.status, view.job.version), (Status::Pending, 1));
    }
}

/// Q14: a handler that outlives its lease by blocking learns nothing and changes nothing.
#[test]
fn a_result_that_comes_after_the_lease_is_discarded() {
    bed::wait_for(async {
        let bed = Bed::memory().await;
        let store = nowhere(Arc::clone(&bed.store));
        let blocks = handler(async |attempt| {
            if attempt.number() == 1 {
                // A thread that sleeps cannot be dropped: it comes back when its lease is long over.
                std::thread::sleep(2 * LEASE);
                return Err(HandlerError::permanent("from beyond"));
            }
            Ok(None)
        });
        let worker = bed.worker().renew_through(move || async move { Ok(store) });
        let running = Running::start(worker.lease(LEASE).handle("job", blocks));
        let id = bed.put("job").await;
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!(view.job.attempt, 2);
        tokio::time::timeout(DEADLINE, running.stop()).await.expect("it ends");
        assert_eq!(bed.count(id, "job_failed").await, 0, "nobody heard the first one");
    });
}

/// (idle) A worker with nothing to do asks its store about once a second.
#[test]
fn an_idle_worker_asks_about_once_a_second() {
    bed::wait_for(async {
        let faults = Faults { seed: 0, fail_before: 0, lose_answer: 0, delay: 0, duplicate: 0 };
        let (bed, counted) = Bed::memory().await.around(|store| Faulty::new(store, faults));
        let running =
            Running::start(bed.worker().queue("other", 9).handle("job", handler(async |_| Ok(None))));
        let id = bed.put("job").await;
        bed.until_is(id, Status::Completed).await;
        // The polls after the job grow rarer: by now they are down to one a second.
        tokio::time::sleep(3 * SECOND).await;
        let before = counted.calls();
        tokio::time::sleep(5 * SECOND).await;
        let calls = counted.calls() - before;
        assert!(calls <= 10, "{calls} calls in five seconds: five polls, a sweep, a report");
        assert!(calls >= 2, "{calls} calls: it still looks");
        running.stop().await;
    });
}

/// Q14: a store for renewals that does not open at first is tried again, and the work goes on meanwhile.
#[test]
fn a_store_for_renewals_is_opened_until_it_works() {
    bed::wait_for(async {
        let bed = Bed::memory().await;
        let (tried, store) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&bed.store));
        let counted = Arc::clone(&tried);
        let worker = bed.worker().renew_through(move || async move {
            if counted.fetch_add(1, Ordering::AcqRel) < 2 { Err("not yet".into()) } else { Ok(store) }
        });
        let running = Running::start(worker.handle("job", handler(async |_| Ok(None))));
        let id = bed.put("job").await;
        bed.until_is(id, Status::Completed).await;
        until("the third try", || tried.load(Ordering::Acquire) == 3).await;
        running.stop().await;
        assert_eq!(tried.load(Ordering::Acquire), 3, "opened once");
    });
}
