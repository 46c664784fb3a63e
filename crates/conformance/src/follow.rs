//! Readers of the feed: a place moves once, under the leader's epoch, together with what was found on the way.

use crate::{Bed, Racer, at, completes, fails_for_good, name, time, together};
use windlass_core::follow::STATS;
use windlass_core::problem::{ProblemState, PutProblem, Sighting};
use windlass_core::stats::{Rollups, Standing};
use windlass_core::{Actor, FeedCursor, Refusal};
use windlass_store::{
    Adopt, Advance, Findings, Gauge, ListProblems, ProblemView, ReadFeed, ReadGauges, ReadRollups,
    RebuildStats, Resolution, Rollup,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! follow_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            follow: a_place_moves_together_with_what_was_found,
            a_repeated_move_writes_nothing,
            a_stale_leader_moves_nothing,
            a_place_that_was_moved_is_not_moved_from_where_it_was,
            readers_are_apart,
            racing_moves_count_once,
            a_stale_move_racing_the_failover_is_all_or_nothing,
            a_place_of_before_a_restore_is_refused_by_the_feed_and_can_be_left,
            numbers_add_up_and_are_read_by_slot_queue_and_kind,
            gauges_keep_the_worst_of_a_slot,
            old_numbers_are_forgotten,
            a_rebuild_removes_what_was_counted_since_and_begins_again,
            problems_are_listed_last_seen_first_with_their_counts,
            a_problem_is_resolved_muted_and_seen_again,
        );
    };
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;

fn counted(queue: &str, kind: &str, ms: i64, count: i64) -> Vec<Rollup> {
    let mut rows = Rollups::default();
    let facts = windlass_core::Facts::new(name(kind), name(queue));
    let event = windlass_core::Event {
        job: windlass_store::fresh::job_id(),
        version: 2,
        at: time(ms),
        actor: Actor::api(),
        attempt: 1,
        generation: 0,
        lease: None,
        key: None,
        what: windlass_core::EventKind::JobClaimed,
        payload: None,
    };
    let before = Some(Standing { due_at: Some(time(ms - 1_500)), running_since: None });
    for _ in 0..count {
        rows.count(&facts.queue, &facts.kind, &event, before, 1);
    }
    rows.into_rows()
}

fn finds(rollups: Vec<Rollup>) -> Findings {
    Findings { rollups, ..Findings::default() }
}

fn moves(epoch: i64, from: Option<&FeedCursor>, to: &FeedCursor, findings: Findings) -> Advance {
    let (term, reader) = (name("leader"), name(STATS));
    Advance { term, epoch, reader, from: from.cloned(), to: to.clone(), findings }
}

async fn advances(bed: &Bed, request: Advance, ms: i64) -> Result<Option<FeedCursor>, Refusal> {
    let answer = bed.store.advance(request, at(ms)).await.expect("the store answers");
    answer.map(|place| place.cursor)
}

async fn head(bed: &Bed) -> FeedCursor {
    bed.a_job(at(0)).await;
    bed.store.feed_head((), None).await.expect("the store answers")
}

async fn stands(bed: &Bed, reader: &str) -> Option<FeedCursor> {
    bed.store.place(name(reader), None).await.expect("the store answers").and_then(|place| place.cursor)
}

async fn rows(bed: &Bed, resolution: Resolution) -> Vec<Rollup> {
    let request = ReadRollups {
        resolution,
        from: time(-100 * 24 * HOUR),
        to: time(100 * 24 * HOUR),
        queue: None,
        kind: None,
        limit: 1_000,
    };
    bed.store.rollups(request, None).await.expect("the store answers")
}

async fn total(bed: &Bed) -> i64 {
    rows(bed, Resolution::Hour).await.iter().map(|row| row.count).sum()
}

async fn reigns(bed: &Bed, holder: &str, ms: i64) -> i64 {
    bed.leads(holder, at(ms)).await.expect("the term is free").epoch
}

/// R4
pub async fn a_place_moves_together_with_what_was_found(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    assert_eq!(stands(&bed, STATS).await, None);
    let (first, second) = (head(&bed).await, head(&bed).await);
    let found = counted("mail", "send", 0, 2);
    assert_eq!(advances(&bed, moves(epoch, None, &first, finds(found)), 1).await, Ok(Some(first.clone())));
    assert_eq!(stands(&bed, STATS).await, Some(first.clone()), "as it was written, to the last byte");
    let found = counted("mail", "send", 1_000, 3);
    advances(&bed, moves(epoch, Some(&first), &second, finds(found)), 2).await.expect("it moves on");
    for resolution in Resolution::ALL {
        let rows = rows(&bed, resolution).await;
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].count, rows[0].times.count()), (5, 5));
    }
    let place = bed.store.places((), None).await.expect("the store answers").remove(0);
    assert_eq!((place.cursor, place.epoch, place.moved_at), (Some(second), epoch, time(2)));
}

/// R4: a lost answer is no reason to count twice.
pub async fn a_repeated_move_writes_nothing(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    let (first, second) = (head(&bed).await, head(&bed).await);
    for _ in 0..3 {
        let request = moves(epoch, None, &first, finds(counted("mail", "send", 0, 1)));
        assert_eq!(advances(&bed, request, 1).await, Ok(Some(first.clone())));
    }
    assert_eq!(total(&bed).await, 1);
    for _ in 0..3 {
        let request = moves(epoch, Some(&first), &second, finds(counted("mail", "send", 0, 1)));
        assert_eq!(advances(&bed, request, 2).await, Ok(Some(second.clone())));
        let here = moves(epoch, Some(&second), &second, finds(counted("mail", "send", 0, 1)));
        assert_eq!(advances(&bed, here, 2).await, Ok(Some(second.clone())), "standing still counts nothing");
    }
    assert_eq!(total(&bed).await, 2);
}

/// R4
pub async fn a_stale_leader_moves_nothing(bed: Bed) {
    let to = head(&bed).await;
    let tries = |epoch, ms| {
        let (bed, to) = (bed.clone(), to.clone());
        async move { advances(&bed, moves(epoch, None, &to, finds(counted("q", "k", 0, 1))), ms).await }
    };
    assert_eq!(tries(1, 0).await, Err(Refusal::StaleEpoch(0)), "nobody leads");
    let old = reigns(&bed, "a", 0).await;
    assert_eq!(tries(old + 1, 1).await, Err(Refusal::StaleEpoch(old)));
    assert_eq!(tries(old, 10_000).await, Err(Refusal::StaleEpoch(old)), "the term is over");
    let new = reigns(&bed, "b", 10_000).await;
    assert_eq!(tries(old, 10_001).await, Err(Refusal::StaleEpoch(new)));
    assert_eq!((stands(&bed, STATS).await, total(&bed).await), (None, 0));
    assert_eq!(tries(new, 10_002).await, Ok(Some(to)));
}

/// R4
pub async fn a_place_that_was_moved_is_not_moved_from_where_it_was(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    let (first, second) = (head(&bed).await, head(&bed).await);
    let refused = advances(&bed, moves(epoch, Some(&first), &second, Findings::default()), 1).await;
    assert!(matches!(refused, Err(Refusal::CursorExpired(_))), "it was never there: {refused:?}");
    advances(&bed, moves(epoch, None, &second, Findings::default()), 1).await.expect("it moves");
    let late = moves(epoch, None, &first, finds(counted("q", "k", 0, 1)));
    assert!(matches!(advances(&bed, late, 2).await, Err(Refusal::CursorExpired(_))));
    assert_eq!((stands(&bed, STATS).await, total(&bed).await), (Some(second), 0));
}

/// (readers)
pub async fn readers_are_apart(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    let (first, second) = (head(&bed).await, head(&bed).await);
    for (reader, to) in [("broker", &first), ("archive", &second)] {
        let request = Advance { reader: name(reader), ..moves(epoch, None, to, Findings::default()) };
        bed.store.advance(request, at(1)).await.expect("the store answers").expect("it moves");
    }
    assert_eq!((stands(&bed, "broker").await, stands(&bed, "archive").await), (Some(first), Some(second)));
    let places = bed.store.places((), None).await.expect("the store answers");
    assert_eq!(places.iter().map(|p| p.reader.as_str()).collect::<Vec<_>>(), ["archive", "broker"]);
}

/// R4: two that believe to read under one epoch do not count an event twice.
pub async fn racing_moves_count_once(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    let mut from: Option<FeedCursor> = None;
    for round in 1..=15 {
        let to = head(&bed).await;
        let racers = (0..4).map(|_| {
            let request = moves(epoch, from.as_ref(), &to, finds(counted("q", "k", 0, 1)));
            let bed = bed.clone();
            async move { advances(&bed, request, 1).await }
        });
        for answer in together(racers).await {
            assert_eq!(answer, Ok(Some(to.clone())));
        }
        assert_eq!(total(&bed).await, round);
        from = Some(to);
    }
}

/// R4: a move under an old epoch happened before the failover or not at all.
pub async fn a_stale_move_racing_the_failover_is_all_or_nothing(bed: Bed) {
    let (mut from, mut sum): (Option<FeedCursor>, i64) = (None, 0);
    for round in 0..20 {
        let ms = round * 30_000;
        let old = reigns(&bed, "a", ms).await;
        let to = head(&bed).await;
        let request = moves(old, from.as_ref(), &to, finds(counted("q", "k", 0, 1)));
        let (leader, rival) = (bed.clone(), bed.clone());
        let moving: Racer<bool> =
            Box::pin(async move { advances(&leader, request, ms + 9_999).await.is_ok() });
        let taking: Racer<bool> = Box::pin(async move { rival.leads("b", at(ms + 10_000)).await.is_ok() });
        let won = together([moving, taking]).await;
        assert!(won[1], "a term that is over can be taken");
        sum += i64::from(won[0]);
        from = if won[0] { Some(to) } else { from };
        assert_eq!((stands(&bed, STATS).await, total(&bed).await), (from.clone(), sum));
    }
}

/// J9, R4: a restore is noticed when the place is read from, and the reader may begin anew under its name.
pub async fn a_place_of_before_a_restore_is_refused_by_the_feed_and_can_be_left(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    let before = head(&bed).await;
    advances(&bed, moves(epoch, None, &before, Findings::default()), 1).await.expect("it moves");
    bed.store.adopt(Adopt { actor: Actor::api() }, at(2)).await.expect("the store answers");
    let after = stands(&bed, STATS).await;
    assert_eq!(after, Some(before.clone()), "the place itself is kept");
    let read = ReadFeed { after, limit: 10, payloads: false };
    let refused = bed.store.feed(read, None).await.expect("the store answers");
    assert!(matches!(refused, Err(Refusal::CursorExpired(_))));
    let now = bed.store.feed_head((), None).await.expect("the store answers");
    assert_eq!(
        advances(&bed, moves(epoch, Some(&before), &now, Findings::default()), 3).await,
        Ok(Some(now))
    );
}

/// (stats) Every row is found by its slot, queue and kind, and nothing else is.
pub async fn numbers_add_up_and_are_read_by_slot_queue_and_kind(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    let mut found = Vec::new();
    for (queue, kind, ms) in
        [("mail", "send", 0), ("mail", "open", 0), ("bulk", "send", MINUTE), ("bulk", "send", HOUR)]
    {
        let mut all = Rollups::default();
        all.merge(std::mem::take(&mut found));
        all.merge(counted(queue, kind, ms, 1));
        found = all.into_rows();
    }
    advances(&bed, moves(epoch, None, &head(&bed).await, finds(found.clone())), 1).await.expect("it moves");
    let reads = |resolution, from: i64, to: i64, queue: Option<&str>, kind: Option<&str>, limit| {
        let (from, to) = (time(from), time(to));
        let (queue, kind) = (queue.map(name), kind.map(name));
        let request = ReadRollups { resolution, from, to, queue, kind, limit };
        let store = bed.store.clone();
        async move { store.rollups(request, None).await.expect("the store answers") }
    };
    let mut all = reads(Resolution::Minute, 0, 2 * HOUR, None, None, 100).await;
    all.extend(reads(Resolution::Hour, 0, 2 * HOUR, None, None, 100).await);
    assert_eq!(all, found, "in the order of their keys");
    assert_eq!(
        reads(Resolution::Minute, MINUTE, HOUR, None, None, 100).await.len(),
        1,
        "from, and before to"
    );
    assert_eq!(reads(Resolution::Hour, 0, HOUR, Some("mail"), None, 100).await.len(), 2);
    assert_eq!(reads(Resolution::Hour, 0, 2 * HOUR, Some("bulk"), Some("send"), 100).await.len(), 2);
    assert_eq!(reads(Resolution::Hour, 0, 2 * HOUR, None, Some("open"), 100).await.len(), 1);
    assert_eq!(reads(Resolution::Hour, 0, 2 * HOUR, Some("other"), None, 100).await, []);
    assert_eq!(reads(Resolution::Hour, 0, 2 * HOUR, None, None, 1).await.len(), 1);
}

/// (stats)
pub async fn gauges_keep_the_worst_of_a_slot(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    let to = head(&bed).await;
    advances(&bed, moves(epoch, None, &to, Findings::default()), 1).await.expect("it moves");
    let gauge = |ms, depth, busy| Gauge {
        resolution: Resolution::Minute,
        at: time(ms),
        queue: name("mail"),
        depth,
        oldest_ms: 7,
        busy,
        capacity: 4,
    };
    for seen in [gauge(0, 3, 1), gauge(0, 9, 0), gauge(0, 1, 4), gauge(MINUTE, 2, 2)] {
        for _repeat in 0..2 {
            let findings = Findings { gauges: vec![seen.clone()], ..Findings::default() };
            advances(&bed, moves(epoch, Some(&to), &to, findings), 2).await.expect("it stands still");
        }
    }
    let read = ReadGauges { resolution: Resolution::Minute, from: time(0), to: time(HOUR) };
    let found = bed.store.gauges(read, None).await.expect("the store answers");
    assert_eq!(found, [gauge(0, 9, 4), gauge(MINUTE, 2, 2)]);
    let read = ReadGauges { resolution: Resolution::Minute, from: time(1), to: time(MINUTE) };
    assert_eq!(bed.store.gauges(read, None).await, Ok(vec![]));
}

/// (stats)
pub async fn old_numbers_are_forgotten(bed: Bed) {
    let day = 24 * HOUR;
    let mut found = Vec::new();
    for ms in [0, 40 * day, 91 * day - HOUR, 91 * day] {
        found.extend(counted("q", "k", ms, 1));
    }
    let epoch = reigns(&bed, "a", 0).await;
    let to = head(&bed).await;
    advances(&bed, moves(epoch, None, &to, finds(found)), 1).await.expect("it moves");
    let epoch = reigns(&bed, "a", 91 * day).await;
    let forget = Findings { forget: true, ..Findings::default() };
    advances(&bed, moves(epoch, Some(&to), &to, forget), 91 * day).await.expect("it stands still");
    let slots = |rows: Vec<Rollup>| rows.into_iter().map(|row| row.key.at).collect::<Vec<_>>();
    assert_eq!(slots(rows(&bed, Resolution::Minute).await), [time(91 * day - HOUR), time(91 * day)]);
    let hours = slots(rows(&bed, Resolution::Hour).await);
    assert_eq!(hours, [time(40 * day), time(91 * day - HOUR), time(91 * day)]);
}

/// (stats)
pub async fn a_rebuild_removes_what_was_counted_since_and_begins_again(bed: Bed) {
    let epoch = reigns(&bed, "a", 0).await;
    let (to, mut found) = (head(&bed).await, counted("q", "k", 0, 1));
    found.extend(counted("q", "k", 2 * HOUR, 1));
    advances(&bed, moves(epoch, None, &to, finds(found)), 1).await.expect("it moves");
    let rebuild = |since: Option<i64>, ms| {
        let request = RebuildStats { since: since.map(time), actor: Actor::api() };
        let store = bed.store.clone();
        async move { store.rebuild_stats(request, at(ms)).await.expect("the store answers") }
    };
    let place = rebuild(Some(HOUR + 5), 2).await;
    assert_eq!((place.cursor, place.since), (None, Some(time(HOUR))), "whole hours");
    assert_eq!((stands(&bed, STATS).await, total(&bed).await), (None, 1));
    let stale = advances(&bed, moves(epoch, Some(&to), &head(&bed).await, Findings::default()), 3).await;
    assert!(matches!(stale, Err(Refusal::CursorExpired(_))), "who reads learns of it");
    advances(&bed, moves(epoch, None, &to, Findings::default()), 3).await.expect("it begins again");
    let kept = bed.store.place(name(STATS), None).await.expect("the store answers").expect("a place");
    assert_eq!(kept.since, Some(time(HOUR)), "while it reads on, too");
    assert_eq!(rebuild(None, 4).await.since, None);
    assert_eq!(total(&bed).await, 0);
    let read = windlass_store::ReadAudit { before: None, limit: 10 };
    let audit = bed.store.audit(read, None).await.expect("the store answers");
    assert_eq!(audit.iter().filter(|entry| entry.action.as_str() == "stats.rebuild").count(), 2);
}

/// Fails a job of a kind for good and answers what a reader sees of it.
async fn fails_so(bed: &Bed, kind: &str, code: &str, ms: i64) -> Sighting {
    let held = bed.holds("w", bed.job(kind), at(ms)).await;
    bed.settles(&held, fails_for_good(code), at(ms)).await.expect("the holder may fail it");
    let log = bed.log(held.job.id).await;
    Sighting::of(&name(kind), log.last().expect("an event")).expect("an error")
}

async fn lists(bed: &Bed, request: ListProblems, ms: i64) -> Vec<ProblemView> {
    bed.store.problems(request, at(ms)).await.expect("the store answers")
}

fn first(limit: usize) -> ListProblems {
    ListProblems { limit, ..ListProblems::default() }
}

/// (problems)
pub async fn problems_are_listed_last_seen_first_with_their_counts(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
    let mut sightings = Vec::new();
    for (kind, code, ms) in [("mail", "smtp", 0), ("mail", "quota", 10), ("sms", "smtp", 20)] {
        sightings.push(fails_so(&bed, kind, code, ms).await);
    }
    let again = fails_so(&bed, "mail", "smtp", HOUR).await;
    let epoch = reigns(&bed, "a", HOUR).await;
    let (to, then) = (head(&bed).await, head(&bed).await);
    let findings = |sightings| Findings { sightings, ..Findings::default() };
    advances(&bed, moves(epoch, None, &to, findings(sightings.clone())), HOUR).await.expect("it moves");
    advances(&bed, moves(epoch, Some(&to), &then, findings(vec![again])), HOUR).await.expect("it moves");
    let all = lists(&bed, first(10), HOUR).await;
    let said: Vec<_> = all.iter().map(|v| (v.problem.kind.as_str(), v.problem.code.as_str())).collect();
    assert_eq!(said, [("mail", "smtp"), ("sms", "smtp"), ("mail", "quota")]);
    assert_eq!((all[0].errors, all[0].dead), (2, 2));
    assert_eq!(all[0].hours, [(time(0), 1, 1), (time(HOUR), 1, 1)]);
    let seen = (all[0].problem.first_seen_at, all[0].problem.last_seen_at);
    assert_eq!(seen, (time(0), time(HOUR)));
    let late = lists(&bed, first(10), 60 * HOUR).await;
    assert_eq!((late[0].errors, late[0].hours.len()), (2, 0), "lists show two days by the hour");
    let one = bed.store.problem(all[0].problem.fingerprint.clone(), at(60 * HOUR)).await;
    assert_eq!(one.expect("the store answers").expect("the problem").hours.len(), 2);
    let mut paged = Vec::new();
    let mut before = None;
    loop {
        let page = lists(&bed, ListProblems { before, ..first(1) }, HOUR).await;
        let Some(last) = page.last() else { break };
        before = Some((last.problem.last_seen_at, last.problem.fingerprint.clone()));
        paged.extend(page);
    }
    assert_eq!(paged, all);
    let mails = lists(&bed, ListProblems { kind: Some(name("mail")), ..first(10) }, HOUR).await;
    assert_eq!(mails.len(), 2);
    let unknown = windlass_core::Fingerprint::parse("0123456789abcdef").expect("a fingerprint");
    assert_eq!(bed.store.problem(unknown, None).await, Ok(None));
}

/// (problems)
pub async fn a_problem_is_resolved_muted_and_seen_again(bed: Bed) {
    let seen = fails_so(&bed, "mail", "smtp", 0).await;
    let epoch = reigns(&bed, "a", 0).await;
    let (to, then) = (head(&bed).await, head(&bed).await);
    let findings = |sightings| Findings { sightings, ..Findings::default() };
    advances(&bed, moves(epoch, None, &to, findings(vec![seen.clone()])), 1).await.expect("it moves");
    let puts = |state, ms| {
        let fingerprint = seen.fingerprint.clone();
        let actor = Actor::parse("actor", "operator:ann").expect("an actor");
        let (store, request) = (bed.store.clone(), PutProblem { fingerprint, state, actor });
        async move { store.put_problem(request, at(ms)).await.expect("the store answers") }
    };
    for _repeat in 0..2 {
        let resolved = puts(ProblemState::Resolved, 5).await.expect("it is there");
        assert_eq!((resolved.problem.state, resolved.problem.state_at), (ProblemState::Resolved, time(5)));
    }
    let open = ListProblems { state: Some(ProblemState::Open), ..first(10) };
    assert_eq!(lists(&bed, open.clone(), 6).await, []);
    let again = fails_so(&bed, "mail", "smtp", 10).await;
    advances(&bed, moves(epoch, Some(&to), &then, findings(vec![again])), 11).await.expect("it moves");
    let reopened = lists(&bed, open, 12).await;
    assert_eq!((reopened.len(), reopened[0].problem.reopened, reopened[0].errors), (1, 1, 2));
    puts(ProblemState::Muted, 13).await.expect("it is there");
    let muted = ListProblems { state: Some(ProblemState::Muted), ..first(10) };
    assert_eq!(lists(&bed, muted, 14).await.len(), 1);
    let unknown = windlass_core::Fingerprint::parse("0123456789abcdef").expect("a fingerprint");
    let request = PutProblem { fingerprint: unknown, state: ProblemState::Muted, actor: Actor::api() };
    let refused = bed.store.put_problem(request, at(15)).await.expect("the store answers");
    assert_eq!(refused, Err(Refusal::ProblemNotFound("0123456789abcdef".into())));
    let read = windlass_store::ReadAudit { before: None, limit: 10 };
    let audit = bed.store.audit(read, None).await.expect("the store answers");
    assert_eq!(audit.iter().filter(|entry| entry.action.as_str() == "problem.put").count(), 2);
}
