//! The feed: every event of every job, in the order of writing.

use crate::state::{State, page};
use std::ops::Bound;
use windlass_core::{FeedCursor, LastRead, Life, Refusal, Timestamp};
use windlass_store::{Adopt, FeedEvent, FeedPage, ReadFeed};

impl State {
    /// Where the feed ends now.
    pub fn feed_head(&mut self, (): (), _now: Timestamp) -> FeedCursor {
        let last = self.feed.last_key_value().and_then(|(seq, _)| self.numbered(*seq));
        FeedCursor::after_number(self.life, last, self.last_seq)
    }

    /// What came after a cursor. One lock orders all writes, so a plain number is a cursor.
    pub fn feed(&mut self, request: ReadFeed, _now: Timestamp) -> Result<FeedPage, Refusal> {
        let start = FeedCursor::after_number(self.life, None, 0);
        let from = request.after.unwrap_or(start);
        from.check_life(self.life)?;
        let found = from.last.and_then(|last| self.numbered(last.seq));
        from.check_last(found, self.purged_seq)?;
        let newer = self.feed.range((Bound::Excluded(from.number()?), Bound::Unbounded));
        let read = newer.filter_map(|(seq, (job, version))| {
            let entry = self.entries.get(job)?;
            let mut event = entry.event(*version)?.clone();
            event.payload = event.payload.filter(|_| request.payloads || event.what.is_error());
            let last = Some(LastRead::of(*seq, &event));
            Some(FeedEvent {
                cursor: FeedCursor::after_number(self.life, last, *seq),
                event,
                queue: entry.job.queue.clone(),
                kind: entry.job.kind.clone(),
            })
        });
        let events: Vec<FeedEvent> = read.take(page(request.limit)).collect();
        let next = events.last().map_or(from, |event| event.cursor.clone());
        Ok(FeedPage { events, next })
    }

    /// Begins a new incarnation.
    pub fn adopt(&mut self, request: Adopt, now: Timestamp) -> Life {
        self.life.incarnation += 1;
        self.write_audit(self.life.adopted(request.actor), now);
        self.life
    }

    /// The event with a number, as cursors name it.
    fn numbered(&self, seq: i64) -> Option<LastRead> {
        let (job, version) = self.feed.get(&seq)?;
        Some(LastRead::of(seq, self.entries.get(job)?.event(*version)?))
    }
}
