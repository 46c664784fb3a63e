//! Subscriptions to RabbitMQ: the real server, and a real broker that is away, killed under load and started again.

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
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::{Client, Place, Served, until};

fn put(client: &mut Client, name: &str, body: &Value) -> Value {
    client.send("PUT", &format!("/v1/subscriptions/{name}"), "", &body.to_string()).unwrap().is(200)
}

fn show(client: &mut Client, name: &str) -> Value {
    client.get(&format!("/v1/subscriptions/{name}")).unwrap().is(200)
}

fn enqueue(client: &mut Client, queue: &str) -> String {
    let body = json!({ "kind": "k", "queue": queue }).to_string();
    client.send("POST", "/v1/jobs", "", &body).unwrap().is(201)["job"]["id"].as_str().unwrap().to_owned()
}

/// Takes due jobs of a queue and completes them, once.
fn work(client: &mut Client, queue: &str) -> usize {
    let secret: String =
        windlass_store::fresh::random::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
    let body = json!({ "queues": [queue], "worker_id": "w", "secret": secret, "lease": "1m", "max": 50 });
    let claimed = client.send("POST", "/v1/claim", "", &body.to_string()).unwrap().is(200);
    let jobs = claimed["jobs"].as_array().unwrap().clone();
    for job in &jobs {
        let body = json!({ "lease_token": job["lease"]["token"], "result": 1 }).to_string();
        let path = format!("/v1/jobs/{}/complete", job["id"].as_str().unwrap());
        client.send("POST", &path, "", &body).unwrap().is(200);
    }
    jobs.len()
}

/// Of each job, the versions in the order in which they first came.
fn first_versions(taken: &[(String, String, Value)]) -> HashMap<String, Vec<i64>> {
    let mut jobs: HashMap<String, Vec<i64>> = HashMap::new();
    for (id, ..) in taken {
        let (job, version) = id.split_once('.').unwrap();
        let version = version.parse().unwrap();
        let versions = jobs.entry(job.to_owned()).or_default();
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    jobs
}

fn leads(served: &Served) -> bool {
    let text = served.client().get("/metrics").map(|reply| reply.text).unwrap_or_default();
    text.lines().any(|line| line == "windlass_leader 1")
}

/// The most memory that a process ever had, in bytes.
fn peak(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

/// T2: jobs are made and worked while the broker is killed and started again, and the server that publishes is killed too.
/// Every event arrives, those of a job in their order.
#[test]
fn a_broker_and_a_server_killed_under_load_lose_nothing() {
    let (rabbit, runtime) = (Rabbit::start(), runtime());
    for place in [Place::sqlite(), Place::postgres()] {
        rabbit.bind(&runtime, place.name, place.name, "#");
        let mut first = place.serve();
        until("the first server leads", || leads(&first));
        let second = place.serve();
        let client = &mut second.client();
        let body = json!({ "url": rabbit.url(), "secret": "guest", "exchange": place.name, "from": "start" });
        assert_eq!(put(client, "bus", &body)["secret"], Value::Null, "a password is not shown");
        let (stop, mut taken) = (AtomicBool::new(false), Vec::new());
        let jobs = std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let client = &mut second.client();
                let mut jobs = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    jobs.extend((0..5).map(|_| enqueue(client, "load")));
                    work(client, "load");
                    std::thread::sleep(Duration::from_millis(20));
                }
                while work(client, "load") > 0 {}
                jobs
            });
            until("some were published", || {
                taken.extend(rabbit.drain(&runtime, place.name));
                taken.len() > 30
            });
            rabbit.kill();
            until("it is seen that the broker is away", || show(client, "bus")["status"] == "failing");
            rabbit.again();
            until("it is published again", || show(client, "bus")["status"] == "on");
            rabbit.kill();
            first.kill();
            rabbit.again();
            let before = taken.len();
            until("the next server publishes", || {
                taken.extend(rabbit.drain(&runtime, place.name));
                leads(&second) && taken.len() > before + 30
            });
            stop.store(true, Ordering::Relaxed);
            load.join().unwrap()
        });
        until("every event has arrived", || {
            taken.extend(rabbit.drain(&runtime, place.name));
            let of = first_versions(&taken);
            jobs.iter().all(|job| of.get(job).is_some_and(|versions| versions.len() >= 3))
        });
        let of = first_versions(&taken);
        let wrong = jobs.iter().find(|job| of[*job] != [1, 2, 3]);
        assert_eq!(wrong, None, "each job's events are in order: {:?}", wrong.map(|job| &of[job]));
        let created = taken.iter().find(|(id, ..)| *id == format!("{}.1", jobs[0])).unwrap();
        assert_eq!((created.1.as_str(), &created.2["data"]["job_id"]), ("job_created", &json!(jobs[0])));
        drop((first, second));
        place.is_sound();
    }
}

/// What no queue is bound for is kept and shown until one is; a subscription far behind catches up within its memory.
#[test]
fn what_nobody_listens_to_is_kept_and_a_long_way_is_caught_up() {
    const JOBS: usize = 50_000;
    let (rabbit, runtime, place) = (Rabbit::start(), runtime(), Place::sqlite());
    let served = place.serve();
    let client = &mut served.client();
    let job = json!({ "kind": "mail.send", "queue": "far" });
    for _ in 0..JOBS / 1_000 {
        let jobs = json!({ "jobs": vec![job.clone(); 1_000] }).to_string();
        client.send("POST", "/v1/jobs/batch", "", &jobs).unwrap().is(201);
    }
    let before = peak(&served);
    let body = json!({ "url": rabbit.url(), "secret": "guest", "exchange": "far", "from": "start" });
    put(client, "far", &body);
    until("it is said that nobody listens", || show(client, "far")["status"] == "failing");
    let why = show(client, "far")["why"].as_str().unwrap().to_owned();
    assert!(why.contains("no queue is bound to the exchange far for far.mail-send.job_created"), "{why}");
    rabbit.bind(&runtime, "far", "far", "far.*.job_created");
    assert_eq!(rabbit.take(&runtime, "far", JOBS).len(), JOBS, "each of them");
    until("nothing fails any more", || show(&mut served.client(), "far")["status"] == "on");
    let more = peak(&served).saturating_sub(before);
    assert!(more < 64 << 20, "it took {more} bytes more to send {JOBS} events");
}
