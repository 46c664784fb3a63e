//! Idle work: jobs that have not ended, that nothing has happened to for long, and that no time will move.

use super::{Finding, ago, ok, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Filter, Job, Status, Timestamp};
use windlass_store::{List, Store, fresh};

/// How many pages of each list are looked at.
const PAGES: usize = 10;

/// Looks for jobs that stand since longer than this.
pub async fn look(store: &Arc<dyn Store>, idle_ms: i64) -> Outcome<Vec<Finding>> {
    let now = fresh::wall_clock();
    let (before, mut idle, mut oldest): (_, usize, Option<Job>) = (now.plus_ms(-idle_ms), 0, None);
    let lists =
        [vec![Status::Pending, Status::Retry, Status::Orphaned], vec![Status::Waiting, Status::Assigned]];
    for statuses in lists {
        let filter = Filter { statuses, created_before: Some(before), ..Filter::default() };
        let mut list = List { filter, cursor: None, limit: PAGE_MAX };
        for _ in 0..PAGES {
            let page = store.jobs(list.clone(), None).await??;
            for job in page.items.into_iter().map(|listed| listed.job).filter(|job| is_idle(job, before, now))
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
    Ok(vec![match oldest {
        None => ok("idle work", format!("no unfinished job stood still for longer than {days}")),
        Some(job) => warning(
            "idle work",
            format!(
                "{} stood still for longer than {days}, the oldest for {}: {} ({}, {})",
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

/// What is due later, or has a deadline, moves by itself.
fn is_idle(job: &Job, before: Timestamp, now: Timestamp) -> bool {
    let later = |time: Option<Timestamp>| time.is_some_and(|time| time > now);
    job.updated_at < before && !later(job.due_at) && !later(job.deadline_at)
}
