//! Segments: the lines of many jobs, packed, and the note that says whose removal they wait for.

use super::line::line;
use super::{Archive, ArchiveError};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::{self, Read};
use windlass_core::{JobId, Version};
use windlass_store::{Archived, fresh};

/// What the name of a segment of jobs begins with.
const JOBS: &str = "jobs-";
/// The ending of a segment.
pub(super) const PACKED: &str = ".jsonl.zst";
/// The ending of the note beside it, while its jobs may still be in the store.
pub(super) const NOTE: &str = ".jsonl.pending";
/// Jobs of one segment, at most.
const JOBS_MAX: usize = 1_000;
/// Bytes of one segment before it is packed, about.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// A segment that is durable, and whose jobs may still be in the store.
#[derive(Debug)]
pub struct Segment {
    /// Its name in the archive: the reference that is kept of its jobs.
    pub name: String,
    /// Its jobs, at the versions that it holds.
    pub jobs: Vec<(JobId, Version)>,
}

impl Segment {
    /// Says that its jobs need no removal any more.
    pub async fn forget(&self, archive: &dyn Archive) -> Result<(), ArchiveError> {
        archive.remove(&note_of(&self.name)).await
    }
}

/// Gathers what the next segment will hold.
#[derive(Debug, Default)]
pub struct SegmentWriter {
    lines: Vec<u8>,
    jobs: Vec<(JobId, Version)>,
}

impl SegmentWriter {
    /// Adds a job.
    pub fn add(&mut self, archived: &Archived) {
        self.lines.extend_from_slice(line(archived).as_bytes());
        self.lines.push(b'\n');
        self.jobs.push((archived.job.id, archived.job.version));
    }

    /// Whether it holds as much as a segment should.
    pub fn is_full(&self) -> bool {
        self.jobs.len() >= JOBS_MAX || self.lines.len() >= BYTES_MAX
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Notes its jobs, then makes the segment durable. Only after that may its jobs be removed.
    pub async fn close(self, archive: &dyn Archive) -> Result<Segment, ArchiveError> {
        let Self { lines, jobs } = self;
        let note: String = jobs.iter().map(|(id, version)| format!("{id} {version}\n")).collect();
        let name = bring(archive, JOBS, lines, note).await?;
        Ok(Segment { name, jobs })
    }
}

/// Brings packed lines under a new name, their note first. Answers the name.
pub(super) async fn bring(
    archive: &dyn Archive,
    what: &str,
    lines: Vec<u8>,
    note: String,
) -> Result<String, ArchiveError> {
    let chance: String = fresh::random::<4>().iter().map(|byte| format!("{byte:02x}")).collect();
    let now = fresh::wall_clock().to_string().replace([':', '-'], "");
    let now = now.split('.').next().unwrap_or_default().trim_end_matches('Z');
    let name = format!("{what}{now}Z-{chance}{PACKED}");
    let packed = tokio::task::spawn_blocking(move || pack(&lines)).await;
    let packed = packed.unwrap_or_else(|died| Err(io::Error::other(died)));
    let packed = packed.map_err(|e| ArchiveError::new(&name, "packed", e))?;
    archive.put(&note_of(&name), note.into_bytes()).await?;
    if let Err(error) = archive.put(&name, packed).await {
        // Without its segment the note says nothing; if it stays, the next run removes it.
        let _stays = archive.remove(&note_of(&name)).await;
        return Err(error);
    }
    Ok(name)
}

/// The notes of segments whose names begin so, each with the name of its segment. A note without a segment goes: nothing was
/// removed for it.
pub(super) async fn notes(archive: &dyn Archive, what: &str) -> Result<Vec<(String, String)>, ArchiveError> {
    let names = archive.list().await?;
    let mut found = Vec::new();
    for note in names.iter().filter(|name| name.starts_with(what) && name.ends_with(NOTE)) {
        let name = format!("{}{PACKED}", note.trim_end_matches(NOTE));
        if !names.contains(&name) {
            archive.remove(note).await?;
        } else if let Some(text) = archive.get(note).await? {
            found.push((name, String::from_utf8_lossy(&text).into_owned()));
        }
    }
    Ok(found)
}

/// The segments of runs that were interrupted after they were durable.
pub async fn find_interrupted(archive: &dyn Archive) -> Result<Vec<Segment>, ArchiveError> {
    let found = notes(archive, JOBS).await?.into_iter();
    let segment = |(name, note): (String, String)| {
        let jobs = note.lines().filter_map(noted).collect();
        Segment { name, jobs }
    };
    Ok(found.map(segment).collect())
}

/// The names of all segments of jobs, newest first.
pub async fn segments(archive: &dyn Archive) -> Result<Vec<String>, ArchiveError> {
    let mut names = archive.list().await?;
    names.retain(|name| name.starts_with(JOBS) && name.ends_with(PACKED));
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

/// The lines of a segment; none if the archive has none of this name.
pub async fn read_segment(archive: &dyn Archive, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
    let Some(packed) = archive.get(name).await? else { return Ok(None) };
    let lines = tokio::task::spawn_blocking(move || unpack(&packed)).await;
    let lines = lines.unwrap_or_else(|died| Err(io::Error::other(died)));
    lines.map(Some).map_err(|e| ArchiveError::new(name, "unpacked", e))
}

/// Packs lines, and looks whether they come back.
pub(super) fn pack(lines: &[u8]) -> io::Result<Vec<u8>> {
    let packed = compress_to_vec(lines, CompressionLevel::Fastest);
    if unpack(&packed)? == lines { Ok(packed) } else { Err(io::Error::other("it does not read back")) }
}

pub(super) fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut read = StreamingDecoder::new(packed).map_err(io::Error::other)?;
    let mut lines = Vec::new();
    read.read_to_end(&mut lines)?;
    Ok(lines)
}

pub(super) fn note_of(name: &str) -> String {
    format!("{}{NOTE}", name.trim_end_matches(PACKED))
}

/// A job as its note has it.
fn noted(line: &str) -> Option<(JobId, Version)> {
    let (id, version) = line.split_once(' ')?;
    Some((JobId::parse(id).ok()?, version.parse().ok()?))
}
