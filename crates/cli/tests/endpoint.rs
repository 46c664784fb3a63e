//! Queues with an endpoint: the servers send their jobs to a real web service, which answers in every way, hangs, is away, and dies
//! after it did the work.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use wire::{Client, Place, free_address, until};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const SERVICE: &str = include_str!("wire/service.py");

/// The service as a process, which ends with the test.
struct Service {
    child: Child,
    address: String,
    words: Vec<String>,
}

impl Service {
    fn start(place: &Place, server: &str) -> Self {
        let address = free_address();
        let port = address.rsplit(':').next().unwrap().to_owned();
        let done = place.folder().join(format!("done-{port}")).display().to_string();
        let words = ["-c", SERVICE, &port, SECRET, &done, server].map(str::to_owned).to_vec();
        let service = Self { child: Self::run(&words), address, words };
        service.up();
        service
    }

    fn run(words: &[String]) -> Child {
        Command::new("python3").args(words).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn up(&self) {
        until("the service answers", || Client::new(&self.address).get("/").is_ok());
    }

    /// Waits for its end, and starts it again.
    fn again(&mut self) {
        self.child.wait().unwrap();
        self.child = Self::run(&self.words);
        self.up();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    fn url(&self) -> String {
        format!("http://{}/k3y", self.address)
    }

    /// The most jobs that it had at once.
    fn most(&self) -> i64 {
        Client::new(&self.address).get("/").unwrap().body.as_i64().unwrap()
    }

    fn done(&self) -> String {
        std::fs::read_to_string(&self.words[4]).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set(client: &mut Client, queue: &str, body: &Value) -> Value {
    client.send("PUT", &format!("/v1/queues/{queue}"), "", &body.to_string()).unwrap().is(200)["queue"]
        .clone()
}

fn enqueue(client: &mut Client, queue: &str, kind: &str, more: &Value) -> String {
    let mut body = json!({ "kind": kind, "queue": queue, "payload": [1, 2], "max_retries": 0 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/v1/jobs", &body).unwrap().is(201)["job"]["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn ends(client: &mut Client, id: &str, status: &str) -> Value {
    let mut job = Value::Null;
    until(&format!("{id} is {status}"), || {
        job = client.get(&format!("/v1/jobs/{id}")).unwrap().is(200);
        job["status"] == status
    });
    job
}

/// (post) Two servers send a queue's jobs to its endpoint, signed; every answer means what the documents say, and no more jobs are
/// with the service than the queue's limit allows.
#[test]
fn a_queue_with_an_endpoint_needs_no_worker() {
    for place in [Place::sqlite(), Place::postgres()] {
        let servers = [place.serve(), place.serve()];
        let client = &mut servers[0].client();
        let mut service = Service::start(&place, &servers[1].url());
        let endpoint = json!({ "url": service.url(), "secret": SECRET, "max": 2 });
        let queue = set(client, "calls", &json!({ "endpoint": endpoint, "flow": { "concurrency": 3 } }));
        let host = format!("http://{}/…", service.address);
        assert_eq!(queue["endpoint"], json!({ "url": host, "max": 2 }), "no secret and no path");
        let none = json!({});
        let sum = enqueue(client, "calls", "sum", &none);
        assert_eq!(ends(client, &sum, "completed")["result"]["sum"], 3);
        let slow: Vec<String> = (0..12).map(|_| enqueue(client, "calls", "slow", &none)).collect();
        for id in &slow {
            ends(client, id, "completed");
        }
        assert!((2..=3).contains(&service.most()), "{} at once", service.most());
        let [later, bad, accept] =
            ["later", "bad", "accept"].map(|kind| enqueue(client, "calls", kind, &none));
        let job = ends(client, &later, "completed");
        assert_eq!(
            (&job["result"]["attempt"], &job["retries"]),
            (&json!(2), &json!(0)),
            "sent away, without a retry"
        );
        assert_eq!(ends(client, &bad, "failed")["error"]["code"], "http_422");
        assert_eq!(ends(client, &accept, "completed")["result"]["late"], true);
        let hangs = enqueue(client, "calls", "hangs", &json!({ "timeout": "1s" }));
        ends(client, &hangs, "timed_out");
        let again = json!({ "max_retries": 20, "backoff": { "base": "200ms", "max": "1s" } });
        let dies = enqueue(client, "calls", "dies", &again);
        service.again();
        assert!(ends(client, &dies, "completed")["result"]["attempt"].as_i64().unwrap() >= 2);
        assert_eq!(service.done(), format!("{dies}\n"), "the work was done once");
        drop(servers);
        place.is_sound();
    }
}

/// (post) A service that is away slows down its own queue alone, and costs no job a retry; its endpoint is taken away at run time, and
/// workers take the jobs again.
#[test]
fn an_endpoint_that_is_away_holds_its_own_queue_only() {
    for place in [Place::sqlite(), Place::postgres()] {
        let served = place.serve();
        let client = &mut served.client();
        let (mut away, good) = (Service::start(&place, &served.url()), Service::start(&place, &served.url()));
        let file = place.folder().join("secret");
        std::fs::write(&file, SECRET).unwrap();
        let file = file.display().to_string();
        for (queue, url) in [("away", away.url()), ("good", good.url())] {
            let words = ["queues", "set", queue, "--endpoint", &url, "--endpoint-secret-file", &file];
            let ran = place.command(&words).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert!(
                ran.status.success() && said.contains("sent to http://") && !said.contains("whsec_"),
                "{said}"
            );
        }
        let none = json!({});
        let first = enqueue(client, "away", "sum", &none);
        ends(client, &first, "completed");
        away.kill();
        let waits = enqueue(client, "away", "sum", &none);
        until("its queue is held", || {
            let queues = client.get("/v1/queues").unwrap().is(200);
            let queues = queues["queues"].as_array().unwrap();
            queues.iter().any(|queue| queue["name"] == "away" && !queue["held_until"].is_null())
        });
        let other = enqueue(client, "good", "sum", &none);
        ends(client, &other, "completed");
        away.again();
        let job = ends(client, &waits, "completed");
        assert_eq!((&job["result"]["sum"], &job["retries"]), (&json!(3), &json!(0)), "none was used");
        set(client, "away", &json!({ "endpoint": {} }));
        until("nobody takes its jobs", || {
            let workers = client.get("/v1/workers").unwrap().is(200);
            let workers = workers["workers"].as_array().unwrap();
            workers.iter().all(|worker| worker["live"] != true || worker["queues"] != json!(["away"]))
        });
        let left = enqueue(client, "away", "sum", &none);
        let claim = json!({ "queues": ["away"], "worker_id": "w" });
        let claimed = client.post("/v1/claim", &claim).unwrap().is(200);
        assert_eq!(claimed["jobs"][0]["id"], json!(left), "a worker takes it");
        let made = set(client, "new", &json!({ "endpoint": { "url": good.url() } }));
        assert!(made["endpoint"]["secret"].as_str().unwrap().starts_with("whsec_"), "made, and shown once");
        let again = set(client, "new", &json!({ "endpoint": { "url": good.url() } }));
        assert_eq!(again["endpoint"].get("secret"), None);
    }
}
