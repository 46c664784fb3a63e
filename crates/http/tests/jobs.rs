//! Jobs in and out: enqueueing, lists, one job, its log.

mod bed;

use bed::{Bed, Place, beds};
use reqwest::Method;
use serde_json::{Value, json};
use windlass_core::JobId;
use windlass_core::limits::Limits;
use windlass_store::{Limited, Purge};

fn id_of(answer: &Value) -> String {
    answer["job"]["id"].as_str().expect("an id").to_owned()
}

/// T1, T10: everything that can be said of a job is read back.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_read_back_as_it_was_sent() {
    for bed in beds().await {
        let body = json!({
            "kind": "mail.send", "queue": "mail", "payload": { "b": 1, "a": [1.50, null] }, "priority": 3,
            "run_at": "2030-01-01T00:00:00Z", "max_retries": 7, "timeout": "90s", "lease": 45, "grace": "2s",
            "backoff": { "base": "1s", "max": "1m", "multiplier": 3, "jitter": false },
            "agent_id": "ann", "metadata": { "trace": "t1" }, "tags": ["a", "b"],
        });
        let answer = bed.post("/v1/jobs", body).await.is(201);
        assert_eq!(answer["existed"], false);
        let job = &answer["job"];
        for (field, expected) in [
            ("kind", json!("mail.send")),
            ("queue", json!("mail")),
            ("status", json!("pending")),
            ("payload", json!({ "b": 1, "a": [1.50, null] })),
            ("priority", json!(3)),
            ("due_at", json!("2030-01-01T00:00:00Z")),
            ("max_retries", json!(7)),
            ("timeout", json!(90)),
            ("agent_id", json!("ann")),
            ("metadata", json!({ "trace": "t1" })),
            ("tags", json!(["a", "b"])),
            ("version", json!(1)),
            ("attempt", json!(0)),
            ("progress", json!(0)),
            ("stage", Value::Null),
            ("finished_at", Value::Null),
            ("parent_id", Value::Null),
        ] {
            assert_eq!(job[field], expected, "{field} on {}", bed.place.name);
        }
        assert_eq!(job["blocked"]["reason"], "not_due");
        assert!(job.get("lease").is_none() && job.get("result").is_none() && job.get("error").is_none());
        assert_eq!(bed.job(&id_of(&answer)).await, *job);
        let events = bed.get(&format!("/v1/jobs/{}/events", id_of(&answer))).await.is(200);
        let detail = &events["events"][0]["detail"];
        assert_eq!((&detail["lease"], &detail["grace"]), (&json!(45), &json!(2)));
        assert_eq!(detail["backoff"], json!({ "base": 1, "max": 60, "multiplier": 3.0, "jitter": false }));
        assert_eq!(detail["run_at"], "2030-01-01T00:00:00Z");
    }
}

/// Q2: bytes come back unchanged, as JSON or as base64.
#[tokio::test(flavor = "multi_thread")]
async fn payloads_pass_unchanged() {
    for bed in beds().await {
        let odd = r#"{"b": 1.0,  "a":"\u0000", "b":2,"big":123456789012345678901234567890}"#;
        let body = format!(r#"{{"kind":"work","payload":{odd}}}"#);
        let request =
            bed.request(reqwest::Method::POST, "/v1/jobs").header("content-type", "application/json");
        let answer = bed::Answer::of(request.body(body).send().await.unwrap()).await;
        assert!(answer.text.contains(odd), "{}", answer.text);
        let id = id_of(&answer.is(201));
        assert!(bed.get(&format!("/v1/jobs/{id}")).await.text.contains(odd));
        assert!(bed.get(&format!("/v1/jobs/{id}/events")).await.text.contains(odd));
        let bytes = bed.post("/v1/jobs", json!({ "kind": "work", "payload_base64": "AP+A" })).await.is(201);
        assert_eq!(bytes["job"]["payload_base64"], "AP+A");
        assert!(bytes["job"].get("payload").is_none());
        let none = bed.post("/v1/jobs", json!({ "kind": "work" })).await.is(201);
        assert_eq!(none["job"]["payload"], Value::Null);
        assert_eq!(none["job"]["queue"], "default");
        assert_eq!(none["job"]["max_retries"], 3);
    }
}

/// Q11, T3: duplicates answer the first one.
#[tokio::test(flavor = "multi_thread")]
async fn duplicates_answer_the_first_job() {
    for bed in beds().await {
        let id = "01890000-0000-7000-8000-000000000001";
        let body = json!({ "kind": "work", "id": id, "payload": 1 });
        assert_eq!(id_of(&bed.post("/v1/jobs", body.clone()).await.is(201)), id);
        let again = bed.post("/v1/jobs", body).await.is(200);
        assert_eq!((&again["existed"], &again["payload_differs"]), (&json!(true), &json!(false)));
        bed.post("/v1/jobs", json!({ "kind": "work", "id": id, "payload": 2 }))
            .await
            .refused(409, "job_exists");

        let keyed = |payload: i64| json!({ "kind": "work", "unique": { "key": "k" }, "payload": payload });
        let first = id_of(&bed.post("/v1/jobs", keyed(1)).await.is(201));
        let second = bed.post("/v1/jobs", keyed(2)).await.is(200);
        assert_eq!((id_of(&second), &second["payload_differs"]), (first.clone(), &json!(true)));
        let by_payload =
            json!({ "kind": "sum", "unique": { "by": "payload", "policy": "active" }, "payload": [1] });
        let first = id_of(&bed.post("/v1/jobs", by_payload.clone()).await.is(201));
        assert_eq!(id_of(&bed.post("/v1/jobs", by_payload.clone()).await.is(200)), first);
        bed.post(&format!("/v1/jobs/{first}/cancel"), json!({})).await.is(200);
        assert_ne!(
            id_of(&bed.post("/v1/jobs", by_payload).await.is(201)),
            first,
            "a cancelled one frees its key"
        );
        let ttl = json!({ "kind": "work", "unique": { "key": "t", "ttl": "1h", "scope": "kind" } });
        bed.post("/v1/jobs", ttl.clone()).await.is(201);
        bed.post("/v1/jobs", ttl).await.is(200);
        for bad in [json!({}), json!({ "key": "a", "by": "payload" }), json!({ "key": "a", "policy": "ttl" })]
        {
            bed.post("/v1/jobs", json!({ "kind": "work", "unique": bad })).await.refused(422, "invalid");
        }
    }
}

/// (http) The same key means the same request.
#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_creates_once() {
    for bed in beds().await {
        let body = json!({ "kind": "work", "payload": 1 });
        let first = bed.post_once("k1", "/v1/jobs", &body).await.is(201);
        let again = bed.post_once("k1", "/v1/jobs", &body).await.is(201);
        assert_eq!(id_of(&first), id_of(&again));
        let other = json!({ "kind": "work", "payload": 2 });
        bed.post_once("k1", "/v1/jobs", &other).await.refused(422, "idempotency_key_reused");
        assert_ne!(id_of(&bed.post_once("k2", "/v1/jobs", &body).await.is(201)), id_of(&first));
        let batch = json!({ "jobs": [body, other] });
        let many = bed.post_once("k3", "/v1/jobs/batch", &batch).await.is(201);
        assert_eq!(bed.post_once("k3", "/v1/jobs/batch", &batch).await.is(201), many);
        bed.post_once("k3", "/v1/jobs", &batch["jobs"][0]).await.refused(422, "idempotency_key_reused");
        let jobs = bed.get("/v1/jobs?limit=100").await.is(200);
        assert_eq!(
            jobs["jobs"].as_array().unwrap().len(),
            4,
            "one, one more by another key, and two by the batch"
        );
        let long = "k".repeat(256);
        bed.post_once(&long, "/v1/jobs", &json!({ "kind": "work" })).await.refused(422, "invalid");
        many_at_once(&bed).await;
    }
}

/// Racing requests with one key create one job.
async fn many_at_once(bed: &Bed) {
    let body = json!({ "kind": "race" });
    let racing = (0..16).map(|_| bed.post_once("race", "/v1/jobs", &body));
    let answers = futures_util::future::join_all(racing).await;
    let ids: std::collections::BTreeSet<_> =
        answers.into_iter().map(|answer| id_of(&answer.is(201))).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let raced = bed.get("/v1/jobs?kind=race").await.is(200);
    assert_eq!(raced["jobs"].as_array().map(Vec::len), Some(1));
}

/// (http) All or none, and the bad one is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_all_or_none() {
    for bed in beds().await {
        let jobs: Vec<_> = (0..500).map(|n| json!({ "kind": "bulk", "payload": n })).collect();
        let answer = bed.post("/v1/jobs/batch", json!({ "jobs": jobs })).await.is(201);
        assert_eq!(answer["results"].as_array().unwrap().len(), 500);
        assert_eq!(answer["results"][7]["existed"], false);
        let bad = json!({ "jobs": [{ "kind": "none" }, { "kind": "none", "priority": 9 }] });
        let problem = bed.post("/v1/jobs/batch", bad).await.refused(422, "invalid");
        assert_eq!((&problem["index"], &problem["field"]), (&json!(1), &json!("priority")));
        let bad = json!({ "jobs": [{ "kind": "none" }, { "kind": "no ne" }] });
        assert_eq!(bed.post("/v1/jobs/batch", bad).await.refused(422, "invalid")["index"], 1);
        let bad = json!({ "jobs": [{ "kind": "none" }, { "kid": "none" }] });
        assert_eq!(
            bed.post("/v1/jobs/batch", bad).await.refused(422, "unknown_field")["field"],
            "jobs[1].kid"
        );
        assert_eq!(bed.get("/v1/jobs?kind=none").await.is(200)["jobs"], json!([]));
        let parent = bed.put_job(json!({})).await;
        let lost = "01890000-0000-7000-8000-000000000009";
        bed.post("/v1/jobs", json!({ "kind": "child", "parent_id": lost }))
            .await
            .refused(422, "parent_not_found");
        let child = bed.put_job(json!({ "kind": "child", "parent_id": parent })).await;
        let children = bed.get(&format!("/v1/jobs?parent_id={parent}")).await.is(200);
        assert_eq!(children["jobs"][0]["id"], child);
    }
}

/// (http) Every bad value is a clear refusal, and nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn bad_values_are_named() {
    for bed in beds().await {
        for (body, code, field) in [
            (json!({}), "invalid", "kind"),
            (json!({ "kind": "" }), "invalid", "kind"),
            (json!({ "kind": "a b" }), "invalid", "kind"),
            (json!({ "kind": 7 }), "invalid", "kind"),
            (json!({ "kind": "a", "kinds": 1 }), "unknown_field", "kinds"),
            (json!({ "kind": "a", "queue": "x/y" }), "invalid", "queue"),
            (json!({ "kind": "a", "id": "nope" }), "invalid", "id"),
            (json!({ "kind": "a", "id": "6ba7b810-9dad-41d1-80b4-00c04fd430c8" }), "invalid", "id"),
            (json!({ "kind": "a", "priority": 6 }), "invalid", "priority"),
            (json!({ "kind": "a", "priority": "high" }), "invalid", "priority"),
            (json!({ "kind": "a", "run_at": "tomorrow" }), "invalid", "run_at"),
            (json!({ "kind": "a", "run_at": "2990-01-01T00:00:00Z" }), "invalid", "run_at"),
            (json!({ "kind": "a", "delay": -1 }), "invalid", "delay"),
            (json!({ "kind": "a", "run_at": "2030-01-01T00:00:00Z", "delay": 1 }), "invalid", "run_at"),
            (json!({ "kind": "a", "max_retries": 101 }), "invalid", "max_retries"),
            (json!({ "kind": "a", "timeout": -1 }), "invalid", "timeout"),
            (json!({ "kind": "a", "lease": "25h" }), "invalid", "lease"),
            (json!({ "kind": "a", "lease": 0.5 }), "invalid", "lease"),
            (json!({ "kind": "a", "tags": ["x y"] }), "invalid", "tags"),
            (json!({ "kind": "a", "tags": vec!["t"; 17] }), "invalid", "tags"),
            (json!({ "kind": "a", "metadata": [] }), "invalid", "metadata"),
            (json!({ "kind": "a", "metadata": { "x": "y".repeat(17_000) } }), "invalid", "metadata"),
            (json!({ "kind": "a", "payload": "y".repeat(1 << 20) }), "invalid", "payload"),
            (json!({ "kind": "a", "backoff": { "multiplier": 0.5 } }), "invalid", "backoff.multiplier"),
            (json!({ "kind": "a", "backoff": { "factor": 2 } }), "unknown_field", "backoff.factor"),
            (json!({ "kind": "a", "lease_token": "0".repeat(32) }), "invalid", "lease_token"),
            (json!([]), "invalid", "body"),
            (json!(["a"]), "invalid", "body"),
            (json!({ "kind": "a", "backoff": [1] }), "invalid", "backoff"),
            (json!({ "kind": "a", "unique": ["key"] }), "invalid", "unique"),
        ] {
            let problem = bed.post("/v1/jobs", body.clone()).await.refused(422, code);
            assert_eq!(problem["field"], field, "{body}: {problem}");
        }
        let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
        let body = format!(r#"{{"kind":"a","payload":{deep}}}"#);
        for (body, status, code) in [
            (body.as_str(), 422, "invalid"),
            ("{\"kind\":", 400, "malformed_json"),
            ("{\"kind\":\"a\"}{}", 400, "malformed_json"),
        ] {
            let request =
                bed.request(reqwest::Method::POST, "/v1/jobs").header("content-type", "application/json");
            bed::Answer::of(request.body(body.to_owned()).send().await.unwrap()).await.refused(status, code);
        }
        assert_eq!(bed.get("/v1/jobs").await.is(200)["jobs"], json!([]));
    }
}

/// T3, Q11: a duplicate of a job that was removed is told how that job ended, and so is a reader of its id.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_job_is_explained_by_its_key() {
    for bed in beds().await {
        let keyed = json!({ "kind": "work", "unique": { "key": "k", "policy": "forever" } });
        let id = id_of(&bed.post("/v1/jobs", keyed.clone()).await.is(201));
        let kept = id_of(&bed.post("/v1/jobs", json!({ "kind": "work" })).await.is(201));
        for id in [&id, &kept] {
            bed.post(&format!("/v1/jobs/{id}/cancel"), json!({})).await.is(200);
        }
        let jobs = [&id, &kept].map(|id| (JobId::parse(id).unwrap(), 2)).to_vec();
        assert_eq!(
            bed.place.store.purge(Purge { jobs, archive: None }, None).await,
            Ok(vec![Ok(()), Ok(())])
        );
        let again = bed.post("/v1/jobs", keyed.clone()).await.is(200);
        assert_eq!((id_of(&again), &again["existed"]), (id.clone(), &json!(true)));
        assert_eq!(again["outcome"], "cancelled");
        for path in ["", "/events"] {
            let gone = bed.get(&format!("/v1/jobs/{id}{path}")).await.refused(410, "job_purged");
            assert_eq!(gone["job_status"], "cancelled");
        }
        bed.get(&format!("/v1/jobs/{kept}")).await.refused(404, "not_found");
        let many = bed.post("/v1/jobs/batch", json!({ "jobs": [keyed] })).await.is(201);
        assert_eq!((&many["results"][0]["id"], &many["results"][0]["existed"]), (&json!(id), &json!(true)));
    }
}

/// Q15: limits are the server's settings; a timeout of 0 is none; leases last from a second to a day.
#[tokio::test(flavor = "multi_thread")]
async fn limits_are_settings_and_are_named_when_passed() {
    let limits = Limits { payload_bytes: 20, result_bytes: 10, max_retries: 3 };
    for place in [Place::memory(), Place::sqlite()] {
        let (place, _) = place.around(|store| Limited::new(store, limits));
        let bed = place.serve().await;
        let sent = |more: Value| {
            let mut body = json!({ "kind": "a" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            bed.post("/v1/jobs", body)
        };
        let told = sent(json!({ "payload": "y".repeat(19) })).await.refused(422, "invalid");
        assert_eq!((&told["field"], &told["value"]), (&json!("payload"), &json!("21 bytes")));
        assert!(told["limit"].as_str().unwrap().starts_with("at most 20 bytes"), "{told}");
        assert_eq!(sent(json!({ "max_retries": 4 })).await.refused(422, "invalid")["field"], "max_retries");
        for lease in [json!(0.999), json!("25h"), json!(0), json!(86_401)] {
            let told = sent(json!({ "lease": lease })).await.refused(422, "invalid");
            assert_eq!(
                (&told["field"], &told["limit"]),
                (&json!("lease"), &json!("must be between 1 s and 24 h"))
            );
            let claim = json!({ "queues": ["default"], "worker_id": "w", "lease": lease });
            assert_eq!(bed.post("/v1/claim", claim).await.refused(422, "invalid")["field"], "lease");
        }
        bed.request(Method::PUT, "/v1/queues/default")
            .json(&json!({ "timeout": "5s" }))
            .send()
            .await
            .unwrap();
        let none = sent(json!({ "timeout": 0, "max_retries": 2, "payload": "y".repeat(18) })).await.is(201);
        assert_eq!(none["job"]["timeout"], Value::Null, "none, although the queue has one");
        let usual = sent(json!({})).await.is(201);
        assert_eq!(usual["job"]["timeout"], 5);
        let claim = json!({ "queues": ["default"], "worker_id": "w" });
        let held = bed.post("/v1/claim", claim).await.is(200)["jobs"][0].clone();
        let path = format!("/v1/jobs/{}/complete", held["id"].as_str().unwrap());
        let complete = |result: &str| {
            let body = json!({ "lease_token": held["lease"]["token"], "result": result });
            bed.post(&path, body)
        };
        assert_eq!(complete("123456789").await.refused(422, "invalid")["field"], "result");
        complete("12345678").await.is(200);
    }
}

/// (http) Pages are walked by opaque cursors; filters and their refusals.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_walked_by_cursors() {
    for bed in beds().await {
        let jobs: Vec<_> = (0..25)
            .map(|n| json!({ "kind": if n % 2 == 0 { "even" } else { "odd" }, "tags": ["t"], "agent_id": "ann" }))
            .collect();
        bed.post("/v1/jobs/batch", json!({ "jobs": jobs })).await.is(201);
        let (mut seen, mut cursor, mut pages) = (std::collections::BTreeSet::new(), String::new(), 0);
        loop {
            let page = bed.get(&format!("/v1/jobs?limit=10&tag=t{cursor}")).await.is(200);
            for job in page["jobs"].as_array().unwrap() {
                assert!(seen.insert(job["id"].as_str().unwrap().to_owned()), "no row twice");
                assert!(job.get("payload").is_none(), "lists carry no payloads");
            }
            pages += 1;
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!((seen.len(), pages), (25, 3));
        let count = async |query: &str| {
            bed.get(&format!("/v1/jobs?limit=1000&{query}")).await.is(200)["jobs"].as_array().unwrap().len()
        };
        assert_eq!(count("kind=even").await, 13);
        assert_eq!(count("kind=even&agent_id=ann&status=pending,running").await, 13);
        assert_eq!(count("status=pending&status=retry&queue=default").await, 25);
        assert_eq!(count("dead=true").await, 0);
        assert_eq!(count("created_after=2020-01-01T00:00:00Z").await, 25);
        assert_eq!(count("created_before=2020-01-01T00:00:00Z").await, 0);
        for (query, code) in [
            ("limit=0", "invalid"),
            ("limit=1001", "invalid"),
            ("limit=ten", "invalid"),
            ("status=done", "invalid"),
            ("cursor=nonsense", "invalid"),
            ("kind=a%20b", "invalid"),
            ("created_after=soon", "invalid"),
            ("parent_id=1", "invalid"),
            ("dead=maybe", "invalid"),
            ("kind=a&kind=b", "invalid"),
            ("kinds=a", "unknown_field"),
        ] {
            bed.get(&format!("/v1/jobs?{query}")).await.refused(422, code);
        }
    }
}

/// J3, J4, J11: a job's log in pages, and the job as it stood.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_paged_and_a_job_is_shown_as_it_stood() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let progress = json!({ "lease_token": token, "progress": 40, "stage": "half", "metadata": { "a": 1 },
            "checkpoint": { "at": 7 } });
        bed.post(&format!("/v1/jobs/{id}/progress"), progress).await.is(200);
        bed.post(&format!("/v1/jobs/{id}/complete"), json!({ "lease_token": token, "result": [1] }))
            .await
            .is(200);
        let types = async |query: &str| -> Vec<String> {
            let page = bed.get(&format!("/v1/jobs/{id}/events?{query}")).await.is(200);
            page["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|e| e["type"].as_str().unwrap().to_owned())
                .collect()
        };
        let all = ["job_created", "job_claimed", "job_progressed", "job_completed"];
        assert_eq!(types("").await, all);
        assert_eq!(types("after=1&limit=2").await, all[1..3]);
        assert_eq!(types("order=desc&limit=1").await, all[3..]);
        assert_eq!(types("order=desc&after=3").await, ["job_claimed", "job_created"]);
        assert_eq!(bed.get(&format!("/v1/jobs/{id}/events?limit=2")).await.is(200)["next_after"], 2);
        let at = async |version: i64| bed.get(&format!("/v1/jobs/{id}?at_version={version}")).await.is(200);
        assert_eq!(at(1).await["status"], "pending");
        let third = at(3).await;
        assert_eq!((&third["status"], &third["progress"]), (&json!("running"), &json!(40)));
        assert_eq!((&third["checkpoint"], &third["metadata"]), (&json!({ "at": 7 }), &json!({ "a": 1 })));
        let (last, now) = (at(4).await, bed.job(&id).await);
        assert_eq!((&last["result"], &last["status"]), (&json!([1]), &json!("completed")));
        assert_eq!(last["finished_at"], now["finished_at"]);
        bed.get(&format!("/v1/jobs/{id}?at_version=0")).await.refused(422, "invalid");
        bed.get(&format!("/v1/jobs/{id}?at_version=5")).await.refused(422, "invalid");
        bed.get(&format!("/v1/jobs/{id}/events?order=up")).await.refused(422, "invalid");
        let lost = "01890000-0000-7000-8000-000000000009";
        bed.get(&format!("/v1/jobs/{lost}")).await.refused(404, "not_found");
        bed.get(&format!("/v1/jobs/{lost}/events")).await.refused(404, "not_found");
        bed.get(&format!("/v1/jobs/{lost}/logs")).await.refused(404, "not_found");
        bed.get("/v1/jobs/7").await.refused(422, "invalid");
        bed.get("/v1/job").await.refused(404, "route_not_found");
        let wrong = bed.delete(&format!("/v1/jobs/{id}")).await;
        assert_eq!(wrong.headers["allow"], "GET");
        wrong.refused(405, "method_not_allowed");
    }
}

/// J2, J5: appending, guarded by version, key and type.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_appended() {
    for bed in beds().await {
        let id = bed.put_job(json!({})).await;
        let path = format!("/v1/jobs/{id}/events");
        let note = bed.post(&path, json!({ "type": "plan_generated", "payload": { "n": 1 } })).await.is(201);
        assert_eq!((&note["version"], note.get("replayed")), (&json!(2), None));
        let stale = bed.post(&path, json!({ "type": "note", "expected_version": 1 })).await;
        assert_eq!(stale.refused(409, "version_mismatch")["current_version"], 2);
        bed.post(&path, json!({ "type": "note", "expected_version": 2, "key": "k" })).await.is(201);
        let again =
            bed.post(&path, json!({ "type": "note", "expected_version": 2, "key": "k" })).await.is(200);
        assert_eq!((&again["version"], &again["replayed"]), (&json!(3), &json!(true)));
        bed.post(&path, json!({ "type": "other", "key": "k" })).await.refused(409, "key_reused");
        bed.post(&path, json!({ "type": "job_completed" })).await.refused(422, "event_type_reserved");
        bed.post(&path, json!({ "type": "node_started" })).await.refused(422, "lease_required");
        let once = json!({ "type": "note", "payload": 1 });
        let first = bed.post_once("a", &path, &once).await.is(201);
        let again = bed.post_once("a", &path, &once).await.is(200);
        assert_eq!((&again["version"], &again["replayed"]), (&first["version"], &json!(true)));
        let other = json!({ "type": "note", "payload": 2 });
        bed.post_once("a", &path, &other).await.refused(422, "idempotency_key_reused");
        let large = json!({ "type": "note", "payload": "x".repeat(65 << 10) });
        assert_eq!(bed.post(&path, large).await.refused(422, "invalid")["field"], "payload");
        let racing = (0..8).map(|_| bed.post(&path, json!({ "type": "race", "expected_version": 4 })));
        let answers = futures_util::future::join_all(racing).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "exactly one wins");
        assert_eq!(answers.iter().filter(|answer| answer.status == 409).count(), 7);
    }
}
