//! `windlass restore`: puts archived jobs back into the store, as they were.

use crate::args::RestoreArgs;
use crate::fail::{Exit, Failure, Outcome};
use crate::ids;
use crate::out::Out;
use crate::run::{actor, open};
use crate::settings::Settings;
use serde_json::json;
use std::sync::Arc;
use windlass_core::registry::WriteAudit;
use windlass_core::{EventKind, JobId, LogPart, Metadata, Name, Refusal};
use windlass_engine::archive::{Archive, find, find_anywhere, find_logs};
use windlass_store::{Archived, Restore, Store};

/// Puts each back, in this order; the first that cannot be stops the rest.
pub async fn run(args: &RestoreArgs, settings: &Settings, out: &Out) -> Outcome {
    let Some(archive) = settings.archive()? else {
        return Err(Failure::usage("say --archive PLACE: where the job was archived"));
    };
    let client = open(settings, false, None).await?;
    for id in &args.ids {
        let id = ids::archived(id, &*archive).await?;
        let (part, archived) = archived(client.store(), &archive, id).await?;
        let status = archived.job.status.as_str();
        let left_out = left_out(&*archive, &archived).await;
        let Archived { events, logs, log_parts, .. } = archived;
        let request = Restore { events, logs, log_parts, actor: actor()? };
        match client.store().restore(request, None).await? {
            Ok(_) => {}
            Err(Refusal::JobExists) => {
                let told = format!("job {id} is in the store; only a job that was removed can be put back");
                return Err(Failure::new(Exit::Refused, "job_exists", told));
            }
            Err(refusal) => return Err(refusal.into()),
        }
        let detail = Metadata::from_iter([("archive".to_owned(), part.clone().into())]);
        let action = Name::parse("action", "job.restore")?;
        let audit = WriteAudit { actor: actor()?, action, target: id.to_string(), detail };
        client.store().write_audit(audit, None).await?;
        let answer = json!({ "id": id.to_string(), "status": status, "archive": part, "left_out": left_out });
        out.show(&answer, |out| {
            out.line(format!("{id} is back, {status} as it was, from {part}"));
            left_out.iter().for_each(|what| out.line(format!("{id} came back without something: {what}")));
        });
    }
    Ok(())
}

/// What of a job does not come back.
async fn left_out(archive: &dyn Archive, job: &Archived) -> Vec<String> {
    let mut found = Vec::new();
    for LogPart { first, last, part } in &job.log_parts {
        let why = match find_logs(archive, part, job.job.id).await {
            Ok(Some(_)) => continue,
            Ok(None) => format!("it is not in {}", archive.place()),
            Err(error) => error.to_string(),
        };
        found.push(format!("log lines {first} to {last} are in {part}, which cannot be read: {why}"));
    }
    let asked =
        job.events.iter().filter(|event| matches!(event.what, EventKind::JobApprovalAsked(_))).count();
    if asked > 0 {
        found.push(format!("approvals that it asked for ({asked} times) stand in its log only"));
    }
    let created = job.events.first().map(|event| &event.what);
    if let Some(EventKind::JobCreated(facts)) = created
        && facts.unique.is_some()
    {
        found.push("its unique key is not taken again where it was free".to_owned());
    }
    found
}

/// A job from the part of the archive that its tombstone names, or from wherever it is.
async fn archived(
    store: &Arc<dyn Store>,
    archive: &Arc<dyn Archive>,
    id: JobId,
) -> Outcome<(String, Archived)> {
    let failed = |error: windlass_engine::archive::ArchiveError| Failure::failed(error.to_string());
    let tombstone = store.purged(id, None).await?;
    if let Some(part) = tombstone.and_then(|left| left.archive)
        && let Some(found) = find(&**archive, &part, id).await.map_err(failed)?
    {
        return Ok((part, found));
    }
    let missing = || {
        let told = format!("job {id} is not in {}", archive.place());
        Failure::new(Exit::NotFound, "not_found", told)
    };
    find_anywhere(&**archive, id).await.map_err(failed)?.ok_or_else(missing)
}
