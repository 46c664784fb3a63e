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
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use wire::tamper::far_behind;
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

/// What came: ids, types and bodies, in order.
type Taken = Vec<(String, String, Value)>;

/// Of each job, the versions in the order in which they first came.
fn first_versions(taken: &Taken) -> HashMap<String, Vec<i64>> {
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

/// How many events a subscription that is far behind passes over, unless said: what takes some seconds here.
const FAR: u64 = 200_000;
/// How often publishing failed.
const FAILURES: &str = "windlass_publish_failures_total{subscription=\"bus\"}";

/// A number of its metrics; 0 while there is none.
fn metric(served: &Served, name: &str) -> u64 {
    let text = served.client().get("/metrics").unwrap().text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

/// Makes jobs and works them until it is to stop; answers all that were made, worked to their end.
fn load(served: &Served, pause: Duration, stop: &AtomicBool) -> Vec<String> {
    let client = &mut served.client();
    let mut jobs = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        jobs.extend((0..5).map(|_| enqueue(client, "load")));
        work(client, "load");
        std::thread::sleep(pause);
    }
    while work(client, "load") > 0 {}
    jobs
}

/// Waits until every event of these jobs has arrived, each job's in their order.
fn all_arrive(rabbit: &Rabbit, runtime: &Runtime, queue: &str, jobs: &[String], taken: &mut Taken) {
    until("every event has arrived", || {
        taken.extend(rabbit.drain(runtime, queue));
        let of = first_versions(taken);
        jobs.iter().all(|job| of.get(job).is_some_and(|versions| versions.len() >= 3))
    });
    let of = first_versions(taken);
    let wrong = jobs.iter().find(|job| of[*job] != [1, 2, 3]);
    assert_eq!(wrong, None, "each job's events are in order: {:?}", wrong.map(|job| &of[job]));
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
        let (stop, mut taken) = (AtomicBool::new(false), Taken::new());
        let jobs = std::thread::scope(|scope| {
            let load = scope.spawn(|| load(&second, Duration::from_millis(20), &stop));
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
        all_arrive(&rabbit, &runtime, place.name, &jobs, &mut taken);
        let created = taken.iter().find(|(id, ..)| *id == format!("{}.1", jobs[0])).unwrap();
        assert_eq!((created.1.as_str(), &created.2["data"]["job_id"]), ("job_created", &json!(jobs[0])));
        drop((first, second));
        place.is_sound();
    }
}

/// T2: the broker is away for a minute while jobs are made and worked on: it is tried less and less often, and once it is back everything
/// arrives, in the order of each job.
#[test]
fn a_broker_that_is_away_for_a_minute_misses_nothing() {
    /// By then the publisher waits for as long as it ever does, half a minute.
    const AWAY: Duration = Duration::from_secs(62);
    let (rabbit, runtime) = (Rabbit::start(), runtime());
    let places = [Place::sqlite(), Place::postgres()];
    let servers = places.each_ref().map(|place| place.serve());
    for (place, served) in places.iter().zip(&servers) {
        rabbit.bind(&runtime, place.name, place.name, "#");
        let body = json!({ "url": rabbit.url(), "secret": "guest", "exchange": place.name, "from": "start" });
        put(&mut served.client(), "bus", &body);
    }
    let (stop, mut taken) = (AtomicBool::new(false), [Taken::new(), Taken::new()]);
    let made = std::thread::scope(|scope| {
        let loads =
            servers.each_ref().map(|served| scope.spawn(|| load(served, Duration::from_millis(200), &stop)));
        until("some were published", || {
            let mut all = places.iter().zip(&mut taken);
            all.all(|(place, taken)| {
                taken.extend(rabbit.drain(&runtime, place.name));
                taken.len() > 30
            })
        });
        rabbit.kill();
        let gone = Instant::now();
        let failed = || servers.each_ref().map(|one| metric(one, FAILURES));
        let (before, mut at_last) = (failed(), [0, 0]);
        while gone.elapsed() < AWAY {
            std::thread::sleep(Duration::from_millis(500));
            at_last = failed();
        }
        for (n, served) in servers.iter().enumerate() {
            assert_eq!(show(&mut served.client(), "bus")["status"], "failing");
            let tries = at_last[n] - before[n];
            assert!((5..20).contains(&tries), "it was tried {tries} times in {AWAY:?}");
        }
        rabbit.again();
        until("it is published again", || {
            servers.iter().all(|served| show(&mut served.client(), "bus")["status"] == "on")
        });
        stop.store(true, Ordering::Relaxed);
        loads.map(|load| load.join().unwrap())
    });
    for ((place, jobs), taken) in places.iter().zip(&made).zip(&mut taken) {
        all_arrive(&rabbit, &runtime, place.name, jobs, taken);
    }
    drop(servers);
    places.iter().for_each(Place::is_sound);
}

/// What no queue is bound for is kept and shown until one is; a subscription that is far behind catches up within its memory, past a
/// great many events that it passes over and thousands that it sends.
#[test]
fn what_nobody_listens_to_is_kept_and_a_long_way_is_caught_up() {
    const JOBS: usize = 5_000;
    let (rabbit, runtime, place) = (Rabbit::start(), runtime(), Place::sqlite());
    let mut served = place.serve();
    let noted = enqueue(&mut served.client(), "noted");
    let many = |served: &Served| {
        let job = json!({ "kind": "mail.send", "queue": "far" });
        for _ in 0..JOBS / 1_000 {
            let jobs = json!({ "jobs": vec![job.clone(); 1_000] }).to_string();
            served.client().send("POST", "/v1/jobs/batch", "", &jobs).unwrap().is(201);
        }
    };
    many(&served);
    served.kill();
    let passed = far_behind(&place, &noted, FAR);
    let served = place.serve();
    many(&served);
    let (client, before) = (&mut served.client(), served.peak());
    let body = json!({ "url": rabbit.url(), "secret": "guest", "exchange": "far", "queues": ["far"], "from": "start" });
    put(client, "far", &body);
    until("it is said that nobody listens", || show(client, "far")["status"] == "failing");
    let why = show(client, "far")["why"].as_str().unwrap().to_owned();
    assert!(why.contains("no queue is bound to the exchange far for far.mail-send.job_created"), "{why}");
    rabbit.bind(&runtime, "far", "far", "far.*.job_created");
    assert_eq!(rabbit.take(&runtime, "far", 2 * JOBS).len(), 2 * JOBS, "each of them");
    until("nothing fails any more", || show(&mut served.client(), "far")["status"] == "on");
    let more = served.peak().saturating_sub(before);
    assert!(more < 64 << 20, "it took {more} bytes more to send {JOBS} events and to pass over {passed}");
}
