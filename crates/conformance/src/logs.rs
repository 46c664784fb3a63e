//! Log lines: when they are old they move to the archive, and a reference stays, also when the job goes and comes back.

use crate::{Bed, at, completes, name, time};
use windlass_core::{Actor, Done, JobId, LeaseMs, LogPart, Refusal, Who};
use windlass_store::{
    AcquireTerm, Archived, Claimed, LogRange, MoveLogs, Purge, ReadArchive, ReadLogs, ReadOldLogs, Restore,
    WriteLogs,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! logs_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            logs: old_lines_are_found_by_their_age,
            lines_that_moved_leave_a_reference_and_their_numbers,
            lines_move_once_and_whole,
            lines_are_moved_by_the_leader_alone,
            references_go_with_their_job_and_come_back,
        );
    };
}

async fn logs(bed: &Bed, held: &Claimed, lines: &[&str], ms: i64) {
    let lines = lines.iter().map(|&line| line.to_owned()).collect();
    let write = WriteLogs { job: held.job.id, token: held.lease.token, lines };
    bed.store.write_logs(write, at(ms)).await.expect("the store answers").expect("the holder may write");
}

/// The numbers of a job's lines that are in the store.
async fn here(bed: &Bed, job: JobId) -> Vec<i64> {
    let lines = bed.store.logs(ReadLogs { job, after: 0, limit: 100 }, at(0)).await;
    lines.expect("the store answers").iter().map(|line| line.n).collect()
}

async fn parts(bed: &Bed, job: JobId) -> Vec<LogPart> {
    bed.store.log_parts(job, at(0)).await.expect("the store answers")
}

fn part(first: i64, last: i64, part: &str) -> LogPart {
    LogPart { first, last, part: part.to_owned() }
}

fn range(job: JobId, first: i64, last: i64) -> LogRange {
    LogRange { job, first, last }
}

async fn leads(bed: &Bed, ms: i64) -> i64 {
    let holder = Who::parse("holder", "a").expect("a name");
    let ttl_ms = LeaseMs::new(86_400_000).expect("a length of time");
    let wish = AcquireTerm { name: name("leader"), holder, ttl_ms };
    bed.store.acquire_term(wish, at(ms)).await.expect("the store answers").expect("free").epoch
}

async fn moves(
    bed: &Bed,
    epoch: i64,
    part: &str,
    ranges: Vec<LogRange>,
    ms: i64,
) -> Result<Vec<Result<(), Refusal>>, Refusal> {
    let wish = MoveLogs { term: name("leader"), epoch, part: part.to_owned(), ranges };
    bed.store.move_logs(wish, at(ms)).await.expect("the store answers")
}

/// R11: lines of jobs that run too; each place once, page by page, though one job has many lines.
pub async fn old_lines_are_found_by_their_age(bed: Bed) {
    let (early, late) = (bed.a_held_job("w", at(0)).await, bed.a_held_job("w", at(0)).await);
    logs(&bed, &early, &["one", "two"], 1).await;
    logs(&bed, &late, &["one"], 2).await;
    logs(&bed, &early, &["three"], 2).await;
    logs(&bed, &early, &["four"], 5).await;
    bed.settles(&early, completes(), at(6)).await.expect("the holder may complete");
    let old = |before: i64, after, limit| {
        let (store, wish) = (bed.store.clone(), ReadOldLogs { before: time(before), after, limit });
        async move { store.old_logs(wish, at(9)).await.expect("the store answers") }
    };
    let (first, second) = (early.job.id, late.job.id);
    let mut both = [(time(2), first), (time(2), second)];
    both.sort();
    let all = [(time(1), first), both[0], both[1], (time(5), first)];
    assert_eq!(old(9, None, 100).await, all);
    assert_eq!(old(5, None, 100).await, all[..3], "before, not at");
    assert_eq!(old(9, Some(all[1]), 1).await, all[2..3], "from a place on");
    assert_eq!(old(1, None, 100).await, []);
}

/// R11: no number is given twice, and what is still here is read as before.
pub async fn lines_that_moved_leave_a_reference_and_their_numbers(bed: Bed) {
    let epoch = leads(&bed, 0).await;
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    logs(&bed, &held, &["one", "two", "three"], 1).await;
    let before = bed.row(id).await;
    assert_eq!(moves(&bed, epoch, "a", vec![range(id, 1, 2)], 2).await, Ok(vec![Ok(())]));
    assert_eq!((here(&bed, id).await, parts(&bed, id).await), (vec![3], vec![part(1, 2, "a")]));
    assert_eq!(moves(&bed, epoch, "b", vec![range(id, 3, 3)], 3).await, Ok(vec![Ok(())]));
    assert!(here(&bed, id).await.is_empty());
    logs(&bed, &held, &["four"], 4).await;
    assert_eq!(here(&bed, id).await, [4], "the numbers of lines that moved are not given again");
    assert_eq!(parts(&bed, id).await, [part(1, 2, "a"), part(3, 3, "b")]);
    assert_eq!(bed.row(id).await, before, "lines are no events");
    bed.settles(&held, completes(), at(5)).await.expect("its holder still holds it");
}

/// R11: a repeat changes nothing, and what is not all here is refused, each range for itself.
pub async fn lines_move_once_and_whole(bed: Bed) {
    let epoch = leads(&bed, 0).await;
    let (one, two) = (bed.a_held_job("w", at(0)).await, bed.a_held_job("w", at(0)).await);
    logs(&bed, &one, &["one", "two", "three"], 1).await;
    logs(&bed, &two, &["one"], 1).await;
    let (a, b, unknown) = (one.job.id, two.job.id, bed.id());
    let ranges = vec![range(unknown, 1, 1), range(a, 1, 2), range(b, 1, 2)];
    let gone = Err(Refusal::NotFound);
    let once = moves(&bed, epoch, "a", ranges.clone(), 2).await;
    assert_eq!(once, Ok(vec![gone.clone(), Ok(()), gone.clone()]));
    assert_eq!(moves(&bed, epoch, "a", ranges, 3).await, once, "a repeat");
    assert_eq!(moves(&bed, epoch, "b", vec![range(a, 1, 2)], 4).await, Ok(vec![gone.clone()]), "elsewhere");
    assert_eq!(moves(&bed, epoch, "b", vec![range(a, 2, 3)], 4).await, Ok(vec![gone]), "half of it is gone");
    assert_eq!(parts(&bed, a).await, [part(1, 2, "a")]);
    assert_eq!((here(&bed, a).await, here(&bed, b).await), (vec![3], vec![1]), "nothing else went");
    let bad = moves(&bed, epoch, "b", vec![range(a, 3, 2)], 5).await.expect("it leads");
    assert!(matches!(bad[0], Err(Refusal::Invalid(_))), "{bad:?}");
}

/// R4, R11
pub async fn lines_are_moved_by_the_leader_alone(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    logs(&bed, &held, &["one"], 1).await;
    assert_eq!(
        moves(&bed, 1, "a", vec![range(id, 1, 1)], 1).await,
        Err(Refusal::StaleEpoch(0)),
        "nobody leads"
    );
    let epoch = leads(&bed, 1).await;
    for wrong in [epoch - 1, epoch + 1] {
        let refused = moves(&bed, wrong, "a", vec![range(id, 1, 1)], 2).await;
        assert_eq!(refused, Err(Refusal::StaleEpoch(epoch)));
    }
    assert_eq!((here(&bed, id).await, parts(&bed, id).await), (vec![1], vec![]));
}

/// R11, T9
pub async fn references_go_with_their_job_and_come_back(bed: Bed) {
    let epoch = leads(&bed, 0).await;
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    logs(&bed, &held, &["one", "two", "three"], 1).await;
    assert_eq!(moves(&bed, epoch, "a", vec![range(id, 1, 2)], 2).await, Ok(vec![Ok(())]));
    bed.settles(&held, completes(), at(3)).await.expect("the holder may complete");
    let request = ReadArchive { finished_before: time(1_000), limit: 100 };
    let whole = bed.store.archive(request, at(4)).await.expect("the store answers").remove(0);
    let Archived { job, events, logs, log_parts } = whole;
    assert_eq!((logs.len(), &log_parts), (1, &vec![part(1, 2, "a")]));
    let purge = Purge { jobs: vec![(id, job.version)], archive: Some("jobs".to_owned()) };
    assert_eq!(bed.store.purge(purge, at(4)).await.expect("the store answers"), [Ok(())]);
    assert_eq!((here(&bed, id).await, parts(&bed, id).await), (vec![], vec![]), "nothing is left behind");
    let restore = Restore { events, logs, log_parts, actor: Actor::engine() };
    let back = bed.store.restore(restore, at(5)).await.expect("the store answers");
    assert_eq!(back, Ok(Done::Moved(job.version + 1, job.status)));
    assert_eq!((here(&bed, id).await, parts(&bed, id).await), (vec![3], vec![part(1, 2, "a")]));
}
