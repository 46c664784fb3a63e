//! Operations on many jobs, saved views and marks, over HTTP.

mod bed;

use bed::{Place, beds, until};
use serde_json::{Value, json};
use windlass_core::Role;

/// Q12: held, then carried out by the leader; shown while it goes on; stopped in its hold it did nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_held_watched_and_stopped() {
    for place in [Place::memory(), Place::sqlite()] {
        let bed = place.serve_with(|server| server.schedules(true)).await;
        let mut jobs = Vec::new();
        for _ in 0..5 {
            jobs.push(bed.put_job(json!({ "queue": "mail" })).await);
        }
        let wish = |hold: &str| json!({ "filter": { "queue": "mail" }, "action": "cancel", "dry_run": false, "reason": "old", "hold": hold });
        let held = bed.post("/v1/bulk", wish("1h")).await.is(202);
        assert_eq!((&held["phase"], &held["done"], &held["by"]), (&json!("held"), &json!(0), &held["by"]));
        let path = format!("/v1/operations/{}", held["id"].as_str().expect("an id"));
        assert_eq!(bed.get(&path).await.is(200), held);
        let stopped = bed.post(&format!("{path}/stop"), json!({})).await.is(200);
        assert_eq!((&stopped["phase"], &stopped["done"]), (&json!("stopped"), &json!(0)));
        assert_eq!(bed.post(&format!("{path}/stop"), json!({})).await.is(200), stopped, "a repeat");
        for job in &jobs {
            assert_eq!(bed.job(job).await["version"], 1, "as it was");
        }
        let begun = bed.post("/v1/bulk", wish("0s")).await.is(202);
        let path = format!("/v1/operations/{}", begun["id"].as_str().expect("an id"));
        until("it is done", async || bed.get(&path).await.is(200)["phase"] == "done").await;
        let done = bed.get(&path).await.is(200);
        assert_eq!((&done["matched"], &done["done"], &done["skipped"]), (&json!(5), &json!(5), &json!(0)));
        assert_eq!(bed.job(&jobs[0]).await["status"], "cancelled");
        let listed = bed.get("/v1/operations").await.is(200);
        let phases: Vec<&Value> =
            listed["operations"].as_array().expect("all").iter().map(|one| &one["phase"]).collect();
        assert_eq!(phases, ["done", "stopped"], "the latest first");
        let page = bed.get("/v1/operations?limit=1").await.is(200);
        let more = format!("/v1/operations?cursor={}", page["next_cursor"].as_str().expect("more"));
        assert_eq!(bed.get(&more).await.is(200)["operations"][0]["phase"], "stopped");
        let audit = bed.get("/v1/audit").await.is(200);
        let actions: Vec<&Value> =
            audit["entries"].as_array().expect("all").iter().map(|entry| &entry["action"]).collect();
        let by_people: Vec<_> = actions.into_iter().filter(|action| **action != "leader.change").collect();
        assert_eq!(by_people, ["bulk.cancel", "operation.stop", "bulk.cancel"]);
        bed.get("/v1/operations/nobody").await.refused(404, "not_found");
        bed.post("/v1/bulk", wish("25h")).await.refused(422, "invalid");
        let dry = json!({ "filter": {}, "action": "cancel", "dry_run": true, "hold": "1s" });
        assert_eq!(bed.post("/v1/bulk", dry).await.is(200)["done"], 0, "a dry run begins nothing");
    }
}

/// Q12: jobs that are named, at once or as an operation; one that is not there is refused before anything is done.
#[tokio::test(flavor = "multi_thread")]
async fn named_jobs_are_acted_on() {
    for bed in beds().await {
        let (one, two) = (bed.put_job(json!({})).await, bed.put_job(json!({})).await);
        let missing = json!(["01890000-0000-7000-8000-000000000009", one]);
        let wish = |ids: &Value, dry: bool| json!({ "ids": ids, "action": "cancel", "dry_run": dry });
        bed.post("/v1/bulk", wish(&missing, false)).await.refused(404, "not_found");
        assert_eq!(bed.post("/v1/bulk", wish(&json!([one]), true)).await.is(200)["matched"], 1);
        assert_eq!(bed.job(&one).await["version"], 1);
        assert_eq!(bed.post("/v1/bulk", wish(&json!([one]), false)).await.is(200)["done"], 1);
        let again = bed.post("/v1/bulk", wish(&json!([one, two]), false)).await.is(200);
        assert_eq!((&again["matched"], &again["done"]), (&json!(1), &json!(1)), "one has ended before");
        for bad in [
            json!({ "action": "cancel", "dry_run": true }),
            json!({ "ids": [], "action": "cancel", "dry_run": true }),
            json!({ "ids": [one], "filter": {}, "action": "cancel", "dry_run": true }),
        ] {
            bed.post("/v1/bulk", bad).await.refused(422, "invalid");
        }
    }
}

/// R10: a key for some queues sees, makes and stops operations of these, and no others; it has no views and no marks.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_some_queues_has_operations_of_these() {
    for bed in beds().await {
        let other = bed.put_job(json!({ "queue": "other" })).await;
        let begin =
            |filter: Value| json!({ "filter": filter, "action": "cancel", "dry_run": false, "hold": "1h" });
        let mine = bed.post("/v1/bulk", begin(json!({ "queue": "mail" }))).await.is(202);
        let all = bed.post("/v1/bulk", begin(json!({}))).await.is(202);
        let mails = bed.make_key("mails", &[Role::Operator, Role::Viewer], Some(&["mail"])).await;
        until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
        let bed = bed.with_key(Some(mails));
        let seen = bed.get("/v1/operations").await.is(200);
        assert_eq!(seen["operations"], json!([mine]));
        let stop = |one: &Value| format!("/v1/operations/{}/stop", one["id"].as_str().expect("an id"));
        bed.post(&stop(&all), json!({})).await.refused(404, "not_found");
        assert_eq!(bed.post(&stop(&mine), json!({})).await.is(200)["phase"], "stopped");
        bed.post("/v1/bulk", begin(json!({}))).await.refused(403, "queue_forbidden");
        let foreign = json!({ "ids": [other], "action": "cancel", "dry_run": false, "hold": "1h" });
        let refused = bed.post("/v1/bulk", foreign).await;
        assert!([403, 404].contains(&refused.status), "{}", refused.text);
        bed.get("/v1/views").await.refused(403, "queue_forbidden");
        bed.put("/v1/views/v", json!({ "filter": {} })).await.refused(403, "queue_forbidden");
        bed.get("/v1/marks").await.refused(403, "queue_forbidden");
        bed.post("/v1/marks", json!({ "text": "x" })).await.refused(403, "queue_forbidden");
    }
}

/// (views, marks) Saved, shown, changed under a version, removed, each on record.
#[tokio::test(flavor = "multi_thread")]
async fn views_and_marks_are_kept() {
    for bed in beds().await {
        let filter = json!({ "queue": "mail", "status": "failed" });
        let made = bed.put("/v1/views/dead%20mail", json!({ "filter": filter })).await;
        assert_eq!(made.status, 422, "a name has no spaces: {}", made.text);
        let made = bed.put("/v1/views/dead-mail", json!({ "filter": filter })).await.is(200);
        assert_eq!((&made["version"], &made["filter"]), (&json!(1), &filter));
        bed.put("/v1/views/a", json!({ "filter": {} })).await.is(200);
        let stale = json!({ "filter": {}, "expected_version": 0 });
        bed.put("/v1/views/dead-mail", stale).await.refused(409, "version_mismatch");
        bed.put("/v1/views/b", json!({ "filter": { "a": 1 } })).await.refused(422, "invalid");
        let all = bed.get("/v1/views").await.is(200);
        let names: Vec<&Value> =
            all["views"].as_array().expect("all").iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["a", "dead-mail"]);
        assert_eq!(bed.delete("/v1/views/a").await.is(200)["removed"], "a");
        bed.delete("/v1/views/a").await.refused(404, "not_found");
        let old = json!({ "text": "deploy 1", "at": "2026-01-01T00:00:00Z" });
        let old = bed.post("/v1/marks", old).await.is(201);
        assert_eq!(old["at"], "2026-01-01T00:00:00Z");
        let new = bed.post("/v1/marks", json!({ "text": "deploy 2" })).await.is(201);
        assert_eq!(bed.get("/v1/marks").await.is(200)["marks"], json!([new, old]));
        assert_eq!(bed.get("/v1/marks?from=-1h").await.is(200)["marks"], json!([new]));
        assert_eq!(bed.get("/v1/marks?to=-1h").await.is(200)["marks"], json!([old]));
        for bad in ["", "a\nb", &"x".repeat(201)] {
            bed.post("/v1/marks", json!({ "text": bad })).await.refused(422, "invalid");
        }
        let path = format!("/v1/marks/{}", old["id"].as_str().expect("an id"));
        bed.delete(&path).await.is(200);
        let audit = bed.get("/v1/audit").await.is(200);
        let actions: Vec<&Value> =
            audit["entries"].as_array().expect("all").iter().rev().map(|entry| &entry["action"]).collect();
        assert_eq!(actions, ["view.put", "view.put", "view.remove", "mark.put", "mark.put", "mark.remove"]);
    }
}
