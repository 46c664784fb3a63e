//! The feed: every event of every job, in the order of writing.

use crate::state::{State, page};
use std::ops::Bound;
use windlass_core::{FeedCursor, Refusal, Timestamp};
use windlass_store::{FeedEvent, FeedPage, ReadFeed};

impl State {
    /// Where the feed ends now.
    pub fn feed_head(&mut self, (): (), _now: Timestamp) -> FeedCursor {
        self.cursor(self.last_seq)
    }

    /// What came after a cursor. One lock orders all writes, so a plain number is a cursor.
    pub fn feed(&mut self, request: ReadFeed, _now: Timestamp) -> Result<FeedPage, Refusal> {
        let after = request.after.map_or(Ok(0), |cursor| cursor.position_in(self.store))?;
        let newer = self.feed.range((Bound::Excluded(after), Bound::Unbounded));
        let read = newer.filter_map(|(seq, (job, version))| {
            let entry = self.entries.get(job)?;
            Some(FeedEvent {
                cursor: self.cursor(*seq),
                event: entry.event(*version)?.clone(),
                queue: entry.job.queue.clone(),
                kind: entry.job.kind.clone(),
            })
        });
        let events: Vec<FeedEvent> = read.take(page(request.limit)).collect();
        let next = events.last().map_or_else(|| self.cursor(after), |event| event.cursor.clone());
        Ok(FeedPage { events, next })
    }

    fn cursor(&self, seq: i64) -> FeedCursor {
        FeedCursor { store: self.store, position: seq.to_string() }
    }
}
