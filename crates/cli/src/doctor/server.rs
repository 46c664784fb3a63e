//! A server, seen from outside: whether it answers and takes writes, whether the key opens it, and what stands still in it.

use super::{Finding, ok, problem, warning};
use crate::api_client::ApiClient;
use crate::fail::{Exit, Failure};
use crate::show::{list, text};
use serde_json::Value;
use windlass_core::Timestamp;
use windlass_store::fresh;

/// A due job that nobody took for so many times longer than what is late is told: queues may be long.
const QUEUED: i64 = 5;

/// Looks at a server. What it does not say is a finding like any other.
pub async fn look(door: &ApiClient, late_ms: i64) -> Vec<Finding> {
    let mut findings = vec![of_ready(door.ready().await.map(|_| ()))];
    if findings[0].found.starts_with("connection") {
        return findings;
    }
    match door.session().await {
        Ok(session) => {
            let roles = crate::show::names(&session.value["roles"]);
            findings.push(ok("key", format!("it is {}, with {roles}", text(&session.value["name"]))));
        }
        Err(failure) => {
            findings.push(problem(
                "key",
                failure.detail,
                "name a key with --key-file; `windlass keys create` makes one",
            ));
            return findings;
        }
    }
    let now = fresh::wall_clock();
    match (door.queues().await, door.workers().await) {
        (Ok(queues), Ok(workers)) => {
            let workers = list(&workers.value, "workers");
            findings.extend(of_queues(list(&queues.value, "queues"), workers, (now, late_ms)));
            findings.push(of_workers(workers));
        }
        (Err(failure), _) | (_, Err(failure)) => findings.push(unread("queues", failure)),
    }
    match door.schedules().await {
        Ok(page) => findings.push(of_schedules(list(&page.value, "schedules"), (now, late_ms))),
        Err(failure) => findings.push(unread("schedules", failure)),
    }
    match door.subscriptions().await {
        Ok(page) => findings.extend(of_subscriptions(list(&page.value, "subscriptions"))),
        Err(failure) => findings.push(unread("subscriptions", failure)),
    }
    let dead = vec![("dead".to_owned(), "true".to_owned())];
    match door.jobs(&dead, None, 1).await {
        Ok(page) if list(&page.value, "jobs").is_empty() => findings.push(ok("dead letters", "none")),
        Ok(_) => {
            let fix = "windlass jobs ls --dead; then windlass jobs redrive --filter error_code=… --dry-run";
            findings.push(warning("dead letters", "there are dead jobs", fix));
        }
        Err(failure) => findings.push(unread("dead letters", failure)),
    }
    findings
}

fn of_ready(ready: Result<(), Failure>) -> Finding {
    match ready {
        Ok(()) => ok("server", "it answers, and its store takes writes"),
        Err(failure) if failure.exit == Exit::Unavailable => problem(
            "server",
            failure.detail,
            "see the log of the server; run `windlass doctor` beside it, on its store",
        ),
        Err(failure) => problem("server", failure.detail, "check --url: it must be a Windlass server's"),
    }
}

fn unread(check: &'static str, failure: Failure) -> Finding {
    warning(check, failure.detail, "use a key with the role viewer, for all queues")
}

fn of_queues(queues: &[Value], workers: &[Value], (now, late_ms): (Timestamp, i64)) -> Vec<Finding> {
    let takes = |worker: &Value, queue: &Value| {
        worker["live"] == true && worker["draining"] != true && list(worker, "queues").contains(queue)
    };
    let mut findings = Vec::new();
    for (queue, broken) in queues.iter().map(|queue| (queue, &queue["broken"])).filter(|(_, b)| !b.is_null())
    {
        let (name, failed, ended) = (text(&queue["name"]), text(&broken["failed"]), text(&broken["ended"]));
        let found =
            format!("{name} is broken since {}: {failed} of {ended} attempts failed", text(&broken["at"]));
        let fix =
            "mend what its jobs need: one is tried at a time, and the first that succeeds opens the queue";
        findings.push(problem("queues", found, fix));
    }
    for queue in queues.iter().filter(|queue| queue["broken"].is_null() && queue["due"].as_i64() > Some(0)) {
        let (name, due) = (text(&queue["name"]), text(&queue["due"]));
        let oldest = Timestamp::parse("time", queue["oldest_due_at"].as_str().unwrap_or_default()).ok();
        let is_late = |times: i64| oldest.is_some_and(|at| at.plus_ms(late_ms.saturating_mul(times)) < now);
        if !queue["paused"].is_null() {
            let found = format!("{name} is paused by {}, with {due} due jobs", text(&queue["paused"]["by"]));
            findings.push(warning("queues", found, format!("windlass queues resume {name}")));
        } else if !workers.iter().any(|worker| takes(worker, &queue["name"])) {
            let found = format!("{name} has {due} due jobs and no live worker takes from it");
            findings.push(problem("queues", found, format!("windlass work --queue {name} --exec …")));
        } else if is_late(QUEUED) {
            let found = format!("{name} has {due} due jobs: its workers do not keep up");
            findings.push(warning(
                "queues",
                found,
                "start more workers, or give them a higher --concurrency",
            ));
        }
    }
    if findings.is_empty() {
        findings.push(ok("queues", format!("{} known, no job waits in vain", queues.len())));
    }
    findings
}

/// Those that are broken or late; the doctor beside the store says more.
fn of_schedules(schedules: &[Value], (now, late_ms): (Timestamp, i64)) -> Finding {
    let stands_still = |schedule: &&Value| {
        let next_at = Timestamp::parse("time", schedule["next_at"].as_str().unwrap_or_default()).ok();
        schedule["broken"].is_string() || next_at.is_some_and(|at| at.plus_ms(late_ms) < now)
    };
    let names: Vec<String> =
        schedules.iter().filter(stands_still).map(|schedule| text(&schedule["name"])).collect();
    if names.is_empty() {
        return ok("schedules", format!("{} known, none is late", schedules.len()));
    }
    let found = format!("{} do not fire: {}", names.len(), names.join(", "));
    problem("schedules", found, "windlass schedules ls says which is broken; GET /v1/leader says who leads")
}

fn of_subscriptions(subscriptions: &[Value]) -> Vec<Finding> {
    let found = subscriptions.iter().filter_map(|one| {
        let (name, why) = (text(&one["name"]), text(&one["why"]));
        match one["status"].as_str() {
            Some("paused") => {
                let told = format!("{name} is paused and delivers nothing: {why}");
                let fix =
                    format!("mend the other side, then windlass subscriptions resume {name}; or rm {name}");
                Some(problem("subscriptions", told, fix))
            }
            Some("failing") => {
                let told = format!("{name} delivers nothing: {why}");
                let fix = "mend the other side: it is tried again, and paused when it fails for too long";
                Some(warning("subscriptions", told, fix))
            }
            _ => None,
        }
    });
    let found: Vec<Finding> = found.collect();
    if found.is_empty() {
        return vec![ok(
            "subscriptions",
            format!("{} known, none is paused or failing", subscriptions.len()),
        )];
    }
    found
}

fn of_workers(workers: &[Value]) -> Finding {
    let live = workers.iter().filter(|worker| worker["live"] == true).count();
    let gone = workers.iter().filter(|worker| worker["live"] != true && worker["draining"] != true).count();
    if gone == 0 {
        return ok("workers", format!("{live} live"));
    }
    let found = format!("{live} live; {gone} gone without saying goodbye");
    warning("workers", found, "look why they died; their jobs are taken over by themselves")
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schedule_that_does_not_fire_is_told() {
        let at = |s: i64| Timestamp::from_micros(s * 1_000_000);
        let level = |schedule: Value, now: i64| of_schedules(&[schedule], (at(now), 60_000)).level;
        let due = || json!({ "name": "nightly", "next_at": at(100).to_string() });
        assert_eq!((level(due(), 160), level(due(), 161)), (Level::Ok, Level::Problem));
        assert_eq!(level(json!({ "name": "nightly", "next_at": null }), 999), Level::Ok);
        assert_eq!(
            level(json!({ "name": "nightly", "next_at": null, "broken": "no JSON" }), 1),
            Level::Problem
        );
    }

    #[test]
    fn a_queue_that_stands_still_is_told_with_its_fix() {
        let at = |s: i64| Timestamp::from_micros(s * 1_000_000);
        let queue = |paused: Value| json!({ "name": "mail", "due": 3, "oldest_due_at": at(0).to_string(), "paused": paused });
        let worker = json!({ "live": true, "draining": false, "queues": ["mail"] });
        let told = |queue: Value, workers: &[Value], now: i64| {
            let found = of_queues(&[queue], workers, (at(now), 60_000)).remove(0);
            (found.level, found.fix.unwrap_or_default())
        };
        let paused = told(queue(json!({ "by": "ann" })), &[], 1);
        assert_eq!(paused, (Level::Warning, "windlass queues resume mail".to_owned()));
        assert_eq!(told(queue(Value::Null), &[], 1).0, Level::Problem);
        let there = std::slice::from_ref(&worker);
        assert_eq!(told(queue(Value::Null), there, 1).0, Level::Ok);
        assert_eq!(told(queue(Value::Null), there, 301).0, Level::Warning, "they do not keep up");
    }
}
