//! `windlass verify`: every job is what its log says, no log has a gap, and the log is what was sealed.
//!
//! Read in bounded pages beside a running system: a row is compared with the fold of its log up to the row's own version,
//! which nothing changes any more. What renewals move without an event is left out.

use crate::args::VerifyArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::open;
use crate::settings::Settings;
use crate::verify_seals::Seals;
use serde_json::json;
use std::sync::Arc;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{EventKind, Filter, Job, JobId};
use windlass_store::{List, Listed, ReadEvents, Store, StoreError};

/// Events per look: each may bring a mebibyte.
const EVENTS: usize = 100;
/// Where counting stops, for the bar.
const CAP: i64 = 1_000_000;

/// A job, where it has one, and what is wrong.
pub type Problem = (Option<String>, String);

/// Checks everything, and tells each job that is wrong.
pub async fn run(args: &VerifyArgs, settings: &Settings, out: &Out) -> Outcome {
    let client = open(settings, false, None).await?;
    let store = client.store();
    let mut problems = file(args, settings).await?;
    problems.extend(line(args, settings).await?);
    let counts = store.counts(CAP, None).await?;
    let total: i64 = counts.statuses.iter().map(|(_, count)| count.n).sum();
    let seals = Seals::look(store, args, out).await?;
    problems.extend(seals.problems().cloned());
    let bar = out.bar(total.unsigned_abs(), "jobs");
    let (mut checked, mut events, mut cursor) = (0u64, 0u64, None);
    let mut portions = seals.portions().await?;
    'pages: loop {
        let page = store.jobs(List { filter: Filter::default(), cursor, limit: PAGE_MAX }, None).await??;
        for listed in &page.items {
            if !portions.takes(listed.job.id) {
                continue;
            }
            portions.note(&listed.job);
            match check(store, listed).await? {
                Ok(read) => events += read,
                Err(why) => problems.push((Some(listed.job.id.to_string()), why)),
            }
            checked += 1;
            bar.inc(1);
            if problems.len() >= args.most {
                break 'pages;
            }
        }
        cursor = page.next;
        if cursor.is_none() && !portions.next(&mut problems).await? {
            break;
        }
    }
    bar.finish_and_clear();
    seals.write_head(args, problems.is_empty())?;
    tell(out, (checked, events), &seals, &problems)
}

fn tell(out: &Out, (checked, events): (u64, u64), seals: &Seals, problems: &[Problem]) -> Outcome {
    let shown = |(job, why): &(Option<String>, String)| json!({ "job_id": job, "problem": why });
    let problems_shown: Vec<_> = problems.iter().map(shown).collect();
    let answer =
        json!({ "jobs": checked, "events": events, "seals": seals.shown(), "problems": problems_shown });
    out.show(&answer, |out| {
        for (job, why) in problems {
            out.line(format!("{}  {why}", job.as_deref().unwrap_or("the store")));
        }
        match problems.len() {
            0 => {
                out.line(format!("{checked} jobs, {events} events: every job is what its log says"));
                out.line(seals.said());
            }
            n => out.line(format!(
                "{checked} jobs, {n} wrong; restore them from a back-up, and look who writes to the store"
            )),
        }
    });
    if problems.is_empty() { Ok(()) } else { Err(Failure::told()) }
}

/// The events of a job's log, or what is wrong with it.
async fn check(store: &Arc<dyn Store>, listed: &Listed) -> Outcome<Result<u64, String>> {
    let row = &listed.job;
    if let Some(why) = &listed.unreadable {
        return Ok(Err(format!("it does not read back: {why}")));
    }
    let (mut folded, mut version): (Option<Job>, i64) = (None, 0);
    while version < row.version {
        let request = ReadEvents { job: row.id, after: version, limit: EVENTS, newest_first: false };
        let events = match store.events(request, None).await {
            Ok(events) => events,
            Err(corrupt @ StoreError::Corrupt { .. }) => return Ok(Err(corrupt.to_string())),
            Err(error) => return Err(error.into()),
        };
        if events.is_empty() {
            // A finished job may have been removed meanwhile, whole.
            let is_gone = store.job(row.id, None).await?.is_none();
            return Ok(if is_gone {
                Ok(0)
            } else {
                Err(format!("its log ends at version {version} of {}", row.version))
            });
        }
        for event in events.iter().take_while(|event| event.version <= row.version) {
            if event.version != version + 1 {
                return Ok(Err(format!("its log goes from version {version} to {}", event.version)));
            }
            version = event.version;
            if let EventKind::Unreadable(stored) = &event.what {
                return Ok(Err(format!("version {version} of its log does not read back: {stored}")));
            }
            match &mut folded {
                Some(job) => job.apply(event),
                None => {
                    let is_same =
                        matches!(&event.what, EventKind::JobCreated(facts) if **facts == listed.facts);
                    if !is_same {
                        return Ok(Err("its log does not begin with what the job is".to_owned()));
                    }
                    folded = Job::created(event);
                }
            }
        }
    }
    if let Some(ahead) = ahead(store, row).await? {
        return Ok(Err(format!(
            "its log is ahead of its row: it has version {ahead}, the row is at {}",
            row.version
        )));
    }
    match folded {
        Some(job) if job.folded() == row.folded() => Ok(Ok(version.unsigned_abs())),
        Some(job) => Ok(Err(format!(
            "the row is not the fold of its log: {}",
            differences(&row.folded(), &job.folded())
        ))),
        None => Ok(Err("it has no log".to_owned())),
    }
}

/// The version of an event behind the row's, if the row has not moved on since it was read.
async fn ahead(store: &Arc<dyn Store>, row: &Job) -> Outcome<Option<i64>> {
    let request = ReadEvents { job: row.id, after: row.version, limit: 1, newest_first: false };
    let Some(event) = store.events(request, None).await?.pop() else { return Ok(None) };
    let now = match store.job(row.id, None).await {
        // What does not read back is found where the log is read.
        Err(StoreError::Corrupt { .. }) => None,
        view => view?.map(|view| view.job.version),
    };
    Ok(now.filter(|version| *version < event.version).map(|_| event.version))
}

/// The fields that differ, by their debug text, shortened.
fn differences(row: &Job, log: &Job) -> String {
    let lines =
        |job: &Job| format!("{job:#?}").lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let (row, log) = (lines(row), lines(log));
    let differing = row.iter().zip(&log).filter(|(row, log)| row != log);
    differing.take(5).map(|(row, log)| format!("row {row} log {log}")).collect::<Vec<_>>().join("; ")
}

/// What SQLite itself says about its file.
async fn file(args: &VerifyArgs, settings: &Settings) -> Outcome<Vec<(Option<String>, String)>> {
    let Some(path) = settings.store.value.strip_prefix("sqlite:") else { return Ok(Vec::new()) };
    let path = path.strip_prefix("//").unwrap_or(path).to_owned();
    let opened =
        tokio::task::spawn_blocking(move || windlass_sqlite::Options::new(path).create(false).open()).await;
    let store = opened
        .map_err(|e| Failure::failed(e.to_string()))?
        .map_err(|e| Failure::unavailable(e.to_string()))?;
    let said = store.integrity().await?;
    if said != "ok" {
        return Ok(vec![(None, said)]);
    }
    Ok(store.unexplained(args.most).await?.into_iter().map(named).collect())
}

fn named((job, why): (Option<JobId>, String)) -> (Option<String>, String) {
    (job.map(|job| job.to_string()), why)
}

/// What only points at jobs, compared with them (PostgreSQL).
async fn line(args: &VerifyArgs, settings: &Settings) -> Outcome<Vec<(Option<String>, String)>> {
    if !settings.store.value.starts_with("postgres") {
        return Ok(Vec::new());
    }
    let mut options =
        windlass_postgres::Options::new(&settings.store.value).migrate(false).listen(false).pool(1);
    if let Some(schema) = &settings.schema {
        options = options.schema(&schema.value);
    }
    let store = options.open().await.map_err(|e| Failure::unavailable(e.to_string()))?;
    if args.mend {
        store.mend_line().await?;
    }
    let most = i64::try_from(args.most).unwrap_or(i64::MAX);
    let strays = store.out_of_line(most).await?;
    let problem =
        |(job, why): (JobId, String)| (Some(job.to_string()), format!("{why}; run `windlass verify --mend`"));
    let unexplained = store.unexplained(args.most).await?.into_iter().map(named);
    Ok(strays.into_iter().map(problem).chain(unexplained).collect())
}
