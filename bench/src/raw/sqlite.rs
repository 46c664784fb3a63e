//! The raw limit of SQLite: on a fresh file with the pragmas of the store.

use super::{BATCH, BODY, CLAIM, Limit};
use crate::Tried;
use crate::measure::{Meter, Sample};
use rusqlite::{Connection, Statement, params_from_iter};
use std::path::Path;

/// Gets `count` rows through on a fresh file in `folder`.
pub async fn run(limit: Limit, folder: &Path, count: usize) -> Tried<Sample> {
    let conn = open(&folder.join("raw.db"))?;
    match limit {
        Limit::Insert | Limit::Unprepared | Limit::Arrays => insert(&conn, count).await,
        Limit::Commit => commit(&conn, count).await,
        // One file, one writer: a second loop would only wait.
        Limit::Drain(_) => drain(&conn, count).await,
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

async fn insert(conn: &Connection, count: usize) -> Tried<Sample> {
    let batches = count.div_ceil(BATCH);
    let mut insert = inserting(conn, BATCH)?;
    let meter = Meter::start(None).await?;
    for _ in 0..batches {
        insert.execute(params_from_iter(std::iter::repeat_n(&BODY, BATCH)))?;
    }
    meter.stop(None, batches * BATCH).await
}

async fn commit(conn: &Connection, count: usize) -> Tried<Sample> {
    let mut insert = inserting(conn, 1)?;
    let meter = Meter::start(None).await?;
    for _ in 0..count {
        insert.execute([&BODY])?;
    }
    meter.stop(None, count).await
}

async fn drain(conn: &Connection, count: usize) -> Tried<Sample> {
    conn.execute_batch("CREATE INDEX rows_due ON rows (due_at, id) WHERE state = 0")?;
    let filled = insert(conn, count).await?.count;
    let mut claim = conn.prepare(
        "UPDATE rows SET state = 1, due_at = 1
         WHERE id IN (SELECT id FROM rows WHERE state = 0 AND due_at <= 0 ORDER BY due_at, id LIMIT ?1)
         RETURNING id, body",
    )?;
    let mut finish = conn.prepare("UPDATE rows SET state = 2, due_at = NULL WHERE id = ?1 AND state = 1")?;
    let mut drained = 0;
    let meter = Meter::start(None).await?;
    while drained < filled {
        let claimed = claim
            .query_map([CLAIM as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
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
    meter.stop(None, drained).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_limit_gets_its_rows_through() {
        for limit in [Limit::Insert, Limit::Commit, Limit::Drain(1)] {
            let folder = tempfile::tempdir().unwrap();
            let sample = run(limit, folder.path(), 1_000).await.unwrap();
            assert_eq!(sample.count, 1_000, "{}", limit.name());
        }
    }
}
