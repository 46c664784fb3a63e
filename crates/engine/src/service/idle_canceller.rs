//! Counts unfinished jobs that stand still, and cancels them where the settings say so, while this process leads.
//!
//! Each pass looks at a part of the unfinished jobs, and the next one goes on from there: a deep queue is never read whole. A
//! job that somebody keeps locked, or that moved meanwhile, is left to a later round.

use crate::service::{Leading, LiveSettings};
use crate::shutdown::Shutdown;
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use windlass_core::idle::{CancelIdle, IDLE_AFTER_MS};
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Done, Filter, Job, JobId, Refusal, Status};
use windlass_store::{List, Store, StoreError, fresh};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(60);
/// How often it looks whether the settings changed, which it acts on at once.
const LOOK: Duration = Duration::from_secs(2);
/// Pages of jobs that one pass looks at, at most.
const PAGES: usize = 20;
/// Jobs that are cancelled in one transaction, at most.
const TOGETHER: usize = 100;
/// The lists in which unfinished jobs stand that nobody holds.
const LISTS: [&[Status]; 2] =
    [&[Status::Pending, Status::Retry, Status::Orphaned], &[Status::Waiting, Status::Assigned]];

/// Cancels idle jobs.
#[derive(Debug)]
pub struct IdleCanceller {
    store: Arc<dyn Store>,
    leading: Leading,
    settings: LiveSettings,
}

/// How far a round over all unfinished jobs has come.
#[derive(Debug, Default)]
struct Round {
    list: usize,
    cursor: Option<String>,
    /// Idle jobs that were seen in it and stay.
    found: usize,
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl IdleCanceller {
    /// Looks at the jobs of this store while this process leads.
    pub fn new(store: Arc<dyn Store>, leading: Leading, settings: LiveSettings) -> Self {
        Self { store, leading, settings }
    }

    /// Looks until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.keep_looking(epoch)).await;
        }
    }

    async fn keep_looking(&self, epoch: i64) {
        let mut last: Option<(Instant, Option<i64>)> = None;
        let mut round = Round::default();
        loop {
            let cancel_after_ms = self.settings.now().await.cancel_idle_after_ms;
            let is_changed = last.is_some_and(|(_, passed)| passed != cancel_after_ms);
            if is_changed {
                round = Round::default();
            }
            if is_changed || last.is_none_or(|(at, _)| at.elapsed() >= EVERY) {
                last = Some((Instant::now(), cancel_after_ms));
                if let Err(error) = self.pass(epoch, cancel_after_ms, &mut round).await {
                    tracing::warn!(%error, "idle jobs could not be looked at; it is tried again in a minute");
                    round = Round::default();
                }
            }
            sleep(LOOK).await;
        }
    }

    /// Looks at some pages, and begins a new round at the end of the last list.
    async fn pass(
        &self,
        epoch: i64,
        cancel_after_ms: Option<i64>,
        round: &mut Round,
    ) -> Result<(), PassError> {
        let (idle_ms, now) = (cancel_after_ms.unwrap_or(IDLE_AFTER_MS), fresh::wall_clock());
        for _ in 0..PAGES {
            let statuses = LISTS[round.list].to_vec();
            let filter =
                Filter { statuses, created_before: Some(now.plus_ms(-idle_ms)), ..Filter::default() };
            let list = List { filter, cursor: round.cursor.take(), limit: PAGE_MAX };
            let page = self.store.jobs(list, None).await??;
            let readable = page.items.into_iter().filter(|listed| listed.unreadable.is_none());
            let idle: Vec<Job> =
                readable.map(|listed| listed.job).filter(|job| job.is_idle(idle_ms, now)).collect();
            round.found += idle.len();
            if cancel_after_ms.is_some() {
                let ids: Vec<JobId> =
                    idle.iter().filter(|job| !job.waits_for_jobs()).map(|job| job.id).collect();
                round.found -= self.cancel(epoch, idle_ms, &ids).await?;
            }
            round.cursor = page.next;
            if round.cursor.is_none() {
                round.list += 1;
            }
            if round.list == LISTS.len() {
                gauge!("windlass_idle_jobs").set(round.found as f64);
                *round = Round::default();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Cancels jobs in small batches; answers how many were.
    async fn cancel(&self, epoch: i64, idle_ms: i64, jobs: &[JobId]) -> Result<usize, PassError> {
        let mut cancelled = 0;
        for batch in jobs.chunks(TOGETHER) {
            match self.cancel_together(epoch, idle_ms, batch).await {
                Ok(done) => cancelled += done,
                Err(PassError::Store(StoreError::Unavailable(_))) if batch.len() == 1 => {}
                // One job's trouble is nobody else's.
                Err(PassError::Store(error)) => {
                    tracing::debug!(%error, "idle jobs are cancelled one by one");
                    cancelled += self.cancel_one_by_one(epoch, idle_ms, batch).await?;
                }
                Err(error) => return Err(error),
            }
        }
        counter!("windlass_idle_cancelled_total").increment(cancelled as u64);
        if cancelled > 0 {
            tracing::info!(cancelled, idle_ms, "idle jobs were cancelled, as the settings say");
        }
        Ok(cancelled)
    }

    async fn cancel_one_by_one(&self, epoch: i64, idle_ms: i64, jobs: &[JobId]) -> Result<usize, PassError> {
        let mut cancelled = 0;
        for job in jobs {
            match self.cancel_together(epoch, idle_ms, &[*job]).await {
                Ok(done) => cancelled += done,
                Err(PassError::Store(error)) => {
                    tracing::warn!(%job, %error, "an idle job could not be cancelled");
                    // The store's own trouble ends the pass.
                    self.store.settings((), None).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(cancelled)
    }

    async fn cancel_together(&self, epoch: i64, idle_ms: i64, jobs: &[JobId]) -> Result<usize, PassError> {
        let wish = CancelIdle { term: Leading::term(), epoch, idle_ms, jobs: jobs.to_vec() };
        let answers = self.store.cancel_idle(wish, None).await??;
        Ok(answers.iter().filter(|answer| matches!(answer, Ok(Done::Moved(..)))).count())
    }
}
