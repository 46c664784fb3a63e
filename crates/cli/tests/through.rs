//! `windlass work` through a server: the same programs, the same ends, and servers that are killed on the way.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, lives, wait_for};
use serde_json::json;
use std::time::Duration;

fn sh(script: &str) -> Vec<&str> {
    vec!["--exec", "sh", "-c", script]
}

fn secret(bed: &Bed, name: &str, role: &str) -> String {
    bed.json(&["keys", "create", name, "--role", role])["secret"].as_str().unwrap().to_owned()
}

#[test]
fn payload_result_log_and_exit_codes_are_those_of_a_store() {
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    let script =
        r#"read n; echo "because $n" >&2; echo "{\"got\": $n}"; if [ $n = 9 ]; then kill -9 $$; fi; exit $n"#;
    bed.work_through(&url, &[&["--concurrency", "3"][..], &sh(script)].concat());
    let good = bed.enqueue(&["k", "--payload", "0"]);
    let bad = bed.enqueue(&["k", "--payload", "65"]);
    let tried = bed.enqueue(&["k", "--payload", "3", "--max-retries", "0"]);
    let killed = bed.enqueue(&["k", "--payload", "9", "--max-retries", "0"]);
    let later = bed.enqueue(&["k", "--payload", "75", "--max-retries", "0"]);
    bed.until_status(&good, "completed");
    assert!(
        bed.run(&["jobs", "show", &good, "--json"]).ok().out.contains(r#""result":{"got": 0}"#),
        "byte for byte"
    );
    assert!(bed.run(&["jobs", "logs", &good]).ok().out.contains("because 0"));
    let job = bed.until_status(&bad, "failed");
    assert_eq!((&job["error"]["code"], &job["retries"]), (&json!("exit_65"), &json!(0)));
    assert_eq!(job["error"]["message"], "exit code 65: because 65");
    assert_eq!(bed.until_status(&tried, "failed")["error"]["code"], "exit_3");
    assert_eq!(bed.until_status(&killed, "failed")["error"]["code"], "signal_9");
    let job = bed.until(&later, |job| job["attempt"].as_i64() >= Some(1) && job["status"] == "retry");
    assert_eq!(job["retries"], 0, "it used none");
    let worker = &bed.json(&["workers", "ls"])["workers"][0];
    assert_eq!((&worker["live"], &worker["capacity"]), (&json!(true), &json!(3)));
    bed.run(&["verify"]).ok();
}

/// What a program does with its lease token, in the words of the API.
const REPORT: &str = r#"
import json, os, urllib.request
url, job = os.environ["WINDLASS_URL"], os.environ["WINDLASS_JOB_ID"]
def post(path, body):
    head = {"authorization": "Bearer " + os.environ["WINDLASS_LEASE_TOKEN"], "content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url + path, json.dumps(body).encode(), head)).read()
post(f"/v1/jobs/{job}/progress", {"progress": 42, "stage": "half way"})
try:
    post("/v1/jobs", {"kind": "more"})
except urllib.error.HTTPError as refused:
    print(json.dumps({"refused": refused.code, "secrets": [n for n in os.environ if n in ("WINDLASS_KEY", "WINDLASS_STORE")]}))
"#;

#[test]
fn a_programs_lease_token_opens_its_own_job_and_nothing_else() {
    let mut bed = Bed::new();
    let key = secret(&bed, "w", "worker");
    let (url, _) = bed.serve("serve");
    let script = bed.script("report.py", REPORT);
    bed.work_through(&url, &["--key", &key, "--exec", "python3", &script]);
    let id = bed.enqueue(&["k"]);
    let job = bed.until_status(&id, "completed");
    assert_eq!(job["result"], json!({ "refused": 403, "secrets": [] }));
    let events = bed.json(&["jobs", "events", &id])["events"].to_string();
    assert!(events.contains("half way"), "{events}");
}

/// The key opens the server, and nobody reads it off the running worker: not in its environment, not in its arguments.
#[test]
fn a_key_is_readable_nowhere_once_the_worker_runs() {
    for is_flag in [false, true] {
        let mut bed = Bed::new();
        let key = secret(&bed, "w", "worker");
        let (url, _) = bed.serve("serve");
        let run = sh("cat >/dev/null; env");
        let mut words = vec!["work", "--queue", "default", "--url", &url];
        words.extend(if is_flag { vec!["--key", &key] } else { vec![] });
        words.extend(run);
        let mut command = bed.command(&words);
        command.env_remove("WINDLASS_STORE").stderr(std::fs::File::create(bed.path("log")).unwrap());
        if !is_flag {
            command.env("WINDLASS_KEY", &key);
        }
        let worker = bed.spawn(command);
        let id = bed.enqueue(&["k"]);
        let job = bed.until_status(&id, "completed");
        assert!(!job.to_string().contains(&key), "its program has no key");
        let shown = |name: &str| std::fs::read(format!("/proc/{}/{name}", bed.pid(worker))).unwrap();
        for name in ["environ", "cmdline"] {
            let shown = String::from_utf8_lossy(&shown(name)).into_owned();
            assert!(shown.contains('\0') && !shown.contains(&key), "{name}: {shown}");
        }
    }
}

#[test]
fn a_server_that_is_killed_and_comes_back_loses_and_doubles_nothing() {
    let mut bed = Bed::new();
    let (url, mut server) = bed.serve("serve");
    let address = url.strip_prefix("http://").unwrap().to_owned();
    let script = "read n; echo $n >> ran; sleep 0.2; echo \"{\\\"n\\\":$n}\"";
    bed.work_through(&url, &[&["--concurrency", "4", "--lease", "60s"][..], &sh(script)].concat());
    let ids: Vec<String> = (0..30).map(|n| bed.enqueue(&["k", "--payload", &n.to_string()])).collect();
    let ran = |bed: &Bed| std::fs::read_to_string(bed.path("ran")).unwrap_or_default().lines().count();
    for goal in [5, 15] {
        wait_for(|| ran(&bed) >= goal);
        bed.signal(server, "KILL");
        bed.ended(server);
        server = bed.serve_at("serve", &address);
    }
    for (n, id) in ids.iter().enumerate() {
        let job = bed.until_status(id, "completed");
        assert_eq!((&job["attempt"], &job["result"]["n"]), (&json!(1), &json!(n)), "{job}");
    }
    assert_eq!(ran(&bed), ids.len(), "each once");
    bed.run(&["verify"]).ok();
}

/// The shell does not pass its own death on: the group must be signalled.
const FAMILY: &str =
    "sleep 600 & echo $! > grandchild.tmp; mv grandchild.tmp grandchild; echo $$ > child; wait";

#[test]
fn cancel_timeout_and_lost_lease_end_the_program() {
    for (words, act, status) in [
        (&[][..], &["cancel"][..], "cancelled"),
        (&["--timeout", "2s", "--max-retries", "0"], &[], "timed_out"),
        (&[], &["cancel", "--force"], "cancelled"),
    ] {
        let mut bed = Bed::new();
        let (url, _) = bed.serve("serve");
        bed.work_through(&url, &[&["--lease", "6s", "--kill-after", "500ms"][..], &sh(FAMILY)].concat());
        let id = bed.enqueue(&[&["k"], words].concat());
        let (child, grandchild) = (bed.read("child"), bed.read("grandchild"));
        if let Some((verb, flags)) = act.split_first() {
            bed.run(&[&["jobs", verb, &id], flags].concat()).ok();
        }
        bed.until_status(&id, status);
        wait_for(|| !lives(&child) && !lives(&grandchild));
    }
}

#[test]
fn a_job_that_comes_after_a_long_wait_has_its_whole_lease_and_time() {
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    bed.work_through(&url, &[&["--lease", "4s"][..], &sh("sleep 3; echo done >&2")].concat());
    wait_for(|| bed.json(&["workers", "ls"])["workers"].as_array().unwrap().len() == 1);
    // Longer than the lease: what is told here is that waiting is no part of it.
    std::thread::sleep(Duration::from_secs(6));
    let id = bed.enqueue(&["k", "--timeout", "30s", "--max-retries", "0"]);
    let job = bed.until_status(&id, "completed");
    assert_eq!((&job["attempt"], &job["crashes"]), (&json!(1), &json!(0)), "{job}");
    let brief = bed.enqueue(&["k", "--timeout", "1s", "--max-retries", "0"]);
    assert_eq!(bed.until_status(&brief, "timed_out")["attempt"], 1);
}

#[test]
fn an_end_cuts_the_wait_short_and_the_worker_says_goodbye() {
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    let worker = bed.work_through(&url, &[&["--queue", "other"][..], &sh("true")].concat());
    let (one, two) = (bed.enqueue(&["k"]), bed.enqueue(&["k", "--queue", "other"]));
    bed.until_status(&one, "completed");
    bed.until_status(&two, "completed");
    bed.signal(worker, "TERM");
    assert_eq!(bed.ended(worker), 0);
    let id = bed.enqueue(&["k"]);
    wait_for(|| bed.json(&["workers", "ls"])["workers"][0]["live"] == false);
    assert_eq!(bed.job(&id)["attempt"], 0);
    let told = bed.run(&["doctor"]).out;
    assert!(!told.contains("goodbye"), "{told}");
}

#[test]
fn whoever_may_not_work_is_told_and_ends() {
    let mut bed = Bed::new();
    let (viewer, key) = (secret(&bed, "v", "viewer"), secret(&bed, "w", "worker"));
    let (url, _) = bed.serve("serve");
    let work = |words: &[&str]| {
        let words = [&["work", "--queue", "default"], words, &["--exec", "true"]].concat();
        bed::ran(bed.command(&words).env_remove("WINDLASS_STORE").output().unwrap())
    };
    for (words, code, reason) in [
        (&["--url", &url][..], 4, "send a key"),
        (&["--url", &url, "--key", "wl_wrong"], 4, "unknown, expired or revoked"),
        (&["--url", &url, "--key", &viewer], 4, "worker"),
        (&["--url", "http://127.0.0.1:1"], 5, "check --url"),
        (&["--url", "ftp://x"], 2, "http://"),
    ] {
        let ran = work(words);
        assert_eq!(ran.code, code, "{words:?}: {}", ran.err);
        assert!(ran.err.contains(reason), "{words:?}: {}", ran.err);
    }
    let worker = bed.work_through(&url, &["--key", &key, "--exec", "true"]);
    let id = bed.enqueue(&["k"]);
    bed.until_status(&id, "completed");
    bed.run(&["keys", "revoke", "w"]).ok();
    assert_eq!(bed.ended(worker), 4, "a key that was taken back ends its worker");
}

#[test]
fn a_drained_worker_takes_no_more() {
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    bed.work_through(&url, &sh("true"));
    let workers = |bed: &Bed| bed.json(&["workers", "ls"])["workers"].clone();
    wait_for(|| workers(&bed).as_array().unwrap().len() == 1);
    let name = workers(&bed)[0]["id"].as_str().unwrap().to_owned();
    bed.run(&["workers", "drain", &name]).ok();
    let log = bed.path("log-1");
    wait_for(|| std::fs::read_to_string(&log).unwrap().contains("drained by an operator"));
    let id = bed.enqueue(&["k"]);
    assert_eq!(bed.job(&id)["blocked"]["reason"], "no_worker");
    assert!(bed.run(&["workers", "undrain", &name]).ok().out.contains("takes jobs again"));
    bed.until_status(&id, "completed");
    assert_eq!(bed.json(&["audit", "ls", "--target", &name])["entries"].as_array().unwrap().len(), 2);
}
