//! `windlass stats` and `windlass top`: how many jobs stand where, what is due, who works, what runs.

use crate::api_client::ApiClient;
use crate::args::{StatsArgs, StatsCommand};
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::registry::show_queues;
use crate::show::{self, list, moment, text};
use crate::span::ago;
use serde_json::{Map, Value, json};
use std::time::Duration;
use windlass_engine::{Level, Shutdown};
use windlass_http::wire::stats::RebuildBody;
use windlass_http::wire::time::Time;

/// How many running jobs are shown at once.
const RUNNING: usize = 20;

/// `windlass stats`
pub async fn stats(args: StatsArgs, door: &ApiClient, out: &Out) -> Outcome {
    if let Some(StatsCommand::Rebuild { since }) = args.command {
        let reply = door.rebuild_stats(&RebuildBody { since: since.map(|at| Time(at.0)) }).await?;
        show::reply(out, &reply, |out, _| {
            out.line("counted again by the server that leads, as soon as there is one")
        });
        return Ok(());
    }
    if args.is_over_time() {
        return over_time(args, door, out).await;
    }
    let found = gather(door).await?;
    out.show(&found, |out| tell(out, &found));
    Ok(())
}

/// `windlass top`: drawn anew until Ctrl-C.
pub async fn top(every: Duration, door: &ApiClient, out: &Out) -> Outcome {
    let end = ends()?;
    while end.level() == Level::Working {
        let mut found = gather(door).await?;
        let running = vec![("status".to_owned(), "running".to_owned())];
        found["running"] = door.jobs(&running, None, RUNNING).await?.value["jobs"].take();
        out.clear();
        out.show(&found, |out| {
            tell(out, &found);
            out.line("");
            let row = |job: &Value| {
                let said = format!("{} % {}", text(&job["progress"]), text(&job["stage"]));
                let (id, kind, queue) = (text(&job["id"]), text(&job["kind"]), text(&job["queue"]));
                vec![id, kind, queue, show::moment(&job["started_at"]), out.short(said.trim(), 60)]
            };
            let rows: Vec<_> = list(&found, "running").iter().map(row).collect();
            out.table(&["RUNNING", "KIND", "QUEUE", "SINCE", "DOING"], &rows, "nothing runs");
        });
        pause(every, &end).await;
    }
    Ok(())
}

/// What Ctrl-C ends.
pub fn ends() -> Outcome<Shutdown> {
    Shutdown::on_signals().map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))
}

/// Until it is drawn anew, or the end.
pub async fn pause(every: Duration, end: &Shutdown) {
    tokio::select! {
        () = tokio::time::sleep(every) => {}
        () = end.reached(Level::Graceful) => {}
    }
}

/// `{as_of, statuses, queues, workers, approvals, problems}`, the counts of statuses as numbers.
async fn gather(door: &ApiClient) -> Outcome<Value> {
    let mut found = door.now().await?.value;
    if let Some(statuses) = found["statuses"].as_object_mut() {
        statuses.values_mut().for_each(|count| *count = count["count"].take());
    }
    Ok(found)
}

/// How much happened over time.
async fn over_time(args: StatsArgs, door: &ApiClient, out: &Out) -> Outcome {
    let mut query: Vec<(String, String)> = Vec::new();
    let mut put =
        |name: &str, value: Option<String>| query.extend(value.map(|value| (name.to_owned(), value)));
    put("from", args.from.as_deref().map(ago));
    put("to", args.to.as_deref().map(ago));
    put("step", args.step.map(|step| windlass_core::span::to_text(step.ms())));
    put("by", Some(args.by.join(",")).filter(|by| !by.is_empty()));
    put("queue", args.queue);
    put("kind", args.kind);
    let reply = door.stats(&query).await?;
    show::reply(out, &reply, show_series);
    Ok(())
}

fn show_series(out: &Out, found: &Value) {
    let mut rows = Vec::new();
    for series in list(found, "series") {
        let of: Vec<String> = ["queue", "kind", "outcome"]
            .iter()
            .filter_map(|name| series[name].as_str().map(str::to_owned))
            .collect();
        let of = if series["other"] == true { "(others)".to_owned() } else { of.join(" ") };
        for point in list(series, "points") {
            let n = |names: &[&str]| {
                let sum: i64 = names.iter().filter_map(|name| point["counts"][name].as_i64()).sum();
                if sum == 0 { String::new() } else { sum.to_string() }
            };
            let p95 = |of: &Value| of["p95"].as_f64().map(|s| format!("{s:.3} s")).unwrap_or_default();
            rows.push(vec![
                moment(&point["at"]),
                of.clone(),
                n(&["enqueued"]),
                n(&["started"]),
                n(&["completed"]),
                n(&["retried", "lost"]),
                n(&["failed", "timed_out"]),
                p95(&point["wait"]),
                p95(&point["run"]),
                text(&point["gauges"]["depth"]),
            ]);
        }
    }
    rows.sort();
    let head =
        ["FROM", "OF", "ENQUEUED", "STARTED", "COMPLETED", "RETRIED", "DEAD", "WAIT P95", "RUN P95", "DUE"];
    out.table(&head, &rows, "nothing happened in that time, or no server has counted it yet");
    if found["complete"] == false {
        out.remark("windlass: not all rows were read; ask for a shorter time, one --queue or one --kind");
    }
}

fn tell(out: &Out, found: &Value) {
    let empty = Map::new();
    let statuses = found["statuses"].as_object().unwrap_or(&empty);
    let row = |(status, n): (&String, &Value)| vec![status.clone(), text(n)];
    let rows: Vec<_> = statuses.iter().filter(|(_, n)| **n != json!(0)).map(row).collect();
    out.table(&["STATUS", "JOBS"], &rows, "there are no jobs");
    out.line("");
    show_queues(out, list(found, "queues"));
    out.line("");
    let workers = &found["workers"];
    out.line(format!(
        "workers: {} live, {} draining, {} gone",
        text(&workers["live"]),
        text(&workers["draining"]),
        text(&workers["gone"])
    ));
    for (name, of, see) in [("problems", "open", "problems ls"), ("approvals", "pending", "approvals ls")] {
        let count = &found[name]["count"];
        if *count != json!(0) && !count.is_null() {
            out.line(format!("{name}: {} {of}; see `windlass {see}`", text(count)));
        }
    }
}
