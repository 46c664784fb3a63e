//! The end of the feed, page by page, for those who read it while they live: streams, watchers, a server's listeners.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use windlass_core::limits::PAGE_MAX;
use windlass_core::{FeedCursor, Refusal};
use windlass_store::{FeedPage, ReadFeed, Store, StoreError, StoreResult};

/// How late news may be when every hint is lost, and how long to wait after a failure.
const POLL: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the feed from a place on: at once while there is more, else on a hint, and every second.
#[derive(Debug)]
pub struct FeedTail {
    store: Arc<dyn Store>,
    hints: watch::Receiver<u64>,
    after: Option<FeedCursor>,
    payloads: bool,
    last: Last,
}

/// What the last read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It began, or brought a full page: there may be more.
    Full,
    /// It brought news, and more may be on the way.
    Some,
    /// It brought nothing.
    Empty,
    /// The store did not answer.
    Failed,
}

impl FeedTail {
    /// Reads on after this place; without one, from the end of the feed at the first read.
    pub fn new(store: Arc<dyn Store>, after: Option<FeedCursor>) -> Self {
        let hints = store.hints().feed;
        Self { store, hints, after, payloads: false, last: Last::Full }
    }

    /// Whether events come with what they carry, instead of without.
    #[must_use]
    pub fn payloads(mut self, payloads: bool) -> Self {
        self.payloads = payloads;
        self
    }

    /// The next page, which may be empty: the place is behind it then. Refused when the place is of no use any more, as after
    /// another store took the place of this one. Safe to drop.
    ///
    /// # Errors
    /// If the store does not answer, or not in time. The first failure of a row is in the log.
    pub async fn read(&mut self) -> StoreResult<Result<FeedPage, Refusal>> {
        self.hints.mark_unchanged();
        let late = || StoreError::Unavailable("the feed was not read in time".into());
        let page = timeout(PATIENCE, self.look()).await.unwrap_or_else(|_| Err(late()));
        self.heard(&page);
        page
    }

    /// A look at the next page that moves nothing.
    fn look(&self) -> impl Future<Output = StoreResult<Result<FeedPage, Refusal>>> + Send + use<> {
        let (store, after, payloads) = (Arc::clone(&self.store), self.after.clone(), self.payloads);
        async move {
            match after {
                None => Ok(Ok(FeedPage { events: Vec::new(), next: store.feed_head((), None).await? })),
                Some(after) => {
                    let request = ReadFeed { after: Some(after), limit: PAGE_MAX, payloads };
                    store.feed(request, None).await
                }
            }
        }
    }

    fn heard(&mut self, page: &StoreResult<Result<FeedPage, Refusal>>) {
        let failed_before = self.last == Last::Failed;
        self.last = match page {
            Ok(Ok(page)) => {
                self.after = Some(page.next.clone());
                match page.events.len() {
                    0 => Last::Empty,
                    n if n >= PAGE_MAX => Last::Full,
                    _ => Last::Some,
                }
            }
            Ok(Err(_)) => Last::Empty,
            Err(_) => Last::Failed,
        };
        match page {
            Ok(_) if failed_before => tracing::info!("the feed can be read again"),
            Err(error) if !failed_before => {
                tracing::warn!(%error, "the feed cannot be read; trying again every second");
            }
            _ => {}
        }
    }

    /// Whether the last page was full, so that there is probably more.
    pub fn is_full(&self) -> bool {
        self.last == Last::Full
    }

    /// Waits until a read is worth it; news gather for so long, so that a busy store is not asked after every single commit.
    /// Safe to drop.
    pub async fn rest(&mut self, gather: Duration) {
        match self.last {
            Last::Full | Last::Some => sleep(gather).await,
            Last::Failed => sleep(POLL).await,
            Last::Empty => tokio::select! {
                changed = self.hints.changed() => if changed.is_err() { sleep(POLL).await },
                () = sleep(POLL) => {}
            },
        }
    }

    /// Forgets the place: the next read begins at the end of the feed.
    pub fn begin_anew(&mut self) {
        (self.after, self.last) = (None, Last::Full);
    }
}
