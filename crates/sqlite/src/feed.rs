//! The feed: the log of all jobs in the order it was written. One writer at a time numbers it, so a plain number
//! is a cursor that misses nothing.
//!
//! A file that was put back from a back-up is noticed in two ways. A cursor names the last event that its reader was
//! given; if the file holds another one under that number, or none, the cursor is refused. And the store keeps the
//! identity of its file: a copy is another file, and begins a new incarnation when it is opened ([`adopt_file`]).

use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::row;
use rusqlite::{Connection, OptionalExtension};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use windlass_core::{FeedCursor, JobId, LastRead, Life, Name, Refusal, Timestamp};
use windlass_store::house::Closed;
use windlass_store::{Adopt, FeedEvent, FeedPage, ReadFeed};

/// Where the feed stands.
pub(crate) struct Head {
    /// The last number that was given.
    pub(crate) seq: i64,
    /// The last moment written.
    pub(crate) last_at: i64,
    /// Whether the entries with the last numbers were purged.
    pub(crate) gap: bool,
    pub(crate) life: Life,
    /// No number above this was purged.
    pub(crate) purged: i64,
    /// Why the store takes no writes.
    pub(crate) closed: Option<Closed>,
}

impl Db<'_> {
    pub(crate) fn head(&self) -> Tried<Head> {
        let head = self.one(sql!("head"), (), |r| {
            let store = r.get::<_, i64>(1)?.cast_unsigned();
            let life = Life { store, incarnation: r.get(4)? };
            let closed = r.get_ref(6)?.as_str_or_null().map_err(rusqlite::Error::from)?;
            let closed = closed.map(serde_json::from_str).transpose()?;
            Ok(Head { seq: r.get(0)?, last_at: r.get(2)?, gap: r.get(3)?, life, purged: r.get(5)?, closed })
        })?;
        head.ok_or_else(|| Failure::Unreadable("the table windlass_store is empty".into()))
    }

    /// The event with a number, as cursors name it.
    fn numbered(&self, seq: i64) -> Tried<Option<LastRead>> {
        self.one(sql!("feed_last"), [seq], |r| {
            let (job, at) = (JobId::from_bytes(r.get(0)?), Timestamp::from_micros(r.get(2)?));
            Ok(LastRead::new(seq, job, r.get(1)?, at, &r.get::<_, String>(3)?))
        })
    }

    pub(crate) fn feed_head(&self) -> Tried<FeedCursor> {
        let head = self.head()?;
        Ok(FeedCursor::after_number(head.life, self.numbered(head.seq)?, head.seq))
    }

    pub(crate) fn feed(&self, request: &ReadFeed) -> Tried<Result<FeedPage, Refusal>> {
        let head = self.head()?;
        let from = match &request.after {
            None => FeedCursor::after_number(head.life, None, 0),
            Some(after) => match self.check(after, &head)? {
                Ok(()) => after.clone(),
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
        let after = match from.number() {
            Ok(after) => after,
            Err(invalid) => return Ok(Err(invalid.into())),
        };
        let named = |text: String| Name::try_from(text).unwrap_or_else(|_| Name::unreadable());
        let events =
            self.all(sql!("feed"), (after, crate::list::page(request.limit), request.payloads), |r| {
                let (seq, event) = (r.get(0)?, row::readable_event(r)?);
                let cursor = FeedCursor::after_number(head.life, Some(LastRead::of(seq, &event)), seq);
                Ok(FeedEvent {
                    cursor,
                    event,
                    queue: named(r.get("queue")?),
                    kind: named(r.get("job_kind")?),
                })
            })?;
        let next = events.last().map_or(from, |e| e.cursor.clone());
        Ok(Ok(FeedPage { events, next }))
    }

    fn check(&self, cursor: &FeedCursor, head: &Head) -> Tried<Result<(), Refusal>> {
        let found = cursor.last.map_or(Ok(None), |last| self.numbered(last.seq))?;
        let life = cursor.check_life(head.life).and_then(|()| cursor.check_last(found, head.purged));
        Ok(life.and_then(|()| match cursor.number()? > head.seq {
            true => Err(Refusal::CursorExpired(
                "it lies behind the end of the feed: the store was restored since",
            )),
            false => Ok(()),
        }))
    }
}

impl Tx<'_, '_> {
    pub(crate) fn adopt(&self, request: &Adopt, now: Timestamp) -> Tried<Life> {
        self.execute(sql!("adopt"), ())?;
        let life = self.head()?.life;
        self.write_audit(&life.adopted(request.actor.clone()), now)?;
        Ok(life)
    }
}

/// Begins a new incarnation if this is another file than the one that the store was in when it was last opened: a
/// back-up that was put in its place, or a copy.
pub(crate) fn adopt_file(conn: &Connection, path: &Path) -> rusqlite::Result<()> {
    let Some(here) = identity(path) else { return Ok(()) };
    let known: Option<String> = conn.query_row(sql!("file"), (), |r| r.get(0)).optional()?.flatten();
    if known.as_ref() == Some(&here) {
        return Ok(());
    }
    conn.execute(sql!("adopt_file"), [&here])?;
    if known.is_some() {
        tracing::warn!(
            "the store is in another file than before, as after a restore: a new incarnation begins"
        );
    }
    Ok(())
}

/// What tells a file from its copies: its number in the file system and, where that is known, when it was made, because
/// numbers are given again.
fn identity(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let made = found.created().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    Some(format!("{}.{}", found.ino(), made.map_or(0, |t| t.as_micros())))
}
