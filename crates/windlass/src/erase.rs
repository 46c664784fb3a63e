//! Erasure of what a finished job was given, found and printed.

use crate::client::Client;
use crate::error::{Error, Result};
use std::fmt;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::pin::Pin;
use windlass_core::{JobId, Version};
use windlass_engine::archive::{Archive, Directory};
use windlass_engine::erase::{EraseError, erase};

/// Erases a finished job when awaited: its payload, results, step values, checkpoints, metadata, signals, error texts and log
/// lines. Made by [`Client::erase`].
///
/// What happened to it stays on record, when and by whom, and `job_erased` says who erased it. It does not run again: neither
/// redriven nor forked. A repeat changes nothing.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Greet { name: String }
/// # impl windlass::Job for Greet { const KIND: &str = "greet"; type Output = (); }
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// # let client = windlass::connect("memory:").await?;
/// let greeted = client.enqueue(Greet { name: "Ada".into() }).await?;
/// client.cancel(greeted.id).await?;
/// client.erase(greeted.id).await?;
/// assert!(client.job(greeted.id).await?.is_some_and(|view| view.facts.erased && view.payload.is_none()));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is erased before it is awaited"]
pub struct Erase {
    client: Client,
    job: JobId,
    archive: Option<Directory>,
    expected_version: Option<Version>,
}

impl Erase {
    pub(crate) fn new(client: Client, job: JobId) -> Self {
        Self { client, job, archive: None, expected_version: None }
    }

    /// Where the archive is. Needed if the job, or log lines of it, may be there: without it such an erasure is refused.
    pub fn archive(mut self, folder: impl Into<PathBuf>) -> Self {
        self.archive = Some(Directory::new(folder));
        self
    }

    /// Acts only while the job is at this version; at another one it is refused with `version_mismatch`.
    pub fn expected_version(mut self, version: Version) -> Self {
        self.expected_version = Some(version);
        self
    }
}

impl IntoFuture for Erase {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, job, archive, expected_version } = self;
            let wish = windlass_store::Erase { job, actor: client.actor(), expected_version };
            let archive = archive.as_ref().map(|folder| folder as &dyn Archive);
            let act = || async {
                match erase(&**client.store(), archive, wish.clone()).await {
                    // Only a lost answer of the store is asked for again.
                    Err(EraseError::Store(error)) => Err(error),
                    other => Ok(other),
                }
            };
            match client.repeat_on(job, act).await? {
                Ok(_) => Ok(()),
                Err(EraseError::Refused(refusal)) => Err(refusal.into()),
                Err(error) => Err(Error::Archive { job, why: error.to_string() }),
            }
        })
    }
}

impl fmt::Debug for Erase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erase").field("job", &self.job).finish_non_exhaustive()
    }
}
