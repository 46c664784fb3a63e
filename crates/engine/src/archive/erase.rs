//! Erasure in the archive: the lines of a job are written anew without what it was given, found and printed.

use super::line::line;
use super::logs;
use super::read::{head, read};
use super::segment::{PACKED, pack, unpack};
use super::{Archive, ArchiveError};
use std::io;
use std::sync::Arc;
use windlass_core::erase::{Erase, Erasure};
use windlass_core::{Event, JobId, LogPart, Timestamp};
use windlass_store::Archived;

/// What becomes of the lines of an erased job.
#[derive(Debug, Clone)]
pub enum Lines {
    /// They go: the job is in the store, and says there that it was erased.
    Go,
    /// They stay, without what the job was given, and say that it was erased: the archive is the only place of the job.
    Say(Erase, Timestamp),
}

/// Erases a job in every segment of the archive that holds something of it; answers how many were changed.
///
/// # Errors
/// If the archive cannot be read or written. Called again, it goes on.
pub async fn erase_everywhere(
    archive: &dyn Archive,
    job: JobId,
    lines: &Lines,
) -> Result<usize, ArchiveError> {
    let mut changed = 0;
    for name in archive.list().await?.iter().filter(|name| name.ends_with(PACKED)) {
        changed += usize::from(erase_in(archive, name, job, lines).await?);
    }
    Ok(changed)
}

/// Erases a job in one segment; answers whether that was changed.
///
/// # Errors
/// If the archive cannot be read or written.
pub async fn erase_in(
    archive: &dyn Archive,
    name: &str,
    job: JobId,
    lines: &Lines,
) -> Result<bool, ArchiveError> {
    let lines = lines.clone();
    let edit = move |packed: &[u8]| {
        let text = String::from_utf8(unpack(packed)?).map_err(io::Error::other)?;
        let Some(left) = erased(&text, job, &lines)? else { return Ok(None) };
        pack(left.as_bytes()).map(Some)
    };
    archive.rewrite(name, Arc::new(edit)).await
}

/// The lines of a segment without what they say of a job; none if they say nothing.
fn erased(text: &str, job: JobId, lines: &Lines) -> io::Result<Option<String>> {
    let (of_job, of_logs) = (head(job), logs::head(job));
    let (mut left, mut is_changed) = (String::with_capacity(text.len()), false);
    for one in text.lines() {
        let kept = match lines {
            _ if one.starts_with(&of_logs) => None,
            Lines::Go if one.starts_with(&of_job) => None,
            Lines::Say(wish, now) if one.starts_with(&of_job) => Some(erased_line(one, wish, *now)?),
            _ => Some(one.to_owned()),
        };
        is_changed |= kept.as_deref() != Some(one);
        if let Some(kept) = kept {
            left.push_str(&kept);
            left.push('\n');
        }
    }
    Ok(is_changed.then_some(left))
}

/// A job's line without what it was given, found and printed, and with the event that says so. One that was erased before
/// stays as it is.
fn erased_line(one: &str, wish: &Erase, now: Timestamp) -> io::Result<String> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let Archived { job, mut events, logs, log_parts } = read(one).map_err(wrong)?;
    let has_lines = !logs.is_empty() || log_parts.iter().any(|part| !part.is_erased());
    let wish = Erase { expected_version: None, ..wish.clone() };
    let hashes: Vec<_> = events.iter().map(Event::hash).collect();
    let decided =
        wish.decide(&job, &events, &hashes, has_lines, now).map_err(|refusal| wrong(refusal.to_string()))?;
    let Erasure::Write { changed, step } = decided else { return Ok(one.to_owned()) };
    for less in changed {
        if let Some(event) = events.iter_mut().find(|event| event.version == less.version) {
            *event = less;
        }
    }
    events.push(step.event);
    let last = logs.iter().map(|line| line.n).chain(log_parts.iter().map(|part| part.last)).max();
    let log_parts = last.map(LogPart::erased).into_iter().collect();
    Ok(line(&Archived { job: step.job, events, logs: Vec::new(), log_parts }))
}
