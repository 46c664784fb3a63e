//! Retention: whether jobs and log lines go whose time is over, and whether the archive takes them.

use super::{Finding, ago, ok, problem, warning};
use crate::fail::Outcome;
use crate::s3::S3;
use crate::settings::Settings;
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_core::retention::deciding;
use windlass_engine::archive::{Archive, ArchiveError};
use windlass_store::{List, ReadOldLogs, Store, fresh};

/// How long after its time a job may still be there: passes are a minute apart, and a long one takes a while.
const PATIENCE_MS: i64 = 3_600_000;
/// How many jobs are looked at per rule.
const LIMIT: usize = 1_000;

/// Looks at the rules, the archive, and what should be gone.
pub async fn look(store: &Arc<dyn Store>, settings: &Settings) -> Outcome<Vec<Finding>> {
    let state = store.settings((), None).await?.settings;
    let are_kept = state.retention.iter().all(|rule| rule.keep_ms.is_none());
    let mut findings = Vec::new();
    if (state.retention_archive && !are_kept) || state.log_bodies_kept_ms.is_some() {
        findings.push(of_archive(settings).await);
    }
    let now = fresh::wall_clock();
    if let Some(kept_ms) = state.log_bodies_kept_ms {
        findings.push(of_logs(store, now, kept_ms).await?);
    }
    if are_kept {
        findings.push(ok("retention", "finished jobs are kept for ever: no rule is set"));
        return Ok(findings);
    }
    let mut oldest: Option<Timestamp> = None;
    for rule in &state.retention {
        let Some(filter) = rule.filter(now.plus_ms(-PATIENCE_MS)) else { continue };
        let list = List { filter, cursor: None, limit: LIMIT };
        let Ok(page) = store.jobs(list, None).await? else { continue };
        let late = page.items.iter().map(|one| &one.job);
        let late = late.filter(|job| deciding(&state.retention, job) == Some(rule));
        oldest = oldest.into_iter().chain(late.filter_map(|job| job.finished_at)).min();
    }
    findings.push(match oldest {
        None => ok("retention", "no job is here whose time is over"),
        Some(at) => warning(
            "retention",
            format!("jobs are still here whose time is over, one of which ended {} ago", ago(at, now)),
            "start `windlass serve --archive PLACE`, or see in its log why the server that leads removes nothing",
        ),
    });
    Ok(findings)
}

/// Whether log lines are here that should be in the archive.
async fn of_logs(store: &Arc<dyn Store>, now: Timestamp, kept_ms: i64) -> Outcome<Finding> {
    let old = ReadOldLogs { before: now.plus_ms(-kept_ms - PATIENCE_MS), after: None, limit: 1 };
    Ok(match store.old_logs(old, None).await?.first() {
        None => ok("log lines", "no log line is here that should be in the archive"),
        Some((at, job)) => warning(
            "log lines",
            format!(
                "log lines should be in the archive, one of which job {job} printed {} ago",
                ago(*at, now)
            ),
            "start `windlass serve --archive PLACE`, or see in its log why the server that leads moves nothing",
        ),
    })
}

/// Whether the archive is there, as far as this machine can see.
async fn of_archive(settings: &Settings) -> Finding {
    let archive = match (settings.object_store(), settings.archive()) {
        (Err(failure), _) | (_, Err(failure)) => {
            let found = format!("{}: finished jobs and log lines stay in the store", failure.detail);
            return problem("archive", found, "name the archive as `windlass serve --help` says");
        }
        (Ok(Some(store)), _) => return of_objects(&store).await,
        (_, Ok(archive)) => archive,
    };
    let Some(archive) = archive else {
        let found =
            "jobs or log lines are to be archived before they are removed, and no archive is named here";
        return warning(
            "archive",
            found,
            "name the archive of your servers with --archive or WINDLASS_ARCHIVE",
        );
    };
    let folder = std::path::Path::new(settings.archive.as_ref().map_or("", |archive| archive.value.as_str()));
    // A parent of nothing is the folder that this runs in.
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    if !folder.exists() && parent.is_some_and(|parent| !parent.is_dir()) {
        return problem(
            "archive",
            format!("there is no folder {}, nor one around it: nothing goes there", archive.place()),
            "name the right folder, mount its disk, or make the folder if the archive is to begin there",
        );
    }
    if !folder.exists() {
        return warning(
            "archive",
            format!("{} is not there; it is made when the first file is written", archive.place()),
            "if there should be files already, name the right folder or mount its disk",
        );
    }
    match archive.list().await {
        Ok(names) => ok("archive", holds(&archive.place(), &names)),
        Err(error) => problem(
            "archive",
            format!("{error}: finished jobs and log lines stay in the store"),
            "mount the folder, or give the user of the server the right to read and write there",
        ),
    }
}

/// What an archive holds, in words.
fn holds(place: &str, names: &[String]) -> String {
    let of =
        |what: &str| names.iter().filter(|name| name.starts_with(what) && name.ends_with(".zst")).count();
    format!("{place} holds {} files of jobs and {} of log lines", of("jobs-"), of("logs-"))
}

/// Whether an object store is there, can be written to, and forgets what is erased.
async fn of_objects(store: &S3) -> Finding {
    let looked = async {
        let names = store.list().await?;
        store.check_conditions().await?;
        Ok::<_, ArchiveError>(names)
    };
    match looked.await {
        Err(error) => problem(
            "archive",
            format!("{error}: finished jobs and log lines stay in the store"),
            "start the object store, or name the right bucket, endpoint, region and key; nothing is removed until then",
        ),
        Ok(_) if store.keeps_versions().await == Some(true) => warning(
            "archive",
            format!("the bucket of {} keeps every version, so what is erased stays there", store.place()),
            "suspend its versioning, or let a lifecycle rule remove versions that are not current",
        ),
        Ok(names) => ok("archive", holds(&store.place(), &names)),
    }
}
