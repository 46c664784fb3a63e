//! From a URL to a store. The one file that knows which stores there are.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::fallback::Fallbacks;
use crate::job::Job;
use std::sync::Arc;
use windlass_core::Actor;
use windlass_core::limits::Limits;
use windlass_engine::Policy;
use windlass_memory::MemoryStore;
use windlass_store::Store;

/// Connections that a worker renews its leases through.
const RENEWING: usize = 2;

/// A store that was opened, and how to open it again where that is of use.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) again: Option<Builder>,
    pub(crate) limits: Limits,
}

/// Opens the store that `url` names, and gives a client to it.
///
/// | URL | store |
/// |---|---|
/// | `sqlite:PATH` | one file, created and migrated when needed (feature `sqlite`, on by default) |
/// | `postgres://USER@HOST/DATABASE` | a schema of its own, created and migrated when needed (feature `postgres`) |
/// | `memory:` | a new, empty store that ends with the last client: for tests |
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let client = windlass::connect("memory:").await?;
/// assert!(windlass::connect("mysql://localhost/jobs").await.is_err());
/// # Ok::<_, windlass::Error>(()) }).unwrap();
/// ```
pub async fn connect(url: &str) -> Result<Client> {
    Client::builder(url).connect().await
}

/// How to open a store. Made by [`Client::builder`].
///
/// ```no_run
/// # async fn open() -> windlass::Result<()> {
/// let client = windlass::Client::builder("postgres://app@db/shop")
///     .schema("jobs")
///     .notify_url("postgres://app@db-direct/shop") // beside a transaction-mode pooler
///     .migrate(false) // the role of this program may not
///     .pool(8)
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing is opened before `connect`"]
pub struct Builder {
    url: String,
    schema: Option<String>,
    notify_url: Option<String>,
    migrate: bool,
    pool: Option<usize>,
    /// Whether it listens for wake-ups; what only renews leases has no use for them.
    listen: bool,
    actor: Option<String>,
    limits: Limits,
    fallbacks: Fallbacks,
}

impl Builder {
    pub(crate) fn new(url: &str) -> Self {
        let url = url.to_owned();
        Self {
            url,
            schema: None,
            notify_url: None,
            migrate: true,
            pool: None,
            listen: true,
            actor: None,
            limits: Limits::default(),
            fallbacks: Fallbacks::default(),
        }
    }

    /// Another schema than `windlass` (PostgreSQL).
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = Some(schema.to_owned());
        self
    }

    /// A direct connection for wake-ups, where `url` goes through a pooler that does not pass them on (PostgreSQL).
    pub fn notify_url(mut self, url: &str) -> Self {
        self.notify_url = Some(url.to_owned());
        self
    }

    /// Whether a missing store is created and an old one migrated; yes unless said otherwise.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// The most connections at once (PostgreSQL).
    pub fn pool(mut self, connections: usize) -> Self {
        self.pool = Some(connections);
        self
    }

    /// Whether wake-ups of other processes are listened for (PostgreSQL); yes unless said otherwise. What only renews leases
    /// has no use for them.
    pub fn listen(mut self, listen: bool) -> Self {
        self.listen = listen;
        self
    }

    /// Who this program is in the log of the jobs it enqueues, cancels or signals; `api` unless said otherwise.
    pub fn actor(mut self, name: &str) -> Self {
        self.actor = Some(name.to_owned());
        self
    }

    /// How large payloads and results may be, and how many retries a job may ask for. By default 1 MiB, 1 MiB and 100;
    /// at most 16 MiB, 16 MiB and 100.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What jobs of a type fall back to where they say nothing of themselves.
    pub fn kind_policy<J: Job>(mut self, policy: Policy) -> Self {
        self.fallbacks.kinds.push((J::KIND.to_owned(), policy));
        self
    }

    /// What jobs of an agent fall back to where neither they nor their kind say anything.
    pub fn agent_policy(mut self, agent: &str, policy: Policy) -> Self {
        self.fallbacks.agents.push((agent.to_owned(), policy));
        self
    }

    /// What every job falls back to where nothing else says anything: not itself, its kind, its agent, nor its queue.
    pub fn default_policy(mut self, policy: Policy) -> Self {
        self.fallbacks.default = policy;
        self
    }

    /// Opens the store.
    pub async fn connect(self) -> Result<Client> {
        let actor = self.actor.as_deref().map_or(Ok(Actor::api()), |name| Actor::parse("actor", name))?;
        let limits = self.limits.check()?;
        let schema = self.schema.clone().unwrap_or_else(|| "windlass".to_owned());
        let fallbacks = self.fallbacks.clone();
        fallbacks.own()?;
        let is_driven = Place::parse(&self.url)? == Place::Postgres;
        // Its connections live on the runtime that opened them, where handlers may block every thread.
        let again =
            is_driven.then(|| Self { pool: Some(RENEWING), migrate: false, listen: false, ..self.clone() });
        let store = self.open().await?;
        Ok(Client::over(Opened { store, again, limits }, actor, schema, fallbacks))
    }

    pub(crate) async fn open(self) -> Result<Arc<dyn Store>> {
        match Place::parse(&self.url)? {
            Place::Memory => {
                self.only_postgres_options("memory:").map(|()| Arc::new(MemoryStore::new()) as _)
            }
            Place::Sqlite(path) => {
                self.only_postgres_options("sqlite:")?;
                open_sqlite(path, self.migrate).await
            }
            Place::Postgres => open_postgres(self).await,
        }
    }

    /// Options that a store would quietly ignore are an error instead.
    fn only_postgres_options(&self, scheme: &str) -> Result<()> {
        let given = [
            ("schema", self.schema.is_some()),
            ("notify_url", self.notify_url.is_some()),
            ("pool", self.pool.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => {
                Err(Error::Url(format!("starts with {scheme}, and `{option}` is only for PostgreSQL")))
            }
        }
    }
}

// Without the URLs, which may hold passwords.
impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { schema, migrate, pool, actor, limits, url: _, notify_url: _, listen: _, fallbacks: _ } =
            self;
        f.debug_struct("Builder")
            .field("schema", schema)
            .field("migrate", migrate)
            .field("pool", pool)
            .field("actor", actor)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}

/// Where a store is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Memory,
    Sqlite(String),
    Postgres,
}

impl Place {
    /// What is wrong is told without the URL itself: it may hold a password.
    fn parse(url: &str) -> Result<Self> {
        let wrong = |why: &str| Err(Error::Url(why.to_owned()));
        let Some((scheme, rest)) = url.split_once(':') else {
            return wrong("has no scheme");
        };
        match scheme {
            "memory" if rest.is_empty() || rest == "//" => Ok(Self::Memory),
            "memory" => wrong("has something after memory:, which names no place"),
            "sqlite" => match rest.strip_prefix("//").unwrap_or(rest) {
                "" => wrong("names no file"),
                ":memory:" => wrong("names SQLite's own memory, which is not durable; use memory: instead"),
                path => Ok(Self::Sqlite(path.to_owned())),
            },
            "postgres" | "postgresql" => Ok(Self::Postgres),
            other => {
                let shown: String = other.chars().take(20).collect();
                wrong(&format!("starts with {:?}, which no store knows", format!("{shown}:")))
            }
        }
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: String, migrate: bool) -> Result<Arc<dyn Store>> {
    let options = windlass_sqlite::Options::new(&path).create(migrate);
    let opened = tokio::task::spawn_blocking(move || options.open()).await;
    let opened =
        opened.unwrap_or_else(|e| Err(windlass_sqlite::OpenError::Failed { path, why: e.to_string() }));
    Ok(Arc::new(opened.map_err(|e| Error::Open(e.into()))?))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_path: String, _migrate: bool) -> Result<Arc<dyn Store>> {
    Err(Error::Feature { store: "SQLite", feature: "sqlite" })
}

#[cfg(feature = "postgres")]
async fn open_postgres(builder: Builder) -> Result<Arc<dyn Store>> {
    let mut options =
        windlass_postgres::Options::new(&builder.url).migrate(builder.migrate).listen(builder.listen);
    if let Some(schema) = &builder.schema {
        options = options.schema(schema);
    }
    if let Some(url) = &builder.notify_url {
        options = options.notify_url(url);
    }
    if let Some(pool) = builder.pool {
        options = options.pool(pool);
    }
    let opened = options.open().await.map_err(|e| Error::Open(e.into()))?;
    Ok(Arc::new(opened))
}

#[cfg(not(feature = "postgres"))]
async fn open_postgres(_builder: Builder) -> Result<Arc<dyn Store>> {
    Err(Error::Feature { store: "PostgreSQL", feature: "postgres" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_one_place_or_says_what_is_wrong() {
        assert_eq!(Place::parse("memory:").unwrap(), Place::Memory);
        for (url, path) in
            [("sqlite:a/b.db", "a/b.db"), ("sqlite:/b.db", "/b.db"), ("sqlite:///b.db", "/b.db")]
        {
            assert_eq!(Place::parse(url).unwrap(), Place::Sqlite(path.into()), "{url}");
        }
        assert_eq!(Place::parse("postgresql://h/d").unwrap(), Place::Postgres);
        for (url, word) in [
            ("jobs.db", "no scheme"),
            ("sqlite:", "no file"),
            ("sqlite::memory:", "memory:"),
            ("memory:x", "after memory:"),
            ("mysql://root:hunter2@h/d", "mysql:"),
        ] {
            let told = Place::parse(url).unwrap_err().to_string();
            assert!(told.contains(word) && told.contains("use sqlite:PATH"), "{url}: {told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[tokio::test]
    async fn an_option_of_another_store_is_refused_and_a_missing_file_is_not_created() {
        let told = Client::builder("memory:").pool(3).connect().await.unwrap_err().to_string();
        assert!(told.contains("`pool` is only for PostgreSQL"), "{told}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.db");
        let url = format!("sqlite:{}", path.display());
        assert!(matches!(Client::builder(&url).migrate(false).connect().await, Err(Error::Open(_))));
        assert!(!path.exists());
    }

    #[cfg(not(feature = "postgres"))]
    #[tokio::test]
    async fn a_store_that_was_left_out_names_its_feature() {
        let told = connect("postgres://localhost/jobs").await.unwrap_err().to_string();
        assert!(told.contains("`postgres`"), "{told}");
    }
}
