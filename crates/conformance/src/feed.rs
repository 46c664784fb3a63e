//! The feed: every event of every job, once, in one order, from any cursor on.

use crate::{Bed, at, completes, fails, is_invalid, note, stop, together};
use std::collections::BTreeMap;
use std::time::Duration;
use windlass_core::{Actor, Event, FeedCursor, JobId, LastRead, Life, Refusal, Version};
use windlass_store::{Adopt, Enqueue, FeedEvent, FeedPage, Purge, ReadAudit, ReadFeed};

/// This module's laws, as tests.
#[macro_export]
macro_rules! feed_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            feed: the_feed_tells_everything_once_and_in_each_jobs_order,
            events_come_without_their_payloads_when_asked,
            a_reader_resumes_from_any_cursor,
            a_cursor_of_another_store_is_refused,
            a_cursor_names_the_last_event_that_was_read,
            a_purge_expires_no_cursor,
            an_adopted_store_refuses_the_cursors_of_before,
            fences_grow_over_attempts_and_incarnations,
            the_head_is_where_the_feed_ends_now,
            what_was_refused_is_never_told,
            hints_come_for_events_and_for_due_jobs,
            a_slow_reader_misses_nothing,
            readers_that_tail_racing_writers_miss_and_repeat_nothing,
        );
    };
}

async fn reads(bed: &Bed, after: Option<FeedCursor>, limit: usize) -> Result<FeedPage, Refusal> {
    bed.store.feed(ReadFeed { after, limit, payloads: true }, None).await.expect("the store answers")
}

async fn reads_all(bed: &Bed, after: Option<FeedCursor>, limit: usize) -> Vec<FeedEvent> {
    let (mut all, mut after) = (Vec::new(), after);
    loop {
        let page = reads(bed, after.clone(), limit).await.expect("a page");
        assert!(page.events.len() <= limit, "a page keeps to its limit");
        if page.events.is_empty() {
            return all;
        }
        assert_ne!(after.as_ref(), Some(&page.next), "a page that tells something goes on");
        after = Some(page.next);
        all.extend(page.events);
    }
}

fn plain(fed: &[FeedEvent]) -> Vec<&Event> {
    fed.iter().map(|f| &f.event).collect()
}

/// Checks that the events are every job's log, each once and in order.
async fn is_everything(bed: &Bed, fed: &[FeedEvent]) {
    let mut by_job: BTreeMap<JobId, Vec<&Event>> = BTreeMap::new();
    for told in fed {
        by_job.entry(told.event.job).or_default().push(&told.event);
    }
    for job in crate::invariants::every_job(bed).await {
        let log = bed.log(job.id).await;
        let told = by_job.remove(&job.id).unwrap_or_default();
        assert_eq!(told, log.iter().collect::<Vec<_>>(), "the feed of {}", job.id);
    }
    assert!(by_job.is_empty(), "no job is told that is not there");
}

/// Some life: jobs that are enqueued, claimed, noted, completed and cancelled.
async fn live(bed: &Bed) {
    for n in 0..6 {
        let held = bed.holds("w", bed.job_in(["red", "blue"][n % 2], "life"), at(n as i64)).await;
        bed.appends(note(held.job.id, "noted"), at(n as i64)).await.expect("a note is taken");
        if n % 3 == 0 {
            bed.cancels(held.job.id, stop(), at(n as i64)).await.expect("a live job can be cancelled");
        } else {
            bed.settles(&held, completes(), at(n as i64)).await.expect("the holder may complete");
        }
    }
}

/// J9
pub async fn the_feed_tells_everything_once_and_in_each_jobs_order(bed: Bed) {
    assert_eq!(reads(&bed, None, 10).await.expect("a page").events, [], "nothing happened yet");
    live(&bed).await;
    let whole = reads_all(&bed, None, 1_000).await;
    assert_eq!(whole.len(), 24);
    is_everything(&bed, &whole).await;
    for limit in [1, 5] {
        assert_eq!(plain(&reads_all(&bed, None, limit).await), plain(&whole), "by {limit}");
    }
    for told in &whole {
        let row = bed.row(told.event.job).await;
        assert_eq!((&told.queue, &told.kind), (&row.queue, &row.kind));
    }
}

/// J9: who only wants to know what happened reads nobody's payloads, only errors.
pub async fn events_come_without_their_payloads_when_asked(bed: Bed) {
    live(&bed).await;
    let whole = reads_all(&bed, None, 1_000).await;
    assert!(whole.iter().any(|fed| fed.event.payload.is_some()));
    let mut after = None;
    for expected in whole.chunks(5) {
        let request = ReadFeed { after, limit: 5, payloads: false };
        let page = bed.store.feed(request, None).await.expect("the store answers").expect("a page");
        let bare = expected.iter().map(|fed| {
            let payload = fed.event.payload.clone().filter(|_| fed.event.what.is_error());
            Event { payload, ..fed.event.clone() }
        });
        assert_eq!(
            page.events.iter().map(|fed| fed.event.clone()).collect::<Vec<_>>(),
            bare.collect::<Vec<_>>()
        );
        after = Some(page.next);
    }
}

/// J9
pub async fn a_reader_resumes_from_any_cursor(bed: Bed) {
    live(&bed).await;
    let whole = reads_all(&bed, None, 1_000).await;
    for (n, told) in whole.iter().enumerate() {
        let text = told.cursor.to_text();
        let cursor = FeedCursor::parse(&text).expect("a cursor reads back");
        assert_eq!(cursor, told.cursor);
        assert_eq!(plain(&reads_all(&bed, Some(cursor), 7).await), plain(&whole[n + 1..]), "after {n}");
    }
    let mut after = None;
    for n in 0..4 {
        let page = reads(&bed, after, 3).await.expect("a page");
        assert_eq!(plain(&page.events), plain(&whole[n * 3..n * 3 + 3]));
        after = Some(page.next);
    }
}

/// J9
pub async fn a_cursor_of_another_store_is_refused(bed: Bed) {
    live(&bed).await;
    let head = bed.store.feed_head((), at(9)).await.expect("the store answers");
    let store = head.life.store.wrapping_add(1);
    is_expired(
        &reads(&bed, Some(FeedCursor { life: Life { store, ..head.life }, ..head.clone() }), 10).await,
    );
    let cut = head.position[..head.position.len() - 1].to_vec();
    let long = [head.position.clone(), vec![1]].concat();
    for position in [vec![], vec![0], vec![255; 40], cut, long, b"' OR 1=1 --".to_vec()] {
        let garbage = FeedCursor { position, ..head.clone() };
        is_invalid(&reads(&bed, Some(garbage), 10).await, "cursor");
    }
}

fn is_expired(answer: &Result<FeedPage, Refusal>) {
    assert!(matches!(answer, Err(Refusal::CursorExpired(_))), "{answer:?}");
}

/// J9: what a restored store does not hold under the number of the last event is noticed.
pub async fn a_cursor_names_the_last_event_that_was_read(bed: Bed) {
    live(&bed).await;
    let whole = reads_all(&bed, None, 1_000).await;
    let head = bed.store.feed_head((), at(9)).await.expect("the store answers");
    for cursor in whole.iter().map(|fed| fed.cursor.clone()).chain([head]) {
        assert!(cursor.to_text().len() < 2_000, "cursors are short: {}", cursor.to_text());
        let last = cursor.last.expect("it names one");
        assert!(reads(&bed, Some(cursor.clone()), 10).await.is_ok());
        for gone in [LastRead { hash: !last.hash, ..last }, LastRead { seq: last.seq + 1_000_000, ..last }] {
            is_expired(&reads(&bed, Some(FeedCursor { last: Some(gone), ..cursor.clone() }), 10).await);
        }
    }
}

/// J9: a purge removes events that cursors name, and a reader goes on all the same.
pub async fn a_purge_expires_no_cursor(bed: Bed) {
    let held = bed.holds("w", bed.job("life"), at(0)).await;
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    let told = reads_all(&bed, None, 1).await;
    let head = bed.store.feed_head((), at(1)).await.expect("the store answers");
    let jobs = vec![(held.job.id, bed.row(held.job.id).await.version)];
    let purged = bed.store.purge(Purge { jobs, archive: None }, at(2)).await.expect("the store answers");
    assert_eq!(purged, [Ok(())]);
    let id = bed.a_job(at(3)).await;
    for after in told.iter().map(|fed| fed.cursor.clone()).chain([head]) {
        let rest = reads_all(&bed, Some(after), 10).await;
        assert_eq!(rest.iter().map(|fed| fed.event.job).collect::<Vec<_>>(), [id]);
    }
}

/// J9: after [`adopt`](windlass_store::Feed::adopt) a reader of before is refused, and a new one sees everything once.
pub async fn an_adopted_store_refuses_the_cursors_of_before(bed: Bed) {
    live(&bed).await;
    let (read, head) = (reads_all(&bed, None, 7).await, bed.store.feed_head((), at(9)).await);
    let before = head.expect("the store answers");
    let adopted = bed.store.adopt(Adopt { actor: Actor::api() }, at(10)).await.expect("the store answers");
    assert_eq!(adopted, Life { incarnation: before.life.incarnation + 1, ..before.life });
    for cursor in read.iter().map(|fed| fed.cursor.clone()).chain([before]) {
        is_expired(&reads(&bed, Some(cursor), 10).await);
    }
    let head = bed.store.feed_head((), at(10)).await.expect("the store answers");
    assert_eq!(head.life, adopted);
    let id = bed.a_job(at(11)).await;
    let told = reads_all(&bed, Some(head), 10).await;
    assert_eq!(told.iter().map(|fed| fed.event.job).collect::<Vec<_>>(), [id]);
    for limit in [1, 5, 1_000] {
        let whole = reads_all(&bed, None, limit).await;
        assert_eq!(whole.len(), read.len() + 1);
        is_everything(&bed, &whole).await;
    }
    let audit =
        bed.store.audit(ReadAudit { before: None, limit: 1 }, at(11)).await.expect("the store answers");
    assert_eq!(
        (audit[0].action.as_str(), &*audit[0].target),
        ("store.adopt", &*adopted.incarnation.to_string())
    );
}

/// J7: a fence that a restore has forgotten is not given again.
pub async fn fences_grow_over_attempts_and_incarnations(bed: Bed) {
    let first = bed.holds("w", bed.job("life"), at(0)).await;
    assert_eq!((first.lease.attempt, first.lease.fence), (1, 1));
    bed.settles(&first, fails("again"), at(1)).await.expect("the holder may fail");
    let second = bed.claims_one("w", at(600_000)).await;
    assert_eq!((second.lease.attempt, second.lease.fence), (2, 2));
    bed.settles(&second, fails("again"), at(600_001)).await.expect("the holder may fail");
    let life = bed.store.adopt(Adopt { actor: Actor::api() }, at(600_001)).await.expect("the store answers");
    let third = bed.claims_one("w", at(1_200_000)).await;
    assert_eq!((third.lease.attempt, third.lease.fence), (3, life.fence(3)));
    assert!(third.lease.fence > i64::from(i32::MAX), "higher than every fence of before");
    let other = bed.holds("w", bed.job("life"), at(1_200_000)).await;
    assert_eq!(other.lease.fence, life.fence(1));
}

/// J9
pub async fn the_head_is_where_the_feed_ends_now(bed: Bed) {
    let empty = bed.store.feed_head((), at(0)).await.expect("the store answers");
    live(&bed).await;
    let head = bed.store.feed_head((), at(9)).await.expect("the store answers");
    let page = reads(&bed, Some(head.clone()), 10).await.expect("a page");
    assert_eq!(page.events, []);
    let id = bed.a_job(at(10)).await;
    for after in [head, page.next] {
        let told = reads_all(&bed, Some(after), 10).await;
        assert_eq!(plain(&told).iter().map(|e| (e.job, e.version)).collect::<Vec<_>>(), [(id, 1)]);
    }
    assert_eq!(reads_all(&bed, Some(empty), 10).await.len(), 25, "an empty feed has a head as well");
}

/// J9, J5
pub async fn what_was_refused_is_never_told(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let mut bad = bed.job("work");
    bad.facts.priority = 6;
    let (index, _) = bed.enqueue_refused(vec![bed.job("work"), bed.job("work"), bad], at(1)).await;
    assert_eq!(index, 2);
    let mut wrong = note(id, "noted");
    wrong.expected_version = Some(7);
    assert_eq!(bed.appends(wrong, at(1)).await, Err(Refusal::VersionMismatch(1)));
    let told = reads_all(&bed, None, 10).await;
    assert_eq!(told.len(), 1);
    bed.appends(note(id, "noted"), at(2)).await.expect("a note is taken");
    let rest = reads_all(&bed, Some(told[0].cursor.clone()), 10).await;
    assert_eq!(plain(&rest).iter().map(|e| e.version).collect::<Vec<_>>(), [2]);
}

/// J9: whoever waits need not poll while nothing happens.
pub async fn hints_come_for_events_and_for_due_jobs(bed: Bed) {
    let mut hints = bed.store.hints();
    hints.feed.mark_unchanged();
    hints.due.mark_unchanged();
    let long = Duration::from_secs(10);
    let id = bed.a_job(at(0)).await;
    tokio::time::timeout(long, hints.feed.changed()).await.expect("a hint comes").expect("the store lives");
    tokio::time::timeout(long, hints.due.changed()).await.expect("a hint comes").expect("the store lives");
    hints.feed.mark_unchanged();
    hints.due.mark_unchanged();
    bed.store.nudge();
    assert!(
        hints.feed.has_changed().is_ok_and(|is| is) && hints.due.has_changed().is_ok_and(|is| is),
        "a nudge is a hint"
    );
    let mut second = bed.store.hints();
    second.feed.mark_unchanged();
    bed.appends(note(id, "noted"), at(1)).await.expect("a note is taken");
    for feed in [&mut hints.feed, &mut second.feed] {
        tokio::time::timeout(long, feed.changed()).await.expect("a hint comes").expect("the store lives");
    }
}

/// J9: a reader that pauses gets everything, in pages as small as it likes.
pub async fn a_slow_reader_misses_nothing(bed: Bed) {
    let first = bed.a_job(at(0)).await;
    let mut seen = reads_all(&bed, None, 1).await;
    let mut after = seen[0].cursor.clone();
    for round in 0..5 {
        bed.enqueue_all((0..500).map(|_| bed.job("work")).collect(), at(round)).await;
        bed.appends(note(first, "noted"), at(round)).await.expect("a note is taken");
        let page = reads(&bed, Some(after), 3).await.expect("a page");
        after = page.next;
        seen.extend(page.events);
    }
    seen.extend(reads_all(&bed, Some(after), 97).await);
    assert_eq!(seen.len(), 2_506);
    is_everything(&bed, &seen).await;
}

const WRITERS: usize = 6;
const ROUNDS: usize = 30;
/// Each round writes four events of a job of its own; the twin is new once and the same again every third round.
const WRITTEN: usize = WRITERS * (ROUNDS * 4 + 1 + ROUNDS / 3);

/// What one writer does; every third of its requests is refused and leaves nothing.
async fn writes(bed: Bed, n: usize) -> usize {
    let mut written = 0;
    let shared = bed.id();
    for round in 0..ROUNDS {
        let mut twin = bed.job("work");
        twin.id = shared;
        twin.facts.priority = (round % 3) as i32;
        let batch = Enqueue { jobs: vec![bed.job("work"), twin], actor: Actor::api(), idempotency: None };
        let refused = bed.store.enqueue(batch, at(0)).await.expect("the store answers").is_err();
        written += if refused { 0 } else { 1 + usize::from(round == 0) };
        let held = bed.holds(&format!("w{n}"), bed.job_in("work", &format!("own{n}")), at(0)).await;
        let mut wrong = note(held.job.id, "noted");
        wrong.expected_version = Some(99);
        assert_eq!(bed.appends(wrong, at(0)).await, Err(Refusal::VersionMismatch(2)));
        bed.appends(note(held.job.id, "noted"), at(0)).await.expect("a note is taken");
        bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
        written += 4;
    }
    written
}

/// Reads until as many events came as all writers write together, and a little longer, to see repeats.
async fn tails(bed: Bed, limit: usize) -> Vec<(JobId, Version)> {
    let (mut seen, mut after, mut idle, mut longer) = (Vec::new(), None, 0, 20);
    while longer > 0 && idle < 20_000 {
        let page = reads(&bed, after, limit).await.expect("a page");
        seen.extend(page.events.iter().map(|f| (f.event.job, f.event.version)));
        after = Some(page.next);
        longer -= usize::from(seen.len() >= WRITTEN);
        idle = if page.events.is_empty() { idle + 1 } else { 0 };
        if idle > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    seen
}

/// J9: also while every third of the writers' requests is refused and leaves nothing.
pub async fn readers_that_tail_racing_writers_miss_and_repeat_nothing(bed: Bed) {
    type Seen = crate::Racer<(usize, Vec<(JobId, Version)>)>;
    let mut tasks: Vec<Seen> = Vec::new();
    for n in 0..WRITERS {
        let bed = bed.clone();
        tasks.push(Box::pin(async move { (writes(bed, n).await, Vec::new()) }));
    }
    for limit in [1, 10, 1_000] {
        let bed = bed.clone();
        tasks.push(Box::pin(async move { (0, tails(bed, limit).await) }));
    }
    let answers = together(tasks).await;
    let written: usize = answers.iter().map(|(n, _)| n).sum();
    let whole: Vec<_> =
        reads_all(&bed, None, 1_000).await.iter().map(|f| (f.event.job, f.event.version)).collect();
    assert_eq!((whole.len(), written), (WRITTEN, WRITTEN), "what was written is told");
    for (_, seen) in &answers[WRITERS..] {
        let mut sorted = seen.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), seen.len(), "nothing is repeated");
        assert_eq!(seen.len(), written, "nothing is missed");
        let mut last: BTreeMap<JobId, Version> = BTreeMap::new();
        for (job, version) in seen {
            let before = last.insert(*job, *version).unwrap_or(0);
            assert_eq!(*version, before + 1, "each job's events come in order");
        }
    }
}
