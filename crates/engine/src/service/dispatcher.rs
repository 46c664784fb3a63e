//! Assigns due jobs of push queues to workers, while this process leads.
//!
//! What it knows is only what it reads anew each time, so another leader goes on where this one stopped. A job that is
//! assigned belongs to its worker until that starts it; if the worker is gone by the time it should have, the sweeper makes
//! the job an orphan, and it is assigned again here.

use crate::service::{Leading, LiveSettings};
use crate::shutdown::Shutdown;
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use windlass_core::dispatch::{give, has_room};
use windlass_core::{Answer, Done, JobId, Refusal, Status, Who};
use windlass_store::{
    Assign, Candidate, ReadUnassigned, Store, StoreResult, Unassigned, UnassignedPage, UnassignedPlace,
};

/// How often it looks when nothing hints at a job.
const IDLE: Duration = Duration::from_secs(1);
/// How soon it looks again after it assigned something.
const AGAIN: Duration = Duration::from_millis(10);
/// How often it looks at most while hints come and nothing is due here.
const QUIET: Duration = Duration::from_millis(100);
/// How often it looks at most while jobs wait and no worker has room.
const FULL: Duration = Duration::from_millis(250);
/// How many jobs of a queue it looks at in one go.
const PAGE: usize = 500;
/// How many times it goes on in a look. What stands behind waits until jobs before it are gone.
const PAGES: usize = 20;

/// Assigns jobs.
#[derive(Debug)]
pub struct Dispatcher {
    store: Arc<dyn Store>,
    leading: Leading,
    settings: LiveSettings,
}

/// What a look came to.
enum Looked {
    /// No queue is in mode push.
    NoQueue,
    /// So many jobs were assigned, or are back in line, and whether others wait for a worker.
    Moved(usize, bool),
}

impl Dispatcher {
    /// Assigns jobs of this store while this process leads.
    pub fn new(store: Arc<dyn Store>, leading: Leading, settings: LiveSettings) -> Self {
        Self { store, leading, settings }
    }

    /// Assigns until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.dispatch(epoch)).await;
        }
    }

    async fn dispatch(&self, epoch: i64) {
        let mut hints = self.store.hints().due;
        let (mut told, mut pause) = (false, AGAIN);
        loop {
            hints.borrow_and_update();
            match self.look(epoch).await {
                // Hints come with every job of every queue: here they say nothing.
                Ok(Looked::NoQueue) => sleep(IDLE).await,
                Ok(Looked::Moved(0, false)) => {
                    // Most hints are of other queues: after some in vain it looks ten times a second at most.
                    sleep(pause).await;
                    pause = (pause * 2).min(QUIET);
                    if let Ok(Err(_)) = timeout(IDLE, hints.changed()).await {
                        sleep(IDLE).await;
                    }
                }
                Ok(Looked::Moved(moved, _)) => {
                    // A worker has room again when a job ends, which nothing hints at.
                    pause = if moved > 0 { AGAIN } else { (pause * 2).min(FULL) };
                    sleep(pause).await;
                }
                Err(error) => {
                    if !told {
                        tracing::warn!(%error, "jobs cannot be assigned; it is tried again until they can");
                    }
                    told = true;
                    sleep(IDLE).await;
                    continue;
                }
            }
            told = false;
        }
    }

    /// Looks at what is due, page by page, until no worker has room.
    async fn look(&self, epoch: i64) -> StoreResult<Looked> {
        let (mut after, mut candidates, mut moved, mut left) = (Vec::new(), None, 0, false);
        for _ in 0..PAGES {
            let read = ReadUnassigned { after: after.clone(), limit: PAGE };
            let UnassignedPage { queues, jobs } = self.store.unassigned(read, None).await?;
            if queues.is_empty() {
                return Ok(Looked::NoQueue);
            }
            if jobs.is_empty() {
                break;
            }
            let candidates: &mut Vec<Candidate> = match &mut candidates {
                Some(known) => known,
                none => none.insert(self.store.candidates(queues, None).await?),
            };
            let given = |job: &Unassigned| Some((job.id, give(job, candidates)?));
            let items: Vec<(JobId, Who)> = jobs.iter().filter_map(given).collect();
            left |= items.len() < jobs.len();
            if !items.is_empty() {
                moved += self.assign(epoch, items).await?;
            }
            let more = go_on(&mut after, &jobs);
            if !more || !has_room(candidates) {
                break;
            }
        }
        Ok(Looked::Moved(moved, left))
    }

    /// Assigns these, and answers how many moved. What was refused has changed since it was looked at.
    async fn assign(&self, epoch: i64, items: Vec<(JobId, Who)>) -> StoreResult<usize> {
        let lapse_ms = self.settings.now().await.reassign_after_ms;
        let answers =
            self.store.assign(Assign { term: Leading::term(), epoch, items, lapse_ms }, None).await?;
        if let Some(Err(refusal @ Refusal::StaleEpoch(_))) = answers.first() {
            tracing::warn!(epoch, %refusal, "assigned nothing");
        }
        let moved = |answer: &Answer| match answer {
            Ok(Done::Moved(_, to)) => Some(*to),
            _ => None,
        };
        let moved: Vec<Status> = answers.iter().filter_map(moved).collect();
        let assigned = moved.iter().filter(|to| **to == Status::Assigned).count();
        counter!("windlass_assigned_total").increment(assigned as u64);
        Ok(moved.len())
    }
}

/// Moves the places behind these jobs. Says whether a queue may have more.
fn go_on(after: &mut Vec<UnassignedPlace>, jobs: &[Unassigned]) -> bool {
    let mut more = false;
    for line in jobs.chunk_by(|a, b| a.queue == b.queue) {
        more |= line.len() >= PAGE;
        if let Some(Unassigned { id, queue, priority, due_at, .. }) = line.last() {
            after.retain(|place| place.queue != *queue);
            after.push(UnassignedPlace {
                queue: queue.clone(),
                priority: *priority,
                due_at: *due_at,
                id: *id,
            });
        }
    }
    more
}
