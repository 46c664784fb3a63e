//! Settings of the store over HTTP: changed under a version, in force without a restart.

mod bed;

use bed::{Bed, beds, until};
use serde_json::{Value, json};
use std::sync::Arc;

fn put(version: i64, settings: Value) -> Value {
    json!({ "settings": settings, "expected_version": version })
}

async fn lease_of_a_claim(bed: &Bed) -> f64 {
    bed.put_job(json!({ "queue": "q" })).await;
    let claimed = bed.post("/v1/claim", json!({ "queues": ["q"], "worker_id": "w" })).await.is(200);
    let lease = &claimed["jobs"][0]["lease"]["expires_at"];
    let expires = windlass_core::Timestamp::parse("at", lease.as_str().expect("a time")).expect("a time");
    (expires.as_micros() - windlass_store::fresh::wall_clock().as_micros()) as f64 / 1_000_000.0
}

/// R12: read, changed, refused at another version, checked, audited with before and after.
#[tokio::test(flavor = "multi_thread")]
async fn settings_live_over_http() {
    for bed in beds().await {
        let first = bed.get("/v1/settings").await.is(200);
        assert_eq!((&first["version"], &first["changed_by"]), (&json!(0), &Value::Null));
        assert_eq!(first["settings"]["missed_after"], 60);
        let set = bed.put("/v1/settings", put(0, json!({ "missed_after": "2m" }))).await.is(200);
        assert_eq!((&set["version"], &set["settings"]["missed_after"]), (&json!(1), &json!(120)));
        let stale = bed.put("/v1/settings", put(0, json!({ "missed_max": 5 }))).await;
        assert_eq!(stale.refused(409, "version_mismatch")["current_version"], 1);
        for (bad, field) in [
            (json!({ "missed_max": 0 }), "missed_max"),
            (json!({ "default_lease": "1ms" }), "default_lease"),
            (json!({ "reassign_after": "0s" }), "reassign_after"),
            (json!({ "webhook_tolerance": "2h" }), "webhook_tolerance"),
        ] {
            let refused = bed.put("/v1/settings", put(1, bad)).await.refused(422, "invalid");
            assert!(refused.to_string().contains(field), "{refused}");
        }
        bed.put("/v1/settings", put(1, json!({ "nonsense": 1 }))).await.refused(422, "unknown_field");
        bed.put("/v1/settings", json!({ "settings": {} })).await.refused(422, "invalid");
        assert_eq!(bed.get("/v1/settings").await.is(200), set, "nothing was written");
        let entry = bed.get("/v1/audit?action=settings.put").await.is(200)["entries"][0].clone();
        let of = |when: &str| entry["detail"][when]["missed_after_ms"].clone();
        assert_eq!(
            (of("before"), of("after"), &entry["actor"]),
            (json!(60_000), json!(120_000), &set["changed_by"])
        );
    }
}

/// R12, J14: a lease that nobody names is as long as the settings say, within seconds, on every server of the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_setting_is_in_force_without_a_restart() {
    for bed in beds().await {
        let other = bed::Place::other("other", Arc::clone(bed.store()), Box::new(())).serve().await;
        assert!((20.0..=31.0).contains(&lease_of_a_claim(&other).await), "30 seconds");
        bed.put("/v1/settings", put(0, json!({ "default_lease": "1h" }))).await.is(200);
        assert!(lease_of_a_claim(&bed).await > 3_500.0, "at once where it was changed");
        until("the other server knows", async || lease_of_a_claim(&other).await > 3_500.0).await;
    }
}

/// R12: of two who change the same version one is told, and nothing of the other is lost.
#[tokio::test(flavor = "multi_thread")]
async fn two_writers_do_not_overwrite_each_other() {
    for bed in beds().await {
        let (a, b) = (put(0, json!({ "missed_max": 7 })), put(0, json!({ "missed_after": "5m" })));
        let (a, b) = tokio::join!(bed.put("/v1/settings", a), bed.put("/v1/settings", b));
        let mut statuses = [a.status, b.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
        let state = bed.get("/v1/settings").await.is(200);
        let is_a = state["settings"]["missed_max"] == 7;
        let is_b = state["settings"]["missed_after"] == 300;
        assert!(is_a != is_b && state["version"] == 1, "{state}");
    }
}
