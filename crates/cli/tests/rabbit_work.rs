//! Messages of RabbitMQ that name jobs, and workers that take those out of their turn: redelivered, doubled, and with workers
//! and the broker killed.

#![cfg(feature = "amqp")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod broker;
mod wire;

use broker::{Rabbit, runtime};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::runtime::Runtime;
use wire::{Client, Place, Served, until};

/// A worker that takes from queue `q`, and what messages of a queue of the broker name. Its program writes down what it ran.
struct Worker(Child);

impl Worker {
    fn start(place: &Place, rabbit: &Rabbit, words: &[&str], program: &str) -> Self {
        Self::of(place.command(&[]), rabbit, words, program)
    }

    fn of(mut command: Command, rabbit: &Rabbit, words: &[&str], program: &str) -> Self {
        let address = format!("{}/names", rabbit.url());
        command.args(["work", "--queue", "q", "--lease", "5s", "--quiet", "--consume", &address]).args(words);
        let program = format!("echo \"$WINDLASS_JOB_ID\" >> ran; {program}");
        command.args(["--exec", "sh", "-c", &program]).env("WINDLASS_CONSUME_SECRET", "guest");
        Self(command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap())
    }

    /// As `kill -9` does.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// As a supervisor does; waits for its end.
    fn end(mut self) {
        let asked = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.0.id())]).status().unwrap();
        assert!(asked.success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ran(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.folder().join("ran")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Enqueues so many jobs for queue `q`.
fn enqueue(client: &mut Client, count: usize) -> Vec<String> {
    let one = json!({ "kind": "k", "queue": "q", "max_retries": 0 });
    let made = client.post("/v1/jobs/batch", &json!({ "jobs": vec![one; count] })).unwrap().is(201);
    let made = made["results"].as_array().unwrap().iter();
    made.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

fn job(client: &mut Client, id: &str) -> Value {
    client.get(&format!("/v1/jobs/{id}")).unwrap().is(200)
}

fn status(client: &mut Client, id: &str) -> String {
    job(client, id)["status"].as_str().unwrap().to_owned()
}

/// Sends a message for each of them.
fn name(rabbit: &Rabbit, runtime: &Runtime, ids: &[String]) {
    let bodies: Vec<String> = ids.iter().map(|id| json!({ "job_id": id }).to_string()).collect();
    let messages: Vec<_> = bodies.iter().map(|body| (None, body.as_str())).collect();
    rabbit.send(runtime, "names", &messages);
}

/// How often an event of a type stands in a job's log.
fn count(client: &mut Client, id: &str, type_name: &str) -> usize {
    let log = client.get(&format!("/v1/jobs/{id}/events?limit=1000")).unwrap().is(200);
    log["events"].as_array().unwrap().iter().filter(|event| event["type"] == type_name).count()
}

/// Nothing is left in the queue of the broker, and nothing is unacknowledged once all who consume have ended.
fn nothing_is_left(rabbit: &Rabbit, runtime: &Runtime) {
    until("the broker has nothing left", || rabbit.left(runtime, "names") == 0);
}

fn open(rabbit: &Rabbit, runtime: &Runtime, place: &Place) -> Served {
    rabbit.queue(runtime, "names");
    place.serve()
}

/// T5: the job that a message names is taken before a thousand others that stand before it, on a store and through a server;
/// a message for a job that has ended is acknowledged and ignored, and what names none is set aside.
#[test]
fn the_named_job_is_taken_before_a_thousand_that_stand_before_it() {
    let (rabbit, runtime) = (Rabbit::start(), runtime());
    for place in [Place::sqlite(), Place::postgres()] {
        let served = open(&rabbit, &runtime, &place);
        let client = &mut served.client();
        for through_server in [false, true] {
            let _ = std::fs::remove_file(place.folder().join("ran"));
            let others = enqueue(client, 1_000);
            let named = enqueue(client, 1);
            let elsewhere =
                client.post("/v1/jobs", &json!({ "kind": "k", "queue": "other" })).unwrap().is(201);
            let elsewhere = elsewhere["job"]["id"].as_str().unwrap().to_owned();
            name(&rabbit, &runtime, &named);
            let mut command = place.command(&[]);
            if through_server {
                command.env_remove("WINDLASS_STORE").env("WINDLASS_URL", served.url());
            }
            let worker = Worker::of(command, &rabbit, &[], "sleep 0.1");
            until("the named job is done", || status(client, &named[0]) == "completed");
            let place_in_line = ran(&place).iter().position(|id| *id == named[0]).unwrap();
            assert!(place_in_line < 20, "{place_in_line} others came first on {}", place.name);
            let before = job(client, &named[0]);
            name(&rabbit, &runtime, &named);
            let nobody = json!({ "job_id": "01900000-0000-7000-8000-000000000000" }).to_string();
            let foreign = json!({ "job_id": elsewhere }).to_string();
            rabbit.send(&runtime, "names", &[(None, "what?"), (None, &nobody), (None, &foreign)]);
            name(&rabbit, &runtime, &others[999..]);
            until("the last of them is done too", || status(client, &others[999]) == "completed");
            assert_eq!(job(client, &named[0]), before, "nothing changed");
            assert_eq!(ran(&place).iter().filter(|id| **id == named[0]).count(), 1);
            assert_eq!(status(client, &elsewhere), "pending");
            worker.end();
            nothing_is_left(&rabbit, &runtime);
            let why: Vec<String> =
                rabbit.dead(&runtime, "windlass.dead").into_iter().map(|(_, why)| why).collect();
            let told = ["it names no job", "which this worker does not run", "there is no job 01900000-"];
            assert_eq!(why.len(), told.len(), "{why:?}");
            assert!(told.iter().all(|told| why.iter().any(|why| why.contains(told))), "{why:?}");
        }
        drop(served);
        place.is_sound();
    }
}

/// T5: a worker that dies while it runs a named job: the message comes to another, meets the lease, waits until it is over,
/// and leads to the second attempt before all that stands in the line.
#[test]
fn a_named_job_whose_worker_was_killed_is_run_by_the_next_once_its_lease_is_over() {
    let (rabbit, runtime) = (Rabbit::start(), runtime());
    for place in [Place::sqlite(), Place::postgres()] {
        let served = open(&rabbit, &runtime, &place);
        let client = &mut served.client();
        let named = enqueue(client, 1).remove(0);
        name(&rabbit, &runtime, std::slice::from_ref(&named));
        let mut first = Worker::start(&place, &rabbit, &[], "sleep 30");
        until("it runs", || ran(&place).len() == 1);
        assert_eq!(rabbit.left(&runtime, "names"), 0, "the broker has sent it");
        first.kill();
        until("the broker has it again", || rabbit.left(&runtime, "names") == 1);
        enqueue(client, 1_000);
        let second = Worker::start(&place, &rabbit, &[], "sleep 0.1");
        until("it is done", || status(client, &named) == "completed");
        assert_eq!(count(client, &named, "job_claimed"), 2);
        assert_eq!(count(client, &named, "job_completed"), 1);
        let done = ran(&place).len();
        assert!(done < 500, "{done} others came first on {}", place.name);
        second.end();
        nothing_is_left(&rabbit, &runtime);
        drop(served);
        place.is_sound();
    }
}

/// T5: every message comes several times, two workers consume, workers and the broker are killed meanwhile: every job ends
/// exactly once, and no message stays for ever.
#[test]
fn every_named_job_ends_once_whoever_is_killed_meanwhile() {
    let (rabbit, runtime) = (Rabbit::start(), runtime());
    for place in [Place::sqlite(), Place::postgres()] {
        let served = open(&rabbit, &runtime, &place);
        let client = &mut served.client();
        let ids = enqueue(client, 120);
        let start = || Worker::start(&place, &rabbit, &["--concurrency", "4"], "sleep 0.1");
        let (mut one, two) = (start(), start());
        for _ in 0..3 {
            name(&rabbit, &runtime, &ids);
        }
        until("some have ended", || ran(&place).len() > 20);
        one.kill();
        let three = start();
        until("more have ended", || ran(&place).len() > 50);
        rabbit.kill();
        std::thread::sleep(Duration::from_millis(500));
        rabbit.again();
        name(&rabbit, &runtime, &ids);
        until("all have ended", || ids.iter().all(|id| status(client, id) == "completed"));
        nothing_is_left(&rabbit, &runtime);
        // They end of themselves, and give nothing back: what they held was answered.
        two.end();
        three.end();
        nothing_is_left(&rabbit, &runtime);
        assert!(rabbit.dead(&runtime, "windlass.dead").is_empty());
        for id in &ids {
            assert_eq!(count(client, id, "job_completed"), 1, "{id}");
        }
        drop(served);
        place.is_sound();
    }
}
