//! Runs under a leader: assigned under an epoch, started by the assigned worker only, orphaned when it is gone.

use crate::{Bed, Racer, at, completes, for_signal, name, report, stop, time, together, who};
use windlass_core::decide::Claim;
use windlass_core::{Done, JobId, LeaseMs, Refusal, RunAt, Secret, Status, Version};
use windlass_store::{Assign, Claimed, Now, PauseQueue, Start};

/// This module's laws, as tests.
#[macro_export]
macro_rules! assign_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            assign: an_assigned_job_is_started_by_its_worker_and_nobody_else,
            a_repeated_start_returns_the_same_lease,
            a_repeated_assignment_changes_nothing,
            what_cannot_be_assigned_is_refused_each_for_itself,
            a_job_is_orphaned_only_when_late_and_its_worker_gone,
            an_orphan_is_assigned_again_and_the_old_assignment_is_dead,
            an_orphan_can_be_claimed,
            a_late_start_counts_while_nobody_moved_the_job,
            a_run_keeps_its_epoch_and_survives_a_failover,
            a_lost_run_is_executed_again_with_the_next_attempt,
            an_assigned_job_can_be_cancelled,
            racing_starts_have_one_winner,
            a_start_racing_the_orphaning_has_one_winner,
        );
    };
}

fn start_of(job: JobId, worker: &str, assignment: Version, epoch: i64, secret: Secret) -> Start {
    let claim = Claim { worker: who(worker), secret, lease_ms: LeaseMs::DEFAULT };
    Start { job, assignment, epoch, claim }
}

async fn starts(bed: &Bed, start: Start, now: Now) -> Result<Claimed, Refusal> {
    bed.store.start(start, now).await.expect("the store answers")
}

/// A job assigned to `worker` by the leader `a`, and its epoch.
async fn assigned(bed: &Bed, worker: &str, ms: i64) -> (JobId, i64) {
    let id = bed.a_job(at(ms)).await;
    let epoch = bed.leads("a", at(ms)).await.expect("the term is free or its own").epoch;
    assert_eq!(bed.gives(id, worker, epoch, at(ms)).await, Ok(Done::Moved(2, Status::Assigned)));
    (id, epoch)
}

/// R2, R3, R8
pub async fn an_assigned_job_is_started_by_its_worker_and_nobody_else(bed: Bed) {
    let (id, epoch) = assigned(&bed, "w1", 0).await;
    let row = bed.row(id).await;
    assert_eq!((row.worker_id, row.epoch, row.assignment), (Some(who("w1")), Some(epoch), Some(2)));
    assert_eq!((row.due_at, row.deadline_at, row.attempt), (None, at(5_000), 0));
    assert_eq!(bed.claims("w2", 9, at(1)).await, [], "it is not another's to claim");
    let by_id = bed.claims_by_id("w1", id, at(1)).await;
    assert_eq!(by_id, Err(Refusal::NotClaimable(Status::Assigned)));
    let before = bed.snapshot(id).await;
    let secret = Bed::secret(1);
    for (worker, assignment, epoch) in
        [("w2", 2, epoch), ("w1", 1, epoch), ("w1", 3, epoch), ("w1", 2, epoch + 1), ("w1", 2, epoch - 1)]
    {
        let wrong = starts(&bed, start_of(id, worker, assignment, epoch, secret), at(2)).await;
        assert_eq!(wrong, Err(Refusal::NotAssigned), "{worker} {assignment} {epoch}");
    }
    bed.is_unchanged(&before).await;
    let held = starts(&bed, start_of(id, "w1", 2, epoch, secret), at(3)).await.expect("it starts");
    assert_eq!((held.job.status, held.job.attempt, held.lease.attempt), (Status::Running, 1, 1));
    assert_eq!((held.lease.expires_at, held.job.epoch), (time(30_003), Some(epoch)));
    assert_eq!(bed.settles(&held, completes(), at(4)).await, Ok(Done::Moved(4, Status::Completed)));
    assert_eq!(bed.types(id).await, ["job_created", "job_assigned", "job_started", "job_completed"]);
    let unknown = starts(&bed, start_of(bed.id(), "w1", 2, epoch, secret), at(5)).await;
    assert_eq!(unknown, Err(Refusal::NotFound));
    let finished = starts(&bed, start_of(id, "w1", 2, epoch, secret), at(5)).await;
    assert_eq!(finished, Err(Refusal::Finished(Status::Completed)));
}

/// R1, R3
pub async fn a_repeated_start_returns_the_same_lease(bed: Bed) {
    let (id, epoch) = assigned(&bed, "w1", 0).await;
    let start = start_of(id, "w1", 2, epoch, Bed::secret(1));
    let first = starts(&bed, start.clone(), at(1)).await.expect("it starts");
    let before = bed.snapshot(id).await;
    let again = starts(&bed, start, at(2)).await.expect("the answer may have been lost");
    assert_eq!(again, first);
    let other = starts(&bed, start_of(id, "w1", 2, epoch, Bed::secret(2)), at(2)).await;
    assert_eq!(other, Err(Refusal::NotAssigned), "a second process must not launch it");
    bed.is_unchanged(&before).await;
}

/// R1, R2
pub async fn a_repeated_assignment_changes_nothing(bed: Bed) {
    let (id, epoch) = assigned(&bed, "w1", 0).await;
    let before = bed.snapshot(id).await;
    assert_eq!(bed.gives(id, "w1", epoch, at(1)).await, Ok(Done::Already(2)));
    let other = bed.gives(id, "w2", epoch, at(1)).await;
    assert_eq!(other, Err(Refusal::NotClaimable(Status::Assigned)));
    bed.is_unchanged(&before).await;
}

/// R1, R2: one outcome per row, and a refused one harms no other.
pub async fn what_cannot_be_assigned_is_refused_each_for_itself(bed: Bed) {
    let epoch = bed.leads("a", at(0)).await.expect("the term is free").epoch;
    let running = bed.a_held_job("w", at(0)).await.job.id;
    let held = bed.a_held_job("w", at(0)).await;
    bed.waits(&held, for_signal("go"), at(0)).await.expect("the holder may wait");
    let done = bed.a_held_job("w", at(0)).await;
    bed.settles(&done, completes(), at(0)).await.expect("the holder may complete");
    let mut later = bed.job("work");
    later.facts.run_at = RunAt::At(time(60_000));
    let later = bed.enqueue(later, at(0)).await.id;
    let paused = bed.enqueue(bed.job_in("work", "paused"), at(0)).await.id;
    let pause = PauseQueue { name: name("paused"), pause: true, actor: windlass_core::Actor::api() };
    bed.store.pause_queue(pause, at(0)).await.expect("the store answers");
    let good = bed.a_job(at(0)).await;
    let unknown = bed.id();
    let jobs = [running, held.job.id, done.job.id, later, paused, unknown, good];
    let items: Vec<_> = jobs.iter().map(|id| (*id, who("w1"))).collect();
    let assign = Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
    for lapse_ms in [0, -1, 86_400_001] {
        let answers = bed.store.assign(Assign { lapse_ms, ..assign.clone() }, at(1)).await;
        let last = answers.expect("the store answers").pop().expect("an answer per item");
        assert!(matches!(last, Err(Refusal::Invalid(_))), "{lapse_ms}: {last:?}");
        // What is never right is said also to one whose term is over.
        let answers = bed.store.assign(Assign { lapse_ms, ..assign.clone() }, at(3_600_000)).await;
        let last = answers.expect("the store answers").pop().expect("an answer per item");
        assert!(matches!(last, Err(Refusal::Invalid(_))), "{lapse_ms}: {last:?}");
    }
    let answers = bed.store.assign(assign, at(1)).await.expect("the store answers");
    let expected = [
        Err(Refusal::NotClaimable(Status::Running)),
        Err(Refusal::NotClaimable(Status::Waiting)),
        Err(Refusal::Finished(Status::Completed)),
        Err(Refusal::NotClaimable(Status::Pending)),
        Err(Refusal::NotClaimable(Status::Pending)),
        Err(Refusal::NotFound),
        Ok(Done::Moved(2, Status::Assigned)),
    ];
    assert_eq!(answers, expected);
}

/// R8: both, never one of them.
pub async fn a_job_is_orphaned_only_when_late_and_its_worker_gone(bed: Bed) {
    bed.registers("there", at(0)).await;
    bed.registers("leaves", at(0)).await;
    let (late, _) = assigned(&bed, "there", 0).await;
    let (gone, _) = assigned(&bed, "leaves", 0).await;
    bed.store.remove_worker(who("leaves"), at(1)).await.expect("the store answers");
    assert_eq!(bed.sweeps(at(4_999)).await, [], "nobody is late");
    let swept = bed.sweeps(at(5_000)).await;
    assert_eq!(swept.len(), 1, "only the one whose worker is gone: {swept:?}");
    assert_eq!((swept[0].job, &swept[0].answer), (gone, &Ok(Done::Moved(3, Status::Orphaned))));
    let row = bed.row(gone).await;
    assert_eq!((row.worker_id, row.assignment, row.due_at), (None, None, at(5_000)));
    assert_eq!(bed.row(late).await.status, Status::Assigned);
    assert_eq!(bed.sweeps(at(29_999)).await, []);
    let swept = bed.sweeps(at(30_000)).await;
    assert_eq!(swept.len(), 1, "a worker that does not report any more is gone");
    assert_eq!((swept[0].job, &swept[0].answer), (late, &Ok(Done::Moved(3, Status::Orphaned))));
}

/// R2, R3, R8
pub async fn an_orphan_is_assigned_again_and_the_old_assignment_is_dead(bed: Bed) {
    let (id, epoch) = assigned(&bed, "w1", 0).await;
    assert_eq!(bed.sweeps(at(5_000)).await.len(), 1);
    assert_eq!(bed.row(id).await.attempt, 0, "an attempt is an execution");
    assert_eq!(bed.gives(id, "w1", epoch, at(5_001)).await, Ok(Done::Moved(4, Status::Assigned)));
    let old = starts(&bed, start_of(id, "w1", 2, epoch, Bed::secret(1)), at(5_002)).await;
    assert_eq!(old, Err(Refusal::NotAssigned));
    let new = starts(&bed, start_of(id, "w1", 4, epoch, Bed::secret(1)), at(5_002)).await;
    assert_eq!(new.expect("it starts").job.attempt, 1);
}

/// R2, R3
pub async fn an_orphan_can_be_claimed(bed: Bed) {
    let (id, epoch) = assigned(&bed, "w1", 0).await;
    assert_eq!(bed.sweeps(at(5_000)).await.len(), 1);
    let held = bed.claims_one("w2", at(5_000)).await;
    assert_eq!((held.job.id, held.job.attempt, held.job.epoch), (id, 1, None));
    let old = starts(&bed, start_of(id, "w1", 2, epoch, Bed::secret(1)), at(5_001)).await;
    assert_eq!(old, Err(Refusal::NotAssigned));
    assert_eq!(bed.settles(&held, completes(), at(5_001)).await, Ok(Done::Moved(5, Status::Completed)));
}

/// R8
pub async fn a_late_start_counts_while_nobody_moved_the_job(bed: Bed) {
    let (id, epoch) = assigned(&bed, "w1", 0).await;
    let held = starts(&bed, start_of(id, "w1", 2, epoch, Bed::secret(1)), at(9_000)).await;
    assert_eq!(held.expect("it starts").job.deadline_at, None);
    assert_eq!(bed.sweeps(at(9_001)).await, [], "a started run is no orphan");
}

/// R5, R4: neither a change of leader nor its absence kills healthy work.
pub async fn a_run_keeps_its_epoch_and_survives_a_failover(bed: Bed) {
    let (running, first) = assigned(&bed, "w1", 0).await;
    let (waiting, _) = assigned(&bed, "w1", 0).await;
    let held = starts(&bed, start_of(running, "w1", 2, first, Bed::secret(1)), at(1)).await;
    let held = held.expect("it starts");
    let second = bed.leads("b", at(10_000)).await.expect("the term is over").epoch;
    assert!(second > first);
    let extended = bed.extends(&held, 30_000, at(10_001)).await.expect("the lease is live");
    assert_eq!(extended.expires_at, time(40_001));
    let mut progress = report(&held);
    progress.progress = Some(50);
    bed.reports(progress, at(10_002)).await.expect("the holder may report");
    assert_eq!(bed.row(running).await.epoch, Some(first));
    let late = starts(&bed, start_of(waiting, "w1", 2, second, Bed::secret(2)), at(10_003)).await;
    assert_eq!(late, Err(Refusal::NotAssigned), "it was assigned under the first epoch");
    let late = starts(&bed, start_of(waiting, "w1", 2, first, Bed::secret(2)), at(10_003)).await;
    assert_eq!(late.expect("an assignment outlives its leader").job.epoch, Some(first));
    assert_eq!(bed.settles(&held, completes(), at(20_001)).await, Ok(Done::Moved(5, Status::Completed)));
    assert_eq!(bed.row(running).await.epoch, Some(first));
}

/// R2, R8, Q5
pub async fn a_lost_run_is_executed_again_with_the_next_attempt(bed: Bed) {
    let (id, epoch) = assigned(&bed, "w1", 0).await;
    let lost = starts(&bed, start_of(id, "w1", 2, epoch, Bed::secret(1)), at(1)).await.expect("it starts");
    assert_eq!(bed.claims("w2", 9, at(30_000)).await, [], "the lease is live");
    let held = bed.claims_one("w2", at(30_001)).await;
    assert_eq!((held.job.id, held.job.attempt, held.job.epoch), (id, 2, None));
    assert_eq!(bed.settles(&lost, completes(), at(30_002)).await, Err(Refusal::Mismatch));
}

/// R2, M10
pub async fn an_assigned_job_can_be_cancelled(bed: Bed) {
    let (id, epoch) = assigned(&bed, "w1", 0).await;
    assert_eq!(bed.cancels(id, stop(), at(1)).await, Ok(Done::Moved(3, Status::Cancelled)));
    let start = starts(&bed, start_of(id, "w1", 2, epoch, Bed::secret(1)), at(2)).await;
    assert_eq!(start, Err(Refusal::Finished(Status::Cancelled)));
    let again = bed.gives(id, "w1", epoch, at(2)).await;
    assert_eq!(again, Err(Refusal::Finished(Status::Cancelled)));
}

/// R1, R3
pub async fn racing_starts_have_one_winner(bed: Bed) {
    for _ in 0..15 {
        let (id, epoch) = assigned(&bed, "w1", 0).await;
        let racers = (0..8u8).map(|n| {
            let (bed, start) = (bed.clone(), start_of(id, "w1", 2, epoch, Bed::secret(n)));
            async move { starts(&bed, start, at(0)).await }
        });
        let answers = together(racers).await;
        assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|a| a.is_ok() || *a == Err(Refusal::NotAssigned)), "{answers:?}");
        assert_eq!(bed.row(id).await.attempt, 1);
    }
}

/// R1, R8
pub async fn a_start_racing_the_orphaning_has_one_winner(bed: Bed) {
    for round in 0..40 {
        let ms = round * 6_000;
        let (id, epoch) = assigned(&bed, "w1", ms).await;
        let (starter, sweeper) = (bed.clone(), bed.clone());
        let start = start_of(id, "w1", 2, epoch, Bed::secret(1));
        let start: Racer<bool> =
            Box::pin(async move { starts(&starter, start, at(ms + 5_000)).await.is_ok() });
        let sweep: Racer<bool> = Box::pin(async move { !sweeper.sweeps(at(ms + 5_000)).await.is_empty() });
        let won = together([start, sweep]).await;
        let expected = if won[0] { (Status::Running, 1) } else { (Status::Orphaned, 0) };
        let row = bed.row(id).await;
        assert_eq!((row.status, row.attempt), expected);
        assert_ne!(won[0], won[1], "one winner");
        let forced = windlass_core::decide::Cancel { force: true, ..stop() };
        bed.cancels(id, forced, at(ms + 5_000)).await.expect("a live job can be cancelled");
    }
}
