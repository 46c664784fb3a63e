//! Log lines in two places: the store has the recent ones, the archive those that are older than the settings say.

use crate::archive::{
    Archive, Lines, LogSegment, LogSegmentWriter, erase_in, find_interrupted_logs, find_logs,
};
use crate::erase::is_erased;
use crate::prune::PruneError;
use crate::service::Leading;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_core::logs::{LogRange, MoveLogs, merged, old_lines};
use windlass_core::{JobId, LogLine, LogPart, Refusal, Timestamp};
use windlass_store::{ReadLogs, ReadOldLogs, Store, StoreError};

/// Lines that are read at once, and the most that one stretch has.
const LINES: usize = 1_000;
/// Lines that leave the store in one transaction, about.
const LINES_AT_ONCE: i64 = 2_000;
/// Stretches that leave the store in one transaction, at most.
const RANGES_AT_ONCE: usize = 100;

/// What was done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MovedLogs {
    /// Lines that left the store.
    pub moved: i64,
    /// Of them, those that an interrupted run had archived.
    pub resumed: i64,
    /// Lines that were archived and stay until their job is no longer locked.
    pub waiting: i64,
}

/// Why log lines cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadLogsError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Lines are in the archive, which cannot be read.
    #[error("lines {} to {} are in {} of the archive, which cannot be read here: {why}", part.first, part.last, part.part)]
    Away {
        /// Which lines, and where.
        part: LogPart,
        /// Why they cannot be read.
        why: String,
    },
}

/// Log lines of a job behind a number, wherever they are, in order and each once.
///
/// # Errors
/// If the store does not answer, or lines that belong here are in an archive that cannot be read: a gap would look as if
/// nothing had been printed.
pub async fn read_logs(
    store: &dyn Store,
    archive: Option<&dyn Archive>,
    request: ReadLogs,
) -> Result<Vec<LogLine>, ReadLogsError> {
    // The store first: a line that moves meanwhile is then in both, and shown once; the other way round it could be in neither.
    let here = store.logs(request, None).await?;
    let parts = store.log_parts(request.job, None).await?;
    with_parts(archive, here, &parts, request).await
}

/// Adds to lines of a job those that are in the archive.
///
/// # Errors
/// If lines that belong here are in an archive that cannot be read.
pub async fn with_parts(
    archive: Option<&dyn Archive>,
    mut lines: Vec<LogLine>,
    parts: &[LogPart],
    request: ReadLogs,
) -> Result<Vec<LogLine>, ReadLogsError> {
    let ReadLogs { job, after, limit } = request;
    let mut read: BTreeMap<&str, Vec<LogLine>> = BTreeMap::new();
    let mut found = 0;
    for part in parts.iter().filter(|part| part.last > after && !part.is_erased()) {
        // Parts are in order: what is behind a full page is not needed yet.
        if found >= limit {
            break;
        }
        let away = |why: String| ReadLogsError::Away { part: part.clone(), why };
        let archive = archive.ok_or_else(|| away("no archive is named".to_owned()))?;
        if !read.contains_key(part.part.as_str()) {
            let there = find_logs(archive, &part.part, job).await.map_err(|error| away(error.to_string()))?;
            let there = there.ok_or_else(|| away(format!("it is not in {}", archive.place())))?;
            read.insert(&part.part, there);
        }
        let there = read.get(part.part.as_str()).into_iter().flatten();
        let wanted = there.filter(|line| line.n > after && (part.first..=part.last).contains(&line.n));
        let before = lines.len();
        lines.extend(wanted.cloned());
        found += lines.len() - before;
    }
    Ok(merged(lines, limit))
}

/// Moves old log lines to the archive.
#[derive(Debug, Clone)]
pub struct LogMover {
    store: Arc<dyn Store>,
    archive: Arc<dyn Archive>,
    epoch: i64,
}

impl LogMover {
    /// Moves lines from this store to this archive, under this epoch of the leader.
    pub fn new(store: Arc<dyn Store>, archive: Arc<dyn Archive>, epoch: i64) -> Self {
        Self { store, archive, epoch }
    }

    /// Moves every line that is older, in small batches, after what an interrupted run left.
    ///
    /// # Errors
    /// If the archive does not take a segment, the store does not answer, or this process does not lead any more. What left
    /// the store before is archived.
    pub async fn run(&self, before: Timestamp, done: &mut MovedLogs) -> Result<(), PruneError> {
        let mut waiting = self.resume(done).await?;
        let mut after = None;
        loop {
            let old = ReadOldLogs { before, after, limit: LINES };
            let page = self.store.old_logs(old, None).await?;
            after = page.last().copied();
            let jobs: BTreeSet<JobId> = page.iter().map(|(_, job)| *job).collect();
            let mut writer = LogSegmentWriter::default();
            for job in jobs {
                // What is archived already, and locked, is not archived again.
                if !waiting.contains(&job) {
                    writer = self.gather(job, before, writer, &mut waiting, done).await?;
                }
            }
            // What was gathered leaves before the next page is read, or that page names it again.
            self.finish(writer, &mut waiting, done).await?;
            if page.len() < LINES {
                return Ok(());
            }
        }
    }

    /// Lets lines go that an interrupted run archived; answers the jobs that were locked.
    async fn resume(&self, done: &mut MovedLogs) -> Result<BTreeSet<JobId>, PruneError> {
        let mut waiting = BTreeSet::new();
        for segment in find_interrupted_logs(&*self.archive).await? {
            let before = done.moved;
            self.release(&segment, &mut waiting, done).await?;
            done.resumed += done.moved - before;
        }
        Ok(waiting)
    }

    /// Adds the old lines of a job to what goes next.
    async fn gather(
        &self,
        job: JobId,
        before: Timestamp,
        mut writer: LogSegmentWriter,
        waiting: &mut BTreeSet<JobId>,
        done: &mut MovedLogs,
    ) -> Result<LogSegmentWriter, PruneError> {
        let mut after = 0;
        loop {
            let lines = self.store.logs(ReadLogs { job, after, limit: LINES }, None).await?;
            let old = &lines[..old_lines(&lines, before)];
            for stretch in old.chunk_by(|one, next| one.n + 1 == next.n) {
                writer.add(job, stretch);
            }
            if writer.is_full() {
                self.finish(std::mem::take(&mut writer), waiting, done).await?;
            }
            match old.last() {
                Some(last) if old.len() == LINES => after = last.n,
                _ => return Ok(writer),
            }
        }
    }

    /// Makes a segment durable, then lets its lines leave the store.
    async fn finish(
        &self,
        writer: LogSegmentWriter,
        waiting: &mut BTreeSet<JobId>,
        done: &mut MovedLogs,
    ) -> Result<(), PruneError> {
        if writer.is_empty() {
            return Ok(());
        }
        let segment = writer.close(&*self.archive).await?;
        self.release(&segment, waiting, done).await
    }

    /// Lets the lines of a segment leave the store. Those of a locked job stay noted, and are tried again.
    async fn release(
        &self,
        segment: &LogSegment,
        waiting: &mut BTreeSet<JobId>,
        done: &mut MovedLogs,
    ) -> Result<(), PruneError> {
        let mut locked = Vec::new();
        for ranges in batches(&segment.ranges) {
            let wish = MoveLogs {
                term: Leading::term(),
                epoch: self.epoch,
                part: segment.name.clone(),
                ranges: ranges.to_vec(),
            };
            for (range, answer) in ranges.iter().zip(self.store.move_logs(wish, None).await??) {
                match answer {
                    Ok(()) => done.moved += range.lines(),
                    Err(Refusal::Busy) => locked.push(*range),
                    // Their job was erased while they were archived: nothing refers to this copy, and it must not stay.
                    Err(_) if is_erased(&*self.store, &*self.archive, range.job).await? => {
                        erase_in(&*self.archive, &segment.name, range.job, &Lines::Go).await?;
                    }
                    // Their job was removed, or another process moved them.
                    Err(_) => {}
                }
            }
        }
        done.waiting += locked.iter().map(LogRange::lines).sum::<i64>();
        waiting.extend(locked.iter().map(|range| range.job));
        Ok(segment.forget(&*self.archive, &locked).await?)
    }
}

/// Stretches in batches of few lines.
fn batches(ranges: &[LogRange]) -> Vec<&[LogRange]> {
    let (mut found, mut rest) = (Vec::new(), ranges);
    while !rest.is_empty() {
        let mut lines = 0;
        let fits = rest.iter().take(RANGES_AT_ONCE).take_while(|range| {
            lines += range.lines();
            lines <= LINES_AT_ONCE
        });
        let (batch, after) = rest.split_at(fits.count().max(1));
        found.push(batch);
        rest = after;
    }
    found
}
