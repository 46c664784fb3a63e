//! The feed: the log of all jobs in the order it was written. One writer at a time numbers it, so a plain number
//! is a cursor that misses nothing.

use crate::db::{Db, sql};
use crate::error::{Failure, Tried};
use crate::row;
use windlass_core::{FeedCursor, Name, Refusal};
use windlass_store::{FeedEvent, FeedPage, ReadFeed};

impl Db<'_> {
    fn head(&self) -> Tried<(i64, u64)> {
        self.one(sql!("head"), (), |r| Ok((r.get(0)?, r.get::<_, i64>(1)?.cast_unsigned())))?
            .ok_or_else(|| Failure::Unreadable("the table windlass_store is empty".into()))
    }

    pub(crate) fn feed_head(&self) -> Tried<FeedCursor> {
        let (seq, store) = self.head()?;
        Ok(FeedCursor { store, position: seq.to_string() })
    }

    pub(crate) fn feed(&self, request: &ReadFeed) -> Tried<Result<FeedPage, Refusal>> {
        let (_, store) = self.head()?;
        let after = match request.after.as_ref().map(|c| c.position_in(store)).transpose() {
            Ok(after) => after.unwrap_or(0),
            Err(invalid) => return Ok(Err(invalid.into())),
        };
        let cursor = |seq: i64| FeedCursor { store, position: seq.to_string() };
        let named = |text: String| Name::try_from(text).map_err(|e| Failure::Unreadable(e.to_string()));
        let events = self.all(sql!("feed"), (after, crate::list::page(request.limit)), |r| {
            Ok(FeedEvent {
                cursor: cursor(r.get(0)?),
                event: row::event(r)?,
                queue: named(r.get(16)?)?,
                kind: named(r.get(17)?)?,
            })
        })?;
        let next = events.last().map_or_else(|| cursor(after), |e| e.cursor.clone());
        Ok(Ok(FeedPage { events, next }))
    }
}
