//! What keys may not do: grant more than they have, outlive their end, be guessed without end, reach others' workers.

mod bed;

use bed::events::Events;
use bed::{Answer, Bed, Place, beds, make_key, soon, until};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use windlass_core::{Actor, Role, Who};
use windlass_http::KeyText;
use windlass_store::{PutAccessKey, RevokeAccessKey, fresh};

async fn keyed(bed: &Bed) {
    until("the server knows that there are keys", async || bed.get("/v1/jobs").await.status == 401).await;
}

async fn as_key(bed: &Bed, key: &str, method: Method, path: &str, body: Value) -> Answer {
    let request = bed.running.request(method, path).bearer_auth(key).json(&body);
    Answer::of(request.send().await.expect("an answer")).await
}

fn revoke(name: &str) -> RevokeAccessKey {
    RevokeAccessKey { name: Who::parse("name", name).expect("a name"), actor: Actor::api() }
}

/// (keys) No key grants more than it has: no role, no queue, no day longer. The audit names all that was granted.
#[tokio::test(flavor = "multi_thread")]
async fn no_key_grants_more_than_it_has() {
    for bed in beds().await {
        let root = bed.make_key("root", &[Role::Admin], None).await;
        let some = bed.make_key("some", &[Role::Admin], Some(&["mine"])).await;
        let until = fresh::wall_clock().plus_ms(3_600_000);
        let brief = KeyText::fresh();
        let request = PutAccessKey {
            name: Who::parse("name", "brief").unwrap(),
            hash: brief.hash(),
            roles: vec![Role::Admin],
            queues: None,
            expires_at: Some(until),
            actor: Actor::api(),
        };
        bed.store().put_access_key(request, None).await.unwrap();
        keyed(&bed).await;
        let make = async |key: &str, body: Value| as_key(&bed, key, Method::POST, "/v1/keys", body).await;
        for bad in [
            json!({ "name": "all", "roles": ["admin"] }),
            json!({ "name": "all", "roles": ["viewer"] }),
            json!({ "name": "all", "roles": ["viewer"], "queues": ["mine", "theirs"] }),
        ] {
            make(&some, bad).await.refused(403, "forbidden");
        }
        make(&some, json!({ "name": "child", "roles": ["producer"], "queues": ["mine"] })).await.is(201);
        let later = until.plus_ms(1_000).to_string();
        make(brief.as_str(), json!({ "name": "x", "roles": ["viewer"] })).await.refused(403, "forbidden");
        make(brief.as_str(), json!({ "name": "x", "roles": ["viewer"], "expires_at": later }))
            .await
            .refused(403, "forbidden");
        let same =
            json!({ "name": "x", "roles": ["viewer"], "queues": ["a"], "expires_at": until.to_string() });
        make(brief.as_str(), same).await.is(201);

        let listed = as_key(&bed, &some, Method::GET, "/v1/keys", json!({})).await.is(200);
        let names: Vec<&str> =
            listed["keys"].as_array().unwrap().iter().filter_map(|key| key["name"].as_str()).collect();
        assert_eq!(names, ["child", "some"], "keys that grant more are none of its business");
        as_key(&bed, &some, Method::DELETE, "/v1/keys/root", json!({})).await.refused(403, "forbidden");
        as_key(&bed, &some, Method::DELETE, "/v1/keys/child", json!({})).await.is(200);
        as_key(&bed, brief.as_str(), Method::DELETE, "/v1/keys/some", json!({})).await.is(200);

        let audit = as_key(&bed, &root, Method::GET, "/v1/audit", json!({})).await.is(200);
        let made = audit["entries"].as_array().unwrap().iter().find(|entry| entry["target"] == "x").unwrap();
        assert_eq!((&made["actor"], &made["action"]), (&json!("key:brief"), &json!("key.create")));
        let expected =
            json!({ "roles": ["viewer"], "queues": ["a"], "expires_at": made["detail"]["expires_at"] });
        assert_eq!(made["detail"], expected);
        assert!(made["detail"]["expires_at"].is_string());
    }
}

/// (keys) Whoever votes with any token writes a few lines on record, not as many as it likes, and has to wait.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_fill_the_audit() {
    let bed = Place::memory().serve_with(|server| server.wrong_per_minute(20)).await;
    let (id, token) = bed.held_job().await;
    let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
    let asked = bed.post(&format!("/v1/jobs/{id}/approvals"), ask).await.is(201);
    let root = bed.make_key("root", &[Role::Admin], None).await;
    keyed(&bed).await;
    as_key(&bed, &root, Method::GET, "/v1/jobs", json!({})).await.is(200);
    let own = asked["approval"]["id"].as_str().unwrap().to_owned();
    let lost = "01890000-0000-7000-8000-000000000009".to_owned();
    let mut waits = 0;
    for n in 0..60 {
        let path = format!("/v1/approvals/{}/decide", if n % 2 == 0 { &own } else { &lost });
        let answer = bed.post(&path, json!({ "decision": "approve", "token": format!("{n:064x}") })).await;
        if answer.status == 429 {
            let after: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=60).contains(&after));
            answer.refused(429, "too_many_requests");
            waits += 1;
        }
    }
    assert!(waits >= 30, "{waits} of 60 had to wait");
    let audit = as_key(&bed, &root, Method::GET, "/v1/audit?limit=1000", json!({})).await.is(200);
    let refused = audit["entries"].as_array().unwrap().iter().filter(|e| e["action"] == "approval.refused");
    let refused = refused.count();
    assert!((1..=10).contains(&refused), "{refused} lines on record");
    let metrics = as_key(&bed, &root, Method::GET, "/metrics", json!({})).await.text;
    assert!(metrics.contains("windlass_refusals_unrecorded_total"), "{metrics}");
    // Whoever has the link votes all the same, once; the rest of its votes are counted only.
    let link = asked["token"].as_str().unwrap();
    let path = format!("/v1/approvals/{own}/decide");
    bed.post(&path, json!({ "decision": "approve", "token": link })).await.is(200);
}

/// (keys) Wrong keys cost a look each, until their sender has to wait; whoever is known is let in.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_have_to_wait() {
    let bed = Place::memory().serve_with(|server| server.wrong_per_minute(10)).await;
    let root = bed.make_key("root", &[Role::Admin], None).await;
    keyed(&bed).await;
    as_key(&bed, &root, Method::GET, "/v1/jobs", json!({})).await.is(200);
    let mut statuses = Vec::new();
    for n in 0..20 {
        let answer = as_key(&bed, &format!("wl_{n}"), Method::GET, "/v1/jobs", json!({})).await;
        if answer.status == 429 {
            assert!(answer.headers.contains_key("retry-after"));
        }
        statuses.push(answer.status);
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert!(statuses[10..].iter().filter(|status| **status == 429).count() >= 9, "{statuses:?}");
    as_key(&bed, &root, Method::GET, "/v1/jobs", json!({})).await.is(200);
    let metrics = as_key(&bed, &root, Method::GET, "/metrics", json!({})).await.text;
    assert!(metrics.contains("windlass_access_refused_total{code=\"unauthorized\"}"), "{metrics}");
}

/// (keys) Limits are for each key, wherever it is used: of two keys behind one address, neither takes the other's place, nor
/// that of whoever has no key.
#[tokio::test(flavor = "multi_thread")]
async fn two_keys_behind_one_address_are_two_callers() {
    let bed = Place::memory().serve_with(|server| server.open_per_caller(2, 100).wrong_per_minute(5)).await;
    let (id, token) = bed.held_job().await;
    let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
    let asked = bed.post(&format!("/v1/jobs/{id}/approvals"), ask).await.is(201);
    let ann = bed.make_key("ann", &[Role::Viewer], None).await;
    let bob = bed.make_key("bob", &[Role::Viewer], None).await;
    keyed(&bed).await;
    let open =
        async |key: &str| bed.running.request(Method::GET, "/v1/feed").bearer_auth(key).send().await.unwrap();
    let (mut anns, mut bobs) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        anns.push(open(&ann).await);
    }
    let third = Answer::of(open(&ann).await).await;
    assert!(third.headers.contains_key("retry-after"));
    third.refused(429, "too_many_requests");
    for _ in 0..2 {
        bobs.push(open(&bob).await);
        assert_eq!(bobs.last().unwrap().status(), 200, "bob has places of his own");
    }
    Answer::of(open(&bob).await).await.refused(429, "too_many_requests");
    drop(anns.pop());
    until("ann has a place again", async || open(&ann).await.status() == 200).await;
    Answer::of(open(&bob).await).await.refused(429, "too_many_requests");

    let path = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
    let guess = async |key: &str, n: u32| {
        let vote = json!({ "decision": "approve", "token": format!("{n:064x}") });
        as_key(&bed, key, Method::POST, &path, vote).await
    };
    for n in 0..5 {
        guess(&ann, n).await.refused(403, "approval_forbidden");
    }
    let sixth = guess(&ann, 6).await;
    assert!(sixth.headers.contains_key("retry-after"));
    sixth.refused(429, "too_many_requests");
    guess(&bob, 7).await.refused(403, "approval_forbidden");
}

/// (keys) One caller has so many streams and connections open, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn one_caller_does_not_take_every_connection() {
    let bed = Place::memory().serve_with(|server| server.open_per_caller(2, 6)).await;
    let open = async || bed.request(Method::GET, "/v1/feed").send().await.unwrap();
    let (one, _two) = (open().await, open().await);
    let three = Answer::of(open().await).await;
    assert!(three.headers.contains_key("retry-after"));
    three.refused(429, "too_many_requests");
    drop(one);
    until("a place is free again", async || open().await.status() == 200).await;
    let mut held = Vec::new();
    let mut refused = None;
    for _ in 0..8 {
        let mut stream = TcpStream::connect(bed.running.address).await.unwrap();
        let mut text = String::new();
        let read = tokio::time::timeout(Duration::from_millis(500), stream.read_to_string(&mut text)).await;
        if read.is_ok() {
            refused = Some(text);
            break;
        }
        held.push(stream);
    }
    let refused = refused.expect("one too many is turned away");
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: "), "{refused}");
}

/// What is promised of everything that is open under a key that has ended.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// (keys) What is open under a key ends within five seconds of its end, also behind the server's back, and however busy it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_ends_with_its_key() {
    for bed in beds().await {
        let root = bed.make_key("root", &[Role::Admin], None).await;
        let view = bed.make_key("view", &[Role::Viewer], None).await;
        let work = bed.make_key("work", &[Role::Worker], None).await;
        keyed(&bed).await;
        let id =
            as_key(&bed, &root, Method::POST, "/v1/jobs", json!({ "kind": "work", "queue": "busy" })).await;
        let id = id.is(201)["job"]["id"].as_str().unwrap().to_owned();
        let mut streams = Vec::new();
        for path in ["/v1/feed".to_owned(), format!("/v1/jobs/{id}/feed")] {
            let stream = bed.running.request(Method::GET, &path).bearer_auth(&view).send().await.unwrap();
            let mut events = Events::of(stream);
            events.opened().await;
            streams.push(events);
        }
        let page = bed.running.request(Method::GET, "/v1/feed?wait=60s&queue=none").bearer_auth(&view);
        let page = page.header("accept", "application/json").send();
        let claim = |worker: &str| {
            let body = json!({ "queues": ["none"], "worker_id": worker, "wait": "60s" });
            bed.running.request(Method::POST, "/v1/claim").bearer_auth(&work).json(&body).send()
        };
        let waiting = async { tokio::join!(claim("first"), claim("second"), page) };
        let began = Instant::now();
        let acts = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            for name in ["view", "work"] {
                bed.store().revoke_access_key(revoke(name), None).await.unwrap();
            }
            let ended = Instant::now();
            let busy = async {
                while ended.elapsed() < ENDS_WITHIN {
                    let note = json!({ "type": "note" });
                    as_key(&bed, &root, Method::POST, &format!("/v1/jobs/{id}/events"), note).await.is(201);
                }
            };
            let ends = async {
                for events in &mut streams {
                    while events.next().await.is_some() {}
                }
                ended.elapsed()
            };
            tokio::select! {
                () = busy => panic!("a busy stream outlives its key"),
                took = soon("the streams end", ends) => took,
            }
        };
        let (answers, took) = tokio::join!(waiting, acts);
        assert!(took < ENDS_WITHIN, "{took:?}");
        for answer in [answers.0, answers.1, answers.2] {
            Answer::of(answer.unwrap()).await.refused(401, "unauthorized");
        }
        assert!(began.elapsed() < Duration::from_secs(30), "they did not wait a minute");
    }
}

/// (keys) The cookie of a session is an id of its own: not the key, of no use after the sign-out, wherever it is shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_no_key_and_ends() {
    for bed in beds().await {
        let key = bed.make_key("ann", &[Role::Viewer], None).await;
        keyed(&bed).await;
        let host = format!("localhost:{}", bed.running.address.port());
        let request = |method: Method, path: &str| bed.running.request(method, path).header("host", &host);
        let signed = request(Method::POST, "/v1/session").json(&json!({ "key": key })).send().await.unwrap();
        let cookie = signed.headers()["set-cookie"].to_str().unwrap().to_owned();
        assert!(!cookie.contains(&key[3..]), "the key is not in the cookie");
        let pair = cookie.split(';').next().unwrap().to_owned();
        let id = pair.split_once('=').unwrap().1.to_owned();
        assert_eq!(id.len(), 64);
        let with = |method: Method, path: &str| request(method, path).header("cookie", &pair);
        let send = async |request: reqwest::RequestBuilder| Answer::of(request.send().await.unwrap()).await;
        send(with(Method::GET, "/v1/jobs")).await.is(200);
        send(request(Method::GET, "/v1/jobs").bearer_auth(&id)).await.refused(401, "unauthorized");
        send(request(Method::GET, "/v1/jobs").header("cookie", format!("windlass={key}")))
            .await
            .refused(401, "unauthorized");
        let mut events = Events::of(with(Method::GET, "/v1/feed").send().await.unwrap());
        events.opened().await;
        let foreign = with(Method::DELETE, "/v1/session").header("origin", "https://evil.example");
        send(foreign).await.refused(403, "origin_refused");
        let out = with(Method::DELETE, "/v1/session").header("origin", format!("http://{host}"));
        assert_eq!(send(out).await.status, 204);
        send(with(Method::GET, "/v1/jobs")).await.refused(401, "unauthorized");
        assert!(events.next().await.is_none(), "what the session had open ends with it");
        let again = Place::other("again", bed.store().clone(), Box::new(())).serve().await;
        let elsewhere = again.running.request(Method::GET, "/v1/jobs").header("host", "localhost:1");
        send(elsewhere.header("cookie", &pair)).await.refused(401, "unauthorized");
    }
}

/// (keys) A session is known to every server over the store, and signing in over plain HTTP says why it cannot work.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_known_to_every_server() {
    for bed in beds().await {
        let key = bed.make_key("ann", &[Role::Viewer], None).await;
        keyed(&bed).await;
        let signed = bed.running.request(Method::POST, "/v1/session").json(&json!({ "key": key }));
        let cookie = signed.send().await.unwrap().headers()["set-cookie"].to_str().unwrap().to_owned();
        let pair = cookie.split(';').next().unwrap().to_owned();
        let other = Place::other("other", bed.store().clone(), Box::new(())).serve().await;
        let with = other.running.request(Method::GET, "/v1/session").header("cookie", &pair);
        assert_eq!(Answer::of(with.send().await.unwrap()).await.is(200)["name"], "ann");
        bed.store().revoke_access_key(revoke("ann"), None).await.unwrap();
        until("a session ends with its key", async || {
            let with = other.running.request(Method::GET, "/v1/session").header("cookie", &pair);
            with.send().await.unwrap().status() == 401
        })
        .await;
        let plain = bed.running.request(Method::POST, "/v1/session").json(&json!({ "key": key }));
        let plain = plain.header("host", "10.0.0.7:7070").header("origin", "http://10.0.0.7:7070");
        let said = Answer::of(plain.send().await.unwrap()).await.refused(403, "https_required");
        assert!(said["detail"].as_str().unwrap().contains("HTTPS"));
    }
}

/// (keys) A worker key tells only workers of its own making and queues; a drain is on record however it came.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_key_reaches_its_own_workers() {
    for bed in beds().await {
        let root = bed.make_key("root", &[Role::Admin], None).await;
        let one = bed.make_key("one", &[Role::Worker], None).await;
        let two = bed.make_key("two", &[Role::Worker], None).await;
        let some = bed.make_key("some", &[Role::Worker, Role::Operator], Some(&["mine"])).await;
        keyed(&bed).await;
        let put = async |key: &str, id: &str, body: Value| {
            as_key(&bed, key, Method::PUT, &format!("/v1/workers/{id}"), body).await
        };
        let report = json!({ "queues": ["mine", "theirs"], "labels": { "key": "two" } });
        assert_eq!(put(&one, "w1", report.clone()).await.is(200)["worker"]["labels"]["key"], "one");
        put(&two, "w1", report.clone()).await.refused(403, "forbidden");
        put(&two, "w1", json!({ "draining": true })).await.refused(403, "forbidden");
        let foreign = put(&some, "w1", json!({ "queues": ["mine"] })).await;
        assert!(!foreign.text.contains("theirs"), "a 403 names nothing foreign: {}", foreign.text);
        foreign.refused(403, "queue_forbidden");
        put(&some, "w1", json!({ "draining": true })).await.refused(403, "queue_forbidden");
        let drained = put(&one, "w1", json!({ "queues": ["mine"], "draining": true })).await.is(200);
        assert_eq!(drained["worker"]["draining"], true);
        put(&two, "w2", json!({ "queues": ["mine"] })).await.is(200);
        put(&some, "w2", json!({ "draining": true })).await.is(200);
        let audit = as_key(&bed, &root, Method::GET, "/v1/audit", json!({})).await.is(200);
        let drains: Vec<_> = audit["entries"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["action"] == "worker.drain")
            .map(|entry| (entry["actor"].clone(), entry["target"].clone()))
            .collect();
        assert_eq!(drains, [(json!("key:some"), json!("w2")), (json!("key:one"), json!("w1"))]);
    }
}

/// (keys) A key for some queues neither finds nor blocks jobs of others: not by unique keys, not by counts, not by words.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_some_queues_learns_nothing_of_others() {
    for bed in beds().await {
        let theirs =
            bed.put_job(json!({ "queue": "secret-plans", "unique": { "key": "u", "scope": "kind" } })).await;
        let roles = [Role::Viewer, Role::Producer];
        let some = bed.make_key("some", &roles, Some(&["mine"])).await;
        let viewer = bed.make_key("viewer", &[Role::Viewer], None).await;
        keyed(&bed).await;
        let post = async |body: Value| as_key(&bed, &some, Method::POST, "/v1/jobs", body).await;
        let job = |unique: Value| json!({ "kind": "work", "queue": "mine", "unique": unique });
        post(job(json!({ "key": "u", "scope": "kind" }))).await.refused(403, "queue_forbidden");
        post(job(json!({ "by": "payload" }))).await.refused(403, "queue_forbidden");
        post(job(json!({ "by": "payload", "scope": "queue" }))).await.is(201);
        assert_eq!(post(job(json!({ "key": "u" }))).await.is(201)["existed"], false);
        let get = async |path: &str| as_key(&bed, &some, Method::GET, path, json!({})).await;
        let refused = get(&format!("/v1/jobs/{theirs}")).await;
        assert!(!refused.text.contains("secret"), "a 403 names nothing foreign: {}", refused.text);
        refused.refused(403, "queue_forbidden");
        get("/metrics").await.refused(403, "queue_forbidden");
        as_key(&bed, &viewer, Method::GET, "/metrics", json!({})).await.is(200);
        bed.get("/metrics").await.refused(401, "unauthorized");
    }
}

/// (keys) Where approvers are named, whoever asks gets no link that would vote for them.
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_gets_no_vote_of_named_approvers() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let ask = |approvers: Value| json!({ "lease_token": token, "name": "a", "prompt": "?", "approvers": approvers });
        let path = format!("/v1/jobs/{id}/approvals");
        for _ in 0..2 {
            let asked = bed.post(&path, ask(json!(["boss"]))).await.is(201);
            assert_eq!(asked["token"], Value::Null);
            let once = bed.post_once("ask", &path, &ask(json!(["boss"]))).await.is(201);
            assert_eq!(once["token"], Value::Null);
        }
        let (id, token) = bed.held_job().await;
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
        let asked = bed.post(&format!("/v1/jobs/{id}/approvals"), ask).await.is(201);
        assert!(asked["token"].is_string());
    }
}

/// (keys) What operators do to single jobs is on record too, with who, before and after, and filters in their own words.
#[tokio::test(flavor = "multi_thread")]
async fn every_action_of_an_operator_is_on_record() {
    for bed in beds().await {
        let (id, token) = bed.held_job().await;
        let ask = json!({ "lease_token": token, "name": "a", "prompt": "?" });
        let asked = bed.post(&format!("/v1/jobs/{id}/approvals"), ask).await.is(201);
        let approval = asked["approval"]["id"].as_str().unwrap().to_owned();
        let root = bed.make_key("root", &[Role::Admin], None).await;
        keyed(&bed).await;
        let post = async |path: &str, body: Value| as_key(&bed, &root, Method::POST, path, body).await;
        let vote = json!({ "decision": "approve", "reason": "fine" });
        post(&format!("/v1/approvals/{approval}/decide"), vote).await.is(200);
        let cancel = json!({ "reason": "no need", "force": true });
        post(&format!("/v1/jobs/{id}/cancel"), cancel.clone()).await.is(200);
        post(&format!("/v1/jobs/{id}/cancel"), cancel).await.is(200);
        post(&format!("/v1/jobs/{id}/redrive"), json!({})).await.is(200);
        let fork = post(&format!("/v1/jobs/{id}/fork"), json!({})).await.is(201);
        let bulk = json!({ "filter": { "queue": "default", "kind": "work" }, "action": "cancel",
            "dry_run": false, "reason": "all of it" });
        assert_eq!(post("/v1/bulk", bulk).await.is(200)["done"], 2);
        let audit = as_key(&bed, &root, Method::GET, "/v1/audit", json!({})).await.is(200);
        let entries: Vec<&Value> = audit["entries"].as_array().unwrap().iter().rev().skip(1).collect();
        let of = |n: usize| (entries[n]["action"].as_str().unwrap(), entries[n]["detail"].clone());
        assert!(entries.iter().all(|entry| entry["actor"] == "key:root"), "{audit}");
        let (action, detail) = of(0);
        assert_eq!((action, &detail["decision"]), ("approval.vote", &json!("approve")));
        assert_eq!(
            (&detail["before"]["approved"], &detail["after"]["status"]),
            (&json!(0), &json!("approved"))
        );
        let (action, detail) = of(1);
        assert_eq!((action, &detail["reason"]), ("job.cancel", &json!("no need")));
        assert_eq!(
            (&detail["before"]["status"], &detail["after"]["status"]),
            (&json!("running"), &json!("cancelled"))
        );
        let (action, detail) = of(2);
        assert_eq!((action, &detail["after"]["generation"]), ("job.redrive", &json!(1)));
        let (action, detail) = of(3);
        assert_eq!((action, &detail["from"]), ("job.fork", &json!(id)));
        assert_eq!(entries[3]["target"], fork["job"]["id"]);
        let (action, detail) = of(4);
        assert_eq!(action, "bulk.cancel");
        assert_eq!(detail["filter"], json!({ "queue": "default", "kind": "work" }), "as the caller wrote it");
        assert_eq!((&detail["reason"], &detail["done"]), (&json!("all of it"), &json!(2)));
        assert_eq!(entries.len(), 5, "a repeat is no second action: {audit}");
    }
}

/// (keys) A key made behind the server's back closes what was open without one.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_ends_what_was_open_without() {
    let bed = Place::memory().serve().await;
    let mut events = Events::of(bed.request(Method::GET, "/v1/feed").send().await.unwrap());
    events.opened().await;
    make_key(bed.store(), "root", &[Role::Admin], None).await;
    assert!(events.next().await.is_none());
}
