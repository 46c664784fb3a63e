//! What runs without being asked, at its worst: ten thousand schedules at once, and events that do not fit.

mod bed;

use bed::{Bed, name, who};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use windlass_core::schedule::{Schedule, Timing};
use windlass_core::trigger::{JOBS_MAX, Passed, Trigger, TriggerJob};
use windlass_core::{Actor, Facts, Payload};
use windlass_engine::Shutdown;
use windlass_engine::service::{Leader, LiveSettings, Scheduler, TriggerProcessor};
use windlass_store::{ApplySchedules, EventsOf, Ingest, PutTrigger, ReadTriggerEvents, TriggerEvent, fresh};

/// How many schedules come in the same second.
const MANY: usize = 10_000;

fn ann() -> Actor {
    Actor::try_from("key:ann").expect("an actor")
}

/// A leader with what it leads, until the set is dropped.
fn leads(bed: &Bed) -> JoinSet<()> {
    let leader = Leader::new(Arc::clone(&bed.store), who("leader")).ttl_ms(12_000);
    let scheduler =
        Scheduler::new(Arc::clone(&bed.store), leader.leading(), LiveSettings::new(Arc::clone(&bed.store)));
    let triggers = TriggerProcessor::new(
        Arc::clone(&bed.store),
        leader.leading(),
        LiveSettings::new(Arc::clone(&bed.store)),
    );
    let mut tasks = JoinSet::new();
    tasks.spawn(leader.run(Shutdown::new()));
    tasks.spawn(scheduler.run(Shutdown::new()));
    tasks.spawn(triggers.run(Shutdown::new()));
    tasks
}

on_every_store! {
    /// R7: ten thousand schedules whose slot is the same second each get their job, once.
    #[test]
    async fn ten_thousand_schedules_come_in_one_second(bed: Bed) {
        let slot = fresh::wall_clock().plus_ms(1_000);
        let schedule = |n: usize| {
            let timing = Timing::Every(3_600_000);
            let mut schedule = Schedule::new(timing, Facts::new(name("tick"), name("default")));
            schedule.starts_at = Some(slot);
            (name(&format!("s-{n:05}")), schedule)
        };
        let schedules = (0..MANY).map(schedule).collect();
        let file = ApplySchedules { schedules, prune: false, dry_run: false, actor: ann() };
        let applied = bed.store.apply_schedules(file, None).await.expect("the store answers").expect("applied");
        assert_eq!(applied.len(), MANY);
        let _leading = leads(&bed);
        let fired = async || {
            let counts = bed.store.counts(2 * MANY as i64, None).await.expect("the store answers");
            counts.statuses.iter().map(|(_, count)| count.n).sum::<i64>()
        };
        while fired().await < MANY as i64 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let states = bed.store.schedules((), None).await.expect("the store answers");
        assert!(states.iter().all(|state| state.last_slot == Some(slot) && state.next_at > Some(slot)));
        assert_eq!(bed.store.due_schedules(10, None).await.expect("the store answers"), []);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(fired().await, MANY as i64, "each slot once");
    }

    /// R10, R4: an event that did not fit is processed by the leader soon after its trigger was mended, and stops no other.
    #[test]
    async fn a_kept_event_is_processed_once_its_trigger_is_mended(bed: Bed) {
        let put = async |jobs: Vec<TriggerJob>| {
            let request = PutTrigger { name: name("t"), trigger: Trigger { jobs }, expected_version: None, actor: ann() };
            bed.store.put_trigger(request, None).await.expect("the store answers").expect("put")
        };
        let job = |payload| TriggerJob { job: Facts::new(name("tick"), name("default")), payload };
        put(vec![job(Passed::Template(serde_json::json!({ "id": "{{payload.id}}" })))]).await;
        let _leading = leads(&bed);
        let send = async |payload: &str| {
            let request = Ingest {
                id: fresh::trigger_event_id(),
                trigger: name("t"),
                dedupe_key: None,
                payload: Some(Payload::json("payload", payload, 1_000).expect("JSON")),
                actor: ann(),
                ids: (0..JOBS_MAX).map(|_| fresh::job_id()).collect(),
            };
            bed.store.ingest(request, None).await.expect("the store answers").expect("taken").event
        };
        let (kept, good) = (send("{}").await, send(r#"{ "id": 1 }"#).await);
        assert!(kept.processed_at.is_none() && good.processed_at.is_some());
        let unprocessed = async || {
            let request = ReadTriggerEvents { of: EventsOf::Unprocessed(None), limit: 10 };
            bed.store.trigger_events(request, None).await.expect("the store answers")
        };
        let is_tried = |events: &[TriggerEvent]| events.iter().any(|event| event.detail.tries >= 2);
        while !is_tried(&unprocessed().await) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        put(vec![job(Passed::Whole)]).await;
        while !unprocessed().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let request = ReadTriggerEvents { of: EventsOf::Trigger(name("t")), limit: 10 };
        let events = bed.store.trigger_events(request, None).await.expect("the store answers");
        assert!(events.iter().all(|event| event.detail.jobs.len() == 1), "{events:?}");
    }
}
