//! Cancels of jobs that this worker holds, long before the next renewal would tell of them.
//!
//! A cancel writes an event, and a store hints at events. So there is something to look for only after a hint. A job that
//! was taken while hints gathered is looked at the next time. Hints can be lost: then the next renewal tells.

use crate::attempt::Attempt;
use crate::holdings::Holdings;
use crate::lanes::Lines;
use crate::reach::Reach;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Filter, JobId, Status, Who};
use windlass_store::{List, Store, StoreResult};

/// How long hints gather before one look.
const GATHER: Duration = Duration::from_millis(500);

/// Who looks.
pub(crate) struct Watcher {
    pub(crate) reach: Arc<Reach>,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) identity: Who,
}

/// Looks until the worker has ended.
pub(crate) async fn watch(watcher: Arc<Watcher>) {
    // Through a server, renewals tell.
    let Some(store) = &watcher.reach.store else { return std::future::pending().await };
    let mut hints = store.hints().feed;
    // What was cancelled before it listened is looked for once.
    let mut some_were_young = true;
    while some_were_young || hints.changed().await.is_ok() {
        tokio::time::sleep(GATHER).await;
        hints.mark_unchanged();
        let gathered_since = Instant::now() - GATHER;
        let held = watcher.holdings.leases.running().into_iter().filter(|attempt| !attempt.is_cancelled());
        // Most jobs end soon, and to list them all the time would cost more than they do.
        let is_old = |attempt: &Attempt| attempt.known_since().is_some_and(|since| since <= gathered_since);
        let (old, young): (Vec<_>, Vec<_>) = held.partition(is_old);
        some_were_young = !young.is_empty();
        if old.is_empty() {
            continue;
        }
        let old = old.into_iter().map(|attempt| (attempt.job_id(), attempt)).collect();
        if let Err(error) = look(&watcher, &**store, &old).await {
            tracing::debug!(%error, "held jobs could not be looked at; the next renewal tells of cancels");
        }
    }
    // Nobody hints here, so renewals are all there is.
    std::future::pending().await
}

async fn look(watcher: &Watcher, store: &dyn Store, held: &HashMap<JobId, Attempt>) -> StoreResult<()> {
    let (worker_id, statuses) = (Some(watcher.identity.clone()), vec![Status::Running]);
    let mut list =
        List { filter: Filter { worker_id, statuses, ..Filter::default() }, cursor: None, limit: PAGE_MAX };
    let mut any = false;
    loop {
        let Ok(page) = watcher.reach.ask(store.jobs(list.clone(), None)).await? else { break };
        for listed in page.items.iter().filter(|listed| listed.job.cancel_requested_at.is_some()) {
            if let Some(attempt) = held.get(&listed.job.id)
                && attempt.number() == listed.job.attempt
            {
                attempt.control().cancel();
                any = true;
            }
        }
        list.cursor = page.next;
        if list.cursor.is_none() {
            break;
        }
    }
    if any {
        // Those that wait for a lane end without one.
        watcher.holdings.give_back(watcher.lines.take_back(Some(Instant::now())));
    }
    Ok(())
}
