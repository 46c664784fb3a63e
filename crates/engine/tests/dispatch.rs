//! Queues in mode push, end to end: workers that lead, assign and run.

mod bed;

use bed::{Bed, Gate, Running, handler, name, until, who};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use windlass_core::settings::Settings;
use windlass_core::{Actor, EventKind, JobId, QueueDefaults, QueueMode, Status};
use windlass_engine::service::{Dispatcher, Leader, LiveSettings};
use windlass_engine::{Handler, Shutdown, Worker};
use windlass_store::{DrainWorker, PutQueue, PutSettings, PutWorker};

async fn push(bed: &Bed, queue: &str) {
    let (defaults, actor) = (QueueDefaults::default(), Actor::api());
    let put = PutQueue {
        defaults: Some(defaults),
        mode: Some(QueueMode::Push),
        ..PutQueue::new(name(queue), actor)
    };
    bed.store.put_queue(put, None).await.expect("the store answers").expect("it is set");
}

/// A leader that assigns and works not: its tasks.
async fn leads(bed: &Bed, tasks: &mut JoinSet<()>, reassign_after_ms: i64) {
    let settings = Settings { reassign_after_ms, ..Settings::default() };
    let put = PutSettings { settings, expected_version: 0, actor: Actor::api() };
    bed.store.put_settings(put, None).await.expect("the store answers").expect("they are set");
    let leader = Leader::new(Arc::clone(&bed.store), who("leader")).ttl_ms(8_000);
    let dispatcher =
        Dispatcher::new(Arc::clone(&bed.store), leader.leading(), LiveSettings::new(Arc::clone(&bed.store)));
    tasks.spawn(leader.run(Shutdown::new()));
    tasks.spawn(dispatcher.run(Shutdown::new()));
}

fn labelled(worker: Worker, label: &str, value: &str) -> Worker {
    worker.labels([(label.to_owned(), value.into())].into_iter().collect())
}

/// Who ran which job.
type Ran = Arc<Mutex<BTreeMap<JobId, Vec<String>>>>;

fn noting(ran: &Ran, who: &str) -> Handler {
    let (ran, who) = (Arc::clone(ran), who.to_owned());
    handler(move |attempt| {
        ran.lock().expect("unpoisoned").entry(attempt.job_id()).or_default().push(who.clone());
        async { Ok(None) }
    })
}

/// A worker that reports itself for so long and never claims.
async fn reports(bed: &Bed, id: &str, ttl_ms: i64) {
    let request = PutWorker {
        id: who(id),
        queues: vec![name("default")],
        kinds: vec![],
        capacity: 100,
        slots: BTreeMap::new(),
        labels: serde_json::Map::new(),
        draining: false,
        ttl_ms: windlass_core::LeaseMs::new(ttl_ms).expect("a time"),
    };
    bed.store.put_worker(request, None).await.expect("the store answers");
}

on_every_store! {
    /// R2, R3, R5: every job of a push queue runs once, at a worker whose labels match, under the leader's epoch; what
    /// nobody matches waits, and stops nothing behind it.
    #[test]
    async fn jobs_go_to_workers_whose_labels_match(bed: Bed) {
        push(&bed, "default").await;
        let ran = Ran::default();
        let start = |zone: &str| {
            let worker = labelled(bed.worker(), "zone", zone).schedules(true);
            Running::start(worker.handle("work", noting(&ran, zone)))
        };
        let workers = [start("eu"), start("us")];
        let nobody = bed.put_with("work", |facts| {
            facts.priority = 5;
            facts.requires.insert(name("zone"), "mars".to_owned());
        }).await;
        let mut wanted = BTreeMap::new();
        for n in 0..40 {
            let zone = ["eu", "us"][n % 2];
            let id = bed.put_with("work", |facts| { facts.requires.insert(name("zone"), zone.to_owned()); }).await;
            wanted.insert(id, vec![zone.to_owned()]);
        }
        for id in wanted.keys() {
            bed.until_is(*id, Status::Completed).await;
        }
        assert_eq!(*ran.lock().expect("unpoisoned"), wanted, "each ran once, where it should");
        let first = wanted.keys().next().expect("a job");
        let log = bed.log(*first).await;
        let types: Vec<&str> = log.iter().map(|event| event.what.type_name()).collect();
        assert_eq!(types, ["job_created", "job_assigned", "job_started", "job_completed"]);
        let EventKind::JobAssigned(assigned) = &log[1].what else { panic!("{:?}", log[1]) };
        assert_eq!(bed.job(*first).await.job.epoch, Some(assigned.epoch), "the run keeps its epoch");
        assert_eq!(bed.job(nobody).await.job.status, Status::Pending);
        for worker in workers {
            worker.stop().await;
        }
    }

    /// R2: never more at once than a worker has room for in that queue, and the free one gets the next.
    #[test]
    async fn the_least_loaded_worker_gets_the_next(bed: Bed) {
        push(&bed, "default").await;
        let mut tasks = JoinSet::new();
        leads(&bed, &mut tasks, 10_000).await;
        let (small, large) = (Gate::new(), Gate::new());
        let worker = |n, gate: &Gate| Worker::new(Arc::clone(&bed.store)).queue("default", n).handle("work", gate.handler());
        let both = [Running::start(worker(1, &small)), Running::start(worker(3, &large))];
        while bed.until_registered().await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut ids = Vec::new();
        for _ in 0..6 {
            ids.push(bed.put("work").await);
        }
        let standing = async |status| {
            let mut n = 0;
            for id in &ids {
                n += usize::from(bed.job(*id).await.job.status == status);
            }
            n
        };
        while standing(Status::Running).await < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!((standing(Status::Running).await, standing(Status::Pending).await), (4, 2), "no more than fit");
        small.open.add_permits(6);
        large.open.add_permits(6);
        for id in &ids {
            bed.until_is(*id, Status::Completed).await;
        }
        for worker in both {
            worker.stop().await;
        }
    }

    /// R8, R15: assigned to one that is gone before it starts, a job becomes an orphan after the time that is set, and then
    /// another's. A live worker keeps what it was assigned, however late; a drained one gets nothing.
    #[test]
    async fn an_orphan_is_assigned_to_another(bed: Bed) {
        push(&bed, "default").await;
        reports(&bed, "gone", 1_500).await;
        let mut tasks = JoinSet::new();
        leads(&bed, &mut tasks, 1_000).await;
        let id = bed.put("work").await;
        let assigned = bed.until_is(id, Status::Assigned).await;
        assert_eq!(assigned.job.worker_id, Some(who("gone")));
        let until = assigned.job.updated_at.plus_ms(1_000);
        assert_eq!(assigned.job.deadline_at, Some(until), "as the settings say");
        reports(&bed, "drained", 60_000).await;
        let drain = DrainWorker { id: who("drained"), drain: true, actor: Actor::api() };
        bed.store.drain_worker(drain, None).await.expect("the store answers");
        let ran = Ran::default();
        let worker = Running::start(bed.worker().handle("work", noting(&ran, "real")));
        let done = bed.until_is(id, Status::Completed).await;
        assert_eq!(done.job.attempt, 1, "an attempt is an execution");
        assert_eq!(bed.count(id, "job_orphaned").await, 1);
        assert_eq!(ran.lock().expect("unpoisoned")[&id], ["real"]);
        worker.stop().await;
    }

    /// R6: a lost run goes back into line and runs again, with the next attempt.
    #[test]
    async fn a_lost_run_is_assigned_again(bed: Bed) {
        push(&bed, "default").await;
        reports(&bed, "dead", 60_000).await;
        let mut tasks = JoinSet::new();
        leads(&bed, &mut tasks, 10_000).await;
        let id = bed.put_with("work", |facts| facts.lease_ms = windlass_core::LeaseMs::new(1_000).ok()).await;
        bed.until_is(id, Status::Assigned).await;
        let claim = windlass_store::ClaimMany::new(
            who("dead"), vec![name("default")], 1, windlass_store::fresh::secret(),
        );
        assert_eq!(bed.store.claim(claim, None).await.expect("the store answers").len(), 1);
        bed.store.remove_worker(who("dead"), None).await.expect("the store answers");
        let ran = Ran::default();
        let worker = Running::start(bed.worker().handle("work", noting(&ran, "real")));
        let done = bed.until_is(id, Status::Completed).await;
        assert_eq!((done.job.attempt, done.job.crashes), (2, 1));
        until("it ran", || ran.lock().expect("unpoisoned").contains_key(&id)).await;
        worker.stop().await;
    }
}
