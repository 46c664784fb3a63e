//! Retention: whether jobs go whose time is over, and whether the archive takes them.

use super::{Finding, ago, ok, problem, warning};
use crate::fail::Outcome;
use crate::settings::Settings;
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_core::retention::deciding;
use windlass_store::{List, Store, fresh};

/// How long after its time a job may still be there: passes are a minute apart, and a long one takes a while.
const PATIENCE_MS: i64 = 3_600_000;
/// How many jobs are looked at per rule.
const LIMIT: usize = 1_000;

/// Looks at the rules, the archive, and what should be gone.
pub async fn look(store: &Arc<dyn Store>, settings: &Settings) -> Outcome<Vec<Finding>> {
    let state = store.settings((), None).await?.settings;
    if state.retention.iter().all(|rule| rule.keep_ms.is_none()) {
        return Ok(vec![ok("retention", "finished jobs are kept for ever: no rule is set")]);
    }
    let mut findings = Vec::new();
    if state.retention_archive {
        findings.push(of_archive(settings).await);
    }
    let now = fresh::wall_clock();
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
            "start `windlass serve --archive DIR`, or see in its log why the server that leads removes nothing",
        ),
    });
    Ok(findings)
}

/// Whether the archive is there, as far as this machine can see.
async fn of_archive(settings: &Settings) -> Finding {
    let Some(archive) = settings.archive() else {
        let found = "jobs are to be archived before they are removed, and no archive is named here";
        return warning(
            "archive",
            found,
            "name the folder of your servers with --archive or WINDLASS_ARCHIVE",
        );
    };
    match archive.list().await {
        Ok(names) => {
            let segments = names.iter().filter(|name| name.ends_with(".zst")).count();
            ok("archive", format!("{} holds {segments} files of jobs", archive.place()))
        }
        Err(error) => problem(
            "archive",
            format!("{error}: finished jobs stay in the store"),
            "mount the folder, or give the user of the server the right to read and write there",
        ),
    }
}
