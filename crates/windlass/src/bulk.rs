//! Cancelling or redriving everything that a filter matches, and removing finished jobs. Each can be tried without doing it.

use crate::client::Client;
use crate::enqueue::millis;
use crate::error::Result;
use crate::operate::fresh_key;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::bulk::BulkAction;
use windlass_core::limits::{HORIZON_MS, PAGE_MAX, within};
use windlass_core::{Filter, JobId, Key, Metadata, Name, Status, Timestamp};
use windlass_engine::BoxError;
use windlass_engine::bulk::BulkPlan;
use windlass_store::fresh::wall_clock;
use windlass_store::{Archived, List, Purge, ReadArchive, WriteAudit};

/// How many jobs are acted on at once.
const AT_ONCE: usize = 32;
/// How many are shown as a sample.
const SAMPLE: usize = 10;
/// How many jobs are read whole at once before they are removed.
const WHOLE_AT_ONCE: usize = 100;

impl Client {
    /// Cancels everything that a filter matches, when awaited. Without a status in the filter: every live job.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)] struct Resize;
    /// # impl windlass::Job for Resize { const KIND: &str = "resize"; type Output = (); }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// use windlass::{Filter, Name};
    ///
    /// client.enqueue_many((0..3).map(|_| Resize)).await?;
    /// let resizes = Filter { kind: Some(Name::parse("kind", "resize")?), ..Filter::default() };
    /// assert_eq!(client.cancel_all(resizes.clone()).dry_run().await?.matched, 3);
    /// assert_eq!(client.cancel_all(resizes).reason("wrong cats").await?.done, 3);
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub fn cancel_all(&self, filter: Filter) -> Bulk {
        Bulk::new(self.clone(), filter, BulkAction::Cancel)
    }

    /// Sends back everything dead or cancelled that a filter matches, when awaited. Without a status in the filter: what
    /// failed or timed out.
    pub fn redrive_all(&self, filter: Filter) -> Bulk {
        Bulk::new(self.clone(), filter, BulkAction::Redrive)
    }

    /// Removes jobs that finished longer ago than this, whole, when awaited.
    ///
    /// ```
    /// # use std::io::Write;
    /// # use std::time::Duration;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// let month = Duration::from_secs(30 * 86_400);
    /// println!("{} jobs are older than a month", client.prune(month).dry_run().await?);
    /// let removed = client.prune(month).archive(|job| writeln!(std::io::stdout(), "{} ended", job.job.id)).await?;
    /// # assert_eq!(removed, 0);
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub fn prune(&self, older_than: Duration) -> Prune {
        Prune { client: self.clone(), older_than, is_dry: false, archive: None }
    }
}

/// What was found and done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkDone {
    /// Jobs that the filter matches and the action is for.
    pub matched: usize,
    /// Some of them.
    pub sample: Vec<JobId>,
    /// Jobs that were acted on.
    pub done: usize,
    /// Jobs that had moved on meanwhile.
    pub skipped: usize,
}

/// Acts on everything that a filter matches, when awaited. Made by [`Client::cancel_all`] and [`Client::redrive_all`].
#[derive(Debug)]
#[must_use = "nothing is done before it is awaited"]
pub struct Bulk {
    client: Client,
    filter: Filter,
    action: BulkAction,
    is_dry: bool,
    reason: Option<String>,
    run_at: Option<Timestamp>,
    spread_ms: i64,
}

impl Bulk {
    fn new(client: Client, filter: Filter, action: BulkAction) -> Self {
        Self { client, filter, action, is_dry: false, reason: None, run_at: None, spread_ms: 0 }
    }

    /// Counts, and does nothing.
    pub fn dry_run(mut self) -> Self {
        self.is_dry = true;
        self
    }

    /// Why: for the log of cancelled jobs, and for the audit.
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// From when redriven jobs may run, instead of at once.
    pub fn run_at(mut self, time: impl Into<Timestamp>) -> Self {
        self.run_at = Some(time.into());
        self
    }

    /// Over which period redriven jobs are spread, so that what they call is not overrun.
    pub fn spread(mut self, period: Duration) -> Self {
        self.spread_ms = millis(period, HORIZON_MS);
        self
    }

    async fn run(mut self) -> Result<BulkDone> {
        within("spread", self.spread_ms, 0, HORIZON_MS)?;
        if self.filter.statuses.is_empty() {
            self.filter.statuses = self.action.usual();
        }
        let key = fresh_key()?;
        let (mut done, mut cursor) = (BulkDone::default(), None);
        loop {
            let list = List { filter: self.filter.clone(), cursor, limit: PAGE_MAX };
            let page = self.client.repeat(|| self.client.store().jobs(list.clone(), None)).await??;
            let matched =
                page.items.iter().filter(|listed| self.action.is_for_found(&listed.job, &self.filter));
            let matched: Vec<JobId> = matched.map(|listed| listed.job.id).collect();
            done.matched += matched.len();
            done.sample.extend(matched.iter().take(SAMPLE.saturating_sub(done.sample.len())));
            if !self.is_dry {
                let acts = stream::iter(matched.into_iter().map(|job| self.act(job, key.clone())));
                let mut acts = acts.buffer_unordered(AT_ONCE);
                while let Some(acted) = acts.try_next().await? {
                    // One that moved on meanwhile is none of this action's business.
                    if acted { done.done += 1 } else { done.skipped += 1 }
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        if done.done > 0 {
            self.put_on_record(&done).await?;
        }
        Ok(done)
    }

    /// Acts on one job, and answers whether it let itself be acted on.
    async fn act(&self, job: JobId, key: Key) -> Result<bool> {
        let plan = BulkPlan {
            action: self.action,
            run_at: self.run_at,
            spread_ms: self.spread_ms,
            reason: self.reason.clone(),
            actor: self.client.actor(),
        };
        let store = &**self.client.store();
        let answer = self.client.repeat_on(job, || plan.act(store, job, &key)).await?;
        Ok(answer.is_ok())
    }

    /// Operators' actions are on record; what became of each job is in the job's own log.
    async fn put_on_record(&self, done: &BulkDone) -> Result<()> {
        let queue = self.filter.queue.as_ref();
        let detail = Metadata::from_iter([
            ("matched".to_owned(), done.matched.into()),
            ("done".to_owned(), done.done.into()),
            ("skipped".to_owned(), done.skipped.into()),
            ("filter".to_owned(), format!("{:?}", self.filter).into()),
            ("reason".to_owned(), self.reason.clone().into()),
        ]);
        let audit = WriteAudit {
            actor: self.client.actor(),
            action: Name::parse("action", self.action.as_str())?,
            target: queue.map_or_else(|| "every queue".to_owned(), ToString::to_string),
            detail,
        };
        Ok(self.client.repeat(|| self.client.store().write_audit(audit.clone(), None)).await?)
    }
}

impl IntoFuture for Bulk {
    type Output = Result<BulkDone>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Keeps a job before it is removed.
type Archive = Arc<dyn Fn(&Archived) -> Result<(), BoxError> + Send + Sync>;

/// Removes finished jobs when awaited, and answers how many. Made by [`Client::prune`].
#[must_use = "nothing is removed before it is awaited"]
pub struct Prune {
    client: Client,
    older_than: Duration,
    is_dry: bool,
    archive: Option<Archive>,
}

impl Prune {
    /// Counts, and removes nothing.
    pub fn dry_run(mut self) -> Self {
        self.is_dry = true;
        self
    }

    /// Is given every job, with its log and its log lines, before it is removed. An error ends the pruning, and what was
    /// not kept stays.
    pub fn archive<E: Into<BoxError>>(
        mut self,
        keep: impl Fn(&Archived) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.archive = Some(Arc::new(move |job| keep(job).map_err(Into::into)));
        self
    }

    async fn run(self) -> Result<usize> {
        let age_ms = millis(self.older_than, HORIZON_MS);
        within("older_than", age_ms, 0, HORIZON_MS)?;
        let finished_before = wall_clock().plus_ms(-age_ms);
        if self.is_dry { self.count(finished_before).await } else { self.remove(finished_before).await }
    }

    async fn count(&self, finished_before: Timestamp) -> Result<usize> {
        let statuses = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
        let filter = Filter { statuses, finished_before: Some(finished_before), ..Filter::default() };
        let (mut count, mut cursor) = (0, None);
        loop {
            let page = self.client.jobs(filter.clone(), cursor).await?;
            count += page.items.len();
            cursor = page.next;
            if cursor.is_none() {
                return Ok(count);
            }
        }
    }

    async fn remove(&self, finished_before: Timestamp) -> Result<usize> {
        let (client, mut removed) = (&self.client, 0);
        let request = ReadArchive { finished_before, limit: WHOLE_AT_ONCE };
        loop {
            let whole = client.repeat(|| client.store().archive(request, None)).await?;
            let keep = self.archive.as_deref().unwrap_or(&|_| Ok(()));
            for job in &whole {
                keep(job).map_err(|why| crate::Error::Archive { job: job.job.id, why: why.to_string() })?;
            }
            let purge = Purge {
                jobs: whole.iter().map(|job| (job.job.id, job.job.version)).collect(),
                archive: None,
            };
            if purge.jobs.is_empty() {
                return Ok(removed);
            }
            let answers = client.repeat(|| client.store().purge(purge.clone(), None)).await?;
            let gone = answers.iter().filter(|answer| answer.is_ok()).count();
            removed += gone;
            if gone == 0 {
                // All of them were locked or came back: what is left is for another time.
                return Ok(removed);
            }
        }
    }
}

impl IntoFuture for Prune {
    type Output = Result<usize>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl std::fmt::Debug for Prune {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prune").field("older_than", &self.older_than).finish_non_exhaustive()
    }
}
