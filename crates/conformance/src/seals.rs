//! Seals: each event of the feed once, in one chain, under the leader's epoch; and what they are checked by.

use crate::{
    Bed, Racer, at, checkpoint, completes, fails, json, key, name, note, step_begins, step_ends, time,
    together,
};
use windlass_core::erase::KeptHashes;
use windlass_core::seal::{Differing, SEALS};
use windlass_core::{Actor, Event, FeedCursor, JobId, Metadata, Refusal, Status, Version};
use windlass_store::{
    Adopt, Advance, Append, Erase, EventHash, Findings, LogSeal, Purge, ReadArchive, ReadFeed, ReadSeals,
    Removal, Restore, SealHead, SealedEvent,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! seals_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            seals: every_event_of_the_feed_is_sealed_once_in_one_chain,
            the_hash_of_an_event_is_that_of_what_is_stored,
            a_repeated_move_seals_nothing_again,
            a_stale_leader_seals_nothing,
            racing_leaders_do_not_fork_the_chain,
            what_was_read_and_not_written_is_sealed_by_the_next_leader,
            an_erased_job_is_still_what_was_sealed,
            a_removed_job_is_on_record,
            a_job_that_comes_back_is_sealed_again,
            the_chain_goes_on_in_a_new_life,
        );
    };
}

impl Bed {
    /// Seals everything, as a leader of its own, and answers how far the log of a job is sealed.
    pub async fn seals(&self, job: JobId) -> Version {
        let epoch = reigns(self, "sealer", 0).await;
        seals_all(self, epoch, 0).await;
        let of_job = sealed(self).await.into_iter().filter(|one| one.job == job);
        of_job.map(|one| one.version).max().unwrap_or_default()
    }
}

/// A page of the feed, ready to be sealed.
async fn page(bed: &Bed, epoch: i64, from: Option<&FeedCursor>, limit: usize) -> Option<Advance> {
    let read = ReadFeed { after: from.cloned(), limit, payloads: false };
    let page = bed.store.feed(read, None).await.expect("the store answers").expect("a page");
    let keys: Vec<_> = page.events.iter().map(|fed| (fed.event.job, fed.event.version)).collect();
    let hashes = bed.store.event_hashes(keys.clone(), None).await.expect("the store answers");
    let sealed = keys
        .iter()
        .zip(&hashes)
        .filter_map(|((job, version), hash)| hash.as_ref().map(|hash| SealedEvent::of(*job, *version, hash)));
    let findings = Findings { sealed: sealed.collect(), ..Findings::default() };
    let (term, reader, from) = (name("leader"), name(SEALS), from.cloned());
    (!page.events.is_empty()).then_some(Advance { term, epoch, reader, from, to: page.next, findings })
}

async fn advances(bed: &Bed, request: Advance, ms: i64) -> Result<Option<FeedCursor>, Refusal> {
    let answer = bed.store.advance(request, at(ms)).await.expect("the store answers");
    answer.map(|place| place.cursor)
}

/// Seals everything that is not sealed yet, three events at a time.
async fn seals_all(bed: &Bed, epoch: i64, ms: i64) {
    let place = bed.store.place(name(SEALS), None).await.expect("the store answers");
    let mut from = place.and_then(|place| place.cursor);
    while let Some(request) = page(bed, epoch, from.as_ref(), 3).await {
        from = advances(bed, request, ms).await.expect("it leads");
    }
}

async fn reigns(bed: &Bed, holder: &str, ms: i64) -> i64 {
    bed.leads(holder, at(ms)).await.expect("the term is free").epoch
}

/// The chain, read in stretches of two, after a look that each seal follows the one before.
async fn chain(bed: &Bed) -> Vec<LogSeal> {
    let mut chain: Vec<LogSeal> = Vec::new();
    loop {
        let after = chain.last().map_or(0, |seal| seal.number);
        let more = bed.store.seals(ReadSeals { after, limit: 2 }, None).await.expect("the store answers");
        if more.is_empty() {
            break;
        }
        chain.extend(more);
    }
    let mut last: Option<SealHead> = None;
    for seal in &chain {
        assert!(seal.follows(last.as_ref()), "seal {} holds", seal.number);
        last = Some(seal.head());
    }
    let end = bed.store.last_seal((), None).await.expect("the store answers");
    assert_eq!(end.as_ref(), chain.last());
    chain
}

async fn sealed(bed: &Bed) -> Vec<SealedEvent> {
    let mut all: Vec<SealedEvent> =
        chain(bed).await.iter().flat_map(|seal| seal.events().expect("a body")).collect();
    all.sort();
    all
}

fn as_sealed(log: &[Event]) -> Vec<SealedEvent> {
    log.iter().map(|event| SealedEvent::of(event.job, event.version, &event.hash())).collect()
}

async fn hashes(bed: &Bed, log: &[Event]) -> Vec<Option<EventHash>> {
    let keys = log.iter().map(|event| (event.job, event.version)).collect();
    bed.store.event_hashes(keys, None).await.expect("the store answers")
}

async fn removals(bed: &Bed, jobs: &[JobId]) -> Vec<Removal> {
    bed.store.removals(jobs.to_vec(), None).await.expect("the store answers")
}

/// A finished job of which every part says something.
async fn a_talkative_job(bed: &Bed, ms: i64) -> JobId {
    let mut job = bed.job("work");
    job.payload = Some(json("{\"to\": \"ann\"}"));
    job.facts.metadata = Metadata::from_iter([("zone".to_owned(), "é\u{0}".into())]);
    let held = bed.holds("w", job, at(ms)).await;
    let id = held.job.id;
    bed.records(step_begins(&held, "render"), at(ms)).await.expect("the holder may record");
    bed.records(step_ends(&held, "render", "7"), at(ms)).await.expect("the holder may record");
    bed.reports(checkpoint(&held, "[1]"), at(ms)).await.expect("the holder may report");
    let said = Append { payload: Some(json("1")), key: Some(key("once")), ..note(id, "noted") };
    bed.appends(said, at(ms)).await.expect("a note");
    bed.settles(&held, fails("broken"), at(ms)).await.expect("the holder may fail it");
    let again = bed.claims_by_id("w", id, at(ms + 600_000)).await.expect("it is due again");
    bed.settles(&again, completes(), at(ms + 600_000)).await.expect("the holder may complete");
    id
}

async fn purges(bed: &Bed, job: JobId, version: Version, ms: i64) -> Result<(), Refusal> {
    let purge = Purge { jobs: vec![(job, version)], archive: Some("part".to_owned()) };
    bed.store.purge(purge, at(ms)).await.expect("the store answers").remove(0)
}

/// (seals): page after page, each chained to the one before; a job with news later is sealed on from there.
pub async fn every_event_of_the_feed_is_sealed_once_in_one_chain(bed: Bed) {
    assert_eq!((chain(&bed).await, removals(&bed, &[bed.id()]).await), (vec![], vec![]));
    let job = a_talkative_job(&bed, 0).await;
    let epoch = reigns(&bed, "a", 700_000).await;
    seals_all(&bed, epoch, 700_001).await;
    let mut expected = as_sealed(&bed.log(job).await);
    assert_eq!(sealed(&bed).await, expected);
    let other = bed.a_job(at(700_002)).await;
    bed.appends(note(job, "noted"), at(700_003)).await.expect("a finished job takes notes");
    seals_all(&bed, epoch, 700_004).await;
    let (log, others) = (bed.log(job).await, bed.log(other).await);
    expected = [as_sealed(&log), as_sealed(&others)].concat();
    expected.sort();
    assert_eq!(sealed(&bed).await, expected, "each once");
    let seals = chain(&bed).await;
    assert_eq!(seals.iter().map(|seal| seal.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(seals.last().expect("a seal").at, time(700_004));
    let store = bed.store.feed_head((), None).await.expect("the store answers").life;
    assert!(seals.iter().all(|seal| seal.life == store));
}

/// (seals): the same bytes on every store, whichever way the event was written, and none for what is not there.
pub async fn the_hash_of_an_event_is_that_of_what_is_stored(bed: Bed) {
    let job = a_talkative_job(&bed, 0).await;
    let log = bed.log(job).await;
    let expected: Vec<_> = log.iter().map(|event| Some(event.hash())).collect();
    assert_eq!(hashes(&bed, &log).await, expected);
    let last = log.last().expect("an event").version;
    let asked = vec![(job, last + 1), (bed.id(), 1), (job, 2), (job, 2)];
    let found = bed.store.event_hashes(asked, None).await.expect("the store answers");
    assert_eq!(found, [None, None, expected[1], expected[1]], "in the order of the request");
    assert_eq!(bed.store.event_hashes(Vec::new(), None).await, Ok(Vec::new()));
}

/// (seals): a lost answer is no reason for a second seal.
pub async fn a_repeated_move_seals_nothing_again(bed: Bed) {
    bed.a_job(at(0)).await;
    let epoch = reigns(&bed, "a", 0).await;
    let request = page(&bed, epoch, None, 10).await.expect("an event");
    for _ in 0..3 {
        assert_eq!(advances(&bed, request.clone(), 1).await, Ok(Some(request.to.clone())));
    }
    let here = Advance { from: Some(request.to.clone()), ..request };
    assert_eq!(advances(&bed, here.clone(), 2).await, Ok(Some(here.to)), "standing still seals nothing");
    assert_eq!(chain(&bed).await.len(), 1);
}

/// (seals) R4
pub async fn a_stale_leader_seals_nothing(bed: Bed) {
    bed.a_job(at(0)).await;
    let old = reigns(&bed, "a", 0).await;
    let stale = page(&bed, old, None, 10).await.expect("an event");
    let new = reigns(&bed, "b", 10_000).await;
    assert_eq!(advances(&bed, stale, 10_001).await, Err(Refusal::StaleEpoch(new)));
    assert_eq!(chain(&bed).await, []);
    seals_all(&bed, new, 10_002).await;
    assert_eq!(chain(&bed).await.len(), 1);
}

/// (seals) R4: many that believe to lead make one chain, and a leader that is replaced seals before or not at all.
pub async fn racing_leaders_do_not_fork_the_chain(bed: Bed) {
    let mut from: Option<FeedCursor> = None;
    for round in 0..10 {
        let ms = round * 30_000;
        bed.a_job(at(ms)).await;
        let epoch = reigns(&bed, "a", ms).await;
        let request = page(&bed, epoch, from.as_ref(), 10).await.expect("an event");
        let sealing = (0..4).map(|_| {
            let (bed, request) = (bed.clone(), request.clone());
            let racer: Racer<bool> =
                Box::pin(async move { advances(&bed, request, ms + 9_999).await.is_ok() });
            racer
        });
        let rival = bed.clone();
        let taking: Racer<bool> = Box::pin(async move { rival.leads("b", at(ms + 10_000)).await.is_ok() });
        let won = together(sealing.chain([taking])).await;
        if won[..4].contains(&true) {
            from = Some(request.to);
        }
        let sealed = sealed(&bed).await;
        let distinct: std::collections::BTreeSet<_> =
            sealed.iter().map(|one| (one.job, one.version)).collect();
        assert_eq!(sealed.len(), distinct.len(), "each event once");
    }
    let epoch = reigns(&bed, "c", 1_000_000).await;
    seals_all(&bed, epoch, 1_000_001).await;
    assert_eq!(sealed(&bed).await.len(), 10, "and none left out");
}

/// (seals): a leader that died between reading and writing loses nothing, and what it read is sealed once.
pub async fn what_was_read_and_not_written_is_sealed_by_the_next_leader(bed: Bed) {
    bed.a_job(at(0)).await;
    let dead = reigns(&bed, "a", 0).await;
    let unwritten = page(&bed, dead, None, 10).await.expect("an event");
    bed.a_job(at(1)).await;
    let next = reigns(&bed, "b", 10_000).await;
    seals_all(&bed, next, 10_001).await;
    assert!(advances(&bed, unwritten, 10_002).await.is_err(), "a ghost");
    assert_eq!(sealed(&bed).await.len(), 2);
}

/// T9: the seals of before are explained by what the erasure kept, and what it left is sealed by its own event.
pub async fn an_erased_job_is_still_what_was_sealed(bed: Bed) {
    let job = a_talkative_job(&bed, 0).await;
    let epoch = reigns(&bed, "a", 700_000).await;
    seals_all(&bed, epoch, 700_001).await;
    let before = sealed(&bed).await;
    let wish = Erase { job, actor: Actor::api(), expected_version: None };
    bed.store.erase(wish, at(700_002)).await.expect("the store answers").expect("it is finished");
    let log = bed.log(job).await;
    let kept = KeptHashes::read(log.last().expect("an event")).expect("hashes");
    let found = hashes(&bed, &log).await;
    let (mut explained, erasures) = (0, [kept]);
    for (one, found) in before.iter().zip(&found) {
        let differing = |found| Differing {
            sealed_at: time(700_001),
            found,
            erasures: &erasures,
            removals: &[],
            job_is_here: true,
        };
        assert_eq!(differing(*found).judge(one), Ok(()), "version {}", one.version);
        let is_same = found.is_some_and(|found| found.mark() == one.mark);
        explained += usize::from(!is_same);
        assert!(differing(Some(EventHash([0; 32]))).judge(one).is_err());
    }
    assert!(explained >= 5, "{explained} events said something");
    seals_all(&bed, epoch, 700_003).await;
    let last = log.last().expect("an event");
    assert!(sealed(&bed).await.contains(&SealedEvent::of(job, last.version, &last.hash())));
}

/// T9: what retention removes is on record, for ever; what it refuses to remove is not.
pub async fn a_removed_job_is_on_record(bed: Bed) {
    let (job, live) = (a_talkative_job(&bed, 0).await, bed.a_job_that_is(Status::Pending, 700_000).await);
    let version = bed.row(job).await.version;
    assert!(purges(&bed, job, version - 1, 700_001).await.is_err());
    assert!(purges(&bed, live, 1, 700_001).await.is_err());
    assert_eq!(removals(&bed, &[job, live]).await, []);
    let epoch = reigns(&bed, "a", 700_000).await;
    seals_all(&bed, epoch, 700_001).await;
    purges(&bed, job, version, 700_002).await.expect("it is finished");
    let removal = Removal { job, version, at: time(700_002) };
    assert_eq!(removals(&bed, &[live, job, bed.id()]).await, [removal]);
    let gone = Differing {
        sealed_at: time(700_001),
        found: None,
        erasures: &[],
        removals: &[removal],
        job_is_here: false,
    };
    let of_job: Vec<_> = sealed(&bed).await.into_iter().filter(|one| one.job == job).collect();
    assert_eq!(of_job.len() as i64, version);
    assert!(of_job.iter().all(|one| gone.judge(one).is_ok()));
    assert_eq!(removals(&bed, &[]).await, []);
}

/// T9: its old seals are explained by its removal, and it is sealed anew. It may go again.
pub async fn a_job_that_comes_back_is_sealed_again(bed: Bed) {
    let job = a_talkative_job(&bed, 0).await;
    let version = bed.row(job).await.version;
    let epoch = reigns(&bed, "a", 700_000).await;
    seals_all(&bed, epoch, 700_001).await;
    let archived =
        bed.store.archive(ReadArchive { finished_before: time(700_000), limit: 9 }, at(700_001)).await;
    let archived = archived.expect("the store answers").pop().expect("it is finished");
    purges(&bed, job, version, 700_002).await.expect("it is finished");
    let (events, logs, log_parts) = (archived.events, archived.logs, archived.log_parts);
    let restore = Restore { events, logs, log_parts, actor: Actor::api() };
    bed.store.restore(restore, at(700_003)).await.expect("the store answers").expect("its id is free");
    seals_all(&bed, epoch, 700_004).await;
    let log = bed.log(job).await;
    let again: Vec<SealedEvent> = sealed(&bed).await;
    assert_eq!(again.len() as i64, version + version + 1, "all of it, and that it came back");
    assert!(as_sealed(&log).iter().all(|one| again.contains(one)));
    purges(&bed, job, version + 1, 700_005).await.expect("it is finished");
    let times: Vec<_> =
        removals(&bed, &[job]).await.iter().map(|removal| (removal.version, removal.at)).collect();
    assert_eq!(times, [(version, time(700_002)), (version + 1, time(700_005))]);
}

/// (seals): after a restore the log is read from its beginning and sealed once more, behind the seals that are there.
pub async fn the_chain_goes_on_in_a_new_life(bed: Bed) {
    let job = bed.a_job(at(0)).await;
    let epoch = reigns(&bed, "a", 0).await;
    seals_all(&bed, epoch, 1).await;
    let life = bed.store.adopt(Adopt { actor: Actor::api() }, at(2)).await.expect("the store answers");
    let from = bed.store.place(name(SEALS), None).await.expect("the store answers").and_then(|p| p.cursor);
    let anew = page(&bed, epoch, None, 10).await.expect("an event");
    advances(&bed, Advance { from, ..anew }, 3).await.expect("it leads");
    let seals = chain(&bed).await;
    let lives: Vec<u32> = seals.iter().map(|seal| seal.life.incarnation).collect();
    assert_eq!((lives, seals[1].life), (vec![life.incarnation - 1, life.incarnation], life));
    let twice = as_sealed(&bed.log(job).await);
    assert_eq!(sealed(&bed).await, [twice.clone(), twice].concat());
}
