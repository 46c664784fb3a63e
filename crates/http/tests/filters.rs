//! Every filter and every default that the documents promise, through the door that a user takes.

mod bed;

use bed::{Bed, beds};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use windlass_core::{Role, Timestamp};

fn ids(page: &Value) -> Vec<String> {
    let id = |job: &Value| job["id"].as_str().expect("an id").to_owned();
    let mut ids: Vec<String> = page["jobs"].as_array().expect("jobs").iter().map(id).collect();
    ids.sort();
    ids
}

async fn listed(bed: &Bed, query: &str) -> Vec<String> {
    ids(&bed.get(&format!("/v1/jobs?{query}")).await.is(200))
}

fn seconds_between(from: &Value, to: &Value) -> f64 {
    let at = |value: &Value| Timestamp::parse("time", value.as_str().expect("a time")).expect("a time");
    (at(to).as_micros() - at(from).as_micros()) as f64 / 1e6
}

/// J13: one call finds a job by its caller's own text id, in its queue, and in no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_found_by_its_unique_key() {
    for bed in beds().await {
        let unique = json!({ "key": "order 77/ä" });
        let mail = bed.put_job(json!({ "queue": "mail", "unique": unique, "payload": 1 })).await;
        let other = bed.put_job(json!({ "queue": "other", "unique": unique })).await;
        let of_kind = bed.put_job(json!({ "unique": { "key": "k", "scope": "kind" } })).await;
        let key = "unique_key=order%2077/%C3%A4";
        assert_eq!(listed(&bed, &format!("{key}&queue=mail")).await, [mail.as_str()]);
        assert_eq!(listed(&bed, &format!("{key}&queue=other")).await, [other]);
        assert_eq!(listed(&bed, "unique_key=k&kind=work").await, [of_kind]);
        assert_eq!(
            listed(&bed, "unique_key=k&queue=default").await,
            Vec::<String>::new(),
            "of another scope"
        );
        assert_eq!(listed(&bed, &format!("{key}&queue=mail&status=running")).await, Vec::<String>::new());
        assert_eq!(listed(&bed, "unique_key=free&queue=mail").await, Vec::<String>::new());
        bed.get("/v1/jobs?unique_key=k").await.refused(422, "invalid");
        let found = bed.get(&format!("/v1/jobs?{key}&queue=mail")).await.is(200);
        assert_eq!((&found["jobs"][0]["payload"], &found["next_cursor"]), (&json!(1), &Value::Null));
        let some = bed.make_key("some", &[Role::Viewer], Some(&["other"])).await;
        bed::until("keys count", async || bed.get("/v1/jobs").await.status == 401).await;
        let some = bed.with_key(Some(some));
        some.get(&format!("/v1/jobs?{key}&queue=mail")).await.refused(403, "queue_forbidden");
        assert_eq!(listed(&some, "unique_key=k&kind=work").await, Vec::<String>::new(), "a foreign queue's");
    }
}

/// (http) Each filter of the list takes what it names and leaves the rest.
#[tokio::test(flavor = "multi_thread")]
async fn every_filter_of_a_list_filters() {
    for bed in beds().await {
        let parent = bed.put_job(json!({})).await;
        let more = json!({ "queue": "q", "kind": "k", "agent_id": "ann", "tags": ["t"], "parent_id": parent, "max_retries": 0 });
        let job = bed.put_job(more).await;
        let claim = json!({ "worker_id": "hand" });
        let held = bed.post(&format!("/v1/jobs/{job}/claim"), claim).await.is(200);
        let one = [job.clone()];
        for query in [
            "queue=q",
            "kind=k",
            "agent_id=ann",
            "tag=t",
            &format!("parent_id={parent}"),
            "worker_id=hand",
            "status=running",
        ] {
            assert_eq!(listed(&bed, query).await, one, "{} {query}", bed.place.name);
        }
        let token = &held["job"]["lease"]["token"];
        let body = json!({ "lease_token": token, "error": { "code": "broken", "message": "it broke" } });
        bed.post(&format!("/v1/jobs/{job}/fail"), body).await.is(200);
        for query in
            ["error_code=broken", "dead=true", "status=failed", "finished_after=-1h", "finished_before=1h"]
        {
            assert_eq!(listed(&bed, query).await, one, "{} {query}", bed.place.name);
        }
        let mut both = vec![parent.clone(), job.clone()];
        both.sort();
        for query in [
            "created_after=-1h",
            "created_before=1h",
            "created_before=%2B10m",
            "created_after=-2d&created_before=5m",
        ] {
            assert_eq!(listed(&bed, query).await, both, "{} {query}", bed.place.name);
        }
        let none = Vec::<String>::new();
        for query in [
            "queue=x",
            "kind=x",
            "agent_id=bob",
            "tag=x",
            &format!("parent_id={job}"),
            "worker_id=other",
            "error_code=x",
            "status=waiting",
            "created_after=1h",
            "created_before=-1h",
            "finished_after=now",
            "finished_before=-1h",
        ] {
            assert_eq!(listed(&bed, query).await, none, "{} {query}", bed.place.name);
        }
    }
}

/// (http) Each filter of a bulk action takes what it names and leaves the rest; what is not said is promised: a dry run changes
/// nothing, and only dead jobs are redriven.
#[tokio::test(flavor = "multi_thread")]
async fn every_filter_of_a_bulk_action_filters() {
    for bed in beds().await {
        let parent = bed.put_job(json!({})).await;
        let more = json!({ "queue": "q", "kind": "k", "agent_id": "ann", "tags": ["t"], "parent_id": parent, "max_retries": 0 });
        let job = bed.put_job(more).await;
        let matched = async |action: &str, filter: Value| {
            let body = json!({ "filter": filter, "action": action, "dry_run": true });
            let answer = bed.post("/v1/bulk", body).await.is(200);
            assert_eq!(answer["done"], 0, "{answer}");
            ids(
                &json!({ "jobs": answer["sample"].as_array().unwrap().iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() }),
            )
        };
        let claim = json!({ "worker_id": "hand" });
        let held = bed.post(&format!("/v1/jobs/{job}/claim"), claim).await.is(200);
        assert_eq!(matched("cancel", json!({ "worker_id": "hand" })).await, [job.as_str()]);
        assert!(matched("cancel", json!({ "worker_id": "other" })).await.is_empty());
        let token = &held["job"]["lease"]["token"];
        let body = json!({ "lease_token": token, "error": { "code": "broken", "message": "it broke" } });
        bed.post(&format!("/v1/jobs/{job}/fail"), body).await.is(200);
        for (name, takes, leaves) in [
            ("queue", json!("q"), json!("x")),
            ("kind", json!("k"), json!("x")),
            ("agent_id", json!("ann"), json!("bob")),
            ("tag", json!("t"), json!("x")),
            ("parent_id", json!(parent), json!(job)),
            ("error_code", json!("broken"), json!("x")),
            ("status", json!("failed"), json!("timed_out")),
            ("status", json!(["timed_out", "failed"]), json!(["cancelled"])),
            ("created_after", json!("-1h"), json!("1h")),
            ("created_before", json!("1h"), json!("-1h")),
            ("finished_after", json!("-1h"), json!("now")),
            ("finished_before", json!("1h"), json!("-1h")),
        ] {
            let filter = |value: Value| Value::Object([(name.to_owned(), value)].into_iter().collect());
            assert_eq!(matched("redrive", filter(takes)).await, [job.as_str()], "{} {name}", bed.place.name);
            assert!(matched("redrive", filter(leaves)).await.is_empty(), "{} {name}", bed.place.name);
        }
        assert_eq!(matched("redrive", json!({ "dead": true })).await, [job.as_str()]);
        assert_eq!(matched("redrive", json!({})).await, [job]);
    }
}

/// (http) How long lists are when nothing is said, in which order a log comes, and how long a holder has to stop.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_said_of_lists_is_what_is_promised() {
    for bed in beds().await {
        let jobs: Vec<Value> = (0..60).map(|_| json!({ "kind": "k" })).collect();
        bed.post("/v1/jobs/batch", json!({ "jobs": jobs })).await.is(201);
        assert_eq!(listed(&bed, "").await.len(), 50, "jobs");
        let (id, token) = bed.held_job().await;
        for _ in 0..110 {
            bed.post(&format!("/v1/jobs/{id}/events"), json!({ "type": "note" })).await.is(201);
        }
        let log = bed.get(&format!("/v1/jobs/{id}/events")).await.is(200);
        let events = log["events"].as_array().unwrap();
        assert_eq!((events.len(), &events[0]["version"]), (100, &json!(1)), "oldest first");
        let lines: Vec<String> = (0..120).map(|n| format!("line {n}")).collect();
        let written = json!({ "lease_token": token, "lines": lines });
        bed.post(&format!("/v1/jobs/{id}/logs"), written).await.is(201);
        let logs = bed.get(&format!("/v1/jobs/{id}/logs")).await.is(200);
        assert_eq!(logs["lines"].as_array().unwrap().len(), 100, "log lines");
        for n in 0..60 {
            bed.post(&format!("/v1/queues/q{n}/pause"), json!({})).await.is(200);
        }
        assert_eq!(bed.get("/v1/audit").await.is(200)["entries"].as_array().unwrap().len(), 50, "audit");
        bed.post(&format!("/v1/jobs/{id}/cancel"), json!({})).await.is(202);
        let job = bed.job(&id).await;
        let patience = seconds_between(&job["cancel_requested_at"], &job["deadline_at"]);
        assert!((patience - 30.0).abs() < 0.001, "{patience} s to stop");
    }
}

/// (http) Why a job is not running is followed to its root, with the very command that helps.
#[tokio::test(flavor = "multi_thread")]
async fn the_cause_is_followed_to_its_root() {
    for bed in beds().await {
        let (top, token) = bed.held_job().await;
        let middle = bed.put_job(json!({ "parent_id": top, "queue": "mid", "kind": "mid" })).await;
        let middle_token = bed.hold(&middle).await;
        let wait =
            |token: &str, what: &str, name: &str| json!({ "lease_token": token, "for": what, "name": name });
        let leaf = bed.put_job(json!({ "parent_id": middle, "queue": "mail", "kind": "leaf" })).await;
        bed.post(&format!("/v1/jobs/{top}/wait"), wait(&token, "children", "all")).await.is(200);
        bed.post(&format!("/v1/jobs/{middle}/wait"), wait(&middle_token, "children", "all")).await.is(200);
        bed.post("/v1/queues/mail/pause", json!({})).await.is(200);
        let why = async || bed.job(&top).await["blocked"].take();
        let says = |why: &Value, by: &str, fix: &str| {
            let text = |name: &str| why[name].as_str().expect("a text").to_owned();
            assert!(text("by").contains(by) && text("fix").contains(fix), "{why}");
        };
        let told = why().await;
        assert_eq!(told["reason"], "waiting");
        says(&told, &format!("child leaf {leaf} is paused, by"), "`windlass queues resume mail`");
        bed.post("/v1/queues/mail/resume", json!({})).await.is(200);
        says(&why().await, "is without a worker", "`windlass work --queue mail --kind leaf --exec …`");
        let leaf_token = bed.hold(&leaf).await;
        says(&why().await, "is running", &format!("`windlass jobs watch {leaf}`"));
        let ask = json!({ "lease_token": leaf_token, "name": "go", "prompt": "?" });
        let asked = bed.post(&format!("/v1/jobs/{leaf}/approvals"), ask).await.is(201);
        bed.post(&format!("/v1/jobs/{leaf}/wait"), wait(&leaf_token, "approval", "go")).await.is(200);
        let approve = format!("`windlass approvals approve {}`", asked["approval"]["id"].as_str().unwrap());
        says(&why().await, "by approval go", &approve);
        let some = bed.make_key("some", &[Role::Viewer], Some(&["default"])).await;
        bed::until("keys count", async || bed.get("/v1/jobs").await.status == 401).await;
        let some = bed.with_key(Some(some));
        let seen = some.job(&top).await["blocked"].to_string();
        assert!(!seen.contains(&middle) && !seen.contains(&leaf), "of other queues nothing is told: {seen}");
    }
}

/// J14: what the server is told counts for claims and heartbeats that say nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_default_lease_of_a_server_is_set() {
    let lease = windlass_core::LeaseMs::new(90_000).unwrap();
    let bed = bed::Place::memory().serve_with(|server| server.default_lease(lease)).await;
    bed.put_job(json!({})).await;
    let claim = json!({ "queues": ["default"], "worker_id": "w" });
    let job = bed.post("/v1/claim", claim).await.is(200)["jobs"][0].take();
    let lasts = seconds_between(&job["started_at"], &job["lease"]["expires_at"]);
    assert!((lasts - 90.0).abs() < 0.001, "{lasts} s");
    let beat =
        json!({ "worker_id": "w", "leases": [{ "job_id": job["id"], "token": job["lease"]["token"] }] });
    let renewed = bed.post("/v1/heartbeat", beat).await.is(200);
    assert!(seconds_between(&job["started_at"], &renewed["leases"][0]["expires_at"]) >= 90.0, "{renewed}");
}

/// (http) An address for whoever measures needs no key and serves nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_an_address_of_their_own() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bed = bed::Place::memory().serve_with(|server| server.metrics_on(listener)).await;
    bed.make_key("root", &[Role::Admin], None).await;
    bed::until("keys count", async || bed.get("/v1/jobs").await.status == 401).await;
    bed.get("/metrics").await.refused(401, "unauthorized");
    let asked = async |path: &str| {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: metrics.internal\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let metrics = asked("/metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("windlass_store_up"), "{metrics}");
    assert!(asked("/healthz").await.starts_with("HTTP/1.1 200"));
    bed::until("it is ready", async || asked("/readyz").await.starts_with("HTTP/1.1 200")).await;
    for path in ["/v1/jobs", "/v1/keys", "/", "/openapi.json"] {
        assert!(asked(path).await.starts_with("HTTP/1.1 404"), "{path}");
    }
}
