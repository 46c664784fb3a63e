//! `windlass prune`: removes finished jobs that are old, each kept as a line of JSON first.
//!
//! A batch goes into a file of its own. Its jobs are noted beside it before the file gets its name, and removed from the
//! store only once file and name are on disk. Whatever dies in between, the next run finds the note: jobs that are in a
//! file are removed without being archived again, a file that was not finished goes.

mod files;
mod line;

use crate::args::PruneArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::open;
use crate::settings::Settings;
use files::{Archive, Noted};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use std::sync::Arc;
use windlass_core::{Event, Filter, Invalid, Job, Name, Refusal, Status, Timestamp};
use windlass_store::{List, Purge, ReadEvents, ReadFeed, ReadLogs, Store, fresh};

/// Jobs that are looked at, and removed, at once.
const PAGE: usize = 100;
/// Jobs that are read side by side.
const READS: usize = 8;
/// Jobs of one file, at most.
const FILE_JOBS: usize = 1_000;
/// Bytes of one file before it is packed, about.
const FILE_BYTES: usize = 64 << 20;
/// How long before the first event that a reader has not read nothing is removed.
const MARGIN_MS: i64 = 60_000;

/// What a run did.
#[derive(Default)]
struct Done {
    matched: usize,
    archived: usize,
    removed: usize,
    /// Removed now, and archived by an earlier run that was interrupted.
    resumed: usize,
    /// Archived, but changed or locked since.
    stayed: Vec<(String, String)>,
    files: Vec<String>,
}

/// Prunes, or says what would be.
pub async fn run(args: &PruneArgs, settings: &Settings, out: &Out) -> Outcome {
    if !args.dry_run && args.archive.is_none() && !args.no_archive {
        return Err(Failure::usage(
            "say --archive DIR to keep jobs in files first, or --no-archive if they may be lost",
        ));
    }
    let client = open(settings, false, None).await?;
    let store = client.store();
    let filter = filter(args, store, out).await?;
    let mut done = Done::default();
    if args.dry_run {
        count(store, filter, &mut done, out).await?;
    } else {
        let mut archive = args.archive.as_deref().map(Archive::open).transpose()?;
        if let Some(archive) = &mut archive {
            resume(store, archive, &mut done).await?;
        }
        remove(store, filter, archive.as_mut(), &mut done, out).await?;
    }
    tell(args.dry_run, &done, out);
    Ok(())
}

/// Which jobs may go.
async fn filter(args: &PruneArgs, store: &Arc<dyn Store>, out: &Out) -> Outcome<Filter> {
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
    if let Some((reader, unread)) = unread(store).await?
        && unread.plus_ms(-MARGIN_MS) < before
    {
        before = unread.plus_ms(-MARGIN_MS);
        out.remark(format!(
            "windlass: {reader} has not read what happened since {unread}; jobs that ended later stay"
        ));
    }
    Ok(Filter {
        statuses,
        queue: args.queue.as_ref().map(|name| Name::parse("queue", name)).transpose()?,
        kind: args.kind.as_ref().map(|name| Name::parse("kind", name)).transpose()?,
        finished_before: Some(before),
        ..Filter::default()
    })
}

/// The reader of the feed that is furthest behind, and the first event that it has not read.
async fn unread(store: &Arc<dyn Store>) -> Outcome<Option<(Name, Timestamp)>> {
    let mut oldest = None;
    for place in store.places((), None).await? {
        let read = ReadFeed { after: place.cursor, limit: 1, payloads: false };
        // A reader whose place is of no use begins again elsewhere.
        let Ok(page) = store.feed(read, None).await? else { continue };
        if let Some(fed) = page.events.first()
            && oldest.as_ref().is_none_or(|(_, at)| fed.event.at < *at)
        {
            oldest = Some((place.reader, fed.event.at));
        }
    }
    Ok(oldest)
}

async fn count(store: &Arc<dyn Store>, filter: Filter, done: &mut Done, out: &Out) -> Outcome {
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

/// Removes what an interrupted run archived and did not remove.
async fn resume(store: &Arc<dyn Store>, archive: &mut Archive, done: &mut Done) -> Outcome {
    for noted in archive.interrupted()? {
        for page in noted.jobs.chunks(PAGE) {
            let jobs = page.to_vec();
            let answers = store.purge(Purge { jobs: jobs.clone() }, None).await?;
            for ((id, _), answer) in jobs.iter().zip(answers) {
                match answer {
                    Ok(()) => done.resumed += 1,
                    // It was removed before the interruption.
                    Err(Refusal::NotFound) => {}
                    Err(refusal) => done.stayed.push((id.to_string(), refusal.to_string())),
                }
            }
        }
        archive.forget(&noted)?;
    }
    Ok(())
}

async fn remove(
    store: &Arc<dyn Store>,
    filter: Filter,
    mut archive: Option<&mut Archive>,
    done: &mut Done,
    out: &Out,
) -> Outcome {
    let spinner = out.spinner();
    let mut list = List { filter, cursor: None, limit: PAGE };
    let mut batch: Vec<Job> = Vec::new();
    let mut bytes = 0;
    loop {
        let page = store.jobs(list.clone(), None).await??;
        list.cursor = page.next;
        let jobs: Vec<Job> = page.items.into_iter().map(|listed| listed.job).collect();
        if let Some(archive) = archive.as_deref_mut() {
            let lines = stream::iter(&jobs).map(|job| whole(store, job)).buffered(READS);
            let lines: Vec<String> = lines.try_collect().await?;
            for line in lines {
                bytes += archive.add(&line);
            }
        }
        batch.extend(jobs);
        let is_end = list.cursor.is_none();
        if batch.len() >= FILE_JOBS || bytes >= FILE_BYTES || is_end {
            finish(store, &batch, archive.as_deref_mut(), done).await?;
            (batch, bytes) = (Vec::new(), 0);
        }
        spinner.set_message(format!("{} jobs removed", done.removed));
        if is_end {
            break;
        }
    }
    spinner.finish_and_clear();
    Ok(())
}

/// Brings a batch to disk, then removes it from the store.
async fn finish(
    store: &Arc<dyn Store>,
    batch: &[Job],
    mut archive: Option<&mut Archive>,
    done: &mut Done,
) -> Outcome {
    if batch.is_empty() {
        return Ok(());
    }
    done.matched += batch.len();
    let jobs: Vec<_> = batch.iter().map(|job| (job.id, job.version)).collect();
    let noted: Option<Noted> = archive.as_deref_mut().map(|archive| archive.close(&jobs)).transpose()?;
    for page in jobs.chunks(PAGE) {
        let answers = store.purge(Purge { jobs: page.to_vec() }, None).await?;
        for ((id, _), answer) in page.iter().zip(answers) {
            match answer {
                Ok(()) => done.removed += 1,
                Err(refusal) => done.stayed.push((id.to_string(), refusal.to_string())),
            }
        }
    }
    if let (Some(archive), Some(noted)) = (archive, noted) {
        done.archived += jobs.len();
        done.files.push(noted.file.display().to_string());
        archive.forget(&noted)?;
    }
    Ok(())
}

/// A finished job as a line: its log and its log lines.
async fn whole(store: &Arc<dyn Store>, job: &Job) -> Outcome<String> {
    let mut events: Vec<Event> = Vec::new();
    while (events.len() as i64) < job.version {
        let after = events.last().map_or(0, |event| event.version);
        let page =
            store.events(ReadEvents { job: job.id, after, limit: 100, newest_first: false }, None).await?;
        if page.is_empty() {
            break;
        }
        events.extend(page.into_iter().filter(|event| event.version <= job.version));
    }
    let mut logs = Vec::new();
    loop {
        let after = logs.last().map_or(0, |log: &windlass_core::LogLine| log.n);
        let page = store.logs(ReadLogs { job: job.id, after, limit: 1_000 }, None).await?;
        if page.is_empty() {
            break;
        }
        logs.extend(page);
    }
    Ok(line::line(job, &events, &logs))
}

fn tell(is_dry: bool, done: &Done, out: &Out) {
    let stayed: Vec<_> = done.stayed.iter().map(|(id, why)| json!({ "id": id, "why": why })).collect();
    let answer = json!({
        "dry_run": is_dry, "matched": done.matched, "archived": done.archived, "removed": done.removed,
        "resumed": done.resumed, "stayed": stayed, "files": done.files,
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
            done.files.len()
        ));
        for (id, why) in &done.stayed {
            out.line(format!("{id} stays, and is archived again when it goes: {why}"));
        }
    });
}
