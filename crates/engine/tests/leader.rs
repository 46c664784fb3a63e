//! Who leads, and schedules that fire while somebody does.

mod bed;

use bed::{Bed, Running, handler, name, who};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use windlass_core::schedule::{Schedule, Timing};
use windlass_core::{Actor, Facts};
use windlass_engine::Shutdown;
use windlass_engine::service::{Leader, Leading};
use windlass_store::PutSchedule;

/// A candidate at work: whether it leads, its word to end, and its task.
fn candidate(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str) -> (Leading, Shutdown, AbortHandle) {
    start(Leader::new(Arc::clone(&bed.store), who(holder)), tasks)
}

/// One that leaves the term to others, as workers do.
fn yielding(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str) -> (Leading, Shutdown, AbortHandle) {
    start(Leader::new(Arc::clone(&bed.store), who(holder)).yields(), tasks)
}

fn start(leader: Leader, tasks: &mut JoinSet<()>) -> (Leading, Shutdown, AbortHandle) {
    let leader = leader.ttl_ms(4_000);
    let (leading, shutdown) = (leader.leading(), Shutdown::new());
    let handle = tasks.spawn(leader.run(shutdown.clone()));
    (leading, shutdown, handle)
}

on_every_store! {
    /// R4: one leads; when it ends, another does at once; when it dies, another does after its term. Epochs grow.
    #[test]
    async fn somebody_leads_and_only_one(bed: Bed) {
        let mut tasks = JoinSet::new();
        let (mut first, ends, _) = candidate(&bed, &mut tasks, "a");
        assert_eq!(first.leads().await, 1);
        let (mut second, _, dies) = candidate(&bed, &mut tasks, "b");
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!((first.epoch(), second.epoch()), (Some(1), None), "it is renewed past its first end");
        ends.graceful();
        assert_eq!(second.leads().await, 2);
        assert_eq!(first.epoch(), None);
        let (mut third, _, _) = candidate(&bed, &mut tasks, "c");
        dies.abort();
        assert_eq!(third.leads().await, 3);
        let term = bed.store.term(Leading::term(), None).await.expect("the store answers").expect("a term");
        assert_eq!((term.holder, term.epoch), (who("c"), 3));
        let changes = async || {
            let read = windlass_store::ReadAudit { before: None, limit: 100 };
            let audit = bed.store.audit(read, None).await.expect("the store answers");
            audit.iter().filter(|entry| entry.action.as_str() == "leader.change").count()
        };
        while changes().await < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(changes().await, 3, "every change of leader is in the audit");
    }

    /// R4: a worker leads while no server is there, resigns for one that comes, and leads again when the last server is gone,
    /// whether that ended or died.
    #[test]
    async fn a_worker_leaves_the_term_to_servers(bed: Bed) {
        let mut tasks = JoinSet::new();
        let (mut worker, ..) = yielding(&bed, &mut tasks, "worker");
        let (mut other, ends, _) = yielding(&bed, &mut tasks, "other worker");
        let one = tokio::select! { epoch = worker.leads() => epoch, epoch = other.leads() => epoch };
        assert_eq!(one, 1, "one of two workers leads");
        ends.graceful();
        worker.leads().await;
        let (mut first, first_ends, _) = candidate(&bed, &mut tasks, "server");
        let epoch = first.leads().await;
        assert_eq!(worker.epoch(), None, "it resigned");
        // With servers left, it is one of them that leads next.
        let (mut second, _, dies) = candidate(&bed, &mut tasks, "another server");
        let next = async || bed.store.term(name("next_leader"), None).await.expect("the store");
        while next().await.is_none_or(|next| next.holder != who("another server")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        first_ends.graceful();
        let next = tokio::select! { epoch = worker.leads() => Err(epoch), epoch = second.leads() => Ok(epoch) };
        assert!(next.is_ok_and(|next| next > epoch), "{next:?} after {epoch}");
        dies.abort();
        worker.leads().await;
        assert_eq!((first.epoch(), second.epoch().is_some()), (None, true), "the dead one never says so");
    }

    /// R7, R4: several workers fire one schedule; each slot is one job, and each job runs.
    #[test]
    async fn workers_fire_schedules_once_together(bed: Bed) {
        let slots: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let noting = {
            let slots = Arc::clone(&slots);
            handler(move |attempt| {
                let slot = attempt.metadata().get("slot").and_then(|slot| slot.as_str()).unwrap_or("none").to_owned();
                *slots.lock().expect("unpoisoned").entry(slot).or_default() += 1;
                async { Ok(None) }
            })
        };
        let workers: Vec<Running> = (0..3)
            .map(|_| Running::start(bed.worker().queue("default", 2).schedules(true).handle("tick", noting.clone())))
            .collect();
        let schedule = Schedule::new(Timing::Every(1_000), Facts::new(name("tick"), name("default")));
        let actor = Actor::try_from("key:ann").expect("an actor");
        let put = PutSchedule { name: name("pulse"), schedule, expected_version: None, actor };
        bed.store.put_schedule(put, None).await.expect("the store answers").expect("made");
        while slots.lock().expect("unpoisoned").len() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for worker in workers {
            worker.stop().await;
        }
        let slots = slots.lock().expect("unpoisoned");
        assert!(slots.values().all(|runs| *runs == 1), "{slots:?}");
        assert!(!slots.contains_key("none"), "each job names its slot");
    }
}
