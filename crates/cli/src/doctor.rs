//! `windlass doctor`: names each problem and its fix.

use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::on_store;
use crate::settings::Settings;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{Filter, Status, Timestamp, Worker};
use windlass_store::{List, QueueState, Store, fresh};

/// Where counting stops.
const CAP: i64 = 10_000;
/// A job that a worker could take and that waits longer is told.
const LATE_MS: i64 = 5 * 60_000;
/// How many due jobs of a queue are looked at for their kinds.
const LOOKED_AT: usize = 100;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Work stands still or will.
    Wrong,
    /// Worth a look.
    Warning,
}

#[derive(Debug)]
struct Finding {
    level: Level,
    what: String,
    fix: String,
}

fn found(level: Level, what: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { level, what: what.into(), fix: fix.into() }
}

/// Looks at everything that is known to go wrong.
pub async fn run(settings: &Settings, out: &Out) -> Outcome {
    let mut findings = Vec::new();
    match on_store(settings, false).await {
        Err(failure) => findings.push(found(
            Level::Wrong,
            failure.detail,
            "run `windlass migrate` to create or update the store, or name another with --store",
        )),
        Ok(door) => {
            let store = door.store();
            let now = fresh::wall_clock();
            let workers = store.workers((), None).await?;
            for state in store.queues(CAP, None).await? {
                findings.extend(of_queue(store, &state, &workers, now).await?);
            }
            findings.extend(of_workers(&workers, now));
            findings.extend(of_jobs(store).await?);
            findings.extend(of_wakeups(settings).await);
        }
    }
    tell(out, &findings)
}

fn tell(out: &Out, findings: &[Finding]) -> Outcome {
    let word = |level: Level| if level == Level::Wrong { "wrong" } else { "warning" };
    let shown = |f: &Finding| json!({ "level": word(f.level), "problem": f.what, "fix": f.fix });
    let is_wrong = findings.iter().any(|f| f.level == Level::Wrong);
    let answer = json!({ "ok": !is_wrong, "findings": findings.iter().map(shown).collect::<Vec<_>>() });
    out.show(&answer, |out| {
        for finding in findings {
            out.line(format!("{}: {}", out.status(word(finding.level)), finding.what));
            out.line(format!("  fix: {}", finding.fix));
        }
        if findings.is_empty() {
            out.line("nothing is wrong");
        }
    });
    if is_wrong { Err(Failure::told()) } else { Ok(()) }
}

async fn of_queue(
    store: &Arc<dyn Store>,
    state: &QueueState,
    workers: &[Worker],
    now: Timestamp,
) -> Outcome<Vec<Finding>> {
    let name = &state.queue.name;
    if state.due.n == 0 {
        return Ok(Vec::new());
    }
    let due = format!("{}{} due jobs", state.due.n, if state.due.capped { "+" } else { "" });
    if let Some((at, by)) = &state.queue.paused {
        let what = format!("queue {name} is paused since {at} by {by}, with {due}");
        return Ok(vec![found(Level::Warning, what, format!("windlass queues resume {name}"))]);
    }
    let statuses = vec![Status::Pending, Status::Retry, Status::Orphaned];
    let filter = Filter { statuses, queue: Some(name.clone()), ..Filter::default() };
    let page = store.jobs(List { filter, cursor: None, limit: LOOKED_AT }, None).await??;
    let mut kinds: Vec<_> =
        page.items.iter().filter(|l| l.job.is_due(now)).map(|l| l.job.kind.clone()).collect();
    kinds.sort();
    kinds.dedup();
    let mut findings = Vec::new();
    for kind in kinds.iter().filter(|kind| !workers.iter().any(|worker| worker.takes(name, kind, now))) {
        let what = format!("queue {name} has due jobs of kind {kind} and no live worker takes them");
        findings.push(found(
            Level::Wrong,
            what,
            format!("windlass work --queue {name} --kind {kind} --exec …"),
        ));
    }
    if findings.is_empty() && state.oldest_due_at.is_some_and(|oldest| oldest.plus_ms(LATE_MS) < now) {
        let since = state.oldest_due_at.map(|at| at.to_string()).unwrap_or_default();
        let what = format!("queue {name} has {due}, the oldest since {since}: its workers do not keep up");
        findings.push(found(Level::Warning, what, "start more workers, or give them a higher --concurrency"));
    }
    Ok(findings)
}

fn of_workers(workers: &[Worker], now: Timestamp) -> Vec<Finding> {
    let of = |worker: &Worker| {
        let (id, seen) = (&worker.id, worker.seen_at);
        // One that drained and went has said goodbye.
        if worker.expires_at <= now && worker.draining {
            return None;
        }
        if worker.expires_at <= now {
            let what = format!("worker {id} was last seen at {seen} and did not say goodbye");
            return Some(found(
                Level::Warning,
                what,
                "look why it died; its jobs are taken over by themselves",
            ));
        }
        worker.draining.then(|| {
            found(
                Level::Warning,
                format!("worker {id} is draining and takes no more"),
                "restart it when its jobs are done",
            )
        })
    };
    workers.iter().filter_map(of).collect()
}

async fn of_jobs(store: &Arc<dyn Store>) -> Outcome<Vec<Finding>> {
    let counts = store.counts(CAP, None).await?;
    let dead: i64 =
        counts.statuses.iter().filter(|(status, _)| status.is_dead()).map(|(_, count)| count.n).sum();
    if dead == 0 {
        return Ok(Vec::new());
    }
    let fix = "windlass jobs ls --dead; then windlass jobs redrive --filter error_code=… --dry-run";
    Ok(vec![found(Level::Warning, format!("{dead} jobs are dead"), fix)])
}

/// Whether PostgreSQL's wake-ups arrive: behind a transaction-mode pooler they do not.
async fn of_wakeups(settings: &Settings) -> Option<Finding> {
    if !settings.store.value.starts_with("postgres") {
        return None;
    }
    let mut options = windlass_postgres::Options::new(&settings.store.value).migrate(false).pool(2);
    if let Some(schema) = &settings.schema {
        options = options.schema(&schema.value);
    }
    if let Some(url) = &settings.notify_url {
        options = options.notify_url(&url.value);
    }
    let store = options.open().await.ok()?;
    for _ in 0..30 {
        if store.listening() {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let what = "wake-ups do not arrive, so workers look once a second";
    Some(found(Level::Warning, what, "name a direct connection beside the pooler with --notify-url"))
}
