//! Removes finished jobs whose time is over, and moves old log lines, each archived first, while this process leads.
//!
//! Nothing goes unless the settings say so. While the archive is full, away or not named, nothing is
//! removed either: that is in the log, in a metric, and found by `windlass doctor`.

use crate::archive::Archive;
use crate::logs::{LogMover, MovedLogs};
use crate::prune::{PruneError, Pruned, Pruner};
use crate::service::{Leading, LiveSettings};
use crate::shutdown::Shutdown;
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use windlass_core::Timestamp;
use windlass_core::retention::{RetentionRule, deciding, is_over};
use windlass_core::settings::Settings;
use windlass_store::{ForgetTombstones, Store, fresh};

/// How often it looks for jobs whose time is over.
const EVERY: Duration = Duration::from_secs(60);
/// How often it looks whether the settings changed, which it acts on at once.
const LOOK: Duration = Duration::from_secs(2);

/// How many tombstones are forgotten in one go.
const FORGET: usize = 1_000;

/// Removes finished jobs.
#[derive(Debug)]
pub struct Retention {
    store: Arc<dyn Store>,
    leading: Leading,
    settings: LiveSettings,
    archive: Option<Arc<dyn Archive>>,
}

impl Retention {
    /// Removes finished jobs of this store while this process leads, to this archive.
    pub fn new(
        store: Arc<dyn Store>,
        leading: Leading,
        settings: LiveSettings,
        archive: Option<Arc<dyn Archive>>,
    ) -> Self {
        Self { store, leading, settings, archive }
    }

    /// Removes until it is to end. A pass that is interrupted is gone on with by the next leader.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.keep_removing(epoch)).await;
        }
    }

    async fn keep_removing(&self, epoch: i64) {
        let mut last: Option<(Instant, Arc<Settings>)> = None;
        let mut said: Option<String> = None;
        loop {
            let settings = self.settings.now().await;
            let is_due = last.as_ref().is_none_or(|(at, passed)| {
                at.elapsed() >= EVERY || what_matters(passed) != what_matters(&settings)
            });
            if is_due {
                last = Some((Instant::now(), Arc::clone(&settings)));
                self.pass_and_report(epoch, &settings, &mut said).await;
            }
            sleep(LOOK).await;
        }
    }

    /// One pass over all rules. The same trouble is logged once.
    async fn pass_and_report(&self, epoch: i64, settings: &Settings, said: &mut Option<String>) {
        let (mut done, mut lines) = (Pruned::default(), MovedLogs::default());
        let passed = async {
            let Some(now) = self.now(epoch).await? else { return Ok(()) };
            self.pass(settings, now, &mut done).await?;
            self.move_logs(epoch, settings, now, &mut lines).await?;
            self.forget(epoch, settings, now).await
        };
        let passed = passed.await;
        counter!("windlass_retention_removed_total").increment((done.removed + done.resumed) as u64);
        counter!("windlass_retention_archived_total").increment(done.archived as u64);
        counter!("windlass_retention_log_lines_total").increment(lines.moved.unsigned_abs());
        gauge!("windlass_retention_failing").set(if passed.is_err() { 1.0 } else { 0.0 });
        if done.removed + done.resumed > 0 {
            let (removed, resumed, archived) = (done.removed, done.resumed, done.archived);
            tracing::info!(removed, resumed, archived, "finished jobs were removed");
        }
        if lines != MovedLogs::default() {
            let MovedLogs { moved, resumed, waiting } = lines;
            tracing::info!(moved, resumed, waiting, "log lines moved to the archive");
        }
        for (job, refusal) in &done.stayed {
            tracing::info!(%job, %refusal, "a job that was archived stays; it is archived again when it goes");
        }
        match passed {
            Ok(()) => *said = None,
            Err(error) => {
                counter!("windlass_retention_failures_total").increment(1);
                let error = error.to_string();
                if said.as_ref() != Some(&error) {
                    tracing::error!(%error, "finished jobs stay in the store, and so do old log lines; it is tried again every minute");
                    *said = Some(error);
                }
            }
        }
    }

    /// The moment by which ages are judged; none if another process leads by now. It is this machine's, but not beyond the end of
    /// the term, which the store's clock gave: where the clock of this machine runs ahead, nothing goes early by more than a term.
    async fn now(&self, epoch: i64) -> Result<Option<Timestamp>, PassError> {
        let term = self.store.term(Leading::term(), None).await.map_err(PruneError::from)?;
        let term = term.filter(|term| term.epoch == epoch);
        Ok(term.map(|term| fresh::wall_clock().min(term.expires_at)))
    }

    /// Moves log lines to the archive that are old.
    async fn move_logs(
        &self,
        epoch: i64,
        settings: &Settings,
        now: Timestamp,
        lines: &mut MovedLogs,
    ) -> Result<(), PassError> {
        let Some(kept_ms) = settings.log_bodies_kept_ms else { return Ok(()) };
        let archive = self.archive.as_ref().ok_or(PassError::NoArchiveForLogs)?;
        let mover = LogMover::new(Arc::clone(&self.store), Arc::clone(archive), epoch);
        Ok(mover.run(now.plus_ms(-kept_ms), lines).await?)
    }

    /// Forgets tombstones that are old.
    async fn forget(&self, epoch: i64, settings: &Settings, now: Timestamp) -> Result<(), PassError> {
        let Some(kept_ms) = settings.tombstones_kept_ms else { return Ok(()) };
        let before = now.plus_ms(-kept_ms);
        loop {
            let wish = ForgetTombstones { term: Leading::term(), epoch, before, limit: FORGET };
            match self.store.forget_tombstones(wish, None).await.map_err(PruneError::from)? {
                Ok(gone) if gone == FORGET => {}
                _ => return Ok(()),
            }
        }
    }

    async fn pass(&self, settings: &Settings, now: Timestamp, done: &mut Pruned) -> Result<(), PassError> {
        if settings.retention.iter().all(|rule| rule.keep_ms.is_none()) {
            return Ok(());
        }
        let archive = match (&self.archive, settings.retention_archive) {
            (Some(archive), true) => Some(Arc::clone(archive)),
            (None, true) => return Err(PassError::NoArchive),
            (_, false) => None,
        };
        let pruner = Pruner::new(Arc::clone(&self.store), archive);
        pruner.resume(done).await?;
        let unread = pruner.unread().await.map_err(PruneError::from)?.map(|(_, before)| before);
        for rule in &settings.retention {
            let Some(mut filter) = rule.filter(now) else { continue };
            filter.finished_before = filter.finished_before.map(|at| unread.map_or(at, |read| at.min(read)));
            let rules = &settings.retention;
            let may_go =
                |job: &windlass_core::Job| is_decided_by(rules, rule, job) && is_over(rules, job, now);
            pruner.remove(filter, may_go, |_| {}, done).await?;
        }
        Ok(())
    }
}

/// What of the settings a pass goes by.
fn what_matters(settings: &Settings) -> (&[RetentionRule], bool, [Option<i64>; 2]) {
    let kept = [settings.tombstones_kept_ms, settings.log_bodies_kept_ms];
    (&settings.retention, settings.retention_archive, kept)
}

fn is_decided_by(rules: &[RetentionRule], rule: &RetentionRule, job: &windlass_core::Job) -> bool {
    deciding(rules, job).is_some_and(|found| std::ptr::eq(found, rule))
}

/// Why a pass removed no more.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(
        "no archive is named: start this server with --archive PLACE, or let jobs go unarchived with \
         `windlass settings set retention_archive=false`"
    )]
    NoArchive,
    #[error(
        "log lines are to move to the archive, and none is named: start this server with --archive PLACE, or keep them with \
         `windlass settings set log_bodies_kept=default`"
    )]
    NoArchiveForLogs,
    #[error(transparent)]
    Prune(#[from] PruneError),
}
