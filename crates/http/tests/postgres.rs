//! The same over PostgreSQL: one job's life, and a feed that is resumed while many write.

mod bed;
#[path = "../../engine/tests/bed/postgres.rs"]
#[allow(dead_code, reason = "of a server that can be killed only its start is needed here")]
mod server;

use bed::events::Events;
use bed::{Bed, Place, soon};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_postgres::PostgresStore;

/// Runs what waits; the guard of a database drops it with this.
fn wait_for<T>(task: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(task)
}

async fn served() -> Bed {
    let (url, database) = server::database().await;
    let store = PostgresStore::open(&url).await.expect("a store");
    Place::other("postgres", Arc::new(store), Box::new(database)).serve().await
}

async fn listen(bed: &Bed, last: Option<&str>) -> Events {
    let mut request = bed.request(reqwest::Method::GET, "/v1/feed");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let mut events = Events::of(soon("an answer", request.send()).await.expect("a stream"));
    events.opened().await;
    events
}

/// M11: one job's whole life.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_lives_over_postgres() {
    let bed = served().await;
    let body = json!({ "kind": "work", "payload": { "n": 1 }, "unique": { "key": "k" } });
    let first = bed.post_once("one", "/v1/jobs", &body).await.is(201);
    let id = first["job"]["id"].as_str().unwrap().to_owned();
    assert_eq!(bed.post_once("one", "/v1/jobs", &body).await.is(201)["job"]["id"], id);
    bed.post_once("one", "/v1/jobs", &json!({ "kind": "x" })).await.refused(422, "idempotency_key_reused");
    assert_eq!(bed.post("/v1/jobs", body).await.is(200)["existed"], true);
    let claim = json!({ "queues": ["default"], "worker_id": "w", "wait": "30s" });
    let claimed = bed.post("/v1/claim", claim).await.is(200);
    assert_eq!(claimed["jobs"][0]["payload"], json!({ "n": 1 }));
    let token = claimed["jobs"][0]["lease"]["token"].clone();
    let progress = json!({ "lease_token": token, "progress": 50, "metadata": { "a": 1 }, "checkpoint": [1] });
    bed.post(&format!("/v1/jobs/{id}/progress"), progress).await.is(200);
    let wrong = json!({ "lease_token": "0".repeat(32) });
    bed.post(&format!("/v1/jobs/{id}/complete"), wrong).await.refused(409, "lease_mismatch");
    let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
    let asked = bed.post(&format!("/v1/jobs/{id}/approvals"), ask).await.is(201);
    let wait = json!({ "lease_token": token, "for": "approval", "name": "a" });
    bed.post(&format!("/v1/jobs/{id}/wait"), wait).await.is(200);
    let decide = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
    bed.post(&decide, json!({ "decision": "approve", "token": asked["token"] })).await.is(200);
    let token = bed.hold(&id).await;
    let done = json!({ "lease_token": token, "result": { "ok": true } });
    assert_eq!(bed.post(&format!("/v1/jobs/{id}/complete"), done.clone()).await.is(200)["replayed"], false);
    assert_eq!(bed.post(&format!("/v1/jobs/{id}/complete"), done).await.is(200)["replayed"], true);
    let job = bed.job(&id).await;
    assert_eq!(
        (&job["status"], &job["result"], &job["checkpoint"]),
        (&json!("completed"), &json!({ "ok": true }), &json!([1]))
    );
    assert_eq!(bed.get("/v1/jobs?status=completed").await.is(200)["jobs"][0]["id"], id);
    bed.get("/readyz").await.is(200);
    assert!(bed.get("/metrics").await.text.contains("windlass_store_up 1"));
}

/// J9: nothing is missed and nothing repeated, although each reader sees its own snapshots.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn resuming_over_postgres_leaves_no_gap() {
    let bed = Arc::new(served().await);
    let mut events = listen(&bed, None).await;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let bed = Arc::clone(&bed);
        writers.spawn(async move {
            for _ in 0..60 {
                let id = bed.put_job(json!({})).await;
                bed.post(&format!("/v1/jobs/{id}/events"), json!({ "type": "note" })).await.is(201);
            }
        });
    }
    let (mut newest, mut told) = (BTreeMap::<String, i64>::new(), 0);
    while told < 480 {
        for event in events.take(24.min(480 - told)).await {
            let job = event.data["job_id"].as_str().unwrap().to_owned();
            let known = newest.entry(job).or_insert(0);
            *known += 1;
            assert_eq!(event.data["version"], *known, "no gap, no repeat, in order");
            told += 1;
        }
        let last = events.last_id.clone();
        drop(events);
        events = listen(&bed, Some(&last)).await;
    }
    while writers.join_next().await.is_some() {}
    assert!(events.within(Duration::from_millis(200)).await.is_none(), "and nothing more");
}

/// (http) Whatever was asked for, the answer to an enqueue is what a look at the job says, and looks that come together say
/// what each would say alone: of jobs in all kinds of states, and of one that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn looks_that_come_together_say_what_each_says_alone() {
    let bed = served().await;
    bed.put("/v1/workers/w9", json!({ "queues": ["default"], "kinds": [], "capacity": 1, "ttl": "1h" }))
        .await
        .is(200);
    bed.post("/v1/queues/paused/pause", json!({})).await.is(200);
    let parent = bed.put_job(json!({ "kind": "parent" })).await;
    let wishes = [
        json!({}),
        json!({ "payload": { "b": 1.0, "a": [null, "\u{1f40e}"] } }),
        json!({ "payload_base64": "AP8=" }),
        json!({ "id": "01890000-0000-7000-8000-000000000001", "priority": -5, "max_retries": 7 }),
        json!({ "run_at": "2031-01-02T03:04:05.678901Z" }),
        json!({ "delay": "2h", "timeout": "90s", "lease": "10s", "grace": "5s" }),
        json!({ "backoff": { "base": "3s", "max": "1m", "multiplier": 1.5, "jitter": false } }),
        json!({ "agent_id": "ann", "metadata": { "n": 1 }, "tags": ["a", "b"] }),
        json!({ "unique": { "key": "k", "policy": "forever" } }),
        json!({ "parent_id": parent }),
        json!({ "queue": "paused" }),
        json!({ "queue": "nobody" }),
    ];
    let enqueue = async |wish: &serde_json::Value| {
        let mut body = json!({ "kind": "work" });
        body.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        bed.post("/v1/jobs", body).await.is(201)["job"].clone()
    };
    let told = futures_util::future::join_all(wishes.iter().map(&enqueue)).await;
    let mut alone = Vec::new();
    for job in &told {
        let seen = bed.job(job["id"].as_str().unwrap()).await;
        assert_eq!(&seen, job);
        alone.push(seen);
    }
    for (end, body) in [
        ("complete", json!({ "result": { "ok": true } })),
        ("fail", json!({ "error": { "code": "down", "message": "it is" }, "permanent": true })),
        ("progress", json!({ "progress": 5, "stage": "s", "metadata": { "m": 2 }, "checkpoint": [1] })),
    ] {
        let id = bed.put_job(json!({ "metadata": { "n": 1 }, "payload": end })).await;
        let mut body = body;
        body["lease_token"] = bed.hold(&id).await.into();
        bed.post(&format!("/v1/jobs/{id}/{end}"), body).await.is(200);
        alone.push(bed.job(&id).await);
    }
    for _ in 0..5 {
        let lost = bed.get("/v1/jobs/01890000-0000-7000-8000-000000000009");
        let together = alone.iter().chain(&alone).map(|job| bed.job(job["id"].as_str().unwrap()));
        let (together, lost) = tokio::join!(futures_util::future::join_all(together), lost);
        assert!(together.iter().eq(alone.iter().chain(&alone)));
        lost.refused(404, "not_found");
    }
}
