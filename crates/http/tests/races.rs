//! Two servers on one store: any process answers any request, and of two that race exactly one wins.

mod bed;

use bed::{Answer, Place, Running};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_core::Role;
use windlass_http::Server;

struct Two {
    place: Place,
    servers: [Running; 2],
    keys: [String; 2],
}

async fn two(place: Place) -> Two {
    let start = || Running::start(Server::new(Arc::clone(&place.store)));
    let servers = [start().await, start().await];
    let roles = [Role::Admin];
    let keys = [
        bed::make_key(&place.store, "ann", &roles, None).await,
        bed::make_key(&place.store, "bob", &roles, None).await,
    ];
    Two { place, servers, keys }
}

impl Two {
    async fn call(&self, n: usize, method: Method, path: &str, body: Value) -> Answer {
        let request = self.servers[n].request(method, path).bearer_auth(&self.keys[n]).json(&body);
        Answer::of(request.send().await.expect("an answer")).await
    }

    async fn post(&self, n: usize, path: &str, body: Value) -> Answer {
        self.call(n, Method::POST, path, body).await
    }

    async fn held(&self) -> (String, String) {
        let job = self.post(0, "/v1/jobs", json!({ "kind": "work" })).await.is(201);
        let id = job["job"]["id"].as_str().expect("an id").to_owned();
        let held = self.post(1, &format!("/v1/jobs/{id}/claim"), json!({ "worker_id": "w" })).await.is(200);
        (id, held["job"]["lease"]["token"].as_str().expect("a token").to_owned())
    }
}

/// M11: any instance serves any request.
#[tokio::test(flavor = "multi_thread")]
async fn any_server_serves_any_request() {
    for place in [Place::memory(), Place::sqlite()] {
        let two = two(place).await;
        let (id, token) = two.held().await;
        let path = |verb: &str| format!("/v1/jobs/{id}/{verb}");
        two.post(0, &path("progress"), json!({ "lease_token": token, "checkpoint": 1 })).await.is(200);
        let seen = two.call(1, Method::GET, &format!("/v1/jobs/{id}"), json!(null)).await.is(200);
        assert_eq!(seen["checkpoint"], 1);
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
        let asked = two.post(1, &path("approvals"), ask).await.is(201);
        let decide = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
        two.post(0, &decide, json!({ "decision": "approve", "token": asked["token"] })).await.is(200);
        two.post(1, &path("complete"), json!({ "lease_token": token })).await.is(200);
        assert_eq!(
            two.post(0, &path("complete"), json!({ "lease_token": token })).await.is(200)["replayed"],
            true
        );
        let page = two.call(0, Method::GET, "/v1/jobs?limit=1", json!(null)).await.is(200);
        assert_eq!(page["jobs"][0]["id"], id);
    }
}

/// M11, R1: of a completion and a forced cancel, one wins and the other is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn complete_and_cancel_race() {
    for place in [Place::memory(), Place::sqlite()] {
        let two = two(place).await;
        let (mut completed, mut cancelled) = (0, 0);
        for _ in 0..30 {
            let (id, token) = two.held().await;
            let (complete, cancel) = (format!("/v1/jobs/{id}/complete"), format!("/v1/jobs/{id}/cancel"));
            let (done, stopped) = tokio::join!(
                two.post(0, &complete, json!({ "lease_token": token })),
                two.post(1, &cancel, json!({ "force": true }))
            );
            let job = two.call(0, Method::GET, &format!("/v1/jobs/{id}"), json!(null)).await.is(200);
            if done.status == 200 {
                completed += 1;
                stopped.refused(409, "job_finished");
                assert_eq!(job["status"], "completed");
            } else {
                cancelled += 1;
                done.refused(409, "job_finished");
                stopped.is(200);
                assert_eq!(job["status"], "cancelled");
            }
            assert_eq!(job["version"], 3, "one of them is on record");
        }
        assert_eq!(completed + cancelled, 30, "on {}", two.place.name);
    }
}

/// M11, M8: of two votes on a question for one, one counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn decisions_race() {
    for place in [Place::memory(), Place::sqlite()] {
        let two = two(place).await;
        // Who asks has no vote.
        let carl = bed::make_key(&two.place.store, "carl", &[Role::Worker], None).await;
        for _ in 0..20 {
            let (id, token) = two.held().await;
            let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
            let asking = two.servers[0].request(Method::POST, &format!("/v1/jobs/{id}/approvals"));
            let asked = asking.bearer_auth(&carl).json(&ask).send().await.expect("an answer");
            let asked = Answer::of(asked).await.is(201);
            let path = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
            let (yes, no) = tokio::join!(
                two.post(0, &path, json!({ "decision": "approve" })),
                two.post(1, &path, json!({ "decision": "deny" }))
            );
            let won = if yes.status == 200 { &yes } else { &no };
            let lost = if yes.status == 200 { no.clone() } else { yes.clone() };
            assert_eq!(won.status, 200, "{}", won.text);
            lost.refused(409, "approval_decided");
            assert_eq!(won.body["approval"]["decisions"].as_array().unwrap().len(), 1);
        }
    }
}

/// M11, J7: of many claims on both servers, each job has one holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_race() {
    for place in [Place::memory(), Place::sqlite()] {
        let two = two(place).await;
        let jobs: Vec<_> = (0..200).map(|_| json!({ "kind": "work" })).collect();
        two.post(0, "/v1/jobs/batch", json!({ "jobs": jobs })).await.is(201);
        let claim = |n: usize| {
            let body =
                json!({ "queues": ["default"], "worker_id": format!("w{n}"), "max": 30, "wait": "1s" });
            let two = &two;
            async move { two.post(n % 2, "/v1/claim", body).await.is(200) }
        };
        let answers = futures_util::future::join_all((0..12).map(claim)).await;
        let mut held = std::collections::BTreeSet::new();
        for job in answers.iter().flat_map(|answer| answer["jobs"].as_array().unwrap()) {
            assert!(held.insert(job["id"].as_str().unwrap().to_owned()), "no job has two holders");
        }
        assert_eq!(held.len(), 200);
    }
}
