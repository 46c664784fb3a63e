//! Alerts with real servers and a real receiver of webhooks: one signed message when an alert fires, one when it is over, and
//! none between, also when the server that leads is killed meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use wire::receiver::{Receiver, SECRET};
use wire::{Client, Place, Served, until};

/// The messages about an alert: id and type.
fn about(receiver: &Receiver, alert: &str) -> Vec<(String, String)> {
    let came = receiver.came.lock().unwrap();
    let about = came.iter().filter(|(_, body)| body["alert"] == alert);
    about.map(|(id, body)| (id.clone(), body["type"].as_str().unwrap().to_owned())).collect()
}

fn put(client: &mut Client, path: &str, body: &Value) {
    client.send("PUT", path, "", &body.to_string()).unwrap().is(200);
}

/// A job in a queue that no worker serves.
fn enqueue(client: &mut Client, queue: &str) -> String {
    let made = client.post("/v1/jobs", &json!({ "kind": "k", "queue": queue })).unwrap().is(201);
    made["job"]["id"].as_str().unwrap().to_owned()
}

fn cancel(client: &mut Client, job: &str) {
    client.post(&format!("/v1/jobs/{job}/cancel"), &json!({})).unwrap().is(200);
}

fn leads(served: &Served) -> bool {
    served.client().get("/metrics").unwrap().text.lines().any(|line| line == "windlass_leader 1")
}

/// Another alert fires and is over. The server that leads looked at every alert since this began.
fn look(client: &mut Client, receiver: &Receiver, name: &str) {
    let body = json!({ "metric": "no_worker", "queue": name, "notify": "ops" });
    put(client, &format!("/v1/alerts/{name}"), &body);
    let job = enqueue(client, name);
    until("the other alert fires", || about(receiver, name).len() == 1);
    cancel(client, &job);
    until("the other alert is over", || about(receiver, name).len() == 2);
}

#[test]
fn each_change_of_an_alert_is_sent_once_also_when_the_leader_is_killed() {
    let (place, receiver) = (Place::postgres(), Receiver::start());
    let mut first = place.serve();
    until("the first server leads", || leads(&first));
    let second = place.serve();
    let client = &mut second.client();
    // Of jobs it carries nothing: no job is in such a queue.
    let ops = json!({ "url": receiver.url, "secret": SECRET, "queues": ["nothing-is-in-it"] });
    put(client, "/v1/subscriptions/ops", &ops);
    put(client, "/v1/alerts/late", &json!({ "metric": "no_worker", "queue": "lonely", "notify": "ops" }));
    let job = enqueue(client, "lonely");
    until("it fires", || !about(&receiver, "late").is_empty());
    look(client, &receiver, "between");
    first.kill();
    until("the second server leads", || leads(&second));
    look(client, &receiver, "after");
    let fires = ("alert-late-1".to_owned(), "alert.firing".to_owned());
    assert_eq!(about(&receiver, "late"), std::slice::from_ref(&fires), "it still fires, and that was said");
    let shown = client.get("/v1/alerts").unwrap().is(200);
    let shown = shown["alerts"].as_array().unwrap().iter().find(|alert| alert["name"] == "late").unwrap();
    assert!(shown["firing_since"].is_string() && shown["unsent"].is_null(), "{shown}");

    cancel(client, &job);
    until("it is over", || about(&receiver, "late").len() > 1);
    look(client, &receiver, "at-last");
    let over = ("alert-late-2".to_owned(), "alert.resolved".to_owned());
    assert_eq!(about(&receiver, "late"), [fires, over]);
    assert_eq!(*receiver.unsigned.lock().unwrap(), 0, "every message is signed");
    let of_jobs = receiver.came.lock().unwrap().iter().filter(|(_, body)| body["alert"].is_null()).count();
    assert_eq!(of_jobs, 0, "nothing else came");
    drop((first, second));
    place.is_sound();
}
