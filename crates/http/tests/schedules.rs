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

/// R7: a schedule is tried before it is put: the same slots, the same refusals, and nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_tried_without_being_put() {
    for bed in beds().await {
        let preview = "/v1/schedules/nightly/preview?n=5";
        let tried = bed.post(preview, nightly()).await.is(200);
        bed.get("/v1/schedules/nightly").await.refused(404, "schedule_not_found");
        bed.put("/v1/schedules/nightly", nightly()).await.is(200);
        let next = bed.get("/v1/schedules/nightly/next?n=5").await.is(200);
        assert_eq!(tried, next, "it fires when the trial said");
        assert_eq!(next["next"].as_array().expect("a list").len(), 5);
        let mut other = nightly();
        other["cron"] = json!("30 4 * * *");
        other["timezone"] = json!("UTC");
        let changed = bed.post(preview, other.clone()).await.is(200);
        assert!(changed["next"][0].as_str().expect("a slot").ends_with("T04:30:00Z"), "{changed}");
        assert_eq!(bed.get("/v1/schedules/nightly").await.is(200)["version"], 1);
        // What never changes fires as it does; what is paused shows the slots it would have.
        assert_eq!(bed.post(preview, nightly()).await.is(200), next);
        bed.post("/v1/schedules/nightly/pause", json!({})).await.is(200);
        assert_eq!(bed.post(preview, nightly()).await.is(200), next);
        assert_eq!(bed.post(preview, other.clone()).await.is(200), changed);
        other["expected_version"] = json!(1);
        bed.post(preview, other.clone()).await.refused(409, "version_mismatch");
        other["cron"] = json!("0 0 30 2 *");
        other["expected_version"] = Value::Null;
        bed.post(preview, other).await.refused(422, "invalid");
        assert_eq!(bed.get("/v1/schedules/nightly").await.is(200)["cron"], "0 3 * * *");
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

/// R7, R12: a file is applied as a whole, shown first, and nothing of a bad one is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_schedules_is_applied() {
    for bed in beds().await {
        bed.put("/v1/schedules/old", nightly()).await.is(200);
        let words = |answer: &Value| {
            let changes = answer["changes"].as_array().expect("changes").iter();
            changes
                .map(|one| format!("{} {}", one["change"], one["name"]).replace('"', ""))
                .collect::<Vec<_>>()
        };
        let mut bad = nightly();
        bad["timezone"] = json!("Mars/Base");
        let refused = bed.put("/v1/schedules", json!({ "schedules": { "a": nightly(), "b": bad } })).await;
        assert_eq!(refused.refused(422, "invalid")["field"], "b: timezone");
        let file = json!({ "schedules": { "a": nightly(), "b": nightly() }, "prune": true, "dry_run": true });
        let shown = bed.put("/v1/schedules", file.clone()).await.is(200);
        assert_eq!(words(&shown), ["added a", "added b", "removed old"]);
        assert_eq!(bed.get("/v1/schedules").await.is(200)["schedules"].as_array().expect("all").len(), 1);
        let mut file = file;
        file["dry_run"] = json!(false);
        assert_eq!(words(&bed.put("/v1/schedules", file.clone()).await.is(200)).len(), 3);
        assert_eq!(
            words(&bed.put("/v1/schedules", file.clone()).await.is(200)),
            ["unchanged a", "unchanged b"]
        );
        file["schedules"]["b"]["jitter"] = json!(1);
        let changed = bed.put("/v1/schedules", file).await.is(200);
        assert_eq!(words(&changed), ["unchanged a", "changed b"]);
        assert_eq!(
            (&changed["changes"][1]["before"]["jitter"], &changed["changes"][1]["after"]["jitter"]),
            (&json!(300), &json!(1))
        );
    }
}

/// R7: slots of the past become jobs once; the bounds are told.
#[tokio::test(flavor = "multi_thread")]
async fn a_stretch_of_the_past_is_made_up_for() {
    for bed in beds().await {
        bed.put("/v1/schedules/nightly", nightly()).await.is(200);
        let path = "/v1/schedules/nightly/backfill";
        let range =
            |from: &str, to: &str, dry_run: bool| json!({ "from": from, "to": to, "dry_run": dry_run });
        let days = |dry_run| range("2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z", dry_run);
        let shown = bed.post(path, days(true)).await.is(200);
        let slots: Vec<_> = shown["slots"].as_array().expect("slots").iter().map(|s| &s["slot"]).collect();
        // The clocks go forward on the 29th.
        let expected = ["2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"];
        assert_eq!(slots, expected.map(|slot| json!(slot)).iter().collect::<Vec<_>>());
        let made = bed.post(path, days(false)).await.is(201);
        let again = bed.post(path, days(false)).await.is(201);
        for (one, two) in
            made["slots"].as_array().expect("slots").iter().zip(again["slots"].as_array().expect("slots"))
        {
            assert_eq!((&one["existed"], &two["existed"]), (&json!(false), &json!(true)));
            assert_eq!(one["job"], two["job"]);
        }
        let job =
            bed.get(&format!("/v1/jobs/{}", made["slots"][0]["job"].as_str().expect("a job"))).await.is(200);
        assert_eq!(job["metadata"]["slot"], made["slots"][0]["slot"]);
        bed.post(path, range("-1h", "2099-01-01T00:00:00Z", false)).await.refused(422, "invalid");
        bed.post(path, range("-1h", "-2h", false)).await.refused(422, "invalid");
        let long = bed.post(path, range("2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z", true)).await;
        assert!(
            long.refused(422, "invalid")["detail"].as_str().is_some_and(|said| said.contains("1000 slots"))
        );
        bed.post("/v1/schedules/no/backfill", days(true)).await.refused(404, "schedule_not_found");
        let audit = bed.get("/v1/audit?action=schedule.backfill").await.is(200);
        assert_eq!(audit["entries"].as_array().expect("entries").len(), 1, "only what enqueued something");
    }
}

/// (calendar) What fires in a stretch, named slot by slot or by the hour; what is paused or of another queue is not in it.
#[tokio::test(flavor = "multi_thread")]
async fn the_calendar_says_what_fires() {
    for bed in beds().await {
        let job = |queue: &str| json!({ "kind": "k", "queue": queue });
        let put =
            async |name: &str, body: Value| bed.put(&format!("/v1/schedules/{name}"), body).await.is(200);
        put("nightly", json!({ "cron": "0 2 * * *", "job": job("mail") })).await;
        put("often", json!({ "cron": "* * * * *", "job": job("other") })).await;
        put("paused", json!({ "cron": "0 3 * * *", "job": job("mail") })).await;
        bed.post("/v1/schedules/paused/pause", json!({})).await.is(200);
        let path = "/v1/calendar?from=2031-01-01T02:00:00Z&to=2031-01-02T02:00:00Z";
        let day = bed.get(path).await.is(200);
        assert_eq!(day["complete"], true);
        let [nightly, often] = day["schedules"].as_array().expect("two").as_slice() else { panic!("{day}") };
        assert_eq!(
            nightly["slots"],
            json!(["2031-01-01T02:00:00Z"]),
            "the beginning counts, the end does not"
        );
        assert_eq!((&often["count"], &often["slots"]), (&json!(1440), &json!([])));
        assert_eq!(often["hours"].as_array().expect("hours").len(), 24);
        assert_eq!(often["hours"][0], json!({ "at": "2031-01-01T02:00:00Z", "count": 60 }));
        let far = bed.get("/v1/calendar?from=2031-01-01T00:00:00Z&to=2031-03-01T00:00:00Z").await;
        far.refused(422, "invalid");
        bed.get("/v1/calendar?from=2031-01-02T00:00:00Z&to=2031-01-01T00:00:00Z")
            .await
            .refused(422, "invalid");
        let month = bed.get("/v1/calendar?from=2031-01-01T00:00:00Z&to=2031-02-05T00:00:00Z").await.is(200);
        assert_eq!((&month["schedules"][1]["count"], &month["complete"]), (&json!(19_965), &json!(false)));
    }
}
