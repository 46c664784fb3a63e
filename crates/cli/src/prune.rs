//! `windlass prune`: removes finished jobs that are old, each kept as a line of JSON first.

use crate::args::PruneArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::open;
use crate::settings::{Settings, Source};
use serde_json::json;
use std::sync::Arc;
use windlass_core::{Filter, Invalid, Name, Status};
use windlass_engine::prune::{PruneError, Pruned, Pruner};
use windlass_store::{List, Store, fresh};

/// Prunes, or says what would be.
pub async fn run(args: &PruneArgs, settings: &Settings, out: &Out) -> Outcome {
    let is_typed = settings.archive.as_ref().is_some_and(|archive| archive.source == Source::Flag);
    if args.no_archive && is_typed {
        return Err(Failure::usage("say either --archive PLACE or --no-archive"));
    }
    if !args.dry_run && settings.archive.is_none() && !args.no_archive {
        return Err(Failure::usage(
            "say --archive PLACE to keep jobs in files first, or --no-archive if they may be lost",
        ));
    }
    let client = open(settings, false, None).await?;
    let store = client.store();
    let archive = settings.archive()?.filter(|_| !args.no_archive);
    let place = archive.as_ref().map(|archive| archive.place()).unwrap_or_default();
    let pruner = Pruner::new(Arc::clone(store), archive);
    let filter = filter(args, &pruner, out).await?;
    let mut done = Pruned::default();
    if args.dry_run {
        count(store, filter, &mut done, out).await?;
    } else {
        pruner.resume(&mut done).await?;
        let spinner = out.spinner();
        let report = |done: &Pruned| spinner.set_message(format!("{} jobs removed", done.removed));
        let removed = pruner.remove(filter, |_| true, report, &mut done).await;
        spinner.finish_and_clear();
        removed?;
    }
    tell(args.dry_run, &done, &place, out);
    Ok(())
}

impl From<PruneError> for Failure {
    fn from(error: PruneError) -> Self {
        match error {
            PruneError::Store(error) => error.into(),
            PruneError::Refused(refusal) => refusal.into(),
            other => Self::failed(other.to_string()),
        }
    }
}

/// Which jobs may go.
async fn filter(args: &PruneArgs, pruner: &Pruner, out: &Out) -> Outcome<Filter> {
    let status = |word: &String| {
        let status = Status::parse(word).filter(|status| status.is_terminal());
        let told = "must be completed, failed, timed_out or cancelled";
        status.ok_or_else(|| Invalid::new("status", word, told))
    };
    let mut statuses = args.status.iter().map(status).collect::<Result<Vec<Status>, Invalid>>()?;
    if statuses.is_empty() {
        statuses = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
    }
    let mut before = fresh::wall_clock().plus_ms(-args.older_than.ms());
    if let Some((reader, read)) = pruner.unread().await?
        && read < before
    {
        before = read;
        out.remark(format!("windlass: {reader} has not read everything; jobs that ended after {read} stay"));
    }
    Ok(Filter {
        statuses,
        queue: args.queue.as_ref().map(|name| Name::parse("queue", name)).transpose()?,
        kind: args.kind.as_ref().map(|name| Name::parse("kind", name)).transpose()?,
        finished_before: Some(before),
        ..Filter::default()
    })
}

async fn count(store: &Arc<dyn Store>, filter: Filter, done: &mut Pruned, out: &Out) -> Outcome {
    let spinner = out.spinner();
    let mut list = List { filter, cursor: None, limit: 1_000 };
    loop {
        let page = store.jobs(list.clone(), None).await??;
        done.matched += page.items.len();
        spinner.set_message(format!("{} jobs", done.matched));
        list.cursor = page.next;
        if list.cursor.is_none() {
            break;
        }
    }
    spinner.finish_and_clear();
    Ok(())
}

fn tell(is_dry: bool, done: &Pruned, place: &str, out: &Out) {
    let stayed = done.stayed.iter();
    let stayed: Vec<_> =
        stayed.map(|(id, why)| json!({ "id": id.to_string(), "why": why.to_string() })).collect();
    let files: Vec<String> = done.segments.iter().map(|name| format!("{place}/{name}")).collect();
    let answer = json!({
        "dry_run": is_dry, "matched": done.matched, "archived": done.archived, "removed": done.removed,
        "resumed": done.resumed, "stayed": stayed, "files": files,
    });
    out.show(&answer, |out| {
        if is_dry {
            return out.line(format!("{} jobs would be removed", done.matched));
        }
        if done.resumed > 0 {
            out.line(format!(
                "{} jobs were removed that an interrupted run had archived; they are not archived again",
                done.resumed
            ));
        }
        out.line(format!(
            "{} jobs were removed, {} archived in {} files",
            done.removed,
            done.archived,
            files.len()
        ));
        for (id, why) in &done.stayed {
            out.line(format!("{id} stays, and is archived again when it goes: {why}"));
        }
    });
}
