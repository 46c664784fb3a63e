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
use wire::{Client, Place, until};

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
