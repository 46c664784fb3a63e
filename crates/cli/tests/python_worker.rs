//! The worker of `examples/python_worker.py`, killed where it hurts, resumes; the one of the recipe does what it says.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use wire::{Client, Place, Served, until};

/// The worker as a process; it is killed with this, as `kill -9` does.
struct Worker(Child);

impl Worker {
    fn start(place: &Place, served: &Served) -> Self {
        Self::run(place, served, &repository("examples/python_worker.py"))
    }

    fn run(place: &Place, served: &Served, script: &Path) -> Self {
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(place.folder().join("worker.log"));
        let mut command = Command::new("python3");
        command.arg(script).env("WINDLASS_URL", served.url()).env("WINDLASS_LEASE", "4");
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.unwrap()).spawn().unwrap())
    }

    fn kill(mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "it lived until now");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn job(client: &mut Client, id: &str) -> Value {
    client.get(&format!("/v1/jobs/{id}")).unwrap().is(200)
}

fn is_recorded(client: &mut Client, id: &str, name: &str) -> bool {
    let steps = client.get(&format!("/v1/jobs/{id}/steps")).unwrap().is(200);
    steps["steps"].as_array().unwrap().iter().any(|step| step["name"] == name && step["status"] == "finished")
}

/// The jobs whose effect stands in a file, one line each.
fn effects(folder: &Path, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// J11, M8: killed between two steps and while its job waits, the worker that comes next does each step once.
fn resumes(place: &Place) {
    let served = place.serve();
    let mut client = served.client();
    let folder = tempfile::tempdir().unwrap();
    // Opening a pipe that nobody reads blocks: the worker stands between the first step's record and the second's effect.
    let pipe = folder.path().join("charged");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let body = json!({ "kind": "order", "queue": "orders", "payload": { "folder": folder.path() } });
    let id = client.post("/v1/jobs", &body).unwrap().is(201)["job"]["id"].as_str().unwrap().to_owned();
    let worker = Worker::start(place, &served);
    until("the first step is on record", || is_recorded(&mut client, &id, "pack"));
    worker.kill();
    std::fs::remove_file(&pipe).unwrap();

    let worker = Worker::start(place, &served);
    until("it waits for an approval", || job(&mut client, &id)["status"] == "waiting");
    let seen = job(&mut client, &id);
    assert_eq!((&seen["waiting_for"], &seen["attempt"]), (&json!("approval"), &json!(2)));
    worker.kill();

    let _worker = Worker::start(place, &served);
    let asked = client.get(&format!("/v1/approvals?job_id={id}")).unwrap().is(200);
    let asked = &asked["approvals"][0];
    assert_eq!((&asked["status"], &asked["name"]), (&json!("pending"), &json!("ship")));
    assert!(effects(folder.path(), "shipped").is_empty(), "nobody has decided yet");
    let decide = format!("/v1/approvals/{}/decide", asked["id"].as_str().unwrap());
    client.post(&decide, &json!({ "decision": "approve" })).unwrap().is(200);
    until("it is completed", || job(&mut client, &id)["status"] == "completed");
    assert_eq!(job(&mut client, &id)["result"], json!(["shipped"]));
    for name in ["packed", "charged", "shipped"] {
        assert_eq!(effects(folder.path(), name), [id.as_str()], "{name}: once");
    }
    drop(served);
    place.is_sound();
}

#[test]
fn a_python_worker_resumes_on_sqlite() {
    resumes(&Place::sqlite());
}

#[test]
fn a_python_worker_resumes_on_postgres() {
    resumes(&Place::postgres());
}

/// The worker that the recipe shows, as it stands there.
fn recipe() -> String {
    let text = std::fs::read_to_string(repository("docs/recipes/python-worker.md")).unwrap();
    let (_, rest) = text.split_once("```python\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// (http) A worker in 30 lines waits for jobs, keeps its lease for as long as it works, completes and fails.
#[test]
fn the_recipes_worker_claims_renews_completes_and_fails() {
    let (place, worker) = (Place::sqlite(), recipe());
    assert!(worker.lines().count() <= 30, "{} lines", worker.lines().count());
    let script = place.folder().join("worker.py");
    std::fs::write(&script, worker).unwrap();
    let served = place.serve();
    let _worker = Worker::run(&place, &served, &script);
    let mut client = served.client();
    let mut enqueue = |payload: Value| {
        let body = json!({ "kind": "sleep", "payload": payload, "max_retries": 0 });
        client.post("/v1/jobs", &body).unwrap().is(201)["job"]["id"].as_str().unwrap().to_owned()
    };
    // Twice as long as the lease: without a renewal it would be somebody else's.
    let long = enqueue(json!({ "seconds": 8 }));
    let (short, wrong) = (enqueue(json!({ "seconds": 0 })), enqueue(json!({})));
    until("the long one is completed", || job(&mut client, &long)["status"] == "completed");
    let seen = job(&mut client, &long);
    assert_eq!((&seen["result"], &seen["attempt"]), (&json!({ "slept": 8 }), &json!(1)));
    until("the others have ended", || {
        [&short, &wrong].iter().all(|id| !job(&mut client, id)["finished_at"].is_null())
    });
    assert_eq!(job(&mut client, &short)["result"], json!({ "slept": 0 }));
    let failed = job(&mut client, &wrong);
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("KeyError")));
    drop(served);
    place.is_sound();
}
