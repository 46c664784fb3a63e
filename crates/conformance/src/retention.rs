//! Retention: a finished job is archived whole and removed whole; a live one is never touched.

use crate::{Bed, at, completes, fails_for_good, key, key_of, name, note, redrive, stop, time, together};
use windlass_core::unique::{Policy, Scope};
use windlass_core::wait::Decision;
use windlass_core::{Filter, JobId, Refusal, Status, Unique, Version};
use windlass_store::{List, Purge, ReadArchive, ReadLogs, WriteLogs};

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
        );
    };
}

async fn purges(bed: &Bed, jobs: Vec<(JobId, Version)>, ms: i64) -> Vec<Result<(), Refusal>> {
    bed.store.purge(Purge { jobs }, at(ms)).await.expect("the store answers")
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
        assert_eq!(purged(id).await, left.then_some(end), "{policy:?} {end}");
        let again = bed.enqueue(keyed(), at(n)).await;
        assert_eq!((again.existed, again.id == id), (left, left), "{policy:?} {end}");
        // Whoever takes the key afterwards is not mistaken for the one that is gone.
        if policy == Policy::Ttl(1_000) {
            let second = bed.enqueue(keyed(), at(n + 1_000)).await.id;
            assert_eq!((purged(id).await, purged(second).await), (None, None));
            bed.cancels(second, stop(), at(n + 1_000)).await.expect("a live job can be cancelled");
            assert_eq!(purges(&bed, vec![(second, 2)], n + 1_000).await, [Ok(())]);
            assert_eq!((purged(id).await, purged(second).await), (None, Some(Status::Cancelled)));
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
            assert_eq!(purged(*id, ms).await, left.then_some(Status::Completed), "at {ms}");
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
