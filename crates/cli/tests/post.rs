//! Any web service as a handler: a real one in Python, which checks signatures, answers in every way, settles later by its
//! lease, and dies after it did the work.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, free_port, ran, wait_for};
use serde_json::json;
use std::process::{Child, Command, Stdio};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const SERVICE: &str = include_str!("wire/service.py");

/// The service as a process, which ends with the test.
struct Service {
    child: Child,
    port: u16,
    words: Vec<String>,
}

impl Service {
    fn start(bed: &Bed) -> Self {
        let port = free_port();
        std::fs::write(bed.path("service.py"), SERVICE).unwrap();
        let path = |name: &str| bed.path(name).display().to_string();
        let words = vec![path("service.py"), port.to_string(), SECRET.to_owned(), path("done")];
        let mut service = Self { child: Self::run(&words), port, words };
        service.up();
        service
    }

    fn run(words: &[String]) -> Child {
        Command::new("python3").args(words).stdin(Stdio::null()).spawn().unwrap()
    }

    fn up(&mut self) {
        wait_for(|| std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Waits for its end, and starts it again.
    fn again(&mut self) {
        self.child.wait().unwrap();
        self.child = Self::run(&self.words);
        self.up();
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/jobs", self.port)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn work(bed: &mut Bed, service: &Service, more: &[&str]) -> usize {
    let url = service.url();
    let words = [&["work", "--queue", "default", "--concurrency", "8", "--post", &url], more].concat();
    let mut command = bed.command(&words);
    command.env("WINDLASS_POST_SECRET", SECRET);
    bed.spawn(command)
}

/// (post) Every answer means what the documents say, on a store and through a server.
#[test]
fn an_answer_says_what_follows() {
    let mut bed = Bed::new();
    let service = Service::start(&bed);
    let (url, _) = bed.serve("serve");
    for through in [true, false] {
        let more: &[&str] = if through { &["--url", &url] } else { &[] };
        let worker = work(&mut bed, &service, more);
        let traced = "{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}";
        let sum = bed.enqueue(&["sum", "--payload", "[1,2]", "--metadata", traced]);
        let [text, nothing, later] =
            ["text", "nothing", "later"].map(|kind| bed.enqueue(&[kind, "--max-retries", "0"]));
        // A job with a key holds that key while it waits.
        let keyed = bed.enqueue(&["later", "--max-retries", "0", "--key", "acme"]);
        let whose = bed.enqueue(&["whose", "--key", "acme", "--cost", "3"]);
        let dead = ["bad", "broken", "moved"].map(|kind| bed.enqueue(&[kind, "--max-retries", "0"]));
        let job = bed.until_status(&sum, "completed");
        assert_eq!(job["result"]["sum"], 3);
        assert!(
            job["result"]["trace"].as_str().unwrap().contains("4bf92f3577b34da6a3ce929d0e0e4736"),
            "{job}"
        );
        assert_eq!(bed.until_status(&text, "completed")["result"], "done, more or less");
        assert!(bed.until_status(&nothing, "completed").get("result").is_none());
        // It was sent away, came back, and used no retry.
        let job = bed.until_status(&later, "completed");
        assert_eq!((&job["result"], &job["retries"]), (&json!({ "attempt": 2 }), &json!(0)));
        let job = bed.until_status(&keyed, "completed");
        assert_eq!((&job["result"], &job["retries"]), (&json!({ "attempt": 2 }), &json!(0)));
        let log = bed.json(&["jobs", "events", &keyed]);
        let held =
            log["events"].as_array().unwrap().iter().any(|event| !event["detail"]["held_until"].is_null());
        assert!(held, "through a server: {through}: {log}");
        // The service and people read whose job it is.
        assert_eq!(bed.until_status(&whose, "completed")["result"], "acme");
        let shown = bed.run(&["jobs", "show", &whose]).ok().out;
        assert!(shown.contains("acme") && shown.lines().any(|line| line.contains("cost")), "{shown}");
        assert_eq!((&bed.job(&whose)["key"], &bed.job(&whose)["cost"]), (&json!("acme"), &json!(3)));
        let codes = ["http_422", "http_500", "http_302"];
        for (id, code) in dead.iter().zip(codes) {
            let job = bed.until_status(id, "failed");
            assert_eq!(job["error"]["code"], code, "{job}");
        }
        let said = bed.job(&dead[0])["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains("no such address"), "{said}");
        // A refusal for good uses no retry, an accident does.
        let [bad, broken] = ["bad", "broken"]
            .map(|kind| bed.enqueue(&[kind, "--max-retries", "1", "--backoff", "base=0.1s"]));
        assert_eq!(bed.until_status(&bad, "failed")["attempt"], 1);
        assert_eq!(bed.until_status(&broken, "failed")["attempt"], 2);
        bed.signal(worker, "TERM");
        bed.ended(worker);
    }
}

/// (post) 202: the service settles the job later, by its lease, at the server.
#[test]
fn a_service_settles_later_by_its_lease() {
    let mut bed = Bed::new();
    let service = Service::start(&bed);
    let (url, _) = bed.serve("serve");
    work(&mut bed, &service, &["--url", &url, "--lease", "6s"]);
    let job = bed.enqueue(&["accept"]);
    assert_eq!(bed.until_status(&job, "completed")["result"], json!({ "late": true }));
    // The worker goes on with others.
    let next = bed.enqueue(&["sum", "--payload", "[4]"]);
    assert_eq!(bed.until_status(&next, "completed")["result"]["sum"], 4);
    // Without a server nobody could settle it.
    let mut alone = Bed::new();
    work(&mut alone, &service, &[]);
    let job = alone.enqueue(&["accept"]);
    assert_eq!(alone.until_status(&job, "failed")["error"]["code"], "post_accepted");
}

/// (post) A service that dies after it did the work is asked again, and knows the job by its id.
#[test]
fn a_service_that_dies_is_asked_again() {
    let mut bed = Bed::new();
    let mut service = Service::start(&bed);
    work(&mut bed, &service, &[]);
    let job = bed.enqueue(&["dies", "--max-retries", "20", "--backoff", "base=0.2s,max=1s"]);
    service.again();
    let view = bed.until_status(&job, "completed");
    assert!(view["result"]["attempt"].as_i64().unwrap() >= 2, "{view}");
    assert_eq!(
        std::fs::read_to_string(bed.path("done")).unwrap(),
        format!("{job}\n"),
        "the work was done once"
    );
    let events = bed.json(&["jobs", "events", &job]).to_string();
    assert!(events.contains("post_unanswered"), "{events}");
}

/// (post) What is missing is said before any job is taken.
#[test]
fn a_service_needs_a_secret_and_a_url() {
    let bed = Bed::new();
    let work = |post: &str, secret: &str| {
        let mut command = bed.command(&["work", "--queue", "default", "--post", post]);
        ran(command.env("WINDLASS_POST_SECRET", secret).output().unwrap())
    };
    for (post, secret, word) in [
        ("http://127.0.0.1:1/", "", "WINDLASS_POST_SECRET"),
        ("http://127.0.0.1:1/", "whsec_c2hvcnQ=", "24 to 64"),
        ("ftp://127.0.0.1/", SECRET, "http://"),
        ("nonsense", SECRET, "--post"),
        ("http://ada:hunter2@127.0.0.1/", SECRET, "without a user"),
    ] {
        let refused = work(post, secret);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(word), "{word}: {}", refused.err);
    }
    assert_eq!(bed.run(&["work", "--queue", "default"]).code, 2, "a program or a service");
}
