//! Bad requests, slow clients, a store that fails, and the end of the server.

mod bed;

use bed::events::Events;
use bed::{Place, beds, soon, until};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use windlass_store::{Faults, Faulty};

const NO_FAULTS: Faults = Faults { seed: 1, fail_before: 0, lose_answer: 0, delay: 0, duplicate: 0 };

async fn raw(bed: &bed::Bed, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(bed.running.address).await.expect("a connection");
    stream.write_all(head.as_bytes()).await.expect("it is sent");
    stream
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&text).contains("\r\n\r\n") {
        let n = soon("an answer", stream.read(&mut piece)).await.expect("it is read");
        assert!(n > 0, "the connection ended without an answer");
        text.extend_from_slice(&piece[..n]);
    }
    String::from_utf8(text).expect("a text")
}

/// (http) A body that is too large is refused before it is read, by its length or where it passes the limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_huge_body_is_refused_unread() {
    let bed = Place::memory().serve().await;
    let head = |how: &str| {
        format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{how}\r\n\r\n"
        )
    };
    let mut stream = raw(&bed, &head("content-length: 17000000")).await;
    let text = answer(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 413") && text.contains("request_too_large"), "{text}");
    let mut stream = raw(&bed, &head("transfer-encoding: chunked")).await;
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
    let mut sent = 0;
    while sent < 128 && stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 100, "the server stopped reading after {sent} MiB");
    // The largest that is allowed is read.
    let body = format!("{{\"kind\":\"a b\",\"payload\":\"{}\"}}", "x".repeat((16 << 20) - 40));
    let request = bed.request(Method::POST, "/v1/jobs").header("content-type", "application/json").body(body);
    bed::Answer::of(request.send().await.unwrap()).await.refused(422, "invalid");
    bed.put_job(json!({})).await;
}

/// (http) A client that dribbles its body, or reads nothing of its answer, is given up.
#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_given_up() {
    let short = Duration::from_millis(300);
    let bed = Place::memory().serve_with(|server| server.patience(short, short)).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let mut stream = raw(&bed, head).await;
    let text = answer(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 408") && text.contains("request_timeout"), "{text}");
    let _deaf = raw(&bed, "GET /v1/feed HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let listeners =
        async |n: usize| bed.get("/metrics").await.text.contains(&format!("windlass_feed_listeners {n}\n"));
    until("it listens", async || listeners(1).await).await;
    let large = "x".repeat(1 << 20);
    for _ in 0..24 {
        bed.post("/v1/jobs", json!({ "kind": "work", "payload": &large[..1_000_000] })).await.is(201);
    }
    until("it is given up", async || listeners(0).await).await;
    assert_eq!(bed.get("/v1/jobs?limit=100").await.is(200)["jobs"].as_array().unwrap().len(), 24);
}

/// (http) Bodies must say that they are JSON; a request has an id, which is the caller's if it is plain.
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_read_strictly() {
    for bed in beds().await {
        let send =
            async |request: reqwest::RequestBuilder| bed::Answer::of(request.send().await.unwrap()).await;
        let post = || bed.request(Method::POST, "/v1/jobs");
        send(post().body(r#"{"kind":"a"}"#)).await.refused(415, "unsupported_media_type");
        send(post().header("content-type", "text/plain").body("{}"))
            .await
            .refused(415, "unsupported_media_type");
        send(post().header("content-type", "application/json; charset=utf-8").body(r#"{"kind":"a"}"#))
            .await
            .is(201);
        send(post()).await.refused(422, "invalid");
        let own = send(bed.request(Method::GET, "/v1/jobs").header("x-request-id", "trace-7")).await;
        assert_eq!(own.headers["x-request-id"], "trace-7");
        let odd = send(bed.request(Method::GET, "/v1/jobs").header("x-request-id", "a b")).await;
        assert_ne!(odd.headers["x-request-id"], "a b");
        assert_eq!(odd.headers["x-content-type-options"], "nosniff");
        assert_eq!(odd.headers["cache-control"], "no-store");
        let page = bed.get("/").await;
        assert!(page.text.contains("Windlass") && page.headers["content-type"] == "text/html; charset=utf-8");
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(page.headers["cache-control"], "no-cache");
        let at = page.text.split('"').find(|part| part.ends_with("/app.js")).unwrap();
        let (app, css) = (format!("/{at}"), format!("/{}", at.replace("app.js", "page.css")));
        let file = bed.get(&app).await;
        assert_eq!(file.headers["content-type"], "text/javascript; charset=utf-8");
        assert_eq!(file.headers["cache-control"], "public, max-age=31536000, immutable");
        let tag = file.headers["etag"].to_str().unwrap().to_owned();
        let again =
            send(bed.request(Method::GET, &app).header("if-none-match", format!("\"x\", W/{tag}"))).await;
        assert!(again.status == 304 && again.text.is_empty() && again.headers["etag"] == tag.as_str());
        let other = send(bed.request(Method::GET, &css).header("if-none-match", &tag)).await;
        assert!(other.status == 200 && other.headers["etag"] != tag.as_str());
        // In the smallest form that the caller takes, each with a tag of its own.
        for (asked, coding) in [("gzip, br", "br"), ("gzip", "gzip"), ("br;q=0, gzip;q=0.5", "gzip")] {
            let small = send(bed.request(Method::GET, &app).header("accept-encoding", asked)).await;
            assert_eq!((small.status, &small.headers["content-encoding"]), (200, &coding.parse().unwrap()));
            assert!(small.headers["etag"] != tag.as_str() && small.headers["vary"] == "accept-encoding");
        }
        let none = send(bed.request(Method::GET, &app).header("accept-encoding", "identity, br;q=0")).await;
        assert!(!none.headers.contains_key("content-encoding"));
        bed.get("/static/0000000000000000/app.js").await.refused(404, "route_not_found");
        bed.get(&app.replace("app.js", "..%2Findex.html")).await.refused(404, "route_not_found");
        bed.get(&app.replace("app.js", "index.html")).await.refused(404, "route_not_found");
        assert!(bed.get("/errors/lease_expired").await.text.contains("# lease_expired"));
        bed.get("/errors/none").await.refused(404, "not_found");
        bed.get("/v2/jobs").await.refused(404, "route_not_found");
    }
}

/// (http) A lost answer is asked for again; when it stays lost, the caller is told so, and can repeat.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_is_told_as_such() {
    let (place, _) =
        Place::memory().around(|store| Faulty::new(store, Faults { lose_answer: 100, ..NO_FAULTS }));
    let bed = place.serve().await;
    let lost = bed.post("/v1/jobs", json!({ "kind": "work" })).await;
    // Even the question whether there is a key was lost.
    assert_eq!(lost.headers["retry-after"], "1");
    lost.refused(503, "outcome_unknown");

    let (place, faulty) = Place::memory().around(|store| Faulty::new(store, NO_FAULTS));
    let bed = place.serve().await;
    until("it is ready", async || bed.get("/readyz").await.status == 200).await;
    let id = bed.put_job(json!({})).await;
    faulty.set_away(true);
    let away = bed.get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(away.headers["retry-after"], "1");
    assert!(!away.text.contains("injected"), "what the store says of itself is for the log");
    away.refused(503, "unavailable");
    until("readiness is red", async || bed.get("/readyz").await.status == 503).await;
    bed.get("/healthz").await.is(200);
    assert!(bed.get("/metrics").await.status == 200 || bed.get("/metrics").await.status == 503);
    faulty.set_away(false);
    until("readiness is green again", async || bed.get("/readyz").await.status == 200).await;
    assert_eq!(bed.job(&id).await["status"], "pending");
}

/// (http) With answers lost now and then, every request that is repeated until it is answered does its work once.
#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_never_double_work() {
    let faults = Faults { seed: 7, fail_before: 10, lose_answer: 25, delay: 0, duplicate: 10 };
    let (place, _) = Place::memory().around(|store| Faulty::new(store, faults));
    let bed = place.serve().await;
    let stubborn = async |path: &str, key: &str, body: serde_json::Value| loop {
        let answer = bed.post_once(key, path, &body).await;
        if answer.status != 503 {
            return answer;
        }
    };
    for n in 0..40 {
        let body = json!({ "kind": "work", "payload": n });
        let job = soon("it is enqueued", stubborn("/v1/jobs", &format!("e{n}"), body)).await.is(201);
        let id = job["job"]["id"].as_str().unwrap().to_owned();
        let note = json!({ "type": "note" });
        soon("it is noted", stubborn(&format!("/v1/jobs/{id}/events"), &format!("n{n}"), note)).await;
        let claim = json!({ "worker_id": "w", "secret": "cd".repeat(32) });
        let held = soon("it is held", stubborn(&format!("/v1/jobs/{id}/claim"), "", claim)).await.is(200);
        let token = held["job"]["lease"]["token"].clone();
        let done = json!({ "lease_token": token, "result": n });
        soon("it is done", stubborn(&format!("/v1/jobs/{id}/complete"), "", done)).await.is(200);
    }
    let jobs = loop {
        let answer = bed.get("/v1/jobs?limit=1000").await;
        if answer.status == 200 {
            break answer.body;
        }
    };
    let jobs = jobs["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 40);
    assert!(
        jobs.iter().all(|job| job["status"] == "completed" && job["version"] == 4 && job["attempt"] == 1),
        "{jobs:?}"
    );
}

/// (http) The end: nothing new is accepted, streams and waiting claims end at once, a request in flight is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_requests_end() {
    let bed = Place::sqlite().serve().await;
    let stream = bed.request(Method::GET, "/v1/feed").send().await.unwrap();
    let mut events = Events::of(stream);
    events.opened().await;
    let claim = json!({ "queues": ["default"], "worker_id": "w", "wait": "60s" });
    let claiming = bed.request(Method::POST, "/v1/claim").json(&claim).send();
    let body = "{\"kind\":\"late\"}";
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut slow = raw(&bed, &head).await;
    let in_flight = async || bed.get("/metrics").await.text.contains("windlass_claims_waiting 1\n");
    let (claimed, ended) = tokio::join!(claiming, async {
        until("the claim waits", async || in_flight().await).await;
        let begun = Instant::now();
        bed.running.shutdown.graceful();
        assert!(soon("the stream ends", events.next()).await.is_none());
        until("nothing is accepted", async || TcpStream::connect(bed.running.address).await.is_err()).await;
        slow.write_all(body.as_bytes()).await.unwrap();
        let text = answer(&mut slow).await;
        assert!(text.starts_with("HTTP/1.1 201"), "{text}");
        begun.elapsed()
    });
    let claimed = bed::Answer::of(claimed.unwrap()).await.is(200);
    assert_eq!(claimed["jobs"], json!([]), "an empty answer, not a broken connection");
    assert!(ended < Duration::from_secs(20), "nothing waited for a deadline");
    soon("the server ends", bed.running.ended).await.unwrap().unwrap();
}

/// (http) A request that does not end is cut off at the deadline, or at once when asked twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_cuts_off() {
    for is_asked_twice in [false, true] {
        let deadline = if is_asked_twice { Duration::from_secs(600) } else { Duration::from_millis(100) };
        let bed = Place::memory().serve_with(|server| server.shutdown_deadline(deadline)).await;
        bed.put_job(json!({})).await;
        let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n";
        let mut stuck = raw(&bed, head).await;
        until("it is served", async || {
            bed.get("/metrics").await.text.contains("windlass_http_requests_in_flight 2")
        })
        .await;
        bed.running.shutdown.graceful();
        if is_asked_twice {
            bed.running.shutdown.now();
        }
        soon("the server ends", bed.running.ended).await.unwrap().unwrap();
        let mut rest = Vec::new();
        let _ = soon("the connection ends", stuck.read_to_end(&mut rest)).await;
        assert!(rest.is_empty());
    }
}

/// (http) With its defaults a server ends within the 30 s that supervisors usually give, whatever hangs on it.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_fits_into_the_patience_of_a_supervisor() {
    let minute = Duration::from_secs(60);
    let bed = Place::memory().serve_with(|server| server.patience(minute, minute)).await;
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n";
    let _stuck = raw(&bed, head).await;
    until("it is served", async || {
        bed.get("/metrics").await.text.contains("windlass_http_requests_in_flight 2")
    })
    .await;
    let asked = Instant::now();
    bed.running.shutdown.graceful();
    soon("the server ends", bed.running.ended).await.unwrap().unwrap();
    let took = asked.elapsed();
    assert!(took > Duration::from_secs(20) && took < Duration::from_secs(30), "{took:?}");
}

/// (http) A store that says nothing: the server is alive at once, not ready within two seconds, and calls end.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_store_is_noticed() {
    let (place, store) = Place::memory().around(bed::counting::Counting::new);
    let bed = place.serve().await;
    until("it is ready", async || bed.get("/readyz").await.status == 200).await;
    store.is_stuck.store(true, std::sync::atomic::Ordering::Relaxed);
    let began = Instant::now();
    until("it is not ready", async || bed.get("/readyz").await.status == 503).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = Instant::now();
    assert_eq!(bed.get("/healthz").await.is(200)["status"], "ok");
    bed.get("/v1/jobs").await.refused(503, "unavailable");
    assert!(asked.elapsed() < Duration::from_secs(30), "who calls is not known: {:?}", asked.elapsed());
    store.is_stuck.store(false, std::sync::atomic::Ordering::Relaxed);
    until("it is ready again", async || bed.get("/readyz").await.status == 200).await;
}

/// (http) A client that sends a body too large to the end gets its answer, not a broken pipe.
#[tokio::test(flavor = "multi_thread")]
async fn who_still_sends_hears_that_it_is_too_much() {
    let bed = Place::memory().serve().await;
    for length in [17 << 20, 40 << 20] {
        let request = bed.request(Method::POST, "/v1/jobs").header("content-type", "application/json");
        let request = request.body(vec![b' '; length]);
        bed::Answer::of(request.send().await.expect("an answer")).await.refused(413, "request_too_large");
    }
}
