//! A server killed with `kill -9` while 64 connections enqueue: what was acknowledged is there, and nothing is there twice.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use wire::{Client, PATIENCE, Place, free_address, until};

const CONNECTIONS: usize = 64;
/// How often the server is killed.
const KILLS: usize = 3;
/// How many requests are answered between two kills, and then some more while the moment is awaited.
const BETWEEN: usize = 300;

/// What one connection did: the id that it was told, by the tag of the request.
type HolderReply = BTreeMap<String, String>;

/// Enqueues one after the other until told to stop. What is not answered is sent again, word for word, until it is.
fn enqueue(address: &str, n: usize, stop: &AtomicBool, acknowledged: &AtomicUsize) -> HolderReply {
    let mut client = Client::new(address);
    let mut told = HolderReply::new();
    while !stop.load(Ordering::Relaxed) {
        let tag = format!("c{n}-{}", told.len());
        let body = json!({ "kind": "work", "tags": [tag], "payload": tag }).to_string();
        let once = format!("idempotency-key: {tag}\r\n");
        let end = std::time::Instant::now() + PATIENCE;
        let reply = loop {
            match client.send("POST", "/v1/jobs", &once, &body) {
                Ok(reply) if reply.status == 201 => break reply,
                Ok(reply) => assert_eq!(reply.status, 503, "{}", reply.text),
                // Nobody is there, or it died with our request in its hands.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
            assert!(std::time::Instant::now() < end, "{tag} was not answered within {PATIENCE:?}");
        };
        told.insert(tag, reply.body["job"]["id"].as_str().unwrap().to_owned());
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    told
}

/// Every job, by its tag.
fn every_job(client: &mut Client) -> Vec<(String, String)> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/jobs?limit=1000{cursor}")).unwrap().is(200);
        for job in page["jobs"].as_array().unwrap() {
            all.push((job["tags"][0].as_str().unwrap().to_owned(), job["id"].as_str().unwrap().to_owned()));
        }
        let Value::String(next) = &page["next_cursor"] else { return all };
        cursor = format!("&cursor={next}");
    }
}

fn killed_under_load(place: &Place) {
    let address = free_address();
    let mut served = place.serve_on(&address);
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
    let told: HolderReply = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CONNECTIONS)
            .map(|n| {
                let (address, stop, acknowledged) = (&address, &stop, &acknowledged);
                scope.spawn(move || enqueue(address, n, stop, acknowledged))
            })
            .collect();
        for _ in 0..KILLS {
            let before = acknowledged.load(Ordering::Relaxed);
            until("requests are answered", || acknowledged.load(Ordering::Relaxed) >= before + BETWEEN);
            // A moment that nobody chose.
            let chance =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_micros();
            std::thread::sleep(Duration::from_micros(u64::from(chance % 50_000)));
            served.kill();
            served = place.serve_on(&address);
        }
        let before = acknowledged.load(Ordering::Relaxed);
        until("it goes on", || acknowledged.load(Ordering::Relaxed) >= before + CONNECTIONS);
        stop.store(true, Ordering::Relaxed);
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    let there = every_job(&mut served.client());
    let by_tag: BTreeMap<_, _> = there.iter().cloned().collect();
    assert_eq!(there.len(), by_tag.len(), "no job is there twice, on {}", place.name);
    assert_eq!(
        by_tag, told,
        "every job that was acknowledged is there, under the id that was told, and no other"
    );
    assert!(told.len() >= KILLS * BETWEEN);
    drop(served);
    place.is_sound();
}

/// T3, Q11: on SQLite.
#[test]
fn acknowledged_jobs_survive_on_sqlite() {
    killed_under_load(&Place::sqlite());
}

/// T3, Q11: on PostgreSQL.
#[test]
fn acknowledged_jobs_survive_on_postgres() {
    killed_under_load(&Place::postgres());
}
