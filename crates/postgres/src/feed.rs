//! The feed: every event of every job, in one order, from a cursor.
//!
//! A cursor is a snapshot of the database: a read returns what the new snapshot sees and the old one did not. So a
//! slow transaction that took its numbers early is not missed, and a foreign open transaction stalls nobody. While a
//! page does not reach the end of that difference, the cursor also holds the newer snapshot and the last number.

use crate::db::{Db, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, name};
use windlass_core::{FeedCursor, Invalid, Refusal};
use windlass_store::{FeedEvent, FeedPage, Now, ReadFeed};

/// Before everything: no transaction is older.
const ORIGIN: &str = "1:1:";
/// Columns of `job_events`.
const EVENT_COLUMNS: usize = 18;

/// A place in the feed.
#[derive(Debug, Clone)]
struct Place {
    /// What was read wholly.
    seen: String,
    /// What is being read, and up to which number.
    reading: Option<(String, i64)>,
}

impl Place {
    fn to_text(&self) -> String {
        match &self.reading {
            None => self.seen.clone(),
            Some((newer, seq)) => format!("{};{newer};{seq}", self.seen),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let seen = snapshot(parts.next()?)?;
        let reading = match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => None,
            (Some(newer), Some(seq), None) => Some((snapshot(newer)?, seq.parse().ok()?)),
            _ => return None,
        };
        Some(Self { seen, reading })
    }
}

/// Accepts what PostgreSQL will accept: `xmin:xmax:xip,xip`.
fn snapshot(text: &str) -> Option<String> {
    let mut parts = text.split(':');
    let (xmin, xmax, xip) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |t: &str| t.parse::<u64>().ok().filter(|n| *n > 0 && *n <= i64::MAX as u64);
    let (min, max) = (number(xmin)?, number(xmax)?);
    let running: Option<Vec<u64>> = xip.split(',').filter(|t| !t.is_empty()).map(number).collect();
    let running = running?;
    let ordered = running.is_sorted() && running.iter().all(|x| (min..max).contains(x));
    (parts.next().is_none() && min <= max && ordered).then(|| text.to_owned())
}

impl Db<'_> {
    async fn head(&self) -> Tried<(u64, String)> {
        let head = self
            .one(sql!("head"), params![], |r| Ok((r.try_get::<_, i64>(0)?.cast_unsigned(), r.try_get(1)?)))
            .await?;
        head.ok_or_else(|| Failure::Unreadable("the table windlass.store is empty".into()))
    }

    pub(crate) async fn feed_head(&self, _: &(), _: Now) -> Tried<FeedCursor> {
        let (store, position) = self.head().await?;
        Ok(FeedCursor { store, position })
    }

    pub(crate) async fn feed(&self, request: &ReadFeed, now: Now) -> Tried<Result<FeedPage, Refusal>> {
        let page = self.feed_page(request).await?;
        // The rest of an older difference may be empty although there is more behind it.
        match page {
            Ok((page, true)) if page.events.is_empty() => {
                let next = ReadFeed { after: Some(page.next), limit: request.limit };
                Box::pin(self.feed(&next, now)).await
            }
            page => Ok(page.map(|(page, _)| page)),
        }
    }

    /// A page, and whether it was the rest of an older difference.
    async fn feed_page(&self, request: &ReadFeed) -> Tried<Result<(FeedPage, bool), Refusal>> {
        let (store, newest) = self.head().await?;
        let origin = || Some(Place { seen: ORIGIN.into(), reading: None });
        let place = match &request.after {
            None => origin(),
            Some(cursor) if cursor.store == store => Place::parse(&cursor.position),
            Some(_) => None,
        };
        let Some(place) = place else {
            let text = request.after.as_ref().map(FeedCursor::to_text).unwrap_or_default();
            let limit = "comes from another store; start from this one's feed";
            return Ok(Err(Invalid::new("cursor", text, limit).into()));
        };
        let (newer, after) = place.reading.clone().unwrap_or((newest, 0));
        let limit = crate::list::page(request.limit);
        let rows =
            self.rows(sql!("feed"), params![place.seen.as_str(), newer.as_str(), after, limit]).await?;
        let cursor = |place: Place| FeedCursor { store, position: place.to_text() };
        let mut events = Vec::with_capacity(rows.len());
        for r in &rows {
            let mut c = row::Columns::new(r, EVENT_COLUMNS);
            let here = Place { seen: place.seen.clone(), reading: Some((newer.clone(), r.try_get(0)?)) };
            let (queue, kind) = (c.text(name)?, c.text(name)?);
            events.push(FeedEvent { cursor: cursor(here), event: row::event(r, 0)?, queue, kind });
        }
        let full = events.len() as i64 == limit;
        let next = match events.last() {
            Some(last) if full => last.cursor.clone(),
            _ => cursor(Place { seen: newer, reading: None }),
        };
        Ok(Ok((FeedPage { events, next }, place.reading.is_some())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back_and_nonsense_does_not() {
        for text in ["1:1:", "10:20:10,14,15", "10:20:10,14,15;12:30:12;99"] {
            assert_eq!(Place::parse(text).map(|p| p.to_text()).as_deref(), Some(text));
        }
        for text in ["", "42", "20:10:", "1:2:3", "10:20:15,14", "0:1:", "1:1:;x;3", "1:1:;1:1:;3;4", "1:1:'"]
        {
            assert!(Place::parse(text).is_none(), "{text}");
        }
    }
}
