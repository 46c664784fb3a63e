//! `windlass operations`, `windlass marks`.

use crate::api_client::ApiClient;
use crate::args::{MarksCommand, OperationsCommand};
use crate::fail::Outcome;
use crate::out::Out;
use crate::shape::Reply;
use crate::show::{self, list, moment, text};
use serde_json::Value;

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
        MarksCommand::Ls { limit } => {
            let reply = door.marks(limit).await?;
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
            let reply = door.remove_mark(&id).await?;
            show::reply(out, &reply, |out, _| out.line(format!("{id} is removed")));
        }
    }
    Ok(())
}
