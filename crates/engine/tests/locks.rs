//! A row that a stranger keeps locked costs a worker nothing but that job, and a renewal that hangs no other lease.

mod bed;

use bed::{Bed, Gate, Running, handler, new_job, until, wait_for};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};
use windlass_core::{JobId, LeaseMs, Status};
use windlass_store::{Faults, Faulty, Store};

/// Long enough that a machine busy with other things does not lose one that is renewed.
const LEASE: Duration = Duration::from_secs(4);

/// Somebody who holds a row of `jobs` locked until the value is dropped.
async fn locks(bed: &Bed, job: JobId, tasks: &mut tokio::task::JoinSet<()>) -> Client {
    let url = bed.url.as_ref().expect("a PostgreSQL");
    let (stranger, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tasks.spawn(async move { drop(connection.await) });
    stranger.batch_execute("BEGIN").await.expect("a transaction");
    let lock = format!("SELECT 1 FROM windlass.jobs WHERE id = '{job}' FOR UPDATE");
    stranger.batch_execute(&lock).await.expect("a lock");
    stranger
}

/// (leases): a row that is locked for more than two leases: no other handler of that worker is dropped.
#[test]
fn a_locked_row_costs_no_other_handler() {
    wait_for(async {
        let (bed, mut tasks) = (Bed::postgres().await, tokio::task::JoinSet::new());
        let gate = Gate::new();
        let worker = bed.worker_apart().queue("default", 6).lease(LEASE).handle("job", gate.handler());
        let jobs: Vec<_> = (0..6).map(|_| new_job("job")).collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        bed.put_all(jobs).await;
        let running = Running::start(worker);
        until("all of them run", || gate.came.load(Ordering::Acquire) == 6).await;
        let stranger = locks(&bed, ids[0], &mut tasks).await;
        tokio::time::sleep(2 * LEASE + LEASE / 2).await;
        assert!(gate.bell.rang() <= 1, "only the locked one may be dropped, by its own clock");
        drop(stranger);
        gate.open.add_permits(100);
        for id in &ids[1..] {
            let view = bed.until_is(*id, Status::Completed).await;
            assert_eq!((view.job.attempt, view.job.crashes), (1, 0), "never lost");
        }
        bed.until_is(ids[0], Status::Completed).await;
        running.stop().await;
    });
}

/// (leases): ends under a parent that is locked wait for it; those of others do not, and nothing is done twice.
#[test]
fn ends_under_a_locked_parent_delay_no_others() {
    wait_for(async {
        let (bed, mut tasks) = (Bed::postgres().await, tokio::task::JoinSet::new());
        let parent = bed.put_with("parent", |facts| facts.queue = bed::name("parents")).await;
        let stranger = locks(&bed, parent, &mut tasks).await;
        drop(stranger.batch_execute("COMMIT").await);
        let mut jobs: Vec<_> = (0..6).map(|_| new_job("job")).collect();
        for job in &mut jobs[..3] {
            job.facts.parent_id = Some(parent);
        }
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        bed.put_all(jobs).await;
        stranger
            .batch_execute(&format!("BEGIN; SELECT 1 FROM windlass.jobs WHERE id = '{parent}' FOR UPDATE"))
            .await
            .expect("a lock");
        let worker =
            bed.worker_apart().queue("default", 6).lease(LEASE).handle("job", handler(async |_| Ok(None)));
        let running = Running::start(worker);
        for id in &ids[3..] {
            bed.until_is(*id, Status::Completed).await;
        }
        tokio::time::sleep(LEASE + LEASE / 2).await;
        for id in &ids[..3] {
            assert_eq!(bed.job(*id).await.job.status, Status::Running, "still held, and renewed");
        }
        drop(stranger);
        for id in &ids[..3] {
            let view = bed.until_is(*id, Status::Completed).await;
            assert_eq!((view.job.attempt, view.job.crashes), (1, 0), "asked again until it could be settled");
        }
        running.stop().await;
    });
}

/// (leases): while the renewal of a long lease hangs, a short one is renewed.
#[test]
fn a_renewal_that_hangs_delays_no_other_lease() {
    wait_for(async {
        let bed = Bed::memory().await;
        let none = Faults { seed: 0, fail_before: 0, lose_answer: 0, delay: 0, duplicate: 0 };
        let slow = Arc::new(Faulty::new(Arc::clone(&bed.store), none));
        let renewals = Arc::clone(&slow) as Arc<dyn Store>;
        let gate = Gate::new();
        let worker = bed.worker().renew_through(move || async move { Ok(renewals) });
        let running = Running::start(worker.handle("job", gate.handler()));
        let lease = |ms| Some(LeaseMs::new(ms).expect("a lease"));
        slow.never_answer("extend");
        let long = bed.put_with("job", |facts| facts.lease_ms = lease(12_000)).await;
        until("the renewal of the long one hangs", || slow.is_hung()).await;
        let short = bed.put_with("job", |facts| facts.lease_ms = lease(2_000)).await;
        until("both run", || gate.came.load(Ordering::Acquire) == 2).await;
        // As long as that renewal hangs, and longer than the short lease.
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        assert_eq!(gate.bell.rang(), 0, "nobody was dropped");
        gate.open.add_permits(100);
        for id in [long, short] {
            let view = bed.until_is(id, Status::Completed).await;
            assert_eq!(view.job.attempt, 1);
        }
        running.stop().await;
    });
}
