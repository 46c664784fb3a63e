//! A PostgreSQL for tests, and a fresh database in it for each.
//!
//! `TEST_PG_URL` names a server to use: `scripts/test` starts one for all tests and says so with it. Without it
//! every test process starts a private one, which ends with the process, however that ends.

#![allow(dead_code, reason = "each test takes from here what it needs")]

use sha2::{Digest, Sha256};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_postgres::{Client, Error, NoTls};
use windlass_postgres::{PostgresStore, migrations_as_sql};

/// Whoever makes a database holds this lock of the server.
const LOCK: i64 = 7_718_110_200;
/// What a server of ours runs as.
const USER: &str = "windlass";

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
    (url, Database { server, name })
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
    (named(&server, &name), Database { server, name })
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

/// Runs a test that waits, on as many threads as a server would have.
pub fn wait_for<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(test)
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
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(on(&server, async |client| client.batch_execute(&drop).await))
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

/// A private server on a unix socket in a folder of its own.
pub struct Cluster {
    folder: PathBuf,
    keeper: Child,
}

impl Cluster {
    /// Starts one with these settings beside PostgreSQL's defaults: `name=value` each.
    pub fn start(settings: &[&str]) -> Self {
        let bin = binaries();
        let folder = tempfile::Builder::new().prefix("windlass-pg-").tempdir().expect("a folder").keep();
        let user = ordinary_user(&folder);
        if let Some((uid, gid)) = user {
            chown(&folder, Some(uid), Some(gid)).expect("the folder changes hands");
        }
        let initdb = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        let made = as_user(&bin.join("initdb"), user).args(initdb).arg(folder.join("data")).output();
        let made = made.expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let listen = format!("unix_socket_directories={}", folder.display());
        let basics = ["listen_addresses=", "max_connections=400", &listen];
        let settings: Vec<&str> = basics.iter().chain(settings).flat_map(|s| ["-c", s]).collect();
        // The shell reads until this process is gone, then ends the server and tidies up.
        let script = r#""$@" >"$0/log" 2>&1 & read -r _; kill -INT $!; wait $!; rm -rf "$0""#;
        let mut keeper = as_user(Path::new("/bin/sh"), user);
        keeper
            .arg("-c")
            .arg(script)
            .arg(&folder)
            .arg(bin.join("postgres"))
            .arg("-D")
            .arg(folder.join("data"));
        let keeper = keeper.args(settings).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: what interrupts the tests must not end the tidying.
        let keeper = keeper.process_group(0).spawn().expect("a server");
        let cluster = Self { folder, keeper };
        cluster.wait_until_ready(&bin);
        cluster
    }

    fn wait_until_ready(&self, bin: &Path) {
        for _ in 0..600 {
            let ready = Command::new(bin.join("pg_isready")).arg("-q").arg("-h").arg(&self.folder).status();
            if ready.expect("pg_isready runs").success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        panic!("PostgreSQL did not start within 30 s: {log}");
    }

    /// Where it is: the database `postgres`.
    pub fn url(&self) -> String {
        let host = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{USER}@{host}/postgres")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut end) = self.keeper.stdin.take() {
            let _ = end.write_all(b"\n");
        }
        let _ = self.keeper.wait();
    }
}

/// A command, as another user where root is asked, which PostgreSQL refuses to be.
fn as_user(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    // The caller's folder may be closed to that user.
    command.current_dir("/").env_remove("PGHOST").env_remove("PGPORT").env_remove("PGUSER");
    command
}

/// Who a server runs as when this process, the owner of `folder`, is root.
fn ordinary_user(folder: &Path) -> Option<(u32, u32)> {
    if std::fs::metadata(folder).expect("a folder").uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("a list of users");
    let of = |name: &str| {
        let mut fields =
            users.lines().map(|l| l.split(':')).find(|l| l.clone().next() == Some(name))?.skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = of("postgres").or_else(|| of("nobody"));
    Some(found.expect("a user postgres or nobody: PostgreSQL does not run as root"))
}

/// Where PostgreSQL's programs are.
fn binaries() -> PathBuf {
    if let Some(bin) = std::env::var_os("WINDLASS_TEST_PG_BIN") {
        return bin.into();
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions =
        debian.filter_map(|v| Some((v.file_name().to_str()?.parse::<u32>().ok()?, v.path().join("bin"))));
    let found = versions.filter(|(_, bin)| bin.join("initdb").exists()).max().map(|(_, bin)| bin);
    let configured = || {
        let told = Command::new("pg_config").arg("--bindir").output().ok()?;
        let bin = PathBuf::from(String::from_utf8(told.stdout).ok()?.trim());
        bin.join("initdb").exists().then_some(bin)
    };
    found.or_else(configured).expect(
        "PostgreSQL's programs: run `scripts/test`, which installs them as root; or install them (Debian: apt-get \
         install postgresql); or name their folder with WINDLASS_TEST_PG_BIN, or a server with TEST_PG_URL",
    )
}
