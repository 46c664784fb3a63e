//! The PostgreSQL store: many machines share the work.
//!
//! Hot verbs (enqueue, claim, extend, complete) are one set-based statement per batch, and small calls that come at once
//! share it; the others lock the row, let [`windlass_core`] decide, and write row and event together. Nothing is
//! prepared, as transaction-mode poolers ask. After a commit other processes are woken, outside of its transaction.
//!
//! What is never known here: workers, HTTP, schedules.

mod app_role;
mod append;
mod approve;
mod assign;
mod batch;
mod bulk_insert;
mod cached_plans;
mod claim;
mod connect;
mod db;
mod diagnostics;
mod end;
mod enqueue;
mod entry;
mod erase;
mod error;
mod feed;
mod follow;
mod house;
mod lanes;
mod lease;
mod limits;
mod list;
mod logs;
mod lost;
mod migrate;
mod notify;
mod one_by_one;
mod operate;
mod paper;
mod param;
mod pool;
mod rates;
mod registry;
mod retention;
mod row;
mod schedule;
mod seals;
mod settings;
mod settle;
mod signatures;
mod statements;
mod subscription;
mod sweep;
mod term;
mod tls;
mod trigger;
mod verbs;
mod verify;
mod view;
mod wait;
mod write;

use batch::Batcher;
use notify::Notifier;
use pool::Connections;
use std::sync::Arc;
use std::time::Duration;
use tls::Route;
use tokio::task::JoinSet;

pub use diagnostics::{Condition, Open, Table};
pub use error::OpenError;
pub use migrate::print as migrations_as_sql;

/// A store in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    connections: Arc<Connections>,
    positions: Arc<claim::Positions>,
    enqueues: enqueue::Calls,
    settles: settle::Calls,
    extends: lease::Calls,
    views: view::Calls,
    /// Tells and hears of other processes; ends with the store.
    _notifier: JoinSet<()>,
}

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    url: String,
    notify_url: Option<String>,
    schema: String,
    migrate: bool,
    pool: usize,
    timeout: Duration,
    listen: bool,
    mover: bool,
    feed_steps: feed::Steps,
    plan: migrate::Plan,
}

impl Options {
    /// The database at `url`, its schema `windlass` created and migrated when needed.
    ///
    /// Encryption is the URL's to say. `sslmode=require` (`verify-ca` and `verify-full` mean the same here): the server's
    /// certificate must be for that host and signed by an authority of the system's, or by one in the PEM file
    /// that `sslrootcert` names. `prefer`, the default: encrypted where the server can, whoever it is, unless `sslrootcert`
    /// is given. `disable`: never.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            notify_url: None,
            schema: "windlass".into(),
            migrate: true,
            pool: 16,
            timeout: Duration::from_secs(30),
            listen: true,
            mover: false,
            feed_steps: feed::Steps::default(),
            plan: migrate::Plan::new(),
        }
    }

    /// Where notifications are sent and heard, by a direct connection: needed where `url` leads through a
    /// transaction-mode pooler, which loses them. Without it the URL itself.
    #[must_use]
    pub fn notify_url(mut self, url: &str) -> Self {
        self.notify_url = Some(url.to_owned());
        self
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

    /// The most connections for work, 16 unless said otherwise. Beside them there are up to a quarter as many for reads (2 to
    /// 8), two for renewals and one that listens; all are made when they are needed.
    #[must_use]
    pub fn pool(mut self, connections: usize) -> Self {
        self.pool = connections.max(1);
        self
    }

    /// How long one statement may take. Where the server does not answer two seconds after that, the call fails and the
    /// connection is thrown away.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether wake-ups of other processes are listened for, on a connection of its own, and theirs are sent. A store that
    /// only renews leases needs neither.
    #[must_use]
    pub fn listen(mut self, listen: bool) -> Self {
        self.listen = listen;
        self
    }

    /// Opens it for moving: what it writes is taken also while the store is closed. It needs the owner's role and a direct
    /// connection.
    #[must_use]
    pub fn mover(mut self) -> Self {
        self.mover = true;
        self.listen(false)
    }

    /// Marks the feed's numbers so often and looks for late events in windows of so many: for tests, which with small steps
    /// need few events for many of them.
    #[doc(hidden)]
    #[must_use]
    pub fn feed_steps(mut self, mark_every: i64, late_window: i64) -> Self {
        self.feed_steps = feed::Steps { mark_every, late_window };
        self
    }

    /// Opens it as a binary of tomorrow would, with one more migration and a guard of the next number: for tests of upgrades.
    #[doc(hidden)]
    #[must_use]
    pub fn tomorrow(mut self, migration: &'static str, guard: &str) -> Self {
        self.plan = self.plan.tomorrow(migration, guard);
        self
    }

    /// Opens the store.
    pub async fn open(self) -> Result<PostgresStore, OpenError> {
        check_schema(&self.schema)?;
        // The guard lets nobody of another name insert rows.
        let mut route = Route::to(&self.url, "windlass")?;
        if self.mover {
            let options = route.config.get_options().unwrap_or_default().to_owned();
            route.config.options(format!("{options} -c windlass_guard.moving=on").trim());
        }
        let notify_route = Route::to(self.notify_url.as_ref().unwrap_or(&self.url), "windlass notify")?;
        let texts = statements::Texts::new(&self.schema);
        let connections = Arc::new(Connections::new(route, self.pool, texts, self.timeout, self.feed_steps)?);
        migrate::run(&connections, &self.plan, self.migrate).await?;
        connections.arrive().await?;
        let mut notifier = JoinSet::new();
        if self.listen {
            notifier.spawn(Notifier::new(Arc::clone(&connections), notify_route, &self.schema).run());
        }
        let [first, second, third, fourth] = [(); 4].map(|()| Arc::clone(&connections));
        Ok(PostgresStore {
            enqueues: Batcher::new(move |calls| Box::pin(bulk_insert::together(Arc::clone(&first), calls))),
            settles: Batcher::new(move |calls| Box::pin(settle::together(Arc::clone(&second), calls))),
            extends: Batcher::new(move |calls| Box::pin(lease::together(Arc::clone(&third), calls))),
            views: Batcher::of_reads(move |calls| Box::pin(view::together(Arc::clone(&fourth), calls))),
            connections,
            positions: Arc::default(),
            _notifier: notifier,
        })
    }
}

// Without the URLs, which may hold a password.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            schema,
            migrate,
            pool,
            timeout,
            listen,
            mover,
            url: _,
            notify_url: _,
            feed_steps: _,
            plan: _,
        } = self;
        f.debug_struct("Options")
            .field("schema", schema)
            .field("migrate", migrate)
            .field("pool", pool)
            .field("timeout", timeout)
            .field("listen", listen)
            .field("mover", mover)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the database at `url`, its schema created and migrated when needed.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        Options::new(url).open().await
    }

    /// Whether wake-ups of other processes arrive. It takes a moment after opening, and after the server restarted;
    /// where it stays false, the store looks once a second instead.
    pub fn listening(&self) -> bool {
        self.connections.wakeups.listening()
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
