//! Idle work: jobs that have not ended, that nothing has happened to for long, and that no time will move.

use super::{Finding, ago, ok, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Filter, Job, Status};
use windlass_store::{List, Store, fresh};

/// How many pages of each list are looked at.
const PAGES: usize = 10;

/// Looks for jobs that stand since longer than this.
pub async fn look(store: &Arc<dyn Store>, idle_ms: i64) -> Outcome<Vec<Finding>> {
    let now = fresh::wall_clock();
    let (before, mut idle, mut oldest): (_, usize, Option<Job>) = (now.plus_ms(-idle_ms), 0, None);
    let cancel_after_ms = store.settings((), None).await?.settings.cancel_idle_after_ms;
    let lists =
        [vec![Status::Pending, Status::Retry, Status::Orphaned], vec![Status::Waiting, Status::Assigned]];
    for statuses in lists {
        let filter = Filter { statuses, created_before: Some(before), ..Filter::default() };
        let mut list = List { filter, cursor: None, limit: PAGE_MAX };
        for _ in 0..PAGES {
            let page = store.jobs(list.clone(), None).await??;
            for job in page.items.into_iter().map(|listed| listed.job).filter(|job| job.is_idle(idle_ms, now))
            {
                idle += 1;
                if oldest.as_ref().is_none_or(|other| job.updated_at < other.updated_at) {
                    oldest = Some(job);
                }
            }
            list.cursor = page.next;
            if list.cursor.is_none() {
                break;
            }
        }
    }
    let days = windlass_core::span::to_text(idle_ms);
    let then = match cancel_after_ms {
        Some(ms) => format!("the leader cancels them after {}", windlass_core::span::to_text(ms)),
        None => "they stay until somebody acts: the setting cancel_idle_after is not set".to_owned(),
    };
    Ok(vec![match oldest {
        None => ok("idle work", format!("no unfinished job stood still for longer than {days}")),
        Some(job) => warning(
            "idle work",
            format!(
                "{} stood still for longer than {days}, the oldest for {}: {} ({}, {}); {then}",
                super::counted(idle, "unfinished job"),
                ago(job.updated_at, now),
                job.id,
                job.kind,
                job.status
            ),
            "`windlass jobs show ID` says what it waits for; start a worker, signal it, or `windlass jobs cancel ID`",
        ),
    }])
}
