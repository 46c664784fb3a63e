//! What holds of everything in a store at any moment: checked after every law.

use crate::{Bed, at};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::limits::{CRASHES_MAX, MAX_RETRIES_MAX};
use windlass_core::status::legal;
use windlass_core::unique::Policy;
use windlass_core::wait::ApprovalStatus;
use windlass_core::{
    Event, EventKind, Facts, Filter, Job, JobId, Metadata, Payload, Status, Version, WaitFor,
};
use windlass_store::{FeedEvent, FindKey, JobView, List, ListApprovals, Listed, ReadFeed, ReadLogs};

/// Walks everything in the store and checks rows, logs, keys, feed, counts and approvals against each other.
pub async fn check(bed: &Bed) {
    let mut feed = whole_feed(bed).await;
    let mut counted: BTreeMap<Status, i64> = BTreeMap::new();
    let listed = every_listed(bed).await;
    for Listed { job, facts, unreadable } in &listed {
        assert_eq!(*unreadable, None, "everything reads back");
        *counted.entry(job.status).or_default() += 1;
        let log = bed.log(job.id).await;
        check_log(job, facts, &log);
        check_row(job);
        check_pointers(job, &log);
        check_counters(job, &log);
        check_view(&bed.view(job.id, at(0)).await, facts, &log);
        check_key(bed, job, facts, &log).await;
        check_lines(bed, job).await;
        check_feed(job, &log, &feed.remove(&job.id).unwrap_or_default());
    }
    let counts = bed.store.counts(1_000_000, at(0)).await.expect("the store answers");
    let counts: BTreeMap<Status, i64> = counts.statuses.iter().map(|(s, count)| (*s, count.n)).collect();
    assert_eq!(counts, counted, "the counts are those of the rows");
    check_approvals(bed, &listed).await;
}

/// Every row of the store, newest first.
pub async fn every_job(bed: &Bed) -> Vec<Job> {
    every_listed(bed).await.into_iter().map(|l| l.job).collect()
}

async fn every_listed(bed: &Bed) -> Vec<Listed> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let request = List { filter: Filter::default(), cursor, limit: 1_000 };
        let page = bed.store.jobs(request, at(0)).await.expect("the store answers").expect("a page");
        all.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

async fn whole_feed(bed: &Bed) -> BTreeMap<JobId, Vec<FeedEvent>> {
    let (mut by_job, mut after) = (BTreeMap::<JobId, Vec<FeedEvent>>::new(), None);
    loop {
        let request = ReadFeed { after: after.clone(), limit: 1_000, payloads: true };
        let page = bed.store.feed(request, at(0)).await.expect("the store answers").expect("a page");
        if page.events.is_empty() {
            return by_job;
        }
        assert_ne!(after.as_ref(), Some(&page.next), "a page that tells something goes on");
        after = Some(page.next);
        for event in page.events {
            by_job.entry(event.event.job).or_default().push(event);
        }
    }
}

/// The log is contiguous, its times never run backwards, every step is a legal transition, and the row is its fold.
fn check_log(job: &Job, facts: &Facts, log: &[Event]) {
    let versions: Vec<Version> = log.iter().map(|e| e.version).collect();
    assert_eq!(versions, (1..=job.version).collect::<Vec<_>>(), "versions are contiguous: {job:?}");
    assert!(log.iter().all(|e| e.job == job.id), "a log is one job's: {log:#?}");
    assert!(log.windows(2).all(|w| w[0].at <= w[1].at), "time never runs backwards: {log:#?}");
    assert!(
        matches!(&log[0].what, EventKind::JobCreated(f) if **f == *facts),
        "lists tell the facts of event 1: {log:#?}"
    );
    let keys: Vec<_> = log.iter().filter_map(|e| e.key.as_ref()).collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "one event per key: {log:#?}");
    let mut folded = Job::fold(&log[..1]).expect("a log begins with job_created");
    for event in &log[1..] {
        let from = folded.status;
        folded.apply(event);
        let forked = matches!(event.what, EventKind::JobForked(_)) && folded.status == Status::Pending;
        let lawful = from == folded.status || legal(from, folded.status) || forked;
        assert!(lawful, "{from} to {} is no transition: {log:#?}", folded.status);
    }
    assert_eq!(folded.folded(), job.folded(), "the row is the fold of its log:\n{log:#?}");
    assert_eq!(Some(job.updated_at), log.last().map(|e| e.at), "updated by the last event: {job:?}");
}

/// What each status requires and forbids.
fn check_row(job: &Job) {
    let is = |statuses: &[Status]| statuses.contains(&job.status);
    let running = is(&[Status::Running]);
    assert_eq!(job.lease_hash.is_some(), running, "leased exactly while running: {job:?}");
    assert_eq!(job.lease_expires_at.is_some(), running, "a lease has an expiry: {job:?}");
    let has_worker = is(&[Status::Running, Status::Assigned]);
    assert_eq!(job.worker_id.is_some(), has_worker, "a worker exactly when held or assigned: {job:?}");
    assert_eq!(job.finished_at.is_some(), job.status.is_terminal(), "finished exactly at an end: {job:?}");
    match job.status {
        Status::Pending | Status::Retry | Status::Orphaned => {
            assert!(job.due_at.is_some() && job.deadline_at.is_none(), "it is due at some time: {job:?}");
        }
        Status::Running => {
            let over = job.lease_expires_at.map(|t| t.plus_ms(job.grace_ms));
            assert_eq!(job.due_at, over, "a lease is over after its grace: {job:?}");
        }
        Status::Assigned => {
            assert!(job.due_at.is_none() && job.deadline_at.is_some(), "an assignment lapses: {job:?}");
            assert!(job.assignment.is_some() && job.epoch.is_some(), "under an epoch: {job:?}");
        }
        Status::Waiting => {}
        _ => assert!(job.due_at.is_none() && job.deadline_at.is_none(), "an end has no times: {job:?}"),
    }
    assert_eq!(job.waiting_for.is_some(), is(&[Status::Waiting]), "waits exactly while waiting: {job:?}");
    assert!(job.wait_name.is_none() || is(&[Status::Waiting]), "a wait's name goes with it: {job:?}");
    assert!(!job.status.is_dead() || job.error_version.is_some(), "a dead job has a reason: {job:?}");
    assert_eq!(job.error_version.is_some(), job.error_code.is_some(), "an error has a code: {job:?}");
    assert!(
        job.cancel_requested_at.is_none() || running || job.status.is_terminal(),
        "only a holder is asked to stop: {job:?}"
    );
}

/// Every pointer points at an event that holds what it promises.
fn check_pointers(job: &Job, log: &[Event]) {
    let target = |pointer: Option<Version>| {
        pointer.map(|v| {
            assert!((1..=job.version).contains(&v), "pointer {v} is within the log: {job:?}");
            &log[v as usize - 1]
        })
    };
    if let Some(event) = target(job.result_version) {
        assert!(event.what == EventKind::JobCompleted && event.payload.is_some(), "a result: {event:?}");
        assert_eq!(job.status, Status::Completed, "only a completed job has a result: {job:?}");
    }
    if let Some(event) = target(job.error_version) {
        let types = ["job_retried", "job_failed", "job_timed_out", "job_skipped", "job_cancelled"];
        assert!(types.contains(&event.what.type_name()), "an error: {event:?}");
        let is_erased = windlass_core::erase::is_erased(log);
        assert_eq!(event.payload.is_none(), is_erased, "of an erased one the code is left: {event:?}");
        if let Some(payload) = &event.payload {
            let error: serde_json::Value = payload.parse().expect("JSON");
            assert_eq!(error["code"].as_str(), job.error_code.as_ref().map(|c| c.as_str()), "{event:?}");
            assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "it says why: {event:?}");
        }
    }
    if let Some(event) = target(job.checkpoint_version) {
        let reported = matches!(event.what, EventKind::JobProgressed(_));
        assert!(reported && event.payload.is_some(), "a checkpoint: {event:?}");
        assert!(event.version > job.steps_from, "not a forgotten one: {job:?}");
    }
    if let Some(event) = target(job.payload_version) {
        match &event.what {
            EventKind::JobRedriven(_) => assert!(event.payload.is_some(), "a payload: {event:?}"),
            EventKind::JobReplaced(_) => assert_eq!(event.attempt, 0, "it had not run: {event:?}"),
            _ => panic!("only a redrive or a later request brings another payload: {event:?}"),
        }
    }
    if let Some(event) = target(job.meta_version) {
        let told = match &event.what {
            EventKind::JobCreated(facts) => !facts.metadata.is_empty(),
            EventKind::JobProgressed(d) => d.metadata.is_some(),
            _ => false,
        };
        assert!(told, "metadata: {event:?}");
    }
    let waiting = target(job.wait_version);
    // A job of a graph is born waiting.
    let waits = |e: &Event| match &e.what {
        EventKind::JobWaiting(_) | EventKind::JobRearmed(_) => true,
        EventKind::JobCreated(facts) => facts.graph.as_ref().is_some_and(|g| g.waits_for().is_some()),
        _ => false,
    };
    assert!(waiting.is_none_or(waits), "a wait: {waiting:?}");
    assert!(job.status != Status::Waiting || waiting.is_some(), "a waiting job knows its wait: {job:?}");
    if let Some(event) = target(job.wake_version) {
        // What came before such a wait began can be what ends it.
        let is_for_news = waiting
            .is_some_and(|e| matches!(&e.what, EventKind::JobWaiting(d) if d.waits_for == WaitFor::News));
        let wakes = match &event.what {
            EventKind::JobSignalled(_) | EventKind::JobWoken(_) | EventKind::JobApprovalAsked(_) => true,
            EventKind::JobChildFinished(d) => d.woke || is_for_news,
            EventKind::JobUpstreamFinished(d) => d.woke,
            EventKind::JobApprovalVoted(d) => d.woke,
            _ => false,
        };
        assert!(wakes && waiting.is_some(), "what ended a wait: {event:?}");
    }
    if let Some(event) = target(job.assignment) {
        assert!(matches!(event.what, EventKind::JobAssigned(_)), "an assignment: {event:?}");
    }
}

/// Counters are within their limits and count what they say.
fn check_counters(job: &Job, log: &[Event]) {
    let count = |types: &[&str]| log.iter().filter(|e| types.contains(&e.what.type_name())).count() as i32;
    assert!((0..=MAX_RETRIES_MAX as i32).contains(&job.max_retries), "a budget: {job:?}");
    assert!((0..=job.max_retries).contains(&job.retries), "retries keep to the budget: {job:?}");
    assert!((0..CRASHES_MAX).contains(&job.crashes), "crashes keep to their limit: {job:?}");
    assert!(job.signals >= 0 && job.children >= 0, "nothing is taken that was not there: {job:?}");
    assert!((0..=100).contains(&job.progress), "progress: {job:?}");
    assert_eq!(job.attempt, count(&["job_claimed", "job_started"]), "attempts are executions: {log:#?}");
    assert_eq!(job.generation, count(&["job_redriven", "job_rearmed"]), "generations are returns: {log:#?}");
}

/// A view holds what the pointers of its row point at.
fn check_view(view: &JobView, facts: &Facts, log: &[Event]) {
    let job = &view.job;
    let event = |pointer: Option<Version>| pointer.map(|v| &log[v as usize - 1]);
    let payload = |pointer| -> Option<&Payload> { event(pointer).and_then(|e| e.payload.as_ref()) };
    assert_eq!(&view.facts, facts, "a view tells the facts");
    assert_eq!(view.payload.as_ref(), payload(job.payload_version.or(Some(1))), "the payload");
    assert_eq!(view.result.as_ref(), payload(job.result_version), "the result");
    assert_eq!(view.checkpoint.as_ref(), payload(job.checkpoint_version), "the checkpoint");
    let error = event(job.error_version).and_then(|e| Some((e.payload.clone()?, e.at)));
    assert_eq!(view.error, error, "the error and when it happened");
    let metadata = match event(job.meta_version).map(|e| &e.what) {
        Some(EventKind::JobCreated(facts)) => facts.metadata.clone(),
        Some(EventKind::JobProgressed(d)) => d.metadata.clone().unwrap_or_default(),
        _ => Metadata::new(),
    };
    assert_eq!(view.metadata, metadata, "the metadata");
}

/// A job holds its unique key exactly as long as its policy says.
async fn check_key(bed: &Bed, job: &Job, facts: &Facts, log: &[Event]) {
    let (Some(unique), Some(policy)) = (&facts.unique, job.unique_policy) else { return };
    let request = FindKey { scope: unique.scope.clone(), key: unique.key.clone() };
    let hold = bed.store.find_key(request, at(0)).await.expect("the store answers");
    let mine = hold.as_ref().is_some_and(|h| h.job == job.id);
    match policy {
        // It may be over, and somebody else's.
        Policy::Ttl(_) => {}
        // Once it has run, a later job may have taken it over.
        _ if matches!(unique.policy, Policy::Debounce(_)) => {
            let waits = job.status == Status::Pending && job.attempt == 0;
            assert!(mine || !waits, "a job that waits to be replaced holds its key: {hold:?}");
            assert!(!mine || !job.status.is_terminal(), "{policy:?} at {}: {hold:?}", job.status);
        }
        policy => assert_eq!(mine, !policy.frees_at(job.status), "{policy:?} at {}: {hold:?}", job.status),
    }
    if let Some(hold) = hold.filter(|_| mine) {
        // It was taken with the payload that the job had then: its first, or one that a redrive or a later request
        // brought.
        let hash = |event: &Event| event.payload.as_ref().map(Payload::fingerprint).unwrap_or_default();
        let brings = |event: &Event| {
            event.version == 1 || matches!(event.what, EventKind::JobRedriven(_) | EventKind::JobReplaced(_))
        };
        let is_known = log.iter().any(|event| brings(event) && hash(event) == hold.payload_hash);
        let is_erased = windlass_core::erase::is_erased(log);
        assert!(is_known || is_erased, "a key knows its payload: {hold:?}");
        assert_eq!(hold.expires_at.is_some(), matches!(policy, Policy::Ttl(_)), "only a time ends: {hold:?}");
    }
}

/// Log lines are numbered without a gap, also those that moved to the archive; each is in one place.
async fn check_lines(bed: &Bed, job: &Job) {
    let request = ReadLogs { job: job.id, after: 0, limit: 1_000 };
    let lines = bed.store.logs(request, at(0)).await.expect("the store answers");
    let parts = bed.store.log_parts(job.id, at(0)).await.expect("the store answers");
    let moved = parts.iter().flat_map(|part| part.first..=part.last);
    let mut numbers: Vec<i64> = moved.chain(lines.iter().map(|line| line.n)).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as i64), "lines are numbered: {parts:?} {lines:?}");
    assert!(lines.iter().all(|l| (1..=job.attempt).contains(&l.attempt)), "by attempts: {lines:?}");
}

/// The feed holds every event of the job exactly once, in order.
fn check_feed(job: &Job, log: &[Event], fed: &[FeedEvent]) {
    let events: Vec<&Event> = fed.iter().map(|f| &f.event).collect();
    assert_eq!(events, log.iter().collect::<Vec<_>>(), "the feed is the log, once and in order");
    let told = fed.iter().all(|f| f.queue == job.queue && f.kind == job.kind);
    assert!(told, "the feed tells queue and kind: {fed:?}");
}

/// No approval is open whose job has ended.
async fn check_approvals(bed: &Bed, listed: &[Listed]) {
    let live: BTreeSet<JobId> =
        listed.iter().filter(|l| !l.job.status.is_terminal()).map(|l| l.job.id).collect();
    let mut before = None;
    loop {
        let request = ListApprovals { job: None, status: None, before, limit: 1_000 };
        let page = bed.store.approvals(request, at(0)).await.expect("the store answers");
        let Some(last) = page.last() else { return };
        before = Some(last.approval.id);
        for view in &page {
            let open = view.approval.status == ApprovalStatus::Pending;
            assert!(!open || live.contains(&view.approval.job), "an end voids approvals: {view:?}");
        }
    }
}
