//! Log lines in the archive: segments of their own, a line of JSON per stretch of a job's log.

use super::line::log_entry;
use super::read::{LogEntry, log_lines};
use super::segment::{BYTES_MAX, bring, note_of, notes};
use super::{Archive, ArchiveError, read_segment};
use serde::Deserialize;
use serde_json::Value;
use std::io;
use windlass_core::logs::LogRange;
use windlass_core::{JobId, LogLine};

/// What the name of a segment of log lines begins with.
const LOGS: &str = "logs-";
/// Stretches of one segment, at most.
const RANGES_MAX: usize = 1_000;

/// A segment of log lines that is durable, while its lines may still be in the store.
#[derive(Debug)]
pub struct LogSegment {
    /// Its name in the archive: the reference that is kept of its lines.
    pub name: String,
    /// Its stretches.
    pub ranges: Vec<LogRange>,
}

impl LogSegment {
    /// Says that only these of its stretches still wait to leave the store.
    ///
    /// # Errors
    /// If the archive cannot be written.
    pub async fn forget(&self, archive: &dyn Archive, waiting: &[LogRange]) -> Result<(), ArchiveError> {
        let note = note_of(&self.name);
        if waiting.is_empty() {
            archive.remove(&note).await
        } else {
            archive.put(&note, noted(waiting)).await
        }
    }
}

/// Gathers what the next segment of log lines will hold.
#[derive(Debug, Default)]
pub struct LogSegmentWriter {
    lines: Vec<u8>,
    ranges: Vec<LogRange>,
}

impl LogSegmentWriter {
    /// Adds a stretch of a job's log: lines without a gap.
    pub fn add(&mut self, job: JobId, lines: &[LogLine]) {
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return };
        let entries: Vec<Value> = lines.iter().map(log_entry).collect();
        let line = format!(
            "{}\"first\":{},\"last\":{},\"logs\":{}}}\n",
            head(job),
            first.n,
            last.n,
            Value::from(entries)
        );
        self.lines.extend_from_slice(line.as_bytes());
        self.ranges.push(LogRange { job, first: first.n, last: last.n });
    }

    /// Whether it holds as much as a segment should.
    pub fn is_full(&self) -> bool {
        self.ranges.len() >= RANGES_MAX || self.lines.len() >= BYTES_MAX
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Notes its stretches, then makes the segment durable. Only after that may its lines leave the store.
    ///
    /// # Errors
    /// If the archive does not take it.
    pub async fn close(self, archive: &dyn Archive) -> Result<LogSegment, ArchiveError> {
        let Self { lines, ranges } = self;
        let note = String::from_utf8(noted(&ranges)).unwrap_or_default();
        let name = bring(archive, LOGS, lines, note).await?;
        Ok(LogSegment { name, ranges })
    }
}

/// Segments of log lines whose lines may still be in the store: a run was interrupted, or a job was locked.
///
/// # Errors
/// If the archive cannot be read.
pub async fn find_interrupted_logs(archive: &dyn Archive) -> Result<Vec<LogSegment>, ArchiveError> {
    let found = notes(archive, LOGS).await?.into_iter();
    let segment = |(name, note): (String, String)| {
        let ranges = note.lines().filter_map(range).collect();
        LogSegment { name, ranges }
    };
    Ok(found.map(segment).collect())
}

/// The lines of a job in a segment of log lines, in no order; none if the archive has no such segment.
///
/// # Errors
/// If the archive cannot be read, or a line does not read back.
pub async fn find_logs(
    archive: &dyn Archive,
    part: &str,
    job: JobId,
) -> Result<Option<Vec<LogLine>>, ArchiveError> {
    let Some(bytes) = read_segment(archive, part).await? else { return Ok(None) };
    let wrong =
        |why: String| ArchiveError::new(part, "read", io::Error::new(io::ErrorKind::InvalidData, why));
    let text = std::str::from_utf8(&bytes).map_err(|e| wrong(e.to_string()))?;
    let head = head(job);
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.starts_with(&head)) {
        let stretch: Stretch = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
        found.extend(log_lines(stretch.logs).map_err(wrong)?);
    }
    Ok(Some(found))
}

#[derive(Deserialize)]
struct Stretch {
    logs: Vec<LogEntry>,
}

/// How every line of a job begins.
pub(super) fn head(job: JobId) -> String {
    format!("{{\"format\":\"windlass.logs.1\",\"job\":\"{job}\",")
}

/// Stretches as a note has them.
fn noted(ranges: &[LogRange]) -> Vec<u8> {
    let line = |range: &LogRange| format!("{} {} {}\n", range.job, range.first, range.last);
    ranges.iter().map(line).collect::<String>().into_bytes()
}

fn range(line: &str) -> Option<LogRange> {
    let mut words = line.split(' ');
    let job = JobId::parse(words.next()?).ok()?;
    Some(LogRange { job, first: words.next()?.parse().ok()?, last: words.next()?.parse().ok()? })
}
