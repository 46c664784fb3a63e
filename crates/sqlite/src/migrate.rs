//! Migrations: run at start, recorded with a checksum, safe with many processes at once, plain SQL by hand.

use crate::error::{Failure, OpenError};
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};
use std::path::Path;
use windlass_core::lease::hex;
use windlass_store::fresh::wall_clock;

/// One immutable migration.
struct Migration {
    id: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] =
    &[Migration { id: 1, name: "0001_create_jobs", sql: include_str!("../migrations/0001_create_jobs.sql") }];

/// The law of the file itself, re-created when its text changes.
const GUARD: &str = include_str!("../guard.sql");
const LEDGER: &str = include_str!("../sql/create_migrations.sql");

fn checksum(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// The newest migration that this binary knows.
pub(crate) fn known() -> i64 {
    MIGRATIONS.last().map_or(0, |m| m.id)
}

/// Everything as plain SQL, to be run by hand with `sqlite3 FILE`, recorded like a run at start.
pub fn print() -> String {
    let mut out = format!("BEGIN IMMEDIATE;\n{LEDGER};\n");
    for m in MIGRATIONS {
        let at = wall_clock().as_micros();
        out += &format!("{}\n", m.sql);
        out += &include_str!("../sql/record_migration.sql")
            .replace("?1", &m.id.to_string())
            .replace("?2", &format!("'{}'", m.name))
            .replace("?3", &format!("'{}'", checksum(m.sql)))
            .replace("?4", &at.to_string());
        out += ";\n";
    }
    out += GUARD;
    let record = include_str!("../sql/record_guard.sql").replace("?1", &format!("'{}'", checksum(GUARD)));
    out + &record + ";\nCOMMIT;\n"
}

/// Whether the file has any of our tables, and its newest migration.
pub(crate) fn found(conn: &Connection) -> rusqlite::Result<Option<i64>> {
    let ledger: Option<i64> =
        conn.query_row(include_str!("../sql/find_migrations.sql"), (), |r| r.get(0)).optional()?;
    let Some(_) = ledger else { return Ok(None) };
    conn.query_row(include_str!("../sql/last_migration.sql"), (), |r| r.get(0))
}

/// Brings a file that was checked to this binary's schema. Nothing to do costs two reads.
pub(crate) fn run(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |e: rusqlite::Error| OpenError::Failed {
        path: path.display().to_string(),
        why: Failure::from(e).undone().to_string(),
    };
    let in_force: Option<String> = match found(conn).map_err(failed)? {
        Some(id) if id == known() => conn
            .query_row(include_str!("../sql/guard.sql"), (), |r| r.get(0))
            .optional()
            .map_err(failed)?
            .flatten(),
        _ => None,
    };
    if in_force.as_deref() == Some(&*checksum(GUARD)) {
        return Ok(());
    }
    conn.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let applied = apply(conn);
    let end = if matches!(applied, Ok(Ok(()))) { "COMMIT" } else { "ROLLBACK" };
    conn.execute_batch(end).map_err(failed)?;
    applied.map_err(failed)?
}

/// Compares what is recorded with what we know.
pub(crate) fn check(conn: &Connection) -> rusqlite::Result<Result<(), OpenError>> {
    if found(conn)?.is_none() {
        return Ok(Ok(()));
    }
    let mut statement = conn.prepare(include_str!("../sql/migrations.sql"))?;
    let recorded = statement
        .query_map((), |r| Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (id, sum) in recorded {
        match MIGRATIONS.iter().find(|m| m.id == id) {
            None => return Ok(Err(OpenError::NewerSchema { found: id, known: known() })),
            Some(m) if checksum(m.sql) != sum => return Ok(Err(OpenError::ChangedMigration(m.name.into()))),
            Some(_) => {}
        }
    }
    Ok(Ok(()))
}

/// Inside the lock: another process may have done it meanwhile.
fn apply(conn: &Connection) -> rusqlite::Result<Result<(), OpenError>> {
    conn.execute_batch(LEDGER)?;
    if let Err(refused) = check(conn)? {
        return Ok(Err(refused));
    }
    let done = found(conn)?.unwrap_or(0);
    for m in MIGRATIONS.iter().filter(|m| m.id > done) {
        conn.execute_batch(m.sql)?;
        let record = include_str!("../sql/record_migration.sql");
        conn.execute(record, (m.id, m.name, checksum(m.sql), wall_clock().as_micros()))?;
        tracing::info!(migration = m.name, "migrated");
    }
    conn.execute_batch(GUARD)?;
    conn.execute(include_str!("../sql/record_guard.sql"), [checksum(GUARD)])?;
    Ok(Ok(()))
}
