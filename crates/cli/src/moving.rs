//! `windlass move`: carries everything of a store into another.

use crate::args::MoveArgs;
use crate::fail::{Exit, Failure, Outcome};
use crate::out::Out;
use crate::run::actor;
use crate::settings::masked;
use serde_json::json;
use std::sync::Arc;
use windlass_engine::moving::{Move, MoveError, Moved, Progress};
use windlass_store::house::House;

/// Moves, goes on, or gives up.
pub async fn run(args: &MoveArgs, out: &Out) -> Outcome {
    let from = (open(&args.from, &args.from_schema, false).await?, place(&args.from, &args.from_schema));
    let to = (open(&args.to, &args.to_schema, !args.give_up).await?, place(&args.to, &args.to_schema));
    let (old, new) = (from.1.clone(), to.1.clone());
    let moving = Move { from, to, actor: actor()? };
    if args.give_up {
        moving.give_up().await?;
        out.show(&json!({ "from": old, "to": new, "given_up": true }), |out| {
            out.line(format!("{old} takes writes again; {new} stays closed, remove it or empty it"));
        });
        return Ok(());
    }
    let bar = out.bar(0, "{msg}");
    let progress = |progress: Progress| {
        let (what, table, done, total) = match progress {
            Progress::Carrying(table, done, total) => ("carried", table, done, total),
            Progress::Comparing(table, done, total) => ("compared", table, done, total),
        };
        bar.set_length(total);
        bar.set_position(done);
        bar.set_message(format!("{table} {what}"));
    };
    let moved = moving.run(&progress).await;
    bar.finish_and_clear();
    tell(&old, &new, &moved?, out);
    Ok(())
}

fn tell(old: &str, new: &str, moved: &Moved, out: &Out) {
    let rows: serde_json::Map<_, _> =
        moved.rows.iter().map(|(table, n)| ((*table).to_owned(), json!(n))).collect();
    let count = |name: &str| moved.rows.iter().find(|(table, _)| *table == name).map_or(0, |(_, n)| *n);
    let (jobs, events) = (count("jobs"), count("job_events"));
    out.show(&json!({ "from": old, "to": new, "rows": rows, "released": moved.let_go }), |out| {
        out.line(format!(
            "{jobs} jobs and {events} events have moved from {old} to {new}; every row was compared"
        ));
        if moved.let_go > 0 {
            out.line(format!("{} jobs ran: they start again, which counts as no failure", moved.let_go));
        }
        out.line(format!("{old} stays closed; start servers and workers with --store {new}"));
    });
}

fn place(url: &str, schema: &str) -> String {
    let url = masked(url);
    if schema == "windlass" { url } else { format!("{url} (schema {schema})") }
}

/// Opens a store for moving; `create` makes it where it is not there.
async fn open(url: &str, schema: &str, create: bool) -> Outcome<Arc<dyn House>> {
    let failed = |why: String| Failure::unavailable(format!("{}: {why}", masked(url)));
    match url.split_once(':') {
        Some(("sqlite", path)) => {
            let path = path.strip_prefix("//").unwrap_or(path).to_owned();
            let options = windlass_sqlite::Options::new(path).create(create).mover();
            let opened = tokio::task::spawn_blocking(move || options.open()).await;
            Ok(Arc::new(opened.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?))
        }
        Some(("postgres" | "postgresql", _)) => {
            let options = windlass_postgres::Options::new(url).schema(schema).migrate(create).pool(4).mover();
            Ok(Arc::new(options.open().await.map_err(|e| failed(e.to_string()))?))
        }
        _ => Err(Failure::usage(format!(
            "{url} is no store that can be moved; write sqlite:PATH or postgres://…"
        ))),
    }
}

impl From<MoveError> for Failure {
    fn from(error: MoveError) -> Self {
        let text = error.to_string();
        match error {
            MoveError::Store(_, _) => Self::unavailable(text),
            MoveError::SameStore => Self::usage(text),
            MoveError::Refused(refusal) => refusal.into(),
            MoveError::Invalid(invalid) => invalid.into(),
            _ => Self::new(Exit::Refused, "cannot_move", text),
        }
    }
}
