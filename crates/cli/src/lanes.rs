//! `windlass lanes`: the keys of a queue that take turns.

use crate::api_client::ApiClient;
use crate::args::LanesCommand;
use crate::fail::Outcome;
use crate::out::Out;
use crate::show::{self, list, moment, text};
use serde_json::Value;
use windlass_core::Name;

/// `windlass lanes …`
pub async fn run(command: LanesCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        LanesCommand::Ls { queue, cursor, limit } => {
            let reply = door.lanes(&Name::parse("queue", queue)?, cursor, limit).await?;
            show::reply(out, &reply, |out, page| {
                let row = |lane: &Value| {
                    let more = if lane["due_capped"] == true { "+" } else { "" };
                    let due = format!("{}{more}", text(&lane["due"]));
                    let (held, next) = (moment(&lane["held_until"]), moment(&lane["next_at"]));
                    vec![text(&lane["key"]), text(&lane["running"]), due, held, next]
                };
                let rows: Vec<_> = list(page, "lanes").iter().map(row).collect();
                let none =
                    "no key of this queue takes turns: it has no rules for keys, or no jobs with a key";
                out.table(&["KEY", "RUNNING", "DUE", "HELD UNTIL", "NEXT UNIT"], &rows, none);
                if let Some(cursor) = page["next_cursor"].as_str() {
                    out.line(format!("more with --cursor {cursor}"));
                }
            });
        }
        LanesCommand::Release { queue, lane: key } => {
            let queue = Name::parse("queue", queue)?;
            let what = key.as_ref().map_or_else(|| queue.to_string(), |key| format!("{key} of {queue}"));
            let reply = door.release_lane(&queue, key).await?;
            show::reply(out, &reply, |out, value| {
                let said = if value["released"] == true { "is let go" } else { "was not held" };
                out.line(format!("{what} {said}"));
            });
        }
    }
    Ok(())
}
