//! Migrations: run at start, recorded with a checksum, safe with many processes at once and beside a system at work.
//!
//! Three things make the schema. *Migrations* are immutable and run once. The *guard* is current law in parts; it has a
//! number, and a part is replaced only by one of a higher number whose text differs: an older binary never puts an older
//! guard back. *Statements as functions* are named after
//! their texts; every version has its own.
//!
//! Each part is a transaction that takes its locks last and waits for one at most [`LOCK_WAIT_MS`]; what could not get its
//! locks begins again. So nobody behind it stands still for longer than a second.

use crate::error::{Failure, OpenError, Tried};
use crate::limits::with_limits;
use crate::param::params;
use crate::pool::Connections;
use crate::{app_role, cached_plans};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use windlass_core::lease::hex;

/// How long a change of the schema waits for one lock of a table or view, in milliseconds.
const LOCK_WAIT_MS: u32 = 200;
/// How long after that it begins again.
const PAUSE: Duration = Duration::from_millis(150);
/// How long it goes on like that.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of the guard. Raise it with every change of the guard's parts that is released.
const GUARD: i32 = 1;

/// One immutable migration.
#[derive(Debug, Clone)]
struct Migration {
    id: i64,
    name: String,
    sql: &'static str,
}

/// A part of the guard. Those that lock tables and views come last.
#[derive(Debug, Clone)]
struct Part {
    name: &'static str,
    sql: String,
}

/// The schema that a binary wants.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    migrations: Vec<Migration>,
    guard: i32,
    parts: Vec<Part>,
}

impl Plan {
    /// The schema of this binary.
    pub(crate) fn new() -> Self {
        let first = include_str!("../migrations/0001_create_jobs.sql");
        let part = |name, sql: &str| Part { name, sql: sql.to_owned() };
        Self {
            migrations: vec![Migration { id: 1, name: "0001_create_jobs".into(), sql: first }],
            guard: GUARD,
            parts: vec![
                part("guard", include_str!("../guard.sql")),
                part("feed", include_str!("../feed.sql")),
                part("api", &with_limits(include_str!("../api.sql"))),
                part("triggers", include_str!("../triggers.sql")),
                part("views", include_str!("../views.sql")),
            ],
        }
    }

    /// The schema of a binary of tomorrow: with one more migration, and a guard of the next number, to which some SQL was
    /// added.
    pub(crate) fn tomorrow(mut self, migration: &'static str, guard: &str) -> Self {
        let id = self.known() + 1;
        self.migrations.push(Migration { id, name: format!("{id:04}_of_tomorrow"), sql: migration });
        self.guard += 1;
        if let Some(functions) = self.parts.first_mut() {
            functions.sql.push_str(guard);
        }
        self
    }

    /// The newest migration that this binary knows.
    fn known(&self) -> i64 {
        self.migrations.last().map_or(0, |m| m.id)
    }

    fn check(&self, found: &Found) -> Result<(), OpenError> {
        for (id, sum) in &found.migrations {
            match self.migrations.iter().find(|m| m.id == *id) {
                None => return Err(OpenError::NewerSchema { found: *id, known: self.known() }),
                Some(m) if checksum(m.sql) != *sum => {
                    return Err(OpenError::ChangedMigration(m.name.clone()));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether a part is to be put in force, or only recorded because its text is the same.
    fn wants(&self, part: &Part, found: &Found) -> Option<bool> {
        match found.guard.iter().find(|(name, ..)| name == part.name) {
            Some((_, number, _)) if *number >= self.guard => None,
            Some((_, _, sum)) => Some(checksum(&part.sql) != *sum),
            None => Some(true),
        }
    }

    fn is_current(&self, found: &Found) -> bool {
        found.newest() == self.known()
            && self.parts.iter().all(|part| self.wants(part, found).is_none())
            && found.missing.is_empty()
    }

    /// What a step has to do where this was found.
    fn statements(&self, step: Step, found: &Found) -> Vec<String> {
        match step {
            Step::Migrations => {
                let new = self.migrations.iter().filter(|m| m.id > found.newest());
                new.inspect(|m| tracing::info!(migration = m.name, "migrating"))
                    .flat_map(|m| [m.sql.to_owned(), record(m)])
                    .collect()
            }
            Step::Functions if found.missing.is_empty() => Vec::new(),
            Step::Functions => vec![functions(), CLOSE.to_owned(), GRANT.to_owned()],
            Step::Part(n) => {
                let part = &self.parts[n];
                match self.wants(part, found) {
                    None => Vec::new(),
                    Some(false) => vec![self.record(part)],
                    Some(true) => {
                        tracing::info!(part = part.name, number = self.guard, "putting a guard in force");
                        // Triggers lock tables to the end: what takes time and is of no use for them is left out.
                        let close = (part.name != "triggers").then(|| CLOSE.to_owned());
                        [part.sql.clone()].into_iter().chain(close).chain([self.record(part)]).collect()
                    }
                }
            }
        }
    }

    fn record(&self, part: &Part) -> String {
        include_str!("../sql/record_guard.sql")
            .replace("$1", &format!("'{}'", part.name))
            .replace("$2", &self.guard.to_string())
            .replace("$3", &format!("'{}'", checksum(&part.sql)))
    }
}

const LEDGER: &str = include_str!("../sql/create_migrations.sql");
const CLOSE: &str = include_str!("../sql/close_functions.sql");

const GRANT: &str = include_str!("../sql/grant_again.sql");

/// Statements as functions.
fn functions() -> String {
    cached_plans::definitions() + &app_role::definitions()
}

fn checksum(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn record(m: &Migration) -> String {
    include_str!("../sql/record_migration.sql")
        .replace("$1", &m.id.to_string())
        .replace("$2", &format!("'{}'", m.name))
        .replace("$3", &format!("'{}'", checksum(m.sql)))
}

/// Everything as plain SQL, to be run by hand with `psql`, recorded like a run at start.
pub fn print() -> String {
    let plan = Plan::new();
    let mut out = format!("BEGIN;\n{LEDGER};\n");
    for m in &plan.migrations {
        out += &format!("{}\n{};\n", m.sql, record(m));
    }
    for part in &plan.parts {
        out += &format!("{}\n{};\n", part.sql, plan.record(part));
    }
    format!("{out}{}\n{CLOSE};\n{GRANT};\nCOMMIT;\n", functions())
}

/// What the database has.
#[derive(Default)]
struct Found {
    /// Id and checksum of each migration.
    migrations: Vec<(i64, String)>,
    /// Name, number and checksum of each part of the guard.
    guard: Vec<(String, i32, String)>,
    /// Functions of this binary's statements that are not there.
    missing: Vec<String>,
    /// Whether this role may write tables itself.
    may_write: bool,
}

impl Found {
    fn newest(&self) -> i64 {
        self.migrations.last().map_or(0, |(id, _)| *id)
    }
}

/// Brings the schema to this binary's, or refuses. Nothing to do costs four reads.
pub(crate) async fn run(connections: &Arc<Connections>, plan: &Plan, migrate: bool) -> Result<(), OpenError> {
    let failed = |f: Failure| OpenError::Failed(f.told().to_string());
    let client = connections.get().await.map_err(failed)?;
    let found = look(&client, connections).await.map_err(failed)?;
    plan.check(&found)?;
    if migrate && !plan.is_current(&found) {
        let parts = (0..plan.parts.len()).map(Step::Part);
        let steps: Vec<Step> = [Step::Migrations, Step::Functions].into_iter().chain(parts).collect();
        // A new store is made whole; in one that works nobody waits for more than a part.
        for steps in steps.chunks(if found.newest() == 0 { steps.len() } else { 1 }) {
            patiently(&client, connections, plan, steps).await?;
        }
    } else if found.newest() != plan.known() {
        return Err(OpenError::OldSchema { found: found.newest(), known: plan.known() });
    } else if !found.may_write && !found.missing.is_empty() {
        return Err(OpenError::MissingFunctions);
    } else if !found.may_write {
        connections.texts.call_functions();
        return Ok(());
    } else if !found.missing.is_empty() {
        return Ok(());
    }
    connections.texts.keep();
    Ok(())
}

async fn look(client: &Client, connections: &Connections) -> Tried<Found> {
    let rewritten = |sql: &'static str| connections.texts.rewrite(sql);
    let there = client.query_typed(&rewritten(include_str!("../sql/find_migrations.sql")), &[]).await?;
    if !there.first().is_some_and(|r| r.try_get(0).unwrap_or(false)) {
        return Ok(Found::default());
    }
    let rows = client.query_typed(&rewritten(include_str!("../sql/migrations.sql")), &[]).await?;
    let migrations =
        rows.iter().map(|r| Ok((r.try_get(0)?, r.try_get(1)?))).collect::<Tried<Vec<(i64, String)>>>()?;
    if migrations.is_empty() {
        return Ok(Found::default());
    }
    let rows = client.query_typed(&rewritten(include_str!("../sql/guard.sql")), &[]).await?;
    let guard =
        rows.iter().map(|r| Ok((r.try_get(0)?, r.try_get(1)?, r.try_get(2)?))).collect::<Tried<_>>()?;
    let names: Vec<String> = cached_plans::names()
        .chain(app_role::names())
        .map(|name| connections.texts.rewrite(&name).into_owned())
        .collect();
    let rows = client.query_typed(include_str!("../sql/missing_functions.sql"), params![names]).await?;
    let missing = rows.iter().map(|r| Ok(r.try_get(0)?)).collect::<Tried<_>>()?;
    let rows = client.query_typed(&rewritten(include_str!("../sql/may_write.sql")), &[]).await?;
    let may_write = rows.first().is_some_and(|r| r.try_get(0).unwrap_or(false));
    Ok(Found { migrations, guard, missing, may_write })
}

/// What makes the schema current.
#[derive(Debug, Clone, Copy)]
enum Step {
    Migrations,
    /// Statements as functions.
    Functions,
    Part(usize),
}

/// Carries out steps in one transaction, again and again while others hold what it has to lock.
async fn patiently(
    client: &Client,
    connections: &Connections,
    plan: &Plan,
    steps: &[Step],
) -> Result<(), OpenError> {
    let failed = |f: Failure| OpenError::Failed(f.told().to_string());
    let begun = Instant::now();
    loop {
        client.batch_execute("BEGIN; SET LOCAL lock_timeout = '60s'").await.map_err(|e| failed(e.into()))?;
        let done = apply(client, connections, plan, steps).await;
        let end = if matches!(done, Ok(Ok(()))) { "COMMIT" } else { "ROLLBACK" };
        client.batch_execute(end).await.map_err(|e| failed(e.into()))?;
        match done {
            Err(busy) if is_busy(&busy) && begun.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
            done => return done.map_err(failed)?,
        }
    }
}

fn is_busy(failure: &Failure) -> bool {
    failure.is_passing() || failure.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Inside the lock of migrators: another process may have done it meanwhile.
async fn apply(
    client: &Client,
    connections: &Connections,
    plan: &Plan,
    steps: &[Step],
) -> Tried<Result<(), OpenError>> {
    // One migrator at a time, in whatever schema: the number is Windlass's own. Waiting for it holds nobody up.
    client.batch_execute(include_str!("../sql/lock_migrations.sql")).await?;
    client.batch_execute(&format!("SET LOCAL lock_timeout = {LOCK_WAIT_MS}")).await?;
    client.batch_execute(&connections.texts.rewrite(LEDGER)).await?;
    for step in steps {
        let found = look(client, connections).await?;
        if let Err(refused) = plan.check(&found) {
            return Ok(Err(refused));
        }
        for sql in plan.statements(*step, &found) {
            client.batch_execute(&connections.texts.rewrite(&sql)).await?;
        }
    }
    Ok(Ok(()))
}
