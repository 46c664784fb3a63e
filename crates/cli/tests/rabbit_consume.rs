//! Messages of RabbitMQ that become jobs, or name them: through servers that are killed, delivered twice, and poisoned.

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
use wire::{Client, Place, Served, until};

fn put(client: &mut Client, name: &str, body: &Value) -> Value {
    client.send("PUT", &format!("/v1/subscriptions/{name}"), "", &body.to_string()).unwrap().is(200)
}

fn jobs(client: &mut Client, queue: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/jobs?queue={queue}&limit=1000")).unwrap().is(200);
    page["jobs"].as_array().unwrap().clone()
}

/// T5: each message is one job, however often it is delivered and by which server; what can never be one is set aside.
#[test]
fn a_message_is_one_job_however_often_it_comes() {
    let (rabbit, runtime) = (Rabbit::start(), runtime());
    for place in [Place::sqlite(), Place::postgres()] {
        let queue = format!("orders-{}", place.name);
        rabbit.queue(&runtime, &queue);
        let mut first = place.serve();
        let second = place.serve();
        let client = &mut second.client();
        // Two subscriptions would be two sources; one with the same name is the same source under every leader.
        let dead = format!("dead-{}", place.name);
        let body = json!({
            "url": rabbit.url(), "secret": "guest", "consume": queue, "dead_letter": dead,
            "enqueue": { "queue": "billing", "kind": "invoice" },
        });
        put(client, "orders", &body);
        let ids: Vec<String> = (0..200).map(|n| format!("order-{n}")).collect();
        let bodies: Vec<String> = (0..200).map(|n| json!({ "order": n }).to_string()).collect();
        let messages: Vec<_> =
            ids.iter().zip(&bodies).map(|(id, body)| (Some(id.as_str()), body.as_str())).collect();
        rabbit.send(&runtime, &queue, &messages[..100]);
        until("some are jobs", || !jobs(client, "billing").is_empty());
        // Whatever was not acknowledged comes again: to this server, and to the next that leads.
        first.kill();
        rabbit.kill();
        rabbit.again();
        rabbit.send(&runtime, &queue, &messages[50..]);
        rabbit.send(&runtime, &queue, &[(None, "{}"), (Some("text"), "not JSON")]);
        until("all are jobs", || jobs(client, "billing").len() >= 201);
        until("none is left", || rabbit.left(&runtime, &queue) == 0);
        let made = jobs(client, "billing");
        assert_eq!(made.len(), 201, "each is one job");
        let one = made.iter().find(|job| job["metadata"]["message_id"] == "order-7");
        let id = one.map(|job| job["id"].as_str().unwrap().to_owned());
        let id = id.unwrap_or_else(|| made[0]["id"].as_str().unwrap().to_owned());
        let job = client.get(&format!("/v1/jobs/{id}")).unwrap().is(200);
        assert_eq!(job["metadata"]["subscription"], "orders");
        let mut aside = Vec::new();
        until("what has no id is set aside", || {
            aside.extend(rabbit.dead(&runtime, &dead));
            !aside.is_empty()
        });
        assert!(aside[0].0 == "{}" && aside[0].1.contains("message_id"), "{aside:?}");
        drop((first, second));
        place.is_sound();
    }
}

/// T5: a message that names a job is acknowledged, whether the job has ended or not, and changes nothing about it.
#[test]
fn a_message_for_a_finished_job_is_acknowledged_and_ignored() {
    let (rabbit, runtime, place) = (Rabbit::start(), runtime(), Place::sqlite());
    rabbit.queue(&runtime, "news");
    let served = place.serve();
    let client = &mut served.client();
    let made = client.send("POST", "/v1/jobs", "", r#"{"kind":"k","queue":"q"}"#).unwrap().is(201);
    let done = made["job"]["id"].as_str().unwrap().to_owned();
    let secret = "ab".repeat(32);
    let claim = json!({ "queues": ["q"], "worker_id": "w", "secret": secret, "lease": "1m" }).to_string();
    let claimed = client.send("POST", "/v1/claim", "", &claim).unwrap().is(200);
    let settle = json!({ "lease_token": claimed["jobs"][0]["lease"]["token"], "result": 1 }).to_string();
    client.send("POST", &format!("/v1/jobs/{done}/complete"), "", &settle).unwrap().is(200);
    let before = client.get(&format!("/v1/jobs/{done}")).unwrap().is(200);
    let made = client.send("POST", "/v1/jobs", "", r#"{"kind":"k","queue":"q"}"#).unwrap().is(201);
    let open = made["job"]["id"].as_str().unwrap().to_owned();
    put(client, "news", &json!({ "url": rabbit.url(), "secret": "guest", "consume": "news" }));
    // As subscriptions send it, and in an object of one's own; of jobs that ended, are open, and were never there.
    let event = json!({ "type": "job_created", "data": { "job_id": done } }).to_string();
    let plain = json!({ "job_id": open }).to_string();
    let gone = json!({ "id": "01900000-0000-7000-8000-000000000000" }).to_string();
    let messages =
        [(Some("1"), event.as_str()), (Some("1"), &event), (None, &plain), (None, &gone), (None, "what?")];
    rabbit.send(&runtime, "news", &messages);
    let count = |outcome: &str| {
        let text = served.client().get("/metrics").unwrap().text;
        let name = format!("windlass_received_total{{subscription=\"news\",outcome=\"{outcome}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(name.as_str()));
        line.map_or(0, |value| value.parse::<u64>().unwrap())
    };
    until("all are dealt with", || count("ignored") == 3 && count("nudged") == 1 && count("set_aside") == 1);
    until("none is left", || rabbit.left(&runtime, "news") == 0);
    assert_eq!(rabbit.dead(&runtime, "windlass.dead").len(), 1);
    assert_eq!(client.get(&format!("/v1/jobs/{done}")).unwrap().is(200), before, "nothing changed");
    let open = client.get(&format!("/v1/jobs/{open}")).unwrap().is(200);
    assert_eq!(open["status"], "pending");
}

/// A worker through a server that writes down which job it ran, and takes its time.
fn work(place: &Place, url: &str) -> Worker {
    let write = "echo \"$WINDLASS_JOB_ID\" >> ran; sleep 0.2";
    let words = ["work", "--queue", "q", "--concurrency", "4", "--quiet", "--exec", "sh", "-c", write];
    let mut command = place.command(&words);
    // The store is not named: the worker knows the server alone.
    command.env_remove("WINDLASS_STORE").env("WINDLASS_URL", url);
    Worker(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// A process that is killed with this.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn leads(served: &Served) -> bool {
    let text = served.client().get("/metrics").unwrap().text;
    text.lines().any(|line| line == "windlass_leader 1")
}

fn signal(served: &Served, signal: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", served.pid())]).status().unwrap();
    assert!(sent.success());
}

/// T5: messages that name a job come again and again, through two servers of which each believes that it leads, with a worker
/// behind each: every job runs once.
#[test]
fn a_job_named_through_two_servers_at_once_runs_once() {
    let (rabbit, runtime) = (Rabbit::start(), runtime());
    for place in [Place::sqlite(), Place::postgres()] {
        let queue = format!("names-{}", place.name);
        rabbit.queue(&runtime, &queue);
        let first = place.serve();
        until("the first server leads", || leads(&first));
        let second = place.serve();
        let client = &mut second.client();
        put(client, "names", &json!({ "url": rabbit.url(), "secret": "guest", "consume": queue }));
        client.post("/v1/queues/q/pause", &json!({})).unwrap().is(200);
        let mut enqueue = || {
            let made = client.post("/v1/jobs", &json!({ "kind": "k", "queue": "q" })).unwrap().is(201);
            made["job"]["id"].as_str().unwrap().to_owned()
        };
        let ids: Vec<String> = (0..30).map(|_| enqueue()).collect();
        let bodies: Vec<String> = ids.iter().map(|id| json!({ "job_id": id }).to_string()).collect();
        let messages: Vec<_> = bodies.iter().map(|body| (None, body.as_str())).collect();
        let workers = [work(&place, &first.url()), work(&place, &second.url())];
        rabbit.send(&runtime, &queue, &messages);
        until("the first server hears of them", || rabbit.left(&runtime, &queue) == 0);
        // It keeps what it was given, and the broker keeps its connection; after its term another leads and consumes too.
        signal(&first, "STOP");
        until("the second server leads", || leads(&second));
        rabbit.send(&runtime, &queue, &[&messages[..], &messages[..], &messages[..]].concat());
        client.post("/v1/queues/q/resume", &json!({})).unwrap().is(200);
        signal(&first, "CONT");
        rabbit.send(&runtime, &queue, &messages);
        until("all have ended", || jobs(client, "q").iter().all(|job| job["status"] == "completed"));
        rabbit.send(&runtime, &queue, &messages);
        until("no message is left", || rabbit.left(&runtime, &queue) == 0);
        drop((workers, first, second));
        let ran = std::fs::read_to_string(place.folder().join("ran")).unwrap();
        let (mut ran, mut once) = (ran.lines().collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
        ran.sort_unstable();
        once.sort_unstable();
        assert_eq!(ran, once, "each ran once");
        place.is_sound();
    }
}
