//! What a store does with values that do not read back. Nobody can write them through a store, so a test of each store
//! plants them by hand and runs these.

use crate::{Bed, at, completes, name, report, time};
use async_trait::async_trait;
use std::collections::BTreeMap;
use windlass_core::schedule::{Schedule, Timing};
use windlass_core::trigger::{Passed, Trigger, TriggerJob};
use windlass_core::{Event, EventKind, Filter, JobId, LeaseMs, Outcome, Refusal, RunAt, Status};
use windlass_store::{
    ClaimMany, Claimed, Extend, FireSchedule, Ingest, List, Listed, MissedLimits, PauseSchedule,
    ProcessTriggerEvent, Purge, PutSchedule, PutTrigger, ReadArchive, ReadAudit, ReadEvents, ReadFeed,
    RemoveSchedule, Settle, SettleItem, StoreError, fresh,
};

/// Somebody who writes into a store past its guard.
#[async_trait]
pub trait Planter: Send + Sync {
    /// Puts this text in the place of an event's detail.
    async fn detail(&self, job: JobId, version: i64, detail: &str);
    /// Puts this text in a column of a job's row.
    async fn column(&self, job: JobId, column: &str, text: &str);
    /// Puts this text in the place of a schedule or a trigger: the table, its name, the text.
    async fn state(&self, table: &str, name: &str, text: &str);
}

/// A first event whose metadata holds a number that no program of ours can hold.
const HUGE: &str = r#"{"kind":"work","queue":"default","max_retries":3,"metadata":{"n":1e400}}"#;

async fn listed(bed: &Bed) -> BTreeMap<JobId, Listed> {
    let request = List { filter: Filter::default(), cursor: None, limit: 100 };
    let page = bed.store.jobs(request, at(9)).await.expect("the store answers").expect("a page");
    page.items.into_iter().map(|listed| (listed.job.id, listed)).collect()
}

/// The whole feed, two by two.
async fn fed(bed: &Bed) -> Vec<Event> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = ReadFeed { after, limit: 2, payloads: true };
        let page = bed.store.feed(request, at(9)).await.expect("the store answers").expect("a page");
        if page.events.is_empty() {
            return all;
        }
        all.extend(page.events.into_iter().map(|e| e.event));
        after = Some(page.next);
    }
}

async fn held_jobs(bed: &Bed, jobs: usize) -> Vec<Claimed> {
    bed.enqueue_all((0..jobs).map(|_| bed.job("work")).collect(), at(0)).await;
    bed.claims("w", jobs, at(0)).await
}

fn is_unreadable(event: &Event) -> bool {
    matches!(event.what, EventKind::Unreadable(_))
}

/// That reading this job alone says which job it is.
async fn is_named(bed: &Bed, job: JobId) {
    match bed.store.job(job, at(9)).await {
        Err(StoreError::Corrupt { job: named, .. }) => assert_eq!(named, Some(job)),
        other => panic!("it reads back: {other:?}"),
    }
}

/// First events that do not read back: the claim hands out all others, those fail and say so, and lists, logs, the feed
/// and the archive go on and name them.
pub async fn a_first_event_fails_alone(bed: &Bed, planter: &dyn Planter) {
    let (mut ids, mut bad) = (Vec::new(), Vec::new());
    for n in 0..6 {
        let id = bed.a_job(at(0)).await;
        if [0, 3].contains(&n) {
            planter.detail(id, 1, if n == 0 { HUGE } else { "{" }).await;
            bad.push(id);
        } else {
            ids.push(id);
        }
    }
    let alone = bed.enqueue(bed.job_in("work", "other"), at(0)).await.id;
    planter.detail(alone, 1, HUGE).await;
    bad.push(alone);

    let list = listed(bed).await;
    let named: Vec<JobId> = list.values().filter(|l| l.unreadable.is_some()).map(|l| l.job.id).collect();
    assert_eq!((list.len(), &named), (7, &bad), "every job is listed, and these are named");
    for id in &bad {
        is_named(bed, *id).await;
    }

    let one = bed.claims("w1", 1, at(1)).await;
    assert_eq!(
        one.iter().map(|c| c.job.id).collect::<Vec<_>>(),
        ids[..1],
        "one alone, past the head of the line"
    );
    let claimed = bed.claims("w", 10, at(1)).await;
    assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), ids[1..], "many at once");
    let refused = bed.claims_by_id("w", alone, at(1)).await.expect_err("by its id");
    assert_eq!(refused, Refusal::Finished(Status::Failed));
    let list = listed(bed).await;
    for id in &bad {
        let job = &list[id].job;
        let code = job.error_code.as_ref().map(|code| code.as_str());
        assert_eq!((job.status, code), (Status::Failed, Some("unreadable")), "{id}");
    }
    assert!(
        bed.claims_from("w2", &["default", "other"], 10, at(2)).await.is_empty(),
        "nothing comes round again"
    );

    let events = fed(bed).await;
    assert_eq!(events.iter().filter(|e| is_unreadable(e)).map(|e| e.job).collect::<Vec<_>>(), bad);
    assert_eq!(events.len(), 7 + 7 + 3, "created, claimed and failed: {events:?}");
    for newest_first in [false, true] {
        let request = ReadEvents { job: bad[0], after: 0, limit: 10, newest_first };
        let log = bed.store.events(request, at(9)).await.expect("the log");
        let read: Vec<(i64, bool)> = log.iter().map(|e| (e.version, is_unreadable(e))).collect();
        let mut expected = vec![(1, true), (2, false), (3, false)];
        if newest_first {
            expected.reverse();
        }
        assert_eq!(read, expected);
    }

    for held in one.iter().chain(&claimed) {
        bed.settles(held, completes(), at(3)).await.expect("an innocent job completes");
    }
    let request = ReadArchive { finished_before: crate::time(10), limit: 100 };
    let archived = bed.store.archive(request, at(9)).await.expect("the archive");
    assert_eq!(archived.len(), 7, "what does not read back leaves like all others");
    let kept = archived.iter().find(|a| a.job.id == bad[1]).expect("it is among them");
    assert_eq!(kept.events[0].what.detail().as_deref(), Some("{"), "as it is stored");
    let jobs = archived.iter().map(|a| (a.job.id, a.job.version)).collect();
    let purged = bed.store.purge(Purge { jobs, archive: None }, at(9)).await.expect("the store answers");
    assert!(purged.iter().all(Result::is_ok), "{purged:?}");
}

/// Later events that do not read back: what the next attempt would need is not made up, so that job fails alone.
pub async fn a_later_event_fails_alone(bed: &Bed, planter: &dyn Planter) {
    let mut ids = Vec::new();
    for held in held_jobs(bed, 3).await {
        let mut progress = report(&held);
        progress.metadata = Some([("n".to_owned(), 1.into())].into_iter().collect());
        bed.store.progress(progress, at(1)).await.expect("the store answers").expect("it is held");
        bed.settles(&held, Outcome::Release(RunAt::Now), at(1)).await.expect("it is given back");
        ids.push(held.job.id);
    }
    planter.detail(ids[1], 3, r#"{"metadata":{"n":1e400}}"#).await;
    is_named(bed, ids[1]).await;
    let claimed = bed.claims("w", 10, at(2)).await;
    assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    let job = listed(bed).await[&ids[1]].job.clone();
    assert_eq!(job.error_code.as_ref().map(|code| code.as_str()), Some("unreadable"));
    assert_eq!(fed(bed).await.iter().filter(|e| is_unreadable(e)).count(), 1);
    assert!(bed.claims("w2", 10, at(3)).await.is_empty());
}

/// Rows that do not read back: no rule can decide on them, so they are set aside, and the audit says why.
pub async fn a_row_fails_alone(bed: &Bed, planter: &dyn Planter) {
    let mut ids = Vec::new();
    for held in held_jobs(bed, 4).await {
        bed.settles(&held, Outcome::Release(RunAt::Now), at(0)).await.expect("it is given back");
        ids.push(held.job.id);
    }
    planter.column(ids[0], "backoff", "{").await;
    planter.column(ids[2], "unique_policy", "sometimes").await;
    is_named(bed, ids[0]).await;
    let list = listed(bed).await;
    let named: Vec<JobId> = list.values().filter(|l| l.unreadable.is_some()).map(|l| l.job.id).collect();
    assert_eq!((list.len(), named), (4, vec![ids[0], ids[2]]));
    let kinds = ClaimMany {
        from: None,
        queues: vec![name("default")],
        kinds: vec![name("work")],
        max: 1,
        claim: bed.claim("w"),
    };
    let claimed = bed.store.claim(kinds, at(1)).await.expect("the store answers");
    assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [ids[1]], "one alone, of a kind");
    let claimed = bed.claims("w", 10, at(1)).await;
    assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [ids[3]]);
    let list = listed(bed).await;
    let request = ReadAudit { before: None, limit: 100 };
    let audit = bed.store.audit(request, at(9)).await.expect("the audit");
    for id in [ids[0], ids[2]] {
        assert_eq!(list[&id].job.status, Status::Failed, "it is out of the way");
        let target = id.to_string();
        let entries = audit.iter().filter(|e| e.action.as_str() == "job.set_aside" && e.target == target);
        assert_eq!(entries.count(), 1, "{audit:?}");
    }
    assert!(bed.claims("w2", 10, at(2)).await.is_empty());
}

/// Batches with a job whose row does not read back: it is answered for itself, also when it is the parent of one of them.
pub async fn a_batch_goes_on_without_it(bed: &Bed, planter: &dyn Planter) {
    let parent = bed.a_held_job("w", at(0)).await;
    let mut child = bed.job("work");
    child.facts.parent_id = Some(parent.job.id);
    child.parent_token = Some(parent.lease.token);
    bed.enqueue(child, at(0)).await;
    let child = bed.claims_one("w", at(0)).await;
    let other = bed.a_held_job("w", at(0)).await;
    planter.column(parent.job.id, "backoff", "{").await;

    let leases = [&parent, &child, &other].map(|held| (held.job.id, held.lease.token)).to_vec();
    let request = Extend { leases, extend_ms: LeaseMs::DEFAULT };
    let renewed = bed.store.extend(request, at(1)).await.expect("the store answers");
    assert!(renewed[1].is_ok() && renewed[2].is_ok(), "{renewed:?}");

    for what in ["at first", "again"] {
        let item =
            |held: &Claimed| SettleItem { job: held.job.id, token: held.lease.token, outcome: completes() };
        let items = [&parent, &child, &other].map(item).to_vec();
        let answers = bed.store.settle(Settle { items }, at(1)).await.expect("the store answers");
        assert!(answers[1].is_ok() && answers[2].is_ok(), "{what}: {answers:?}");
    }
}

/// A sweep with rows that do not read back acts on all others.
pub async fn a_sweep_goes_on_without_it(bed: &Bed, planter: &dyn Planter) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut job = bed.job("work");
        (job.facts.timeout_ms, job.facts.max_retries) = (Some(1_000), 0);
        ids.push(bed.enqueue(job, at(0)).await.id);
    }
    assert_eq!(bed.claims("w", 10, at(0)).await.len(), 3);
    planter.column(ids[0], "backoff", "{").await;
    bed.sweeps(at(5_000)).await;
    let list = listed(bed).await;
    let statuses: Vec<Status> = ids.iter().map(|id| list[id].job.status).collect();
    assert_eq!(statuses, [Status::Failed, Status::TimedOut, Status::TimedOut], "the first is set aside");
}

/// A schedule that does not read back fires nothing, is set aside by the leader, and stops no other; it can be put anew.
pub async fn a_schedule_fails_alone(bed: &Bed, planter: &dyn Planter) {
    let schedule = || {
        let job = windlass_core::Facts::new(name("k"), name("default"));
        let mut schedule = Schedule::new(Timing::Every(60_000), job);
        schedule.starts_at = Some(time(60_000));
        schedule
    };
    let put = async |which: &str, ms: i64| {
        let actor = windlass_core::Actor::engine();
        let request = PutSchedule { name: name(which), schedule: schedule(), expected_version: None, actor };
        bed.store.put_schedule(request, at(ms)).await.expect("the store answers").expect("put")
    };
    let fire = async |which: &str, ms: i64| {
        let epoch = bed.leads("a", at(ms)).await.expect("leads").epoch;
        let (ids, missed) = ((0..10).map(|_| bed.id()).collect(), MissedLimits::default());
        let request = FireSchedule { term: name("leader"), epoch, name: name(which), ids, missed };
        bed.store.fire_schedule(request, at(ms)).await.expect("the store answers").expect("fired").len()
    };
    for which in ["a", "b", "c"] {
        put(which, 0).await;
    }
    planter.state("schedules", "a", "{\"name\": \"a\", \"schedule\": 7}").await;
    let due = async |ms| bed.store.due_schedules(10, at(ms)).await.expect("the store answers");
    assert_eq!(due(60_000).await.len(), 3);
    assert_eq!((fire("a", 60_000).await, fire("b", 60_000).await, fire("c", 60_000).await), (0, 1, 1));
    assert_eq!(due(120_000).await, [name("b"), name("c")], "it is not asked for any more");
    let all = bed.store.schedules((), at(0)).await.expect("the others are listed");
    let broken: Vec<_> = all.iter().map(|state| (state.name.as_str(), state.broken.is_some())).collect();
    assert_eq!(broken, [("a", true), ("b", false), ("c", false)]);
    let pause = PauseSchedule { name: name("a"), pause: true, actor: windlass_core::Actor::engine() };
    let refused = bed.store.pause_schedule(pause, at(70_000)).await.expect("the store answers");
    assert!(refused.expect_err("unreadable").to_string().contains("does not read back"));
    let mended = put("a", 80_000).await;
    assert_eq!((mended.version, mended.broken, mended.next_at), (1, None, Some(time(120_000))));
    assert_eq!(fire("a", 120_000).await, 1);
    planter.state("schedules", "b", "no JSON").await;
    let remove = RemoveSchedule { name: name("b"), actor: windlass_core::Actor::engine() };
    assert_eq!(bed.store.remove_schedule(remove, at(130_000)).await.expect("the store answers"), Ok(()));
}

/// A trigger that does not read back takes its events all the same, and starts their jobs once it is put anew.
pub async fn a_trigger_fails_alone(bed: &Bed, planter: &dyn Planter) {
    let actor = windlass_core::Actor::engine;
    let put = async |which: &str, ms: i64| {
        let job = windlass_core::Facts::new(name("k"), name("default"));
        let trigger = Trigger { jobs: vec![TriggerJob { job, payload: Passed::Whole }] };
        let request = PutTrigger { name: name(which), trigger, expected_version: None, actor: actor() };
        bed.store.put_trigger(request, at(ms)).await.expect("the store answers").expect("put")
    };
    let ingest = async |which: &str, ms: i64| {
        let ids = (0..16).map(|_| bed.id()).collect();
        let (id, trigger) = (fresh::trigger_event_id(), name(which));
        let request = Ingest { id, trigger, dedupe_key: None, payload: None, actor: actor(), ids };
        bed.store.ingest(request, at(ms)).await.expect("the store answers").expect("taken").event
    };
    put("a", 0).await;
    put("b", 0).await;
    planter.state("triggers", "a", "{}").await;
    let kept = ingest("a", 10).await;
    assert!(kept.processed_at.is_none() && kept.detail.problem.expect("why").contains("does not read back"));
    assert!(ingest("b", 10).await.processed_at.is_some());
    let all = bed.store.triggers((), at(0)).await.expect("the others are listed");
    assert_eq!(all.iter().map(|state| state.broken.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(put("a", 20).await.version, 1);
    let epoch = bed.leads("a", at(30)).await.expect("leads").epoch;
    let ids = (0..16).map(|_| bed.id()).collect();
    let request = ProcessTriggerEvent { term: name("leader"), epoch, id: kept.id, ids };
    let done = bed.store.process_trigger_event(request, at(30)).await.expect("the store answers");
    assert_eq!(done.expect("leads").expect("an event").detail.jobs.len(), 1);
}
