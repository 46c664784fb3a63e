//! What a store does with values that do not read back. Nobody can write them through a store, so a test of each store
//! plants them by hand and runs these.

use crate::{Bed, at, completes, name, report};
use async_trait::async_trait;
use std::collections::BTreeMap;
use windlass_core::{Event, EventKind, Filter, JobId, LeaseMs, Outcome, Refusal, RunAt, Status};
use windlass_store::{
    ClaimMany, Claimed, Extend, List, Listed, Purge, ReadArchive, ReadAudit, ReadEvents, ReadFeed, Settle,
    SettleItem, StoreError,
};

/// Somebody who writes into a store past its guard.
#[async_trait]
pub trait Planter: Send + Sync {
    /// Puts this text in the place of an event's detail.
    async fn detail(&self, job: JobId, version: i64, detail: &str);
    /// Puts this text in a column of a job's row.
    async fn column(&self, job: JobId, column: &str, text: &str);
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
    let purged = bed.store.purge(Purge { jobs }, at(9)).await.expect("the store answers");
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
    let kinds =
        ClaimMany { queues: vec![name("default")], kinds: vec![name("work")], max: 1, claim: bed.claim("w") };
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
