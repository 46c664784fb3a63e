//! A store that goes away, loses answers and comes back: the worker says so, waits, and nothing is done twice.

mod bed;

use bed::{Bed, Bell, Running, handler, json, name, new_job, until};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use windlass_core::Status;
use windlass_engine::Health;
use windlass_store::{Faults, Faulty};

const NONE: Faults = Faults { seed: 0, fail_before: 0, lose_answer: 0, delay: 0, duplicate: 0 };

on_every_store! {
    /// J9, Q14: a store that was away for less than a lease costs nothing but time.
    #[test]
    async fn a_short_absence_costs_nothing(bed: Bed) {
        let (bed, faulty) = bed.around(|store| Faulty::new(store, NONE));
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        let bell = Bell::default();
        let hung = bell.clone();
        let waits = handler(move |_| {
            let (gate, rope) = (Arc::clone(&opened), hung.hang_up());
            async move {
                let _rope = rope;
                gate.acquire().await?.forget();
                Ok(Some(json("1")))
            }
        });
        let mut running = Running::start(bed.worker().handle("job", waits));
        let id = bed.put("job").await;
        bed.until_is(id, Status::Running).await;
        faulty.set_away(true);
        running.until_health("away", |health| matches!(health, Health::Away(_))).await;
        gate.add_permits(1);
        until("the handler is done", || bell.rang() == 1).await;
        faulty.set_away(false);
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!((view.job.attempt, view.result), (1, Some(json("1"))), "its result was kept until it could be told");
        running.until_health("ready again", Health::is_ready).await;
        running.stop().await;
    }

    /// Q14, J12: one that was away for longer costs the attempts, which are made again.
    #[test]
    async fn a_long_absence_costs_the_attempt(bed: Bed) {
        let (bed, faulty) = bed.around(|store| Faulty::new(store, NONE));
        let bell = Bell::default();
        let hung = bell.clone();
        let waits = handler(move |attempt| {
            let rope = hung.hang_up();
            async move {
                let _rope = rope;
                if attempt.number() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(None)
            }
        });
        let mut running = Running::start(bed.worker().lease(Duration::from_secs(4)).handle("job", waits));
        let id = bed.put("job").await;
        bed.until_is(id, Status::Running).await;
        faulty.set_away(true);
        until("the handler is dropped", || bell.rang() == 1).await;
        running.until_health("away", |health| matches!(health, Health::Away(_))).await;
        faulty.set_away(false);
        let view = bed.until_is(id, Status::Completed).await;
        assert_eq!((view.job.attempt, view.job.retries), (2, 0));
        running.stop().await;
    }

    /// Q7, J12: lost answers, failed calls and calls that happen twice: every job is done once.
    #[test]
    async fn lost_answers_lose_no_work_and_double_none(bed: Bed) {
        let faults = Faults { seed: 7, fail_before: 8, lose_answer: 8, delay: 10, duplicate: 8 };
        let (bed, _faulty) = bed.around(|store| Faulty::new(store, faults));
        let acts = handler(async |attempt| {
            attempt.step_finished(&name("one"), false, Some(json("1"))).await?;
            attempt.note(&name("noted"), None).await?;
            attempt.sleep(&name("nap"), Duration::from_millis(1)).await?;
            Ok(attempt.payload().cloned())
        });
        // It waits for everything that it holds: a settle that was not heard to its end would hold it up for a day.
        let worker = bed.worker().queue("default", 16).shutdown_deadline(Duration::from_secs(86_400));
        let running = Running::start(worker.handle("job", acts));
        let jobs: Vec<_> = (0..60).map(|_| new_job("job")).collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        bed.put_all(jobs).await;
        for id in ids {
            let view = bed.until_is(id, Status::Completed).await;
            assert_eq!((view.job.attempt, view.job.retries, view.job.crashes), (2, 0, 0), "{:?}", bed.log(id).await);
            let counts = [bed.count(id, "node_finished").await, bed.count(id, "noted").await];
            assert_eq!(counts, [1, 2], "one step in all, one note per attempt");
        }
        running.stop().await;
    }
}

/// J9, J12: connections cut under a worker again and again; it goes on by itself.
#[test]
fn a_worker_outlives_its_connections() {
    bed::wait_for(async {
        let bed = Bed::postgres().await;
        let (cutter, connection) =
            tokio_postgres::connect(bed.url.as_deref().unwrap(), tokio_postgres::NoTls).await.unwrap();
        let mut driven = tokio::task::JoinSet::new();
        driven.spawn(connection);
        let naps = handler(async |attempt| {
            attempt.progress(50, None).await?;
            Ok(None)
        });
        let running = Running::start(bed.worker_apart().handle("job", naps));
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let mut ids = Vec::new();
        for _ in 0..10 {
            let jobs: Vec<_> = (0..50).map(|_| new_job("job")).collect();
            ids.extend(jobs.iter().map(|job| job.id));
            bed.put_all(jobs).await;
            let ended: i64 = cutter.query_one(cut, &[]).await.unwrap().get(0);
            assert!(ended > 0, "there was something to cut");
        }
        for id in ids {
            let view = bed.until_is(id, Status::Completed).await;
            assert_eq!((view.job.attempt, view.job.crashes), (1, 0), "{:?}", bed.log(id).await);
        }
        running.stop().await;
    });
}

/// M13, T8: the handler's own transaction may complete the job; the worker takes it as done.
#[test]
fn a_job_is_completed_in_the_handlers_own_transaction() {
    bed::wait_for(async {
        let bed = Bed::postgres().await;
        let url = bed.url.clone().unwrap();
        let completes = handler(move |attempt| {
            let url = url.clone();
            async move {
                let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
                let mut driven = tokio::task::JoinSet::new();
                driven.spawn(connection);
                let tx = client.transaction().await?;
                let (job, token) = (attempt.job_id().to_string(), attempt.lease_token().to_text());
                let call = format!("SELECT windlass.complete('{job}', '{token}', '[7]')");
                tx.batch_execute(&call).await?;
                tx.commit().await?;
                Ok(None)
            }
        });
        let running = Running::start(bed.worker().handle("job", completes));
        let id = bed.put("job").await;
        bed.until_is(id, Status::Completed).await;
        running.stop().await;
        let view = bed.job(id).await;
        assert_eq!((view.result, view.job.attempt), (Some(json("[7]")), 1));
        assert_eq!(bed.count(id, "job_completed").await, 1);
    });
}
