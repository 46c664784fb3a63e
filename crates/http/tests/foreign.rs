//! What a key for some queues may not reach: every route of the table is asked for something of another queue.

mod bed;

use bed::{Answer, Bed, Place, until};
use reqwest::Method;
use serde_json::{Value, json};
use windlass_core::Role;

/// In everything that belongs to the other queue; nobody who is not for that queue reads it.
const HIDDEN: &str = "hidden-";
/// The other queue.
const QUEUE: &str = "secret-line";
/// The name of what is in it: a schedule, a trigger, a worker, a key.
const NAME: &str = "theirs";
/// A lease token that is nobody's.
const WRONG: &str = "00000000000000000000000000000000";

/// What a route does for a key that is not for the queue.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    /// It refuses, with 403 or as if there were nothing.
    Refuse,
    /// It answers, or is not for this key at all; nothing of the other queue is in the answer.
    Filter,
    /// It ends the session with which it is called.
    SignOut,
}
use Does::{Filter, Refuse, SignOut};

/// One object of each kind in the other queue.
struct Theirs {
    job: String,
    approval: String,
    operation: String,
    mark: String,
    problem: String,
    /// Where the feed stood before.
    cursor: String,
}

async fn theirs(bed: &Bed) -> Theirs {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let page = bed.request(Method::GET, "/v1/feed?wait=0s").header("accept", "application/json");
    let page = Answer::of(page.send().await.expect("an answer")).await.is(200);
    let new = json!({ "queue": QUEUE, "kind": "hidden-kind", "payload": "hidden-payload", "max_retries": 0 });
    let broken = bed.put_job(new.clone()).await;
    let error = json!({ "code": "hidden-code", "message": "hidden-message" });
    let failed = json!({ "lease_token": bed.hold(&broken).await, "error": error });
    bed.post(&format!("/v1/jobs/{broken}/fail"), failed).await.is(200);
    let flow = json!({ "nodes": { "hidden-node": new }, "callback": new });
    bed.post("/v1/flows", flow).await.is(201);
    let job = bed.put_job(new.clone()).await;
    let token = bed.hold(&job).await;
    let ask = json!({ "lease_token": token, "name": "a", "prompt": "hidden-prompt" });
    let asked = bed.post(&format!("/v1/jobs/{job}/approvals"), ask).await.is(201);
    let lines = json!({ "lease_token": token, "lines": ["hidden-line"] });
    bed.post(&format!("/v1/jobs/{job}/logs"), lines).await.is(201);
    let put = async |path: &str, body: Value| bed.put(path, body).await.is(200);
    put("/v1/workers/theirs", json!({ "queues": [QUEUE], "kinds": ["hidden-kind"] })).await;
    put("/v1/schedules/theirs", json!({ "cron": "0 3 * * *", "job": new })).await;
    put("/v1/triggers/theirs", json!({ "jobs": [{ "kind": "hidden-kind", "queue": QUEUE }] })).await;
    bed.post("/v1/triggers/theirs", json!({ "payload": "hidden-event" })).await.is(201);
    let hook = json!({ "url": "https://hidden-host.example/", "queues": [QUEUE] });
    put("/v1/subscriptions/theirs", hook).await;
    put("/v1/views/theirs", json!({ "filter": { "queue": QUEUE, "kind": "hidden-kind" } })).await;
    let alert = json!({ "metric": "oldest_due", "queue": QUEUE, "longer_than": "10m" });
    put("/v1/alerts/theirs", alert).await;
    let rules = json!([{ "queue": QUEUE, "kind": "hidden-kind", "keep": "720h" }]);
    put("/v1/settings", json!({ "settings": { "retention": rules }, "expected_version": 0 })).await;
    let mark = bed.post("/v1/marks", json!({ "text": "hidden-mark" })).await.is(201);
    let act = json!({ "filter": { "queue": QUEUE }, "action": "cancel", "dry_run": false,
        "reason": "hidden-reason", "hold": "1h" });
    let operation = bed.post("/v1/bulk", act).await.is(202);
    let problems = async || bed.get("/v1/problems").await.is(200)["problems"].clone();
    until("the problem is there", async || problems().await[0]["fingerprint"].is_string()).await;
    Theirs {
        job,
        approval: text(&asked["approval"]["id"]),
        operation: text(&operation["id"]),
        mark: text(&mark["id"]),
        problem: text(&problems().await[0]["fingerprint"]),
        cursor: text(&page["next_cursor"]),
    }
}

/// How a route is asked for what is theirs, and what it does then. `None` for a route that nobody has thought of.
#[rustfmt::skip]
fn case(route: &str, theirs: &Theirs) -> Option<(Does, Value)> {
    let job = &theirs.job;
    let new = || json!({ "kind": "x", "queue": QUEUE });
    let own = || json!({ "kind": "x", "queue": "mine" });
    let lease = || json!({ "lease_token": WRONG });
    Some(match route {
        "POST /v1/jobs" => (Refuse, new()),
        "POST /v1/jobs/batch" => (Refuse, json!({ "jobs": [new()] })),
        "POST /v1/flows" => (Refuse, json!({ "nodes": { "a": new() } })),
        "POST /v1/jobs/{id}/children" => (Refuse, json!({ "nodes": { "a": own() } })),
        "GET /v1/jobs/{id}" | "GET /v1/jobs/{id}/events" | "GET /v1/jobs/{id}/logs" | "GET /v1/jobs/{id}/feed"
        | "GET /v1/jobs/{id}/graph" | "GET /v1/jobs/{id}/upstream" | "GET /v1/jobs/{id}/steps" => (Refuse, json!({})),
        "POST /v1/jobs/{id}/events" => (Refuse, json!({ "type": "x" })),
        "POST /v1/jobs/{id}/seal" | "POST /v1/jobs/{id}/cancel" | "POST /v1/jobs/{id}/redrive" | "POST /v1/jobs/{id}/fork"
        | "DELETE /v1/jobs/{id}/payload" => (Refuse, json!({})),
        "POST /v1/jobs/{id}/signal" => (Refuse, json!({ "name": "x" })),
        "POST /v1/jobs/{id}/claim" => (Refuse, json!({ "worker_id": "w" })),
        "POST /v1/jobs/{id}/start" => (Refuse, json!({ "worker_id": "w", "assignment": 1, "epoch": 1 })),
        "POST /v1/jobs/{id}/complete" | "POST /v1/jobs/{id}/release" | "POST /v1/jobs/{id}/progress" => (Refuse, lease()),
        "POST /v1/jobs/{id}/fail" => (Refuse, json!({ "lease_token": WRONG, "error": "x" })),
        "POST /v1/jobs/{id}/wait" => (Refuse, json!({ "lease_token": WRONG, "for": "timer", "until": "1h" })),
        "POST /v1/jobs/{id}/logs" => (Refuse, json!({ "lease_token": WRONG, "lines": ["x"] })),
        "POST /v1/jobs/{id}/charge" => (Refuse, json!({ "lease_token": WRONG, "units": 1 })),
        "POST /v1/jobs/{id}/approvals" => (Refuse, json!({ "lease_token": WRONG, "name": "a", "prompt": "?" })),
        "PUT /v1/jobs/{id}/steps/{name}" => (Refuse, json!({ "lease_token": WRONG, "status": "started" })),
        "POST /v1/claim" => (Refuse, json!({ "queues": [QUEUE], "worker_id": "w" })),
        "POST /v1/heartbeat" => (Filter, json!({ "worker_id": "w", "leases": [{ "job_id": job, "token": WRONG }] })),
        "POST /v1/settle" => (Filter, json!({ "items": [{ "job_id": job, "lease_token": WRONG, "outcome": "complete" }] })),
        "POST /v1/bulk" => (Refuse, json!({ "ids": [job], "action": "cancel", "dry_run": true })),
        "GET /v1/approvals/{id}" => (Refuse, json!({})),
        "POST /v1/approvals/{id}/decide" => (Refuse, json!({ "decision": "deny" })),
        "POST /v1/approvals/by-token" => (Refuse, json!({ "token": format!("{}.{}", theirs.approval, "0".repeat(64)) })),
        "PUT /v1/queues/{queue}" | "POST /v1/queues/{queue}/pause" | "POST /v1/queues/{queue}/resume"
        | "GET /v1/queues/{queue}/lanes" | "POST /v1/queues/{queue}/lanes/release" => (Refuse, json!({})),
        "PUT /v1/schedules/{name}" | "POST /v1/schedules/{name}/preview" =>
            (Refuse, json!({ "cron": "0 4 * * *", "job": own() })),
        "PUT /v1/schedules" => (Refuse, json!({ "schedules": {}, "prune": true })),
        "POST /v1/schedules/{name}/backfill" => (Refuse, json!({ "from": "-2d", "to": "-1d" })),
        "GET /v1/schedules/{name}" | "DELETE /v1/schedules/{name}" | "GET /v1/schedules/{name}/next"
        | "POST /v1/schedules/{name}/trigger" | "POST /v1/schedules/{name}/pause" | "POST /v1/schedules/{name}/resume" =>
            (Refuse, json!({})),
        "PUT /v1/triggers/{name}" => (Refuse, json!({ "jobs": [own()] })),
        "GET /v1/triggers/{name}" | "DELETE /v1/triggers/{name}" | "POST /v1/triggers/{name}" | "POST /v1/triggers/{name}/secret"
        | "GET /v1/triggers/{name}/events" => (Refuse, json!({})),
        "PUT /v1/subscriptions/{name}" => (Refuse, json!({ "url": "https://a.example", "queues": ["mine"] })),
        "GET /v1/subscriptions/{name}" | "DELETE /v1/subscriptions/{name}" | "POST /v1/subscriptions/{name}/pause"
        | "POST /v1/subscriptions/{name}/resume" => (Refuse, json!({})),
        "PUT /v1/workers/{id}" => (Refuse, json!({ "draining": true })),
        "GET /v1/operations/{id}" | "POST /v1/operations/{id}/stop" => (Refuse, json!({})),
        "POST /v1/keys" => (Refuse, json!({ "name": "more", "roles": ["viewer"], "queues": [QUEUE] })),
        "DELETE /v1/keys/{name}" => (Refuse, json!({})),
        "PUT /v1/settings" => (Refuse, json!({ "settings": {}, "expected_version": 1 })),
        "POST /v1/stats/rebuild" => (Refuse, json!({ "since": "-2h" })),
        "PUT /v1/problems/{fingerprint}" => (Refuse, json!({ "state": "muted" })),
        "PUT /v1/views/{name}" => (Refuse, json!({ "filter": {} })),
        "PUT /v1/alerts/{name}" => (Refuse, json!({ "metric": "oldest_due", "longer_than": "1m" })),
        "POST /v1/marks" => (Refuse, json!({ "text": "x" })),
        // These are of all queues.
        "GET /v1/audit" | "GET /v1/now" | "GET /v1/problems" | "GET /v1/problems/{fingerprint}" | "GET /v1/views"
        | "DELETE /v1/views/{name}" | "GET /v1/alerts" | "DELETE /v1/alerts/{name}" | "GET /v1/marks" | "DELETE /v1/marks/{id}"
        | "GET /metrics" => (Refuse, json!({})),
        "GET /v1/jobs" | "GET /v1/approvals" | "GET /v1/queues" | "GET /v1/schedules" | "GET /v1/leader" | "GET /v1/workers"
        | "GET /v1/keys" | "GET /v1/session" | "GET /v1/stats" | "GET /v1/feed" | "GET /v1/triggers" | "GET /v1/subscriptions"
        | "GET /v1/settings" | "GET /v1/operations" | "GET /v1/calendar" => (Filter, json!({})),
        // They know no queue.
        "POST /v1/session" | "POST /v1/webhooks/{name}" | "GET /healthz" | "GET /readyz" | "GET /openapi.json"
        | "GET /errors/{code}" | "GET /" | "GET /approve" | "GET /static/{build}/{name}" => (Filter, json!({})),
        "DELETE /v1/session" => (SignOut, json!({})),
        _ => return None,
    })
}

fn path_of(route: &str, theirs: &Theirs) -> String {
    let (_, path) = route.split_once(' ').expect("a method and a path");
    let id = match path.split('/').nth(2) {
        Some("jobs") => &theirs.job,
        Some("approvals") => &theirs.approval,
        Some("operations") => &theirs.operation,
        Some("marks") => &theirs.mark,
        _ => NAME,
    };
    let name = if path.contains("/steps/") { "step" } else { NAME };
    let path = path.replace("{id}", id).replace("{name}", name).replace("{queue}", QUEUE);
    let path =
        path.replace("{fingerprint}", &theirs.problem).replace("{code}", "invalid").replace("{build}", "0");
    match path.as_str() {
        "/v1/feed" => format!("{path}?wait=0s&after={}", theirs.cursor),
        "/v1/stats" => format!("{path}?by=queue,kind"),
        _ => path,
    }
}

/// A session, as a browser would have it.
async fn signed_in(bed: &Bed, key: &str) -> String {
    let port = bed.running.address.port();
    let request =
        bed.running.request(Method::POST, "/v1/session").header("host", format!("localhost:{port}"));
    let signed = Answer::of(request.json(&json!({ "key": key })).send().await.expect("an answer")).await;
    let cookie = signed.headers["set-cookie"].to_str().expect("a text").to_owned();
    signed.is(201);
    cookie.split(';').next().expect("a pair").to_owned()
}

#[derive(Clone, Copy)]
enum By<'a> {
    Key(&'a str),
    Cookie(&'a str),
}

async fn ask(bed: &Bed, by: By<'_>, method: &Method, path: &str, body: &Value) -> Answer {
    let request = bed.running.request(method.clone(), path).header("accept", "application/json").json(body);
    let request = match by {
        By::Key(key) => request.bearer_auth(key),
        By::Cookie(pair) => {
            let host = format!("localhost:{}", bed.running.address.port());
            request.header("origin", format!("http://{host}")).header("host", host).header("cookie", pair)
        }
    };
    Answer::of(request.send().await.expect("an answer")).await
}

async fn walk(bed: &Bed, by: By<'_>, theirs: &Theirs) {
    for route in windlass_http::routes() {
        let text = format!("{route:?}");
        let (does, body) =
            case(&text, theirs).unwrap_or_else(|| panic!("{text} has no case here: say what it does"));
        if does == SignOut {
            continue;
        }
        let path = path_of(&text, theirs);
        let answer = ask(bed, by, &route.method, &path, &body).await;
        let said = format!("{text}: {} {}", answer.status, answer.text);
        match does {
            Refuse => assert!([403, 404, 409].contains(&answer.status), "{said}"),
            _ => assert!(answer.status < 500, "{said}"),
        }
        let asked = format!("{path} {body}");
        for word in [HIDDEN, QUEUE, NAME] {
            // What the caller says itself may come back.
            assert!(!answer.text.contains(word) || asked.contains(word), "{said}");
        }
    }
}

/// (access) Every route, as keys for another queue with every role, and as such a session: nothing of the queue is said, and
/// nothing in it changes.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_keeps_a_key_from_foreign_objects() {
    for place in [Place::memory(), Place::sqlite()] {
        let bed = place.serve_with(|server| server.schedules(true)).await;
        let theirs = theirs(&bed).await;
        bed.make_key(NAME, &[Role::Viewer], Some(&[QUEUE])).await;
        let roles = [Role::Viewer, Role::Producer, Role::Worker, Role::Approver, Role::Operator];
        let some = bed.make_key("some", &roles, Some(&["mine"])).await;
        let chief = bed.make_key("chief", &[Role::Admin], Some(&["mine"])).await;
        let root = bed.make_key("root", &[Role::Admin], None).await;
        until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
        let session = signed_in(&bed, &chief).await;
        let get = async |path: &str| ask(&bed, By::Key(&root), &Method::GET, path, &json!({})).await.is(200);
        let before = get(&format!("/v1/jobs/{}", theirs.job)).await["version"].clone();
        for by in [By::Key(&some), By::Key(&chief), By::Cookie(&session)] {
            walk(&bed, by, &theirs).await;
        }
        ask(&bed, By::Cookie(&session), &Method::DELETE, "/v1/session", &json!({})).await.is(204);
        ask(&bed, By::Cookie(&session), &Method::GET, "/v1/jobs", &json!({}))
            .await
            .refused(401, "unauthorized");

        assert_eq!(get(&format!("/v1/jobs/{}", theirs.job)).await["version"], before);
        for kind in ["schedules", "triggers", "subscriptions"] {
            assert_eq!(get(&format!("/v1/{kind}/theirs")).await["version"], 1, "{kind}");
        }
        assert_eq!(get(&format!("/v1/operations/{}", theirs.operation)).await["phase"], "held");
        assert_eq!(get(&format!("/v1/problems/{}", theirs.problem)).await["state"], "open");
        for (kind, text) in [("views", NAME), ("alerts", NAME), ("marks", "hidden-mark"), ("keys", NAME)] {
            assert!(get(&format!("/v1/{kind}")).await.to_string().contains(text), "{kind}");
        }
        for actor in ["key:some", "key:chief"] {
            let acts = get(&format!("/v1/audit?actor={actor}")).await;
            let acts: Vec<&str> = acts["entries"]
                .as_array()
                .unwrap()
                .iter()
                .map(|act| act["action"].as_str().unwrap())
                .collect();
            assert!(acts.iter().all(|act| *act == "approval.refused"), "{actor}: {acts:?}");
        }
    }
}
