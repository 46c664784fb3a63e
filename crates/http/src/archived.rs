//! Jobs that left the store, answered from the archive while it can be read.

use crate::call::{Call, Reply, ok};
use crate::list::EVENTS_MAX_BYTES;
use crate::problem::Problem;
use crate::wire::event::{EventShape, EventsPage};
use crate::wire::job::{Around, JobShape};
use windlass_core::erase::is_erased;
use windlass_core::limits::within;
use windlass_core::{Event, EventKind, Job, JobId, LogLine, Metadata, Refusal, Version};
use windlass_engine::archive::find;
use windlass_engine::logs::with_parts;
use windlass_store::{Archived, ReadEvents, ReadLogs};

/// A job that is not in the store: as the archive has it, or why it is not there.
pub(crate) async fn answer(call: &Call, id: JobId, version: Option<Version>) -> Reply {
    let archived = found(call, id).await?;
    let version = version.unwrap_or(archived.job.version);
    within("at_version", version, 1, archived.job.version)?;
    let log = archived.events.get(..usize::try_from(version).unwrap_or_default()).unwrap_or_default();
    let shape = shape(log).ok_or(Refusal::NotFound)?;
    ok(&JobShape { archived: Some(true), ..shape })
}

/// The log of a job that is not in the store, as the archive has it.
pub(crate) async fn events(call: &Call, request: ReadEvents) -> Reply {
    let mut log = found(call, request.job).await?.events;
    if request.newest_first {
        log.reverse();
        log.retain(|event| request.after == 0 || event.version < request.after);
    } else {
        log.retain(|event| event.version > request.after);
    }
    let mut bytes = 0;
    let fits = log.iter().take(request.limit).take_while(|event| {
        // One event at least, so that a reader goes on.
        let is_room = bytes < EVENTS_MAX_BYTES;
        bytes += event.payload.as_ref().map_or(0, |payload| payload.as_bytes().len());
        is_room
    });
    let count = fits.count();
    let next_after = log.get(count).and_then(|_| log[..count].last()).map(|event| event.version);
    let events = log[..count].iter().map(EventShape::of).collect();
    ok(&EventsPage { events, next_after })
}

/// The log lines of a job that is not in the store, as the archive has them, and whether it was erased.
pub(crate) async fn logs(call: &Call, request: ReadLogs) -> Result<(Vec<LogLine>, bool), Problem> {
    let Archived { mut logs, log_parts, events, .. } = found(call, request.job).await?;
    logs.retain(|line| line.n > request.after);
    let lines = with_parts(call.app.archive.as_deref(), logs, &log_parts, request).await?;
    Ok((lines, is_erased(&events)))
}

/// What the archive has of a removed job, if the caller may see it; else why it is not there.
async fn found(call: &Call, id: JobId) -> Result<Archived, Problem> {
    let Some(archived) = archived(call, id).await? else {
        return Err(call.missing(id).await?.into());
    };
    call.who.check_sees(&archived.job.queue)?;
    Ok(archived)
}

/// What the archive has of a removed job; none if it was not archived, or the archive cannot be read from here.
async fn archived(call: &Call, id: JobId) -> Result<Option<Archived>, Problem> {
    let tombstone = call.store().purged(id, None).await?;
    let part = tombstone.and_then(|tombstone| tombstone.archive);
    let (Some(part), Some(archive)) = (part, &call.app.archive) else { return Ok(None) };
    match find(&**archive, &part, id).await {
        Ok(found) => Ok(found),
        Err(error) => {
            tracing::warn!(job = %id, %error, "an archived job cannot be read");
            Ok(None)
        }
    }
}

/// A job with what its pointers point at, from its log up to a version.
fn shape(log: &[Event]) -> Option<JobShape> {
    let job = Job::fold(log)?;
    let pointed = |version: Option<Version>| {
        let place = usize::try_from(version? - 1).ok()?;
        log.get(place)
    };
    let first = log.first()?;
    let EventKind::JobCreated(facts) = &first.what else { return None };
    let metadata = match pointed(job.meta_version).map(|event| &event.what) {
        Some(EventKind::JobCreated(facts)) => facts.metadata.clone(),
        Some(EventKind::JobProgressed(progressed)) => progressed.metadata.clone().unwrap_or_default(),
        _ => Metadata::new(),
    };
    let around = Around {
        payload: pointed(job.payload_version).unwrap_or(first).payload.as_ref(),
        result: pointed(job.result_version).and_then(|event| event.payload.as_ref()),
        error: pointed(job.error_version).and_then(|event| Some((event.payload.as_ref()?, event.at))),
        checkpoint: pointed(job.checkpoint_version).and_then(|event| event.payload.as_ref()),
        metadata,
    };
    Some(JobShape::whole(&job, facts, around))
}
