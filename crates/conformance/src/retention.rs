//! Retention: a finished job is archived whole and removed whole; a live one is never touched.

use crate::{Bed, at, completes, fails_for_good, key, key_of, name, note, redrive, stop, time, together};
use windlass_core::unique::{Policy, Scope};
use windlass_core::wait::Decision;
use windlass_core::{Actor, Done, EventKind, Filter, JobId, LeaseMs, Refusal, Status, Unique, Version, Who};
use windlass_store::{
    AcquireTerm, Archived, ForgetTombstones, List, Purge, ReadArchive, ReadLogs, Restore, Tombstone,
    WriteLogs,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! retention_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            retention: finished_jobs_are_archived_whole_and_oldest_end_first,
            a_purged_job_is_gone_everywhere,
            a_live_job_is_never_removed,
            a_job_that_changed_since_the_archive_is_kept,
            keys_outlive_jobs,
            a_key_keeps_how_its_removed_job_ended,
            keys_whose_time_is_over_are_forgotten,
            a_removed_id_is_as_good_as_new,
            a_removed_parent_holds_up_nobody,
            racing_purges_and_redrives_have_one_winner,
            an_archived_job_leaves_a_tombstone,
            tombstones_are_forgotten_by_the_leader_alone,
            an_archived_job_comes_back_as_it_was,
            what_is_live_or_unfinished_is_not_restored,
        );
    };
}

async fn purges(bed: &Bed, jobs: Vec<(JobId, Version)>, ms: i64) -> Vec<Result<(), Refusal>> {
    bed.store.purge(Purge { jobs, archive: None }, at(ms)).await.expect("the store answers")
}

async fn finished(bed: &Bed, ms: i64) -> JobId {
    let held = bed.a_held_job("w", at(ms)).await;
    bed.settles(&held, completes(), at(ms)).await.expect("the holder may complete");
    held.job.id
}

/// J2, T9
pub async fn finished_jobs_are_archived_whole_and_oldest_end_first(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let lines =
        WriteLogs { job: held.job.id, token: held.lease.token, lines: vec!["one".into(), "two".into()] };
    bed.store.write_logs(lines, at(0)).await.expect("the store answers").expect("the holder may write");
    let early = finished(&bed, 10).await;
    bed.settles(&held, fails_for_good("broken"), at(20)).await.expect("the holder may fail it");
    let late = finished(&bed, 30).await;
    bed.a_job(at(31)).await;
    let archive = |before: i64, limit| {
        let (store, request) = (bed.store.clone(), ReadArchive { finished_before: time(before), limit });
        async move { store.archive(request, at(40)).await.expect("the store answers") }
    };
    let ids = |jobs: &[windlass_store::Archived]| jobs.iter().map(|a| a.job.id).collect::<Vec<_>>();
    assert_eq!(ids(&archive(1_000, 100).await), [early, held.job.id, late]);
    assert_eq!(ids(&archive(30, 100).await), [early, held.job.id], "before, not at");
    assert_eq!(ids(&archive(1_000, 1).await), [early]);
    let whole = archive(30, 100).await.remove(1);
    assert_eq!((whole.job, whole.events), (bed.row(held.job.id).await, bed.log(held.job.id).await));
    assert_eq!(whole.logs.iter().map(|l| l.line.as_str()).collect::<Vec<_>>(), ["one", "two"]);
}

/// J3, T9, R11
pub async fn a_purged_job_is_gone_everywhere(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.tags = vec![name("x")];
    let held = bed.holds("w", job, at(0)).await;
    let id = held.job.id;
    let lines = WriteLogs { job: id, token: held.lease.token, lines: vec!["one".into()] };
    bed.store.write_logs(lines, at(0)).await.expect("the store answers").expect("the holder may write");
    let (ask, _) = bed.question(&held, "gate");
    bed.asks(ask.clone(), at(0)).await;
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    let other = finished(&bed, 2).await;
    let unknown = bed.id();
    let version = bed.row(id).await.version;
    assert_eq!(purges(&bed, vec![(unknown, 1), (id, version)], 3).await, [Err(Refusal::NotFound), Ok(())]);
    assert_eq!(bed.store.job(id, at(3)).await, Ok(None));
    assert_eq!(bed.log(id).await, []);
    let lines = ReadLogs { job: id, after: 0, limit: 9 };
    assert_eq!(bed.store.logs(lines, at(3)).await, Ok(vec![]));
    assert_eq!(bed.store.approval(ask.id, at(3)).await, Ok(None));
    let vote = bed.votes(ask.id, Decision::Approve, key_of("ann", &[]), at(3)).await;
    assert_eq!(vote, Err(Refusal::ApprovalNotFound));
    for filter in [Filter::default(), Filter { tag: Some(name("x")), ..Filter::default() }] {
        let request = List { filter, cursor: None, limit: 9 };
        let page = bed.store.jobs(request, at(3)).await.expect("the store answers").expect("a page");
        assert!(page.items.iter().all(|l| l.job.id != id));
    }
    assert_eq!(
        purges(&bed, vec![(id, version)], 4).await,
        [Err(Refusal::NotFound)],
        "a repeat finds nothing"
    );
    assert_eq!(bed.row(other).await.status, Status::Completed, "nobody else is touched");
}

/// M2, R1, T9
pub async fn a_live_job_is_never_removed(bed: Bed) {
    for status in Status::ALL.into_iter().filter(|s| !s.is_terminal()) {
        let id = bed.a_job_that_is(status, 0).await;
        let before = bed.snapshot(id).await;
        let answers = purges(&bed, vec![(id, before.job.version)], 1_000).await;
        assert_eq!(answers, [Err(Refusal::NotFinished(status))]);
        bed.is_unchanged(&before).await;
    }
}

/// R1, T9
pub async fn a_job_that_changed_since_the_archive_is_kept(bed: Bed) {
    let id = finished(&bed, 0).await;
    bed.appends(note(id, "noted"), at(1)).await.expect("a finished job takes notes");
    let before = bed.snapshot(id).await;
    assert_eq!(purges(&bed, vec![(id, 3)], 2).await, [Err(Refusal::VersionMismatch(4))]);
    bed.is_unchanged(&before).await;
    assert_eq!(purges(&bed, vec![(id, 4)], 2).await, [Ok(())]);
}

/// R7, T3, Q11: also after the job was removed.
pub async fn keys_outlive_jobs(bed: Bed) {
    for (n, policy, held) in [
        (0, Policy::Forever, true),
        (1, Policy::Succeeded, true),
        (2, Policy::Active, false),
        (3, Policy::Ttl(1_000), true),
    ] {
        let ms = n * 10_000;
        let mut job = bed.job("work");
        let scope = Scope::Schedule(name("nightly"));
        job.facts.unique = Some(Unique { scope, key: key(&format!("slot{n}")), policy });
        let twin = bed.job("work");
        let twin = windlass_core::NewJob { facts: job.facts.clone(), ..twin };
        let (first, second) = (job.id, twin.id);
        let claimed = bed.holds("w", job, at(ms)).await;
        bed.settles(&claimed, completes(), at(ms)).await.expect("the holder may complete");
        assert_eq!(purges(&bed, vec![(first, 3)], ms).await, [Ok(())]);
        let again = bed.enqueue(twin.clone(), at(ms + 1)).await;
        assert_eq!((again.existed, again.id), (held, if held { first } else { second }), "{policy:?}");
        if policy == Policy::Ttl(1_000) {
            let later = bed.enqueue(twin, at(ms + 1_000)).await;
            assert_eq!((later.existed, later.id), (false, second), "for a time");
        }
        bed.claims("w", 9, at(ms + 1_001)).await;
    }
}

/// T3, Q11: a duplicate never names an id of which nothing is known.
pub async fn a_key_keeps_how_its_removed_job_ended(bed: Bed) {
    let purged = |id| {
        let store = bed.store.clone();
        async move { store.purged(id, at(9)).await.expect("the store answers") }
    };
    for (n, policy, end, left) in [
        (0, Policy::Forever, Status::Completed, true),
        (1, Policy::Forever, Status::Failed, true),
        (2, Policy::Succeeded, Status::Completed, true),
        (3, Policy::Succeeded, Status::Failed, false),
        (4, Policy::Active, Status::Completed, false),
        (5, Policy::Ttl(1_000), Status::Failed, true),
    ] {
        let unique = Unique { scope: Scope::Kind(name("work")), key: key(&format!("k{n}")), policy };
        let keyed = || {
            let mut job = bed.job("work");
            job.facts.unique = Some(unique.clone());
            job
        };
        let held = bed.holds("w", keyed(), at(n)).await;
        let id = held.job.id;
        let outcome = if end == Status::Completed { completes() } else { fails_for_good("broken") };
        bed.settles(&held, outcome, at(n)).await.expect("the holder may settle");
        assert_eq!(purged(id).await, None, "it is still here");
        assert_eq!(purges(&bed, vec![(id, 3)], n).await, [Ok(())]);
        assert_eq!(purged(id).await.map(|left| left.status), left.then_some(end), "{policy:?} {end}");
        let again = bed.enqueue(keyed(), at(n)).await;
        assert_eq!((again.existed, again.id == id), (left, left), "{policy:?} {end}");
        // Whoever takes the key afterwards is not mistaken for the one that is gone.
        if policy == Policy::Ttl(1_000) {
            let second = bed.enqueue(keyed(), at(n + 1_000)).await.id;
            assert_eq!((purged(id).await, purged(second).await), (None, None));
            bed.cancels(second, stop(), at(n + 1_000)).await.expect("a live job can be cancelled");
            assert_eq!(purges(&bed, vec![(second, 2)], n + 1_000).await, [Ok(())]);
            assert_eq!(purged(id).await, None);
            assert_eq!(purged(second).await.map(|left| left.status), Some(Status::Cancelled));
        }
    }
    let held = bed.holds("w", bed.job("work"), at(2_000)).await;
    let keyless = held.job.id;
    bed.settles(&held, completes(), at(2_000)).await.expect("the holder may complete");
    assert_eq!(purges(&bed, vec![(keyless, 3)], 2_000).await, [Ok(())]);
    assert_eq!((purged(keyless).await, purged(bed.id()).await), (None, None), "no key, nothing is kept");
}

/// T3, T9: a key that holds for a time is forgotten once that is over, by the sweep, so that keys of removed jobs do not pile up.
pub async fn keys_whose_time_is_over_are_forgotten(bed: Bed) {
    let purged = |id, ms| {
        let store = bed.store.clone();
        async move { store.purged(id, at(ms)).await.expect("the store answers") }
    };
    let mut ids = Vec::new();
    for (n, policy) in [(0, Policy::Ttl(1_000)), (1, Policy::Ttl(5_000)), (2, Policy::Forever)] {
        let mut job = bed.job("work");
        let unique = Unique { scope: Scope::Kind(name("work")), key: key(&format!("k{n}")), policy };
        job.facts.unique = Some(unique);
        let held = bed.holds("w", job, at(0)).await;
        bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
        assert_eq!(purges(&bed, vec![(held.job.id, 3)], 0).await, [Ok(())]);
        ids.push(held.job.id);
    }
    for (ms, left) in [(999, [true, true, true]), (1_000, [false, true, true]), (9_000, [false, false, true])]
    {
        bed.sweeps(at(ms)).await;
        for (id, left) in ids.iter().zip(left) {
            let status = purged(*id, ms).await.map(|left| left.status);
            assert_eq!(status, left.then_some(Status::Completed), "at {ms}");
        }
    }
}

/// J3: what a purge left behind of a job would be in the way of another under its id.
pub async fn a_removed_id_is_as_good_as_new(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.tags = vec![name("x"), name("y")];
    let other = windlass_core::NewJob {
        facts: windlass_core::Facts::new(name("work"), name("default")),
        ..job.clone()
    };
    for again in [other, job.clone()] {
        let held = bed.holds("w", job.clone(), at(0)).await;
        let (ask, _) = bed.question(&held, "gate");
        bed.asks(ask, at(0)).await;
        bed.appends(windlass_store::Append { key: Some(key("k")), ..note(job.id, "noted") }, at(0))
            .await
            .expect("a note");
        let lines = WriteLogs { job: job.id, token: held.lease.token, lines: vec!["one".into()] };
        bed.store.write_logs(lines, at(0)).await.expect("the store answers").expect("the holder may write");
        bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
        let version = bed.row(job.id).await.version;
        assert_eq!(purges(&bed, vec![(job.id, version)], 2).await, [Ok(())]);
        assert!(!bed.enqueue(again.clone(), at(3)).await.existed, "the id is free");
        assert_eq!(bed.types(job.id).await, ["job_created"]);
        assert_eq!(bed.store.logs(ReadLogs { job: job.id, after: 0, limit: 9 }, at(3)).await, Ok(vec![]));
        let list = windlass_store::ListApprovals { job: Some(job.id), limit: 9, ..Default::default() };
        assert_eq!(bed.store.approvals(list, at(3)).await, Ok(vec![]));
        let filter = Filter { tag: Some(name("x")), ..Filter::default() };
        let page = bed.store.jobs(List { filter, cursor: None, limit: 9 }, at(3)).await;
        let page = page.expect("the store answers").expect("a page");
        assert_eq!(page.items.len(), usize::from(again.facts.tags.contains(&name("x"))));
        let held = bed.claims_by_id("w", job.id, at(3)).await.expect("it is claimed like any other");
        bed.appends(windlass_store::Append { key: Some(key("k")), ..note(job.id, "noted") }, at(3))
            .await
            .expect("the key of an event is its job's own");
        bed.settles(&held, completes(), at(4)).await.expect("the holder may complete");
        assert_eq!(purges(&bed, vec![(job.id, 4)], 5).await, [Ok(())]);
    }
}

/// (retention)
pub async fn a_removed_parent_holds_up_nobody(bed: Bed) {
    let parent = bed.a_held_job("p", at(0)).await;
    let mut child = bed.job("work");
    child.facts.parent_id = Some(parent.job.id);
    let child = bed.enqueue(child, at(0)).await.id;
    bed.settles(&parent, completes(), at(1)).await.expect("the holder may complete");
    let version = bed.row(parent.job.id).await.version;
    assert_eq!(purges(&bed, vec![(parent.job.id, version)], 2).await, [Ok(())]);
    let done = bed.cancels(child, stop(), at(3)).await;
    assert_eq!(done, Ok(windlass_core::Done::Moved(2, Status::Cancelled)));
}

/// R1
pub async fn racing_purges_and_redrives_have_one_winner(bed: Bed) {
    for _ in 0..30 {
        let held = bed.a_held_job("w", at(0)).await;
        let id = held.job.id;
        bed.settles(&held, fails_for_good("broken"), at(0)).await.expect("the holder may fail it");
        let (cleaner, operator) = (bed.clone(), bed.clone());
        let purge: crate::Racer<bool> =
            Box::pin(async move { purges(&cleaner, vec![(id, 3)], 0).await == [Ok(())] });
        let back: crate::Racer<bool> =
            Box::pin(async move { operator.redrives(redrive(id), at(0)).await.is_ok() });
        let won = together([purge, back]).await;
        assert_ne!(won[0], won[1], "one winner");
        assert_eq!(bed.store.job(id, at(0)).await.expect("the store answers").is_none(), won[0]);
        assert_eq!(bed.claims("w", 9, at(0)).await.len(), usize::from(won[1]));
    }
}

async fn archives(bed: &Bed, id: JobId, part: &str, ms: i64) -> Archived {
    let request = ReadArchive { finished_before: time(1_000_000), limit: 100 };
    let all = bed.store.archive(request, at(ms)).await.expect("the store answers");
    let whole = all.into_iter().find(|one| one.job.id == id).expect("it has ended");
    let jobs = vec![(id, whole.job.version)];
    let purge = Purge { jobs, archive: Some(part.to_owned()) };
    assert_eq!(bed.store.purge(purge, at(ms)).await.expect("the store answers"), [Ok(())]);
    whole
}

async fn left(bed: &Bed, id: JobId) -> Option<Tombstone> {
    bed.store.purged(id, at(0)).await.expect("the store answers")
}

/// T9: of an archived job id, outcome, end and archive stay; also where a key keeps its id, and until it lives again.
pub async fn an_archived_job_leaves_a_tombstone(bed: Bed) {
    let mut keyed = bed.job("work");
    let scope = Scope::Kind(name("work"));
    keyed.facts.unique = Some(Unique { scope, key: key("k"), policy: Policy::Forever });
    for (ms, job) in [(0, bed.job("work")), (100, keyed)] {
        let held = bed.holds("w", job.clone(), at(ms)).await;
        bed.settles(&held, fails_for_good("broken"), at(ms + 7)).await.expect("the holder may fail it");
        assert_eq!(left(&bed, job.id).await, None, "it is still here");
        archives(&bed, job.id, "part-1", ms + 9).await;
        let (status, finished_at) = (Status::Failed, Some(time(ms + 7)));
        let tombstone = Tombstone { status, finished_at, archive: Some("part-1".to_owned()) };
        assert_eq!(left(&bed, job.id).await, Some(tombstone));
        if job.facts.unique.is_some() {
            continue;
        }
        bed.enqueue(job.clone(), at(ms + 10)).await;
        assert_eq!(left(&bed, job.id).await, None, "the id lives again");
        bed.cancels(job.id, stop(), at(ms + 11)).await.expect("a live job can be cancelled");
        archives(&bed, job.id, "part-2", ms + 12).await;
        let second = left(&bed, job.id).await.expect("the last one counts");
        assert_eq!((second.status, second.archive.as_deref()), (Status::Cancelled, Some("part-2")));
    }
    let id = finished(&bed, 220).await;
    assert_eq!(purges(&bed, vec![(id, 3)], 221).await, [Ok(())]);
    assert_eq!(left(&bed, id).await, None, "unarchived, nothing is left");
}

/// T9
pub async fn tombstones_are_forgotten_by_the_leader_alone(bed: Bed) {
    let mut ids = Vec::new();
    for ms in [10, 20, 30] {
        let id = finished(&bed, ms).await;
        archives(&bed, id, "part", ms).await;
        ids.push(id);
    }
    let (term, holder) = (name("leader"), Who::parse("holder", "a").expect("a name"));
    let ttl_ms = LeaseMs::new(10_000).expect("a length of time");
    let wish = AcquireTerm { name: term.clone(), holder, ttl_ms };
    let epoch = bed.store.acquire_term(wish, at(40)).await.expect("the store answers").expect("free").epoch;
    let forget = |epoch, before: i64, limit| {
        let (store, term) = (bed.store.clone(), term.clone());
        let request = ForgetTombstones { term, epoch, before: time(before), limit };
        async move { store.forget_tombstones(request, at(50)).await.expect("the store answers") }
    };
    assert_eq!(forget(epoch + 1, 1_000, 9).await, Err(Refusal::StaleEpoch(epoch)));
    assert_eq!(forget(epoch, 30, 1).await, Ok(1), "some at a time");
    assert_eq!(forget(epoch, 30, 9).await, Ok(1), "before, not at");
    assert_eq!((left(&bed, ids[0]).await, left(&bed, ids[1]).await), (None, None));
    assert!(left(&bed, ids[2]).await.is_some());
}

fn restore(archived: &Archived) -> Restore {
    let Archived { events, logs, log_parts, .. } = archived.clone();
    Restore { events, logs, log_parts, actor: Actor::engine() }
}

/// T9: row, log and log lines are as they were, and one event says that it came back.
pub async fn an_archived_job_comes_back_as_it_was(bed: Bed) {
    let outcomes = [completes(), fails_for_good("broken")];
    for (n, outcome) in (0..).zip(outcomes) {
        let mut job = bed.job("work");
        job.facts.tags = vec![name("x")];
        let held = bed.holds("w", job, at(n * 100)).await;
        let id = held.job.id;
        let lines = WriteLogs { job: id, token: held.lease.token, lines: vec!["one".into(), "two".into()] };
        bed.store
            .write_logs(lines, at(n * 100))
            .await
            .expect("the store answers")
            .expect("the holder may write");
        bed.settles(&held, outcome, at(n * 100 + 1)).await.expect("the holder may settle");
        let whole = archives(&bed, id, "part", n * 100 + 2).await;
        let back = bed.store.restore(restore(&whole), at(n * 100 + 50)).await.expect("the store answers");
        assert_eq!(back, Ok(Done::Moved(whole.job.version + 1, whole.job.status)));
        let (mut row, mut log) = (bed.row(id).await, bed.log(id).await);
        assert_eq!(log.pop().map(|event| event.what), Some(EventKind::JobRestored));
        assert_eq!((row.version, row.updated_at), (whole.job.version + 1, time(n * 100 + 50)));
        (row.version, row.updated_at) = (whole.job.version, whole.job.updated_at);
        assert_eq!((row, log), (whole.job.clone(), whole.events.clone()));
        let read = ReadLogs { job: id, after: 0, limit: 9 };
        assert_eq!(bed.store.logs(read, at(n * 100 + 50)).await, Ok(whole.logs.clone()));
        assert_eq!(left(&bed, id).await, None, "it is here");
        let again = bed.store.restore(restore(&whole), at(n * 100 + 51)).await.expect("the store answers");
        assert_eq!(again, Ok(Done::Already(whole.job.version + 1)), "a repeat changes nothing");
        for filter in [
            Filter { tag: Some(name("x")), ..Filter::default() },
            Filter { statuses: vec![whole.job.status], ..Filter::default() },
        ] {
            let page = bed.store.jobs(List { filter, cursor: None, limit: 9 }, at(n * 100 + 52)).await;
            let page = page.expect("the store answers").expect("a page");
            assert!(page.items.iter().any(|listed| listed.job.id == id), "it is in lists");
        }
        assert_eq!(bed.claims("w", 9, at(n * 100 + 53)).await.len(), 0, "it is finished");
        archives(&bed, id, "part", n * 100 + 60).await;
    }
}

/// T9
pub async fn what_is_live_or_unfinished_is_not_restored(bed: Bed) {
    let refused = |request| {
        let store = bed.store.clone();
        async move { store.restore(request, at(50)).await.expect("the store answers") }
    };
    let job = bed.job("work");
    let held = bed.holds("w", job.clone(), at(0)).await;
    bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    let whole = archives(&bed, job.id, "part", 2).await;
    let torn = Restore { events: vec![whole.events[0].clone(), whole.events[2].clone()], ..restore(&whole) };
    assert!(matches!(refused(torn).await, Err(Refusal::Unreadable(_))));
    let unfinished = Restore { events: whole.events[..2].to_vec(), ..restore(&whole) };
    assert_eq!(refused(unfinished).await, Err(Refusal::NotFinished(Status::Running)));
    let empty = Restore { events: vec![], ..restore(&whole) };
    assert_eq!(refused(empty).await, Err(Refusal::NotFound));
    assert_eq!(bed.store.job(job.id, at(3)).await, Ok(None), "nothing was written");
    bed.enqueue(job.clone(), at(4)).await;
    let before = bed.snapshot(job.id).await;
    assert_eq!(refused(restore(&whole)).await, Err(Refusal::JobExists), "the id is live");
    bed.is_unchanged(&before).await;
}
