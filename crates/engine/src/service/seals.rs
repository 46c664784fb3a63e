//! The reader of the feed that seals it.

use crate::service::LiveSettings;
use crate::service::follower::{Follower, Reader, Start};
use crate::service::leader::Leading;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::Name;
use windlass_core::seal::{SEALED_MAX, SEALS, SealedEvent};
use windlass_store::{EventKey, FeedEvent, Findings, Place, Store, StoreResult};

/// How long news gather before they are sealed, unless a whole seal is there.
const GATHER: Duration = Duration::from_secs(2);

/// Seals the feed, while the setting `seals` says so.
#[derive(Debug)]
pub struct SealReader {
    store: Arc<dyn Store>,
    settings: LiveSettings,
}

impl SealReader {
    /// Seals the feed of this store.
    pub fn new(store: Arc<dyn Store>, settings: LiveSettings) -> Self {
        Self { store, settings }
    }

    /// Follows the feed with this reader while this process leads. After a restore it begins at the first event again: which
    /// events the store lost, and which it got since, is not known.
    pub fn follow(self, leading: Leading) -> Follower<Self> {
        let store = Arc::clone(&self.store);
        Follower::new(store, leading, self).expired(Start::Beginning).gather(GATHER).page(SEALED_MAX)
    }
}

impl Reader for SealReader {
    fn name(&self) -> Name {
        Name::parse("reader", SEALS).unwrap_or_else(|_| unreachable!("it is a name"))
    }

    fn begin(&mut self, _place: Option<&Place>) {}

    /// The hashes are made by the store, from what is stored. An event that is gone meanwhile was removed with its job.
    async fn read(&mut self, events: &[FeedEvent]) -> StoreResult<Findings> {
        let keys: Vec<EventKey> = events.iter().map(|fed| (fed.event.job, fed.event.version)).collect();
        let hashes = self.store.event_hashes(keys.clone(), None).await?;
        let sealed = keys.iter().zip(&hashes).filter_map(|((job, version), hash)| {
            hash.as_ref().map(|hash| SealedEvent::of(*job, *version, hash))
        });
        Ok(Findings { sealed: sealed.collect(), ..Findings::default() })
    }

    async fn is_wanted(&mut self) -> bool {
        self.settings.now().await.seals
    }
}
