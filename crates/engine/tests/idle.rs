//! Idle work is cancelled where the settings say so, by the process that leads, and nothing else is.

mod bed;

use bed::{Bed, DEADLINE, who};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_core::settings::Settings;
use windlass_core::{Actor, JobId, RunAt, Status};
use windlass_engine::Shutdown;
use windlass_engine::service::{IdleCanceller, Leader, LiveSettings};
use windlass_store::PutSettings;

/// A process that leads, or waits to; it dies with the set.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str) {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(2_000);
    let idle = IdleCanceller::new(
        Arc::clone(&bed.store),
        leader.leading(),
        LiveSettings::new(Arc::clone(&bed.store)),
    );
    let shutdown = Shutdown::new();
    tasks.spawn(async move {
        tokio::join!(leader.run(shutdown.clone()), idle.run(shutdown));
    });
}

async fn cancel_after(bed: &Bed, cancel_idle_after_ms: Option<i64>) {
    let state = bed.store.settings((), None).await.expect("the store");
    let settings = Settings { cancel_idle_after_ms, ..state.settings };
    let put = PutSettings { settings, expected_version: state.version, actor: Actor::engine() };
    bed.store.put_settings(put, None).await.expect("the store").expect("set");
}

/// Whether a job was cancelled for standing still.
async fn is_cancelled(bed: &Bed, job: JobId) -> bool {
    let job = bed.job(job).await.job;
    job.status == Status::Cancelled && job.error_code.is_some_and(|code| code.as_str() == "idle")
}

async fn until_cancelled(bed: &Bed, jobs: &[JobId]) {
    let looked = async {
        for job in jobs {
            while !is_cancelled(bed, *job).await {
                sleep(Duration::from_millis(20)).await;
            }
        }
    };
    assert!(timeout(DEADLINE, looked).await.is_ok(), "they were never cancelled");
}

on_every_store! {
    /// T9: jobs that nobody takes go once the setting says so, by hundreds; one that is due later stays, and so does all of it
    /// while nothing is set.
    #[test]
    async fn idle_jobs_are_cancelled_once_that_is_set(bed: Bed) {
        let later = bed.put_with("later", |facts| facts.run_at = RunAt::After(3_600_000)).await;
        let mut idle = Vec::new();
        for _ in 0..250 {
            idle.push(bed.put("never.taken").await);
        }
        sleep(Duration::from_millis(1_100)).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a");
        process(&bed, &mut tasks, "b");
        let (first, last) = (idle[0], idle[249]);
        assert!(bed.job(first).await.job.status == Status::Pending, "nothing is set");
        cancel_after(&bed, Some(1_000)).await;
        until_cancelled(&bed, &idle).await;
        assert_eq!(bed.job(later).await.job.status, Status::Pending);
        assert_eq!(bed.count(last, "job_cancelled").await, 1);
    }

    /// T9: a leader that died is followed by another, which cancels what became idle since.
    #[test]
    async fn the_next_leader_goes_on(bed: Bed) {
        cancel_after(&bed, Some(1_000)).await;
        let before = bed.put("never.taken").await;
        sleep(Duration::from_millis(1_100)).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a");
        until_cancelled(&bed, &[before]).await;
        tasks.shutdown().await;
        let since = bed.put("never.taken").await;
        sleep(Duration::from_millis(1_100)).await;
        process(&bed, &mut tasks, "b");
        until_cancelled(&bed, &[since]).await;
    }
}
