//! The raw limit: what SQLite itself does with this disk and processor, without jobs, log, leases or guard.
//!
//! Each limit runs on a fresh file with the pragmas of the store, in the same run as the cases it is compared
//! with, because a busy machine slows both alike.

use crate::Tried;
use crate::measure::{Meter, Sample};
use rusqlite::{Connection, Statement, params_from_iter};
use std::path::Path;

/// Rows per insert and commit.
const BATCH: usize = 1_000;
/// Rows per claim and per update.
const CLAIM: u32 = 500;
/// About what the row of a job takes.
const BODY: [u8; 200] = [b'x'; 200];

/// What SQLite is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Rows per second, 1,000 rows of 200 bytes per statement and commit.
    Insert,
    /// Commits per second, one row each.
    Commit,
    /// Rows per second through claim 500, commit, update 500, commit, over a partial index.
    Drain,
}

impl Limit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "raw-insert",
            Self::Commit => "raw-commit",
            Self::Drain => "raw-drain",
        }
    }

    /// Gets `count` rows through on a fresh file in `folder`.
    pub fn run(self, folder: &Path, count: usize) -> Tried<Sample> {
        let conn = open(&folder.join("raw.db"))?;
        match self {
            Self::Insert => insert(&conn, count),
            Self::Commit => commit(&conn, count),
            Self::Drain => drain(&conn, count),
        }
    }
}

/// The pragmas of the store: a commit is on the disk before anybody hears of it.
fn open(file: &Path) -> Tried<Connection> {
    let conn = Connection::open(file)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    conn.pragma_update(None, "cache_size", -65_536)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.execute_batch(
        "CREATE TABLE rows (id INTEGER PRIMARY KEY, due_at INTEGER, state INTEGER NOT NULL, body BLOB NOT NULL)",
    )?;
    Ok(conn)
}

/// A statement that inserts `rows` rows at once; only the bodies are bound.
fn inserting(conn: &Connection, rows: usize) -> Tried<Statement<'_>> {
    let values = vec!["(0, 0, ?)"; rows].join(", ");
    Ok(conn.prepare(&format!("INSERT INTO rows (due_at, state, body) VALUES {values}"))?)
}

fn insert(conn: &Connection, count: usize) -> Tried<Sample> {
    let batches = count.div_ceil(BATCH);
    let mut insert = inserting(conn, BATCH)?;
    let meter = Meter::start();
    for _ in 0..batches {
        insert.execute(params_from_iter(std::iter::repeat_n(&BODY, BATCH)))?;
    }
    Ok(meter.stop(batches * BATCH))
}

fn commit(conn: &Connection, count: usize) -> Tried<Sample> {
    let mut insert = inserting(conn, 1)?;
    let meter = Meter::start();
    for _ in 0..count {
        insert.execute([&BODY])?;
    }
    Ok(meter.stop(count))
}

fn drain(conn: &Connection, count: usize) -> Tried<Sample> {
    conn.execute_batch("CREATE INDEX rows_due ON rows (due_at, id) WHERE state = 0")?;
    let filled = insert(conn, count)?.count;
    let mut claim = conn.prepare(
        "UPDATE rows SET state = 1, due_at = 1
         WHERE id IN (SELECT id FROM rows WHERE state = 0 AND due_at <= 0 ORDER BY due_at, id LIMIT ?1)
         RETURNING id, body",
    )?;
    let mut finish = conn.prepare("UPDATE rows SET state = 2, due_at = NULL WHERE id = ?1 AND state = 1")?;
    let mut drained = 0;
    let meter = Meter::start();
    while drained < filled {
        let claimed = claim
            .query_map([CLAIM], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<Vec<(i64, Vec<u8>)>>>()?;
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for (id, _) in &claimed {
            drained += finish.execute([id])?;
        }
        conn.execute_batch("COMMIT")?;
        if claimed.is_empty() {
            return Err(format!("{drained} of {filled} raw rows were found").into());
        }
    }
    Ok(meter.stop(drained))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_gets_its_rows_through() {
        for limit in [Limit::Insert, Limit::Commit, Limit::Drain] {
            let folder = tempfile::tempdir().unwrap();
            let sample = limit.run(folder.path(), 1_000).unwrap();
            assert_eq!(sample.count, 1_000, "{}", limit.name());
        }
    }
}
