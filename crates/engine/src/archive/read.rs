//! An archived job read back from its line.

use super::{Archive, ArchiveError, read_segment, segments};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::io;
use windlass_core::lease::unhex;
use windlass_core::{
    Actor, Event, EventKind, Invalid, Job, JobId, Key, LeaseHash, LogLine, LogPart, Payload, Timestamp,
};
use windlass_store::Archived;

/// How every line begins, up to the id.
const HEAD: &str = "{\"format\":\"windlass.job.1\",\"id\":\"";
/// The length of an id, in bytes.
const ID_LEN: usize = 36;

/// A job as [`line`](super::line::line) writes it. Of the row only the id is read: the row is the fold of the log.
#[derive(Deserialize)]
struct Line<'a> {
    id: String,
    #[serde(borrow)]
    events: Vec<EventLine<'a>>,
    logs: Vec<LogEntry>,
    #[serde(default)]
    log_parts: Vec<PartEntry>,
}

#[derive(Deserialize)]
struct EventLine<'a> {
    version: i64,
    at: String,
    r#type: String,
    actor: String,
    attempt: i32,
    generation: i32,
    lease: Option<String>,
    key: Option<String>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    detail_text: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    payload_text: Option<String>,
    payload_hex: Option<String>,
}

/// Where older log lines of the job are.
#[derive(Deserialize)]
struct PartEntry {
    first: i64,
    last: i64,
    part: String,
}

/// A log line.
#[derive(Deserialize)]
pub(crate) struct LogEntry {
    n: i64,
    at: String,
    attempt: i32,
    line: String,
}

/// Finds a job in a part of the archive, at its newest version there; none if it is not there.
///
/// # Errors
/// If the archive cannot be read, or its line of the job does not read back.
pub async fn find(archive: &dyn Archive, part: &str, id: JobId) -> Result<Option<Archived>, ArchiveError> {
    let Some(lines) = read_segment(archive, part).await? else { return Ok(None) };
    let wrong =
        |why: String| ArchiveError::new(part, "read", io::Error::new(io::ErrorKind::InvalidData, why));
    let text = std::str::from_utf8(&lines).map_err(|e| wrong(e.to_string()))?;
    let head = head(id);
    let mut found: Option<Archived> = None;
    for line in text.lines().filter(|line| line.starts_with(&head)) {
        let job = read(line).map_err(wrong)?;
        if found.as_ref().is_none_or(|other| other.job.version < job.job.version) {
            found = Some(job);
        }
    }
    Ok(found)
}

/// How every line of a job begins: with its format and its id.
pub(super) fn head(id: JobId) -> String {
    format!("{HEAD}{id}\"")
}

/// Finds a job in the whole archive, newest part first.
///
/// # Errors
/// If the archive cannot be read.
pub async fn find_anywhere(
    archive: &dyn Archive,
    id: JobId,
) -> Result<Option<(String, Archived)>, ArchiveError> {
    for part in segments(archive).await? {
        if let Some(found) = find(archive, &part, id).await? {
            return Ok(Some((part, found)));
        }
    }
    Ok(None)
}

/// The ids in the whole archive with `piece` in them, each once.
///
/// # Errors
/// If the archive cannot be read.
pub async fn find_ids(archive: &dyn Archive, piece: &str) -> Result<Vec<String>, ArchiveError> {
    let mut found = BTreeSet::new();
    for part in segments(archive).await? {
        let lines = read_segment(archive, &part).await?.unwrap_or_default();
        let ids = lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let behind = line.strip_prefix(HEAD.as_bytes())?;
            std::str::from_utf8(behind.get(..ID_LEN)?).ok()
        });
        found.extend(ids.filter(|id| id.contains(piece)).map(str::to_owned));
    }
    Ok(found.into_iter().collect())
}

/// A job from its line.
pub(crate) fn read(line: &str) -> Result<Archived, String> {
    let line: Line<'_> = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let told = |invalid: Invalid| invalid.to_string();
    let id = JobId::parse(&line.id).map_err(told)?;
    let events = line.events.into_iter().map(|event| event_of(id, event));
    let events = events.collect::<Result<Vec<Event>, String>>()?;
    let logs = log_lines(line.logs)?;
    let part = |one: PartEntry| LogPart { first: one.first, last: one.last, part: one.part };
    let log_parts = line.log_parts.into_iter().map(part).collect();
    let job = Job::fold(&events).ok_or("its log does not begin with job_created")?;
    Ok(Archived { job, events, logs, log_parts })
}

/// Log lines from their entries.
pub(crate) fn log_lines(entries: Vec<LogEntry>) -> Result<Vec<LogLine>, String> {
    let log = |entry: LogEntry| {
        let at = Timestamp::parse("at", &entry.at).map_err(|invalid| invalid.to_string())?;
        Ok(LogLine { n: entry.n, at, attempt: entry.attempt, line: entry.line })
    };
    entries.into_iter().map(log).collect()
}

fn event_of(job: JobId, line: EventLine<'_>) -> Result<Event, String> {
    let told = |invalid: Invalid| invalid.to_string();
    let detail = line.detail.map(|raw| raw.get().to_owned()).or(line.detail_text);
    let what = EventKind::read(&line.r#type, detail.as_deref())
        .unwrap_or_else(|stored| EventKind::Unreadable(Box::new(stored)));
    let json = line.payload.map(|raw| raw.get().to_owned()).or(line.payload_text);
    let payload = match (json, line.payload_hex) {
        (Some(json), _) => Some(Payload::stored(json.into_bytes(), true)),
        (None, Some(hex)) => Some(Payload::stored(unhex(&hex).ok_or("a payload is not hex")?, false)),
        (None, None) => None,
    };
    let lease = |hex: String| {
        let hash = unhex(&hex).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        hash.map(LeaseHash).ok_or("a lease is not hex")
    };
    Ok(Event {
        job,
        version: line.version,
        at: Timestamp::parse("at", &line.at).map_err(told)?,
        actor: Actor::try_from(line.actor).map_err(told)?,
        attempt: line.attempt,
        generation: line.generation,
        lease: line.lease.map(lease).transpose()?,
        key: line.key.map(|key| Key::parse("key", key)).transpose().map_err(told)?,
        what,
        payload,
    })
}
