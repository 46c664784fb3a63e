//! Flows over HTTP: made, grown, sealed, looked at, and what a job reads of those before it.

mod bed;

use bed::{Bed, beds};
use reqwest::Method;
use serde_json::{Value, json};

async fn ends(bed: &Bed, id: &str, result: Option<Value>) {
    let token = bed.hold(id).await;
    match result {
        Some(result) => {
            let body = json!({ "lease_token": token, "result": result });
            bed.post(&format!("/v1/jobs/{id}/complete"), body).await.is(200);
        }
        None => {
            let body = json!({ "lease_token": token, "error": "broken", "permanent": true });
            bed.post(&format!("/v1/jobs/{id}/fail"), body).await.is(200);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// F12
#[tokio::test(flavor = "multi_thread")]
async fn a_flow_is_made_looked_at_and_joined() {
    for bed in beds().await {
        let made = bed
            .post(
                "/v1/flows",
                json!({
                    "nodes": {
                        "alert": { "kind": "alert", "after": { "parse": "failure" } },
                        "parse": { "kind": "parse", "after": { "fetch": "success" } },
                        "fetch": { "kind": "fetch", "queue": "net" },
                    },
                    "callback": { "kind": "report", "payload": 7 },
                }),
            )
            .await
            .is(201);
        let id = text(&made["id"]);
        let node = |name: &str| text(&made["nodes"][name]);
        let flow = bed.job(&id).await;
        assert_eq!((&flow["status"], &flow["waiting_for"]), (&json!("waiting"), &json!("flow")));
        let parse = bed.job(&node("parse")).await;
        assert_eq!(
            (&parse["waiting_for"], &parse["blocked"]["reason"]),
            (&json!("upstream"), &json!("upstream"))
        );
        assert!(text(&parse["blocked"]["by"]).contains(&node("fetch")), "{parse}");

        for of in [&id, &node("parse")] {
            let graph = bed.get(&format!("/v1/jobs/{of}/graph")).await.is(200);
            let names: Vec<&Value> = graph["nodes"].as_array().unwrap().iter().map(|n| &n["name"]).collect();
            assert_eq!(names, ["fetch", "parse", "alert"], "oldest first");
            assert_eq!(graph["edges"][0]["on"], "success");
            assert_eq!(
                graph["edges"][1],
                json!({ "from": node("parse"), "to": node("alert"), "on": "failure" })
            );
            assert_eq!(graph["truncated"], false);
        }

        ends(&bed, &node("fetch"), Some(json!({ "page": "hello" }))).await;
        let token = bed.hold(&node("parse")).await;
        let request = bed.request(Method::GET, &format!("/v1/jobs/{}/upstream", node("parse")));
        let read = request.bearer_auth(&token).send().await.unwrap();
        let before = bed::Answer::of(read).await.is(200);
        assert_eq!(before["upstream"][0]["name"], "fetch");
        assert_eq!(before["upstream"][0]["result"], json!({ "page": "hello" }));
        let body = json!({ "lease_token": token });
        bed.post(&format!("/v1/jobs/{}/complete", node("parse")), body).await.is(200);
        let alert = bed.job(&node("alert")).await;
        assert_eq!((&alert["status"], &alert["error"]["code"]), (&json!("cancelled"), &json!("skipped")));
        ends(&bed, &id, None).await;
        assert_eq!(bed.job(&id).await["status"], "failed", "the callback ran, and failed");
    }
}

/// F12: nothing of a flow that is refused is written.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_flow_is_refused() {
    for bed in beds().await {
        let circle = json!({ "nodes": {
            "a": { "kind": "work", "after": { "b": "success" } },
            "b": { "kind": "work", "after": { "a": "success" } },
        }});
        let refused = bed.post("/v1/flows", circle).await.is(422);
        assert_eq!((&refused["code"], &refused["field"]), (&json!("invalid"), &json!("after")));
        let unknown = json!({ "nodes": { "a": { "kind": "work", "after": { "x": "success" } } } });
        assert_eq!(bed.post("/v1/flows", unknown).await.is(422)["field"], "after");
        let gone = "01890000-0000-7000-8000-000000000001";
        let late = json!({ "nodes": { "a": { "kind": "work", "after": { (gone): "success" } } } });
        assert_eq!(bed.post("/v1/flows", late).await.is(422)["code"], "upstream_not_found");
        let word = json!({ "nodes": { "a": { "kind": "work", "after": { "b": "maybe" } }, "b": { "kind": "work" } } });
        bed.post("/v1/flows", word).await.is(422);
        bed.post("/v1/jobs", json!({ "kind": "windlass.flow" })).await.is(422);
        let single = json!({ "kind": "work", "after": [{ "job": gone }] });
        assert_eq!(bed.post("/v1/jobs", single).await.is(422)["code"], "upstream_not_found");
        assert_eq!(bed.get("/v1/jobs").await.is(200)["jobs"], json!([]));
    }
}

/// F12, Q11: the same request again makes no second flow.
#[tokio::test(flavor = "multi_thread")]
async fn a_flow_is_made_once_per_idempotency_key() {
    for bed in beds().await {
        let body = json!({ "nodes": { "b": { "kind": "work", "after": { "a": "finished" } }, "a": { "kind": "work" } } });
        let send =
            || bed.request(Method::POST, "/v1/flows").header("idempotency-key", "one").json(&body).send();
        let first = bed::Answer::of(send().await.unwrap()).await.is(201);
        let again = bed::Answer::of(send().await.unwrap()).await.is(201);
        assert_eq!(first, again);
        assert_eq!(bed.get("/v1/jobs").await.is(200)["jobs"].as_array().unwrap().len(), 3);
    }
}

/// F12: an open flow grows, by names within a request and by ids of jobs that are there, until it is sealed.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_flow_grows_until_it_is_sealed() {
    for bed in beds().await {
        let made = bed.post("/v1/flows", json!({ "open": true, "join": "success" })).await.is(201);
        let id = text(&made["id"]);
        let path = format!("/v1/jobs/{id}/children");
        let first = bed.post(&path, json!({ "nodes": { "a": { "kind": "work" } } })).await.is(201);
        let a = text(&first["nodes"]["a"]);
        let grown = json!({ "nodes": {
            "b": { "kind": "work", "after": { (a.as_str()): "success" } },
            "c": { "kind": "work", "after": { "b": "finished" } },
        }});
        let second = bed.post(&path, grown).await.is(201);
        for job in [&a, &text(&second["nodes"]["b"]), &text(&second["nodes"]["c"])] {
            ends(&bed, job, Some(json!(1))).await;
        }
        assert_eq!(bed.job(&id).await["status"], "waiting", "it is open");
        let sealed = bed.post(&format!("/v1/jobs/{id}/seal"), json!({})).await.is(200);
        assert_eq!(sealed["job"]["status"], "completed");
        let late = bed.post(&path, json!({ "nodes": { "d": { "kind": "work" } } })).await.is(409);
        assert_eq!(late["code"], "flow_not_open");
        let plain = bed.post("/v1/jobs", json!({ "kind": "work" })).await.is(201);
        let plain = text(&plain["job"]["id"]);
        assert_eq!(
            bed.post(&format!("/v1/jobs/{plain}/seal"), json!({})).await.is(409)["code"],
            "flow_not_open"
        );
        let behind =
            json!({ "kind": "work", "after": [{ "job": plain, "on": "finished", "name": "first" }] });
        let behind = text(&bed.post("/v1/jobs", behind).await.is(201)["job"]["id"]);
        let graph = bed.get(&format!("/v1/jobs/{plain}/graph")).await.is(200);
        assert_eq!(graph["edges"], json!([{ "from": plain, "to": behind, "on": "finished" }]));
        let cancelled = bed.post("/v1/flows", json!({ "nodes": { "x": { "kind": "work" } } })).await.is(201);
        bed.post(&format!("/v1/jobs/{}/cancel", text(&cancelled["id"])), json!({})).await.is(200);
        assert_eq!(bed.job(&text(&cancelled["nodes"]["x"])).await["status"], "cancelled");
    }
}
