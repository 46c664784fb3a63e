//! Who may: every route with every role, keys, sessions, lease tokens, links, and servers without keys.

mod bed;

use axum::http::Method;
use bed::{Answer, Bed, Place, beds, make_key, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_core::{Actor, Role, Timestamp, Who};
use windlass_http::{Access, KeyText, ROLES, Server, role_word, routes};
use windlass_store::{PutAccessKey, fresh};

/// The contract, written down apart from the table that the server is made from.
const CONTRACT: &[(&str, &str)] = &[
    ("POST /v1/jobs", "producer"),
    ("POST /v1/jobs/batch", "producer"),
    ("GET /v1/jobs", "viewer"),
    ("GET /v1/jobs/{id}", "viewer"),
    ("GET /v1/jobs/{id}/events", "viewer"),
    ("POST /v1/jobs/{id}/events", "producer or worker or lease token"),
    ("GET /v1/jobs/{id}/steps", "worker or lease token"),
    ("PUT /v1/jobs/{id}/steps/{name}", "worker or lease token"),
    ("GET /v1/jobs/{id}/logs", "viewer"),
    ("POST /v1/jobs/{id}/logs", "worker or lease token"),
    ("POST /v1/jobs/{id}/cancel", "producer or operator"),
    ("POST /v1/jobs/{id}/redrive", "operator"),
    ("POST /v1/jobs/{id}/fork", "operator"),
    ("DELETE /v1/jobs/{id}/payload", "admin"),
    ("POST /v1/jobs/{id}/signal", "producer"),
    ("POST /v1/flows", "producer"),
    ("POST /v1/jobs/{id}/children", "producer"),
    ("POST /v1/jobs/{id}/seal", "producer"),
    ("GET /v1/jobs/{id}/graph", "viewer"),
    ("GET /v1/jobs/{id}/upstream", "viewer or worker or lease token"),
    ("POST /v1/claim", "worker"),
    ("POST /v1/jobs/{id}/claim", "worker"),
    ("POST /v1/jobs/{id}/start", "worker"),
    ("POST /v1/heartbeat", "worker or lease token"),
    ("POST /v1/settle", "worker"),
    ("POST /v1/jobs/{id}/complete", "worker or lease token"),
    ("POST /v1/jobs/{id}/fail", "worker or lease token"),
    ("POST /v1/jobs/{id}/release", "worker or lease token"),
    ("POST /v1/jobs/{id}/progress", "worker or lease token"),
    ("POST /v1/jobs/{id}/charge", "worker or lease token"),
    ("POST /v1/jobs/{id}/approvals", "worker or lease token"),
    ("POST /v1/jobs/{id}/wait", "worker or lease token"),
    ("GET /v1/approvals", "viewer"),
    ("GET /v1/approvals/{id}", "viewer"),
    ("POST /v1/approvals/by-token", "–"),
    ("POST /v1/approvals/{id}/decide", "approver or link token"),
    ("GET /v1/queues", "viewer"),
    ("PUT /v1/queues/{queue}", "operator"),
    ("POST /v1/queues/{queue}/pause", "operator"),
    ("POST /v1/queues/{queue}/resume", "operator"),
    ("GET /v1/queues/{queue}/lanes", "viewer"),
    ("POST /v1/queues/{queue}/lanes/release", "operator"),
    ("GET /v1/schedules", "viewer"),
    ("GET /v1/schedules/{name}", "viewer"),
    ("PUT /v1/schedules/{name}", "operator"),
    ("DELETE /v1/schedules/{name}", "operator"),
    ("GET /v1/schedules/{name}/next", "viewer"),
    ("POST /v1/schedules/{name}/trigger", "operator"),
    ("POST /v1/schedules/{name}/pause", "operator"),
    ("POST /v1/schedules/{name}/resume", "operator"),
    ("POST /v1/schedules/{name}/backfill", "operator"),
    ("PUT /v1/schedules", "operator"),
    ("GET /v1/leader", "viewer"),
    ("GET /v1/triggers", "viewer or operator"),
    ("GET /v1/triggers/{name}", "viewer or operator"),
    ("PUT /v1/triggers/{name}", "operator"),
    ("DELETE /v1/triggers/{name}", "operator"),
    ("POST /v1/triggers/{name}", "producer"),
    ("POST /v1/triggers/{name}/secret", "operator"),
    ("GET /v1/triggers/{name}/events", "viewer or operator"),
    ("POST /v1/webhooks/{name}", "–"),
    ("GET /v1/subscriptions", "viewer or operator"),
    ("GET /v1/subscriptions/{name}", "viewer or operator"),
    ("PUT /v1/subscriptions/{name}", "operator"),
    ("DELETE /v1/subscriptions/{name}", "operator"),
    ("POST /v1/subscriptions/{name}/pause", "operator"),
    ("POST /v1/subscriptions/{name}/resume", "operator"),
    ("GET /v1/settings", "viewer or operator"),
    ("PUT /v1/settings", "operator"),
    ("GET /v1/now", "viewer"),
    ("GET /v1/stats", "viewer"),
    ("POST /v1/stats/rebuild", "operator"),
    ("GET /v1/problems", "viewer"),
    ("GET /v1/problems/{fingerprint}", "viewer"),
    ("PUT /v1/problems/{fingerprint}", "operator"),
    ("POST /v1/bulk", "operator"),
    ("GET /v1/operations", "viewer or operator"),
    ("GET /v1/operations/{id}", "viewer or operator"),
    ("POST /v1/operations/{id}/stop", "operator"),
    ("POST /v1/schedules/{name}/preview", "operator"),
    ("GET /v1/calendar", "viewer"),
    ("GET /v1/views", "viewer"),
    ("PUT /v1/views/{name}", "operator"),
    ("DELETE /v1/views/{name}", "operator"),
    ("GET /v1/alerts", "viewer"),
    ("PUT /v1/alerts/{name}", "operator"),
    ("DELETE /v1/alerts/{name}", "operator"),
    ("GET /v1/marks", "viewer"),
    ("POST /v1/marks", "operator"),
    ("DELETE /v1/marks/{id}", "operator"),
    ("GET /v1/feed", "viewer"),
    ("GET /v1/jobs/{id}/feed", "viewer"),
    ("GET /v1/workers", "viewer"),
    ("PUT /v1/workers/{id}", "worker or operator"),
    ("GET /v1/audit", "viewer"),
    ("GET /v1/keys", "admin"),
    ("POST /v1/keys", "admin"),
    ("DELETE /v1/keys/{name}", "admin"),
    ("GET /v1/session", "any key"),
    ("POST /v1/session", "–"),
    ("DELETE /v1/session", "–"),
    ("GET /healthz", "–"),
    ("GET /readyz", "–"),
    ("GET /metrics", "viewer"),
    ("GET /openapi.json", "–"),
    ("GET /errors/{code}", "–"),
    ("GET /", "–"),
    ("GET /approve", "–"),
    ("GET /static/{build}/{name}", "–"),
];

/// (access) The table of routes says of each what the contract says.
#[test]
fn the_routes_are_those_of_the_contract() {
    let table: BTreeMap<String, String> =
        routes().iter().map(|route| (format!("{route:?}"), route.who())).collect();
    let contract: BTreeMap<String, String> =
        CONTRACT.iter().map(|(route, who)| ((*route).to_owned(), (*who).to_owned())).collect();
    assert_eq!(table, contract);
}

fn filled(path: &str) -> String {
    path.replace("{id}", "01890000-0000-7000-8000-000000000009")
        .replace("{name}", "nobody")
        .replace("{fingerprint}", "0123456789abcdef")
        .replace("{queue}", "walk")
        .replace("{code}", "invalid")
}

/// What a walk got: whether it was let in, by status and code.
async fn walk(bed: &Bed, method: &Method, path: &str, key: Option<&str>) -> (u16, String) {
    let mut request = bed.running.request(method.clone(), &filled(path));
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    if *method != Method::GET && *method != Method::DELETE {
        // A vote is checked for the right to it; everything else is refused before its body is looked at.
        request =
            request.json(&if path.ends_with("/decide") { json!({ "decision": "deny" }) } else { json!({}) });
    }
    let response = request.send().await.expect("an answer");
    if response.status() == 200 {
        // It may be a stream.
        return (200, String::new());
    }
    let answer = Answer::of(response).await;
    (answer.status, answer.body["code"].as_str().unwrap_or_default().to_owned())
}

/// (access) Every route with every role, and with none: let in where the table says so, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_lets_in_whom_it_says() {
    let bed = Place::memory().serve_with(|server| server.wrong_per_minute(1_000_000)).await;
    let mut keys = Vec::new();
    for role in ROLES {
        keys.push((role, bed.make_key(role_word(role), &[role], None).await));
    }
    until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
    let mut walked = 0;
    for route in routes() {
        let signs_in = route.path == "/v1/session" && route.method == Method::POST;
        for key in [None, Some("wl_unknown")] {
            let (status, code) = walk(&bed, &route.method, route.path, key).await;
            let is_shut = route.access != Access::Everybody || signs_in;
            assert_eq!(code == "unauthorized", is_shut, "{route:?} as {key:?}: {status} {code}");
        }
        for (role, key) in &keys {
            let may = match route.access {
                Access::Everybody | Access::AnyKey => true,
                Access::Roles(roles) => *role == Role::Admin || roles.contains(role),
            };
            let (status, code) = walk(&bed, &route.method, route.path, Some(key)).await;
            let is_in = !(code == "unauthorized" || (status == 403 && code == "forbidden"));
            assert_eq!(is_in, may, "{route:?} as {}: {status} {code}", role_word(*role));
            assert_ne!(status, 500, "{route:?}");
            walked += 1;
        }
    }
    assert_eq!(walked, routes().len() * ROLES.len());
}

/// (access) What is no key any more, or never was one, opens no route that needs one: revoked and expired keys, the id of a
/// session, a link; a cookie that is none; and a lease token opens the worker verbs only.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_keeps_out_what_is_no_key() {
    let bed = Place::memory().serve_with(|server| server.wrong_per_minute(1_000_000)).await;
    let (id, lease) = bed.held_job().await;
    let ask = json!({ "lease_token": lease, "name": "a", "prompt": "?" });
    let asked = bed.post(&format!("/v1/jobs/{id}/approvals"), ask).await.is(201);
    let link = asked["token"].as_str().unwrap().to_owned();
    let root = bed.make_key("root", &[Role::Admin], None).await;
    let revoked = bed.make_key("revoked", &[Role::Admin], None).await;
    let expired = KeyText::fresh();
    let request = PutAccessKey {
        name: Who::parse("name", "expired").unwrap(),
        hash: expired.hash(),
        roles: vec![Role::Admin],
        queues: None,
        expires_at: Some(Timestamp::from_micros(1)),
        actor: Actor::api(),
    };
    bed.store().put_access_key(request, None).await.unwrap();
    until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
    let gone =
        bed.running.request(Method::DELETE, "/v1/keys/revoked").bearer_auth(&root).send().await.unwrap();
    assert_eq!(gone.status(), 200);
    let signed = bed.running.request(Method::POST, "/v1/session").json(&json!({ "key": root })).send().await;
    let cookie = signed.unwrap().headers()["set-cookie"].to_str().unwrap().to_owned();
    let session = cookie.split(['=', ';']).nth(1).unwrap().to_owned();
    for route in routes() {
        if route.access == Access::Everybody {
            continue;
        }
        for (what, bearer) in [
            ("revoked", &revoked),
            ("expired", &expired.as_str().to_owned()),
            ("session", &session),
            ("link", &link),
        ] {
            let (status, code) = walk(&bed, &route.method, route.path, Some(bearer)).await;
            assert_eq!((status, code.as_str()), (401, "unauthorized"), "{route:?} with a {what}");
        }
        let (status, code) = walk(&bed, &route.method, route.path, Some(&lease)).await;
        assert_eq!(code == "forbidden", !route.by_lease, "{route:?} with a lease: {status} {code}");
        let request = bed.running.request(route.method.clone(), &filled(route.path));
        let request =
            request.header("cookie", format!("windlass={root}")).header("sec-fetch-site", "same-origin");
        let shown = Answer::of(request.json(&json!({})).send().await.unwrap()).await;
        assert_eq!(shown.status, 401, "{route:?} with a key as cookie: {}", shown.text);
    }
}

/// (access) Without keys: only local names, no other site's page, nothing through a proxy.
#[tokio::test(flavor = "multi_thread")]
async fn without_keys_only_this_machine_is_served() {
    for bed in beds().await {
        let send = async |method: Method, headers: &[(&str, &str)]| {
            let mut request = bed.running.request(method, "/v1/jobs").json(&json!({ "kind": "work" }));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            Answer::of(request.send().await.unwrap()).await
        };
        let port = bed.running.address.port();
        let (own, local) = (format!("http://localhost:{port}"), format!("localhost:{port}"));
        send(Method::POST, &[]).await.is(201);
        send(Method::POST, &[("host", &local), ("origin", &own)]).await.is(201);
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "[::2]:80"] {
            send(Method::GET, &[("host", host)]).await.refused(403, "host_refused");
        }
        send(Method::GET, &[("x-forwarded-for", "10.0.0.1")]).await.refused(403, "host_refused");
        for origin in ["https://evil.example", "null", "http://localhost:1"] {
            send(Method::POST, &[("host", &local), ("origin", origin)]).await.refused(403, "origin_refused");
            send(Method::GET, &[("host", &local), ("origin", origin)]).await.refused(403, "origin_refused");
        }
        send(Method::POST, &[("sec-fetch-site", "cross-site")]).await.refused(403, "origin_refused");
        send(Method::GET, &[("authorization", "Bearer wl_x")]).await.refused(401, "unauthorized");
        send(Method::GET, &[("authorization", "Basic eDp5")]).await.refused(401, "unauthorized");
        assert_eq!(bed.get("/v1/session").await.is(200)["name"], "local");
        assert_eq!(bed.get("/v1/jobs").await.is(200)["jobs"].as_array().unwrap().len(), 2);
    }
}

/// (access) An address that others can reach needs a key first, and the error says how.
#[tokio::test(flavor = "multi_thread")]
async fn a_public_address_needs_a_key() {
    let place = Place::memory();
    let server = Server::new(place.store.clone());
    let refused = server.listen("0.0.0.0:0").await.unwrap_err().to_string();
    assert!(refused.contains("without a key") && refused.contains("windlass keys create"), "{refused}");
    assert!(server.listen("127.0.0.1:0").await.is_ok() && server.listen("[::1]:0").await.is_ok());
    let taken = server.listen("127.0.0.1:0").await.unwrap();
    let again = server.listen(taken.local_addr().unwrap()).await.unwrap_err().to_string();
    assert!(again.contains("cannot listen on 127.0.0.1"), "{again}");
    make_key(&place.store, "admin", &[Role::Admin], None).await;
    assert!(server.listen("0.0.0.0:0").await.is_ok());
}

/// (access) A key is made, shown once, used, and taken back; the first one closes the door.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_and_revoked() {
    for bed in beds().await {
        let made = bed.post("/v1/keys", json!({ "name": "root", "roles": ["admin"] })).await.is(201);
        let root = made["secret"].as_str().unwrap().to_owned();
        assert!(root.starts_with("wl_") && root.len() == 67);
        let denied = bed.get("/v1/jobs").await;
        assert_eq!(denied.headers["www-authenticate"], "Bearer realm=\"windlass\"");
        denied.refused(401, "unauthorized");
        let bed = bed.with_key(Some(root.clone()));
        bed.post("/v1/keys", json!({ "name": "root", "roles": ["viewer"] })).await.refused(409, "key_exists");
        for bad in [
            json!({ "name": "x", "roles": [] }),
            json!({ "name": "x", "roles": ["king"] }),
            json!({ "name": "", "roles": ["viewer"] }),
            json!({ "name": "x", "roles": ["viewer"], "queues": ["a b"] }),
        ] {
            bed.post("/v1/keys", bad).await.refused(422, "invalid");
        }
        let expires = fresh::wall_clock().plus_ms(3_600_000).to_string();
        let made = json!({ "name": "ci", "roles": ["producer"], "queues": ["mail"], "expires_at": expires });
        let ci = bed.post("/v1/keys", made).await.is(201)["secret"].as_str().unwrap().to_owned();
        let keys = bed.get("/v1/keys").await;
        assert!(!keys.text.contains(&ci[3..]) && !keys.text.contains(&root[3..]), "no secret is shown again");
        let listed = keys.is(200);
        assert_eq!(
            (&listed["keys"][0]["name"], &listed["keys"][0]["queues"]),
            (&json!("ci"), &json!(["mail"]))
        );
        let ci = bed.with_key(Some(ci));
        let job = ci.post("/v1/jobs", json!({ "kind": "work", "queue": "mail" })).await.is(201);
        let id = job["job"]["id"].as_str().unwrap().to_owned();
        ci.get("/v1/keys").await.refused(403, "forbidden");
        assert_eq!(ci.get("/v1/session").await.is(200)["queues"], json!(["mail"]));
        let root = ci.with_key(Some(root));
        let events = root.get(&format!("/v1/jobs/{id}/events")).await.is(200);
        assert_eq!(events["events"][0]["actor"], "key:ci", "who did it is on record");
        let revoked = root.delete("/v1/keys/ci").await.is(200);
        assert!(revoked["key"]["revoked_at"].is_string());
        root.delete("/v1/keys/nobody").await.refused(404, "not_found");
        let actions: Vec<Value> = root.get("/v1/audit").await.is(200)["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["action"].clone())
            .collect();
        assert_eq!(actions, ["key.revoke", "key.create", "key.create"]);
    }
}

/// (access) A revoked key opens nothing at once where it was revoked, and a stream that it opened ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_opens_nothing() {
    let every = std::time::Duration::from_millis(50);
    let bed = Place::memory().serve_with(|server| server.comment_every(every)).await;
    let root = bed.make_key("root", &[Role::Admin], None).await;
    let view = bed.make_key("view", &[Role::Viewer], None).await;
    let expired = KeyText::fresh();
    let request = PutAccessKey {
        name: Who::parse("name", "old").unwrap(),
        hash: expired.hash(),
        roles: vec![Role::Admin],
        queues: None,
        expires_at: Some(Timestamp::from_micros(1)),
        actor: Actor::api(),
    };
    bed.store().put_access_key(request, None).await.unwrap();
    until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
    let old = bed.with_key(Some(expired.as_str().to_owned()));
    old.get("/v1/jobs").await.refused(401, "unauthorized");
    let viewer = old.with_key(Some(view));
    let stream = viewer.request(Method::GET, "/v1/feed").send().await.unwrap();
    let mut events = bed::events::Events::of(stream);
    events.opened().await;
    viewer.get("/v1/jobs").await.is(200);
    let again =
        viewer.running.request(Method::DELETE, "/v1/keys/view").bearer_auth(&root).send().await.unwrap();
    assert_eq!(again.status(), 200);
    viewer.get("/v1/jobs").await.refused(401, "unauthorized");
    assert!(events.next().await.is_none(), "the stream ends with its key");
}

/// (access) A browser signs in: the cookie is hidden from scripts and of no use to other sites.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_a_cookie() {
    for bed in beds().await {
        let key = bed.make_key("ann", &[Role::Operator], None).await;
        until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
        let port = bed.running.address.port();
        let (host, origin) = (format!("localhost:{port}"), format!("http://localhost:{port}"));
        let request = |method: Method, path: &str| bed.running.request(method, path).header("host", &host);
        let send = async |request: reqwest::RequestBuilder| Answer::of(request.send().await.unwrap()).await;
        let signed = send(request(Method::POST, "/v1/session").json(&json!({ "key": key }))).await;
        let cookie = signed.headers["set-cookie"].to_str().unwrap().to_owned();
        assert_eq!(signed.is(201)["roles"], json!(["operator"]));
        assert!(
            cookie.starts_with("windlass=") && cookie.contains("; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
        let pair = cookie.split(';').next().unwrap().to_owned();
        let with = |method, path: &str| request(method, path).header("cookie", &pair);
        assert_eq!(send(with(Method::GET, "/v1/session")).await.is(200)["name"], "ann");
        send(with(Method::POST, "/v1/queues/a/pause")).await.refused(403, "origin_refused");
        send(with(Method::POST, "/v1/queues/a/pause").header("origin", &origin)).await.is(200);
        send(with(Method::POST, "/v1/queues/a/pause").header("sec-fetch-site", "same-origin")).await.is(200);
        let evil = "https://evil.example";
        send(with(Method::POST, "/v1/queues/a/pause").header("origin", evil))
            .await
            .refused(403, "origin_refused");
        send(with(Method::GET, "/v1/queues").header("origin", evil)).await.refused(403, "origin_refused");
        send(request(Method::POST, "/v1/session").header("origin", evil).json(&json!({ "key": key })))
            .await
            .refused(403, "origin_refused");
        send(request(Method::POST, "/v1/session").json(&json!({ "key": "wl_no" })))
            .await
            .refused(401, "unauthorized");
        let https =
            bed.running.request(Method::POST, "/v1/session").header("host", "jobs.example").bearer_auth(&key);
        let https = send(https.json(&json!({}))).await;
        let cookie = https.headers["set-cookie"].to_str().unwrap().to_owned();
        assert!(
            cookie.starts_with("__Host-windlass=")
                && cookie.ends_with("; Secure")
                && cookie.contains("Path=/;"),
            "{cookie}"
        );
        let out = send(with(Method::DELETE, "/v1/session").header("origin", &origin)).await;
        assert_eq!(out.status, 204);
        assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    }
}

/// (access) A lease token is its job's bearer, for that job's worker verbs and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_token_opens_its_own_job() {
    for bed in beds().await {
        let ((id, token), (other, _)) = (bed.held_job().await, bed.held_job().await);
        let root = bed.make_key("root", &[Role::Admin], None).await;
        until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
        let holder = bed.with_key(Some(token.clone()));
        let path = |id: &str, verb: &str| format!("/v1/jobs/{id}/{verb}");
        holder.post(&path(&id, "progress"), json!({ "progress": 5 })).await.is(200);
        holder.put(&path(&id, "steps/one"), json!({ "status": "finished", "value": 1 })).await.is(200);
        assert_eq!(holder.get(&path(&id, "steps")).await.is(200)["steps"][0]["value"], 1);
        holder.post(&path(&id, "logs"), json!({ "lines": ["hello"] })).await.is(201);
        holder.post(&path(&id, "events"), json!({ "type": "tool_custom" })).await.is(201);
        let beat = json!({ "worker_id": "w1", "leases": [{ "job_id": id, "token": token }] });
        assert_eq!(holder.post("/v1/heartbeat", beat).await.is(200)["leases"][0]["ok"], true);
        holder.get(&path(&other, "steps")).await.refused(409, "lease_mismatch");
        holder.post(&path(&other, "complete"), json!({})).await.refused(409, "lease_mismatch");
        let foreign = json!({ "lease_token": "0".repeat(32) });
        holder.post(&path(&id, "complete"), foreign).await.refused(409, "lease_mismatch");
        for (method, path) in [
            (Method::GET, "/v1/jobs".to_owned()),
            (Method::GET, format!("/v1/jobs/{id}")),
            (Method::POST, "/v1/claim".to_owned()),
            (Method::POST, path(&id, "cancel")),
            (Method::GET, "/v1/feed".to_owned()),
        ] {
            let response = holder.request(method, &path).json(&json!({})).send().await.unwrap();
            Answer::of(response).await.refused(403, "forbidden");
        }
        holder.post(&path(&id, "complete"), json!({ "result": "by lease" })).await.is(200);
        let root = holder.with_key(Some(root));
        assert_eq!(root.job(&id).await["result"], "by lease");
    }
}

/// (access) A key for some queues sees and touches nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_some_queues_sees_no_others() {
    for bed in beds().await {
        let mine = bed.put_job(json!({ "queue": "mine" })).await;
        let theirs = bed.put_job(json!({ "queue": "theirs" })).await;
        let token = bed.hold(&theirs).await;
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
        let asked = bed.post(&format!("/v1/jobs/{theirs}/approvals"), ask).await.is(201);
        let approval = asked["approval"]["id"].as_str().unwrap().to_owned();
        bed.put("/v1/workers/w", json!({ "queues": ["theirs"] })).await.is(200);
        let roles = [Role::Viewer, Role::Producer, Role::Worker, Role::Approver, Role::Operator];
        let key = bed.make_key("some", &roles, Some(&["mine"])).await;
        until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
        let some = bed.with_key(Some(key));
        let refused = |answer: Answer| answer.refused(403, "queue_forbidden");
        let jobs = some.get("/v1/jobs").await.is(200);
        assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
        assert_eq!(jobs["jobs"][0]["id"], mine);
        refused(some.get("/v1/jobs?queue=theirs").await);
        refused(some.get(&format!("/v1/jobs/{theirs}")).await);
        for path in ["events", "logs", "feed", "steps"] {
            refused(some.get(&format!("/v1/jobs/{theirs}/{path}")).await);
        }
        for (path, body) in [
            ("cancel", json!({})),
            ("redrive", json!({})),
            ("fork", json!({})),
            ("signal", json!({ "name": "x" })),
            ("events", json!({ "type": "x" })),
            ("claim", json!({ "worker_id": "w" })),
        ] {
            refused(some.post(&format!("/v1/jobs/{theirs}/{path}"), body).await);
        }
        refused(some.post("/v1/jobs", json!({ "kind": "x", "queue": "theirs" })).await);
        let batch = json!({ "jobs": [{ "kind": "x", "queue": "mine" }, { "kind": "x", "queue": "theirs" }] });
        assert_eq!(refused(some.post("/v1/jobs/batch", batch).await)["index"], 1);
        refused(some.post("/v1/jobs", json!({ "kind": "x", "queue": "mine", "parent_id": theirs })).await);
        refused(some.post("/v1/claim", json!({ "queues": ["mine", "theirs"], "worker_id": "w" })).await);
        refused(some.post("/v1/queues/theirs/pause", json!({})).await);
        refused(some.put("/v1/workers/w", json!({ "draining": true })).await);
        refused(some.put("/v1/workers/x", json!({ "queues": ["theirs"] })).await);
        refused(some.get("/v1/audit").await);
        refused(some.get(&format!("/v1/approvals/{approval}")).await);
        refused(some.post(&format!("/v1/approvals/{approval}/decide"), json!({ "decision": "deny" })).await);
        refused(some.post("/v1/bulk", json!({ "filter": {}, "action": "cancel", "dry_run": true })).await);
        assert_eq!(some.get("/v1/approvals").await.is(200)["approvals"], json!([]));
        assert_eq!(some.get("/v1/workers").await.is(200)["workers"], json!([]));
        let queues = some.get("/v1/queues").await.is(200);
        assert_eq!(queues["queues"].as_array().unwrap().len(), 1);
        let stream = some.request(Method::GET, "/v1/feed").send().await.unwrap();
        let mut events = bed::events::Events::of(stream);
        events.opened().await;
        some.post(&format!("/v1/jobs/{theirs}/progress"), json!({ "lease_token": token, "progress": 1 }))
            .await
            .is(200);
        let new = some.post("/v1/jobs", json!({ "kind": "x", "queue": "mine" })).await.is(201);
        assert_eq!(events.next().await.unwrap().data["job_id"], new["job"]["id"]);
        let by_filter = json!({ "filter": { "queue": "mine" }, "action": "cancel", "dry_run": false });
        assert_eq!(some.post("/v1/bulk", by_filter).await.is(200)["done"], 2);
    }
}

/// (access) A link is one vote and no look at anything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_votes_without_a_key() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "secret plans?" });
        let asked = bed.post(&format!("/v1/jobs/{id}/approvals"), ask).await.is(201);
        let (approval, link) = (asked["approval"]["id"].as_str().unwrap(), asked["token"].as_str().unwrap());
        bed.make_key("root", &[Role::Admin], None).await;
        let boss = bed.make_key("boss", &[Role::Approver], None).await;
        until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
        let path = format!("/v1/approvals/{approval}/decide");
        let seen = async |token: String| bed.post("/v1/approvals/by-token", json!({ "token": token })).await;
        let question = seen(format!("{approval}.{link}")).await.is(200);
        assert_eq!((&question["prompt"], &question["status"]), (&json!("secret plans?"), &json!("pending")));
        assert_eq!((&question["used"], &question["job_id"]), (&json!(false), &Value::Null), "{question}");
        assert_eq!(asked["link"], format!("/approve#{approval}.{link}"));
        seen(format!("{approval}.{}", "0".repeat(64))).await.refused(403, "approval_forbidden");
        seen(format!("01890000-0000-7000-8000-000000000009.{link}")).await.refused(404, "approval_not_found");
        for broken in ["", ".", link, approval, "nothing.nothing"] {
            seen(broken.to_owned()).await.refused(422, "token_malformed");
        }
        bed.post(&path, json!({ "decision": "approve" })).await.refused(401, "unauthorized");
        let body = json!({ "decision": "approve", "token": "0".repeat(64) });
        bed.post(&path, body).await.refused(403, "approval_forbidden");
        let voted = bed.post(&path, json!({ "decision": "approve", "token": link })).await;
        assert!(!voted.text.contains("secret plans"), "{}", voted.text);
        assert_eq!(voted.is(200), json!({ "status": "approved" }));
        let question = seen(format!("{approval}.{link}")).await.is(200);
        assert_eq!((&question["used"], &question["status"]), (&json!(true), &json!("approved")));
        let large = json!({ "decision": "approve", "token": link, "reason": "x".repeat(100_000) });
        bed.post(&path, large).await.refused(413, "request_too_large");
        let boss = bed.with_key(Some(boss));
        boss.post(&path, json!({ "decision": "approve" })).await.refused(409, "approval_decided");
    }
}

/// (access) What an endpoint answers can be read as a result, and a server reaches more than a caller does: only an admin says
/// where it is. An operator takes it away.
#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_sets_an_endpoint() {
    let bed = Place::memory().serve().await;
    let (admin, operator) = (
        bed.make_key("admin", &[Role::Admin], None).await,
        bed.make_key("operator", &[Role::Operator], None).await,
    );
    until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
    let body = json!({ "endpoint": { "url": "http://169.254.169.254/latest" } });
    let bed = bed.with_key(Some(operator.clone()));
    bed.put("/v1/queues/mail", body.clone()).await.refused(403, "forbidden");
    let bed = bed.with_key(Some(admin));
    bed.put("/v1/queues/mail", body).await.is(200);
    let bed = bed.with_key(Some(operator));
    let gone = bed.put("/v1/queues/mail", json!({ "endpoint": {} })).await.is(200);
    assert_eq!(gone["queue"]["endpoint"], Value::Null);
}
