//! Triggers and signed webhooks over HTTP.

mod bed;

use bed::{Answer, Bed, Place, beds, until};
use reqwest::Method;
use serde_json::{Value, json};
use windlass_core::Role;
use windlass_core::trigger::webhook::{Signed, WebhookSecret};
use windlass_store::fresh::wall_clock;

fn invoice() -> Value {
    json!({ "jobs": [
        { "kind": "book", "queue": "billing" },
        { "kind": "mail", "queue": "mail", "payload": { "to": "{{payload.mail}}", "max": 3 }, "max_retries": 1 },
    ] })
}

/// R10, R12: made, shown, changed under a version, fired, removed; with every change on record.
#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_lives_over_http() {
    for bed in beds().await {
        bed.get("/v1/triggers/order").await.refused(404, "trigger_not_found");
        bed.post("/v1/triggers/order", json!({})).await.refused(404, "trigger_not_found");
        let made = bed.put("/v1/triggers/order", invoice()).await.is(200);
        assert_eq!((&made["version"], &made["signed"]), (&json!(1), &json!(false)));
        assert_eq!(made["jobs"][0]["payload"], Value::Null, "the payload is passed on as it is");
        assert_eq!(made["jobs"][1]["payload"]["to"], "{{payload.mail}}");
        assert_eq!(bed.put("/v1/triggers/order", invoice()).await.is(200)["version"], 1);
        let mut stale = invoice();
        stale["expected_version"] = json!(0);
        stale["jobs"][0]["kind"] = json!("ledger");
        bed.put("/v1/triggers/order", stale).await.refused(409, "version_mismatch");
        let fired = bed.post("/v1/triggers/order", json!({ "payload": { "mail": "a@b.c" } })).await.is(201);
        let mail = fired["jobs"][1].as_str().expect("a job");
        let job = bed.job(mail).await;
        assert_eq!((&job["payload"], &job["max_retries"]), (&json!({ "to": "a@b.c", "max": 3 }), &json!(1)));
        assert_eq!(
            (&job["metadata"]["trigger"], &job["metadata"]["event"]),
            (&json!("order"), &fired["event"])
        );
        let events = bed.get("/v1/triggers/order/events").await.is(200);
        assert_eq!(events["events"][0]["payload"], json!({ "mail": "a@b.c" }));
        assert_eq!(bed.get("/v1/triggers").await.is(200)["triggers"][0]["name"], "order");
        assert_eq!(bed.delete("/v1/triggers/order").await.is(200)["removed"], "order");
        let audit = bed.get("/v1/audit").await.is(200);
        let actions: Vec<_> =
            audit["entries"].as_array().expect("entries").iter().map(|e| &e["action"]).collect();
        assert_eq!(actions, [&json!("trigger.remove"), &json!("trigger.put")]);
    }
}

/// R10: an idempotency key makes an event without a key of its own the same one; another body is refused.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_sent_again_after_a_lost_answer() {
    for bed in beds().await {
        bed.put("/v1/triggers/order", json!({ "jobs": [{ "kind": "k" }] })).await.is(200);
        let send = async |body: Value| {
            let request = bed.running.request(Method::POST, "/v1/triggers/order");
            Answer::of(request.header("idempotency-key", "once").json(&body).send().await.expect("sent"))
                .await
        };
        let first = send(json!({ "payload": 1 })).await.is(201);
        assert_eq!(send(json!({ "payload": 1 })).await.body["jobs"], first["jobs"]);
        send(json!({ "payload": 2 })).await.refused(422, "idempotency_key_reused");
        assert_eq!(bed.get("/v1/jobs").await.is(200)["jobs"].as_array().expect("jobs").len(), 1);
    }
}

/// R10: what a trigger cannot be is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_trigger_is_told_what_is_wrong() {
    for bed in beds().await {
        for (jobs, field) in [
            (json!([]), "jobs"),
            (json!([{ "kind": "k", "payload": "{{event.secret}}" }]), "jobs[0].payload"),
            (json!([{ "kind": "k" }, { "kind": "k", "unique": { "key": "x" } }]), "jobs[1].unique"),
            (json!([{ "kind": "k", "run_at": "2030-01-01T00:00:00Z" }]), "jobs[0].run_at"),
            (json!([{ "kind": "no kind" }]), "kind"),
        ] {
            let refused = bed.put("/v1/triggers/bad", json!({ "jobs": jobs })).await.refused(422, "invalid");
            assert!(refused["field"].as_str().is_some_and(|f| f.contains(field)), "{field}: {refused}");
        }
        assert_eq!(bed.get("/v1/triggers").await.is(200)["triggers"], json!([]));
    }
}

struct Sender<'a> {
    bed: &'a Bed,
    secret: WebhookSecret,
}

impl Sender<'_> {
    async fn send(&self, id: &str, seconds: i64, body: &str) -> Answer {
        let timestamp = (wall_clock().as_micros() / 1_000_000 + seconds).to_string();
        let signed = Signed { id, timestamp: &timestamp, body: body.as_bytes() };
        let request = self.bed.running.request(Method::POST, "/v1/webhooks/order");
        let request = request
            .header("webhook-id", id)
            .header("webhook-timestamp", &timestamp)
            .header("webhook-signature", format!("v1,AAAA {}", self.secret.sign(&signed)))
            .header("content-type", "application/json")
            .body(body.to_owned());
        Answer::of(request.send().await.expect("an answer")).await
    }
}

async fn sender(bed: &Bed) -> Sender<'_> {
    let made = bed.post("/v1/triggers/order/secret", json!({})).await.is(201);
    let secret = WebhookSecret::parse(made["secret"].as_str().expect("a secret")).expect("a secret");
    Sender { bed, secret }
}

/// R10: who signs needs no key, who does not is kept out; a repeat of the same webhook starts nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_taken_if_it_is_signed() {
    for bed in beds().await {
        bed.put("/v1/triggers/order", json!({ "jobs": [{ "kind": "k" }] })).await.is(200);
        let (old, new) = (sender(&bed).await, sender(&bed).await);
        let root = bed.make_key("root", &[Role::Admin], None).await;
        until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
        let body = r#"{ "order":  7 }"#;
        let taken = new.send("msg-1", 0, body).await.is(200);
        assert_eq!(taken["deduped"], false);
        assert_eq!(
            new.send("msg-1", 1, body).await.is(200),
            json!({ "event": taken["event"], "deduped": true })
        );
        old.send("msg-2", 0, body).await.is(200);
        let forger = Sender { bed: &bed, secret: WebhookSecret::from_bytes([1; 32]).expect("a secret") };
        forger.send("msg-3", 0, body).await.refused(401, "signature_refused");
        new.send("msg-3", -400, body).await.refused(401, "signature_refused");
        new.send("msg-3", 400, body).await.refused(401, "signature_refused");
        new.send("msg-3", 0, "not JSON").await.refused(422, "invalid");
        new.send("msg-3", 0, &format!("\"{}\"", "x".repeat(1 << 20))).await.refused(413, "request_too_large");
        let bare = bed.post("/v1/webhooks/order", json!({})).await.refused(401, "signature_refused");
        assert!(bare["detail"].as_str().is_some_and(|said| said.contains("webhook-id")), "{bare}");
        let root = bed.with_key(Some(root));
        let events = root.get("/v1/triggers/order/events").await.is(200);
        let events = events["events"].as_array().expect("events");
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(
            (&events[1]["dedupe_key"], &events[1]["actor"]),
            (&json!("msg-1"), &json!("webhook:order"))
        );
        let job = root.job(events[1]["jobs"][0].as_str().expect("a job")).await;
        assert_eq!(job["payload"], json!({ "order": 7 }));
        let refused = root.get("/v1/audit?action=webhook.refused").await.is(200);
        assert!(!refused["entries"].as_array().expect("entries").is_empty());
        assert!(!root.get("/v1/audit").await.text.contains("whsec_"), "no secret is on record");
    }
}

/// R10: a trigger takes so many webhooks a minute, as the settings say, and wrong ones wear out only who sends them.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_have_a_rate() {
    for place in [Place::memory(), Place::sqlite()] {
        let bed = place.serve_with(|server| server.wrong_per_minute(3)).await;
        bed.put("/v1/triggers/order", json!({ "jobs": [{ "kind": "k" }] })).await.is(200);
        let sender = sender(&bed).await;
        for _ in 0..3 {
            bed.post("/v1/webhooks/order", json!({})).await.refused(401, "signature_refused");
        }
        bed.post("/v1/webhooks/order", json!({})).await.refused(429, "too_many_requests");
        sender.send("msg-1", 0, "{}").await.is(200);
        let settings = json!({ "settings": { "webhooks_per_minute": 2 }, "expected_version": 0 });
        bed.put("/v1/settings", settings).await.is(200);
        let mut statuses = Vec::new();
        for n in 0..4 {
            let answer = sender.send(&format!("msg-2-{n}"), 0, "{}").await;
            if answer.status == 429 {
                assert!(answer.headers.contains_key("retry-after"));
            }
            statuses.push(answer.status);
        }
        assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
        let longer = json!({ "settings": { "webhook_tolerance": "20m", "webhooks_per_minute": 1000 }, "expected_version": 1 });
        bed.put("/v1/settings", longer).await.is(200);
        until("the rate is refilled", async || sender.send("msg-3", -1_000, "{}").await.status == 200).await;
    }
}
