//! A redrive within a graph: what was skipped because of a job waits for it again when the job comes back.

use crate::flow::{after, ends, flow, is_due, node, seals, status};
use crate::{Bed, Racer, at, completes, fork, key, redrive, stop, together};
use windlass_core::flow::{Join, On};
use windlass_core::unique::{Policy, Scope};
use windlass_core::{Answer, Done, EventKind, JobId, NewJob, Refusal, Status, Unique, WaitFor};
use windlass_store::{Claimed, Erase, Purge, StoreError};

/// This module's laws, as tests.
#[macro_export]
macro_rules! rearm_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            rearm: what_was_skipped_waits_again,
            what_is_skipped_again_comes_back_again,
            a_job_with_another_reason_stays_skipped,
            what_was_learned_stays_learned,
            every_way_through_a_diamond_comes_back,
            a_skipped_job_that_is_redriven_brings_back_those_behind,
            what_ran_or_was_cancelled_stays_as_it_is,
            a_flow_counts_what_comes_back,
            a_taken_key_keeps_a_job_out,
            what_was_erased_or_has_children_stays_out,
            a_purged_upstream_job_counts_as_it_was_learned,
            a_repeated_redrive_brings_nothing_back_twice,
            successors_that_are_sent_twice_are_made_once,
            a_middle_job_is_cancelled_redriven_and_forked,
            a_flow_and_a_job_of_it_are_cancelled_at_once,
            a_redrive_racing_the_end_of_another_predecessor,
            redrives_of_two_predecessors_at_once,
            a_wide_and_a_long_graph_come_back,
        );
    };
}

/// Jobs that wait for each other's success, the first for none.
async fn chain(bed: &Bed, jobs: usize) -> Vec<JobId> {
    let mut chain = vec![bed.a_job(at(0)).await];
    while chain.len() < jobs {
        let last = chain[chain.len() - 1];
        chain.push(bed.enqueue(after(bed, &[(last, On::Success)]), at(0)).await.id);
    }
    chain
}

async fn comes_back(bed: &Bed, job: JobId) {
    let answer = bed.redrives(redrive(job), at(0)).await;
    let row = bed.row(job).await;
    assert_eq!(answer, Ok(Done::Moved(row.version, Status::Pending)), "the answer has the version it is at");
}

/// What a job waits for, by count; none if it does not wait.
async fn left(bed: &Bed, job: JobId) -> Option<i32> {
    let row = bed.row(job).await;
    let waits = row.status == Status::Waiting && row.waiting_for == Some(WaitFor::Upstream);
    (waits && row.due_at.is_none()).then_some(row.children)
}

async fn is_skipped(bed: &Bed, job: JobId) -> bool {
    let row = bed.row(job).await;
    row.status == Status::Cancelled && row.error_code.is_some_and(|code| code.as_str() == "skipped")
}

/// F14: also those behind; each runs once, after its conditions.
pub async fn what_was_skipped_waits_again(bed: Bed) {
    let jobs = chain(&bed, 3).await;
    let rescue = bed.enqueue(after(&bed, &[(jobs[1], On::Failure)]), at(0)).await.id;
    ends(&bed, jobs[0], Status::Failed).await;
    assert!(is_skipped(&bed, jobs[1]).await && is_skipped(&bed, jobs[2]).await);
    ends(&bed, rescue, Status::Completed).await;
    comes_back(&bed, jobs[0]).await;
    assert_eq!((left(&bed, jobs[1]).await, left(&bed, jobs[2]).await), (Some(1), Some(1)));
    let row = bed.row(jobs[1]).await;
    assert_eq!((row.generation, row.error_code, row.finished_at), (1, None, None));
    let blocked = bed.view(jobs[1], at(0)).await.blocked.expect("it says why it does not run");
    assert_eq!(blocked.reason, "upstream");
    for job in &jobs {
        let held = bed.claims("w", 9, at(0)).await;
        assert_eq!(held.iter().map(|held| held.job.id).collect::<Vec<_>>(), [*job], "one at a time");
        bed.settles(&held[0], completes(), at(0)).await.expect("the holder may complete");
    }
    assert_eq!(status(&bed, rescue).await, Status::Completed, "it ran before and is not asked again");
    let types = bed.types(jobs[1]).await;
    let first = ["job_created", "job_dependents_added", "job_dependents_added", "job_skipped", "job_rearmed"];
    assert_eq!(types[..5], first, "{types:?}");
    assert_eq!(types[5..7], ["job_dependents_added", "job_upstream_finished"], "{types:?}");
    let log = bed.log(jobs[2]).await;
    let rearmed = log.iter().find_map(|event| match &event.what {
        EventKind::JobRearmed(d) => Some((d.redriven, d.upstream.clone())),
        _ => None,
    });
    assert_eq!(
        rearmed,
        Some((jobs[0], vec![jobs[1]])),
        "it names who brought it back, and what it waits for"
    );
}

/// F14
pub async fn what_is_skipped_again_comes_back_again(bed: Bed) {
    let jobs = chain(&bed, 3).await;
    for n in 0..3 {
        ends(&bed, jobs[0], Status::Failed).await;
        assert!(is_skipped(&bed, jobs[1]).await && is_skipped(&bed, jobs[2]).await, "turn {n}");
        comes_back(&bed, jobs[0]).await;
    }
    for job in jobs {
        ends(&bed, job, Status::Completed).await;
    }
}

/// F14: it comes back with the last of them.
pub async fn a_job_with_another_reason_stays_skipped(bed: Bed) {
    let (a, b) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let both = bed.enqueue(after(&bed, &[(a, On::Success), (b, On::Success)]), at(0)).await.id;
    ends(&bed, a, Status::Failed).await;
    ends(&bed, b, Status::Cancelled).await;
    // The skip names the first; the second is a reason all the same.
    comes_back(&bed, a).await;
    assert!(is_skipped(&bed, both).await);
    comes_back(&bed, b).await;
    assert_eq!(left(&bed, both).await, Some(2), "for the one that came back before, too");
    ends(&bed, a, Status::Completed).await;
    assert_eq!(left(&bed, both).await, Some(1));
    ends(&bed, b, Status::Failed).await;
    comes_back(&bed, b).await;
    assert_eq!(left(&bed, both).await, Some(1), "the success of the other is on record");
    ends(&bed, b, Status::Completed).await;
    ends(&bed, both, Status::Completed).await;
    // One that ended meanwhile as it was asked to is not waited for.
    let (a, b) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let both = bed.enqueue(after(&bed, &[(a, On::Success), (b, On::Failure)]), at(0)).await.id;
    ends(&bed, a, Status::Failed).await;
    ends(&bed, b, Status::Failed).await;
    comes_back(&bed, a).await;
    assert_eq!(left(&bed, both).await, Some(1));
    ends(&bed, a, Status::Completed).await;
    assert!(is_due(&bed, both).await);
}

/// F14: who learned of an end is asked for no second one of the same job.
pub async fn what_was_learned_stays_learned(bed: Bed) {
    let (a, b) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let both = bed.enqueue(after(&bed, &[(a, On::Failure), (b, On::Success)]), at(0)).await.id;
    ends(&bed, a, Status::Failed).await;
    ends(&bed, b, Status::Failed).await;
    assert!(is_skipped(&bed, both).await);
    comes_back(&bed, a).await;
    assert!(is_skipped(&bed, both).await, "the other is the reason");
    comes_back(&bed, b).await;
    assert_eq!(left(&bed, both).await, Some(1));
    ends(&bed, a, Status::Completed).await;
    assert_eq!(left(&bed, both).await, Some(1), "it had failed once, and that was asked");
    ends(&bed, b, Status::Completed).await;
    assert!(is_due(&bed, both).await);
}

/// F14: whatever the order in which its jobs are looked at.
pub async fn every_way_through_a_diamond_comes_back(bed: Bed) {
    let top = bed.a_job(at(0)).await;
    let one = bed.enqueue(after(&bed, &[(top, On::Success)]), at(0)).await.id;
    let two = bed.enqueue(after(&bed, &[(one, On::Success)]), at(0)).await.id;
    let alert = bed.enqueue(after(&bed, &[(top, On::Success), (two, On::Failure)]), at(0)).await.id;
    let last = bed.enqueue(after(&bed, &[(top, On::Finished), (two, On::Success)]), at(0)).await.id;
    ends(&bed, top, Status::Failed).await;
    for job in [one, two, alert, last] {
        assert!(is_skipped(&bed, job).await);
    }
    comes_back(&bed, top).await;
    // The last had learned that the first finished.
    for (job, count) in [(one, 1), (two, 1), (alert, 2), (last, 1)] {
        assert_eq!(left(&bed, job).await, Some(count));
    }
    for job in [top, one, two] {
        ends(&bed, job, Status::Completed).await;
    }
    assert!(is_skipped(&bed, alert).await && is_due(&bed, last).await);
}

/// F14: it runs at once, whatever came before it.
pub async fn a_skipped_job_that_is_redriven_brings_back_those_behind(bed: Bed) {
    let jobs = chain(&bed, 3).await;
    ends(&bed, jobs[0], Status::Failed).await;
    comes_back(&bed, jobs[1]).await;
    assert_eq!(left(&bed, jobs[2]).await, Some(1));
    comes_back(&bed, jobs[0]).await;
    assert_eq!(status(&bed, jobs[1]).await, Status::Pending, "it does not wait again");
    for job in [jobs[1], jobs[2], jobs[0]] {
        ends(&bed, job, Status::Completed).await;
    }
}

/// F14
pub async fn what_ran_or_was_cancelled_stays_as_it_is(bed: Bed) {
    let a = bed.a_job(at(0)).await;
    let ran = bed.enqueue(after(&bed, &[(a, On::Failure)]), at(0)).await.id;
    let waits = bed.enqueue(after(&bed, &[(a, On::Finished)]), at(0)).await.id;
    let stopped = bed.enqueue(after(&bed, &[(a, On::Success)]), at(0)).await.id;
    ends(&bed, stopped, Status::Cancelled).await;
    ends(&bed, a, Status::Failed).await;
    ends(&bed, ran, Status::Completed).await;
    let before = [bed.snapshot(ran).await, bed.snapshot(waits).await, bed.snapshot(stopped).await];
    comes_back(&bed, a).await;
    ends(&bed, a, Status::Completed).await;
    for before in before {
        bed.is_unchanged(&before).await;
    }
    ends(&bed, waits, Status::Completed).await;
}

/// F14: its ends are counted anew, also those of the jobs that were skipped.
pub async fn a_flow_counts_what_comes_back(bed: Bed) {
    let parent = flow(&bed, Join::Success, true, true);
    let id = parent.id;
    let first = node(&bed, id, &[]);
    let mut jobs = vec![first.id];
    let mut request = vec![parent, first];
    for _ in 0..3 {
        let next = node(&bed, id, &[(jobs[jobs.len() - 1], On::Success)]);
        jobs.push(next.id);
        request.push(next);
    }
    bed.enqueue_all(request, at(0)).await;
    let open = flow(&bed, Join::All, false, true);
    let (other, outside) = (open.id, node(&bed, open.id, &[(jobs[3], On::Success)]));
    let far = outside.id;
    bed.enqueue_all(vec![open, outside], at(0)).await;
    ends(&bed, jobs[0], Status::Failed).await;
    assert_eq!(
        (bed.row(id).await.children, bed.row(other).await.children),
        (1, 1),
        "only the seals are left"
    );
    comes_back(&bed, jobs[0]).await;
    assert_eq!((bed.row(id).await.children, bed.row(other).await.children), (5, 2));
    let types = bed.types(other).await;
    assert_eq!(types.last().map(String::as_str), Some("job_children_added"));
    for job in jobs.into_iter().chain([far]) {
        ends(&bed, job, Status::Completed).await;
    }
    assert_eq!((bed.row(id).await.children, bed.row(other).await.children), (1, 1));
    seals(&bed, other).await.expect("an open flow is sealed");
    assert_eq!(status(&bed, other).await, Status::Completed);
}

fn unique(mut job: NewJob, of: &str) -> NewJob {
    let scope = Scope::Queue(job.facts.queue.clone());
    job.facts.unique = Some(Unique { scope, key: key(of), policy: Policy::Active });
    job
}

/// F14: of those that need the same key the first has it.
pub async fn a_taken_key_keeps_a_job_out(bed: Bed) {
    let a = bed.a_job(at(0)).await;
    let keyed = unique(after(&bed, &[(a, On::Success)]), "k");
    let hold = keyed.facts.unique.clone().expect("a key");
    let keyed = bed.enqueue(keyed, at(0)).await.id;
    let behind = bed.enqueue(after(&bed, &[(keyed, On::Success)]), at(0)).await.id;
    ends(&bed, a, Status::Failed).await;
    let taken = bed.enqueue(unique(bed.job("work"), "k"), at(0)).await;
    assert!(!taken.existed, "a skip gives the key back");
    comes_back(&bed, a).await;
    assert!(is_skipped(&bed, keyed).await && is_skipped(&bed, behind).await);
    ends(&bed, taken.id, Status::Completed).await;
    ends(&bed, a, Status::Failed).await;
    comes_back(&bed, a).await;
    assert_eq!((left(&bed, keyed).await, left(&bed, behind).await), (Some(1), Some(1)));
    assert_eq!(bed.holder_of(&hold, at(0)).await, Some(keyed));
    // Two that come back with one redrive and need the same key.
    let (top, side) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let one = unique(after(&bed, &[(top, On::Success), (side, On::Success)]), "l");
    let hold = one.facts.unique.clone().expect("a key");
    let one = bed.enqueue(one, at(0)).await.id;
    ends(&bed, side, Status::Failed).await;
    let two = bed.enqueue(unique(after(&bed, &[(top, On::Success)]), "l"), at(0)).await.id;
    ends(&bed, top, Status::Failed).await;
    comes_back(&bed, side).await;
    comes_back(&bed, top).await;
    assert_eq!((left(&bed, one).await, left(&bed, two).await), (Some(2), None));
    assert_eq!(bed.holder_of(&hold, at(0)).await, Some(one));
}

/// F14
pub async fn what_was_erased_or_has_children_stays_out(bed: Bed) {
    let a = bed.a_job(at(0)).await;
    let erased = bed.enqueue(after(&bed, &[(a, On::Success)]), at(0)).await.id;
    let family = bed.enqueue(after(&bed, &[(a, On::Success)]), at(0)).await.id;
    let mut child = bed.job("work");
    child.facts.parent_id = Some(family);
    let child = bed.enqueue(child, at(0)).await.id;
    let behind = bed.enqueue(after(&bed, &[(family, On::Success)]), at(0)).await.id;
    ends(&bed, a, Status::Failed).await;
    let request = Erase { job: erased, actor: windlass_core::Actor::api(), expected_version: None };
    bed.store.erase(request, at(0)).await.expect("the store answers").expect("a finished job is erased");
    comes_back(&bed, a).await;
    for job in [erased, family, behind] {
        assert!(is_skipped(&bed, job).await);
    }
    ends(&bed, child, Status::Completed).await;
    comes_back(&bed, family).await;
    assert_eq!(left(&bed, behind).await, Some(1));
}

async fn purges(bed: &Bed, job: JobId) {
    let version = bed.row(job).await.version;
    let purged = bed.store.purge(Purge { jobs: vec![(job, version)], archive: None }, at(0)).await;
    assert_eq!(purged.expect("the store answers"), [Ok(())]);
}

/// F13, F14: a job that is gone and of whose end nothing is known keeps the others out.
pub async fn a_purged_upstream_job_counts_as_it_was_learned(bed: Bed) {
    let (a, b, late) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let both = bed.enqueue(after(&bed, &[(a, On::Success), (b, On::Success)]), at(0)).await.id;
    let unsure = bed.enqueue(after(&bed, &[(a, On::Success), (late, On::Success)]), at(0)).await.id;
    ends(&bed, b, Status::Completed).await;
    ends(&bed, a, Status::Failed).await;
    ends(&bed, late, Status::Completed).await;
    purges(&bed, b).await;
    purges(&bed, late).await;
    comes_back(&bed, a).await;
    assert_eq!(left(&bed, both).await, Some(1));
    assert!(is_skipped(&bed, unsure).await, "how the other ended is not known any more");
    ends(&bed, a, Status::Completed).await;
    // The next begins after the job before it is gone, too.
    purges(&bed, a).await;
    ends(&bed, both, Status::Completed).await;
    // A skipped job that is gone stops nobody.
    let jobs = chain(&bed, 3).await;
    ends(&bed, jobs[0], Status::Failed).await;
    purges(&bed, jobs[1]).await;
    comes_back(&bed, jobs[0]).await;
    assert!(is_skipped(&bed, jobs[2]).await);
    ends(&bed, jobs[0], Status::Completed).await;
}

/// F14: a lost answer is asked for again.
pub async fn a_repeated_redrive_brings_nothing_back_twice(bed: Bed) {
    let jobs = chain(&bed, 3).await;
    ends(&bed, jobs[0], Status::Failed).await;
    let keyed = windlass_store::Redrive { key: Some(key("again")), ..redrive(jobs[0]) };
    let Ok(Done::Moved(..)) = bed.redrives(keyed.clone(), at(0)).await else { panic!("it is redriven") };
    let before = [bed.snapshot(jobs[0]).await, bed.snapshot(jobs[1]).await, bed.snapshot(jobs[2]).await];
    assert!(matches!(bed.redrives(keyed, at(0)).await, Ok(Done::Already(_))));
    assert_eq!(bed.redrives(redrive(jobs[0]), at(0)).await, Err(Refusal::NotFinished(Status::Pending)));
    for before in before {
        bed.is_unchanged(&before).await;
    }
}

/// F12, F14: a lost answer is asked for again at any time, also when the job before them has ended, came back or is gone.
pub async fn successors_that_are_sent_twice_are_made_once(bed: Bed) {
    let a = bed.a_job(at(0)).await;
    let one = after(&bed, &[(a, On::Success)]);
    let two = after(&bed, &[(a, On::Finished), (one.id, On::Finished)]);
    let ids = [one.id, two.id];
    let sends = async || {
        let sent = bed.enqueue_all(vec![one.clone(), two.clone()], at(0)).await;
        assert_eq!(sent.iter().map(|sent| sent.id).collect::<Vec<_>>(), ids);
        sent.iter().filter(|sent| sent.existed).count()
    };
    let both = together([0, 1].map(|_| {
        let (bed, jobs) = (bed.clone(), vec![one.clone(), two.clone()]);
        async move { bed.enqueue_all(jobs, at(0)).await.iter().filter(|sent| sent.existed).count() }
    }));
    let mut existed = both.await;
    existed.sort_unstable();
    assert_eq!((existed, bed.row(a).await.dependents), (vec![0, 2], 2), "one of the two makes both");
    ends(&bed, a, Status::Failed).await;
    assert_eq!(sends().await, 2);
    assert!(is_skipped(&bed, ids[0]).await && is_due(&bed, ids[1]).await);
    comes_back(&bed, a).await;
    assert_eq!((sends().await, bed.row(a).await.dependents), (2, 1));
    ends(&bed, a, Status::Completed).await;
    purges(&bed, a).await;
    assert_eq!(sends().await, 2);
    for job in ids {
        ends(&bed, job, Status::Completed).await;
    }
}

/// F14: what happens to a job in the middle of a flow happens to what is behind it, and to nothing else.
pub async fn a_middle_job_is_cancelled_redriven_and_forked(bed: Bed) {
    let parent = flow(&bed, Join::All, true, true);
    let id = parent.id;
    let first = node(&bed, id, &[]);
    let middle = node(&bed, id, &[(first.id, On::Success)]);
    let last = node(&bed, id, &[(middle.id, On::Success)]);
    let jobs = [first.id, middle.id, last.id];
    bed.enqueue_all(vec![parent, first, middle, last], at(0)).await;
    ends(&bed, jobs[1], Status::Cancelled).await;
    assert!(is_skipped(&bed, jobs[2]).await);
    assert_eq!((status(&bed, jobs[0]).await, bed.row(id).await.children), (Status::Pending, 2));
    // A fork stands for itself: neither the flow nor those behind learn of it.
    let copy = bed.id();
    bed.forks(fork(jobs[1], copy), at(0)).await.expect("any job is forked");
    ends(&bed, copy, Status::Completed).await;
    assert!(is_skipped(&bed, jobs[2]).await);
    assert_eq!(bed.row(id).await.children, 2);
    // It was cancelled, not skipped: it does not wait again, and runs at once.
    comes_back(&bed, jobs[1]).await;
    assert_eq!((left(&bed, jobs[2]).await, bed.row(id).await.children), (Some(1), 4));
    // A fork of what came back has nobody behind it, and a fork of one that waits again waits for nobody.
    let (of_middle, of_last) = (bed.id(), bed.id());
    bed.forks(fork(jobs[1], of_middle), at(0)).await.expect("any job is forked");
    bed.forks(fork(jobs[2], of_last), at(0)).await.expect("any job is forked");
    ends(&bed, of_middle, Status::Failed).await;
    comes_back(&bed, of_middle).await;
    assert_eq!((left(&bed, jobs[2]).await, bed.row(of_middle).await.dependents), (Some(1), 0));
    for job in [of_middle, of_last, jobs[1], jobs[2], jobs[0]] {
        ends(&bed, job, Status::Completed).await;
    }
    assert_eq!(bed.row(id).await.children, 1);
}

/// F14: whichever comes first, all of it is cancelled, and each end is counted once.
pub async fn a_flow_and_a_job_of_it_are_cancelled_at_once(bed: Bed) {
    for _ in 0..10 {
        let parent = flow(&bed, Join::All, true, false);
        let id = parent.id;
        let first = node(&bed, id, &[]);
        let middle = node(&bed, id, &[(first.id, On::Success)]);
        let last = node(&bed, id, &[(middle.id, On::Success)]);
        let other = node(&bed, id, &[]);
        let jobs = [first.id, middle.id, last.id, other.id];
        bed.enqueue_all(vec![parent, first, middle, last, other], at(0)).await;
        let cancels = [id, jobs[0], jobs[1]].map(|job| {
            let bed = bed.clone();
            async move { bed.cancels(job, stop(), at(0)).await }
        });
        for answer in together(cancels).await {
            // Who comes later finds it cancelled.
            let is_done = matches!(answer, Ok(Done::Moved(_, Status::Cancelled) | Done::Already(_)));
            assert!(is_done, "{answer:?}");
        }
        for job in jobs {
            assert_eq!(status(&bed, job).await, Status::Cancelled);
        }
        let row = bed.row(id).await;
        assert_eq!((row.status, row.children), (Status::Cancelled, 0));
        let log = bed.log(id).await;
        let counted = log.iter().filter(|event| matches!(event.what, EventKind::JobChildFinished(_)));
        assert_eq!(counted.count(), 4);
    }
}

/// A redrive, asked again while another transaction is in its way.
async fn redrives(bed: Bed, job: JobId) -> Answer {
    loop {
        match bed.store.redrive(redrive(job), at(0)).await {
            Err(StoreError::Busy(_)) => {}
            answer => return answer.expect("the store answers"),
        }
    }
}

async fn completes_it(bed: Bed, held: Claimed) -> Answer {
    loop {
        match bed.settles(&held, completes(), at(0)).await {
            Err(Refusal::Busy) => {}
            answer => return answer,
        }
    }
}

/// F14: whichever comes first, the other's end is counted once.
pub async fn a_redrive_racing_the_end_of_another_predecessor(bed: Bed) {
    for n in 0..20 {
        let a = bed.a_job(at(0)).await;
        let held = bed.claims_by_id("v", bed.a_job(at(0)).await, at(0)).await.expect("it may run");
        let both = bed.enqueue(after(&bed, &[(a, On::Success), (held.job.id, On::Success)]), at(0)).await.id;
        let last = bed.enqueue(after(&bed, &[(both, On::Success)]), at(0)).await.id;
        ends(&bed, a, Status::Failed).await;
        let (one, two) = (bed.clone(), bed.clone());
        let racers: [Racer<Answer>; 2] = [Box::pin(redrives(one, a)), Box::pin(completes_it(two, held))];
        for answer in together(racers).await {
            assert!(answer.is_ok(), "{answer:?}");
        }
        assert_eq!((left(&bed, both).await, left(&bed, last).await), (Some(1), Some(1)), "round {n}");
        for job in [a, both, last] {
            assert!(is_due(&bed, job).await, "round {n}");
            ends(&bed, job, Status::Completed).await;
        }
    }
}

/// F14: none of them takes the other for a reason that is left.
pub async fn redrives_of_two_predecessors_at_once(bed: Bed) {
    for n in 0..6 {
        let parent = flow(&bed, Join::All, true, true);
        let id = parent.id;
        bed.enqueue(parent, at(0)).await;
        // With a parent they take turns there; without one they meet at the rows themselves.
        let job = |edges: &[(JobId, On)]| {
            let mut job = node(&bed, id, edges);
            job.facts.parent_id = job.facts.parent_id.filter(|_| n % 2 == 0);
            job
        };
        let (a, b) = (job(&[]), job(&[]));
        let both = job(&[(a.id, On::Success), (b.id, On::Success)]);
        let ids = [a.id, b.id, both.id];
        bed.enqueue_all(vec![a, b, both], at(0)).await;
        ends(&bed, ids[0], Status::Failed).await;
        ends(&bed, ids[1], Status::Failed).await;
        for answer in together([redrives(bed.clone(), ids[0]), redrives(bed.clone(), ids[1])]).await {
            assert!(answer.is_ok(), "{answer:?}");
        }
        assert_eq!(left(&bed, ids[2]).await, Some(2), "round {n}");
        for job in ids {
            ends(&bed, job, Status::Completed).await;
        }
        assert_eq!(bed.row(id).await.children, 1);
        ends(&bed, id, Status::Cancelled).await;
    }
}

/// F14
pub async fn a_wide_and_a_long_graph_come_back(bed: Bed) {
    let parent = flow(&bed, Join::Success, false, false);
    let id = parent.id;
    let root = node(&bed, id, &[]);
    let mut jobs = vec![root];
    for n in 0..200 {
        jobs.push(node(&bed, id, &[(jobs[n].id, On::Success)]));
    }
    let top = jobs[0].id;
    jobs.extend((0..2_000).map(|_| node(&bed, id, &[(top, On::Success)])));
    let all: Vec<(JobId, On)> = jobs[1..].iter().map(|job| (job.id, On::Success)).collect();
    let last = node(&bed, id, &all);
    let (end, tail) = (last.id, jobs[200].id);
    jobs.insert(0, parent);
    jobs.push(last);
    bed.enqueue_all(jobs, at(0)).await;
    ends(&bed, top, Status::Failed).await;
    assert_eq!((bed.row(id).await.status, bed.row(id).await.children), (Status::Failed, 0));
    comes_back(&bed, top).await;
    assert_eq!((left(&bed, tail).await, left(&bed, end).await), (Some(1), Some(2_200)));
    assert_eq!((bed.row(id).await.children, bed.row(top).await.dependents), (2_202, 2_001));
    ends(&bed, top, Status::Completed).await;
    assert_eq!(left(&bed, end).await, Some(2_200));
}
