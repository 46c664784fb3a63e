//! Generated requests, with a small budget and a fixed seed: heads, addresses and bodies. Each is answered, none by a mistake of
//! the server's, and the server serves afterwards.

mod bed;

use axum::http::Method;
use bed::{Bed, Place, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Numbers that look like chance and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.roll(most + 1)).map(|_| self.roll(256) as u8).collect()
    }

    /// A JSON value that a body might have where another is wanted.
    fn json(&mut self, deep: usize) -> Value {
        const TEXTS: &[&str] = &[
            "",
            "a",
            "-1h",
            "1e9d",
            "2026-13-01T00:00:00Z",
            "\u{0}",
            "\u{202e}",
            "01890000-0000-7000-8000-000000000009",
            "default",
            "99999999999999999999d",
            "approve",
            "children",
        ];
        match self.roll(if deep == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.roll(2) == 0),
            2 => json!(*self.pick(&[0, 1, -1, i64::MIN, i64::MAX, 1 << 40])),
            3 => json!(*self.pick(&[0.5, -0.0, 1e300, -1e-300])),
            4 => json!(self.pick(TEXTS)),
            5 => (0..self.roll(4)).map(|_| self.json(deep - 1)).collect(),
            _ => {
                let members = (0..self.roll(4)).map(|_| (self.pick(NAMES).to_string(), self.json(deep - 1)));
                Value::Object(members.collect())
            }
        }
    }
}

/// The names of fields and parameters, known and unknown.
const NAMES: &[&str] = &[
    "kind",
    "queue",
    "payload",
    "id",
    "priority",
    "run_at",
    "delay",
    "max_retries",
    "timeout",
    "lease",
    "backoff",
    "base",
    "unique",
    "key",
    "by",
    "scope",
    "policy",
    "ttl",
    "tags",
    "metadata",
    "parent_id",
    "lease_token",
    "queues",
    "kinds",
    "worker_id",
    "secret",
    "max",
    "wait",
    "leases",
    "extend",
    "items",
    "outcome",
    "result",
    "error",
    "permanent",
    "status",
    "limit",
    "cursor",
    "after",
    "filter",
    "action",
    "dry_run",
    "spread",
    "name",
    "prompt",
    "approvers",
    "required",
    "expires",
    "for",
    "until",
    "decision",
    "token",
    "reason",
    "force",
    "force_after",
    "from_version",
    "roles",
    "expires_at",
    "draining",
    "capacity",
    "labels",
    "nonsense",
];

fn filled(path: &str, dice: &mut Dice) -> String {
    let id =
        *dice.pick(&["01890000-0000-7000-8000-000000000009", "7", "%00", "..%2f..", "%F0%9F%92%A9", "a"]);
    path.split('/').map(|part| if part.starts_with('{') { id } else { part }).collect::<Vec<_>>().join("/")
}

async fn serves(bed: &Bed) {
    bed.put_job(json!({})).await;
}

/// (http) Bodies and addresses of every route: refused or taken, never a mistake of the server's.
#[tokio::test(flavor = "multi_thread")]
async fn generated_bodies_and_addresses_break_nothing() {
    let bed = Place::memory().serve().await;
    let mut dice = Dice(7);
    for route in windlass_http::routes() {
        // Streams have no end, and a key would lock this out.
        if route.path.ends_with("/feed") || route.path == "/v1/keys" {
            continue;
        }
        for _ in 0..12 {
            let mut path = filled(route.path, &mut dice);
            if dice.roll(2) == 0 {
                let (name, value) = (*dice.pick(NAMES), dice.json(0).to_string());
                let value: String = value.bytes().map(|b| format!("%{b:02X}")).collect();
                path += &format!("?{name}={value}");
            }
            let mut request = bed.request(route.method.clone(), &path);
            if route.method == Method::POST || route.method == Method::PUT {
                let members = (0..dice.roll(6)).map(|_| (dice.pick(NAMES).to_string(), dice.json(3)));
                let mut body = Value::Object(members.collect::<Vec<_>>().into_iter().collect());
                if let Some(wait) = body.get_mut("wait") {
                    *wait = json!(0);
                }
                let text = if dice.roll(5) == 0 {
                    String::from_utf8_lossy(&dice.bytes(40)).into_owned()
                } else {
                    body.to_string()
                };
                request = request.header("content-type", "application/json").body(text);
            }
            let response = soon("an answer", request.send()).await.expect("an answer");
            let status = response.status().as_u16();
            let told = soon("the rest", response.text()).await.unwrap_or_default();
            assert!(status < 500, "{route:?} {path}: {status} {told}");
        }
    }
    serves(&bed).await;
}

/// (http) Heads that are cut, changed and padded, also those of streams, which are read without hyper.
#[tokio::test(flavor = "multi_thread")]
async fn generated_heads_break_nothing() {
    let bed = Place::memory().serve().await;
    let mut dice = Dice(11);
    let job = bed.put_job(json!({})).await;
    let heads = [
        "GET /v1/feed HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nconnection: keep-alive\r\n\r\n".to_owned(),
        format!("GET /v1/jobs/{job}/feed?after=0 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        "GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(),
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{\"kind\":\"k\"}".to_owned(),
    ];
    const PIECES: &[&[u8]] = &[
        b"\r\n",
        b"\0",
        b"content-length: 5\r\n",
        b"transfer-encoding: chunked\r\n",
        b"HTTP/9.9",
        b" ",
        b"\xff\xfe",
        b"x: \r\n y\r\n",
        b"%",
        b"#",
    ];
    for _ in 0..400 {
        let mut head = dice.pick(&heads).clone().into_bytes();
        for _ in 0..1 + dice.roll(3) {
            let at = dice.roll(head.len());
            match dice.roll(4) {
                0 => head.truncate(at.max(1)),
                1 => head[at] = dice.roll(256) as u8,
                2 => drop(head.splice(at..at, dice.pick(PIECES).iter().copied())),
                _ => drop(head.splice(at..at, dice.bytes(30))),
            }
        }
        let mut stream = TcpStream::connect(bed.running.address).await.expect("a connection");
        if stream.write_all(&head).await.is_err() || stream.shutdown().await.is_err() {
            continue;
        }
        let mut answer = [0; 64];
        // A stream goes on; whatever else is answered or closed.
        let read = soon("an answer or the end", stream.read(&mut answer)).await.unwrap_or(0);
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(
            !answer.starts_with("HTTP/1.1 5") || answer.starts_with("HTTP/1.1 505"),
            "{:?}: {answer}",
            String::from_utf8_lossy(&head)
        );
    }
    serves(&bed).await;
}
