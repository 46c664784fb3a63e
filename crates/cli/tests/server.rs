//! Through a server: the same commands, the same documents, the same exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, Ran, ran, wait_for};
use serde_json::{Value, json};
use std::io::{Read, Write};

/// Runs a command through the server, without a store.
fn through(bed: &Bed, url: &str, words: &[&str]) -> Ran {
    let mut command = bed.command(&[words, &["--url", url]].concat());
    ran(command.env_remove("WINDLASS_STORE").output().unwrap())
}

fn json_through(bed: &Bed, url: &str, words: &[&str]) -> Value {
    through(bed, url, &[words, &["--json"]].concat()).ok().json()
}

#[test]
fn a_server_gives_the_same_documents_as_the_store() {
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    let odd = r#"{"b": 1.0, "n":123456789012345678901234567890}"#;
    let made = json_through(
        &bed,
        &url,
        &["enqueue", "sum", "--payload", odd, "--queue", "mail", "--tag", "t", "--delay", "1h"],
    );
    let id = made["job"]["id"].as_str().unwrap();
    assert!(through(&bed, &url, &["jobs", "show", id, "--json"]).ok().out.contains(odd), "byte for byte");
    for words in [
        &["jobs", "show", id][..],
        &["jobs", "show", id, "--at-version", "1"],
        &["jobs", "ls", "--queue", "mail", "--status", "pending,retry"],
        &["jobs", "logs", id],
        &["keys", "ls"],
        &["workers", "ls"],
        &["approvals", "ls"],
    ] {
        let (here, there) =
            (bed.run(&[words, &["--json"]].concat()), through(&bed, &url, &[words, &["--json"]].concat()));
        let parse =
            |ran: Ran| ran.ok().out.lines().map(|l| serde_json::from_str(l).unwrap()).collect::<Vec<Value>>();
        let (mut here, mut there) = (parse(here), parse(there));
        // Only a server says where a page of approvals goes on, and what an old version's errors were.
        for value in here.iter_mut().chain(&mut there).filter_map(Value::as_object_mut) {
            value.retain(|name, _| !["next_cursor", "metadata"].contains(&name.as_str()));
        }
        assert_eq!(here, there, "{words:?}");
    }
    assert_eq!(json_through(&bed, &url, &["jobs", "events", id])["events"][0]["type"], "job_created");
}

/// A queue with its rules, what runs of its limit, its endpoint and its busiest keys: the same through a server and without.
#[test]
fn a_queue_is_shown_with_what_holds_it_back() {
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    bed.run(&["queues", "set", "sync", "--limit", "3", "--per-key", "1", "--rate", "100/h"]).ok();
    for key in ["acme", "globex", "globex"] {
        bed.enqueue(&["sum", "--queue", "sync", "--key", key]);
    }
    let id = bed.enqueue(&["sum", "--queue", "sync", "--key", "initech"]);
    let body = json!({ "worker_id": "w", "lease": "1h" }).to_string();
    let claim = format!("{url}/v1/jobs/{id}/claim");
    let words = ["-sSf", "-H", "content-type: application/json", "-d", &body, &claim];
    ran(std::process::Command::new("curl").args(words).output().unwrap()).ok();
    let words = ["queues", "show", "sync"];
    for shown in [bed.json(&words), json_through(&bed, &url, &words)] {
        assert_eq!(
            (&shown["running"], &shown["queue"]["flow"]["concurrency"]),
            (&json!(1), &json!(3)),
            "{shown}"
        );
        let keys: Vec<_> = shown["lanes"].as_array().unwrap().iter().map(|lane| &lane["key"]).collect();
        assert_eq!(keys, ["initech", "globex", "acme"], "the busiest first");
    }
    for said in [bed.run(&words).ok().out, through(&bed, &url, &words).ok().out] {
        assert!(said.contains("1 of 3") && said.contains("100/h") && said.contains("open"), "{said}");
    }
    bed.run(&["queues", "pause", "sync"]).ok();
    assert!(bed.run(&words).ok().out.contains("paused by"));
    let missing = through(&bed, &url, &["queues", "show", "snyc"]);
    assert!(missing.code == 3 && missing.err.contains("no queue snyc"), "{} {}", missing.code, missing.err);
}

#[test]
fn every_act_goes_through_a_server() {
    let mut bed = Bed::new();
    let (url, server) = bed.serve("serve");
    let enqueue = |words: &[&str]| -> String {
        let made = json_through(&bed, &url, &[&["enqueue"], words].concat());
        made["job"]["id"].as_str().unwrap().to_owned()
    };
    let id = enqueue(&["sum", "--payload", "1"]);
    assert_eq!(
        json_through(&bed, &url, &["jobs", "signal", &id, "go", "--signal-key", "s"])["duplicate"],
        false
    );
    assert_eq!(
        json_through(&bed, &url, &["jobs", "signal", &id, "go", "--signal-key", "s"])["duplicate"],
        true
    );
    assert_eq!(
        json_through(&bed, &url, &["jobs", "cancel", &id, "--reason", "wrong"])["job"]["status"],
        "cancelled"
    );
    assert_eq!(through(&bed, &url, &["jobs", "watch", &id]).code, 1);
    assert_eq!(json_through(&bed, &url, &["jobs", "redrive", &id])["job"]["status"], "pending");
    assert_eq!(json_through(&bed, &url, &["jobs", "fork", &id, "--payload", "2"])["job"]["payload"], 2);
    let met = json_through(&bed, &url, &["jobs", "cancel", "--filter", "kind=sum", "--dry-run"]);
    assert_eq!((&met["matched"], &met["done"]), (&json!(2), &json!(0)));
    assert_eq!(json_through(&bed, &url, &["jobs", "cancel", "--filter", "kind=sum"])["done"], 2);
    assert_eq!(
        json_through(&bed, &url, &["jobs", "redrive", "--filter", "status=cancelled", "--spread", "1m"])["done"],
        2
    );
    assert!(json_through(&bed, &url, &["queues", "pause", "default"])["queue"]["paused"].is_object());
    assert!(json_through(&bed, &url, &["queues", "resume", "default"])["queue"]["paused"].is_null());
    let set =
        json_through(&bed, &url, &["queues", "set", "default", "--max-retries", "2", "--timeout", "90s"]);
    assert_eq!(
        (&set["queue"]["defaults"]["max_retries"], &set["queue"]["defaults"]["timeout"]),
        (&json!(2), &json!(90))
    );
    for (words, code) in [
        (&["jobs", "show", "0193a2f4-0000-7000-8000-000000000000"][..], 3),
        (&["jobs", "redrive", &id], 4),
        (&["enqueue", "k", "--priority", "9"], 2),
        (&["workers", "drain", "nobody"], 3),
    ] {
        let ran = through(&bed, &url, words);
        assert_eq!(ran.code, code, "{words:?}: {} {}", ran.out, ran.err);
    }
    assert!(!json_through(&bed, &url, &["audit", "ls"])["entries"].as_array().unwrap().is_empty());
    bed.signal(server, "TERM");
    assert_eq!(bed.ended(server), 0);
    assert_eq!(through(&bed, &url, &["jobs", "ls"]).code, 5, "nobody is there");
}

#[test]
fn with_keys_a_server_asks_for_one() {
    let mut bed = Bed::new();
    let secret =
        bed.json(&["keys", "create", "ops", "--role", "admin"])["secret"].as_str().unwrap().to_owned();
    let (url, _) = bed.serve("serve");
    let denied = through(&bed, &url, &["jobs", "ls", "--json"]);
    assert_eq!(denied.code, 4, "{}", denied.err);
    assert!(denied.err.contains("unauthorized"), "{}", denied.err);
    json_through(&bed, &url, &["jobs", "ls", "--key", &secret]);
    let made = json_through(&bed, &url, &["keys", "create", "ci", "--role", "viewer", "--key", &secret]);
    let viewer = made["secret"].as_str().unwrap();
    assert_eq!(through(&bed, &url, &["enqueue", "k", "--key", viewer]).code, 4);
    json_through(&bed, &url, &["keys", "revoke", "ci", "--key", &secret]);
    wait_for(|| through(&bed, &url, &["jobs", "ls", "--key", viewer]).code == 4);
}

/// `--key -` reads the key from standard input, also for `enqueue`, where another `--key` is a job's. It is not in the arguments.
#[test]
fn a_key_comes_from_standard_input() {
    let mut bed = Bed::new();
    let made = bed.json(&["keys", "create", "ops", "--role", "admin"]);
    let (url, _) = bed.serve("serve");
    let typed = |words: &[&str], key: &str| {
        std::fs::write(bed.path("typed"), key).unwrap();
        let mut command = bed.command(&[words, &["--url", &url, "--key", "-"]].concat());
        command.env_remove("WINDLASS_STORE").stdin(std::fs::File::open(bed.path("typed")).unwrap());
        ran(command.output().unwrap())
    };
    let secret = made["secret"].as_str().unwrap();
    typed(&["jobs", "ls"], &format!("{secret}\n")).ok();
    let made = typed(&["enqueue", "k", "--json"], secret).ok().json();
    assert_eq!(made["job"]["key"], Value::Null, "{made}");
    for wrong in ["", "wl_wrong\n"] {
        let refused = typed(&["jobs", "ls"], wrong);
        assert!([2, 4].contains(&refused.code), "{wrong:?}: {} {}", refused.code, refused.err);
        assert!(!refused.err.contains("wl_wrong"), "{}", refused.err);
    }
}

/// What a server answers to a bare request: the whole of it.
fn get(url: &str, path: &str, key: Option<&str>) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{key}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Refused access is in the log, with who and what, without the secret; and it is counted.
#[test]
fn refused_access_is_logged_and_counted() {
    let mut bed = Bed::new();
    let create = |bed: &Bed, name: &str, role: &str| {
        bed.json(&["keys", "create", name, "--role", role])["secret"].as_str().unwrap().to_owned()
    };
    let (ops, ci) = (create(&bed, "ops", "admin"), create(&bed, "ci", "viewer"));
    let (url, server) = bed.serve("serve");
    for (path, key, status) in [
        ("/v1/jobs", None, "401"),
        ("/v1/now", Some("wl_guessed"), "401"),
        ("/v1/keys", Some(ci.as_str()), "403"),
        ("/v1/jobs", Some(ci.as_str()), "200"),
    ] {
        let answer = get(&url, path, key);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    let log = std::fs::read_to_string(bed.path(&format!("log-{server}"))).unwrap();
    let refused: Vec<&str> = log.lines().filter(|line| line.contains("access was refused")).collect();
    let expected = [
        ["unauthorized", "nobody", "GET /v1/jobs"],
        ["unauthorized", "nobody", "GET /v1/now"],
        ["forbidden", "key:ci", "GET /v1/keys"],
    ];
    assert_eq!(refused.len(), expected.len(), "{log}");
    for (line, words) in refused.iter().zip(expected) {
        for word in words.into_iter().chain(["127.0.0.1"]) {
            assert!(line.contains(word), "{word} is not in {line}");
        }
    }
    assert!(!log.contains("wl_"), "no key is logged: {log}");
    let metrics = get(&url, "/metrics", Some(&ops));
    for counted in [
        "windlass_access_refused_total{code=\"unauthorized\"} 2",
        "windlass_access_refused_total{code=\"forbidden\"} 1",
    ] {
        assert!(metrics.contains(counted), "{counted}: {metrics}");
    }
}

#[test]
fn no_key_no_stranger() {
    let bed = Bed::new();
    let ran = bed.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("windlass keys create"), "{}", ran.err);
}

#[test]
fn the_demo_works_ends_cleanly_and_goes_on() {
    let mut bed = Bed::new();
    let (url, demo) = bed.serve("demo");
    let completed = |bed: &Bed, url: &str| {
        let page = json_through(bed, url, &["jobs", "ls", "--status", "completed", "--limit", "1000"]);
        page["jobs"].as_array().unwrap().len()
    };
    wait_for(|| completed(&bed, &url) >= 3);
    wait_for(|| {
        !json_through(&bed, &url, &["approvals", "ls", "--status", "pending"])["approvals"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    let asked = json_through(&bed, &url, &["approvals", "ls", "--status", "pending"])["approvals"][0].clone();
    json_through(&bed, &url, &["approvals", "approve", asked["id"].as_str().unwrap(), "--reason", "fine"]);
    bed.until_status(asked["job_id"].as_str().unwrap(), "completed");
    bed.signal(demo, "INT");
    assert_eq!(bed.ended(demo), 0);
    assert_eq!(
        bed.json(&["jobs", "ls", "--status", "running"])["jobs"],
        json!([]),
        "nothing is left in a dead hand"
    );
    bed.run(&["verify"]).ok();
    let before = bed.json(&["jobs", "ls", "--status", "completed", "--limit", "1000"])["jobs"]
        .as_array()
        .unwrap()
        .len();
    let (url, _) = bed.serve("demo");
    wait_for(|| completed(&bed, &url) > before);
}

#[test]
fn what_is_for_a_store_does_not_quietly_take_another() {
    let bed = Bed::new();
    for words in [&["verify"][..], &["migrate"]] {
        let mut command = bed.command(words);
        command.env_remove("WINDLASS_STORE").env("WINDLASS_URL", "http://127.0.0.1:1");
        let ran = bed::ran(command.output().unwrap());
        assert_eq!(ran.code, 2, "{words:?}: {}", ran.err);
        assert!(ran.err.contains("--store"), "{}", ran.err);
    }
}

#[test]
fn a_code_is_explained() {
    let bed = Bed::new();
    assert!(bed.run(&["explain", "lease_expired"]).ok().out.starts_with("# lease_expired"));
    assert!(bed.run(&["explain"]).ok().out.contains("version_mismatch"));
    assert_eq!(bed.run(&["explain", "no_such_code"]).code, 3);
}
