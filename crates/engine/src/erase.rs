//! Erases what a finished job was given, found and printed, in the store and in the archive.

use crate::archive::{Archive, ArchiveError, Lines, erase_everywhere, find};
use windlass_core::{EventKind, JobId, Refusal, Version, erase};
use windlass_store::{Archived, Erase, ReadEvents, Store, StoreError, StoreResult, WriteAudit, fresh};

/// How often the job is looked for again when it moved to the archive, or back, meanwhile.
const LOOKS: usize = 3;

/// What was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erased {
    /// The version at which the erasure stands in the job's log.
    pub version: Version,
    /// Whether it stood there before, and nothing was left to erase.
    pub is_repeat: bool,
    /// How many files of the archive were written anew.
    pub files: usize,
}

/// Why a job was not erased.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EraseError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job is not to be erased.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Something of the job is in the archive, which cannot be reached: nothing was erased, or not everything.
    #[error(
        "something of the job is in the archive, and {0}; send the same request again where the archive can be written"
    )]
    Archive(String),
}

impl From<ArchiveError> for EraseError {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error.to_string())
    }
}

/// Erases a job, in the store first: from then on nothing of it comes to the archive any more. Repeated, it finishes what was
/// interrupted.
///
/// # Errors
/// If the job lives, or is not known; if something of it is in an archive that is not named or cannot be written.
pub async fn erase(
    store: &dyn Store,
    archive: Option<&dyn Archive>,
    wish: Erase,
) -> Result<Erased, EraseError> {
    let mut erased = Err(Refusal::Busy.into());
    for _ in 0..LOOKS {
        // It may leave for the archive before it is erased here, or come back from there while it is erased there.
        erased = match store.job(wish.job, None).await? {
            Some(_) => erase_here(store, archive, &wish).await,
            None => erase_archived(store, archive, &wish).await,
        };
        let is_here = store.job(wish.job, None).await?.map(|view| view.facts.erased);
        let moved = match &erased {
            Ok(_) => is_here == Some(false),
            Err(EraseError::Refused(Refusal::NotFound)) => {
                is_here.is_some()
                    || store.purged(wish.job, None).await?.is_some_and(|gone| gone.archive.is_some())
            }
            Err(_) => false,
        };
        if !moved {
            break;
        }
    }
    let erased = erased?;
    if !erased.is_repeat {
        let audit = WriteAudit::erased(wish.actor, wish.job, erased.version, erased.files);
        if let Err(error) = store.write_audit(audit, None).await {
            // The job's log says who erased it.
            tracing::warn!(job = %wish.job, %error, "an erasure could not be put into the audit");
        }
    }
    Ok(erased)
}

/// Erases a job that is in the store.
async fn erase_here(
    store: &dyn Store,
    archive: Option<&dyn Archive>,
    wish: &Erase,
) -> Result<Erased, EraseError> {
    let id = wish.job;
    match archive {
        // Before anything is erased: an archive that is away would leave half of it.
        Some(archive) => {
            archive.list().await?;
        }
        None if was_archived(store, id).await? => {
            return Err(EraseError::Archive("none is named here".to_owned()));
        }
        None => {}
    }
    let done = store.erase(wish.clone(), None).await??;
    let files = match archive {
        Some(archive) => erase_everywhere(archive, id, &Lines::Go).await?,
        None => 0,
    };
    Ok(Erased { version: done.version(), is_repeat: done.is_repeat() && files == 0, files })
}

/// Whether something of a job that is in the store is known to be in the archive too.
async fn was_archived(store: &dyn Store, id: JobId) -> StoreResult<bool> {
    if store.log_parts(id, None).await?.iter().any(|part| !part.is_erased()) {
        return Ok(true);
    }
    let mut after = 0;
    loop {
        let read = ReadEvents { job: id, after, limit: 1_000, newest_first: false };
        let page = store.events(read, None).await?;
        if page.iter().any(|event| event.what == EventKind::JobRestored) {
            return Ok(true);
        }
        match page.last() {
            Some(last) => after = last.version,
            None => return Ok(false),
        }
    }
}

/// Erases a job that is in the archive alone.
async fn erase_archived(
    store: &dyn Store,
    archive: Option<&dyn Archive>,
    wish: &Erase,
) -> Result<Erased, EraseError> {
    let part = store.purged(wish.job, None).await?.and_then(|tombstone| tombstone.archive);
    let Some(part) = part else { return Err(Refusal::NotFound.into()) };
    let archive = archive.ok_or_else(|| EraseError::Archive(format!("{part} is not here: none is named")))?;
    let missing = || EraseError::Archive(format!("{part} in {} does not hold it", archive.place()));
    let before = find(archive, &part, wish.job).await?.ok_or_else(missing)?;
    let expected = wish.expected_version.filter(|expected| *expected != before.job.version);
    if expected.is_some() && !erase::is_erased(&before.events) {
        return Err(Refusal::VersionMismatch(before.job.version).into());
    }
    let lines = Lines::Say(wish.clone(), fresh::wall_clock());
    let files = erase_everywhere(archive, wish.job, &lines).await?;
    let after = find(archive, &part, wish.job).await?.ok_or_else(missing)?;
    let erased = after.events.iter().rev().find(|event| event.what == EventKind::JobErased);
    let version = erased.map(|event| event.version).ok_or_else(missing)?;
    Ok(Erased { version, is_repeat: files == 0, files })
}

/// Whether a job was erased, wherever it is now.
pub(crate) async fn is_erased(
    store: &dyn Store,
    archive: &dyn Archive,
    id: JobId,
) -> Result<bool, crate::prune::PruneError> {
    if let Some(view) = store.job(id, None).await? {
        return Ok(view.facts.erased);
    }
    let Some(part) = store.purged(id, None).await?.and_then(|tombstone| tombstone.archive) else {
        return Ok(false);
    };
    let is_erased = |archived: Archived| erase::is_erased(&archived.events);
    Ok(find(archive, &part, id).await?.is_some_and(is_erased))
}
