//! `windlass operations`, `windlass alerts`, `windlass marks`.

use crate::api_client::ApiClient;
use crate::args::{AlertsCommand, MarksCommand, OperationsCommand};
use crate::fail::Outcome;
use crate::ids;
use crate::out::Out;
use crate::shape::{Reply, word};
use crate::show::{self, list, moment, text};
use crate::span::ago;
use serde_json::Value;
use windlass_http::wire::alert::AlertBody;
use windlass_http::wire::time::Span;

/// `windlass operations …`
pub async fn run(command: OperationsCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        OperationsCommand::Ls { limit } => {
            let reply = door.operations(limit).await?;
            show::reply(out, &reply, |out, page| {
                let row = |one: &Value| {
                    let tally = format!("{} of {}", text(&one["done"]), text(&one["matched"]));
                    let begins = moment(&one["begins_at"]);
                    vec![
                        text(&one["id"]),
                        text(&one["action"]),
                        text(&one["phase"]),
                        tally,
                        begins,
                        text(&one["by"]),
                    ]
                };
                let rows: Vec<_> = list(page, "operations").iter().map(row).collect();
                let none =
                    "nothing was done to many jobs: `jobs redrive --filter … --hold 10s` begins such a thing";
                out.table(&["ID", "ACTION", "PHASE", "DONE", "BEGINS", "BY"], &rows, none);
            });
        }
        OperationsCommand::Stop { id } => {
            let id = ids::operation(&id, door).await?;
            let reply = door.stop_operation(&id).await?;
            show::reply(out, &reply, |out, one| {
                let done = text(&one["done"]);
                out.line(match one["phase"].as_str() {
                    Some("done") => format!("{id} was over already: {done} jobs were changed"),
                    _ if one["done"] == 0 => format!("{id} is stopped; no job was changed"),
                    _ => format!("{id} is stopped; {done} jobs were changed before"),
                });
            });
        }
    }
    Ok(())
}

/// Says that an operation was begun.
pub fn begun(reply: &Reply, out: &Out) {
    show::reply(out, reply, |out, one| {
        let (id, begins) = (text(&one["id"]), moment(&one["begins_at"]));
        out.line(format!("operation {id} begins at {begins}; `windlass operations stop {id}` stops it"));
    });
}

/// `windlass marks …`
pub async fn marks(command: MarksCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        MarksCommand::Ls { since, until, limit } => {
            let time = |name: &str, time: Option<String>| time.map(|time| (name.to_owned(), ago(&time)));
            let within = time("from", since).into_iter().chain(time("to", until)).collect();
            let reply = door.marks(&within, limit).await?;
            show::reply(out, &reply, |out, page| {
                let row = |mark: &Value| {
                    vec![moment(&mark["at"]), text(&mark["text"]), text(&mark["by"]), text(&mark["id"])]
                };
                let rows: Vec<_> = list(page, "marks").iter().map(row).collect();
                out.table(&["AT", "WHAT", "BY", "ID"], &rows, "nothing is marked");
            });
        }
        MarksCommand::Add { text: what } => {
            let reply = door.put_mark(&what).await?;
            show::reply(out, &reply, |out, mark| {
                out.line(format!("{} is marked at {}", text(&mark["text"]), moment(&mark["at"])));
            });
        }
        MarksCommand::Rm { id } => {
            let id = ids::mark(&id, door).await?;
            let reply = door.remove_mark(&id).await?;
            show::reply(out, &reply, |out, _| out.line(format!("{id} is removed")));
        }
    }
    Ok(())
}

/// `windlass alerts …`
pub async fn alerts(command: AlertsCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        AlertsCommand::Ls => {
            let reply = door.alerts().await?;
            show::reply(out, &reply, |out, page| {
                let row = |alert: &Value| {
                    let state = match alert["firing_since"].as_str() {
                        Some(_) => format!("fires since {}", moment(&alert["firing_since"])),
                        None => "quiet".to_owned(),
                    };
                    let said = [&alert["why"], &alert["unsent"]].map(text).join(" ").trim().to_owned();
                    vec![text(&alert["name"]), text(&alert["metric"]), text(&alert["queue"]), state, said]
                };
                let rows: Vec<_> = list(page, "alerts").iter().map(row).collect();
                let none = "nothing is watched; `windlass alerts put --help` says what can be";
                out.table(&["NAME", "METRIC", "QUEUE", "STATE", "WHY"], &rows, none);
            });
        }
        AlertsCommand::Put(new) => {
            let span = |span: Option<crate::span::Span>| span.map(|span| Span::from_ms(span.ms()));
            let body = AlertBody {
                metric: word("metric", new.metric)?,
                queue: new.queue,
                longer_than: span(new.longer_than),
                percent: new.percent,
                holds_for: span(new.holds_for),
                notify: new.notify,
                expected_version: None,
            };
            let reply = door.put_alert(&new.name, &body).await?;
            show::reply(out, &reply, |out, alert| out.line(format!("{} is watched", text(&alert["name"]))));
        }
        AlertsCommand::Rm { name } => {
            let reply = door.remove_alert(&name).await?;
            show::reply(out, &reply, |out, _| out.line(format!("{name} is removed")));
        }
    }
    Ok(())
}
