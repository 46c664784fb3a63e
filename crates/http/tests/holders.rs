//! What workers do: claim, renew, record, settle, wait.

mod bed;

use bed::{Bed, Place, beds, soon, until};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

async fn verb(bed: &Bed, id: &str, verb: &str, body: Value) -> bed::Answer {
    bed.post(&format!("/v1/jobs/{id}/{verb}"), body).await
}

/// J7: a claim hands out due jobs with all that their handler needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_hands_out_leases() {
    for bed in beds().await {
        let none = bed.post("/v1/claim", json!({ "queues": ["default"], "worker_id": "w1" })).await.is(200);
        assert_eq!(none, json!({ "jobs": [] }));
        let low = bed.put_job(json!({ "payload": { "n": 1 }, "metadata": { "m": 1 } })).await;
        let high = bed.put_job(json!({ "priority": 5 })).await;
        bed.put_job(json!({ "delay": "1h" })).await;
        bed.put_job(json!({ "queue": "other" })).await;
        let secret = "ab".repeat(32);
        let claim =
            json!({ "queues": ["default"], "worker_id": "w1", "secret": secret, "max": 10, "lease": "20s" });
        let claimed = bed.post("/v1/claim", claim.clone()).await.is(200);
        let jobs = claimed["jobs"].as_array().unwrap();
        assert_eq!(jobs.iter().map(|job| job["id"].as_str().unwrap()).collect::<Vec<_>>(), [&high, &low]);
        let job = &jobs[1];
        assert_eq!((&job["payload"], &job["metadata"]), (&json!({ "n": 1 }), &json!({ "m": 1 })));
        assert_eq!((&job["status"], &job["steps_recorded"]), (&json!("running"), &json!(0)));
        assert_eq!(job["lease"]["token"].as_str().unwrap().len(), 32);
        assert_eq!((&job["lease"]["attempt"], &job["lease"]["worker_id"]), (&json!(1), &json!("w1")));
        let again = bed.post("/v1/claim", claim).await.is(200);
        let tokens = |answer: &Value| -> std::collections::BTreeSet<String> {
            answer["jobs"].as_array().unwrap().iter().map(|job| job["lease"]["token"].to_string()).collect()
        };
        assert_eq!(tokens(&again), tokens(&claimed), "a repeat after a lost answer gets what it holds");
        let seen = bed.job(&low).await;
        assert_eq!(seen["lease"]["worker_id"], "w1");
        assert!(seen["lease"].get("token").is_none(), "nobody else sees the token");
        for bad in [
            json!({ "queues": [], "worker_id": "w" }),
            json!({ "queues": ["default"] }),
            json!({ "queues": ["default"], "worker_id": "w", "max": 1001 }),
            json!({ "queues": ["default"], "worker_id": "w", "max": 0 }),
            json!({ "queues": ["default"], "worker_id": "w", "wait": "61s" }),
            json!({ "queues": ["default"], "worker_id": "w", "lease": 0 }),
            json!({ "queues": ["default"], "worker_id": "w", "secret": "ab" }),
            json!({ "queues": ["default"], "worker_id": "a\nb" }),
        ] {
            bed.post("/v1/claim", bad).await.refused(422, "invalid");
        }
        verb(&bed, &low, "claim", json!({ "worker_id": "w2" })).await.refused(409, "not_claimable");
    }
}

/// (http) A claim waits for a job, and takes it as soon as it is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits() {
    for bed in beds().await {
        let claim = json!({ "queues": ["default"], "worker_id": "w1", "wait": "60s" });
        let (claimed, id) = soon("the job", async {
            tokio::join!(bed.post("/v1/claim", claim.clone()), async {
                until("a claim waits", async || {
                    bed.get("/metrics").await.text.contains("windlass_claims_waiting 1")
                })
                .await;
                bed.put_job(json!({})).await
            })
        })
        .await;
        assert_eq!(claimed.is(200)["jobs"][0]["id"], id);
        let begun = Instant::now();
        let short = json!({ "queues": ["empty"], "worker_id": "w1", "wait": 0.3 });
        assert_eq!(bed.post("/v1/claim", short).await.is(200)["jobs"], json!([]));
        assert!(begun.elapsed() >= Duration::from_millis(300), "it waited before it gave up");
    }
}

/// (http) Waiting claims are served in the order they came, each with one job.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_claims_are_served_in_turn() {
    let bed = Place::memory().serve().await;
    let (n, mut claims) = (8, tokio::task::JoinSet::new());
    for place in 0..n {
        let body = json!({ "queues": ["default"], "worker_id": format!("w{place}"), "wait": "60s" });
        let request = bed.request(reqwest::Method::POST, "/v1/claim").json(&body);
        claims.spawn(async move { (place, bed::Answer::of(request.send().await.unwrap()).await) });
        let line = format!("windlass_claims_waiting {}", place + 1);
        until("it stands in line", async || bed.get("/metrics").await.text.contains(&line)).await;
    }
    for place in 0..n {
        bed.put_job(json!({})).await;
        let (served, answer) = soon("a claim is served", claims.join_next()).await.unwrap().unwrap();
        assert_eq!(served, place, "first come, first served");
        assert_eq!(answer.is(200)["jobs"].as_array().unwrap().len(), 1);
    }
}

/// (http) A hundred waiting claims ask the store as often as one.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_claims_cost_as_much_as_one() {
    let (place, counting) = Place::memory().around(bed::counting::Counting::new);
    let bed = place.serve().await;
    let mut claims = tokio::task::JoinSet::new();
    for n in 0..100 {
        let body = json!({ "queues": ["default"], "worker_id": format!("w{n}"), "wait": "60s" });
        let request = bed.request(reqwest::Method::POST, "/v1/claim").json(&body);
        claims.spawn(async move { bed::Answer::of(request.send().await.unwrap()).await.is(200) });
    }
    until("all wait", async || bed.get("/metrics").await.text.contains("windlass_claims_waiting 100")).await;
    let before = counting.claims.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = counting.claims.load(Ordering::Relaxed) - before;
    assert!(asked <= 6, "the first in line looks every second: {asked} looks in three seconds");
    let jobs: Vec<_> = (0..100).map(|_| json!({ "kind": "work" })).collect();
    bed.post("/v1/jobs/batch", json!({ "jobs": jobs })).await.is(201);
    while let Some(answer) = soon("every claim is served", claims.join_next()).await {
        assert_eq!(answer.unwrap()["jobs"].as_array().unwrap().len(), 1);
    }
}

/// (http) A caller that goes away leaves the line, and the next one is served.
#[tokio::test(flavor = "multi_thread")]
async fn who_goes_away_leaves_the_line() {
    let bed = Place::memory().serve().await;
    let body = json!({ "queues": ["default"], "worker_id": "gone", "wait": "60s" });
    let gone = bed.request(reqwest::Method::POST, "/v1/claim").json(&body).send();
    let waits = async |n: usize| {
        let line = format!("windlass_claims_waiting {n}\n");
        until("so many wait", async || bed.get("/metrics").await.text.contains(&line)).await;
    };
    tokio::select! {
        _ = gone => panic!("there was nothing to claim"),
        () = waits(1) => {}
    }
    waits(0).await;
    let body = json!({ "queues": ["default"], "worker_id": "w2", "wait": "60s" });
    let (answer, id) = tokio::join!(bed.post("/v1/claim", body), async {
        waits(1).await;
        bed.put_job(json!({})).await
    });
    assert_eq!(answer.is(200)["jobs"][0]["id"], id);
}

/// J8: heartbeats renew what is the caller's, each for itself, and tell of a cancel.
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_renew() {
    for bed in beds().await {
        let ((a, token_a), (b, token_b)) = (bed.held_job().await, bed.held_job().await);
        verb(&bed, &b, "cancel", json!({ "reason": "enough" })).await.is(202);
        let wrong = "0".repeat(32);
        let lost = "01890000-0000-7000-8000-000000000009";
        let body = json!({ "worker_id": "w1", "extend": "2m", "leases": [
            { "job_id": a, "token": token_a }, { "job_id": b, "token": token_b },
            { "job_id": a, "token": wrong }, { "job_id": lost, "token": wrong } ] });
        let answer = bed.post("/v1/heartbeat", body).await.is(200);
        let leases = answer["leases"].as_array().unwrap();
        assert_eq!((&leases[0]["ok"], &leases[0]["cancel_requested"]), (&json!(true), &json!(false)));
        assert!(leases[0]["expires_at"].is_string() && leases[0].get("code").is_none());
        assert_eq!((&leases[1]["ok"], &leases[1]["cancel_requested"]), (&json!(true), &json!(true)));
        assert_eq!((&leases[2]["ok"], &leases[2]["code"]), (&json!(false), &json!("lease_mismatch")));
        assert_eq!((&leases[3]["job_id"], &leases[3]["code"]), (&json!(lost), &json!("not_found")));
        assert!(bed.get("/metrics").await.text.contains("windlass_lease_lost_total"));
        let bad = json!({ "worker_id": "w1", "leases": [{ "job_id": a, "token": "x" }] });
        assert_eq!(bed.post("/v1/heartbeat", bad).await.is(200)["leases"][0]["code"], "lease_mismatch");
    }
}

/// Q6, J6: each wrong case has its own code, in this order.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_come_in_their_order() {
    for bed in beds().await {
        let wrong = "0".repeat(32);
        let lost = "01890000-0000-7000-8000-000000000009";
        let with = |token: &str| json!({ "lease_token": token });
        for name in ["complete", "fail", "release"] {
            verb(&bed, lost, name, with(&wrong)).await.refused(404, "not_found");
            verb(&bed, "7", name, with(&wrong)).await.refused(422, "invalid");
            let (id, token) = bed.held_job().await;
            verb(&bed, &id, name, with(&wrong)).await.refused(409, "lease_mismatch");
            verb(&bed, &id, name, with("zz")).await.refused(409, "lease_mismatch");
            verb(&bed, &id, name, json!({})).await.refused(422, "invalid");
            verb(&bed, &id, "release", with(&token)).await.is(200);
            if name != "release" {
                let problem = verb(&bed, &id, name, with(&token)).await.refused(409, "not_leased");
                assert_eq!(problem["job_status"], "retry");
            }
            let id = bed.put_job(json!({ "lease": "1s" })).await;
            let token = bed.hold(&id).await;
            until("the lease is over", async || {
                let body = json!({ "worker_id": "w1", "extend": "1s", "leases": [{ "job_id": id, "token": token }] });
                tokio::time::sleep(Duration::from_millis(1_100)).await;
                bed.post("/v1/heartbeat", body).await.is(200)["leases"][0]["code"] == "lease_expired"
            })
            .await;
            verb(&bed, &id, name, with(&token)).await.refused(409, "lease_expired");
            verb(&bed, &id, name, with(&wrong)).await.refused(409, "lease_expired");
            verb(&bed, &id, "cancel", json!({})).await.is(200);
            let problem = verb(&bed, &id, name, with(&token)).await.refused(409, "job_finished");
            assert_eq!(problem["job_status"], "cancelled");
        }
    }
}

/// Q7: a repeat is answered as one; another's is told how it ended.
#[tokio::test(flavor = "multi_thread")]
async fn settling_twice_is_a_repeat() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let body = json!({ "lease_token": token, "result": { "sum": 3 } });
        let first = verb(&bed, &id, "complete", body.clone()).await.is(200);
        assert_eq!((&first["replayed"], &first["job"]["status"]), (&json!(false), &json!("completed")));
        assert_eq!((&first["job"]["result"], &first["job"]["progress"]), (&json!({ "sum": 3 }), &json!(100)));
        assert_eq!(verb(&bed, &id, "complete", body).await.is(200)["replayed"], true);
        let other = json!({ "lease_token": "0".repeat(32) });
        verb(&bed, &id, "complete", other.clone()).await.refused(409, "job_finished");

        let (id, token) = bed.held_job().await;
        let failed = json!({ "lease_token": token, "error": { "code": "down", "message": "no route" }, "delay": "1h" });
        let first = verb(&bed, &id, "fail", failed.clone()).await.is(200);
        assert_eq!((&first["job"]["status"], &first["job"]["retries"]), (&json!("retry"), &json!(1)));
        assert_eq!(first["job"]["error"]["code"], "down");
        assert_eq!(first["job"]["error"]["message"], "no route");
        assert!(first["job"]["error"]["at"].is_string());
        assert_eq!(verb(&bed, &id, "fail", failed).await.is(200)["replayed"], true);

        let (id, token) = bed.held_job().await;
        let failed = json!({ "lease_token": token, "error": "just text", "permanent": true });
        let dead = verb(&bed, &id, "fail", failed).await.is(200);
        assert_eq!(
            (&dead["job"]["status"], &dead["job"]["error"]["message"]),
            (&json!("failed"), &json!("just text"))
        );
        let listed = bed.get("/v1/jobs?dead=true&error_code=failed").await.is(200);
        assert_eq!(listed["jobs"][0]["id"], id);

        let (id, token) = bed.held_job().await;
        let released = verb(&bed, &id, "release", json!({ "lease_token": token, "delay": 60 })).await.is(200);
        assert_eq!((&released["job"]["status"], &released["job"]["retries"]), (&json!("retry"), &json!(0)));
    }
}

/// (http) Many attempts end at once, each for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_settle_answers_per_item() {
    for bed in beds().await {
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(bed.held_job().await);
        }
        let item = |n: usize, outcome: &str, more: Value| {
            let mut item = json!({ "job_id": held[n].0, "lease_token": held[n].1, "outcome": outcome });
            item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            item
        };
        let items = json!({ "items": [
            item(0, "complete", json!({ "result": 1 })),
            item(1, "fail", json!({ "error": "no", "permanent": true })),
            item(2, "release", json!({ "delay": "1m" })),
            { "job_id": held[3].0, "lease_token": "0".repeat(32), "outcome": "complete" },
            { "job_id": "nonsense", "lease_token": "0".repeat(32), "outcome": "complete" },
        ] });
        let answer = bed.post("/v1/settle", items.clone()).await.is(200);
        let items_of = |answer: &Value| answer["items"].as_array().unwrap().clone();
        let told = items_of(&answer);
        assert_eq!(
            (&told[0]["ok"], &told[0]["status"], &told[0]["replayed"]),
            (&json!(true), &json!("completed"), &json!(false))
        );
        assert_eq!(told[1]["status"], "failed");
        assert_eq!(told[2]["status"], "retry");
        assert_eq!((&told[3]["ok"], &told[3]["code"]), (&json!(false), &json!("lease_mismatch")));
        assert_eq!((&told[4]["job_id"], &told[4]["code"]), (&json!("nonsense"), &json!("invalid")));
        let again = items_of(&bed.post("/v1/settle", items).await.is(200));
        assert_eq!((&again[0]["replayed"], &again[1]["replayed"]), (&json!(true), &json!(true)));
        let bad = json!({ "items": [{ "job_id": held[3].0, "lease_token": held[3].1, "outcome": "win" }] });
        bed.post("/v1/settle", bad).await.refused(422, "invalid");
    }
}

/// T4, T8: reports, steps and log lines, under the lease only.
#[tokio::test(flavor = "multi_thread")]
async fn holders_report_and_record() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let progress = async |more: Value| {
            let mut body = json!({ "lease_token": token });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            verb(&bed, &id, "progress", body).await
        };
        let told = progress(json!({ "progress": 10, "metadata": { "a": 1, "b": 1 } })).await.is(200);
        assert_eq!((&told["version"], &told["cancel_requested"]), (&json!(3), &json!(false)));
        progress(json!({ "metadata": { "b": 2 }, "stage": "second", "checkpoint": [1] })).await.is(200);
        let job = bed.job(&id).await;
        assert_eq!((&job["metadata"], &job["stage"]), (&json!({ "a": 1, "b": 2 }), &json!("second")));
        assert_eq!((&job["checkpoint"], &job["progress"]), (&json!([1]), &json!(10)));
        assert_eq!(progress(json!({ "progress": 101 })).await.refused(422, "invalid")["field"], "progress");
        progress(json!({})).await.refused(422, "invalid");

        let step =
            async |name: &str, body: Value| bed.put(&format!("/v1/jobs/{id}/steps/{name}"), body).await;
        let started =
            json!({ "lease_token": token, "status": "started", "tool": true, "args": { "to": "x" } });
        step("send", started).await.is(200);
        let steps = bed.get(&format!("/v1/jobs/{id}/steps")).await.is(200);
        assert_eq!(
            (&steps["steps"][0]["status"], &steps["steps"][0]["args"]),
            (&json!("started"), &json!({ "to": "x" }))
        );
        let ended = json!({ "lease_token": token, "status": "finished", "tool": true, "value": 7 });
        step("send", ended.clone()).await.is(200);
        assert_eq!(step("send", ended).await.is(200)["replayed"], true);
        let other = json!({ "lease_token": token, "status": "finished", "tool": true, "value": 8 });
        step("send", other).await.refused(409, "step_recorded");
        let steps = bed.get(&format!("/v1/jobs/{id}/steps")).await.is(200);
        assert_eq!(
            (&steps["steps"][0]["status"], &steps["steps"][0]["value"]),
            (&json!("finished"), &json!(7))
        );
        step("a%20b", json!({ "lease_token": token, "status": "started" })).await.refused(422, "invalid");
        let mixed = json!({ "lease_token": token, "status": "started", "value": 1 });
        step("mixed", mixed).await.refused(422, "invalid");

        let written =
            verb(&bed, &id, "logs", json!({ "lease_token": token, "lines": ["one", "two"] })).await.is(201);
        assert_eq!(written["written"], 2);
        verb(&bed, &id, "logs", json!({ "lease_token": "0".repeat(32), "lines": ["x"] }))
            .await
            .refused(409, "lease_mismatch");
        let lines = bed.get(&format!("/v1/jobs/{id}/logs?after=1")).await.is(200);
        assert_eq!((&lines["lines"][0]["n"], &lines["lines"][0]["line"]), (&json!(2), &json!("two")));
        let appended = json!({ "type": "node_custom", "lease_token": token });
        verb(&bed, &id, "events", appended).await.is(201);
    }
}

/// M8, J10: a job waits without a worker and is woken by a signal, a timer, a vote or its children.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_and_wake() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let wait = json!({ "lease_token": token, "for": "signal", "name": "paid", "expires": "1h" });
        let waiting = verb(&bed, &id, "wait", wait.clone()).await.is(200);
        assert_eq!(
            (&waiting["job"]["status"], &waiting["job"]["waiting_for"]),
            (&json!("waiting"), &json!("signal"))
        );
        assert_eq!(waiting["job"]["blocked"]["reason"], "waiting");
        assert_eq!(verb(&bed, &id, "wait", wait).await.is(200)["replayed"], true);
        verb(&bed, &id, "claim", json!({ "worker_id": "w" })).await.refused(409, "not_claimable");
        let signal = json!({ "name": "paid", "payload": { "sum": 5 }, "key": "k1" });
        assert_eq!(verb(&bed, &id, "signal", signal.clone()).await.is(200)["duplicate"], false);
        assert_eq!(verb(&bed, &id, "signal", signal).await.is(200)["duplicate"], true);
        let claimed = verb(&bed, &id, "claim", json!({ "worker_id": "w2" })).await.is(200);
        let wake =
            json!({ "for": "signal", "name": "paid", "outcome": "signalled", "payload": { "sum": 5 } });
        assert_eq!(claimed["job"]["wake"], wake);
        let token = claimed["job"]["lease"]["token"].as_str().unwrap().to_owned();
        let timer = json!({ "lease_token": token, "for": "timer", "until": "10ms" });
        verb(&bed, &id, "wait", timer).await.is(200);
        let claim = json!({ "queues": ["default"], "worker_id": "w3", "wait": "30s" });
        let woken = bed.post("/v1/claim", claim).await.is(200);
        assert_eq!(woken["jobs"][0]["wake"]["outcome"], "fired");
        let token = woken["jobs"][0]["lease"]["token"].as_str().unwrap().to_owned();
        let child = json!({ "kind": "child", "queue": "c", "parent_id": id, "lease_token": token });
        bed.post("/v1/jobs", child).await.is(201);
        verb(&bed, &id, "wait", json!({ "lease_token": token, "for": "children" })).await.is(200);
        let claimed = bed.post("/v1/claim", json!({ "queues": ["c"], "worker_id": "w4" })).await.is(200);
        let (child, child_token) = (&claimed["jobs"][0]["id"], &claimed["jobs"][0]["lease"]["token"]);
        verb(&bed, child.as_str().unwrap(), "complete", json!({ "lease_token": child_token })).await.is(200);
        let claimed = verb(&bed, &id, "claim", json!({ "worker_id": "w5" })).await.is(200);
        assert_eq!(claimed["job"]["wake"]["outcome"], "joined");
        let token = claimed["job"]["lease"]["token"].as_str().unwrap().to_owned();
        for bad in [json!({ "for": "signal" }), json!({ "for": "timer" }), json!({ "for": "luck" })] {
            let mut body = json!({ "lease_token": token });
            body.as_object_mut().unwrap().extend(bad.as_object().unwrap().clone());
            verb(&bed, &id, "wait", body).await.refused(422, "invalid");
        }
        let unasked = json!({ "lease_token": token, "for": "approval", "name": "never" });
        verb(&bed, &id, "wait", unasked).await.refused(404, "approval_not_found");
        let steps = bed.get(&format!("/v1/jobs/{id}/steps")).await.is(200);
        assert_eq!(steps["waits"].as_array().unwrap().len(), 3);
    }
}

/// M8: five different refusals of a vote, each on record; approve resumes, deny fails.
#[tokio::test(flavor = "multi_thread")]
async fn approvals_are_asked_and_decided() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let ask = json!({ "lease_token": token, "name": "send", "prompt": "send to all?" });
        let first = verb(&bed, &id, "approvals", ask.clone()).await.is(201);
        let approval = first["approval"]["id"].as_str().unwrap().to_owned();
        let again = verb(&bed, &id, "approvals", ask.clone()).await.is(201);
        assert_eq!(again["approval"]["id"], approval, "it is the same question");
        assert_ne!(again["token"], first["token"], "with a fresh link");
        let once = bed.post_once("ask", &format!("/v1/jobs/{id}/approvals"), &ask).await.is(201);
        let repeat = bed.post_once("ask", &format!("/v1/jobs/{id}/approvals"), &ask).await.is(201);
        assert_eq!(repeat["approval"]["id"], once["approval"]["id"]);
        let link = repeat["token"].as_str().unwrap().to_owned();
        verb(&bed, &id, "wait", json!({ "lease_token": token, "for": "approval", "name": "send" }))
            .await
            .is(200);

        let path = format!("/v1/approvals/{approval}/decide");
        let vote = |token: &str| json!({ "decision": "approve", "token": token, "reason": "fine" });
        let old = first["token"].as_str().unwrap();
        bed.post(&path, vote(old)).await.refused(403, "approval_forbidden");
        bed.post(&path, vote("short")).await.refused(422, "token_malformed");
        let lost = "01890000-0000-7000-8000-000000000009";
        bed.post(&format!("/v1/approvals/{lost}/decide"), vote(&link))
            .await
            .refused(404, "approval_not_found");
        bed.post(&path, json!({ "decision": "maybe" })).await.refused(422, "invalid");
        let decided = bed.post(&path, vote(&link)).await.is(200);
        assert_eq!(decided["status"], "approved");
        bed.post(&path, vote(&link)).await.refused(409, "approval_decided");
        let seen = bed.get(&format!("/v1/approvals/{approval}")).await.is(200);
        assert_eq!((&seen["status"], &seen["prompt"]), (&json!("approved"), &json!("send to all?")));
        assert_eq!(
            (&seen["decisions"][0]["by"], &seen["decisions"][0]["reason"]),
            (&json!("link"), &json!("fine"))
        );
        assert!(!bed.get("/v1/approvals").await.text.contains(&link), "no secret is shown");
        let claimed = verb(&bed, &id, "claim", json!({ "worker_id": "w2" })).await.is(200);
        assert_eq!(claimed["job"]["wake"]["outcome"], "approved");

        let (id, token) = bed.held_job().await;
        let ask = json!({ "lease_token": token, "name": "pay", "prompt": "pay?", "expires": "1h" });
        let asked = verb(&bed, &id, "approvals", ask).await.is(201);
        verb(&bed, &id, "wait", json!({ "lease_token": token, "for": "approval", "name": "pay" }))
            .await
            .is(200);
        let path = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
        bed.post(&path, json!({ "decision": "deny", "reason": "too much" })).await.is(200);
        let job = bed.job(&id).await;
        assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("approval_denied")));
        assert_eq!(job["error"]["message"], "too much");

        let (id, token) = bed.held_job().await;
        let ask = json!({ "lease_token": token, "name": "soon", "prompt": "now?", "expires": 0.05 });
        let asked = verb(&bed, &id, "approvals", ask).await.is(201);
        let path = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
        until("it expires", async || bed.post(&path, vote("short")).await.status == 422).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        bed.post(&path, json!({ "decision": "approve" })).await.refused(410, "approval_expired");

        let (id, token) = bed.held_job().await;
        let ask = json!({ "lease_token": token, "name": "boss", "prompt": "ok?", "approvers": ["boss"] });
        let asked = verb(&bed, &id, "approvals", ask).await.is(201);
        let path = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
        bed.post(&path, json!({ "decision": "approve" })).await.refused(403, "approval_forbidden");
        let audit = bed.get("/v1/audit?limit=100").await.is(200);
        let refused =
            audit["entries"].as_array().unwrap().iter().filter(|e| e["action"] == "approval.refused");
        assert!(refused.count() >= 5, "every refused vote is on record: {audit}");
        let pending = bed.get(&format!("/v1/approvals?status=pending&job_id={id}")).await.is(200);
        assert_eq!(pending["approvals"].as_array().unwrap().len(), 1);
        let page = bed.get("/v1/approvals?limit=2").await.is(200);
        let cursor = page["next_cursor"].as_str().unwrap();
        let rest = bed.get(&format!("/v1/approvals?limit=2&cursor={cursor}")).await.is(200);
        assert_ne!(rest["approvals"][0]["id"], page["approvals"][1]["id"]);
        bed.get("/v1/approvals?cursor=x").await.refused(422, "invalid");
        bed.get("/v1/approvals?status=open").await.refused(422, "invalid");
    }
}

/// (http) A timeout is on record as soon as its holder shows the lease, though nobody else looks at deadlines.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_recorded_when_its_lease_is_shown() {
    for place in [Place::memory(), Place::sqlite()] {
        let bed = place.serve_with(|server| server.sweeps(false)).await;
        let id = bed.put_job(json!({ "timeout": 0.3, "max_retries": 0 })).await;
        let token = bed.hold(&id).await;
        let beat = json!({ "worker_id": "w1", "leases": [{ "job_id": id, "token": token }] });
        until("the lease is over", async || {
            let lease = bed.post("/v1/heartbeat", beat.clone()).await.is(200)["leases"][0].clone();
            assert!(
                lease["ok"] == true || lease["code"] == "lease_expired" || lease["code"] == "job_finished"
            );
            lease["ok"] == false
        })
        .await;
        until("it is on record", async || bed.job(&id).await["status"] == "timed_out").await;
    }
}

/// (http) A wrong lease token is a lease that one does not hold, whatever it looks like.
#[tokio::test(flavor = "multi_thread")]
async fn any_wrong_token_is_another_lease() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        for wrong in ["", "short", "zz", &"0".repeat(32), &"0".repeat(64), &format!("{token}0"), "töken"] {
            let body = json!({ "lease_token": wrong });
            verb(&bed, &id, "complete", body.clone()).await.refused(409, "lease_mismatch");
            verb(&bed, &id, "progress", body).await.refused(409, "lease_mismatch");
            let items = json!({ "items": [{ "job_id": id, "lease_token": wrong, "outcome": "complete" }] });
            let settled = bed.post("/v1/settle", items).await.is(200);
            assert_eq!(settled["items"][0]["code"], "lease_mismatch");
            let beat = json!({ "worker_id": "w1", "leases": [{ "job_id": id, "token": wrong }] });
            assert_eq!(bed.post("/v1/heartbeat", beat).await.is(200)["leases"][0]["code"], "lease_mismatch");
        }
        verb(&bed, &id, "complete", json!({ "lease_token": token })).await.is(200);
        verb(&bed, &id, "complete", json!({ "lease_token": "short" })).await.refused(409, "job_finished");
    }
}

/// (http) Whoever claims is a worker that is there: in the list, and for "why is it not running".
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_a_sign_of_life() {
    for bed in beds().await {
        let due = json!({ "queue": "a" });
        let (taken, left) = (bed.put_job(due.clone()).await, bed.put_job(due).await);
        let other = bed.put_job(json!({ "queue": "a", "kind": "other" })).await;
        for id in [&taken, &left, &other] {
            assert_eq!(bed.job(id).await["blocked"]["reason"], "no_worker", "nobody has claimed yet");
        }
        let claim = |queues: Value| json!({ "queues": queues, "kinds": ["work"], "worker_id": "plain" });
        bed.post("/v1/claim", claim(json!(["a"]))).await.is(200);
        let seen = bed.get("/v1/workers").await.is(200);
        let worker = &seen["workers"][0];
        assert_eq!((&worker["id"], &worker["live"]), (&json!("plain"), &json!(true)));
        assert_eq!((&worker["queues"], &worker["kinds"]), (&json!(["a"]), &json!(["work"])));
        assert_eq!(bed.job(&taken).await["status"], "running");
        assert_eq!(bed.job(&left).await["blocked"], Value::Null, "it is due, and who claimed will take it");
        assert_eq!(bed.job(&other).await["blocked"]["reason"], "no_worker", "a kind that it does not claim");
        bed.put("/v1/workers/told", json!({ "queues": ["a"], "capacity": 7 })).await.is(200);
        bed.post("/v1/claim", json!({ "queues": ["b"], "worker_id": "told" })).await.is(200);
        let seen = bed.get("/v1/workers").await.is(200);
        let told = seen["workers"].as_array().unwrap().iter().find(|worker| worker["id"] == "told").unwrap();
        assert_eq!((&told["queues"], &told["capacity"]), (&json!(["a"]), &json!(7)), "it says so itself");
    }
}

fn seconds_between(from: &Value, to: &Value) -> f64 {
    let at = |value: &Value| {
        windlass_core::Timestamp::parse("time", value.as_str().expect("a time")).expect("a time")
    };
    (at(to).as_micros() - at(from).as_micros()) as f64 / 1e6
}

/// (http) What is left out is what the documents promise: a lease of 30 s, an approval of 24 h, a heartbeat of 30 s, one job.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_out_is_what_is_promised() {
    for bed in beds().await {
        let (one, _) = (bed.put_job(json!({})).await, bed.put_job(json!({})).await);
        let claimed = bed.post("/v1/claim", json!({ "queues": ["default"], "worker_id": "w" })).await.is(200);
        assert_eq!(claimed["jobs"].as_array().unwrap().len(), 1, "one job");
        let job = &claimed["jobs"][0];
        let near = |seconds: f64, expected: f64| assert!((seconds - expected).abs() < 1.0, "{seconds} s");
        near(seconds_between(&job["started_at"], &job["lease"]["expires_at"]), 30.0);
        let (id, token) = (job["id"].as_str().unwrap(), job["lease"]["token"].as_str().unwrap());
        assert_eq!(id, one);
        let beat = json!({ "worker_id": "w", "leases": [{ "job_id": id, "token": token }] });
        let sent = windlass_store::fresh::wall_clock().to_string();
        let renewed = bed.post("/v1/heartbeat", beat).await.is(200);
        let renewed = seconds_between(&json!(sent), &renewed["leases"][0]["expires_at"]);
        assert!((29.0..60.0).contains(&renewed), "{renewed} s");
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
        let asked = verb(&bed, id, "approvals", ask).await.is(201);
        let approval = &asked["approval"];
        near(seconds_between(&approval["asked_at"], &approval["expires_at"]), 86_400.0);
        assert_eq!((&approval["required"], &approval["approvers"]), (&json!(1), &json!([])));
        let by_id = bed.put_job(json!({})).await;
        let held = verb(&bed, &by_id, "claim", json!({ "worker_id": "w" })).await.is(200);
        near(seconds_between(&held["job"]["started_at"], &held["job"]["lease"]["expires_at"]), 30.0);
        let job = bed.job(&by_id).await;
        assert_eq!((&job["max_retries"], &job["priority"]), (&json!(3), &json!(0)));
        assert_eq!((&job["queue"], &job["attempt"]), (&json!("default"), &json!(1)));
    }
}

/// R15, R6: a run whose lease has expired and whose grace has not is seen to be in its grace, until when, and is nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_its_grace_is_visible_as_such() {
    for bed in beds().await {
        let id = bed.put_job(json!({ "grace": "10m" })).await;
        let claim = json!({ "worker_id": "w1", "lease": "1s" });
        let held = bed.post(&format!("/v1/jobs/{id}/claim"), claim.clone()).await.is(200);
        let token = held["job"]["lease"]["token"].clone();
        assert_eq!(held["job"]["continuation"], Value::Null, "its lease holds");
        until("the lease has expired", async || bed.job(&id).await["continuation"].is_object()).await;
        let job = bed.job(&id).await;
        assert_eq!(
            (&job["status"], &job["continuation"]["state"]),
            (&json!("running"), &json!("confirming"))
        );
        assert_eq!(job["continuation"]["until"], job["due_at"]);
        bed.post(&format!("/v1/jobs/{id}/claim"), claim).await.refused(409, "not_claimable");
        bed.post(&format!("/v1/jobs/{id}/complete"), json!({ "lease_token": token })).await.is(200);
        assert_eq!(bed.job(&id).await["continuation"], Value::Null);
    }
}
