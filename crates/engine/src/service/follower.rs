//! Follows the feed from a place that the store keeps, while this process leads.
//!
//! The place moves in the transaction that writes what the reader found, under the leader's epoch. Killed anywhere, the next
//! leader goes on from there: what a reader writes to the store is written once, and what it does outside of the store
//! happens again for the events of the page that it was at.

use crate::repeat::{jittered, repeat};
use crate::service::Leading;
use crate::shutdown::Shutdown;
use metrics::{counter, gauge};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use windlass_core::registry::WriteAudit;
use windlass_core::{Actor, FeedCursor, Metadata, Name, Refusal};
use windlass_store::{
    Advance, FeedEvent, FeedPage, Findings, Place, ReadFeed, Store, StoreError, StoreResult, fresh,
};

/// How many events are read at once. Errors come with their payloads, of at most 64 KiB.
const PAGE: usize = 500;
/// How long news gather before they are read: so often the place moves, at most, unless pages are full.
const GATHER: Duration = Duration::from_secs(1);
/// How long it waits for news before it looks all the same.
const LOOK: Duration = Duration::from_secs(5);
/// How long a move is sent again when the store does not answer, before the place is read anew.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a reader begins that has no place, or whose place is of no use any more, as after a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first event that is left.
    Beginning,
    /// Behind the last event: what nobody read is left out.
    Now,
}

/// What reads the feed. One that acts outside of the store may see an event again.
pub trait Reader: Send {
    /// The name under which its place is kept.
    fn name(&self) -> Name;

    /// It begins at this place, for the first time or after somebody else moved it: what it remembers may be wrong.
    fn begin(&mut self, place: Option<&Place>);

    /// Deals with events, and answers what is to be written when the place moves behind them.
    fn read(&mut self, events: &[FeedEvent]) -> impl Future<Output = StoreResult<Findings>> + Send;

    /// Whether it is to read on now. Its place stays while it is not.
    fn is_wanted(&mut self) -> impl Future<Output = bool> + Send {
        async { true }
    }

    /// Is asked between pages for what does not come from events. It must be as good twice as once.
    fn look(&mut self) -> impl Future<Output = StoreResult<Option<Findings>>> + Send {
        async { Ok(None) }
    }
}

/// Follows the feed for a reader.
#[derive(Debug)]
pub struct Follower<R> {
    store: Arc<dyn Store>,
    leading: Leading,
    reader: R,
    first: Start,
    expired: Start,
    gather: Duration,
    page: usize,
}

/// Where it stands in the feed.
struct Stand {
    /// As the store has it.
    kept: Option<FeedCursor>,
    /// Where it reads on; the beginning when absent.
    after: Option<FeedCursor>,
}

impl<R: Reader> Follower<R> {
    /// Follows the feed of this store while this process leads, from the beginning.
    pub fn new(store: Arc<dyn Store>, leading: Leading, reader: R) -> Self {
        let (first, expired) = (Start::Beginning, Start::Now);
        Self { store, leading, reader, first, expired, gather: GATHER, page: PAGE }
    }

    /// Where it begins when it has no place yet, instead of at the beginning.
    #[must_use]
    pub fn first(mut self, start: Start) -> Self {
        self.first = start;
        self
    }

    /// Where it begins again when its place is of no use any more, as after a restore, instead of now.
    #[must_use]
    pub fn expired(mut self, start: Start) -> Self {
        self.expired = start;
        self
    }

    /// How long news gather before they are read, instead of a second.
    #[must_use]
    pub fn gather(mut self, gather: Duration) -> Self {
        self.gather = gather;
        self
    }

    /// How many events are read at once, instead of 500.
    #[must_use]
    pub fn page(mut self, page: usize) -> Self {
        self.page = page;
        self
    }

    /// Follows until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        let mut silent = false;
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            let ended = reign.during(self.follow(epoch)).await.unwrap_or(Ok(()));
            match ended {
                Ok(()) => silent = false,
                Err(error) if !silent => {
                    let reader = self.reader.name();
                    tracing::warn!(%reader, %error, "the feed cannot be followed; it is tried again until it can");
                    silent = true;
                }
                Err(_) => {}
            }
            sleep(jittered(GATHER)).await;
        }
    }

    /// Follows under an epoch, until the place was moved by another or the store does not answer.
    async fn follow(&mut self, epoch: i64) -> StoreResult<()> {
        if !self.reader.is_wanted().await {
            return Ok(());
        }
        let place = self.store.place(self.reader.name(), None).await?;
        self.reader.begin(place.as_ref());
        let kept = place.as_ref().and_then(|place| place.cursor.clone());
        let mut stand = Stand { after: kept.clone(), kept };
        if place.is_none() && self.first == Start::Now {
            let now = self.store.feed_head((), None).await?;
            if !self.advance(epoch, &mut stand, now, Findings::default()).await? {
                return Ok(());
            }
        }
        let mut hints = self.store.hints().feed;
        loop {
            if !self.reader.is_wanted().await {
                return Ok(());
            }
            let Some(page) = self.next(epoch, &mut stand).await? else { return Ok(()) };
            let is_full = page.events.len() == self.page;
            if let Some(last) = page.events.last() {
                let behind = fresh::wall_clock().as_micros().saturating_sub(last.event.at.as_micros());
                let lag = if is_full { behind.max(0) as f64 / 1e6 } else { 0.0 };
                gauge!("windlass_reader_lag_seconds", "reader" => self.reader.name().to_string()).set(lag);
                let findings = self.reader.read(&page.events).await?;
                if !self.advance(epoch, &mut stand, page.next, findings).await? {
                    return Ok(());
                }
            }
            if is_full {
                continue;
            }
            // A look whose findings could not be written would not be taken again for a while.
            if let Some(here) = stand.kept.clone()
                && let Some(findings) = self.reader.look().await?
                && !self.advance(epoch, &mut stand, here, findings).await?
            {
                return Ok(());
            }
            if page.events.is_empty() {
                let _polls = timeout(LOOK, hints.changed()).await;
                // An operator may have moved the place, as when stats are made again.
                let place = self.store.place(self.reader.name(), None).await?;
                if place.and_then(|place| place.cursor) != stand.kept {
                    return Ok(());
                }
            }
            sleep(self.gather).await;
        }
    }

    /// What comes next. None when its place was of no use, and it is to begin again elsewhere.
    async fn next(&self, epoch: i64, stand: &mut Stand) -> StoreResult<Option<FeedPage>> {
        let read = |after| ReadFeed { after, limit: self.page, payloads: false };
        match self.store.feed(read(stand.after.clone()), None).await? {
            Ok(page) => Ok(Some(page)),
            Err(refusal) => {
                self.say(&refusal).await;
                match self.expired {
                    Start::Beginning => {
                        stand.after = None;
                        let page = self.store.feed(read(None), None).await?;
                        page.map(Some).map_err(|again| StoreError::Unavailable(again.to_string()))
                    }
                    Start::Now => {
                        let now = self.store.feed_head((), None).await?;
                        self.advance(epoch, stand, now, Findings::default()).await?;
                        Ok(None)
                    }
                }
            }
        }
    }

    /// Moves the place. False when it is not where this reader left it, or this process leads no more.
    async fn advance(
        &self,
        epoch: i64,
        stand: &mut Stand,
        to: FeedCursor,
        findings: Findings,
    ) -> StoreResult<bool> {
        let (reader, from) = (self.reader.name(), stand.kept.clone());
        let wish = Advance { term: Leading::term(), epoch, reader, from, to: to.clone(), findings };
        match repeat(PATIENCE, || self.store.advance(wish.clone(), None)).await? {
            Ok(_) => {
                *stand = Stand { kept: Some(to.clone()), after: Some(to) };
                Ok(true)
            }
            Err(refusal) => {
                tracing::debug!(reader = %wish.reader, %refusal, "the place was not moved");
                Ok(false)
            }
        }
    }

    /// Says that the place is of no use any more, and where the reader begins again: in the log and in the audit.
    async fn say(&self, refusal: &Refusal) {
        let (reader, from) =
            (self.reader.name(), if self.expired == Start::Now { "now" } else { "beginning" });
        counter!("windlass_reader_restarts_total", "reader" => reader.to_string()).increment(1);
        tracing::warn!(%reader, %refusal, from, "a reader of the feed has lost its place and begins again");
        let detail = Metadata::from_iter([
            ("why".to_owned(), refusal.to_string().into()),
            ("from".to_owned(), from.into()),
        ]);
        let Ok(action) = Name::parse("action", "reader.restart") else { return };
        let audit = WriteAudit { actor: Actor::engine(), action, target: reader.to_string(), detail };
        if let Err(error) = self.store.write_audit(audit, None).await {
            tracing::warn!(%reader, %error, "that a reader begins again is not in the audit");
        }
    }
}
