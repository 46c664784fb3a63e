//! Jobs that were claimed ahead and wait in a worker's line: they begin under a live lease or not at all.

mod bed;

use bed::{Bed, Gate, Running, handler, new_job, until};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use windlass_core::decide::Cancel;
use windlass_core::{Actor, JobId, NewJob, Status};
use windlass_engine::Handler;

/// How soon a handler hears of a cancel: a second, and half of one for a busy machine.
const HEARD_WITHIN: Duration = Duration::from_millis(1_500);

/// What began, in order: the job and its fence.
type Begun = Arc<Mutex<Vec<(JobId, i32)>>>;

fn noting(begun: &Begun) -> Handler {
    let begun = Arc::clone(begun);
    handler(move |attempt| {
        begun.lock().expect("unpoisoned").push((attempt.job_id(), attempt.number()));
        async { Ok(None) }
    })
}

/// Many short jobs, so that a worker claims ahead, then one that takes as long as a gate is shut, then as many again.
fn burst(set: impl Fn(&mut NewJob)) -> [Vec<NewJob>; 3] {
    let some = |number: usize, kind: &str, priority: i32| -> Vec<NewJob> {
        let mut jobs: Vec<_> = (0..number).map(|_| new_job(kind)).collect();
        jobs.iter_mut().for_each(|job| job.facts.priority = priority);
        jobs
    };
    let mut jobs = [some(500, "quick", 1), some(1, "slow", 0), some(500, "quick", -1)];
    jobs.iter_mut().flatten().filter(|job| job.facts.priority != 0).for_each(set);
    jobs
}

fn ids(jobs: &[NewJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

on_every_store! {
    /// Q14, J12: a job in line counts no timeout, and no handler begins after a newer attempt has.
    #[test]
    async fn what_waits_in_line_is_not_timed_out(bed: Bed) {
        let (gate, begun) = (Gate::new(), Begun::default());
        let worker = bed.worker().queue("default", 1).handle("quick", noting(&begun));
        let busy = Running::start(worker.handle("slow", gate.handler()));
        let jobs = burst(|job| job.facts.timeout_ms = Some(2_000));
        let behind = ids(&jobs[2]);
        bed.put_all(jobs.concat()).await;
        gate.has_one().await;
        // Longer than the timeout of those that may wait behind it.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let free = Running::start(bed.worker().handle("quick", noting(&begun)));
        for id in &behind[..400] {
            bed.until_is(*id, Status::Completed).await;
        }
        gate.open.add_permits(1);
        for id in &behind {
            let view = bed.until_is(*id, Status::Completed).await;
            assert_eq!((view.job.retries, view.job.crashes), (0, 0), "{:?}", bed.log(*id).await);
        }
        busy.stop().await;
        free.stop().await;
        let mut newest: HashMap<JobId, i32> = HashMap::new();
        for (job, fence) in begun.lock().unwrap().iter() {
            assert!(newest.insert(*job, *fence).is_none(), "{job} began twice, the second time as {fence}");
        }
    }

    /// J7: a cancel reaches jobs that wait in a worker's line; their handlers never begin.
    #[test]
    async fn what_is_cancelled_in_line_never_begins(bed: Bed) {
        let (gate, begun) = (Gate::new(), Begun::default());
        let worker = bed.worker().queue("default", 1).handle("quick", noting(&begun));
        let busy = Running::start(worker.handle("slow", gate.handler()));
        let jobs = burst(|_| {});
        let (slow, cancelled) = (jobs[1][0].id, ids(&jobs[2]));
        bed.put_all(jobs.concat()).await;
        gate.has_one().await;
        for id in &cancelled {
            let wish = Cancel { actor: Actor::api(), reason: None, force: false, force_after_ms: 600_000 };
            bed.store.cancel(windlass_store::Cancel { job: *id, wish, expected_version: None }, None).await.unwrap().unwrap();
        }
        for id in &cancelled {
            bed.until_is(*id, Status::Cancelled).await;
        }
        assert_eq!(bed.job(slow).await.job.status, Status::Running, "nobody had to wait for it");
        gate.open.add_permits(1);
        bed.until_is(slow, Status::Completed).await;
        busy.stop().await;
        assert!(begun.lock().unwrap().iter().all(|(job, _)| !cancelled.contains(job)));
    }

    /// J7: also where the hint at the cancel comes while others gather that began before the job was taken.
    #[test]
    async fn a_cancel_of_a_job_that_has_just_begun_is_heard(bed: Bed) {
        let gate = Gate::new();
        let worker = bed.worker().lease(Duration::from_secs(3_600)).cancel_grace(Duration::ZERO);
        let running = Running::start(worker.handle("slow", gate.handler()));
        bed.put("unserved").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let id = bed.put("slow").await;
        gate.has_one().await;
        let wish = Cancel { actor: Actor::api(), reason: None, force: false, force_after_ms: 3_600_000 };
        bed.store.cancel(windlass_store::Cancel { job: id, wish, expected_version: None }, None).await.unwrap().unwrap();
        until("the handler is dropped", || gate.bell.rang() == 1).await;
        bed.until_is(id, Status::Cancelled).await;
        running.stop().await;
    }

    /// J7: a handler hears of a cancel within a second, long before its lease is renewed.
    #[test]
    async fn a_cancel_does_not_wait_for_the_renewal(bed: Bed) {
        let gate = Gate::new();
        // Renewed after twenty minutes; every condition here is awaited for one.
        let worker = bed.worker().lease(Duration::from_secs(3_600)).cancel_grace(Duration::ZERO);
        let running = Running::start(worker.handle("slow", gate.handler()));
        let id = bed.put("slow").await;
        gate.has_one().await;
        let wish = Cancel { actor: Actor::api(), reason: None, force: false, force_after_ms: 3_600_000 };
        bed.store.cancel(windlass_store::Cancel { job: id, wish, expected_version: None }, None).await.unwrap().unwrap();
        let asked = Instant::now();
        until("the handler is dropped", || gate.bell.rang() == 1).await;
        let heard = asked.elapsed();
        assert!(heard < HEARD_WITHIN, "a cancel was heard of after {heard:?}");
        bed.until_is(id, Status::Cancelled).await;
        running.stop().await;
    }
}
