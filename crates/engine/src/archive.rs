//! Where finished jobs go before they leave the store: segments of JSON lines, packed with zstd.
//!
//! A segment holds up to 1,000 jobs. Its jobs are noted before it gets its name, and removed from the store only once it is
//! durable. Whatever dies in between, the next run finds the note: jobs that are in a segment are removed without being
//! archived again. A job that is archived twice all the same, by two processes at once or because it changed, is known by
//! its id and version.
//!
//! Log lines that are older than the settings say go the same way, in segments of their own, while their job stays.

mod directory;
mod erase;
mod line;
mod logs;
mod read;
mod segment;

pub use directory::Directory;
pub use erase::{Lines, erase_everywhere, erase_in};
pub use logs::{LogSegment, LogSegmentWriter, find_interrupted_logs, find_logs};
pub use read::{find, find_anywhere, find_ids};
pub use segment::{Segment, SegmentWriter, find_interrupted, read_segment, segments};

use async_trait::async_trait;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A place that keeps named objects. What [`Archive::put`] has answered for is durable.
#[async_trait]
pub trait Archive: fmt::Debug + Send + Sync {
    /// Where it is, for people.
    fn place(&self) -> String;
    /// Keeps an object, whole or not at all, and durably. One of this name, a note, is replaced.
    async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), ArchiveError>;
    /// An object; none if there is none of this name.
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError>;
    /// The names of all objects.
    async fn list(&self) -> Result<Vec<String>, ArchiveError>;
    /// Changes an object in place, whole or not at all, and durably; what others change meanwhile stays. `edit` answers none to
    /// leave it as it is. Answers whether it was changed; no, if there is none of this name.
    async fn rewrite(&self, name: &str, edit: Edit) -> Result<bool, ArchiveError>;
    /// Removes an object, if it is there.
    async fn remove(&self, name: &str) -> Result<(), ArchiveError>;
}

/// A change to an object: from its bytes to its new ones, or none to leave it as it is. It is asked again where somebody else
/// changed the object first.
pub type Edit = Arc<dyn Fn(&[u8]) -> io::Result<Option<Vec<u8>>> + Send + Sync>;

/// The archive is full, away, or not what it should be. Nothing was removed for what it did not take.
#[derive(Debug, thiserror::Error)]
#[error("{what} cannot be {tried}: {error}")]
pub struct ArchiveError {
    /// The object or the place, as people know it.
    pub what: String,
    /// What was tried: written, read, removed.
    pub tried: &'static str,
    /// Why not.
    #[source]
    pub error: io::Error,
}

impl ArchiveError {
    /// Says what could not be done to what.
    pub fn new(what: impl fmt::Display, tried: &'static str, error: io::Error) -> Self {
        Self { what: what.to_string(), tried, error }
    }
}
