//! A fresh database for a test, on the server that `TEST_PG_URL` names or on one of this process's own.
#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../../../postgres/tests/support/cluster.rs"]
mod cluster;

use cluster::Cluster;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// A database, dropped with this.
pub struct Database {
    pub url: String,
    server: String,
    name: String,
    runtime: Runtime,
    /// The server, where the test has one for itself. Last, for the database is dropped before it.
    _own: Option<Cluster>,
}

impl Database {
    pub fn new() -> Self {
        Self::at(server(), None)
    }

    /// On a server of its own with these settings.
    pub fn with(settings: &[&str]) -> Self {
        let own = Cluster::start(&[&["fsync=off", "full_page_writes=off"], settings].concat());
        Self::at(own.url(), Some(own))
    }

    fn at(server: String, own: Option<Cluster>) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("windlass_cli_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let (url, runtime) = (named(&server, &name), Runtime::new().unwrap());
        let database = Self { url, server, name, runtime, _own: own };
        // What an earlier process with the same number left behind.
        database.on("DROP DATABASE IF EXISTS {} WITH (FORCE)");
        database.on("CREATE DATABASE {}");
        database
    }

    /// Does something on the server; `{}` is the name of the database.
    pub fn on(&self, sql: &str) {
        self.runtime.block_on(async {
            let client = connect(&self.server).await;
            client.batch_execute(&sql.replace("{}", &self.name)).await.unwrap();
        });
    }

    /// Does something in the database.
    pub fn within(&self, sql: &str) {
        self.runtime.block_on(async { connect(&self.url).await.batch_execute(sql).await.unwrap() });
    }

    /// A transaction that is begun and left alone, until it is dropped.
    pub fn open_transaction(&self) -> OpenTransaction {
        self.runtime.block_on(async {
            let client = connect(&self.url).await;
            client.batch_execute("BEGIN; SELECT 1").await.unwrap();
            let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
            OpenTransaction { pid, _client: client }
        })
    }
}

/// A transaction that is open.
pub struct OpenTransaction {
    pub pid: i32,
    _client: Client,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.on("DROP DATABASE IF EXISTS {} WITH (FORCE)");
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move {
        // Ends with its client.
        let _ = connection.await;
    });
    client
}

/// The same server, another database.
fn named(url: &str, database: &str) -> String {
    let (base, query) = url.split_once('?').map_or((url, String::new()), |(b, q)| (b, format!("?{q}")));
    let host = base.find("://").map_or(0, |n| n + 3);
    let end = base[host..].find('/').map_or(base.len(), |n| host + n);
    format!("{}/{database}{query}", &base[..end])
}

/// The server that was named, or one of this process's own.
fn server() -> String {
    static OWN: OnceLock<Cluster> = OnceLock::new();
    match std::env::var("TEST_PG_URL") {
        Ok(url) if !url.is_empty() => url,
        _ => OWN.get_or_init(|| Cluster::start(&["fsync=off", "full_page_writes=off"])).url(),
    }
}

/// A database through a pooler: the one that `TEST_POOLER_URL` names, or one of its own, which ends with this.
pub struct Pooled {
    pub url: String,
    own: Option<TempDir>,
}

impl Pooled {
    pub fn new(database: &Database) -> Self {
        let (server, own) = match std::env::var("TEST_POOLER_URL") {
            Ok(url) if !url.is_empty() => (url, None),
            _ => {
                let folder = TempDir::new().unwrap();
                // The pooler runs as another user.
                std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
                (pgbouncer(&["start"], folder.path(), &[&database.server]), Some(folder))
            }
        };
        Self { url: named(&server, &database.name), own }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(folder) = &self.own {
            pgbouncer(&["stop"], folder.path(), &[]);
        }
    }
}

fn pgbouncer(verb: &[&str], folder: &Path, url: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/pgbouncer");
    let out = Command::new(script).args(verb).arg(folder.join("pooler")).args(url).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}
