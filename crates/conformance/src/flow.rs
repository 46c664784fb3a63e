//! Graphs: a job born waiting for others, flows with a callback, and what the end of one means for the rest.

use crate::{Bed, Racer, at, completes, fails_for_good, fork, is_invalid, name, redrive, stop, together};
use windlass_core::flow::{Edge, FLOW_KIND, Flow, Graph, Join, On, Seal};
use windlass_core::{
    Actor, Answer, Done, EventKind, JobId, NewJob, Outcome, Refusal, RunAt, Status, WaitFor,
};
use windlass_store::{Claimed, Enqueue, Idempotency, Purge, Settle, SettleItem};

/// This module's laws, as tests.
#[macro_export]
macro_rules! flow_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            flow: a_job_waits_for_what_comes_before_it,
            each_end_lets_those_run_that_ask_for_it,
            skips_cascade_through_a_long_chain,
            what_has_ended_already_decides_at_birth,
            an_edge_leads_from_a_job_that_is_there,
            a_request_is_repeated_without_a_second_graph,
            the_last_upstream_jobs_racing_start_it_once,
            an_edge_racing_the_end_of_its_upstream_is_never_lost,
            every_way_to_end_tells_those_who_wait,
            a_flow_joins_as_it_says,
            a_flow_without_jobs_ends_at_once,
            the_last_jobs_of_a_flow_racing_end_it_once,
            an_open_flow_waits_for_its_seal,
            a_cancelled_flow_takes_its_jobs_along,
            a_redriven_job_tells_nobody_twice,
            a_fork_has_no_dependents,
            a_purged_upstream_job_stops_nobody,
            what_ends_in_one_request_is_counted_one_by_one,
            requests_that_end_jobs_of_one_flow_at_once_lose_none,
            ten_thousand_jobs_in_one_flow,
        );
    };
}

/// A job that waits for others.
pub(crate) fn after(bed: &Bed, edges: &[(JobId, On)]) -> NewJob {
    let mut job = bed.job("work");
    let edge = |(job, on): &(JobId, On)| Edge { job: *job, on: *on, name: None };
    let after = edges.iter().map(edge).collect();
    job.facts.graph = Some(Box::new(Graph { after, ..Graph::default() }));
    job
}

/// The parent of a flow, with a callback of kind `callback` or without one.
pub(crate) fn flow(bed: &Bed, join: Join, callback: bool, open: bool) -> NewJob {
    let mut job = bed.job(if callback { "callback" } else { FLOW_KIND });
    job.facts.graph = Some(Box::new(Graph { flow: Some(Flow { join, open }), ..Graph::default() }));
    job
}

pub(crate) fn node(bed: &Bed, parent: JobId, edges: &[(JobId, On)]) -> NewJob {
    let mut job = if edges.is_empty() { bed.job("work") } else { after(bed, edges) };
    job.facts.parent_id = Some(parent);
    job
}

pub(crate) async fn status(bed: &Bed, job: JobId) -> Status {
    bed.row(job).await.status
}

/// Whether a worker may take it.
pub(crate) async fn is_due(bed: &Bed, job: JobId) -> bool {
    bed.row(job).await.due_at.is_some()
}

pub(crate) async fn ends(bed: &Bed, job: JobId, how: Status) {
    let answer = match how {
        Status::Completed | Status::Failed => {
            let held = bed.claims_by_id("w", job, at(0)).await.expect("it may run");
            let outcome = if how == Status::Completed { completes() } else { fails_for_good("broken") };
            bed.settles(&held, outcome, at(0)).await
        }
        _ => bed.cancels(job, stop(), at(0)).await,
    };
    assert!(answer.is_ok(), "{answer:?}");
}

/// F12
pub async fn a_job_waits_for_what_comes_before_it(bed: Bed) {
    let (a, b) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let c = bed.enqueue(after(&bed, &[(a, On::Success), (b, On::Success)]), at(0)).await.id;
    let row = bed.row(c).await;
    assert_eq!((row.status, row.waiting_for, row.children), (Status::Waiting, Some(WaitFor::Upstream), 2));
    assert_eq!(bed.row(a).await.dependents, 1);
    let blocked = bed.view(c, at(0)).await.blocked.expect("it says why it does not run");
    assert_eq!(blocked.reason, "upstream");
    assert!(blocked.by.contains(&a.to_string()) && blocked.by.contains(&b.to_string()), "{blocked:?}");
    assert_eq!(bed.claims_by_id("w", c, at(0)).await, Err(Refusal::NotClaimable(Status::Waiting)));
    ends(&bed, a, Status::Completed).await;
    assert!(!is_due(&bed, c).await, "one is left");
    ends(&bed, b, Status::Completed).await;
    let held = bed.claims_one("w", at(0)).await;
    assert_eq!((held.job.id, held.job.children), (c, 0));
    assert_eq!(bed.settles(&held, completes(), at(0)).await, Ok(Done::Moved(5, Status::Completed)));
    let types = bed.types(c).await;
    assert_eq!(types[..3], ["job_created", "job_upstream_finished", "job_upstream_finished"]);
    assert_eq!(bed.types(a).await[1], "job_dependents_added");
}

/// F12: failure is every end but completed.
pub async fn each_end_lets_those_run_that_ask_for_it(bed: Bed) {
    for how in [Status::Completed, Status::Failed, Status::Cancelled] {
        let a = bed.a_job(at(0)).await;
        let mut waiting = Vec::new();
        for on in On::ALL {
            waiting.push((on, bed.enqueue(after(&bed, &[(a, on)]), at(0)).await.id));
        }
        ends(&bed, a, how).await;
        for (on, job) in waiting {
            let row = bed.row(job).await;
            if on.is_met(how) {
                assert!(row.status == Status::Waiting && row.due_at.is_some(), "{on:?} after {how}: {row:?}");
            } else {
                assert_eq!(row.status, Status::Cancelled, "{on:?} after {how}");
                assert_eq!(row.error_code.as_ref().map(|code| code.as_str()), Some("skipped"));
                let error = bed.view(job, at(0)).await.error.expect("it says why").0;
                let error = String::from_utf8_lossy(error.as_bytes()).into_owned();
                assert!(error.contains(&a.to_string()), "it names the cause: {error}");
            }
        }
    }
}

/// F12: a skip is an end, and failure to those behind it.
pub async fn skips_cascade_through_a_long_chain(bed: Bed) {
    let a = bed.a_job(at(0)).await;
    let mut chain = vec![a];
    for _ in 0..200 {
        let last = chain[chain.len() - 1];
        chain.push(bed.enqueue(after(&bed, &[(last, On::Success)]), at(0)).await.id);
    }
    let rescue = bed.enqueue(after(&bed, &[(chain[200], On::Failure)]), at(0)).await.id;
    ends(&bed, a, Status::Failed).await;
    for job in &chain[1..] {
        assert_eq!(status(&bed, *job).await, Status::Cancelled);
    }
    assert!(is_due(&bed, rescue).await, "it waited for just that");
}

/// F12
pub async fn what_has_ended_already_decides_at_birth(bed: Bed) {
    let (good, bad) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    ends(&bed, good, Status::Completed).await;
    ends(&bed, bad, Status::Failed).await;
    let runs = bed.enqueue(after(&bed, &[(good, On::Success), (bad, On::Failure)]), at(0)).await.id;
    assert!(is_due(&bed, runs).await);
    let skipped = after(&bed, &[(good, On::Success), (bad, On::Success)]);
    let behind = after(&bed, &[(skipped.id, On::Success)]);
    let rescue = after(&bed, &[(skipped.id, On::Failure), (behind.id, On::Finished)]);
    let ids = [skipped.id, behind.id, rescue.id];
    bed.enqueue_all(vec![skipped, behind, rescue], at(0)).await;
    assert_eq!(status(&bed, ids[0]).await, Status::Cancelled);
    assert_eq!(status(&bed, ids[1]).await, Status::Cancelled);
    assert!(is_due(&bed, ids[2]).await);
    assert_eq!(bed.types(good).await.len(), 3, "a job that has ended learns of nobody");
}

/// F12
pub async fn an_edge_leads_from_a_job_that_is_there(bed: Bed) {
    let unknown = bed.id();
    let refused = bed.enqueue_refused(vec![after(&bed, &[(unknown, On::Success)])], at(0)).await;
    assert_eq!(refused, (0, Refusal::UpstreamNotFound(unknown)));
    let mut own = after(&bed, &[]);
    own.facts.graph = after(&bed, &[(own.id, On::Success)]).facts.graph;
    let id = own.id;
    assert_eq!(bed.enqueue_refused(vec![own], at(0)).await, (0, Refusal::UpstreamNotFound(id)));
    // Two that wait for each other: the first names one that comes later.
    let mut first = bed.job("work");
    let second = after(&bed, &[(first.id, On::Success)]);
    first.facts.graph = after(&bed, &[(second.id, On::Success)]).facts.graph;
    let id = second.id;
    assert_eq!(bed.enqueue_refused(vec![first, second], at(0)).await, (0, Refusal::UpstreamNotFound(id)));
    let a = bed.a_job(at(0)).await;
    let twice = bed.enqueue_refused(vec![after(&bed, &[(a, On::Success), (a, On::Failure)])], at(0)).await;
    is_invalid::<()>(&Err(twice.1), "after");
    let mut timed = after(&bed, &[(a, On::Success)]);
    timed.facts.run_at = RunAt::After(1_000);
    is_invalid::<()>(&Err(bed.enqueue_refused(vec![timed], at(0)).await.1), "run_at");
    is_invalid::<()>(&Err(bed.enqueue_refused(vec![bed.job(FLOW_KIND)], at(0)).await.1), "kind");
    assert_eq!(bed.row(a).await.dependents, 0, "a refusal changes nothing");
}

/// F12, Q11: by id, and by the key of the whole request.
pub async fn a_request_is_repeated_without_a_second_graph(bed: Bed) {
    let parent = flow(&bed, Join::All, false, false);
    let first = node(&bed, parent.id, &[]);
    let second = node(&bed, parent.id, &[(first.id, On::Success)]);
    let (parent_id, first_id) = (parent.id, first.id);
    let promise = Idempotency { key: crate::key("flow"), request_hash: [7; 32] };
    let request =
        Enqueue { jobs: vec![parent, first, second], actor: Actor::api(), idempotency: Some(promise) };
    let one = bed.store.enqueue(request.clone(), at(0)).await.expect("the store answers").expect("a flow");
    let two = bed.store.enqueue(request.clone(), at(0)).await.expect("the store answers").expect("a flow");
    assert_eq!(one, two);
    let again = bed.enqueue_all(request.jobs, at(0)).await;
    assert!(again.iter().all(|enqueued| enqueued.existed), "{again:?}");
    assert_eq!((bed.row(parent_id).await.children, bed.row(first_id).await.dependents), (2, 1));
}

/// F13: the count is decided on the dependent's locked row.
pub async fn the_last_upstream_jobs_racing_start_it_once(bed: Bed) {
    for _ in 0..20 {
        let mut held: Vec<Claimed> = Vec::new();
        for _ in 0..4 {
            held.push(bed.holds("w", bed.job("work"), at(0)).await);
        }
        let edges: Vec<(JobId, On)> = held.iter().map(|held| (held.job.id, On::Success)).collect();
        let last = bed.enqueue(after(&bed, &edges), at(0)).await.id;
        let ends = held.into_iter().map(|held| {
            let bed = bed.clone();
            async move { bed.settles(&held, completes(), at(0)).await }
        });
        for answer in together(ends).await {
            assert!(matches!(answer, Ok(Done::Moved(_, Status::Completed))), "{answer:?}");
        }
        let started = bed.claims("w", 9, at(0)).await;
        assert_eq!(started.iter().map(|held| held.job.id).collect::<Vec<_>>(), [last], "once");
        let types = bed.types(last).await;
        assert_eq!(types.iter().filter(|t| *t == "job_upstream_finished").count(), 4);
        bed.settles(&started[0], completes(), at(0)).await.expect("the holder may complete");
    }
}

/// F13: whichever comes first, the dependent is not left behind.
pub async fn an_edge_racing_the_end_of_its_upstream_is_never_lost(bed: Bed) {
    for _ in 0..30 {
        let held = bed.holds("w", bed.job("work"), at(0)).await;
        let job = after(&bed, &[(held.job.id, On::Success)]);
        let id = job.id;
        let (one, two) = (bed.clone(), bed.clone());
        let ending = async move { one.settles(&held, completes(), at(0)).await.map(|_| ()) };
        let linking = async move {
            two.enqueue(job, at(0)).await;
            Ok(())
        };
        let racers: [Racer<Result<(), Refusal>>; 2] = [Box::pin(ending), Box::pin(linking)];
        for answer in together(racers).await {
            assert_eq!(answer, Ok(()));
        }
        assert!(is_due(&bed, id).await, "it runs");
        ends(&bed, id, Status::Completed).await;
    }
}

/// F13: also the end of a job whose worker crashed again and again, or that a sweep timed out.
pub async fn every_way_to_end_tells_those_who_wait(bed: Bed) {
    let crashed = bed.a_job(at(0)).await;
    let behind_crash = bed.enqueue(after(&bed, &[(crashed, On::Failure)]), at(0)).await.id;
    for n in 0..3 {
        bed.claims("w", 1, at(n * 40_000)).await;
    }
    bed.claims("w", 1, at(3 * 40_000)).await;
    assert_eq!(status(&bed, crashed).await, Status::Failed, "it crashed too often");
    assert!(is_due(&bed, behind_crash).await || status(&bed, behind_crash).await == Status::Running);
    let mut timed = bed.job_in("work", "timed");
    (timed.facts.timeout_ms, timed.facts.max_retries) = (Some(5_000), 0);
    let timed = bed.holds("w", timed, at(200_000)).await.job.id;
    let behind_timeout = bed.enqueue(after(&bed, &[(timed, On::Failure)]), at(200_000)).await.id;
    bed.store.sweep(windlass_store::Sweep { limit: 10 }, at(210_000)).await.expect("the store answers");
    assert_eq!(status(&bed, timed).await, Status::TimedOut);
    assert!(is_due(&bed, behind_timeout).await);
}

/// A flow with two jobs that end so, one after the other: how its parent stands after each.
async fn joined(bed: &Bed, join: Join, callback: bool, how: [Status; 2]) -> [(Status, bool); 2] {
    let parent = flow(bed, join, callback, false);
    let (id, one, two) = (parent.id, node(bed, parent.id, &[]), node(bed, parent.id, &[]));
    let jobs = [one.id, two.id];
    bed.enqueue_all(vec![parent, one, two], at(0)).await;
    let row = bed.row(id).await;
    assert_eq!((row.status, row.waiting_for, row.children), (Status::Waiting, Some(WaitFor::Flow), 2));
    let mut stood = [(Status::Waiting, false); 2];
    for ((job, how), stood) in jobs.into_iter().zip(how).zip(&mut stood) {
        ends(bed, job, how).await;
        *stood = (status(bed, id).await, is_due(bed, id).await);
    }
    if is_due(bed, id).await {
        ends(bed, id, Status::Completed).await;
    }
    stood
}

/// F12
pub async fn a_flow_joins_as_it_says(bed: Bed) {
    use Status::{Completed, Failed, Waiting};
    let (waits, runs) = ((Waiting, false), (Waiting, true));
    let (good, bad) = ([Completed, Completed], [Failed, Completed]);
    for (join, callback, how, stood) in [
        (Join::All, true, good, [waits, runs]),
        (Join::All, true, bad, [waits, runs]),
        (Join::All, false, bad, [waits, (Completed, false)]),
        (Join::Success, true, good, [waits, runs]),
        (Join::Success, true, bad, [(Failed, false); 2]),
        (Join::Success, false, good, [waits, (Completed, false)]),
        (Join::Success, false, bad, [(Failed, false); 2]),
        (Join::FirstFailure, true, bad, [runs, runs]),
        (Join::FirstFailure, true, good, [waits, (Completed, false)]),
        (Join::FirstFailure, false, bad, [(Failed, false); 2]),
    ] {
        let found = joined(&bed, join, callback, how).await;
        assert_eq!(found, stood, "{join:?}, callback {callback}, {how:?}");
    }
}

/// F13
pub async fn a_flow_without_jobs_ends_at_once(bed: Bed) {
    let empty = bed.enqueue(flow(&bed, Join::All, false, false), at(0)).await.id;
    assert_eq!(status(&bed, empty).await, Status::Completed);
    let callback = bed.enqueue(flow(&bed, Join::Success, true, false), at(0)).await.id;
    let held = bed.claims_one("w", at(0)).await;
    assert_eq!(held.job.id, callback, "its callback runs");
    bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
    let mut late = bed.job("work");
    late.facts.parent_id = Some(empty);
    assert_eq!(bed.enqueue_refused(vec![late], at(0)).await, (0, Refusal::FlowNotOpen));
}

/// F13
pub async fn the_last_jobs_of_a_flow_racing_end_it_once(bed: Bed) {
    for _ in 0..10 {
        let parent = flow(&bed, Join::Success, false, false);
        let id = parent.id;
        let mut jobs = vec![parent];
        jobs.extend((0..4).map(|_| node(&bed, id, &[])));
        bed.enqueue_all(jobs, at(0)).await;
        let ends = bed.claims("w", 9, at(0)).await.into_iter().map(|held| {
            let bed = bed.clone();
            async move { bed.settles(&held, completes(), at(0)).await }
        });
        for answer in together(ends).await {
            assert!(matches!(answer, Ok(Done::Moved(_, Status::Completed))), "{answer:?}");
        }
        assert_eq!(status(&bed, id).await, Status::Completed);
        let types = bed.types(id).await;
        assert_eq!(types.iter().filter(|t| *t == "job_completed").count(), 1);
    }
}

pub(crate) async fn seals(bed: &Bed, job: JobId) -> Answer {
    let request = Seal { job, actor: Actor::api() };
    bed.store.seal(request, at(0)).await.expect("the store answers")
}

/// F13
pub async fn an_open_flow_waits_for_its_seal(bed: Bed) {
    let open = bed.enqueue(flow(&bed, Join::All, false, true), at(0)).await.id;
    assert_eq!((status(&bed, open).await, bed.row(open).await.children), (Status::Waiting, 1));
    let added = bed.enqueue(node(&bed, open, &[]), at(0)).await.id;
    ends(&bed, added, Status::Completed).await;
    assert_eq!(status(&bed, open).await, Status::Waiting, "it is open");
    let other = bed.enqueue(node(&bed, open, &[]), at(0)).await.id;
    let Ok(Done::Moved(sealed, Status::Waiting)) = seals(&bed, open).await else { panic!("it is sealed") };
    assert_eq!(seals(&bed, open).await, Ok(Done::Already(sealed)), "a repeat changes nothing");
    // It has a job left, and takes no other; what it took before is answered again.
    let late = bed.enqueue_refused(vec![node(&bed, open, &[])], at(0)).await;
    assert_eq!(late, (0, Refusal::FlowNotOpen));
    assert_eq!(bed.row(open).await.children, 1);
    ends(&bed, other, Status::Completed).await;
    assert_eq!(status(&bed, open).await, Status::Completed);
    let empty = bed.enqueue(flow(&bed, Join::All, false, true), at(0)).await.id;
    assert!(matches!(seals(&bed, empty).await, Ok(Done::Moved(3, Status::Completed))));
    let closed = bed.enqueue(flow(&bed, Join::All, true, false), at(0)).await.id;
    assert_eq!(seals(&bed, closed).await, Err(Refusal::FlowNotOpen));
    assert_eq!(seals(&bed, added).await, Err(Refusal::FlowNotOpen));
    assert_eq!(seals(&bed, bed.id()).await, Err(Refusal::NotFound));
}

/// F14
pub async fn a_cancelled_flow_takes_its_jobs_along(bed: Bed) {
    let parent = flow(&bed, Join::All, true, false);
    let id = parent.id;
    let (done, runs, waits) = (node(&bed, id, &[]), node(&bed, id, &[]), node(&bed, id, &[]));
    let behind = node(&bed, id, &[(runs.id, On::Success)]);
    let ids = [done.id, runs.id, waits.id, behind.id];
    bed.enqueue_all(vec![parent, done, runs, waits, behind], at(0)).await;
    ends(&bed, ids[0], Status::Completed).await;
    let held = bed.claims_by_id("w", ids[1], at(0)).await.expect("it may run");
    bed.cancels(id, stop(), at(0)).await.expect("a waiting flow is cancelled");
    assert_eq!(status(&bed, id).await, Status::Cancelled);
    assert_eq!(status(&bed, ids[0]).await, Status::Completed, "what is done is done");
    assert!(bed.row(ids[1]).await.cancel_requested_at.is_some(), "its holder is asked to stop");
    assert_eq!(status(&bed, ids[2]).await, Status::Cancelled);
    assert_eq!(status(&bed, ids[3]).await, Status::Cancelled);
    bed.settles(&held, completes(), at(0)).await.expect("a completion before the force wins");
    assert_eq!(bed.row(id).await.children, 0);
}

/// F14: who was told of an end is not told of the next.
pub async fn a_redriven_job_tells_nobody_twice(bed: Bed) {
    let (a, b) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let both = bed.enqueue(after(&bed, &[(a, On::Failure), (b, On::Finished)]), at(0)).await.id;
    ends(&bed, a, Status::Failed).await;
    assert_eq!(bed.row(both).await.children, 1);
    bed.redrives(redrive(a), at(0)).await.expect("a failed job is redriven");
    assert_eq!(bed.row(a).await.dependents, 0);
    ends(&bed, a, Status::Completed).await;
    let row = bed.row(both).await;
    assert_eq!((row.children, row.due_at), (1, None), "it still waits for the other");
    ends(&bed, b, Status::Completed).await;
    assert!(is_due(&bed, both).await);
    let skipped = bed.enqueue(after(&bed, &[(b, On::Failure)]), at(0)).await.id;
    bed.redrives(redrive(skipped), at(0)).await.expect("a skipped job can be run after all");
    assert_eq!((status(&bed, skipped).await, bed.row(skipped).await.children), (Status::Pending, 0));
}

/// F14
pub async fn a_fork_has_no_dependents(bed: Bed) {
    let a = bed.a_job(at(0)).await;
    let b = bed.enqueue(after(&bed, &[(a, On::Success)]), at(0)).await.id;
    let copy = bed.id();
    bed.forks(fork(a, copy), at(0)).await.expect("any job is forked");
    assert_eq!(bed.row(copy).await.dependents, 0);
    ends(&bed, copy, Status::Completed).await;
    assert!(!is_due(&bed, b).await, "it waits for the first");
    let of_waiting = bed.id();
    bed.forks(fork(b, of_waiting), at(0)).await.expect("any job is forked");
    assert_eq!(status(&bed, of_waiting).await, Status::Pending);
    ends(&bed, of_waiting, Status::Completed).await;
}

/// F13
pub async fn a_purged_upstream_job_stops_nobody(bed: Bed) {
    let (a, b) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let both = bed.enqueue(after(&bed, &[(a, On::Success), (b, On::Success)]), at(0)).await.id;
    ends(&bed, a, Status::Completed).await;
    let version = bed.row(a).await.version;
    let purged = bed.store.purge(Purge { jobs: vec![(a, version)], archive: None }, at(0)).await;
    assert_eq!(purged.expect("the store answers"), [Ok(())]);
    ends(&bed, b, Status::Completed).await;
    assert!(is_due(&bed, both).await);
    let late = bed.enqueue_refused(vec![after(&bed, &[(a, On::Success)])], at(0)).await;
    assert_eq!(late, (0, Refusal::UpstreamNotFound(a)), "how it ended is not known any more");
}

fn settling(held: &Claimed, outcome: Outcome) -> SettleItem {
    SettleItem { job: held.job.id, token: held.lease.token, outcome }
}

/// F12, F13: a request that ends many jobs of one flow leaves what one request for each of them would.
pub async fn what_ends_in_one_request_is_counted_one_by_one(bed: Bed) {
    let parent = flow(&bed, Join::All, true, false);
    let id = parent.id;
    let nodes: Vec<NewJob> = (0..20).map(|_| node(&bed, id, &[])).collect();
    let ids: Vec<JobId> = nodes.iter().map(|job| job.id).collect();
    let mut last = node(&bed, id, &[(ids[0], On::Success), (ids[1], On::Success), (ids[18], On::Failure)]);
    last.facts.queue = name("last");
    let (next, mut jobs) = (last.id, vec![parent]);
    jobs.extend(nodes);
    jobs.push(last);
    bed.enqueue_all(jobs, at(0)).await;
    let mut held = bed.claims("w", 20, at(0)).await;
    held.sort_by_key(|held| ids.iter().position(|id| *id == held.job.id));
    let mut items: Vec<SettleItem> = held.iter().map(|held| settling(held, completes())).collect();
    items[18].outcome = fails_for_good("broken");
    items[19].token = held[0].lease.token;
    items.insert(4, settling(&held[3], fails_for_good("again")));
    let answers = bed.store.settle(Settle { items }, at(1)).await.expect("the store answers");
    let refused = |n: usize| answers[n].as_ref().err();
    assert_eq!(refused(4), Some(&Refusal::Finished(Status::Completed)), "the first word counts");
    assert_eq!(refused(20), Some(&Refusal::Mismatch));
    for (n, answer) in answers.iter().enumerate().filter(|(n, _)| ![4, 20].contains(n)) {
        let status = if n == 19 { Status::Failed } else { Status::Completed };
        // One for whom another waits has that in its log.
        let version = if [0, 1, 19].contains(&n) { 4 } else { 3 };
        assert_eq!(answer, &Ok(Done::Moved(version, status)), "item {n}");
    }
    let expected: Vec<_> = ids[..19].iter().map(|id| (*id, *id == ids[18])).collect();
    let log = bed.snapshot(id).await.log;
    let finished = log.iter().filter_map(|event| match &event.what {
        EventKind::JobChildFinished(d) => Some((d.child, d.status == Status::Failed)),
        _ => None,
    });
    assert_eq!(finished.collect::<Vec<_>>(), expected, "each in its turn");
    assert_eq!(bed.row(id).await.children, 2, "the refused one, and the one after");
    assert!(is_due(&bed, next).await);
    ends(&bed, next, Status::Completed).await;
    bed.settles(&held[19], completes(), at(2)).await.expect("held still");
    assert!(is_due(&bed, id).await, "the callback runs");
}

/// F13, J6: whatever meets whatever, each end is counted once.
pub async fn requests_that_end_jobs_of_one_flow_at_once_lose_none(bed: Bed) {
    let flows: Vec<NewJob> = (0..3).map(|_| flow(&bed, Join::All, false, false)).collect();
    let ids: Vec<JobId> = flows.iter().map(|job| job.id).collect();
    let nodes = (0..120).map(|n| node(&bed, ids[n % 3], &[]));
    bed.enqueue_all(flows.into_iter().chain(nodes).collect(), at(0)).await;
    let held = bed.claims("w", 120, at(0)).await;
    assert_eq!(held.len(), 120);
    // Every job is ended by two requests, in which it has other neighbours.
    let requests = (0..8).flat_map(|n| {
        let one: Vec<SettleItem> = held.iter().skip(n).step_by(8).map(|h| settling(h, completes())).collect();
        let other: Vec<SettleItem> =
            held.iter().skip(15 * n).take(15).rev().map(|h| settling(h, completes())).collect();
        [one, other]
    });
    let mut racers = tokio::task::JoinSet::new();
    for items in requests {
        let bed = bed.clone();
        racers.spawn(async move {
            let mut left = items;
            // What somebody else's request held just then is asked for again.
            while !left.is_empty() {
                let asked = Settle { items: left.clone() };
                let answers = bed.store.settle(asked, at(1)).await.expect("the store answers");
                let mut answers = answers.into_iter();
                left.retain(|_| answers.next() == Some(Err(Refusal::Busy)));
            }
        });
    }
    racers.join_all().await;
    for id in ids {
        let row = bed.row(id).await;
        assert_eq!((row.status, row.children), (Status::Completed, 0));
        let log = bed.snapshot(id).await.log;
        let ends = log.iter().filter(|event| matches!(event.what, EventKind::JobChildFinished(_)));
        assert_eq!(ends.count(), 40);
    }
}

/// F12: one job fans out to all others, and the flow ends with the last.
pub async fn ten_thousand_jobs_in_one_flow(bed: Bed) {
    const JOBS: usize = 10_000;
    let parent = flow(&bed, Join::Success, false, false);
    let id = parent.id;
    let mut first = node(&bed, id, &[]);
    first.facts.queue = name("first");
    let root = first.id;
    let mut jobs = vec![parent, first];
    jobs.extend((1..JOBS).map(|_| node(&bed, id, &[(root, On::Success)])));
    assert_eq!(bed.enqueue_all(jobs, at(0)).await.len(), JOBS + 1);
    assert_eq!((bed.row(id).await.children, bed.row(root).await.dependents), (10_000, 9_999));
    assert!(bed.claims("w", 10, at(0)).await.is_empty(), "all wait for the first");
    ends(&bed, root, Status::Failed).await;
    let row = bed.row(id).await;
    assert_eq!((row.status, row.children), (Status::Failed, 0), "every skip is told");
}
