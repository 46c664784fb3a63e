//! The PostgreSQL that is measured: a private server with durable settings, or one that was named, and a fresh
//! database in it for every run.

use crate::Tried;
use crate::measure::{Gauge, clock, cpu_time_of_family};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// Every commit on the disk before its answer: without that nothing is measured.
const DURABLE: [&str; 3] = ["fsync", "full_page_writes", "synchronous_commit"];
/// Room for the cases in memory, few checkpoints.
const ROOM: [&str; 3] = ["shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min"];
/// How long the last connections of a closed store may take to be gone.
const GOODBYE: Duration = Duration::from_secs(30);

/// A server.
pub struct Server {
    url: String,
    /// The folder of a private one, which ends with this.
    private: Option<TempDir>,
}

impl Server {
    /// One that is there, if its commits are durable.
    pub async fn named(url: &str) -> Tried<Self> {
        let client = connect(url).await?;
        let mut off = Vec::new();
        for name in DURABLE {
            let set: String = client.query_one("SELECT current_setting($1)", &[&name]).await?.get(0);
            if set == "off" {
                off.push(format!("{name} = off"));
            }
        }
        if !off.is_empty() {
            let off = off.join(", ");
            return Err(format!(
                "the server of --url has {off}: an answered commit is not on the disk there, and its speed says nothing; \
                 set them on, or leave --url out to measure a private server"
            )
            .into());
        }
        Ok(Self { url: url.to_owned(), private: None })
    }

    /// A private one in an empty folder, durable.
    pub fn start(folder: TempDir) -> Tried<Self> {
        let durable = DURABLE.map(|name| format!("{name}=on"));
        Self::start_with(folder, durable.iter().map(String::as_str).chain(ROOM))
    }

    fn start_with<'a>(folder: TempDir, settings: impl Iterator<Item = &'a str>) -> Tried<Self> {
        let out = script("start").arg(folder.path()).args(settings).output()?;
        if !out.status.success() {
            return Err(format!("no PostgreSQL: {}", String::from_utf8_lossy(&out.stderr)).into());
        }
        let url = String::from_utf8(out.stdout)?.trim().to_owned();
        Ok(Self { url, private: Some(folder) })
    }

    /// A fresh database, with a checkpoint behind it: what was written before is not this run's.
    pub async fn database(&self) -> Tried<Database> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("windlass_bench_{}_{n}", std::process::id());
        let server = connect(&self.url).await?;
        server.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        server.batch_execute("CHECKPOINT").await?;
        let url = with_database(&self.url, &name);
        let client = connect(&url).await?;
        let folder: String = client.query_one("SELECT current_setting('data_directory')", &[]).await?.get(0);
        Ok(Database { url, name, client, server, postmaster: postmaster(Path::new(&folder)) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(folder) = &self.private {
            // It says itself what it cannot do.
            let _ = script("stop").arg(folder.path()).status();
        }
    }
}

/// A fresh database.
pub struct Database {
    url: String,
    name: String,
    /// In this database, to ask it things.
    client: Client,
    /// In another, to drop it from.
    server: Client,
    postmaster: Option<u32>,
}

impl Database {
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Tried<Client> {
        connect(&self.url).await
    }

    /// What the server has used so far.
    pub async fn gauge(&self) -> Tried<Gauge> {
        let wal = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        let wal: i64 = self.client.query_one(wal, &[]).await?.get(0);
        Ok(Gauge { cpu: self.postmaster.and_then(cpu_time_of_family), wal_bytes: wal.unsigned_abs() })
    }

    /// How large it is, what vacuums freed and nobody uses yet included.
    pub async fn bytes(&self) -> Tried<u64> {
        let size = "SELECT pg_database_size(current_database())";
        Ok(self.client.query_one(size, &[]).await?.get::<_, i64>(0).unsigned_abs())
    }

    /// Rows of jobs and their logs that were deleted so far. Connections tell theirs about once a second.
    pub async fn removed_rows(&self) -> Tried<u64> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let gone = "SELECT coalesce(sum(n_tup_del), 0)::bigint FROM pg_stat_user_tables \
                    WHERE relname IN ('jobs', 'job_events', 'job_logs')";
        Ok(self.client.query_one(gone, &[]).await?.get::<_, i64>(0).unsigned_abs())
    }

    /// Transactions in it so far. Connections tell theirs about once a second.
    pub async fn transactions(&self) -> Tried<i64> {
        let sum =
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        Ok(self.client.query_one(sum, &[]).await?.get(0))
    }

    /// Drops it and answers how many versions of rows died in it. Each connection tells that when it ends.
    pub async fn close(self) -> Tried<u64> {
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
                      AND backend_type = 'client backend'";
        let began = clock();
        while self.client.query_one(others, &[]).await?.get::<_, i64>(0) > 0 && began.elapsed() < GOODBYE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let dead = "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables";
        let dead: i64 = self.client.query_one(dead, &[]).await?.get(0);
        drop(self.client);
        self.server.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await?;
        Ok(dead.unsigned_abs())
    }
}

fn script(verb: &str) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres"));
    command.arg(verb);
    command
}

#[expect(clippy::disallowed_methods, reason = "it ends with its client, and its client says what went wrong")]
async fn connect(url: &str) -> Tried<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The same server, another database.
fn with_database(url: &str, database: &str) -> String {
    let (base, query) = url.split_once('?').map_or((url, String::new()), |(b, q)| (b, format!("?{q}")));
    let host = base.find("://").map_or(0, |n| n + 3);
    let end = base[host..].find('/').map_or(base.len(), |n| host + n);
    format!("{}/{database}{query}", &base[..end])
}

/// The process that is parent to all of the server's, if the server runs here.
fn postmaster(folder: &Path) -> Option<u32> {
    let pid: u32 =
        std::fs::read_to_string(folder.join("postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()?;
    std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.starts_with("post").then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_durable_servers_are_measured() {
        let durable = Server::start(TempDir::new().unwrap()).unwrap();
        assert!(Server::named(&durable.url).await.is_ok());
        let lax = format!("{}?options=-c%20synchronous_commit%3Doff", durable.url);
        let refused = Server::named(&lax).await.err().unwrap().to_string();
        assert!(refused.contains(" has synchronous_commit = off: "), "{refused}");
        let of_tests = Server::start_with(TempDir::new().unwrap(), std::iter::empty()).unwrap();
        let refused = Server::named(&of_tests.url).await.err().unwrap().to_string();
        assert!(refused.contains(" has fsync = off, full_page_writes = off: "), "{refused}");
    }

    #[test]
    fn another_database_of_the_same_server() {
        let there = [
            ("postgres://me@host/postgres", "postgres://me@host/x"),
            ("postgres://me:pw@host:5432", "postgres://me:pw@host:5432/x"),
            (
                "postgres://me@%2Ftmp%2Fpg/postgres?sslmode=disable",
                "postgres://me@%2Ftmp%2Fpg/x?sslmode=disable",
            ),
        ];
        for (url, other) in there {
            assert_eq!(with_database(url, "x"), other);
        }
    }
}
