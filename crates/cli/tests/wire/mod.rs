//! The real binary as a server in a process of its own, the store behind it, and a plain client of it.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

pub mod client;
pub mod hole;
#[path = "../../../engine/tests/bed/postgres.rs"]
mod postgres;
pub mod receiver;
pub mod tamper;

pub use client::{Client, Reply};

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything awaited may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A store for one test. It goes with this.
pub struct Place {
    pub name: &'static str,
    pub url: String,
    folder: TempDir,
    _database: Option<postgres::Database>,
    /// The server, where the test has one for itself.
    own: Option<postgres::cluster::Cluster>,
}

impl Place {
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
        Self { name: "sqlite", url, folder, _database: None, own: None }
    }

    pub fn postgres() -> Self {
        let (url, database) = wait_for(postgres::database());
        let folder = tempfile::tempdir().unwrap();
        Self { name: "postgres", url, folder, _database: Some(database), own: None }
    }

    /// On a server that can be killed and started again.
    pub fn own_postgres() -> Self {
        let own = postgres::cluster::Cluster::start(&["fsync=off", "full_page_writes=off"]);
        let folder = tempfile::tempdir().unwrap();
        Self { name: "postgres", url: own.url(), folder, _database: None, own: Some(own) }
    }

    /// Kills the server of its own, and starts it again.
    pub fn restart(&mut self) {
        let own = self.own.as_mut().unwrap();
        own.kill();
        own.restart();
    }

    /// Does something in its database.
    pub fn on_database(&self, sql: &str) {
        wait_for(async {
            let (client, connection) =
                tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
            tokio::select! {
                done = client.batch_execute(sql) => done.unwrap(),
                end = connection => panic!("the connection ended: {end:?}"),
            }
        });
    }

    /// The number that a query answers.
    pub fn of_database(&self, query: &str) -> f64 {
        wait_for(async {
            let (client, connection) =
                tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
            tokio::select! {
                row = client.query_one(query, &[]) => row.unwrap().get(0),
                end = connection => panic!("the connection ended: {end:?}"),
            }
        })
    }

    /// A session that keeps purges from writing, as long as it lives. Reads and leaders go on.
    pub fn hold_up_purges(&self) -> (tokio::runtime::Runtime, tokio_postgres::Client) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let connected = runtime.block_on(tokio_postgres::connect(&self.url, tokio_postgres::NoTls));
        let (client, connection) = connected.unwrap();
        runtime.spawn(connection);
        let lock = "BEGIN; LOCK TABLE windlass.approvals IN SHARE MODE";
        runtime.block_on(client.batch_execute(lock)).unwrap();
        (runtime, client)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The binary on this store, with an environment of its own.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(words).current_dir(self.folder()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("WINDLASS_STORE", &self.url);
        command
    }

    /// Serves it on a port that was free a moment ago.
    pub fn serve(&self) -> Served {
        self.serve_on(&free_address())
    }

    /// Serves it on this address, and waits until it is ready.
    pub fn serve_on(&self, address: &str) -> Served {
        Served::start(self.command(&["serve", "--unsafe", "--listen", address]), self.folder(), address)
    }

    /// The log has a fold for every row.
    pub fn is_sound(&self) {
        let ran = self.command(&["verify"]).output().unwrap();
        assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The library that gives a process another clock.
pub fn faketime() -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ran = Command::new(root.join("scripts/program")).args(["faketime", "faketime", "--version"]).output();
    let ran = ran.unwrap();
    let places = [Path::new("/usr/lib").to_owned(), root.join("target/debian/usr/lib")];
    let folders = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten();
    let library = |folder: std::fs::DirEntry| folder.path().join("faketime/libfaketimeMT.so.1");
    let found = folders.filter_map(Result::ok).map(library).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no libfaketime: {}{}", text(&ran.stdout), text(&ran.stderr)))
}

/// An address that was free a moment ago.
pub fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// A server that runs. It is killed with this, unless it was ended before.
pub struct Served {
    pub address: String,
    child: Child,
    log: std::path::PathBuf,
}

impl Served {
    /// Starts a command that serves, and waits until it is ready.
    pub fn start(mut command: Command, folder: &Path, address: &str) -> Self {
        let log = folder.join(format!("server-{}.log", address.rsplit(':').next().unwrap()));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        let mut served = Self { address: address.to_owned(), child, log };
        until("the server is ready", || {
            assert!(served.child.try_wait().unwrap().is_none(), "the server ended: {}", served.log());
            served.client().get("/readyz").is_ok_and(|reply| reply.status == 200)
        });
        served
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn client(&self) -> Client {
        Client::new(&self.address)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it ever had, in bytes.
    pub fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
    }

    /// What it said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Awaits a condition.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs what waits; the guard of a database drops it with this.
fn wait_for<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(task)
}
