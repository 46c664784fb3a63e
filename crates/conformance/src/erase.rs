//! Erasure: what a finished job was given, found and printed goes; that it went, by whom and when, stays.

use crate::{Bed, at, completes, key, name, note, redrive, stop, stop_at_once, time, together};
use serde_json::Value;
use windlass_core::unique::{Policy, Scope};
use windlass_core::{
    Actor, Answer, Done, Event, EventKind, Failure, Filter, JobId, LogPart, Metadata, NewJob, Outcome,
    Payload, Refusal, Status, Unique, Version,
};
use windlass_store::{
    Append, Claimed, Enqueued, Erase, Fork, List, Progress, Purge, ReadArchive, ReadFeed, ReadLogs,
    ReadSteps, RecordStep, Redrive, Restore, Signal, WriteLogs,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! erase_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            erase: an_erased_job_says_nothing_but_that_it_was_erased,
            a_live_job_is_not_erased,
            erasing_again_changes_nothing,
            an_erasure_may_expect_a_version,
            an_erased_job_does_not_run_again,
            an_erased_job_is_still_found_by_its_keys,
            an_erased_job_goes_and_comes_back_erased,
            of_many_erasures_at_once_one_is_made,
        );
    };
}

/// Stands wherever a caller or a handler can say something.
const SECRET: &str = "ann@example.org";

fn json(text: &str) -> Payload {
    Payload::stored(format!("\"{text}\"").into_bytes(), true)
}

fn metadata() -> Metadata {
    Metadata::from_iter([("to".to_owned(), SECRET.into())])
}

fn operator() -> Actor {
    Actor::parse("actor", "operator:ann").expect("an actor")
}

async fn erases(bed: &Bed, job: JobId, expected_version: Option<Version>, ms: i64) -> Answer {
    let wish = Erase { job, actor: operator(), expected_version };
    bed.store.erase(wish, at(ms)).await.expect("the store answers")
}

/// A job of which every part says something, held.
async fn talkative(bed: &Bed, ms: i64) -> Claimed {
    let mut job = bed.job("work");
    job.payload = Some(json(SECRET));
    job.facts.tags = vec![name("x")];
    job.facts.metadata = metadata();
    speaks(bed, job, ms).await
}

async fn speaks(bed: &Bed, job: NewJob, ms: i64) -> Claimed {
    let held = bed.holds("w", job, at(ms)).await;
    let (id, token) = (held.job.id, held.lease.token);
    let payload = Some(json(SECRET));
    let step = RecordStep { job: id, token, name: name("render"), tool: false, finished: true, payload };
    bed.store.record_step(step, at(ms)).await.expect("the store answers").expect("the holder may record");
    let progress = Progress {
        job: id,
        token,
        progress: Some(40),
        stage: Some(SECRET.to_owned()),
        metadata: Some(metadata()),
        checkpoint: Some(json(SECRET)),
        charge: None,
        key: None,
    };
    bed.store.progress(progress, at(ms)).await.expect("the store answers").expect("the holder may report");
    bed.appends(Append { payload: Some(json(SECRET)), ..note(id, "noted") }, at(ms)).await.expect("a note");
    let (actor, payload) = (Actor::api(), Some(json(SECRET)));
    let signal = Signal { job: id, name: name("news"), payload, actor, key: None };
    bed.store.signal(signal, at(ms)).await.expect("the store answers").expect("it is kept");
    let lines = WriteLogs { job: id, token, lines: vec![format!("to {SECRET}"), "done".into()] };
    bed.store.write_logs(lines, at(ms)).await.expect("the store answers").expect("the holder may write");
    held
}

/// Every way in which a job can end, with a word of somebody in it.
fn ends() -> Vec<Outcome> {
    let error = Failure::new("broken", SECRET).expect("a failure");
    let failed = Outcome::Fail { error, permanent: true, run_at: None };
    vec![Outcome::Complete(Some(json(SECRET))), failed]
}

/// Looks for what was said wherever the store answers.
async fn says(bed: &Bed, id: JobId, ms: i64) -> String {
    let view = bed.store.job(id, at(ms)).await.expect("the store answers").expect("it is here");
    let lines = bed.store.logs(ReadLogs { job: id, after: 0, limit: 9 }, at(ms)).await;
    let steps = bed.store.steps(ReadSteps::all(id), at(ms)).await.expect("the store answers");
    let archived =
        bed.store.archive(ReadArchive { finished_before: time(ms + 1_000), limit: 100 }, at(ms)).await;
    let archived = archived.expect("the store answers");
    let archived = archived.iter().find(|one| one.job.id == id);
    let head = bed.store.feed(ReadFeed { after: None, limit: 1_000, payloads: true }, at(ms)).await;
    let log = bed.log(id).await;
    format!("{view:?} {lines:?} {steps:?} {archived:?} {head:?} {log:?}")
}

/// T9: no word that a caller or a handler brought is left, in events, lines, views, the feed and what is archived; the row is
/// the fold of its log.
pub async fn an_erased_job_says_nothing_but_that_it_was_erased(bed: Bed) {
    for (ms, outcome) in (0..).step_by(100).zip(ends()) {
        let held = talkative(&bed, ms).await;
        let id = held.job.id;
        bed.settles(&held, outcome, at(ms + 1)).await.expect("the holder may settle");
        let (before, log) = (bed.row(id).await, bed.log(id).await);
        assert!(says(&bed, id, ms + 1).await.contains(SECRET));
        let done = erases(&bed, id, None, ms + 2).await;
        assert_eq!(done, Ok(Done::Moved(before.version + 1, before.status)));
        let said = says(&bed, id, ms + 2).await;
        assert!(!said.contains(SECRET), "{said}");
        is_left(&bed, &log, id, ms + 2).await;
        let row = bed.row(id).await;
        assert_eq!(
            (row.status, row.finished_at, row.attempt),
            (before.status, before.finished_at, before.attempt)
        );
        assert_eq!((row.error_code, row.progress, row.stage), (before.error_code, before.progress, None));
        assert_eq!((row.result_version, row.checkpoint_version, row.meta_version), (None, None, None));
        let parts = bed.store.log_parts(id, at(ms + 2)).await;
        assert_eq!(parts, Ok(vec![LogPart::erased(2)]), "their numbers are not given again");
        let filter = Filter { tag: Some(name("x")), statuses: vec![before.status], ..Filter::default() };
        let page = bed.store.jobs(List { filter, cursor: None, limit: 9 }, at(ms + 3)).await;
        let page = page.expect("the store answers").expect("a page");
        let listed = page.items.iter().find(|listed| listed.job.id == id).expect("it is in lists");
        assert!(listed.facts.erased);
    }
}

/// Every event is left, when it was and by whom; the last one says who erased the job, and keeps a hash of each as it was.
async fn is_left(bed: &Bed, before: &[Event], id: JobId, ms: i64) {
    let log = bed.log(id).await;
    assert_eq!(log.len(), before.len() + 1);
    for (was, is) in before.iter().zip(&log) {
        let standing = |event: &Event| {
            let Event { version, at, attempt, generation, lease, .. } = event.clone();
            let type_name = event.what.type_name().to_owned();
            (version, at, event.actor.clone(), attempt, generation, lease, event.key.clone(), type_name)
        };
        assert_eq!(standing(was), standing(is));
        assert_eq!(is.payload, None);
    }
    let last = log.last().expect("an event");
    assert_eq!((&last.what, &last.actor, last.at), (&EventKind::JobErased, &operator(), time(ms)));
    let kept: Value = last.payload.as_ref().expect("hashes").parse().expect("JSON");
    let hashes = kept["sha256"].as_object().expect("by version");
    for (was, is) in before.iter().zip(&log) {
        let has_hash = hashes.contains_key(&was.version.to_string());
        assert_eq!(has_hash, was != is, "of each event that changed, and no other: {was:?}");
    }
}

/// T9, M2
pub async fn a_live_job_is_not_erased(bed: Bed) {
    for status in Status::ALL.into_iter().filter(|status| !status.is_terminal()) {
        let id = bed.a_job_that_is(status, 0).await;
        let before = bed.snapshot(id).await;
        assert_eq!(erases(&bed, id, None, 1_000).await, Err(Refusal::NotFinished(status)));
        bed.is_unchanged(&before).await;
    }
    assert_eq!(erases(&bed, bed.id(), None, 1_000).await, Err(Refusal::NotFound));
}

/// T9: a repeat is answered as one, until something came since.
pub async fn erasing_again_changes_nothing(bed: Bed) {
    let held = talkative(&bed, 0).await;
    let id = held.job.id;
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    let first = erases(&bed, id, None, 2).await.expect("it is finished").version();
    let before = bed.snapshot(id).await;
    assert_eq!(erases(&bed, id, None, 3).await, Ok(Done::Already(first)));
    bed.is_unchanged(&before).await;
    let said = Append { payload: Some(json(SECRET)), ..note(id, "noted") };
    bed.appends(said, at(4)).await.expect("a finished job takes notes");
    assert_eq!(erases(&bed, id, None, 5).await, Ok(Done::Moved(first + 2, Status::Completed)));
    let said = says(&bed, id, 5).await;
    assert!(!said.contains(SECRET), "{said}");
}

/// T9, R14
pub async fn an_erasure_may_expect_a_version(bed: Bed) {
    let held = talkative(&bed, 0).await;
    let id = held.job.id;
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    let before = bed.snapshot(id).await;
    let version = before.job.version;
    assert_eq!(erases(&bed, id, Some(version - 1), 2).await, Err(Refusal::VersionMismatch(version)));
    bed.is_unchanged(&before).await;
    assert_eq!(erases(&bed, id, Some(version), 2).await, Ok(Done::Moved(version + 1, Status::Completed)));
    assert_eq!(erases(&bed, id, Some(version), 3).await, Ok(Done::Already(version + 1)), "a repeat");
}

/// T9: without what it was given it is neither redriven nor forked, whatever is brought; a fork that was made before keeps its
/// own copy. A redrive that was made before is recognised by its key.
pub async fn an_erased_job_does_not_run_again(bed: Bed) {
    let held = talkative(&bed, 0).await;
    let id = held.job.id;
    let fork = |to: JobId, from_version| Fork {
        from: id,
        from_version,
        id: to,
        payload: Some(json("bob")),
        actor: Actor::engine(),
        expected_version: None,
    };
    let earlier = bed.id();
    bed.cancels(id, stop_at_once(), at(1)).await.expect("cancelled");
    let again = Redrive { payload: Some(json(SECRET)), key: Some(key("again")), ..redrive(id) };
    let redriven = bed.redrives(again.clone(), at(1)).await.expect("a cancelled job can be redriven");
    bed.cancels(id, stop(), at(1)).await.expect("cancelled");
    let copy = Fork { payload: None, ..fork(earlier, None) };
    bed.store.fork(copy, at(1)).await.expect("the store answers").expect("a job can be forked");
    erases(&bed, id, None, 2).await.expect("it is finished");
    let before = bed.snapshot(id).await;
    let bob = Redrive { payload: Some(json("bob")), ..redrive(id) };
    assert_eq!(bed.redrives(bob, at(3)).await, Err(Refusal::Erased));
    assert_eq!(bed.redrives(again, at(3)).await, Ok(Done::Already(redriven.version())));
    for from_version in [None, Some(1)] {
        let forked = bed.store.fork(fork(bed.id(), from_version), at(3)).await.expect("the store answers");
        assert_eq!(forked, Err(Refusal::Erased));
    }
    bed.is_unchanged(&before).await;
    let copy = bed.claims_by_id("w", earlier, at(4)).await.expect("the fork is a job of its own");
    assert_eq!(copy.payload, Some(json(SECRET)));
    bed.settles(&copy, completes(), at(5)).await.expect("the holder may complete");
}

/// T9, J5: the same request again, by id or by unique key, finds the job that was erased.
pub async fn an_erased_job_is_still_found_by_its_keys(bed: Bed) {
    let mut job = bed.job("work");
    job.payload = Some(json(SECRET));
    job.facts.metadata = metadata();
    let scope = Scope::Queue(name("default"));
    job.facts.unique = Some(Unique { scope, key: key("once"), policy: Policy::Forever });
    let held = speaks(&bed, job.clone(), 0).await;
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    erases(&bed, job.id, None, 2).await.expect("it is finished");
    let there = Enqueued::there(job.id);
    let before = bed.snapshot(job.id).await;
    assert_eq!(bed.enqueue(job.clone(), at(3)).await, there, "by its id");
    let twin = NewJob { id: bed.id(), ..job.clone() };
    assert_eq!(bed.enqueue(twin.clone(), at(3)).await, there, "by its key");
    let other = NewJob { payload: Some(json("bob")), ..twin };
    let differs = Enqueued { payload_differs: true, ..there };
    assert_eq!(bed.enqueue(other, at(3)).await, differs, "what it was given is known by its hash");
    let mut elsewhere = job.clone();
    elsewhere.facts.max_retries += 1;
    let refused = bed.enqueue_refused(vec![elsewhere], at(3)).await;
    assert_eq!(refused, (0, Refusal::JobExists), "what was not erased is compared");
    bed.is_unchanged(&before).await;
}

/// T9: it is archived, removed and put back like any other, and is erased still.
pub async fn an_erased_job_goes_and_comes_back_erased(bed: Bed) {
    let held = talkative(&bed, 0).await;
    let id = held.job.id;
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    let version = erases(&bed, id, None, 2).await.expect("it is finished").version();
    let archived = bed.store.archive(ReadArchive { finished_before: time(9), limit: 9 }, at(3)).await;
    let archived = archived.expect("the store answers").pop().expect("it is finished");
    let purge = Purge { jobs: vec![(id, version)], archive: Some("part".to_owned()) };
    assert_eq!(bed.store.purge(purge, at(4)).await, Ok(vec![Ok(())]));
    let (events, logs, log_parts) = (archived.events, archived.logs, archived.log_parts);
    let restore = Restore { events, logs, log_parts, actor: operator() };
    let restored = bed.store.restore(restore, at(5)).await.expect("the store answers");
    assert_eq!(restored, Ok(Done::Moved(version + 1, Status::Completed)));
    assert_eq!(erases(&bed, id, None, 6).await, Ok(Done::Already(version)));
    let view = bed.store.job(id, at(6)).await.expect("the store answers").expect("it is here");
    assert!(view.facts.erased);
}

/// T9, J10
pub async fn of_many_erasures_at_once_one_is_made(bed: Bed) {
    let held = talkative(&bed, 0).await;
    let id = held.job.id;
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    let version = bed.row(id).await.version + 1;
    let answers = together((0..8).map(|_| {
        let (store, wish) = (bed.store.clone(), Erase { job: id, actor: operator(), expected_version: None });
        async move { store.erase(wish, at(2)).await.expect("the store answers") }
    }))
    .await;
    let made = answers.iter().filter(|answer| **answer == Ok(Done::Moved(version, Status::Completed)));
    assert_eq!(made.count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|done| done.version() == version)));
}
