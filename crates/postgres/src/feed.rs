//! The feed: every event of every job, in one order, from a cursor.
//!
//! A cursor is a snapshot of the database: a read returns what the new snapshot sees and the old one did not. So a
//! slow transaction that took its numbers early is not missed, and a foreign open transaction stalls nobody. While a
//! page does not reach the end of that difference, the cursor also holds the newer snapshot and the last number.
//!
//! A difference is sorted anew for every page, so a large one, of a reader that was away or begins at the beginning, is
//! read along the numbers instead, a window at a time; its cursor also holds the number at which it ends.

use crate::db::{Db, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, name};
use tokio_postgres::Row;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{FeedCursor, Invalid, Refusal};
use windlass_store::{FeedEvent, FeedPage, Now, ReadFeed};

/// Before everything: no transaction is older.
const ORIGIN: &str = "1:1:";
/// Columns of `job_events`.
const EVENT_COLUMNS: usize = 18;
/// How many new events are sorted: the largest page. With more, the numbers are read along. Debug builds, and so the laws, do
/// both.
const SORTED: i64 = if cfg!(debug_assertions) { 30 } else { PAGE_MAX as i64 };
/// How many numbers one statement reads along.
const WINDOW: i64 = if cfg!(debug_assertions) { 20 } else { 10_000 };

/// A place in the feed.
#[derive(Debug, Clone)]
struct Place {
    /// What was read wholly.
    seen: String,
    /// What is being read, if that takes more than a page.
    reading: Option<Reading>,
}

/// A difference of snapshots, on the way through it.
#[derive(Debug, Clone)]
struct Reading {
    newer: String,
    /// The last number that was read.
    after: i64,
    /// Where a large one ends.
    end: Option<i64>,
}

impl Place {
    fn to_text(&self) -> String {
        match &self.reading {
            None => self.seen.clone(),
            Some(Reading { newer, after, end: None }) => format!("{};{newer};{after}", self.seen),
            Some(Reading { newer, after, end: Some(end) }) => format!("{};{newer};{after};{end}", self.seen),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let seen = snapshot(parts.next()?)?;
        let Some(newer) = parts.next() else { return Some(Self { seen, reading: None }) };
        let after = parts.next()?.parse().ok()?;
        let end = parts.next().map(str::parse).transpose().ok()?;
        let reading = Reading { newer: snapshot(newer)?, after, end };
        parts.next().is_none().then_some(Self { seen, reading: Some(reading) })
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
        let origin = || Some(Place { seen: ORIGIN.into(), reading: None });
        let place = request.after.as_ref().map_or_else(origin, |cursor| Place::parse(&cursor.position));
        let news = self.news(place.as_ref().map_or(ORIGIN, |p| &p.seen)).await?;
        let here = request.after.as_ref().is_none_or(|cursor| cursor.store == news.store);
        let Some(place) = place.filter(|_| here) else {
            let text = request.after.as_ref().map(FeedCursor::to_text).unwrap_or_default();
            let limit = "comes from another store; start from this one's feed";
            return Ok(Err(Invalid::new("cursor", text, limit).into()));
        };
        let reading = match place.reading.clone() {
            Some(reading) => reading,
            None => self.begin(&place.seen, &news).await?,
        };
        let limit = crate::list::page(request.limit);
        let (rows, ended) = match reading.end {
            Some(end) => self.along(&place.seen, &reading, end, limit).await?,
            None => {
                let (seen, newer) = (place.seen.as_str(), reading.newer.as_str());
                let rows = self.rows(sql!("feed"), params![seen, newer, reading.after, limit]).await?;
                let ended = (rows.len() as i64) < limit;
                (rows, ended)
            }
        };
        let cursor = |place: Place| FeedCursor { store: news.store, position: place.to_text() };
        let mut events = Vec::with_capacity(rows.len());
        for r in &rows {
            let mut c = row::Columns::new(r, EVENT_COLUMNS);
            let reading = Reading { after: r.try_get(0)?, ..reading.clone() };
            let here = Place { seen: place.seen.clone(), reading: Some(reading) };
            let (queue, kind) = (c.text(name)?, c.text(name)?);
            events.push(FeedEvent { cursor: cursor(here), event: row::event(r, 0)?, queue, kind });
        }
        let next = match events.last() {
            Some(last) if !ended => last.cursor.clone(),
            _ => cursor(Place { seen: reading.newer, reading: None }),
        };
        Ok(Ok((FeedPage { events, next }, place.reading.is_some())))
    }

    async fn news(&self, seen: &str) -> Tried<News> {
        let news = self
            .one(sql!("feed_news"), params![seen, SORTED], |r| {
                let store = r.try_get::<_, i64>(0)?.cast_unsigned();
                Ok(News { store, newest: r.try_get(1)?, end: r.try_get(2)?, many: r.try_get(3)? })
            })
            .await?;
        news.ok_or_else(|| Failure::Unreadable("the table windlass.store is empty".into()))
    }

    /// How the difference to the newest snapshot is to be read.
    async fn begin(&self, seen: &str, news: &News) -> Tried<Reading> {
        let newer = news.newest.clone();
        if !news.many {
            return Ok(Reading { newer, after: 0, end: None });
        }
        let first = match seen {
            ORIGIN => None,
            _ => self.one(sql!("feed_first"), params![seen], |r| Ok(r.try_get(0)?)).await?.flatten(),
        };
        Ok(Reading { newer, after: first.map_or(0, |seq: i64| seq - 1), end: Some(news.end) })
    }

    /// The next rows of a large difference, and whether that was the end of it.
    async fn along(&self, seen: &str, reading: &Reading, end: i64, limit: i64) -> Tried<(Vec<Row>, bool)> {
        let (mut rows, mut after) = (Vec::new(), reading.after);
        while after < end {
            let to = end.min(after.saturating_add(WINDOW));
            let (newer, left) = (reading.newer.as_str(), limit - rows.len() as i64);
            let found = self.rows(sql!("feed_window"), params![seen, newer, after, to, left]).await?;
            let full = found.len() as i64 == left;
            rows.extend(found);
            if full {
                return Ok((rows, false));
            }
            after = to;
        }
        Ok((rows, true))
    }
}

/// What is new since a snapshot.
struct News {
    store: u64,
    newest: String,
    /// No event that the newest snapshot sees has a number above this.
    end: i64,
    /// Whether it is too much to be sorted.
    many: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back_and_nonsense_does_not() {
        for text in ["1:1:", "10:20:10,14,15", "10:20:10,14,15;12:30:12;99", "1:1:;9:9:;5;70"] {
            assert_eq!(Place::parse(text).map(|p| p.to_text()).as_deref(), Some(text));
        }
        for text in [
            "",
            "42",
            "20:10:",
            "1:2:3",
            "10:20:15,14",
            "0:1:",
            "1:1:;x;3",
            "1:1:;1:1:;3;4;5",
            "1:1:;1:1:",
            "1:1:'",
        ] {
            assert!(Place::parse(text).is_none(), "{text}");
        }
    }
}
