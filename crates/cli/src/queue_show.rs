//! `windlass queues show`: one queue with its rules, what runs of them, what holds it back, and its busiest keys.

use crate::api_client::ApiClient;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::registry::{limits, standing};
use crate::show::{list, moment, text};
use serde_json::{Value, json};
use std::cmp::Reverse;
use windlass_core::Name;

/// So many jobs that run are counted, and so many keys are looked at.
const CAP: u16 = 1_000;
/// So many keys are shown.
const KEYS: usize = 10;

/// Shows it.
pub async fn run(queue: String, door: &ApiClient, out: &Out) -> Outcome {
    let name = Name::parse("queue", queue)?;
    let known = door.queues().await?;
    let found = list(&known.value, "queues").iter().find(|queue| queue["name"] == name.as_str());
    let queue = found.ok_or_else(|| {
        Failure::not_found(format!("no queue {name} has a job or a setting; `windlass queues ls` lists them"))
    })?;
    let filter = [("queue", name.as_str()), ("status", "running,assigned")];
    let filter = filter.map(|(field, value)| (field.to_owned(), value.to_owned())).to_vec();
    let running = door.jobs(&filter, None, CAP.into()).await?;
    let lanes = door.lanes(&name, None, CAP).await?;
    let mut busiest: Vec<&Value> = list(&lanes.value, "lanes").iter().collect();
    busiest.sort_by_key(|lane| Reverse((lane["running"].as_i64(), lane["due"].as_i64())));
    busiest.truncate(KEYS);
    let count = list(&running.value, "jobs").len();
    let capped = !running.value["next_cursor"].is_null();
    let shown = json!({ "queue": queue, "running": count, "running_capped": capped, "lanes": busiest });
    out.show(&shown, |out| {
        let more = |is_more: bool| if is_more { "+" } else { "" };
        let of = &queue["flow"]["concurrency"];
        let of = if of.is_null() { String::new() } else { format!(" of {}", text(of)) };
        let (status, why) = standing(queue);
        let due = format!("{}{}", text(&queue["due"]), more(queue["due_capped"] == true));
        let endpoint = &queue["endpoint"];
        let sent = if endpoint.is_null() {
            String::new()
        } else {
            format!("{}, {} at once per server", text(&endpoint["url"]), text(&endpoint["max"]))
        };
        let defaults = Some(text(&queue["defaults"])).filter(|text| text != "{}").unwrap_or_default();
        let fields = [
            ("queue", name.to_string()),
            ("status", format!("{status} {why}").trim_end().to_owned()),
            ("mode", text(&queue["mode"])),
            ("running", format!("{count}{}{of}", more(capped))),
            ("due", due),
            ("oldest due", moment(&queue["oldest_due_at"])),
            ("rules", limits(&queue["flow"])),
            ("defaults", defaults),
            ("endpoint", sent),
        ];
        out.fields(&fields.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>());
        let row = |lane: &&Value| {
            let due = format!("{}{}", text(&lane["due"]), more(lane["due_capped"] == true));
            let (held, next) = (moment(&lane["held_until"]), moment(&lane["next_at"]));
            vec![text(&lane["key"]), text(&lane["running"]), due, held, next]
        };
        let rows: Vec<_> = busiest.iter().map(row).collect();
        if !rows.is_empty() {
            out.table(&["KEY", "RUNNING", "DUE", "HELD UNTIL", "NEXT UNIT"], &rows, "");
        }
    });
    Ok(())
}
