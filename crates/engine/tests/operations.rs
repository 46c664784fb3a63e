//! Operations on many jobs: held, carried out page by page by who leads, stopped, and taken over.

mod bed;

use bed::{Bed, DEADLINE, name, who};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_core::bulk::BulkAction;
use windlass_core::operation::{Operation, Phase, Which};
use windlass_core::{Actor, Filter, JobId, Name, Status};
use windlass_engine::Shutdown;
use windlass_engine::service::{Leader, Operations};
use windlass_store::{List, PaperKind, PutPaper, fresh};

fn ann() -> Actor {
    Actor::try_from("key:ann").expect("an actor")
}

/// A process that leads, or waits to; it dies with the set.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str) {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(2_000);
    let operations = Operations::new(Arc::clone(&bed.store), leader.leading(), Arc::new(Notify::new()));
    let shutdown = Shutdown::new();
    tasks.spawn(async move {
        tokio::join!(leader.run(shutdown.clone()), operations.run(shutdown));
    });
}

async fn write(bed: &Bed, which: &Name, one: &Operation, expected_version: i64) -> bool {
    let put = PutPaper {
        kind: PaperKind::Operation,
        name: which.clone(),
        body: serde_json::to_value(one).expect("a value"),
        expected_version: Some(expected_version),
        term: None,
        action: Some("bulk.cancel"),
        actor: ann(),
    };
    bed.store.put_paper(put, None).await.expect("the store").is_ok()
}

/// Cancels all jobs of a kind, after so long.
async fn begin(bed: &Bed, kind: &str, hold_ms: i64) -> Name {
    let statuses = BulkAction::Cancel.usual();
    let filter = Filter { statuses, kind: Some(name(kind)), ..Filter::default() };
    let which = Which::Filter(Box::new(filter));
    let one = Operation::new(BulkAction::Cancel, which, ann(), hold_ms, fresh::wall_clock()).expect("one");
    let id = name(&fresh::job_id().to_string());
    assert!(write(bed, &id, &one, 0).await);
    id
}

async fn read(bed: &Bed, which: &Name) -> (Operation, i64) {
    let paper = bed.store.paper((PaperKind::Operation, which.clone()), None).await.expect("the store");
    let paper = paper.expect("it is there");
    (Operation::read(&paper).expect("it reads"), paper.version)
}

async fn until(bed: &Bed, which: &Name, wished: impl Fn(&Operation) -> bool) -> Operation {
    let looked = async {
        loop {
            let (one, _) = read(bed, which).await;
            if wished(&one) {
                return one;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, looked).await.expect("it never came so far")
}

/// Stops one as a person does: at the version that was read, and again if that has passed.
async fn stop(bed: &Bed, which: &Name) -> Operation {
    loop {
        let (one, version) = read(bed, which).await;
        let stopped = one.stop(ann(), fresh::wall_clock()).expect("it is not over");
        if write(bed, which, &stopped, version).await {
            return stopped;
        }
    }
}

async fn put_many(bed: &Bed, kind: &str, count: usize) -> Vec<JobId> {
    let jobs: Vec<_> = (0..count).map(|_| bed::new_job(kind)).collect();
    let ids = jobs.iter().map(|job| job.id).collect();
    for some in jobs.chunks(1_000) {
        bed.put_all(some.to_vec()).await;
    }
    ids
}

/// How many jobs of a kind are cancelled.
async fn cancelled(bed: &Bed, kind: &str) -> usize {
    let filter = Filter { statuses: vec![Status::Cancelled], kind: Some(name(kind)), ..Filter::default() };
    let (mut count, mut cursor) = (0, None);
    loop {
        let list = List { filter: filter.clone(), cursor, limit: 1_000 };
        let page = bed.store.jobs(list, None).await.expect("the store").expect("a page");
        count += page.items.len();
        cursor = page.next;
        if cursor.is_none() {
            return count;
        }
    }
}

on_every_store! {
    /// (operations) It begins when its hold is over, meets every job that matches once, for the one who asked, and no other.
    #[test]
    async fn an_operation_meets_every_job_once(bed: Bed) {
        let jobs = put_many(&bed, "old", 250).await;
        put_many(&bed, "new", 1).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a");
        process(&bed, &mut tasks, "b");
        let id = begin(&bed, "old", 1_500).await;
        sleep(Duration::from_millis(500)).await;
        assert_eq!((read(&bed, &id).await.0.phase, cancelled(&bed, "old").await), (Phase::Held, 0));
        let done = until(&bed, &id, |one| one.phase.is_over()).await;
        assert_eq!((done.phase, done.tally.done, done.tally.skipped), (Phase::Done, 250, 0));
        assert_eq!((cancelled(&bed, "old").await, cancelled(&bed, "new").await), (250, 0));
        for job in [jobs[0], jobs[249]] {
            let log = bed.log(job).await;
            let by: Vec<_> = log.iter().filter(|event| event.what.type_name() == "job_cancelled").collect();
            assert_eq!(by.len(), 1);
            assert_eq!(by[0].actor, ann());
        }
    }

    /// (operations) One that is stopped while it is held leaves every job as it was.
    #[test]
    async fn what_is_stopped_in_its_hold_did_nothing(bed: Bed) {
        let jobs = put_many(&bed, "old", 20).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a");
        let id = begin(&bed, "old", 1_000).await;
        stop(&bed, &id).await;
        let next = begin(&bed, "none", 1_200).await;
        until(&bed, &next, |one| one.phase == Phase::Done).await;
        let (one, _) = read(&bed, &id).await;
        assert_eq!((one.phase, one.tally.matched, one.stopped_by), (Phase::Stopped, 0, Some(ann())));
        for job in jobs {
            assert_eq!(bed.job(job).await.job.version, 1);
        }
    }

    /// (operations) Stopped under way: it ends, and says exactly what was done.
    #[test]
    async fn what_is_stopped_under_way_says_what_was_done(bed: Bed) {
        put_many(&bed, "old", 30_000).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a");
        let id = begin(&bed, "old", 0).await;
        until(&bed, &id, |one| one.tally.done > 0).await;
        stop(&bed, &id).await;
        // What was under way is noted; another operation begins only after that.
        let next = begin(&bed, "none", 0).await;
        until(&bed, &next, |one| one.phase == Phase::Done).await;
        let (one, _) = read(&bed, &id).await;
        let found = cancelled(&bed, "old").await;
        assert_eq!((one.phase, one.tally.done), (Phase::Stopped, found as u64));
        assert!(found < 30_000, "it was stopped before its end");
    }

    /// (operations) Leaders die under way, again and again; the next goes on, and no job is met twice.
    #[test]
    async fn the_next_leader_goes_on(bed: Bed) {
        let jobs = put_many(&bed, "old", 900).await;
        let id = begin(&bed, "old", 0).await;
        for n in 1..=3u64 {
            let mut tasks = JoinSet::new();
            process(&bed, &mut tasks, &format!("p{n}"));
            until(&bed, &id, |one| one.phase.is_over() || one.tally.matched >= n * 100).await;
            tasks.shutdown().await;
        }
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "last");
        until(&bed, &id, |one| one.phase == Phase::Done).await;
        assert_eq!(cancelled(&bed, "old").await, 900);
        for job in jobs.iter().step_by(90) {
            assert_eq!(bed.count(*job, "job_cancelled").await, 1);
        }
    }

    /// (operations) Jobs that were named, one of which has ended: it is passed over. A paper that does not read stops nobody.
    #[test]
    async fn named_jobs_are_met_and_a_bad_paper_is_passed_over(bed: Bed) {
        let jobs = put_many(&bed, "old", 3).await;
        let bad = PutPaper {
            kind: PaperKind::Operation,
            name: name("zzz"),
            body: serde_json::json!({ "action": "explode" }),
            expected_version: None,
            term: None,
            action: None,
            actor: ann(),
        };
        bed.store.put_paper(bad, None).await.expect("the store").expect("written");
        let which = Which::Ids(jobs[..2].to_vec());
        let one = Operation::new(BulkAction::Cancel, which, ann(), 0, fresh::wall_clock()).expect("one");
        let id = name(&fresh::job_id().to_string());
        assert!(write(&bed, &id, &one, 0).await);
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a");
        until(&bed, &id, |one| one.phase == Phase::Done).await;
        assert_eq!(cancelled(&bed, "old").await, 2);
        let again = name(&fresh::job_id().to_string());
        assert!(write(&bed, &again, &one, 0).await);
        let over = until(&bed, &again, |one| one.phase == Phase::Done).await;
        assert_eq!((over.tally.matched, over.tally.done), (0, 0), "they have ended");
    }
}
