//! `windlass stats` and `windlass top`: how many jobs stand where, what is due, who works, what runs.

use crate::api_client::ApiClient;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::registry::show_queues;
use crate::show::{self, list, text};
use serde_json::{Map, Value, json};
use std::time::Duration;
use windlass_engine::{Level, Shutdown};

/// How many running jobs are shown at once.
const RUNNING: usize = 20;

/// `windlass stats`
pub async fn stats(door: &ApiClient, out: &Out) -> Outcome {
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

/// `{statuses, queues, workers}`
async fn gather(door: &ApiClient) -> Outcome<Value> {
    let statuses = statuses(&door.metrics().await?);
    let queues = door.queues().await?.value["queues"].take();
    let workers = door.workers().await?;
    let workers = list(&workers.value, "workers");
    let count = |is_so: &dyn Fn(&Value) -> bool| workers.iter().filter(|worker| is_so(worker)).count();
    let live = count(&|worker| worker["live"] == true && worker["draining"] != true);
    let draining = count(&|worker| worker["live"] == true && worker["draining"] == true);
    let gone = count(&|worker| worker["live"] != true);
    Ok(
        json!({ "statuses": statuses, "queues": queues, "workers": { "live": live, "draining": draining, "gone": gone } }),
    )
}

/// Jobs by status, from what is measured: counted up to a cap, and a few seconds old.
fn statuses(metrics: &str) -> Map<String, Value> {
    let count = |line: &str| {
        let (status, n) = line.strip_prefix("windlass_jobs{status=\"")?.split_once("\"} ")?;
        Some((status.to_owned(), n.trim().parse::<f64>().ok()?))
    };
    metrics.lines().filter_map(count).map(|(status, n)| (status, json!(n as u64))).collect()
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_what_is_measured() {
        let text = "# HELP windlass_jobs jobs\nwindlass_jobs{status=\"failed\"} 7\nwindlass_store_up 1\n";
        assert_eq!(Value::Object(statuses(text)), json!({ "failed": 7 }));
    }
}
