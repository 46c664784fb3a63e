//! What operators do: cancel, redrive, fork, bulk actions, queues, workers, audit.

mod bed;

use bed::{Bed, Place, beds};
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn verb(bed: &Bed, id: &str, verb: &str, body: Value) -> bed::Answer {
    bed.post(&format!("/v1/jobs/{id}/{verb}"), body).await
}

async fn dead_job(bed: &Bed, queue: &str) -> String {
    let id = bed.put_job(json!({ "queue": queue })).await;
    let token = bed.hold(&id).await;
    let failed = json!({ "lease_token": token, "error": { "code": "down" }, "permanent": true });
    verb(bed, &id, "fail", failed).await.is(200);
    id
}

/// T7, M10: cancel at once, or ask the holder and force.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_is_immediate_or_requested() {
    for bed in beds().await {
        let id = bed.put_job(json!({})).await;
        let cancelled = verb(&bed, &id, "cancel", json!({ "reason": "no need" })).await.is(200);
        assert_eq!(cancelled["job"]["status"], "cancelled");
        verb(&bed, &id, "cancel", json!({})).await.is(200);
        let (id, token) = bed.held_job().await;
        let asked = verb(&bed, &id, "cancel", json!({ "force_after": "1h" })).await.is(202);
        assert!(asked["job"]["cancel_requested_at"].is_string());
        assert_eq!(asked["job"]["blocked"]["reason"], "cancelling");
        let told = verb(&bed, &id, "progress", json!({ "lease_token": token, "progress": 1 })).await.is(200);
        assert_eq!(told["cancel_requested"], true, "the holder learns of it");
        let items = json!({ "items": [{ "job_id": id, "lease_token": token, "outcome": "cancelled" }] });
        assert_eq!(bed.post("/v1/settle", items).await.is(200)["items"][0]["status"], "cancelled");
        let (id, token) = bed.held_job().await;
        verb(&bed, &id, "cancel", json!({ "force": true })).await.is(200);
        verb(&bed, &id, "complete", json!({ "lease_token": token })).await.refused(409, "job_finished");
        let (id, token) = bed.held_job().await;
        verb(&bed, &id, "complete", json!({ "lease_token": token })).await.is(200);
        verb(&bed, &id, "cancel", json!({})).await.refused(409, "job_finished");
        verb(&bed, &id, "signal", json!({ "name": "x" })).await.refused(409, "job_finished");
    }
}

/// T6, Q12: redrive, from where it is allowed.
#[tokio::test(flavor = "multi_thread")]
async fn redrive_sends_dead_jobs_back() {
    for bed in beds().await {
        let id = dead_job(&bed, "default").await;
        let back = verb(&bed, &id, "redrive", json!({ "delay": "1h" })).await.is(200);
        assert_eq!((&back["job"]["status"], &back["job"]["generation"]), (&json!("pending"), &json!(1)));
        assert_eq!(back["job"]["retries"], 0);
        verb(&bed, &id, "redrive", json!({})).await.refused(409, "job_not_finished");
        let (done, token) = bed.held_job().await;
        verb(&bed, &done, "complete", json!({ "lease_token": token })).await.is(200);
        verb(&bed, &done, "redrive", json!({})).await.refused(409, "job_completed");
        let unique = json!({ "unique": { "key": "u" } });
        let first = bed.put_job(unique.clone()).await;
        verb(&bed, &first, "cancel", json!({})).await.is(200);
        let second = bed.put_job(unique).await;
        let taken = verb(&bed, &first, "redrive", json!({})).await.refused(409, "unique_taken");
        assert_eq!(taken["job_id"], second);
        let dead = dead_job(&bed, "default").await;
        let path = format!("/v1/jobs/{dead}/redrive");
        bed.post_once("r", &path, &json!({})).await.is(200);
        let again = bed.post_once("r", &path, &json!({})).await.is(200);
        assert_eq!(again["job"]["generation"], 1, "a repeat sends nothing back again");
    }
}

/// T6, Q12: a redrive may change the payload; the old one stays in the log, and the audit says that it was changed.
#[tokio::test(flavor = "multi_thread")]
async fn redrive_may_change_the_payload() {
    for bed in beds().await {
        let id = dead_job(&bed, "default").await;
        let job = bed.get(&format!("/v1/jobs/{id}")).await.is(200);
        let (first, dead_at) = (job["payload"].clone(), job["version"].clone());
        let path = format!("/v1/jobs/{id}/redrive");
        let large = json!({ "payload": "x".repeat(1 << 20) });
        bed.post(&path, large).await.refused(422, "invalid");
        let both = json!({ "payload": 1, "payload_base64": "AA==" });
        bed.post(&path, both).await.refused(422, "invalid");
        let mended = json!({ "payload": { "mended": true }, "from_start": true });
        let back = bed.post_once("p", &path, &mended).await.is(200);
        assert_eq!(
            (&back["job"]["payload"], &back["job"]["generation"]),
            (&json!({ "mended": true }), &json!(1))
        );
        bed.post_once("p", &path, &mended).await.is(200);
        bed.post_once("p", &path, &json!({ "payload": 3 })).await.refused(422, "idempotency_key_reused");
        // As it stood before, and as it stands: in the log, at a version, and for the next worker.
        let log = bed.get(&format!("/v1/jobs/{id}/events")).await.is(200);
        let log = log["events"].as_array().unwrap().clone();
        assert_eq!(
            (&log[0]["payload"], &log.last().unwrap()["payload"]),
            (&first, &json!({ "mended": true }))
        );
        let then = bed.get(&format!("/v1/jobs/{id}?at_version={dead_at}")).await.is(200);
        let now = bed.get(&format!("/v1/jobs/{id}?at_version={}", back["job"]["version"])).await.is(200);
        assert_eq!((&then["payload"], &now["payload"]), (&first, &json!({ "mended": true })));
        let claimed = bed.post(&format!("/v1/jobs/{id}/claim"), json!({ "worker_id": "w" })).await.is(200);
        assert_eq!(claimed["job"]["payload"], json!({ "mended": true }), "{claimed}");
        let audit = bed.get("/v1/audit").await.is(200);
        let entry =
            audit["entries"].as_array().unwrap().iter().find(|entry| entry["action"] == "job.redrive");
        let detail = &entry.expect("an entry")["detail"];
        assert_eq!((&detail["other_payload"], &detail["after"]["generation"]), (&json!(true), &json!(1)));
        // Bytes too.
        let dead = dead_job(&bed, "default").await;
        let back = verb(&bed, &dead, "redrive", json!({ "payload_base64": "AP8=" })).await.is(200);
        assert_eq!(back["job"]["payload_base64"], "AP8=");
    }
}

/// R14: what was decided on an older version changes nothing, and the answer says at which the job is.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_on_an_older_version_is_refused() {
    for bed in beds().await {
        let id = bed.put_job(json!({})).await;
        for (name, status) in [("fork", 201), ("cancel", 200)] {
            let old = verb(&bed, &id, name, json!({ "expected_version": 7 })).await;
            assert_eq!(old.refused(409, "version_mismatch")["current_version"], 1, "{name}");
            verb(&bed, &id, name, json!({ "expected_version": 1 })).await.is(status);
        }
        let old = verb(&bed, &id, "redrive", json!({ "expected_version": 1 })).await;
        assert_eq!(old.refused(409, "version_mismatch")["current_version"], 2);
        verb(&bed, &id, "redrive", json!({ "expected_version": 2 })).await.is(200);
    }
}

/// (http) A fork begins with the log of another job, once per key.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_begins_with_a_log() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let step = json!({ "lease_token": token, "status": "finished", "value": 1 });
        bed.put(&format!("/v1/jobs/{id}/steps/one"), step).await.is(200);
        verb(&bed, &id, "complete", json!({ "lease_token": token })).await.is(200);
        let forked =
            verb(&bed, &id, "fork", json!({ "from_version": 3, "payload": { "new": true } })).await.is(201);
        let new = forked["job"]["id"].as_str().unwrap().to_owned();
        assert_eq!(
            (&forked["job"]["status"], &forked["job"]["payload"]),
            (&json!("pending"), &json!({ "new": true }))
        );
        let steps = bed.get(&format!("/v1/jobs/{new}/steps")).await.is(200);
        assert_eq!(steps["steps"][0]["name"], "one");
        let path = format!("/v1/jobs/{id}/fork");
        let first = bed.post_once("f", &path, &json!({})).await.is(201);
        let again = bed.post_once("f", &path, &json!({})).await.is(201);
        assert_eq!(first["job"]["id"], again["job"]["id"]);
        let ids = [&id, forked["job"]["id"].as_str().unwrap(), first["job"]["id"].as_str().unwrap()];
        assert!(ids.is_sorted(), "each fork has an id of its own time: {ids:?}");
        let newest = bed.get("/v1/jobs?limit=1").await.is(200);
        assert_eq!(newest["jobs"][0]["id"], first["job"]["id"], "the newest job stands first");
        bed.post_once("f", &path, &json!({ "from_version": 1 })).await.refused(422, "idempotency_key_reused");
        let plain = verb(&bed, &id, "fork", json!({})).await.is(201);
        assert_ne!(plain["job"]["id"], first["job"]["id"], "without a key each is a new one");
        verb(&bed, &id, "fork", json!({ "from_version": 99 })).await.refused(422, "invalid");
        let signal = json!({ "name": "go" });
        let signal_path = format!("/v1/jobs/{new}/signal");
        assert_eq!(bed.post_once("s", &signal_path, &signal).await.is(200)["duplicate"], false);
        assert_eq!(bed.post_once("s", &signal_path, &signal).await.is(200)["duplicate"], true);
    }
}

/// Q12: by filter, with a dry run, spread over a period, and on record.
#[tokio::test(flavor = "multi_thread")]
async fn bulk_acts_on_what_a_filter_matches() {
    for bed in beds().await {
        let mut dead = BTreeSet::new();
        for _ in 0..12 {
            dead.insert(dead_job(&bed, "mail").await);
        }
        dead_job(&bed, "other").await;
        let live = bed.put_job(json!({ "queue": "mail" })).await;
        let bulk = |more: Value| {
            let mut body = json!({ "filter": { "queue": "mail" }, "action": "redrive", "dry_run": false });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let dry = bed.post("/v1/bulk", bulk(json!({ "dry_run": true }))).await.is(200);
        assert_eq!((&dry["matched"], &dry["done"]), (&json!(12), &json!(0)));
        assert_eq!(dry["sample"].as_array().unwrap().len(), 10);
        assert!(dry["sample"].as_array().unwrap().iter().all(|id| dead.contains(id.as_str().unwrap())));
        assert_eq!(
            bed.get("/v1/jobs?dead=true&queue=mail").await.is(200)["jobs"].as_array().unwrap().len(),
            12
        );
        let spread = bulk(json!({ "run_at": "2030-01-01T00:00:00Z", "spread": "10m" }));
        let done = bed.post("/v1/bulk", spread).await.is(200);
        assert_eq!(
            (&done["matched"], &done["done"], &done["next_cursor"]),
            (&json!(12), &json!(12), &Value::Null)
        );
        let jobs = bed.get("/v1/jobs?status=pending&queue=mail").await.is(200);
        let due: BTreeSet<String> = jobs["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|job| job["id"] != live)
            .map(|job| job["due_at"].as_str().unwrap().to_owned())
            .collect();
        assert!(due.len() > 6, "they are spread: {due:?}");
        assert!(
            due.iter().all(|at| at.as_str() >= "2030-01-01T00:00:00" && at.as_str() < "2030-01-01T00:10:00")
        );
        let cancel = bulk(json!({ "action": "cancel", "reason": "all of them" }));
        assert_eq!(bed.post("/v1/bulk", cancel).await.is(200)["done"], 13);
        assert_eq!(bed.job(&live).await["status"], "cancelled");
        let audit = bed.get("/v1/audit").await.is(200);
        assert_eq!(audit["entries"][0]["action"], "bulk.cancel");
        assert_eq!(
            (&audit["entries"][0]["target"], &audit["entries"][0]["detail"]["done"]),
            (&json!("mail"), &json!(13))
        );
        let by_status = json!({ "filter": { "queue": "mail", "status": ["cancelled"] }, "action": "redrive", "dry_run": true });
        assert_eq!(bed.post("/v1/bulk", by_status).await.is(200)["matched"], 13);
        let missing = json!({ "filter": {}, "action": "cancel" });
        assert_eq!(bed.post("/v1/bulk", missing).await.refused(422, "invalid")["field"], "dry_run");
        let unknown = json!({ "filter": { "que": "mail" }, "action": "cancel", "dry_run": true });
        assert_eq!(bed.post("/v1/bulk", unknown).await.refused(422, "unknown_field")["field"], "filter.que");
    }
}

/// (http) Queues: pausing, defaults that jobs fall back to, what is due.
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_set_and_paused() {
    for bed in beds().await {
        let set = json!({ "max_retries": 9, "timeout": "5m", "lease": 60, "backoff": { "base": "2s" } });
        let queue = bed.put("/v1/queues/mail", set).await.is(200);
        assert_eq!(queue["queue"]["defaults"]["max_retries"], 9);
        assert_eq!(queue["queue"]["defaults"]["timeout"], 300);
        let id = bed.put_job(json!({ "queue": "mail" })).await;
        let job = bed.job(&id).await;
        assert_eq!(
            (&job["max_retries"], &job["timeout"]),
            (&json!(9), &json!(300)),
            "a job falls back to its queue"
        );
        let own = bed.put_job(json!({ "queue": "mail", "max_retries": 1 })).await;
        assert_eq!(bed.job(&own).await["max_retries"], 1, "its own word counts more");
        let paused = bed.post("/v1/queues/mail/pause", json!({})).await.is(200);
        assert!(paused["queue"]["paused"]["at"].is_string());
        assert_eq!(bed.job(&id).await["blocked"]["reason"], "paused");
        let claim = json!({ "queues": ["mail"], "worker_id": "w" });
        assert_eq!(bed.post("/v1/claim", claim.clone()).await.is(200)["jobs"], json!([]));
        let resumed = bed.post("/v1/queues/mail/resume", json!({})).await.is(200);
        assert!(resumed["queue"].get("paused").is_none());
        assert!(bed.job(&id).await.get("blocked").is_none(), "whoever claimed is there to take it");
        let queues = bed.get("/v1/queues").await.is(200);
        let mail = &queues["queues"][0];
        assert_eq!(
            (&mail["name"], &mail["due"], &mail["due_capped"]),
            (&json!("mail"), &json!(2), &json!(false))
        );
        assert!(mail["oldest_due_at"].is_string());
        bed::until("the feed's reader has counted", async || {
            bed.get("/v1/queues").await.is(200)["queues"][0]["rates"]["enqueued"].as_f64().unwrap() > 0.0
        })
        .await;
        assert_eq!(bed.post("/v1/claim", claim).await.is(200)["jobs"].as_array().unwrap().len(), 1);
        bed.put_job(json!({ "queue": "busy" })).await;
        bed.post("/v1/claim", json!({ "queues": ["busy"], "worker_id": "w" })).await.is(200);
        bed::until("a queue with nothing due is listed while it is busy", async || {
            let queues = bed.get("/v1/queues").await.is(200);
            queues["queues"][0]["name"] == "busy" && queues["queues"][0]["due"] == 0
        })
        .await;
        bed.put("/v1/queues/mail", json!({ "max_retries": 101 })).await.refused(422, "invalid");
        bed.put("/v1/queues/a%20b", json!({})).await.refused(422, "invalid");
        let actions: Vec<Value> = bed.get("/v1/audit").await.is(200)["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["action"].clone())
            .collect();
        assert_eq!(actions, ["queue.resume", "queue.pause", "queue.put"]);
    }
}

/// (http) Workers report themselves and are told to take no more; the audit is paged.
#[tokio::test(flavor = "multi_thread")]
async fn workers_report_and_are_drained() {
    for bed in beds().await {
        let report =
            json!({ "queues": ["default"], "kinds": ["work"], "capacity": 4, "labels": { "host": "a" } });
        let worker = bed.put("/v1/workers/w1", report.clone()).await.is(200);
        assert_eq!((&worker["worker"]["draining"], &worker["worker"]["live"]), (&json!(false), &json!(true)));
        let id = bed.put_job(json!({})).await;
        assert!(bed.job(&id).await.get("blocked").is_none(), "a live worker takes it soon");
        let drained = bed.put("/v1/workers/w1", json!({ "draining": true })).await.is(200);
        assert_eq!(drained["worker"]["draining"], true);
        let told = bed.put("/v1/workers/w1", report).await.is(200);
        assert_eq!(told["worker"]["draining"], true, "it learns of it at its next report");
        let again = bed.put("/v1/workers/w1", json!({ "draining": false })).await.is(200);
        assert_eq!(again["worker"]["draining"], false, "it is undone");
        bed.put("/v1/workers/w2", json!({ "draining": true })).await.refused(404, "not_found");
        bed.put("/v1/workers/w2", json!({})).await.refused(422, "invalid");
        bed.put("/v1/workers/w2", json!({ "queues": ["q"], "capacity": -1 })).await.refused(422, "invalid");
        let all = bed.get("/v1/workers").await.is(200);
        assert_eq!((&all["workers"][0]["id"], &all["workers"][0]["capacity"]), (&json!("w1"), &json!(4)));
        for queue in ["a", "b", "c"] {
            bed.post(&format!("/v1/queues/{queue}/pause"), json!({})).await.is(200);
        }
        let page = bed.get("/v1/audit?limit=2").await.is(200);
        let cursor = page["next_cursor"].as_str().unwrap();
        let rest = bed.get(&format!("/v1/audit?limit=10&cursor={cursor}")).await.is(200);
        assert_eq!((&rest["entries"][0]["target"], &rest["next_cursor"]), (&json!("a"), &Value::Null));
        bed.get("/v1/audit?cursor=1").await.refused(422, "invalid");
    }
}

/// (http) Redriving everything dead takes no cancelled job back, unless it is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn bulk_redrive_leaves_cancelled_jobs_alone() {
    for bed in beds().await {
        let dead = dead_job(&bed, "default").await;
        let cancelled = bed.put_job(json!({})).await;
        verb(&bed, &cancelled, "cancel", json!({})).await.is(200);
        let bulk = |filter: Value| json!({ "filter": filter, "action": "redrive", "dry_run": false });
        assert_eq!(bed.post("/v1/bulk", bulk(json!({}))).await.is(200)["sample"], json!([dead]));
        assert_eq!(bed.job(&cancelled).await["status"], "cancelled");
        let asked = bulk(json!({ "status": "cancelled" }));
        assert_eq!(bed.post("/v1/bulk", asked).await.is(200)["sample"], json!([cancelled]));
        assert_eq!(bed.job(&cancelled).await["status"], "pending");
    }
}

/// F8: limits are set over HTTP, hold for claims, are shown, and explain why a job does not run.
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_limited() {
    for bed in beds().await {
        let flow =
            json!({ "concurrency": 3, "lanes": { "concurrency": 1, "keys": { "large": { "weight": 2 } } } });
        let set = bed.put("/v1/queues/sync", json!({ "flow": flow })).await.is(200);
        assert_eq!(set["queue"]["flow"], flow);
        for (bad, field) in [
            (json!({ "concurrency": 0 }), "flow.concurrency"),
            (json!({ "lanes": { "weight": 0 } }), "flow.lanes.weight"),
            (json!({ "lanes": { "keys": { "": {} } } }), "flow.lanes.keys"),
        ] {
            let refused = bed.put("/v1/queues/sync", json!({ "flow": bad })).await.refused(422, "invalid");
            assert!(refused.to_string().contains(field), "{refused}");
        }
        bed.put("/v1/queues/sync", json!({ "flow": { "rat": 1 } })).await.refused(422, "unknown_field");
        let job = json!({ "queue": "sync", "key": "acme" });
        let (first, second) = (bed.put_job(job.clone()).await, bed.put_job(job).await);
        bed.put_job(json!({ "queue": "sync", "key": "globex" })).await;
        let claim = json!({ "queues": ["sync"], "worker_id": "w", "max": 10 });
        let claimed = bed.post("/v1/claim", claim.clone()).await.is(200);
        assert_eq!(claimed["jobs"].as_array().map(Vec::len), Some(2), "one of each key");
        let shown = bed.job(&second).await;
        assert_eq!((&shown["key"], &shown["blocked"]["reason"]), (&json!("acme"), &json!("limit")));
        assert_eq!(shown["blocked"]["by"], "key acme has 1 of 1 running");
        assert_ne!(first, second);
        let cleared = bed.put("/v1/queues/sync", json!({ "flow": {} })).await.is(200);
        assert_eq!(cleared["queue"]["flow"], Value::Null);
        let claimed = bed.post("/v1/claim", claim).await.is(200);
        assert_eq!(claimed["jobs"].as_array().map(Vec::len), Some(1), "without limits it runs");
    }
}

/// F7, F8: rates are set over HTTP, hold for claims by what jobs cost, are shown, and explain why a job does not run.
#[tokio::test(flavor = "multi_thread")]
async fn queues_have_rates() {
    for bed in beds().await {
        let flow = json!({
            "rate": { "units": 3, "per": "1h", "burst": 3 },
            "lanes": { "rate": { "units": 2, "per": 86400 }, "keys": { "large": { "rate": { "units": 9, "per": "1d" } } } },
        });
        let set = bed.put("/v1/queues/calls", json!({ "flow": flow })).await.is(200);
        assert_eq!(set["queue"]["flow"]["rate"], json!({ "units": 3, "per": 3600, "burst": 3 }));
        assert_eq!(
            set["queue"]["flow"]["lanes"]["keys"]["large"]["rate"],
            json!({ "units": 9, "per": 86400 })
        );
        for (bad, field) in [
            (json!({ "rate": { "units": 0, "per": "1s" } }), "flow.rate.units"),
            (json!({ "rate": { "units": 1, "per": "1ms" } }), "flow.rate.per"),
            (
                json!({ "lanes": { "rate": { "units": 1, "per": "1s", "burst": 0 } } }),
                "flow.lanes.rate.burst",
            ),
        ] {
            let refused = bed.put("/v1/queues/calls", json!({ "flow": bad })).await.refused(422, "invalid");
            assert!(refused.to_string().contains(field), "{refused}");
        }
        let job = |key: &str, cost: i32| json!({ "queue": "calls", "key": key, "cost": cost });
        let dear = bed.put_job(job("acme", 2)).await;
        let next = bed.put_job(job("acme", 1)).await;
        let refused = json!({ "kind": "work", "cost": 1001 });
        let refused = bed.post("/v1/jobs", refused).await.refused(422, "invalid");
        assert!(refused.to_string().contains("cost"), "{refused}");
        let claim = json!({ "queues": ["calls"], "worker_id": "w", "max": 10 });
        let claimed = bed.post("/v1/claim", claim.clone()).await.is(200);
        assert_eq!(claimed["jobs"].as_array().map(Vec::len), Some(1));
        assert_eq!((&claimed["jobs"][0]["id"], &claimed["jobs"][0]["cost"]), (&json!(dear), &json!(2)));
        let shown = bed.job(&next).await;
        assert_eq!((&shown["cost"], &shown["blocked"]["reason"]), (&Value::Null, &json!("rate")));
        assert_eq!(shown["blocked"]["by"], "key acme has used its 2/d");
        bed.put("/v1/queues/calls", json!({ "flow": {} })).await.is(200);
        let claimed = bed.post("/v1/claim", claim).await.is(200);
        assert_eq!(claimed["jobs"][0]["id"], json!(next), "without a rate it starts");
    }
}

/// F17: a release that holds, what it is blocked by, the keys of the queue, and letting one go; a charge.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_held_listed_and_let_go() {
    for bed in beds().await {
        let job = json!({ "queue": "calls", "key": "acme" });
        let (first, second) = (bed.put_job(job.clone()).await, bed.put_job(job).await);
        let claim = json!({ "queues": ["calls"], "worker_id": "w", "max": 1 });
        let take = async || bed.post("/v1/claim", claim.clone()).await.is(200)["jobs"].clone();
        let token = take().await[0]["lease"]["token"].clone();
        let path = format!("/v1/jobs/{first}/release");
        let both = json!({ "lease_token": token, "hold": "1h", "delay": "1s" });
        let refused = bed.post(&path, both).await.refused(422, "invalid");
        assert!(refused.to_string().contains("hold"), "{refused}");
        let charge = json!({ "lease_token": token, "units": 7 });
        bed.post(&format!("/v1/jobs/{first}/charge"), charge.clone()).await.is(200);
        let none = json!({ "lease_token": token, "units": 0 });
        bed.post(&format!("/v1/jobs/{first}/charge"), none).await.refused(422, "invalid");
        let released = bed.post(&path, json!({ "lease_token": token, "hold": "1h" })).await.is(200);
        assert_eq!((&released["job"]["status"], &released["job"]["retries"]), (&json!("retry"), &json!(0)));
        bed.post(&format!("/v1/jobs/{first}/charge"), charge).await.refused(409, "not_leased");
        assert_eq!(take().await, json!([]), "the other job of the key waits too");
        let blocked = bed.job(&second).await["blocked"].clone();
        assert_eq!(blocked["reason"], "held", "{blocked}");
        assert!(
            blocked["by"].as_str().is_some_and(|by| by.starts_with("key acme is held until 20")),
            "{blocked}"
        );
        let page = bed.get("/v1/queues/calls/lanes").await.is(200);
        assert_eq!((&page["lanes"][0]["key"], &page["lanes"][0]["due"]), (&json!("acme"), &json!(2)));
        assert!(page["lanes"][0]["held_until"].is_string() && page["next_cursor"].is_null(), "{page}");
        let next = bed.get("/v1/queues/calls/lanes?limit=1").await.is(200)["next_cursor"].clone();
        let next = next.as_str().expect("a full page has a next one").to_owned();
        let rest = bed.get(&format!("/v1/queues/calls/lanes?limit=1&cursor={next}")).await.is(200);
        assert_eq!(rest["lanes"], json!([]));
        bed.get("/v1/queues/calls/lanes?cursor=x").await.refused(422, "invalid");
        let go = "/v1/queues/calls/lanes/release";
        assert_eq!(bed.post(go, json!({})).await.is(200)["released"], false, "the queue is not held");
        assert_eq!(bed.post(go, json!({ "key": "acme" })).await.is(200)["released"], true);
        assert_eq!(take().await[0]["id"], json!(second));
        let audit = bed.get("/v1/audit").await.is(200);
        assert_eq!(audit["entries"][0]["action"], "queue.release");
        assert_eq!(take().await[0]["id"], json!(first));
        let plain = bed.put_job(json!({ "queue": "calls" })).await;
        let token = take().await[0]["lease"]["token"].clone();
        let hold = json!({ "items": [{ "job_id": plain, "lease_token": token, "outcome": "release", "hold": "1h" }] });
        assert_eq!(bed.post("/v1/settle", hold).await.is(200)["items"][0]["status"], "retry");
        let queues = bed.get("/v1/queues").await.is(200);
        let calls = queues["queues"].as_array().into_iter().flatten().find(|queue| queue["name"] == "calls");
        assert!(calls.is_some_and(|queue| queue["held_until"].is_string()), "{queues}");
        assert_eq!(bed.post(go, json!({})).await.is(200)["released"], true, "now it is the queue");
        let queue = bed.put("/v1/queues/calls", json!({ "flow": {} })).await.is(200);
        assert_eq!(queue["queue"]["flow"], Value::Null, "a hold is no rule");
    }
}

/// F19: over HTTP a breaker is set, shown, and says why a job does not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_queue_says_so() {
    let leads = |server: windlass_http::Server| server.schedules(true);
    for place in [Place::memory(), Place::sqlite()] {
        let bed = place.serve_with(leads).await;
        let breaker = json!({ "errors": 1, "of": 2, "within": 60, "pause": 30 });
        for (bad, field) in [
            (json!({ "errors": 3, "of": 2, "within": "1m", "pause": "30s" }), "flow.breaker.errors"),
            (json!({ "errors": 1, "of": 2, "within": "2h", "pause": "30s" }), "flow.breaker.within"),
        ] {
            let refused = bed.put("/v1/queues/calls", json!({ "flow": { "breaker": bad } })).await;
            let refused = refused.refused(422, "invalid");
            assert!(refused.to_string().contains(field), "{refused}");
        }
        let set = bed.put("/v1/queues/calls", json!({ "flow": { "breaker": breaker } })).await.is(200);
        assert_eq!((&set["queue"]["flow"]["breaker"], &set["queue"]["broken"]), (&breaker, &Value::Null));
        bed.put_job(json!({ "queue": "calls" })).await;
        // The server leads, counts and breaks it by itself.
        let claim = json!({ "queues": ["calls"], "worker_id": "w", "max": 1 });
        let broken = loop {
            let taken = bed.post("/v1/claim", claim.clone()).await.is(200)["jobs"][0].clone();
            if let Some(id) = taken["id"].as_str() {
                let token = &taken["lease"]["token"];
                let failed = json!({ "lease_token": token, "error": { "code": "down" }, "permanent": true });
                verb(&bed, id, "fail", failed).await.is(200);
                bed.put_job(json!({ "queue": "calls" })).await;
            }
            let queues = bed.get("/v1/queues").await.is(200);
            let calls =
                queues["queues"].as_array().into_iter().flatten().find(|queue| queue["name"] == "calls");
            let broken = calls.map(|queue| queue["broken"].clone()).unwrap_or_default();
            if !broken.is_null() {
                break broken;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        let job = bed.put_job(json!({ "queue": "calls" })).await;
        assert!(broken["ended"] == broken["failed"] && broken["ended"].as_i64() >= Some(2), "{broken}");
        assert!(broken["until"].as_str() > broken["at"].as_str(), "{broken}");
        let blocked = bed.job(&job).await["blocked"].clone();
        assert_eq!(blocked["reason"], "broken");
        let by = blocked["by"].as_str().unwrap_or_default();
        assert!(
            by.starts_with("the breaker of the queue: ") && by.ends_with(" attempts failed"),
            "{blocked}"
        );
        let audit = bed.get("/v1/audit").await.is(200)["entries"].clone();
        assert!(audit.as_array().into_iter().flatten().any(|one| one["action"] == "queue.break"), "{audit}");
    }
}

/// F18: over HTTP a full lane refuses, drops, or lets the newest in.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_lane_answers() {
    for bed in beds().await {
        let set =
            async |lanes: Value| bed.put("/v1/queues/calls", json!({ "flow": { "lanes": lanes } })).await;
        for (bad, field) in
            [(json!({ "backlog": 0 }), "flow.lanes.backlog"), (json!({ "full": "drop" }), "flow.lanes.full")]
        {
            let refused = set(bad).await.refused(422, "invalid");
            assert!(refused.to_string().contains(field), "{refused}");
        }
        set(json!({ "backlog": 1, "full": "wait" })).await.refused(422, "invalid");
        let lanes = json!({ "backlog": 1, "keys": { "globex": { "mode": "newest", "concurrency": 1 } } });
        let shown = set(lanes.clone()).await.is(200);
        assert_eq!(shown["queue"]["flow"]["lanes"], lanes);
        let job = |key: &str| json!({ "kind": "call", "queue": "calls", "key": key });
        bed.post("/v1/jobs", job("acme")).await.is(201);
        let answer = bed.post("/v1/jobs", job("acme")).await;
        let wait = answer.headers.get("retry-after").cloned();
        let refused = answer.refused(429, "lane_full");
        assert_eq!((&refused["key"], &refused["waiting"], wait.is_some()), (&json!("acme"), &json!(1), true));
        let many = json!({ "jobs": [job("initech"), job("acme")] });
        let refused = bed.post("/v1/jobs/batch", many.clone()).await.refused(429, "lane_full");
        assert_eq!(refused["index"], 1);
        set(json!({ "backlog": 1, "full": "drop", "keys": lanes["keys"] })).await.is(200);
        let dropped = bed.post("/v1/jobs", job("acme")).await.is(200);
        assert_eq!((&dropped["dropped"], &dropped["existed"]), (&json!(true), &json!(false)));
        let id = dropped["job"]["id"].as_str().expect("an id").to_owned();
        bed.get(&format!("/v1/jobs/{id}")).await.refused(404, "not_found");
        let results = bed.post("/v1/jobs/batch", many).await.is(201)["results"].clone();
        assert_eq!((&results[0]["dropped"], &results[1]["dropped"]), (&Value::Null, &json!(true)));
        let older = bed.put_job(job("globex")).await;
        let newer = bed.put_job(job("globex")).await;
        let shown = bed.job(&older).await;
        assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("cancelled"), &json!("superseded")));
        assert!(shown["error"]["message"].as_str().is_some_and(|why| why.contains(&newer)), "{shown}");
        assert_eq!(bed.job(&newer).await["status"], "pending");
    }
}

/// F11: over HTTP the latest request wins.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_debounced() {
    for bed in beds().await {
        let job = |n: i32| json!({ "kind": "reindex", "key": "site", "debounce": { "delay": "30s", "max": "5m" }, "payload": { "n": n } });
        let first = bed.post("/v1/jobs", job(1)).await.is(201);
        let again = bed.post("/v1/jobs", job(2)).await.is(200);
        assert_eq!((&again["job"]["id"], &again["existed"]), (&first["job"]["id"], &json!(true)));
        let id = first["job"]["id"].as_str().expect("an id");
        assert_eq!(bed.job(id).await["payload"], json!({ "n": 2 }));
        let log = bed.get(&format!("/v1/jobs/{id}/events")).await.is(200);
        let types: Vec<&Value> =
            log["events"].as_array().into_iter().flatten().map(|event| &event["type"]).collect();
        assert_eq!(types, [&json!("job_created"), &json!("job_replaced")]);
        for (wrong, field) in [
            (json!({ "kind": "reindex", "debounce": { "delay": "1s" } }), "key"),
            (json!({ "kind": "reindex", "key": "a", "debounce": { "delay": "0s" } }), "debounce.delay"),
            (
                json!({ "kind": "reindex", "key": "a", "debounce": { "delay": "5s", "max": "1s" } }),
                "debounce.max",
            ),
            (json!({ "kind": "reindex", "key": "a", "delay": "1s", "debounce": { "delay": "5s" } }), "delay"),
            (
                json!({ "kind": "reindex", "key": "a", "unique": { "key": "u" }, "debounce": { "delay": "5s" } }),
                "unique",
            ),
        ] {
            let refused = bed.post("/v1/jobs", wrong).await.refused(422, "invalid");
            assert!(refused.to_string().contains(field), "{field}: {refused}");
        }
    }
}
