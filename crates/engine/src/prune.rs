//! Removes finished jobs in small batches, each archived first: what `windlass prune` and the retention service share.

use crate::archive::{Archive, ArchiveError, Lines, Segment, SegmentWriter, erase_in, find_interrupted};
use crate::erase::is_erased;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;
use windlass_core::{Event, Filter, Job, JobId, LogLine, Name, Refusal, Timestamp, Version};
use windlass_store::{Archived, List, Purge, ReadEvents, ReadFeed, ReadLogs, Store, StoreError, StoreResult};

/// Jobs that are looked at, and removed, at once.
const PAGE: usize = 100;
/// Jobs that are read side by side.
const READS: usize = 8;
/// How long before the first event that a reader has not read nothing is removed.
const MARGIN_MS: i64 = 60_000;

/// What was done.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Pruned {
    /// Jobs that were to go.
    pub matched: usize,
    /// Jobs that were archived.
    pub archived: usize,
    /// Jobs that were removed.
    pub removed: usize,
    /// Jobs that were removed now, and archived by an earlier run that was interrupted.
    pub resumed: usize,
    /// Jobs that were archived and stayed, because they changed since or are locked.
    pub stayed: Vec<(JobId, Refusal)>,
    /// The segments that were written.
    pub segments: Vec<String>,
}

/// Why nothing more was removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// The archive did not take a segment.
    #[error("{0}; what is not archived stays in the store")]
    Archive(#[from] ArchiveError),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store refused the question.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Removes finished jobs.
#[derive(Debug, Clone)]
pub struct Pruner {
    store: Arc<dyn Store>,
    archive: Option<Arc<dyn Archive>>,
}

impl Pruner {
    /// Removes from this store what was brought to this archive first; nothing is kept of them without one.
    pub fn new(store: Arc<dyn Store>, archive: Option<Arc<dyn Archive>>) -> Self {
        Self { store, archive }
    }

    /// Before when jobs must have ended so that every reader of the feed has seen them, and which reader is furthest
    /// behind; none when all have read everything.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn unread(&self) -> StoreResult<Option<(Name, Timestamp)>> {
        let mut oldest: Option<(Name, Timestamp)> = None;
        for place in self.store.places((), None).await? {
            let read = ReadFeed { after: place.cursor, limit: 1, payloads: false };
            // A reader whose place is of no use begins again elsewhere.
            let Ok(page) = self.store.feed(read, None).await? else { continue };
            if let Some(fed) = page.events.first()
                && oldest.as_ref().is_none_or(|(_, at)| fed.event.at < *at)
            {
                oldest = Some((place.reader, fed.event.at));
            }
        }
        Ok(oldest.map(|(reader, at)| (reader, at.plus_ms(-MARGIN_MS))))
    }

    /// Removes what an interrupted run archived and did not remove.
    ///
    /// # Errors
    /// If the archive cannot be read, or the store does not answer.
    pub async fn resume(&self, done: &mut Pruned) -> Result<(), PruneError> {
        let Some(archive) = &self.archive else { return Ok(()) };
        for segment in find_interrupted(&**archive).await? {
            let stayed = done.stayed.len();
            done.resumed += self.purge(&segment.jobs, Some(&segment.name), done).await?;
            self.forget_erased(&segment.name, &done.stayed[stayed..]).await?;
            segment.forget(&**archive).await?;
        }
        Ok(())
    }

    /// Removes what is in the list and may go, batch by batch; each is reported when it is done.
    ///
    /// # Errors
    /// If the archive did not take a segment or the store does not answer. What was removed before was archived.
    pub async fn remove(
        &self,
        filter: Filter,
        may_go: impl Fn(&Job) -> bool + Send,
        mut report: impl FnMut(&Pruned) + Send,
        done: &mut Pruned,
    ) -> Result<(), PruneError> {
        let mut list = List { filter, cursor: None, limit: PAGE };
        let mut batch = Batch::default();
        loop {
            let page = self.store.jobs(list.clone(), None).await??;
            list.cursor = page.next;
            let jobs: Vec<Job> = page.items.into_iter().map(|one| one.job).filter(&may_go).collect();
            batch.jobs.extend(jobs.iter().map(|job| (job.id, job.version)));
            if self.archive.is_some() {
                let whole: Vec<Archived> =
                    stream::iter(jobs).map(|job| self.whole(job)).buffered(READS).try_collect().await?;
                whole.iter().for_each(|job| batch.writer.add(job));
            }
            let is_end = list.cursor.is_none();
            if is_end || batch.writer.is_full() || self.archive.is_none() {
                self.finish(std::mem::take(&mut batch), done).await?;
            }
            report(done);
            if is_end {
                return Ok(());
            }
        }
    }

    /// Makes a batch durable, then removes it from the store.
    async fn finish(&self, batch: Batch, done: &mut Pruned) -> Result<(), PruneError> {
        if batch.jobs.is_empty() {
            return Ok(());
        }
        done.matched += batch.jobs.len();
        let mut segment: Option<Segment> = None;
        if let Some(archive) = &self.archive {
            let written = batch.writer.close(&**archive).await?;
            done.archived += written.jobs.len();
            done.segments.push(written.name.clone());
            segment = Some(written);
        }
        let archive = segment.as_ref().map(|segment| segment.name.as_str());
        let stayed = done.stayed.len();
        done.removed += self.purge(&batch.jobs, archive, done).await?;
        if let (Some(archive), Some(segment)) = (&self.archive, segment) {
            self.forget_erased(&segment.name, &done.stayed[stayed..]).await?;
            segment.forget(&**archive).await?;
        }
        Ok(())
    }

    /// Removes jobs that are as they were archived, and answers how many.
    async fn purge(
        &self,
        jobs: &[(JobId, Version)],
        archive: Option<&str>,
        done: &mut Pruned,
    ) -> StoreResult<usize> {
        let mut removed = 0;
        for page in jobs.chunks(PAGE) {
            let purge = Purge { jobs: page.to_vec(), archive: archive.map(str::to_owned) };
            let answers = self.store.purge(purge, None).await?;
            for ((id, _), answer) in page.iter().zip(answers) {
                match answer {
                    Ok(()) => removed += 1,
                    // An interrupted run, or another process, removed it.
                    Err(Refusal::NotFound) => {}
                    Err(refusal) => done.stayed.push((*id, refusal)),
                }
            }
        }
        Ok(removed)
    }

    /// Takes out of a segment what was erased in the store while the segment was written.
    async fn forget_erased(&self, segment: &str, stayed: &[(JobId, Refusal)]) -> Result<(), PruneError> {
        let Some(archive) = &self.archive else { return Ok(()) };
        for (id, refusal) in stayed {
            let has_changed = matches!(refusal, Refusal::VersionMismatch(_));
            if has_changed && is_erased(&*self.store, &**archive, *id).await? {
                erase_in(&**archive, segment, *id, &Lines::Go).await?;
            }
        }
        Ok(())
    }

    /// A finished job with its log and its log lines.
    async fn whole(&self, job: Job) -> StoreResult<Archived> {
        let mut events: Vec<Event> = Vec::new();
        while (events.len() as i64) < job.version {
            let after = events.last().map_or(0, |event| event.version);
            let read = ReadEvents { job: job.id, after, limit: 100, newest_first: false };
            let page = self.store.events(read, None).await?;
            if page.is_empty() {
                break;
            }
            events.extend(page.into_iter().filter(|event| event.version <= job.version));
        }
        let mut logs: Vec<LogLine> = Vec::new();
        loop {
            let after = logs.last().map_or(0, |log| log.n);
            let page = self.store.logs(ReadLogs { job: job.id, after, limit: 1_000 }, None).await?;
            if page.is_empty() {
                // After the lines: one that moves meanwhile is then in both places, never in neither.
                let log_parts = self.store.log_parts(job.id, None).await?;
                return Ok(Archived { job, events, logs, log_parts });
            }
            logs.extend(page);
        }
    }
}

/// Jobs that go together, and what is kept of them.
#[derive(Default)]
struct Batch {
    writer: SegmentWriter,
    jobs: Vec<(JobId, Version)>,
}
