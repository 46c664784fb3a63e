//! Two server processes on one PostgreSQL: of two that race through both, one wins; both tell the same story, as it happens.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use std::sync::Barrier;
use wire::{Client, Place, Reply, Served};

const ROUNDS: usize = 25;

/// Both servers, and a connection to each.
struct Two {
    place: Place,
    served: [Served; 2],
    a: Client,
    b: Client,
}

impl Two {
    fn new() -> Self {
        let place = Place::postgres();
        let served = [place.serve(), place.serve()];
        let (a, b) = (served[0].client(), served[1].client());
        Self { place, served, a, b }
    }

    /// A job in a worker's hands: its path and token.
    fn held(&mut self) -> (String, String) {
        let made = self.a.post("/v1/jobs", &json!({ "kind": "work" })).unwrap().is(201);
        let path = format!("/v1/jobs/{}", made["job"]["id"].as_str().unwrap());
        let held = self.b.post(&format!("{path}/claim"), &json!({ "worker_id": "w" })).unwrap().is(200);
        (path, held["job"]["lease"]["token"].as_str().unwrap().to_owned())
    }

    /// Sends one request to each server at the same moment.
    fn race(&mut self, first: (&str, Value), second: (&str, Value)) -> (Reply, Reply) {
        let start = Barrier::new(2);
        let (a, b, start) = (&mut self.a, &mut self.b, &start);
        std::thread::scope(|scope| {
            let send = |client: &mut Client, (path, body): (&str, Value)| {
                start.wait();
                client.post(path, &body).unwrap()
            };
            let first = scope.spawn(move || send(a, first));
            let second = scope.spawn(move || send(b, second));
            (first.join().unwrap(), second.join().unwrap())
        })
    }

    /// What both servers say of a job, which must be the same.
    fn story(&mut self, path: &str) -> (Value, Vec<Value>) {
        let mut told = [&mut self.a, &mut self.b].map(|client| {
            let job = client.get(path).unwrap().is(200);
            let events = client.get(&format!("{path}/events")).unwrap().is(200);
            (job, events["events"].as_array().unwrap().clone())
        });
        assert_eq!(told[0], told[1], "both tell the same story");
        std::mem::take(&mut told[0])
    }

    fn ends_of(events: &[Value]) -> usize {
        let ends = ["job_completed", "job_cancelled", "job_failed"];
        events.iter().filter(|event| ends.contains(&event["type"].as_str().unwrap())).count()
    }

    fn ends_sound(self) {
        drop(self.served);
        self.place.is_sound();
    }
}

/// M11, R1: of a completion and a forced cancel, one wins and the other is told how it ended.
#[test]
fn complete_and_cancel() {
    let mut two = Two::new();
    for _ in 0..ROUNDS {
        let (path, token) = two.held();
        let (complete, cancel) = (format!("{path}/complete"), format!("{path}/cancel"));
        let (done, stopped) =
            two.race((&complete, json!({ "lease_token": token })), (&cancel, json!({ "force": true })));
        let (job, events) = two.story(&path);
        let won = if done.status == 200 {
            assert_eq!(stopped.refused(409, "job_finished")["job_status"], "completed");
            "completed"
        } else {
            assert_eq!(done.refused(409, "job_finished")["job_status"], "cancelled");
            stopped.is(200);
            "cancelled"
        };
        assert_eq!((&job["status"], Two::ends_of(&events)), (&json!(won), 1));
    }
    two.ends_sound();
}

/// M11, Q7: the same completion through both is one completion and one repeat; with other results, the first counts.
#[test]
fn complete_and_complete() {
    let mut two = Two::new();
    for n in 0..ROUNDS {
        let (path, token) = two.held();
        let complete = format!("{path}/complete");
        let body = json!({ "lease_token": token, "result": n });
        let (one, other) = two.race((&complete, body.clone()), (&complete, body));
        let repeats = [one, other].map(|reply| reply.is(200)["replayed"].as_bool().unwrap());
        assert_eq!(repeats.iter().filter(|is_repeat| **is_repeat).count(), 1, "{repeats:?}");
        let (job, events) = two.story(&path);
        assert_eq!((&job["result"], Two::ends_of(&events)), (&json!(n), 1));
    }
    two.ends_sound();
}

/// M11, M8: of a yes and a no to a question for one vote, one counts.
#[test]
fn approve_and_deny() {
    let mut two = Two::new();
    for _ in 0..ROUNDS {
        let (path, token) = two.held();
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
        let asked = two.a.post(&format!("{path}/approvals"), &ask).unwrap().is(201);
        let wait = json!({ "lease_token": token, "for": "approval", "name": "a" });
        two.b.post(&format!("{path}/wait"), &wait).unwrap().is(200);
        let approval = format!("/v1/approvals/{}", asked["approval"]["id"].as_str().unwrap());
        let decide = format!("{approval}/decide");
        let (yes, no) =
            two.race((&decide, json!({ "decision": "approve" })), (&decide, json!({ "decision": "deny" })));
        let is_approved = yes.status == 200;
        let (won, lost) = if is_approved { (yes, no) } else { (no, yes) };
        won.is(200);
        lost.refused(409, "approval_decided");
        let (job, _) = two.story(&path);
        let stands = if is_approved { ["approved", "waiting"] } else { ["denied", "failed"] };
        assert_eq!(job["status"], stands[1]);
        let seen = two.b.get(&approval).unwrap().is(200);
        assert_eq!((&seen["status"], seen["decisions"].as_array().unwrap().len()), (&json!(stands[0]), 1));
    }
    two.ends_sound();
}

/// M11, M8: of a vote and a cancel, the job's end is one, and the vote is told when it comes too late.
#[test]
fn approve_and_cancel() {
    let mut two = Two::new();
    for _ in 0..ROUNDS {
        let (path, token) = two.held();
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
        let asked = two.a.post(&format!("{path}/approvals"), &ask).unwrap().is(201);
        let wait = json!({ "lease_token": token, "for": "approval", "name": "a" });
        two.b.post(&format!("{path}/wait"), &wait).unwrap().is(200);
        let decide = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
        let cancel = format!("{path}/cancel");
        let (vote, stop) = two.race((&decide, json!({ "decision": "deny" })), (&cancel, json!({})));
        let (job, events) = two.story(&path);
        if vote.status == 200 {
            stop.refused(409, "job_finished");
            assert_eq!(job["status"], "failed");
        } else {
            vote.refused(409, "approval_decided");
            stop.is(200);
            assert_eq!(job["status"], "cancelled");
        }
        assert_eq!(Two::ends_of(&events), 1);
    }
    two.ends_sound();
}

/// M11, J9: who listens on one server is told what came in through the other, in order, once.
#[test]
fn a_stream_tells_what_came_through_the_other() {
    let mut two = Two::new();
    let mut events = two.b.listen("/v1/feed").unwrap();
    let (path, token) = two.held();
    two.a
        .post(&format!("{path}/progress"), &json!({ "lease_token": token, "progress": 50 }))
        .unwrap()
        .is(200);
    two.a.post(&format!("{path}/complete"), &json!({ "lease_token": token })).unwrap().is(200);
    for (version, kind) in
        [(1, "job_created"), (2, "job_claimed"), (3, "job_progressed"), (4, "job_completed")]
    {
        let told = events.next().unwrap();
        assert_eq!((&told["version"], &told["type"]), (&json!(version), &json!(kind)));
        assert_eq!(format!("/v1/jobs/{}", told["job_id"].as_str().unwrap()), path);
    }
    // A claim that waits at one server is woken by a job that comes through the other.
    let claim = json!({ "queues": ["late"], "worker_id": "w", "wait": "60s" });
    let (taken, made) = two.race(("/v1/claim", claim), ("/v1/jobs", json!({ "kind": "k", "queue": "late" })));
    assert_eq!(taken.is(200)["jobs"][0]["id"], made.is(201)["job"]["id"]);
    two.ends_sound();
}

/// R10, M11: of one event that comes through both servers at once, one starts its jobs and both are answered with them.
#[test]
fn the_same_event_twice() {
    let mut two = Two::new();
    let trigger = json!({ "jobs": [{ "kind": "book" }, { "kind": "mail" }] });
    two.a.send("PUT", "/v1/triggers/order", "", &trigger.to_string()).unwrap().is(200);
    for n in 0..ROUNDS {
        let event = json!({ "dedupe_key": format!("order-{n}"), "payload": n });
        let (one, other) =
            two.race(("/v1/triggers/order", event.clone()), ("/v1/triggers/order", event.clone()));
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 201], "one is new, the other its duplicate");
        let (one, other) = (one.body, other.body);
        assert_eq!((&one["jobs"], &one["event"]), (&other["jobs"], &other["event"]));
        assert_ne!(one["deduped"], other["deduped"]);
    }
    let jobs = two.b.get("/v1/jobs?limit=1000").unwrap().is(200);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2 * ROUNDS);
    two.ends_sound();
}

/// R12, M11: of two changes of the settings through both servers one wins; the other is told, and reads what won.
#[test]
fn settings_from_two_sides() {
    let mut two = Two::new();
    for n in 0..ROUNDS as i64 {
        let version = two.a.get("/v1/settings").unwrap().is(200)["version"].as_i64().unwrap();
        let put = |per_minute: i64| json!({ "settings": { "webhooks_per_minute": per_minute }, "expected_version": version });
        let start = Barrier::new(2);
        let (a, b, start) = (&mut two.a, &mut two.b, &start);
        let (one, other) = std::thread::scope(|scope| {
            let send = |client: &mut Client, body: Value| {
                start.wait();
                client.send("PUT", "/v1/settings", "", &body.to_string()).unwrap()
            };
            let one = scope.spawn(move || send(a, put(1_000 + n)));
            let other = scope.spawn(move || send(b, put(2_000 + n)));
            (one.join().unwrap(), other.join().unwrap())
        });
        let won = if one.status == 200 { (1_000 + n, other) } else { (2_000 + n, one) };
        assert_eq!(won.1.refused(409, "version_mismatch")["current_version"], version + 1);
        for client in [&mut two.a, &mut two.b] {
            let state = client.get("/v1/settings").unwrap().is(200);
            assert_eq!(state["settings"]["webhooks_per_minute"], won.0);
        }
    }
    let audit = two.a.get("/v1/audit?action=settings.put&limit=1000").unwrap().is(200);
    assert_eq!(audit["entries"].as_array().unwrap().len(), ROUNDS, "each change that won, and no other");
    two.ends_sound();
}
