//! The JSON contract is one for both sides: what a server sends is read into the shapes and written as it came, and so are the
//! bodies that a client sends.

mod bed;

use axum::http::Method;
use bed::{Answer, Place};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_core::Role;
use windlass_http::wire::alert::{AlertBody, AlertsPage};
use windlass_http::wire::append::{ChargeBody, Note, ProgressBody, StepBody};
use windlass_http::wire::approval::{ApprovalsPage, AskBody, AskedShape, ByToken};
use windlass_http::wire::control::SignIn;
use windlass_http::wire::enqueue::{Batch, EnqueuedShape};
use windlass_http::wire::event::{EventsPage, LogsPage};
use windlass_http::wire::job::{JobShape, JobsPage};
use windlass_http::wire::operation::OperationsPage;
use windlass_http::wire::registry::{
    AuditPage, KeysPage, MadeKey, OneQueue, OneWorker, QueuesPage, WorkersPage,
};
use windlass_http::wire::schedule::{ScheduleShape, SchedulesPage};
use windlass_http::wire::settings::SettingsBody;

#[track_caller]
fn both_ways<T: Serialize + DeserializeOwned>(sent: &Value) {
    let read: T = serde_json::from_str(&sent.to_string()).unwrap_or_else(|e| panic!("{e}: {sent}"));
    assert_eq!(serde_json::to_value(&read).expect("it is written"), *sent, "{}", std::any::type_name::<T>());
}

/// (http) Answers that the command line reads.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_read_as_they_were_sent() {
    let bed = Place::memory().serve().await;
    let key = bed.make_key("ops", &[Role::Admin], None).await;
    let bed = bed.with_key(Some(key));
    let made =
        bed.post("/v1/jobs", json!({ "kind": "work", "payload": { "n": [1, null] }, "tags": ["t"] })).await;
    both_ways::<EnqueuedShape>(&made.is(201));
    let (id, token) = bed.held_job().await;
    let act = async |verb: &str, body: Value| bed.post(&format!("/v1/jobs/{id}/{verb}"), body).await.is(201);
    act("logs", json!({ "lease_token": token, "lines": ["one"] })).await;
    let asked = act("approvals", json!({ "lease_token": token, "name": "a", "prompt": "?" })).await;
    both_ways::<AskedShape>(&asked);
    let vote = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().expect("an id"));
    // Who asked does not vote.
    let ann = bed.make_key("ann", &[Role::Approver], None).await;
    let voted = bed.running.request(Method::POST, &vote).bearer_auth(&ann);
    let voted = voted.json(&json!({ "decision": "deny", "reason": "no" })).send().await.expect("an answer");
    Answer::of(voted).await.is(200);
    let failed = json!({ "lease_token": token, "error": { "code": "broken", "message": "it broke" } });
    bed.post(&format!("/v1/jobs/{id}/fail"), failed).await.is(200);
    let queue = json!({ "timeout": "30s", "flow": { "lanes": { "concurrency": 2 } } });
    both_ways::<OneQueue>(&bed.put("/v1/queues/mail", queue).await.is(200));
    let worker = json!({ "queues": ["mail"], "capacity": 3, "labels": { "gpu": "a100" } });
    both_ways::<OneWorker>(&bed.put("/v1/workers/w2", worker).await.is(200));
    let schedule = json!({ "cron": "0 2 * * *", "job": { "kind": "work", "payload": { "n": 1 } } });
    both_ways::<ScheduleShape>(&bed.put("/v1/schedules/nightly", schedule).await.is(200));
    bed.put("/v1/alerts/late", json!({ "metric": "oldest_due", "longer_than": "10m" })).await.is(200);
    let bulk = json!({ "action": "cancel", "dry_run": false, "filter": { "queue": "mail" }, "hold": "1h" });
    bed.post("/v1/bulk", bulk).await.is(202);
    let new = json!({ "name": "ci", "roles": ["viewer"], "queues": ["mail"] });
    both_ways::<MadeKey>(&bed.post("/v1/keys", new).await.is(201));

    let get = async |path: &str| bed.get(path).await.is(200);
    both_ways::<JobShape>(&get(&format!("/v1/jobs/{id}")).await);
    both_ways::<JobsPage>(&get("/v1/jobs?limit=1").await);
    both_ways::<EventsPage>(&get(&format!("/v1/jobs/{id}/events")).await);
    both_ways::<LogsPage>(&get(&format!("/v1/jobs/{id}/logs")).await);
    both_ways::<ApprovalsPage>(&get("/v1/approvals").await);
    both_ways::<QueuesPage>(&get("/v1/queues").await);
    both_ways::<WorkersPage>(&get("/v1/workers").await);
    both_ways::<SchedulesPage>(&get("/v1/schedules").await);
    both_ways::<KeysPage>(&get("/v1/keys").await);
    both_ways::<AuditPage>(&get("/v1/audit").await);
    both_ways::<OperationsPage>(&get("/v1/operations").await);
    both_ways::<AlertsPage>(&get("/v1/alerts").await);
}

/// (http) Bodies, with all that they may say and with the least.
#[test]
fn bodies_are_written_as_they_are_read() {
    both_ways::<Note>(
        &json!({ "type": "node_x", "payload": { "a": 1.0 }, "expected_version": 3, "key": "k" }),
    );
    both_ways::<Note>(&json!({ "type": "x" }));
    both_ways::<StepBody>(&json!({ "lease_token": "t", "status": "started", "tool": true, "args": [1] }));
    both_ways::<StepBody>(&json!({ "status": "finished", "value": 7 }));
    both_ways::<ProgressBody>(
        &json!({ "progress": 5, "stage": "s", "metadata": { "a": 1 }, "checkpoint": {} }),
    );
    both_ways::<ProgressBody>(&json!({}));
    both_ways::<ChargeBody>(&json!({ "lease_token": "t", "units": 7 }));
    both_ways::<AskBody>(
        &json!({ "name": "a", "prompt": "?", "approvers": ["ann"], "required": 2, "expires": 60 }),
    );
    both_ways::<ByToken>(&json!({ "token": "t" }));
    both_ways::<SignIn>(&json!({ "key": "k" }));
    both_ways::<SignIn>(&json!({}));
    both_ways::<Batch>(&json!({ "jobs": [{ "kind": "k" }, { "kind": "l", "priority": 2 }] }));
    both_ways::<AlertBody>(&json!({ "metric": "failure_rate", "percent": 20, "for": 60 }));
    both_ways::<SettingsBody>(&json!({
        "settings": { "default_lease": 30, "retention": [{ "queue": "mail", "keep": null }], "seals": true },
        "expected_version": 3
    }));
    for nonsense in [json!({ "token": "t", "colour": "red" }), json!(["t"])] {
        assert!(serde_json::from_value::<ByToken>(nonsense).is_err(), "an object of known fields");
    }
}
