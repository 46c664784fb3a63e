//! Push queues with real processes: a server that leads, and workers that are assigned jobs and die in every way.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use wire::{Client, Place, Served, until};

/// A worker that runs. It is killed with this.
struct Working(Child);

impl Working {
    /// Runs each job with a line of shell, in the place's folder.
    fn start(place: &Place, words: &[&str], shell: &str) -> Self {
        let words = [&["work", "--queue", "push"], words, &["--exec", "sh", "-c", shell]].concat();
        Self(place.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        let sent =
            Command::new("sh").args(["-c", &format!("kill -{signal} {}", self.0.id())]).status().unwrap();
        assert!(sent.success());
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(place: &Place) -> (Served, Client) {
    let served = place.serve();
    let mut client = served.client();
    client.send("PUT", "/v1/queues/push", "", r#"{"mode":"push"}"#).unwrap().is(200);
    (served, client)
}

fn workers(client: &mut Client) -> usize {
    client.get("/v1/workers").unwrap().is(200)["workers"].as_array().unwrap().len()
}

fn enqueue(client: &mut Client, more: &Value) -> String {
    let mut job = json!({ "kind": "work", "queue": "push" });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = client.post("/v1/jobs", &job).unwrap().is(201);
    format!("/v1/jobs/{}", made["job"]["id"].as_str().unwrap())
}

fn job(client: &mut Client, path: &str) -> Value {
    client.get(path).unwrap().is(200)
}

#[track_caller]
fn until_is(client: &mut Client, path: &str, status: &str) -> Value {
    until(status, || job(client, path)["status"] == status);
    job(client, path)
}

fn types(client: &mut Client, path: &str) -> Vec<String> {
    let events = client.get(&format!("{path}/events")).unwrap().is(200);
    events["events"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap().to_owned()).collect()
}

fn on_both(test: impl Fn(Place)) {
    test(Place::sqlite());
    test(Place::postgres());
}

/// R2, R3, R5: jobs go to the worker that has the labels, by command line and through the server alike.
#[test]
fn labels_decide_who_runs_a_job() {
    on_both(|place| {
        let (served, mut client) = serve(&place);
        let _eu = Working::start(&place, &["--label", "zone=eu", "--concurrency", "2"], "echo '\"eu\"'");
        let mut through =
            place.command(&["work", "--queue", "push", "--label", "zone=us", "--url", &served.url()]);
        through.args(["--exec", "sh", "-c", "echo '\"us\"'"]).env_remove("WINDLASS_STORE");
        let _us = Working(through.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let paths: Vec<(String, &str)> = (0..10)
            .map(|n| ["eu", "us"][n % 2])
            .map(|zone| (enqueue(&mut client, &json!({ "requires": { "zone": zone } })), zone))
            .collect();
        let words = ["enqueue", "work", "--queue", "push", "--require", "zone=us", "--json"];
        let made = place.command(&words).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let typed = format!("/v1/jobs/{}", made["job"]["id"].as_str().unwrap());
        for (path, zone) in paths.iter().chain([&(typed, "us")]) {
            let done = until_is(&mut client, path, "completed");
            assert_eq!((&done["result"], &done["attempt"]), (&json!(zone), &json!(1)), "{}", place.name);
            assert_eq!(
                types(&mut client, path),
                ["job_created", "job_assigned", "job_started", "job_completed"]
            );
        }
        let wrong = place.command(&["queues", "set", "push", "--mode", "shove"]).output().unwrap();
        assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
        let shown = place.command(&["queues", "ls"]).output().unwrap();
        assert!(String::from_utf8(shown.stdout).unwrap().contains("push"));
        drop(served);
        place.is_sound();
    });
}

/// R8: a worker that dies after it was assigned a job and before it starts it.
#[test]
fn a_worker_that_dies_before_it_starts() {
    on_both(|place| {
        let (served, mut client) = serve(&place);
        let mut first = Working::start(&place, &[], "echo 1 >> ran");
        until("it has reported", || workers(&mut client) == 1);
        first.signal("STOP");
        let path = enqueue(&mut client, &json!({}));
        let assigned = until_is(&mut client, &path, "assigned");
        let blocked = job(&mut client, &path)["blocked"].clone();
        assert_eq!(blocked["reason"], "assigned", "{blocked}");
        let _second = Working::start(&place, &[], "echo 2 >> ran");
        first.kill();
        let done = until_is(&mut client, &path, "completed");
        assert_eq!(
            (&assigned["attempt"], &done["attempt"]),
            (&json!(0), &json!(1)),
            "an attempt is an execution"
        );
        assert_eq!(std::fs::read_to_string(place.folder().join("ran")).unwrap(), "2\n");
        let all =
            ["job_created", "job_assigned", "job_orphaned", "job_assigned", "job_started", "job_completed"];
        assert_eq!(types(&mut client, &path), all);
        drop(served);
        place.is_sound();
    });
}

/// R2, R6: a worker that dies just after its start.
#[test]
fn a_worker_that_dies_while_it_runs() {
    on_both(|place| {
        let (served, mut client) = serve(&place);
        let mut first = Working::start(&place, &[], "echo 1 >> ran; sleep 60");
        until("it has reported", || workers(&mut client) == 1);
        let path = enqueue(&mut client, &json!({ "lease": "4s" }));
        until("it runs", || std::fs::read_to_string(place.folder().join("ran")).is_ok());
        first.kill();
        let _second = Working::start(&place, &[], "echo 2 >> ran");
        let done = until_is(&mut client, &path, "completed");
        assert_eq!((&done["attempt"], &done["crashes"]), (&json!(2), &json!(1)));
        assert_eq!(std::fs::read_to_string(place.folder().join("ran")).unwrap(), "1\n2\n");
        drop(served);
        place.is_sound();
    });
}

/// R6, R3: a worker that is cut off keeps its run through its grace, in which nobody is assigned it; then it is executed
/// again, and the one that comes back stops its program and settles nothing.
#[test]
fn a_worker_that_is_stopped_past_its_grace() {
    on_both(|place| {
        let (served, mut client) = serve(&place);
        let first = Working::start(&place, &[], "echo $$ > pid; sleep 600; echo late >> ran");
        until("it has reported", || workers(&mut client) == 1);
        let path = enqueue(&mut client, &json!({ "lease": "4s", "grace": "6s" }));
        let pid = place.folder().join("pid");
        until("it runs", || std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
        first.signal("STOP");
        let _second = Working::start(&place, &[], "echo 2 >> ran");
        until("the second has reported", || workers(&mut client) == 2);
        let held = job(&mut client, &path);
        let expires = held["lease"]["expires_at"].as_str().unwrap().to_owned();
        until("its lease has run out", || is_past(&expires));
        let in_grace = job(&mut client, &path);
        assert_eq!(
            (&in_grace["status"], &in_grace["attempt"]),
            (&json!("running"), &json!(1)),
            "nobody has it in its grace"
        );
        let done = until_is(&mut client, &path, "completed");
        assert_eq!(done["attempt"], 2);
        let program = std::fs::read_to_string(&pid).unwrap();
        first.signal("CONT");
        until("its program is stopped", || !lives(program.trim()));
        let ran = std::fs::read_to_string(place.folder().join("ran")).unwrap();
        assert_eq!(ran, "2\n", "it did nothing more");
        let types = types(&mut client, &path);
        assert_eq!(types.iter().filter(|name| *name == "job_completed").count(), 1, "{types:?}");
        drop(served);
        place.is_sound();
    });
}

/// Whether a moment of an answer is past.
fn is_past(moment: &str) -> bool {
    windlass_store::fresh::wall_clock() > windlass_core::Timestamp::parse("moment", moment).unwrap()
}

/// Whether a process is there, and not only its remains.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// R8: `doctor` says that nobody leads, and which jobs nobody can be assigned.
#[test]
fn doctor_looks_at_the_leader_and_at_labels() {
    let place = Place::sqlite();
    let doctor = || {
        let ran = place.command(&["doctor", "--json"]).output().unwrap();
        let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
        told["findings"].as_array().unwrap().clone()
    };
    assert!(place.command(&["migrate"]).output().unwrap().status.success());
    assert!(!doctor().iter().any(|one| one["check"] == "leader"), "without need nobody must lead");
    assert!(place.command(&["queues", "set", "push", "--mode", "push"]).output().unwrap().status.success());
    let find = |check: &str, says: &str| {
        let all = doctor();
        let found =
            all.iter().find(|one| one["check"] == check && one["found"].as_str().unwrap().contains(says));
        found.unwrap_or_else(|| panic!("{check} {says}: {all:?}"))["level"].as_str().unwrap().to_owned()
    };
    assert_eq!(find("leader", "nobody leads"), "problem");
    let (_served, mut client) = serve(&place);
    until("somebody leads", || client.get("/v1/leader").unwrap().is(200)["leads"] == true);
    assert_eq!(find("leader", "under epoch 1"), "ok");
    let _worker = Working::start(&place, &["--label", "gpu=a100"], "true");
    until("it has reported", || workers(&mut client) == 1);
    enqueue(&mut client, &json!({ "requires": { "gpu": "h100" } }));
    assert_eq!(find("queues", "no live worker has the labels"), "problem");
}
