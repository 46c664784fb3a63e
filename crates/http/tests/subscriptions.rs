//! Subscriptions over HTTP: what is set and shown, and to whom.

mod bed;

use bed::{beds, until};
use serde_json::{Value, json};
use windlass_core::Role;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// T2, R12: made, shown, changed under a version, paused, resumed, removed; every change is on record, no secret is.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_lives_over_http() {
    for bed in beds().await {
        bed.get("/v1/subscriptions/bus").await.refused(404, "subscription_not_found");
        bed.post("/v1/subscriptions/bus/resume", json!({})).await.refused(404, "subscription_not_found");
        let webhook = json!({ "url": "https://a.example/T0KEN", "queues": ["mail"], "statuses": ["completed"], "timeout": "5s" });
        let made = bed.put("/v1/subscriptions/bus", webhook.clone()).await.is(200);
        assert!(made["secret"].as_str().expect("a secret is made").starts_with("whsec_"));
        assert_eq!(
            (&made["version"], &made["status"], &made["from"]),
            (&json!(1), &json!("on"), &json!("now"))
        );
        let again = bed.put("/v1/subscriptions/bus", webhook.clone()).await.is(200);
        assert_eq!((&again["version"], &again["secret"]), (&json!(1), &Value::Null), "it is shown once");
        let mut stale = webhook.clone();
        stale["expected_version"] = json!(0);
        stale["timeout"] = json!("6s");
        bed.put("/v1/subscriptions/bus", stale).await.refused(409, "version_mismatch");
        let paused = bed.post("/v1/subscriptions/bus/pause", json!({ "reason": "they move" })).await.is(200);
        assert_eq!((&paused["status"], &paused["why"]), (&json!("paused"), &json!("they move")));
        assert_eq!(bed.post("/v1/subscriptions/bus/resume", json!({})).await.is(200)["status"], "on");
        let broker = json!({ "url": "amqp://app@rabbit/jobs", "secret": "hunter2", "exchange": "jobs", "from": "start" });
        let broker = bed.put("/v1/subscriptions/rabbit", broker).await.is(200);
        assert_eq!((&broker["exchange"], &broker["mandatory"]), (&json!("jobs"), &json!(true)));
        assert!(!bed.get("/v1/subscriptions").await.text.contains("hunter2"));
        for (field, body) in [
            ("url", json!({ "url": "amqp://app:hunter2@rabbit/jobs" })),
            ("url", json!({ "url": "ftp://a.example" })),
            ("timeout", json!({ "url": "amqp://rabbit", "timeout": "5s" })),
            ("exchange", json!({ "url": "https://a.example", "exchange": "x" })),
            ("from", json!({ "url": "https://a.example", "from": "then" })),
            ("statuses", json!({ "url": "https://a.example", "statuses": ["done"] })),
            ("secret", json!({ "url": "https://a.example", "secret": "hunter2" })),
        ] {
            let refused = bed.put("/v1/subscriptions/other", body).await.refused(422, "invalid");
            assert!(refused["detail"].as_str().is_some_and(|told| told.contains(field)), "{refused}");
        }
        assert_eq!(bed.delete("/v1/subscriptions/bus").await.is(200)["removed"], "bus");
        let audit = bed.get("/v1/audit").await;
        for secret in ["hunter2", "whsec_", "T0KEN"] {
            assert!(!audit.text.contains(secret), "{secret} is on record");
        }
    }
}

/// R10: who only looks sees the host of an address and no more; a key for some queues sees and makes what is theirs.
#[tokio::test(flavor = "multi_thread")]
async fn who_looks_sees_no_secret_and_no_other_queue() {
    for bed in beds().await {
        let body =
            |queues: Value| json!({ "url": "https://a.example/T0KEN", "secret": SECRET, "queues": queues });
        bed.put("/v1/subscriptions/mail", body(json!(["mail"]))).await.is(200);
        bed.put("/v1/subscriptions/all", body(json!([]))).await.is(200);
        let looks = bed.make_key("looks", &[Role::Viewer], None).await;
        let mails = bed.make_key("mails", &[Role::Operator], Some(&["mail"])).await;
        until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
        let bed = bed.with_key(Some(looks));
        let seen = bed.get("/v1/subscriptions").await;
        assert!(!seen.text.contains("T0KEN") && !seen.text.contains("whsec_"), "{}", seen.text);
        assert_eq!(seen.is(200)["subscriptions"][0]["url"], "https://a.example/…");
        bed.put("/v1/subscriptions/mail", body(json!(["mail"]))).await.refused(403, "forbidden");
        let bed = bed.with_key(Some(mails));
        let seen = bed.get("/v1/subscriptions").await.is(200);
        let names: Vec<&Value> =
            seen["subscriptions"].as_array().expect("all").iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["mail"]);
        assert_eq!(seen["subscriptions"][0]["url"], "https://a.example/T0KEN");
        bed.get("/v1/subscriptions/all").await.refused(404, "subscription_not_found");
        bed.put("/v1/subscriptions/all", body(json!(["mail"]))).await.refused(404, "subscription_not_found");
        bed.put("/v1/subscriptions/new", body(json!([]))).await.refused(422, "invalid");
        bed.put("/v1/subscriptions/new", body(json!(["other"]))).await.refused(403, "queue_forbidden");
        bed.put("/v1/subscriptions/new", body(json!(["mail"]))).await.is(200);
    }
}
