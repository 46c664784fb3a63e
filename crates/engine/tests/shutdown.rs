//! Ending: what runs may finish, what does not is given back, and no retry is used by it.

mod bed;

use bed::{Bed, Gate, Running, handler, new_job, until};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_core::Status;
use windlass_engine::HandlerError;

on_every_store! {
    /// Q14, M13: a graceful end waits for what runs.
    #[test]
    async fn a_graceful_end_waits_for_what_runs(bed: Bed) {
        let gate = Gate::new();
        let mut running = Running::start(bed.worker().handle("job", gate.handler()));
        let id = bed.put("job").await;
        gate.has_one().await;
        running.shutdown.graceful();
        running.until_health("stopping", |health| *health == windlass_engine::Health::Stopping).await;
        let late = bed.put("job").await;
        assert_eq!(gate.bell.rang(), 0, "it still runs");
        gate.open.add_permits(2);
        running.ended().await;
        assert_eq!(bed.job(id).await.job.status, Status::Completed);
        assert_eq!(bed.job(late).await.job.version, 1, "nothing new was taken");
        assert_eq!(*running.health.borrow(), windlass_engine::Health::Stopped);
    }

    /// Q14, M13: what does not finish by the deadline is given back, and no retry is used.
    #[test]
    async fn the_deadline_gives_back_without_a_retry(bed: Bed) {
        let gate = Gate::new();
        let worker = bed.worker().shutdown_deadline(Duration::from_millis(100));
        let running = Running::start(worker.handle("job", gate.handler()));
        let id = bed.put("job").await;
        gate.has_one().await;
        running.stop().await;
        let view = bed.job(id).await;
        assert_eq!((view.job.status, view.job.retries, view.job.crashes), (Status::Retry, 0, 0));
        assert_eq!(bed.count(id, "job_released").await, 1);
        assert_eq!(gate.bell.rang(), 1, "the handler was dropped");
        gate.open.add_permits(1);
        let next = Running::start(bed.worker().handle("job", gate.handler()));
        bed.until_is(id, Status::Completed).await;
        next.stop().await;
    }

    /// Q14: a second word ends at once, however long the deadline.
    #[test]
    async fn a_second_word_ends_at_once(bed: Bed) {
        let gate = Gate::new();
        let worker = bed.worker().shutdown_deadline(Duration::from_secs(86_400));
        let mut running = Running::start(worker.handle("job", gate.handler()));
        let id = bed.put("job").await;
        gate.has_one().await;
        running.shutdown.graceful();
        running.until_health("stopping", |health| *health == windlass_engine::Health::Stopping).await;
        assert_eq!(gate.bell.rang(), 0);
        running.shutdown.now();
        running.ended().await;
        let view = bed.job(id).await;
        assert_eq!((view.job.status, view.job.retries, view.job.crashes), (Status::Retry, 0, 0));
    }

    /// Q14: what was claimed ahead and has not begun goes back at once, while what runs goes on.
    #[test]
    async fn what_has_not_begun_goes_back_at_once(bed: Bed) {
        let gate = Gate::new();
        let quick = handler(async |_| Ok(None));
        let worker = bed.worker().queue("default", 1).shutdown_deadline(Duration::from_secs(86_400));
        let mut running = Running::start(worker.handle("quick", quick).handle("slow", gate.handler()));
        let mut jobs: Vec<_> = (0..2_000).map(|_| new_job("quick")).collect();
        jobs[1_000] = new_job("slow");
        let slow = jobs[1_000].id;
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        bed.put_all(jobs).await;
        gate.has_one().await;
        running.shutdown.graceful();
        running.until_health("stopping", |health| *health == windlass_engine::Health::Stopping).await;
        for id in &ids {
            if *id != slow {
                bed.until(*id, "let go", |view| view.job.status != Status::Running).await;
            }
        }
        assert_eq!(bed.job(slow).await.job.status, Status::Running, "and the slow one goes on");
        gate.open.add_permits(1);
        running.ended().await;
        assert_eq!(bed.job(slow).await.job.status, Status::Completed);
    }

    /// M13: a worker that nobody waits for any more gives back what it held.
    #[test]
    async fn a_worker_that_is_dropped_gives_back(bed: Bed) {
        let gate = Gate::new();
        let running = Running::start(bed.worker().handle("job", gate.handler()));
        let id = bed.put("job").await;
        gate.has_one().await;
        running.drop_it().await;
        let view = bed.until_is(id, Status::Retry).await;
        assert_eq!((view.job.retries, view.job.crashes), (0, 0));
        until("the handler is dropped", || gate.bell.rang() == 1).await;
    }

    /// M13: a handler that hears of the end can leave in its own time.
    #[test]
    async fn a_handler_hears_of_the_end(bed: Bed) {
        let gate = Gate::new();
        let came = Arc::clone(&gate.came);
        let leaves = handler(move |attempt| {
            came.fetch_add(1, Ordering::AcqRel);
            async move {
                attempt.stopping().await;
                attempt.checkpoint(bed::json("{\"page\":7}")).await?;
                Err(HandlerError::snooze(Duration::ZERO))
            }
        });
        let running = Running::start(bed.worker().handle("job", leaves));
        let id = bed.put("job").await;
        gate.has_one().await;
        running.stop().await;
        let view = bed.job(id).await;
        assert_eq!((view.job.status, view.job.retries), (Status::Retry, 0));
        assert_eq!(view.checkpoint, Some(bed::json("{\"page\":7}")));
    }
}

/// M13: handlers whose runtime ends under them are given back by the engine, which has a thread of its own.
#[test]
fn a_runtime_that_ends_gives_back() {
    let (bed, id) = {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let found = runtime.block_on(async {
            let bed = Bed::memory().await;
            let hangs = handler(async |_| std::future::pending().await);
            let running = Running::start(bed.worker().handle("job", hangs));
            let id = bed.put("job").await;
            bed.until_is(id, Status::Running).await;
            std::mem::forget(running);
            (bed, id)
        });
        runtime.shutdown_timeout(Duration::from_secs(10));
        found
    };
    bed::wait_for(async {
        let view = bed.until_is(id, Status::Retry).await;
        assert_eq!((view.job.retries, view.job.crashes), (0, 0));
    });
}

/// (run) A worker that cannot work says why.
#[test]
fn a_worker_that_cannot_work_says_why() {
    bed::wait_for(async {
        let bed = Bed::memory().await;
        let said = |ran: Result<(), windlass_engine::RunError>| ran.unwrap_err().to_string();
        let handles = || handler(async |_| Ok(None));
        let worker = || windlass_engine::Worker::new(Arc::clone(&bed.store));
        let end = || async {};
        assert!(said(worker().handle("job", handles()).run_until(end()).await).contains("no queue"));
        assert!(said(worker().queue("default", 1).run_until(end()).await).contains("no handler"));
        let bad = worker().queue("no good", 1).handle("job", handles());
        assert!(said(bad.run_until(end()).await).contains("no good"));
        let short = worker().queue("default", 1).handle("job", handles()).lease(Duration::from_millis(1));
        assert!(said(short.run_until(end()).await).contains("1 s and 24 h"));
    });
}
