//! The PostgreSQL store: many machines share the work.
//!
//! Hot verbs (enqueue, claim, extend, complete) are one set-based statement per batch; the others lock the row, let
//! [`windlass_core`] decide, and write row and event together. Nothing is prepared, as transaction-mode poolers ask.
//!
//! What is never known here: workers, HTTP, schedules.

mod append;
mod approve;
mod assign;
mod claim;
mod db;
mod enqueue;
mod error;
mod feed;
mod lease;
mod list;
mod migrate;
mod operate;
mod param;
mod pool;
mod registry;
mod retention;
mod row;
mod settle;
mod sweep;
mod term;
mod texts;
mod verbs;
mod wait;

use pool::Connections;
use std::sync::Arc;
use std::time::Duration;

pub use error::OpenError;
pub use migrate::print as migrations_as_sql;

/// A store in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    connections: Arc<Connections>,
    positions: Arc<claim::Positions>,
}

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    url: String,
    schema: String,
    migrate: bool,
    pool: usize,
    timeout: Duration,
}

impl Options {
    /// The database at `url`, its schema `windlass` created and migrated when needed.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            schema: "windlass".into(),
            migrate: true,
            pool: 16,
            timeout: Duration::from_secs(30),
        }
    }

    /// Another schema than `windlass`.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        schema.clone_into(&mut self.schema);
        self
    }

    /// Whether the schema is created and migrated when needed; an app role cannot.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// The most connections.
    #[must_use]
    pub fn pool(mut self, connections: usize) -> Self {
        self.pool = connections.max(1);
        self
    }

    /// How long one statement may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Opens the store.
    pub async fn open(self) -> Result<PostgresStore, OpenError> {
        check_schema(&self.schema)?;
        let mut config: tokio_postgres::Config =
            self.url.parse().map_err(|e: tokio_postgres::Error| OpenError::Url(e.to_string()))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(OpenError::Url("it names no host".into()));
        }
        // The guard lets nobody else insert rows.
        config.application_name("windlass");
        let texts = texts::Texts::new(&self.schema);
        let connections = Arc::new(Connections::new(config, self.pool, texts, self.timeout)?);
        migrate::run(&connections, self.migrate).await?;
        Ok(PostgresStore { connections, positions: Arc::default() })
    }
}

// Without the URL, which may hold a password.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { schema, migrate, pool, timeout, url: _ } = self;
        f.debug_struct("Options")
            .field("schema", schema)
            .field("migrate", migrate)
            .field("pool", pool)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the database at `url`, its schema created and migrated when needed.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        Options::new(url).open().await
    }
}

fn check_schema(schema: &str) -> Result<(), OpenError> {
    let first = schema.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
    let rest = schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first && rest && schema.len() <= 63 && !schema.starts_with("pg_") {
        return Ok(());
    }
    Err(OpenError::Schema(schema.to_owned()))
}
