//! Schedules over HTTP, and who leads.

mod bed;

use bed::beds;
use serde_json::{Value, json};

fn nightly() -> Value {
    json!({
        "cron": "0 3 * * *", "timezone": "Europe/Berlin", "overlap": "skip", "jitter": "5m",
        "job": { "kind": "report", "queue": "reports", "payload": { "to": "ops" }, "max_retries": 1 },
    })
}

/// R7, R12: made, shown, changed under a version, paused, resumed, triggered, removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_lives_over_http() {
    for bed in beds().await {
        bed.get("/v1/schedules/nightly").await.refused(404, "schedule_not_found");
        let made = bed.put("/v1/schedules/nightly", nightly()).await.is(200);
        assert_eq!(
            (&made["version"], &made["missed"], &made["overlap"]),
            (&json!(1), &json!("once"), &json!("skip"))
        );
        assert_eq!((&made["jitter"], &made["job"]["payload"]["to"]), (&json!(300), &json!("ops")));
        assert_eq!(made["job"]["max_retries"], 1);
        let same = bed.put("/v1/schedules/nightly", nightly()).await.is(200);
        assert_eq!(same["version"], 1, "a repeat changes nothing");
        assert_eq!(bed.get("/v1/schedules").await.is(200)["schedules"][0]["name"], "nightly");
        let next = bed.get("/v1/schedules/nightly/next?n=3").await.is(200);
        assert_eq!(next["next"].as_array().expect("a list").len(), 3);
        assert_eq!(next["next"][0], made["next_at"]);
        let mut other = nightly();
        other["expected_version"] = json!(7);
        other["every"] = json!(60);
        bed.put("/v1/schedules/nightly", other.clone()).await.refused(422, "invalid");
        other["every"] = Value::Null;
        other["cron"] = json!("0 4 * * *");
        bed.put("/v1/schedules/nightly", other.clone()).await.refused(409, "version_mismatch");
        other["expected_version"] = json!(1);
        assert_eq!(bed.put("/v1/schedules/nightly", other).await.is(200)["version"], 2);
        let paused = bed.post("/v1/schedules/nightly/pause", json!({})).await.is(200);
        assert!(paused["next_at"].is_null() && paused["paused"]["by"].is_string());
        let made = bed.post("/v1/schedules/nightly/trigger", json!({})).await.is(201);
        let id = made["id"].as_str().expect("an id");
        let job = bed.get(&format!("/v1/jobs/{id}")).await.is(200);
        assert_eq!((&job["kind"], &job["metadata"]["schedule"]), (&json!("report"), &json!("nightly")));
        let resumed = bed.post("/v1/schedules/nightly/resume", json!({})).await.is(200);
        assert!(resumed["paused"].is_null() && resumed["next_at"].is_string());
        assert_eq!(bed.delete("/v1/schedules/nightly").await.is(200)["removed"], "nightly");
        bed.delete("/v1/schedules/nightly").await.refused(404, "schedule_not_found");
        let audit = bed.get("/v1/audit").await.is(200);
        let audit = audit["entries"].as_array().expect("entries");
        let of = |action: &str| audit.iter().filter(|entry| entry["action"] == action).count();
        assert_eq!(
            ["put", "pause", "resume", "remove"].map(|verb| of(&format!("schedule.{verb}"))),
            [2, 1, 1, 1]
        );
    }
}

/// R7: bad input is named and nothing is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_schedule_is_told_what_is_wrong() {
    for bed in beds().await {
        for (change, field) in [
            (json!({ "cron": "0 0 30 2 *" }), "cron"),
            (json!({ "cron": "every day" }), "cron"),
            (json!({ "timezone": "Europe/Atlantis" }), "timezone"),
            (json!({ "cron": null }), "cron"),
            (json!({ "cron": null, "every": "10ms" }), "every"),
            (json!({ "job": { "kind": "no kind" } }), "kind"),
            (json!({ "job": { "kind": "k", "delay": "5s" } }), "job.run_at"),
            (json!({ "missed": "all", "missed_max": 0 }), "missed_max"),
        ] {
            let mut body = nightly();
            for (key, value) in change.as_object().expect("an object") {
                body[key] = value.clone();
            }
            let refused = bed.put("/v1/schedules/bad", body).await.refused(422, "invalid");
            assert!(refused.to_string().contains(field), "{field}: {refused}");
        }
        assert_eq!(bed.get("/v1/schedules").await.is(200)["schedules"], json!([]));
    }
}

/// R4: nobody leads where nobody was told to.
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_shown() {
    for bed in beds().await {
        let leader = bed.get("/v1/leader").await.is(200);
        assert_eq!((&leader["leads"], &leader["holder"]), (&json!(false), &Value::Null));
    }
}
