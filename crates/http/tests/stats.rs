//! Stats and problems as their users see them: bounded, by role and by queue, in one answer.

mod bed;

use bed::{Bed, Place, Running, until};
use serde_json::{Value, json};
use windlass_core::Role;

/// Servers that lead, over two stores.
async fn beds() -> [Bed; 2] {
    let leads = |server: windlass_http::Server| server.schedules(true);
    [Place::memory().serve_with(leads).await, Place::sqlite().serve_with(leads).await]
}

/// Fails a job of a queue and kind with each of these messages.
async fn fail(bed: &Bed, queue: &str, kind: &str, messages: &[&str]) {
    for message in messages {
        let job = bed.put_job(json!({ "kind": kind, "queue": queue, "max_retries": 0 })).await;
        let token = bed.hold(&job).await;
        let error = json!({ "code": "smtp", "message": message });
        bed.post(&format!("/v1/jobs/{job}/fail"), json!({ "lease_token": token, "error": error }))
            .await
            .is(200);
    }
}

fn sum(stats: &Value, outcome: &str) -> i64 {
    let series = stats["series"].as_array().expect("series").iter();
    let points = series.flat_map(|one| one["points"].as_array().expect("points"));
    points.filter_map(|point| point["counts"][outcome].as_i64()).sum()
}

/// (stats) What happened is counted by queue and kind, with times, and answered within bounds.
#[tokio::test(flavor = "multi_thread")]
async fn what_happened_is_counted_and_asked_for_within_bounds() {
    for bed in beds().await {
        fail(&bed, "mail", "send", &["no 1", "no 2"]).await;
        fail(&bed, "bulk", "send", &["no 3"]).await;
        until("all of it is counted", async || sum(&bed.get("/v1/stats").await.is(200), "failed") == 3).await;
        let stats = bed.get("/v1/stats?from=-10m&step=1m&by=queue").await.is(200);
        let of: Vec<&str> =
            stats["series"].as_array().unwrap().iter().filter_map(|one| one["queue"].as_str()).collect();
        assert_eq!(of, ["mail", "bulk"], "the largest first: {stats}");
        assert_eq!((stats["step"].clone(), stats["bounds"].as_array().unwrap().len()), (json!(60), 64));
        let point = &stats["series"][0]["points"][0];
        assert_eq!(point["counts"]["started"], point["wait"]["count"]);
        assert!(point["run"]["p95"].as_f64().is_some_and(|seconds| seconds > 0.0), "{point}");
        assert_eq!(sum(&bed.get("/v1/stats?queue=bulk").await.is(200), "failed"), 1);
        assert_eq!(sum(&bed.get("/v1/stats?kind=other").await.is(200), "failed"), 0);
        let by = bed.get("/v1/stats?by=outcome,kind").await.is(200);
        assert!(
            by["series"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["outcome"] == "failed" && one["kind"] == "send")
        );
        for wrong in ["from=0s&to=-1h", "step=1500ms", "from=-7d&step=1m", "from=-40h&step=1m", "by=worker"] {
            bed.get(&format!("/v1/stats?{wrong}")).await.refused(422, "invalid");
        }
        let now = bed.get("/v1/now").await.is(200);
        assert_eq!(
            (&now["statuses"]["failed"]["count"], &now["problems"]["count"]),
            (&json!(3), &json!(1)),
            "{now}"
        );
        assert!(now["as_of"].is_string() && now["workers"]["live"].is_i64() && now["queues"].is_array());
        let since = bed.post("/v1/stats/rebuild", json!({ "since": "-2h" })).await.is(202);
        assert!(since["since"].is_string(), "{since}");
        until("it is counted again", async || sum(&bed.get("/v1/stats").await.is(200), "failed") == 3).await;
    }
}

/// (stats) How queues stood is answered as the leader sampled it: by queue, and all together.
#[tokio::test(flavor = "multi_thread")]
async fn how_queues_stood_is_answered() {
    for bed in [Place::memory().serve().await, Place::sqlite().serve().await] {
        for _ in 0..3 {
            bed.put_job(json!({ "queue": "mail" })).await;
        }
        bed.put_job(json!({ "queue": "bulk" })).await;
        let held = bed.put_job(json!({ "queue": "mail" })).await;
        bed.hold(&held).await;
        let report = json!({ "queues": ["mail"], "capacity": 7, "ttl": "5m" });
        bed.put("/v1/workers/w2", report).await.is(200);
        let leads = Running::start(windlass_http::Server::new(bed.store().clone()).schedules(true)).await;
        let gauges = async |query: &str| {
            let stats = bed.get(&format!("/v1/stats?{query}")).await.is(200);
            let series = stats["series"].as_array().expect("series").clone();
            series.into_iter().map(|one| {
                let points = one["points"].as_array().expect("points").iter();
                let gauges =
                    points.map(|point| point["gauges"].clone()).find(Value::is_object).unwrap_or_default();
                (one["queue"].as_str().unwrap_or("all").to_owned(), gauges)
            })
        };
        until("a sample is there", async || {
            gauges("by=queue").await.filter(|one| one.1.is_object()).count() == 2
        })
        .await;
        let by_queue: std::collections::HashMap<_, _> = gauges("by=queue").await.collect();
        let numbers = |of: &Value| (of["depth"].clone(), of["busy"].clone(), of["capacity"].clone());
        assert_eq!(numbers(&by_queue["mail"]), (json!(3), json!(1), json!(7)));
        assert_eq!(numbers(&by_queue["bulk"]), (json!(1), json!(0), json!(0)));
        assert!(by_queue.values().all(|of| of["oldest"].as_f64().is_some_and(|seconds| seconds >= 0.0)));
        let (_, all) = gauges("").await.next().expect("one series");
        assert_eq!(numbers(&all), (json!(4), json!(1), json!(7)));
        let (_, one) = gauges("queue=bulk").await.next().expect("one series");
        assert_eq!(numbers(&one), (json!(1), json!(0), json!(0)));
        assert!(gauges("by=outcome").await.all(|one| one.1.is_null()), "a queue stands, an outcome does not");
        leads.shutdown.graceful();
    }
}

/// (problems) Errors that differ in numbers are one problem, which is resolved and opens again, and narrows lists of jobs.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_one_problem_and_jobs_are_found_by_it() {
    for bed in beds().await {
        fail(&bed, "mail", "send", &["order 1 lost", "order 22 lost", "quota of 9 reached"]).await;
        let listed = async || bed.get("/v1/problems").await.is(200)["problems"].as_array().unwrap().clone();
        until("both are there", async || {
            listed().await.iter().map(|one| one["dead"].as_i64().unwrap()).sum::<i64>() == 3
        })
        .await;
        let all = listed().await;
        assert_eq!(all.len(), 2, "{all:?}");
        let lost = all.iter().find(|one| one["message"] == "order # lost").expect("the problem");
        let fingerprint = lost["fingerprint"].as_str().unwrap();
        assert_eq!(
            (&lost["errors"], &lost["state"], &lost["code"]),
            (&json!(2), &json!("open"), &json!("smtp"))
        );
        assert_eq!(lost["hours"][0]["errors"], 2);
        let jobs = bed.get(&format!("/v1/jobs?dead=true&problem={fingerprint}")).await.is(200);
        assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2);
        let none = bed.get(&format!("/v1/jobs?kind=other&problem={fingerprint}")).await.is(200);
        assert_eq!(none["jobs"], json!([]));
        let path = format!("/v1/problems/{fingerprint}");
        assert_eq!(bed.put(&path, json!({ "state": "resolved" })).await.is(200)["state"], "resolved");
        let page = bed.get("/v1/problems?state=open&limit=1").await.is(200);
        assert_eq!(page["problems"][0]["message"], "quota of # reached");
        let cursor = page["next_cursor"].as_str().expect("a full page has one");
        assert_eq!(
            bed.get(&format!("/v1/problems?state=open&cursor={cursor}")).await.is(200)["problems"],
            json!([])
        );
        fail(&bed, "mail", "send", &["order 333 lost"]).await;
        until("it is open again", async || bed.get(&path).await.is(200)["reopened"] == 1).await;
        bed.put(&path, json!({ "state": "gone" })).await.refused(422, "invalid");
        bed.get("/v1/problems/0123456789abcdef").await.refused(404, "problem_not_found");
        bed.get("/v1/problems/x").await.refused(422, "invalid");
        bed.get("/v1/problems?cursor=x").await.refused(422, "invalid");
        bed.get("/v1/jobs?problem=0123456789abcdef").await.refused(404, "problem_not_found");
    }
}

/// (access) A key for some queues sees the stats of those, and neither problems nor how everything stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_some_queues_sees_the_stats_of_those() {
    for bed in beds().await {
        let admin = bed.make_key("root", &[Role::Admin], None).await;
        let some = bed.make_key("some", &[Role::Viewer], Some(&["mail"])).await;
        let bed = bed.with_key(Some(admin.clone()));
        fail(&bed, "mail", "send", &["no"]).await;
        fail(&bed, "bulk", "send", &["no"]).await;
        until("both are counted", async || sum(&bed.get("/v1/stats").await.is(200), "failed") == 2).await;
        // What is shared among those who may see everything is shared with nobody else.
        bed.get("/v1/now").await.is(200);
        let bed = bed.with_key(Some(some));
        assert_eq!(sum(&bed.get("/v1/stats").await.is(200), "failed"), 1);
        bed.get("/v1/stats?queue=bulk").await.refused(403, "queue_forbidden");
        for path in ["/v1/now", "/v1/problems", "/v1/problems/0123456789abcdef"] {
            bed.get(path).await.refused(403, "queue_forbidden");
        }
        let bed = bed.with_key(Some(admin));
        assert_eq!(sum(&bed.get("/v1/stats").await.is(200), "failed"), 2);
    }
}
