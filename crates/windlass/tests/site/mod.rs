//! Real processes on real stores: a test binary starts itself again, as one test called `child` that plays a role, and
//! what the role does to the world is counted in a file.

#![allow(dead_code, reason = "each test takes from here what it needs")]

#[path = "../../../sqlite/tests/place/process.rs"]
pub mod process;
#[path = "../../../engine/tests/bed/postgres.rs"]
mod server;

use process::Process;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::time::timeout;
use windlass::{ApprovalId, Client, Event, Job, JobId, JobView, Status};

/// The longest any condition is awaited. Far more than any of them needs.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// Where a process writes down what it did to the world.
const WORLD: &str = "WINDLASS_TEST_WORLD";

/// A store, and a world of its own.
pub struct Site {
    pub url: String,
    folder: tempfile::TempDir,
    _database: Option<server::Database>,
}

impl Site {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
        Self { url, folder, _database: None }
    }

    pub async fn postgres() -> Self {
        let (url, database) = server::database().await;
        Self { url, folder: tempfile::tempdir().expect("a folder"), _database: Some(database) }
    }

    pub fn is_postgres(&self) -> bool {
        self._database.is_some()
    }

    pub async fn client(&self) -> Client {
        windlass::connect(&self.url).await.expect("a store")
    }

    /// Starts a process that plays a role here.
    pub fn start(&self, role: &str) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.env(WORLD, self.folder.path());
        Process::run(command, role, Path::new(&self.url))
    }

    /// Everything that was done to the world, in order.
    pub fn effects(&self) -> Vec<String> {
        let done = std::fs::read_to_string(self.folder.path().join("effects")).unwrap_or_default();
        done.lines().map(str::to_owned).collect()
    }

    /// How often something was done.
    pub fn count(&self, effect: &str) -> usize {
        self.effects().iter().filter(|done| *done == effect).count()
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// In a child: the folder of its world.
pub fn world() -> PathBuf {
    std::env::var_os(WORLD).expect("a world").into()
}

/// In a child: does something to the world that outlives the process.
pub fn effect(what: &str) {
    let file: std::io::Result<File> =
        OpenOptions::new().create(true).append(true).open(world().join("effects"));
    file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes())).expect("the world takes it");
}

/// Sends a process a signal by name: STOP, CONT, TERM.
pub fn signal(process: &Process, name: &str) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", process.id())).status();
    assert!(sent.expect("a shell").success(), "{name} is sent");
}

/// Stops a process where it stands, but never inside of a transaction: on SQLite that would stop everybody.
pub async fn freeze(process: &Process, client: &Client) {
    loop {
        signal(process, "STOP");
        let written = client.enqueue(Probe).queue("nobody");
        if timeout(Duration::from_millis(500), written.into_future()).await.is_ok() {
            return;
        }
        signal(process, "CONT");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A job that nobody does.
#[derive(serde::Serialize, serde::Deserialize)]
struct Probe;

impl Job for Probe {
    const KIND: &str = "probe";
    type Output = ();
}

/// Ends a worker gracefully and sees that it ended well.
pub fn stop(process: Process) {
    signal(&process, "TERM");
    let (status, _) = process.ends();
    assert!(status.success(), "the worker ended with {status}");
}

/// How a job stands.
pub async fn view(client: &Client, id: JobId) -> JobView {
    client.job(id).await.expect("the store reads").expect("the job")
}

/// Waits until a job stands as wished.
pub async fn until(client: &Client, id: JobId, what: &str, wished: impl Fn(&JobView) -> bool) -> JobView {
    let looked = async {
        loop {
            let found = view(client, id).await;
            if wished(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match timeout(DEADLINE, looked).await {
        Ok(found) => found,
        Err(_) => panic!("never {what}: {:?}, {:?}", view(client, id).await.job, events(client, id).await),
    }
}

/// Waits until a job has this status.
pub async fn until_is(client: &Client, id: JobId, status: Status) -> JobView {
    until(client, id, status.as_str(), |found| found.job.status == status).await
}

/// A job's log.
pub async fn events(client: &Client, id: JobId) -> Vec<Event> {
    client.events(id).await.expect("the store reads")
}

/// How often a type of event stands in a job's log.
pub async fn logged(client: &Client, id: JobId, type_name: &str) -> usize {
    events(client, id).await.iter().filter(|event| event.what.type_name() == type_name).count()
}

/// The question that a job waits for.
pub async fn question(client: &Client, id: JobId, name: &str) -> ApprovalId {
    let asked = client.approvals(id).await.expect("the store reads");
    let open = asked.into_iter().find(|found| found.approval.name.as_str() == name);
    open.unwrap_or_else(|| panic!("nobody asked {name}")).approval.id
}

/// The code and the message of a job's error.
pub fn error_of(view: &JobView) -> (String, String) {
    let error: serde_json::Value = view.error.as_ref().expect("an error").0.parse().expect("JSON");
    let word = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    (word("code"), word("message"))
}

/// Runs a test that waits, on as many threads as a server would have.
pub fn wait_for<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Runs each test on both durable stores. The tests stand inside as they would outside.
#[macro_export]
macro_rules! on_both_stores {
    ($($(#[doc = $doc:literal])* #[test] async fn $name:ident($site:ident: Site) $body:block)*) => {
        $($(#[doc = $doc])* #[allow(clippy::unwrap_used, reason = "the body of a test")] async fn $name($site: Site) $body)*
        mod sqlite {
            $(#[test]
            fn $name() {
                $crate::site::wait_for(async { super::$name($crate::site::Site::sqlite().await).await });
            })*
        }
        mod postgres {
            $(#[test]
            fn $name() {
                $crate::site::wait_for(async { super::$name($crate::site::Site::postgres().await).await });
            })*
        }
    };
}
