//! A PostgreSQL for tests, and a fresh database in it for each.
//!
//! `TEST_PG_URL` names a server to use: `scripts/test` starts one for all tests and says so with it. Without it
//! every test process starts a private one, which ends with the process, however that ends.

#![allow(dead_code, reason = "each test takes from here what it needs")]

pub mod cluster;
pub mod load;
pub mod proxy;

use cluster::Cluster;
use sha2::{Digest, Sha256};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_postgres::{Client, Error, NoTls};
use windlass_postgres::{PostgresStore, migrations_as_sql};

/// Whoever makes a database holds this lock of the server.
const LOCK: i64 = 7_718_110_200;
/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(180);

/// A fresh database with the schema in it; it is dropped with the guard.
pub async fn database() -> (String, Database) {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let server = server();
    let n = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("windlass_test_{}_{n}", std::process::id());
    let made = on(&server, async |client| {
        client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await?;
        let template = template(client, &server).await?;
        // What an earlier process with the same number left behind.
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
        client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await
    });
    made.await.expect("a database");
    let url = named(&server, &name);
    // A copy is a store of its own.
    let sql =
        "UPDATE windlass.store SET store_id = ('x' || substr(md5(random()::text), 1, 16))::bit(64)::bigint";
    on(&url, async |client| client.batch_execute(sql).await).await.expect("a store of its own");
    (url, Database { server, name, checked: true })
}

/// A fresh database with nothing in it.
pub async fn empty_database() -> (String, Database) {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let server = server();
    let name = format!("windlass_empty_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let made = on(&server, async |client| {
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
        client.batch_execute(&format!("CREATE DATABASE {name}")).await
    });
    made.await.expect("a database");
    (named(&server, &name), Database { server, name, checked: false })
}

/// A connection as any program would open it.
#[expect(
    clippy::disallowed_methods,
    reason = "it ends with its client, and what it has to say its client says"
)]
pub async fn hand(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client.batch_execute("SET application_name = 'psql'").await.expect("another name");
    client
}

/// The SQLSTATE and the message of a refusal.
pub fn said(error: &Error) -> (String, String) {
    let error = error.as_db_error().unwrap_or_else(|| panic!("not the database's word: {error}"));
    (error.code().code().to_owned(), error.message().to_owned())
}

/// The same database, as another user.
pub fn as_role(url: &str, role: &str) -> String {
    let host = url.find("://").map_or(0, |n| n + 3);
    let path = url[host..].find('/').map_or(url.len(), |n| host + n);
    let after = url[host..path].rfind('@').map_or(host, |n| host + n + 1);
    format!("{}{role}:secret@{}", &url[..host], &url[after..])
}

/// The same database, as a role that was granted what the engine needs and nothing more.
pub async fn as_app(url: &str) -> String {
    const APP: &str = "windlass_test_app";
    let sql = format!(
        "SELECT pg_advisory_lock({LOCK});
         DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{APP}') THEN
           CREATE ROLE {APP} LOGIN PASSWORD 'secret'; END IF; END $$;
         SELECT windlass.grant_app('{APP}')"
    );
    on(url, async |client| client.batch_execute(&sql).await).await.expect("a role");
    as_role(url, APP)
}

/// Runs a test that waits, on as many threads as a server would have.
pub fn wait_for<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("waited three minutes in vain: {what}"));
}

/// Waits for an answer.
pub async fn soon<T>(what: &str, answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, answer)
        .await
        .unwrap_or_else(|_| panic!("waited three minutes in vain: {what}"))
}

/// Drops its database.
pub struct Database {
    server: String,
    name: String,
    /// Whether what points at jobs is compared with them at the end.
    checked: bool,
}

/// What the line and the holds lost, or have twice.
async fn out_of_line(client: &Client) -> Result<Vec<String>, Error> {
    let rows = match client.query(include_str!("../../sql/out_of_line.sql"), &[&10i64]).await {
        // A test took the schema away.
        Err(gone) if gone.code() == Some(&tokio_postgres::error::SqlState::UNDEFINED_TABLE) => {
            return Ok(Vec::new());
        }
        rows => rows?,
    };
    Ok(rows.iter().map(|r| format!("{} {}", r.get::<_, uuid::Uuid>(0), r.get::<_, String>(1))).collect())
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let (server, name) = (self.server.clone(), self.name.clone());
        let checked = (self.checked && !std::thread::panicking()).then(|| named(&server, &name));
        // A thread of its own, because a runtime cannot wait inside of another.
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            if let Some(url) = checked {
                let strays = runtime.block_on(on(&url, out_of_line)).expect("the line is looked at");
                assert!(strays.is_empty(), "the line and the holds have every job once: {strays:?}");
            }
            runtime.block_on(on(&server, async |client| {
                // It would look only every 100 ms whether those whom it ends are gone.
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
                for _ in 0..100 {
                    if client.query(end, &[&name]).await?.is_empty() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                client.batch_execute(&drop).await
            }))
        });
        match dropped.join() {
            Ok(Ok(())) => {}
            // A test that fails has more to say than this.
            other if std::thread::panicking() => eprintln!("database {}: {other:?}", self.name),
            other => panic!("database {} could not be dropped: {other:?}", self.name),
        }
    }
}

/// The database that others are copied from, migrated once per server and schema.
async fn template(client: &Client, server: &str) -> Result<String, Error> {
    let sum = Sha256::digest(migrations_as_sql());
    let sum: String = sum.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let (name, draft) = (format!("windlass_template_{sum}"), format!("windlass_draft_{sum}"));
    let found = client.query("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).await?;
    if !found.is_empty() {
        return Ok(name);
    }
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {draft} WITH (FORCE)")).await?;
    // Most servers sort text by a language and not by bytes. What counts on bytes must say so, so tests run on such.
    let english =
        format!("CREATE DATABASE {draft} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'");
    if client.batch_execute(&english).await.is_err() {
        client.batch_execute(&format!("CREATE DATABASE {draft}")).await?;
    }
    drop(PostgresStore::open(&named(server, &draft)).await.expect("the migrations run"));
    // The store's connections end by themselves a little later, and while they last there is no copying.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
    client.execute(end, &[&draft]).await?;
    // Under its own name only when it is whole.
    while let Err(busy) = client.batch_execute(&format!("ALTER DATABASE {draft} RENAME TO {name}")).await {
        assert_eq!(busy.code().map(|c| c.code()), Some("55006"), "{busy}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(name)
}

/// Does something on a connection, which is closed afterwards.
async fn on<T>(url: &str, work: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::select! {
        done = work(&client) => done,
        end = connection => panic!("the connection ended: {end:?}"),
    }
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
