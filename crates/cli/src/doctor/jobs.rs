//! Jobs that stand still: queues that nobody takes from, leases and deadlines that nobody looks at, dead letters, workers
//! that are gone.

use super::{Finding, ago, ok, problem, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Filter, Job, Name, QueueMode, Status, Timestamp, Worker};
use windlass_engine::service::Leading;
use windlass_store::{List, Listed, QueueState, Store, fresh};

/// Where counting stops.
const CAP: i64 = 10_000;
/// A job that a worker could take waits so many times longer before it is told: queues may be long.
const QUEUED: i64 = 5;
/// How many due jobs of a queue are looked at for their kinds.
const LOOKED_AT: usize = 100;

/// Looks at jobs and whoever works on them.
pub async fn look(store: &Arc<dyn Store>, late_ms: i64) -> Outcome<Vec<Finding>> {
    let now = fresh::wall_clock();
    let workers = store.workers((), None).await?;
    let (queues, mut findings) = (store.queues(CAP, None).await?, Vec::new());
    for state in &queues {
        findings.extend(of_queue(store, state, &workers, (now, late_ms)).await?);
    }
    if findings.is_empty() {
        findings.push(ok("queues", format!("{} known, no job waits in vain", queues.len())));
    }
    findings.push(of_leases(&standing(store, &[Status::Running]).await?, &workers, (now, late_ms)));
    findings.push(of_deadlines(&standing(store, &[Status::Waiting, Status::Assigned]).await?, now, late_ms));
    findings.extend(of_workers(&workers, now));
    findings.push(of_dead(store).await?);
    findings.extend(of_leader(store, &queues, now).await?);
    Ok(findings)
}

/// Jobs that stand so: a page of them.
async fn standing(store: &Arc<dyn Store>, statuses: &[Status]) -> Outcome<Vec<Job>> {
    let filter = Filter { statuses: statuses.to_vec(), ..Filter::default() };
    let page = store.jobs(List { filter, cursor: None, limit: PAGE_MAX }, None).await??;
    Ok(page.items.into_iter().map(|listed| listed.job).collect())
}

async fn of_queue(
    store: &Arc<dyn Store>,
    state: &QueueState,
    workers: &[Worker],
    (now, late_ms): (Timestamp, i64),
) -> Outcome<Vec<Finding>> {
    let name = &state.queue.name;
    if let Some(broken) = state.queue.flow.as_ref().and_then(|flow| flow.broken) {
        let found = format!("{name} is broken since {}: {broken}", broken.at);
        let fix =
            "mend what its jobs need: one is tried at a time, and the first that succeeds opens the queue";
        return Ok(vec![problem("queues", found, fix)]);
    }
    if state.due.n == 0 {
        return Ok(Vec::new());
    }
    let due = format!("{}{} due jobs", state.due.n, if state.due.capped { "+" } else { "" });
    if let Some((at, by)) = &state.queue.paused {
        let found = format!("{name} is paused since {at} by {by}, with {due}");
        return Ok(vec![warning("queues", found, format!("windlass queues resume {name}"))]);
    }
    let statuses = vec![Status::Pending, Status::Retry, Status::Orphaned];
    let filter = Filter { statuses, queue: Some(name.clone()), ..Filter::default() };
    let page = store.jobs(List { filter, cursor: None, limit: LOOKED_AT }, None).await??;
    let mut kinds: Vec<_> =
        page.items.iter().filter(|l| l.job.is_due(now)).map(|l| l.job.kind.clone()).collect();
    kinds.sort();
    kinds.dedup();
    let mut findings = Vec::new();
    if state.queue.mode == QueueMode::Push {
        findings.extend(of_requires(name, &page.items, workers, now));
    }
    for kind in kinds.iter().filter(|kind| !workers.iter().any(|worker| worker.takes(name, kind, now))) {
        let found = format!("{name} has due jobs of kind {kind} and no live worker takes them");
        findings.push(problem(
            "queues",
            found,
            format!("windlass work --queue {name} --kind {kind} --exec …"),
        ));
    }
    let oldest = state.oldest_due_at.filter(|oldest| oldest.plus_ms(late_ms.saturating_mul(QUEUED)) < now);
    if let Some(oldest) = oldest.filter(|_| findings.is_empty()) {
        let found =
            format!("{name} has {due}, the oldest for {}: its workers do not keep up", ago(oldest, now));
        findings.push(warning("queues", found, "start more workers, or give them a higher --concurrency"));
    }
    Ok(findings)
}

/// Due jobs of a push queue that no live worker's labels match.
fn of_requires(queue: &Name, due: &[Listed], workers: &[Worker], now: Timestamp) -> Option<Finding> {
    let is_for = |worker: &&Worker, one: &Listed| worker.takes(queue, &one.job.kind, now);
    let in_vain = due.iter().filter(|one| one.job.is_due(now)).find(|one| {
        let mut taking = workers.iter().filter(|worker| is_for(worker, one)).peekable();
        taking.peek().is_some() && !taking.any(|worker| worker.meets(&one.facts.requires))
    })?;
    let labels: Vec<String> =
        in_vain.facts.requires.iter().map(|(label, value)| format!("--label {label}={value}")).collect();
    Some(problem(
        "queues",
        format!(
            "{queue} is in mode push, and no live worker has the labels that job {} requires",
            in_vain.job.id
        ),
        format!("windlass work --queue {queue} {} --exec …", labels.join(" ")),
    ))
}

/// Somebody must lead where there are schedules, push queues or queues with a breaker.
async fn of_leader(
    store: &Arc<dyn Store>,
    queues: &[QueueState],
    now: Timestamp,
) -> Outcome<Option<Finding>> {
    let term = store.term(Leading::term(), None).await?;
    if let Some(term) = term.as_ref().filter(|term| term.expires_at > now) {
        return Ok(Some(ok("leader", format!("{} leads, under epoch {}", term.holder, term.epoch))));
    }
    let needs = if queues.iter().any(|state| state.queue.mode == QueueMode::Push) {
        "jobs of push queues are assigned"
    } else if !store.schedules((), None).await?.is_empty() {
        "schedules fire"
    } else if queues.iter().any(|state| state.queue.flow.as_ref().is_some_and(|flow| flow.breaker.is_some()))
    {
        "breakers of queues act"
    } else {
        return Ok(None);
    };
    let last = term.map_or("nobody ever did".to_owned(), |term| {
        format!("{} did until {}", term.holder, term.expires_at)
    });
    Ok(Some(problem(
        "leader",
        format!("nobody leads ({last}), so no {needs}"),
        "start a server (windlass serve), or a worker that leads: Worker::schedules(true)",
    )))
}

fn of_leases(running: &[Job], workers: &[Worker], (now, late_ms): (Timestamp, i64)) -> Finding {
    let over: Vec<&Job> =
        running.iter().filter(|job| job.due_at.is_some_and(|due_at| due_at.plus_ms(late_ms) < now)).collect();
    let Some(first) = over.first() else {
        return ok("leases", format!("{} running, no lease is over and left", running.len()));
    };
    let mut queues: Vec<&Name> = over.iter().map(|job| &job.queue).collect();
    queues.sort();
    queues.dedup();
    let queues = queues.iter().map(|queue| queue.as_str()).collect::<Vec<_>>().join(", ");
    let found = format!(
        "{} jobs are held by workers that are gone, like {}: nobody claims from {queues}",
        over.len(),
        first.id
    );
    let is_taken =
        over.iter().all(|job| workers.iter().any(|worker| worker.takes(&job.queue, &job.kind, now)));
    let fix = if is_taken {
        "a worker takes them when it has room; give it a higher --concurrency"
    } else {
        "start a worker for them: the next claim takes over what a dead one held"
    };
    problem("leases", found, fix)
}

fn of_deadlines(standing: &[Job], now: Timestamp, late_ms: i64) -> Finding {
    let is_over = |job: &&Job| job.deadline_at.is_some_and(|deadline_at| deadline_at.plus_ms(late_ms) < now);
    let over: Vec<&Job> = standing.iter().filter(is_over).collect();
    match over.first() {
        None => ok("deadlines", "none has passed unseen"),
        Some(first) => problem(
            "deadlines",
            format!("{} have passed and nobody acted, like that of job {}", over.len(), first.id),
            "start a server (windlass serve) or a worker: each looks at deadlines every few seconds",
        ),
    }
}

fn of_workers(workers: &[Worker], now: Timestamp) -> Vec<Finding> {
    let of = |worker: &Worker| {
        let (id, is_gone) = (&worker.id, worker.expires_at <= now);
        match (is_gone, worker.draining) {
            (false, false) => None,
            // One that drained and went has said goodbye.
            (true, true) => None,
            (true, false) => Some(warning(
                "workers",
                format!("{id} was last seen {} ago and did not say goodbye", ago(worker.seen_at, now)),
                "look why it died; its jobs are taken over by themselves",
            )),
            (false, true) => Some(warning(
                "workers",
                format!("{id} is draining and takes no more"),
                "restart it when its jobs are done",
            )),
        }
    };
    let found: Vec<Finding> = workers.iter().filter_map(of).collect();
    if found.is_empty() {
        let live = workers.iter().filter(|worker| worker.expires_at > now).count();
        return vec![ok("workers", format!("{live} live"))];
    }
    found
}

async fn of_dead(store: &Arc<dyn Store>) -> Outcome<Finding> {
    let counts = store.counts(CAP, None).await?;
    let dead: i64 =
        counts.statuses.iter().filter(|(status, _)| status.is_dead()).map(|(_, count)| count.n).sum();
    if dead == 0 {
        return Ok(ok("dead letters", "none"));
    }
    let fix = "windlass jobs ls --dead; then windlass jobs redrive --filter error_code=… --dry-run";
    Ok(warning("dead letters", format!("{dead} jobs are dead"), fix))
}
