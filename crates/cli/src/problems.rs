//! `windlass problems`: errors that are one thing.

use crate::api_client::ApiClient;
use crate::args::ProblemsCommand;
use crate::fail::Outcome;
use crate::out::Out;
use crate::show::{self, list, moment, text};
use serde_json::Value;
use windlass_core::Fingerprint;
use windlass_http::wire::stats::{ProblemBody, StateWord};

/// How many hours are shown of one problem.
const HOURS: usize = 48;

/// Runs one of them.
pub async fn run(command: ProblemsCommand, door: &ApiClient, out: &Out) -> Outcome {
    let (which, state) = match command {
        ProblemsCommand::Ls { state, kind, limit } => {
            let named = |name: &str, value: Option<String>| value.map(|value| (name.to_owned(), value));
            let filter: Vec<_> = named("state", state).into_iter().chain(named("kind", kind)).collect();
            let reply = door.problems(&filter, limit.into()).await?;
            show::reply(out, &reply, |out, page| show_all(out, list(page, "problems")));
            return Ok(());
        }
        ProblemsCommand::Show(which) => {
            let reply = door.problem(&Fingerprint::parse(&which.fingerprint)?).await?;
            show::reply(out, &reply, show_one);
            return Ok(());
        }
        ProblemsCommand::Resolve(which) => (which, StateWord::Resolved),
        ProblemsCommand::Mute(which) => (which, StateWord::Muted),
        ProblemsCommand::Open(which) => (which, StateWord::Open),
    };
    let reply = door.put_problem(&Fingerprint::parse(&which.fingerprint)?, &ProblemBody { state }).await?;
    show::reply(out, &reply, |out, problem| show_all(out, std::slice::from_ref(problem)));
    Ok(())
}

fn show_all(out: &Out, problems: &[Value]) {
    let row = |problem: &Value| {
        let said = format!("{}: {}", text(&problem["code"]), text(&problem["message"]));
        vec![
            text(&problem["fingerprint"]),
            text(&problem["state"]),
            text(&problem["kind"]),
            text(&problem["errors"]),
            text(&problem["dead"]),
            moment(&problem["last_seen_at"]),
            out.short(&said, 70),
        ]
    };
    let rows: Vec<_> = problems.iter().map(row).collect();
    let head = ["PROBLEM", "STATE", "KIND", "ERRORS", "DEAD", "LAST SEEN", "ERROR"];
    out.table(&head, &rows, "there are no problems");
}

fn show_one(out: &Out, problem: &Value) {
    out.fields(&[
        ("problem", text(&problem["fingerprint"])),
        ("kind", text(&problem["kind"])),
        ("code", text(&problem["code"])),
        ("message", text(&problem["message"])),
        ("state", text(&problem["state"])),
        ("since", moment(&problem["state_at"])),
        ("by", text(&problem["state_by"])),
        ("first seen", moment(&problem["first_seen_at"])),
        ("last seen", moment(&problem["last_seen_at"])),
        ("last job", text(&problem["last_job"])),
        ("errors", text(&problem["errors"])),
        ("dead", text(&problem["dead"])),
    ]);
    out.line("");
    let hours = list(problem, "hours");
    let row = |hour: &Value| vec![moment(&hour["at"]), text(&hour["errors"]), text(&hour["dead"])];
    let rows: Vec<_> = hours.iter().rev().take(HOURS).map(row).collect();
    out.table(&["HOUR", "ERRORS", "DEAD"], &rows, "it was not seen in 90 days");
}
