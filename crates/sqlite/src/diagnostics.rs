//! How the file stands, for `windlass doctor`.

use crate::SqliteStore;
use crate::db::{Db, sql};
use crate::error::Tried;
use windlass_store::StoreResult;
use windlass_store::fresh::wall_clock;

/// How the file stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// The version of SQLite, which is built in.
    pub version: &'static str,
    /// How commits are kept until they are in the file: `wal`.
    pub journal_mode: String,
    /// `ok`, or what SQLite finds wrong when it looks quickly.
    pub quick_check: String,
    /// The size of the file.
    pub bytes: i64,
    /// How much of it holds nothing.
    pub free_bytes: i64,
    /// How far the last event is dated ahead of this machine's clock; 0 when it is not.
    pub ahead_ms: i64,
}

impl SqliteStore {
    /// How the file stands. Reads all of it once.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn condition(&self) -> StoreResult<Condition> {
        self.readers.read(read).await
    }
}

fn read(db: &Db<'_>) -> Tried<Condition> {
    let number = |pragma: &'static str| -> Tried<i64> {
        Ok(db.one(pragma, (), |row| Ok(row.get(0)?))?.unwrap_or_default())
    };
    let text = |pragma: &'static str| -> Tried<String> {
        Ok(db.one(pragma, (), |row| Ok(row.get(0)?))?.unwrap_or_default())
    };
    let last_at = db.one(sql!("head"), (), |row| Ok(row.get::<_, i64>(2)?))?.unwrap_or_default();
    let page = number("PRAGMA page_size")?;
    Ok(Condition {
        version: rusqlite::version(),
        journal_mode: text("PRAGMA journal_mode")?,
        quick_check: text("PRAGMA quick_check(1)")?,
        bytes: page.saturating_mul(number("PRAGMA page_count")?),
        ahead_ms: (last_at - wall_clock().as_micros()).max(0) / 1_000,
        free_bytes: page.saturating_mul(number("PRAGMA freelist_count")?),
    })
}
