//! A fresh database for each test, on the server that `TEST_PG_URL` names or on one of this process's own.

#[path = "../../../postgres/tests/support/cluster.rs"]
pub mod cluster;

use cluster::Cluster;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::{Error, NoTls};

/// Makes a database; it is dropped with the guard.
pub async fn database() -> (String, Database) {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let server = server();
    let name = format!("windlass_engine_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    // What an earlier process with the same number left behind.
    on(&server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.expect("a server");
    on(&server, &format!("CREATE DATABASE {name}")).await.expect("a database");
    (named(&server, &name), Database { server, name })
}

/// Drops its database.
pub struct Database {
    server: String,
    name: String,
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let server = self.server.clone();
        // A thread of its own, because a runtime cannot wait inside of another.
        let dropped =
            std::thread::spawn(move || super::wait_for(on(&server, &drop)).map_err(|e| e.to_string()));
        match dropped.join() {
            Ok(Ok(())) => {}
            // A test that fails has more to say than this.
            other if std::thread::panicking() => eprintln!("database {}: {other:?}", self.name),
            other => panic!("database {} could not be dropped: {other:?}", self.name),
        }
    }
}

/// Does something on a connection, which is closed afterwards.
async fn on(url: &str, sql: &str) -> Result<(), Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::select! {
        done = client.batch_execute(sql) => done,
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
