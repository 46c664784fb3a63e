//! Moving house: all of a store carried into another, empty one.
//!
//! Both are closed first, the new one before the old one, so that an old store that is closed and a new one that is open say
//! that all is done. What is closed does not change, so rows are carried in the order of their keys, and who goes on after
//! an interruption goes on behind the last key that arrived. Then every row is compared; then jobs that ran are taken from
//! their holders, which counts as no failure; then the new store is opened. The old one stays closed.
//!
//! Readers of the feed go on where they were: the log is carried up to the last event that a reader has dealt with, and the end
//! of the new feed at that moment is its place.

use std::sync::Arc;
use windlass_core::follow::STATS;
use windlass_core::limits::PAGE_MAX;
use windlass_core::registry::WriteAudit;
use windlass_core::{Actor, Filter, Metadata, Name, Status, Timestamp};
use windlass_store::house::{Cell, Closed, House, LOG, PLACES, Standing, TABLES, Table};
use windlass_store::{List, Place, ReadFeed, RebuildStats, StoreError};

/// Rows per page at first, at least and at most: a page is to hold about [`PAGE_BYTES`].
const ROWS: (usize, usize, usize) = (200, 10, 2_000);
const PAGE_BYTES: usize = 4 << 20;
/// How long before the first event that was not counted counting begins again, in microseconds.
const HOUR: i64 = 3_600_000_000;

/// Two stores and who moves.
#[derive(Debug, Clone)]
pub struct Move {
    /// The old store, opened for moving, and where it is, without a password.
    pub from: (Arc<dyn House>, String),
    /// The new one.
    pub to: (Arc<dyn House>, String),
    /// Who says so.
    pub actor: Actor,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Rows of a table are carried: so many of so many.
    Carrying(&'static str, u64, u64),
    /// Rows of a table are compared.
    Comparing(&'static str, u64, u64),
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// Tables with how many rows each has now.
    pub rows: Vec<(&'static str, u64)>,
    /// Jobs that ran and were taken from their holders.
    pub let_go: usize,
}

/// Why a move cannot go on. Said again with the same two stores it goes on where it stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// Both are one.
    #[error("both are the same store; --to names another, empty one")]
    SameStore,
    /// There is something in the new store.
    #[error(
        "there is something in {0} already ({1}); move into an empty store: another file, database or schema"
    )]
    NotEmpty(String, &'static str),
    /// One of them is closed for another move.
    #[error("{0}: {1}")]
    ClosedForOther(String, Closed),
    /// It is done.
    #[error("the jobs of {0} have moved to {1} already; they run there")]
    Done(String, String),
    /// There is nothing to give up.
    #[error("{0} is not being moved to {1}")]
    NotMoving(String, String),
    /// What arrived is not what was sent.
    #[error(
        "{table} differs in the new store at {key}; nothing runs in either. Empty the new store and begin again"
    )]
    Differs {
        /// In which table.
        table: &'static str,
        /// At which row.
        key: String,
    },
    /// A store failed.
    #[error("{0}: {1}")]
    Store(String, StoreError),
    /// A store refused.
    #[error(transparent)]
    Refused(#[from] windlass_core::Refusal),
    /// A name is none.
    #[error(transparent)]
    Invalid(#[from] windlass_core::Invalid),
}

type Tried<T> = Result<T, MoveError>;

/// How many rows the next page is to have.
fn next_limit(limit: usize, page: &[Vec<Cell>]) -> usize {
    let bytes: usize = page.iter().flatten().map(Cell::len).sum();
    let wanted = match bytes {
        bytes if bytes > PAGE_BYTES => limit / 2,
        bytes if bytes < PAGE_BYTES / 4 => limit * 2,
        _ => limit,
    };
    wanted.clamp(ROWS.1, ROWS.2)
}

fn key(table: &Table, row: &[Cell]) -> Vec<Cell> {
    row[..table.key].to_vec()
}

/// A key for people.
fn shown(key: &[Cell]) -> String {
    let cell = |cell: &Cell| match cell {
        Cell::Null => "nothing".to_owned(),
        Cell::Int(n) => n.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Bytes(bytes) => windlass_core::lease::hex(bytes),
        Cell::Texts(texts) => texts.join(" "),
    };
    key.iter().map(cell).collect::<Vec<_>>().join(", ")
}

/// A reader of the old feed, and the first number in the log that it has not dealt with, with when that happened.
#[derive(Debug)]
struct Reader {
    place: Place,
    first: Option<(i64, Timestamp)>,
}

impl Reader {
    /// The last number that it has dealt with.
    fn upto(&self) -> i64 {
        self.first.map_or(i64::MAX, |(seq, _)| seq - 1)
    }
}

impl Move {
    fn in_from(&self, error: StoreError) -> MoveError {
        MoveError::Store(self.from.1.clone(), error)
    }

    fn in_to(&self, error: StoreError) -> MoveError {
        MoveError::Store(self.to.1.clone(), error)
    }

    async fn standing(&self) -> Tried<(Standing, Standing)> {
        let from = self.from.0.standing().await.map_err(|e| self.in_from(e))?;
        let to = self.to.0.standing().await.map_err(|e| self.in_to(e))?;
        if from.life.store == to.life.store {
            return Err(MoveError::SameStore);
        }
        Ok((from, to))
    }

    /// Moves, or goes on.
    pub async fn run(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Tried<Moved> {
        self.close().await?;
        let (from, to) = self.standing().await?;
        self.to.0.succeed(from.clone()).await.map_err(|e| self.in_to(e))?;
        if !to.closed.is_some_and(|why| why.arrived) {
            let readers = self.readers().await?;
            for table in TABLES {
                self.carry(table, &readers, progress).await?;
            }
            for table in TABLES {
                self.compare(table, progress).await?;
            }
            // From here on the new store has more than the old one.
            let why = Closed { arrived: true, ..self.moving_in(&from) };
            self.to.0.close(why).await.map_err(|e| self.in_to(e))?;
        }
        self.to.0.derive().await.map_err(|e| self.in_to(e))?;
        self.to.0.succeed(from).await.map_err(|e| self.in_to(e))?;
        let let_go = self.let_go().await?;
        self.count_again().await?;
        self.record().await?;
        let mut rows = Vec::new();
        for table in TABLES {
            rows.push((table.name, self.to.0.count(table).await.map_err(|e| self.in_to(e))?));
        }
        self.to.0.reopen().await.map_err(|e| self.in_to(e))?;
        Ok(Moved { rows, let_go })
    }

    /// Gives up a move that is not done: the old store takes writes again. The new one is left as it is, closed.
    pub async fn give_up(&self) -> Tried<()> {
        let (from, to) = self.standing().await?;
        match (&from.closed, &to.closed) {
            (Some(why), _) if !why.away || why.other != to.life.store => {
                Err(MoveError::ClosedForOther(self.from.1.clone(), why.clone()))
            }
            (Some(_), None) => Err(MoveError::Done(self.from.1.clone(), self.to.1.clone())),
            (Some(_), Some(_)) => self.from.0.reopen().await.map_err(|e| self.in_from(e)),
            (None, _) => Err(MoveError::NotMoving(self.from.1.clone(), self.to.1.clone())),
        }
    }

    fn moving_in(&self, from: &Standing) -> Closed {
        Closed { away: false, other: from.life.store, place: self.from.1.clone(), arrived: false }
    }

    /// Closes both, the new one first.
    async fn close(&self) -> Tried<()> {
        let (from, to) = self.standing().await?;
        let away = Closed { away: true, other: to.life.store, place: self.to.1.clone(), arrived: false };
        let here = self.moving_in(&from);
        let is_same = |found: &Closed, meant: &Closed| (found.away, found.other) == (meant.away, meant.other);
        match (&from.closed, &to.closed) {
            (Some(why), _) if !is_same(why, &away) => {
                return Err(MoveError::ClosedForOther(self.from.1.clone(), why.clone()));
            }
            (_, Some(why)) if !is_same(why, &here) => {
                return Err(MoveError::ClosedForOther(self.to.1.clone(), why.clone()));
            }
            (Some(_), None) => return Err(MoveError::Done(self.from.1.clone(), self.to.1.clone())),
            (Some(_), Some(_)) => return Ok(()),
            // Interrupted before the old one was closed, or given up and begun anew. What arrived then is old by now.
            (None, Some(_)) => {
                self.check_empty().await?;
                self.to.0.close(here).await.map_err(|e| self.in_to(e))?;
            }
            (None, None) => {
                self.check_empty().await?;
                self.to.0.close(here).await.map_err(|e| self.in_to(e))?;
                // Somebody may have been faster.
                if let Err(found) = self.check_empty().await {
                    self.to.0.reopen().await.map_err(|e| self.in_to(e))?;
                    return Err(found);
                }
            }
        }
        self.from.0.close(away).await.map_err(|e| self.in_from(e))
    }

    async fn check_empty(&self) -> Tried<()> {
        for table in TABLES {
            if self.to.0.last(table).await.map_err(|e| self.in_to(e))?.is_some() {
                return Err(MoveError::NotEmpty(self.to.1.clone(), table.name));
            }
        }
        Ok(())
    }

    /// The readers of the old feed. One whose place is not known there any more begins anew, as it would have there.
    async fn readers(&self) -> Tried<Vec<Reader>> {
        let mut readers = Vec::new();
        for place in self.from.0.places((), None).await.map_err(|e| self.in_from(e))? {
            let request = ReadFeed { after: place.cursor.clone(), limit: 1, payloads: false };
            let Ok(page) = self.from.0.feed(request, None).await.map_err(|e| self.in_from(e))? else {
                continue;
            };
            let first = page.events.first();
            let first = first.and_then(|found| Some((found.cursor.last?.seq, found.event.at)));
            readers.push(Reader { place, first });
        }
        readers.sort_by_key(Reader::upto);
        Ok(readers)
    }

    /// Carries the rows that have not arrived.
    async fn carry(
        &self,
        table: &'static Table,
        readers: &[Reader],
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Tried<()> {
        let is_log = table.name == LOG;
        let total = self.from.0.count(table).await.map_err(|e| self.in_from(e))?;
        let mut done = self.to.0.count(table).await.map_err(|e| self.in_to(e))?;
        let mut after = self.to.0.last(table).await.map_err(|e| self.in_to(e))?;
        let mut waiting = if is_log { self.unplaced(readers).await? } else { Vec::new() };
        let mut limit = ROWS.0;
        loop {
            progress(Progress::Carrying(table.name, done, total));
            let mut page =
                self.from.0.rows(table, after.clone(), limit).await.map_err(|e| self.in_from(e))?;
            if is_log {
                let next = page.first().map_or(i64::MAX, |row| number(row));
                let is_here = |reader: &&Reader| page.is_empty() || reader.upto() < next;
                let (here, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_here);
                self.place(&here).await?;
                waiting = later;
                if let Some(stop) = waiting.first().map(|reader| reader.upto()) {
                    page.retain(|row| number(row) <= stop);
                }
            }
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(key(table, last));
            done += page.len() as u64;
            limit = next_limit(limit, &page);
            self.to.0.put(table, page).await.map_err(|e| self.in_to(e))?;
        }
    }

    /// The readers that have no place in the new store yet, by where they stand.
    async fn unplaced<'r>(&self, readers: &'r [Reader]) -> Tried<Vec<&'r Reader>> {
        let placed = self.to.0.places((), None).await.map_err(|e| self.in_to(e))?;
        let is_placed = |reader: &&Reader| !placed.iter().any(|place| place.reader == reader.place.reader);
        Ok(readers.iter().filter(is_placed).collect())
    }

    /// Places readers at the end of the new feed as it is now.
    async fn place(&self, readers: &[&Reader]) -> Tried<()> {
        if readers.is_empty() {
            return Ok(());
        }
        let head = self.to.0.feed_head((), None).await.map_err(|e| self.in_to(e))?.to_text();
        let row = |reader: &&Reader| {
            let Place { reader: name, cursor, moved_at, since, epoch: _ } = &reader.place;
            vec![
                Cell::Text(name.to_string()),
                cursor.as_ref().map_or(Cell::Null, |_| Cell::Text(head.clone())),
                // The epochs of the new store's leaders begin anew.
                Cell::Int(0),
                Cell::Int(moved_at.as_micros()),
                since.map_or(Cell::Null, |since| Cell::Int(since.as_micros())),
            ]
        };
        self.to.0.put(PLACES, readers.iter().map(row).collect()).await.map_err(|e| self.in_to(e))
    }

    /// Every row is in the new store as it was in the old one, and none beside.
    async fn compare(&self, table: &'static Table, progress: &(dyn Fn(Progress) + Send + Sync)) -> Tried<()> {
        let total = self.from.0.count(table).await.map_err(|e| self.in_from(e))?;
        let (mut done, mut limit, mut after) = (0, ROWS.0, None);
        loop {
            progress(Progress::Comparing(table.name, done, total));
            let (old, new) = tokio::join!(
                self.from.0.rows(table, after.clone(), limit),
                self.to.0.rows(table, after.clone(), limit)
            );
            let (old, new) = (old.map_err(|e| self.in_from(e))?, new.map_err(|e| self.in_to(e))?);
            if let Some(at) = (0..old.len().max(new.len())).find(|n| old.get(*n) != new.get(*n)) {
                let row = old.get(at).or(new.get(at)).map(|row| shown(&key(table, row)));
                return Err(MoveError::Differs { table: table.name, key: row.unwrap_or_default() });
            }
            let Some(last) = old.last() else { return Ok(()) };
            after = Some(key(table, last));
            done += old.len() as u64;
            limit = next_limit(limit, &old);
        }
    }

    /// Takes jobs from holders that cannot go on with them here.
    async fn let_go(&self) -> Tried<usize> {
        let mut let_go = 0;
        let filter = Filter { statuses: vec![Status::Running], ..Filter::default() };
        let mut cursor = None;
        loop {
            let list = List { filter: filter.clone(), cursor, limit: PAGE_MAX };
            let page = self.to.0.jobs(list, None).await.map_err(|e| self.in_to(e))??;
            let jobs: Vec<_> = page.items.iter().map(|listed| listed.job.id).collect();
            let_go += jobs.len();
            for answer in self.to.0.let_go(jobs, self.actor.clone()).await.map_err(|e| self.in_to(e))? {
                answer?;
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(let_go);
            }
        }
    }

    /// Events that the old store had not counted are counted here, and some beside them again: what was counted of those hours
    /// is made anew.
    async fn count_again(&self) -> Tried<()> {
        let behind = self.readers().await?.into_iter().find(|reader| reader.place.reader.as_str() == STATS);
        let Some((_, at)) = behind.and_then(|reader| reader.first) else { return Ok(()) };
        let since = Some(Timestamp::from_micros(at.as_micros() - HOUR));
        let request = RebuildStats { since, actor: self.actor.clone() };
        self.to.0.rebuild_stats(request, None).await.map_err(|e| self.in_to(e))?;
        Ok(())
    }

    /// What was done goes on record where work goes on.
    async fn record(&self) -> Tried<()> {
        let audit = WriteAudit {
            actor: self.actor.clone(),
            action: Name::parse("action", "store.move")?,
            target: self.to.1.clone(),
            detail: Metadata::from_iter([("from".to_owned(), self.from.1.clone().into())]),
        };
        self.to.0.write_audit(audit, None).await.map_err(|e| self.in_to(e))
    }
}

/// The number of an event's row.
fn number(row: &[Cell]) -> i64 {
    match row.first() {
        Some(Cell::Int(seq)) => *seq,
        _ => 0,
    }
}
