//! Migrations: run at start, recorded with a checksum, safe with many processes at once, plain SQL by hand.

use crate::cached_plans;
use crate::error::{Failure, OpenError, Tried};
use crate::pool::Connections;
use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock};
use tokio_postgres::Client;
use windlass_core::lease::hex;

/// One immutable migration.
struct Migration {
    id: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] =
    &[Migration { id: 1, name: "0001_create_jobs", sql: include_str!("../migrations/0001_create_jobs.sql") }];

/// The law of the database itself, the functions people call and those that keep plans, re-created when their text
/// changes.
static GUARD: LazyLock<String> = LazyLock::new(|| {
    let checks = if cfg!(debug_assertions) { include_str!("../checks.sql") } else { "" };
    [checks, include_str!("../guard.sql"), include_str!("../api.sql"), &cached_plans::definitions()].concat()
});
const LEDGER: &str = include_str!("../sql/create_migrations.sql");

fn checksum(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// The newest migration that this binary knows.
fn known() -> i64 {
    MIGRATIONS.last().map_or(0, |m| m.id)
}

fn record(m: &Migration) -> String {
    include_str!("../sql/record_migration.sql")
        .replace("$1", &m.id.to_string())
        .replace("$2", &format!("'{}'", m.name))
        .replace("$3", &format!("'{}'", checksum(m.sql)))
}

fn record_guard() -> String {
    include_str!("../sql/record_guard.sql").replace("$1", &format!("'{}'", checksum(&GUARD)))
}

/// Everything as plain SQL, to be run by hand with `psql`, recorded like a run at start.
pub fn print() -> String {
    let mut out = format!("BEGIN;\n{LEDGER};\n");
    for m in MIGRATIONS {
        out += &format!("{}\n{};\n", m.sql, record(m));
    }
    format!("{out}{}\n{};\nCOMMIT;\n", *GUARD, record_guard())
}

/// What the database has: its newest migration and the guard in force.
struct Found {
    migrations: Vec<(i64, String)>,
    guard: Option<String>,
}

impl Found {
    fn newest(&self) -> i64 {
        self.migrations.last().map_or(0, |(id, _)| *id)
    }

    fn check(&self) -> Result<(), OpenError> {
        for (id, sum) in &self.migrations {
            match MIGRATIONS.iter().find(|m| m.id == *id) {
                None => return Err(OpenError::NewerSchema { found: *id, known: known() }),
                Some(m) if checksum(m.sql) != *sum => return Err(OpenError::ChangedMigration(m.name.into())),
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn is_current(&self) -> bool {
        self.newest() == known() && self.guard.as_deref() == Some(&*checksum(&GUARD))
    }
}

/// Brings the schema to this binary's, or refuses. Nothing to do costs two reads.
pub(crate) async fn run(connections: &Arc<Connections>, migrate: bool) -> Result<(), OpenError> {
    let failed = |f: Failure| OpenError::Failed(f.told().to_string());
    let client = connections.get().await.map_err(failed)?;
    let found = look(&client, connections).await.map_err(failed)?;
    found.check()?;
    if found.is_current() {
        connections.texts.keep();
        return Ok(());
    }
    if !migrate {
        let found = found.newest();
        return if found == known() { Ok(()) } else { Err(OpenError::OldSchema { found, known: known() }) };
    }
    client.batch_execute("BEGIN; SET LOCAL lock_timeout = '60s'").await.map_err(|e| failed(e.into()))?;
    let applied = apply(&client, connections).await;
    let end = if matches!(applied, Ok(Ok(()))) { "COMMIT" } else { "ROLLBACK" };
    client.batch_execute(end).await.map_err(|e| failed(e.into()))?;
    applied.map_err(failed)??;
    connections.texts.keep();
    Ok(())
}

async fn look(client: &Client, connections: &Connections) -> Tried<Found> {
    let rewritten = |sql: &'static str| connections.texts.rewrite(sql);
    let there = client.query_typed(&rewritten(include_str!("../sql/find_migrations.sql")), &[]).await?;
    if !there.first().is_some_and(|r| r.try_get(0).unwrap_or(false)) {
        return Ok(Found { migrations: Vec::new(), guard: None });
    }
    let rows = client.query_typed(&rewritten(include_str!("../sql/migrations.sql")), &[]).await?;
    let migrations =
        rows.iter().map(|r| Ok((r.try_get(0)?, r.try_get(1)?))).collect::<Tried<Vec<(i64, String)>>>()?;
    let guard = if migrations.is_empty() {
        None
    } else {
        let rows = client.query_typed(&rewritten(include_str!("../sql/guard.sql")), &[]).await?;
        rows.first().and_then(|r| r.try_get(0).ok()).flatten()
    };
    Ok(Found { migrations, guard })
}

/// Inside the lock: another process may have done it meanwhile.
async fn apply(client: &Client, connections: &Connections) -> Tried<Result<(), OpenError>> {
    let texts = &connections.texts;
    // One migrator at a time, whoever they are: the number is Windlass's own.
    client.batch_execute(include_str!("../sql/lock_migrations.sql")).await?;
    client.batch_execute(&texts.rewrite(LEDGER)).await?;
    let found = look(client, connections).await?;
    if let Err(refused) = found.check() {
        return Ok(Err(refused));
    }
    for m in MIGRATIONS.iter().filter(|m| m.id > found.newest()) {
        client.batch_execute(&texts.rewrite(m.sql)).await?;
        client.batch_execute(&texts.rewrite(&record(m))).await?;
        tracing::info!(migration = m.name, "migrated");
    }
    client.batch_execute(&texts.rewrite(&GUARD)).await?;
    client.batch_execute(&texts.rewrite(&record_guard())).await?;
    Ok(Ok(()))
}
