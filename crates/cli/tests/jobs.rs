//! Jobs from a shell: in, looked at, acted on, one by one and by a filter.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::Bed;
use serde_json::json;
use std::io::Write;
use std::process::Stdio;

#[test]
fn a_job_goes_in_and_is_shown_as_it_was_given() {
    let bed = Bed::new();
    let odd = r#"{"b": 1.0, "a":"ä", "n":123456789012345678901234567890}"#;
    let words = [
        "email.send",
        "--queue",
        "mail",
        "--payload",
        odd,
        "--priority",
        "-3",
        "--max-retries",
        "7",
        "--timeout",
        "90s",
    ];
    let id = bed.enqueue(&[&words[..], &["--tag", "welcome", "--agent-id", "ann", "--delay", "1h"]].concat());
    let shown = bed.run(&["jobs", "show", &id, "--json"]).ok();
    assert!(shown.out.contains(odd), "byte for byte: {}", shown.out);
    let job = shown.json();
    assert_eq!(
        (&job["kind"], &job["queue"], &job["priority"]),
        (&json!("email.send"), &json!("mail"), &json!(-3))
    );
    assert_eq!(
        (&job["max_retries"], &job["timeout"], &job["tags"]),
        (&json!(7), &json!(90), &json!(["welcome"]))
    );
    assert_eq!(job["blocked"]["reason"], "not_due");
    let people = bed.run(&["jobs", "show", &id]).ok().out;
    assert!(people.contains("not running: not due"), "{people}");
    let events = bed.json(&["jobs", "events", &id]);
    assert_eq!(events["events"][0]["type"], "job_created");
    assert_eq!(events["events"][0]["actor"], bed::cli_user());
    let listed = bed.json(&["jobs", "ls", "--tag", "welcome"]);
    assert_eq!(listed["jobs"][0]["id"], json!(id));
    assert!(bed.run(&["jobs", "ls", "--kind", "other"]).ok().out.contains("no job matches"));
}

#[test]
fn a_payload_comes_from_a_file_or_from_standard_input() {
    let bed = Bed::new();
    std::fs::write(bed.path("order.json"), "{\"n\": 1}\n").unwrap();
    let id = bed.enqueue(&["sum", "--payload", "@order.json"]);
    assert!(bed.run(&["jobs", "show", &id, "--json"]).ok().out.contains("\"payload\":{\"n\": 1}"));
    let mut child = bed.command(&["enqueue", "sum", "--payload", "-", "--json"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"[1,2]").unwrap();
    let ran = bed::ran(child.wait_with_output().unwrap()).ok();
    assert_eq!(ran.json()["job"]["payload"], json!([1, 2]));
    std::fs::write(bed.path("large.json"), format!("\"{}\"", "x".repeat(1 << 20))).unwrap();
    let large = bed.run(&["enqueue", "sum", "--payload", "@large.json"]);
    assert_eq!(large.code, 2);
    assert!(large.err.contains("at most 1048576 bytes"), "{}", large.err);
}

/// Q15: how large a payload may be is a setting; leases last from a second to a day; a timeout of 0 is none.
#[test]
fn limits_are_settings_of_the_command() {
    let bed = Bed::new();
    let eleven = ["enqueue", "sum", "--payload", "\"123456789\""];
    let refused = bed.run(&[&eleven[..], &["--payload-max-bytes", "10"]].concat());
    assert!(refused.code == 2 && refused.err.contains("at most 10 bytes"), "{}", refused.err);
    let mut command = bed.command(&eleven);
    let refused = bed::ran(command.env("WINDLASS_PAYLOAD_MAX_BYTES", "10").output().unwrap());
    assert!(refused.code == 2 && refused.err.contains("at most 10 bytes"), "{}", refused.err);
    bed.run(&[&eleven[..], &["--payload-max-bytes", "11"]].concat()).ok();
    std::fs::write(bed.path("large.json"), format!("\"{}\"", "x".repeat(1 << 20))).unwrap();
    bed.run(&["enqueue", "sum", "--payload", "@large.json", "--payload-max-bytes", "2097152"]).ok();
    let beyond = bed.run(&["config", "--payload-max-bytes", "16777217"]);
    assert!(beyond.code == 2 && beyond.err.contains("between 1 and 16777216"), "{}", beyond.err);
    let shown = bed.run(&["config", "--retries-max", "5"]).ok().out;
    assert!(
        shown.lines().any(|line| line.contains("retries_max") && line.contains('5') && line.contains("flag")),
        "{shown}"
    );
    let refused = bed.run(&["enqueue", "sum", "--max-retries", "6", "--retries-max", "5"]);
    assert!(refused.code == 2 && refused.err.contains("between 0 and 5"), "{}", refused.err);
    for lease in ["999ms", "25h"] {
        let refused = bed.run(&["work", "--queue", "q", "--lease", lease, "--exec", "true"]);
        assert!(refused.code == 2 && refused.err.contains("between 1 s and 24 h"), "{}", refused.err);
    }
    let none = bed.json(&["enqueue", "sum", "--timeout", "0s"]);
    assert_eq!(none["job"]["timeout"], json!(null));
}

#[test]
fn a_unique_key_is_one_job() {
    let bed = Bed::new();
    let first = bed.json(&["enqueue", "sum", "--unique-key", "k1", "--payload", "1"]);
    let again = bed.json(&["enqueue", "sum", "--unique-key", "k1", "--payload", "2"]);
    assert_eq!(first["existed"], false);
    assert_eq!((&again["existed"], &again["payload_differs"]), (&json!(true), &json!(true)));
    assert_eq!(first["job"]["id"], again["job"]["id"]);
}

/// J13: a job is shown by its caller's own id, with no other call.
#[test]
fn a_job_is_shown_by_its_unique_key() {
    let bed = Bed::new();
    let id = bed.enqueue(&["sum", "--unique-key", "order-77", "--queue", "mail"]);
    let found = bed.json(&["jobs", "show", "--unique-key", "order-77", "--queue", "mail"]);
    assert_eq!(found["id"], id.as_str());
    let absent = bed.run(&["jobs", "show", "--unique-key", "order-77"]);
    assert_eq!(absent.code, 3, "another queue's: {}", absent.err);
    assert!(absent.err.contains("no job of queue default holds"), "{}", absent.err);
    assert_eq!(bed.run(&["jobs", "show", &id, "--unique-key", "order-77"]).code, 2);
    assert_eq!(bed.run(&["jobs", "show"]).code, 2);
}

#[test]
fn a_job_is_cancelled_sent_back_forked_and_signalled() {
    let bed = Bed::new();
    let id = bed.enqueue(&["sum", "--payload", "1"]);
    assert!(bed.run(&["jobs", "cancel", &id, "--reason", "wrong"]).ok().out.contains("is cancelled"));
    assert_eq!(bed.run(&["jobs", "cancel", &id]).code, 0, "a repeat changes nothing and is no refusal");
    assert_eq!(bed.run(&["jobs", "watch", &id]).code, 1, "it ended without completing");
    let watched = bed.run(&["jobs", "watch", &id, "--json"]).out;
    let types: Vec<serde_json::Value> = watched.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((&types[0]["type"], &types[1]["type"]), (&json!("job_created"), &json!("job_cancelled")));
    assert_eq!(types[1]["detail"]["reason"], "wrong");
    assert_eq!(bed.run(&["jobs", "redrive", &id, "--payload", "{oops"]).code, 2);
    assert_eq!(bed.run(&["jobs", "redrive", "--filter", "queue=default", "--payload", "1"]).code, 2);
    assert_eq!(bed.json(&["jobs", "redrive", &id, "--payload", "7"])["job"]["status"], "pending");
    assert_eq!((&bed.job(&id)["generation"], &bed.job(&id)["payload"]), (&json!(1), &json!(7)));
    assert_eq!(bed.json(&["jobs", "show", &id, "--at-version", "2"])["status"], "cancelled");
    assert_eq!(bed.run(&["jobs", "show", &id, "--at-version", "99"]).code, 2);
    let fork = bed.json(&["jobs", "fork", &id, "--payload", "2"]);
    assert_ne!(fork["job"]["id"], json!(id));
    assert_eq!(fork["job"]["payload"], 2);
    let signal = ["jobs", "signal", &id, "go", "--payload", "{\"a\":1}", "--signal-key", "s1"];
    assert_eq!(bed.json(&signal)["duplicate"], false);
    assert_eq!(bed.json(&signal)["duplicate"], true);
}

#[test]
fn a_filter_meets_many_and_a_dry_run_none() {
    let bed = Bed::new();
    for n in 0..12 {
        bed.enqueue(&["sum", "--queue", if n % 2 == 0 { "even" } else { "odd" }]);
    }
    let dry = bed.json(&["jobs", "cancel", "--filter", "queue=even", "--dry-run"]);
    assert_eq!((&dry["matched"], &dry["done"]), (&json!(6), &json!(0)));
    assert_eq!(bed.json(&["jobs", "ls", "--status", "cancelled"])["jobs"], json!([]));
    let done = bed.json(&["jobs", "cancel", "--filter", "queue=even", "--reason", "all of them"]);
    assert_eq!((&done["matched"], &done["done"]), (&json!(6), &json!(6)));
    let back = bed.json(&[
        "jobs",
        "redrive",
        "--filter",
        "status=cancelled",
        "--filter",
        "queue=even",
        "--spread",
        "10m",
    ]);
    assert_eq!(back["done"], 6);
    let jobs = bed.json(&["jobs", "ls", "--queue", "even"]);
    let due: Vec<&str> =
        jobs["jobs"].as_array().unwrap().iter().map(|job| job["due_at"].as_str().unwrap()).collect();
    assert!(due.iter().any(|at| *at != due[0]), "they are spread: {due:?}");
    let audit = bed.json(&["audit", "ls"]);
    assert_eq!(
        (&audit["entries"][0]["action"], &audit["entries"][1]["action"]),
        (&json!("bulk.redrive"), &json!("bulk.cancel"))
    );
    assert_eq!(audit["entries"][0]["actor"], bed::cli_user());
}

/// A typo pauses nothing, and creates neither a queue nor a store.
#[test]
fn a_queue_that_is_not_there_is_not_paused() {
    let bed = Bed::new();
    let done = bed.enqueue(&["email.send", "--queue", "mail"]);
    bed.run(&["jobs", "cancel", &done]).ok();
    for verb in ["pause", "resume"] {
        let typo = bed.run(&["queues", verb, "mial"]);
        assert_eq!(typo.code, 3);
        assert!(typo.err.contains("there is no queue mial") && typo.err.contains("--create"), "{}", typo.err);
    }
    bed.run(&["queues", "pause", "mail"]).ok();
    bed.run(&["queues", "pause", "later", "--create"]).ok();
    let queues = bed.json(&["queues", "ls"]);
    let names: Vec<_> =
        queues["queues"].as_array().unwrap().iter().map(|queue| queue["name"].clone()).collect();
    assert_eq!(names, [json!("later"), json!("mail")]);
}

#[test]
fn queues_are_paused_and_set_and_a_job_says_why_it_waits() {
    let bed = Bed::new();
    bed.run(&["queues", "set", "mail", "--max-retries", "9", "--timeout", "2m"]).ok();
    let id = bed.enqueue(&["email.send", "--queue", "mail"]);
    let job = bed.job(&id);
    assert_eq!((&job["max_retries"], &job["timeout"]), (&json!(9), &json!(120)), "its queue's defaults");
    assert_eq!(job["blocked"]["reason"], "no_worker");
    bed.run(&["queues", "pause", "mail"]).ok();
    assert_eq!(bed.job(&id)["blocked"]["reason"], "paused");
    let queues = bed.json(&["queues", "ls"]);
    assert_eq!(
        (&queues["queues"][0]["due"], &queues["queues"][0]["paused"]["by"]),
        (&json!(1), &json!(bed::cli_user()))
    );
    let doctor = bed.run(&["doctor"]);
    assert!(doctor.out.contains("windlass queues resume mail"), "{}", doctor.out);
    bed.run(&["queues", "resume", "mail"]).ok();
    let doctor = bed.run(&["doctor", "--json"]);
    assert_eq!((doctor.code, &doctor.json()["ok"]), (1, &json!(false)), "nobody takes it");
    assert!(doctor.out.contains("windlass work --queue mail --kind email.send"), "{}", doctor.out);
}

#[test]
fn keys_are_shown_once_and_never_again() {
    let bed = Bed::new();
    let made = bed.json(&[
        "keys",
        "create",
        "ci",
        "--role",
        "producer,viewer",
        "--queue",
        "mail",
        "--expires",
        "90d",
    ]);
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("wl_") && secret.len() == 67);
    let listed = bed.run(&["keys", "ls", "--json"]).ok();
    assert!(!listed.out.contains(&secret[3..]), "{}", listed.out);
    assert_eq!(listed.json()["keys"][0]["roles"], json!(["producer", "viewer"]));
    assert_eq!(bed.run(&["keys", "create", "ci", "--role", "viewer"]).code, 4, "a name is used once");
    bed.run(&["keys", "revoke", "ci"]).ok();
    assert!(!bed.json(&["keys", "ls"])["keys"][0]["revoked_at"].is_null());
    assert_eq!(bed.json(&["audit", "ls"])["entries"].as_array().unwrap().len(), 2);
}

/// F7, F8: rates as people write them, and what a queue allows in words.
#[test]
fn queues_are_given_rates_in_words() {
    let bed = Bed::new();
    let words = ["--limit", "40", "--per-key", "2", "--rate", "100/s", "--burst", "20"];
    let keys = ["--key-rate", "10/m", "--key-rate", "acme=60/m", "--weight", "acme=3"];
    bed.run(&[&["queues", "set", "sync"], &words[..], &keys[..]].concat()).ok();
    let flow = bed.json(&["queues", "ls"])["queues"][0]["flow"].clone();
    assert_eq!(flow["rate"], json!({ "units": 100, "per": 1, "burst": 20 }));
    assert_eq!(flow["lanes"]["rate"], json!({ "units": 10, "per": 60 }));
    let shown = bed.run(&["queues", "ls"]).ok().out;
    let words = "40 at once, 100/s in bursts of 20, 2 per key, 10/m per key; acme 60/m, 3 in a turn";
    assert!(shown.contains(words), "{shown}");
    for wrong in [&["--rate", "fast"][..], &["--rate", "0/s"], &["--key-rate", "acme=9"], &["--burst", "3"]] {
        let ran = bed.run(&[&["queues", "set", "sync"], wrong].concat());
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.err);
    }
    let id = bed.enqueue(&["shop.sync", "--queue", "sync", "--cost", "5"]);
    assert_eq!(bed.job(&id)["cost"], 5);
    assert_ne!(bed.run(&["enqueue", "shop.sync", "--cost", "0"]).code, 0);
    bed.run(&["queues", "set", "sync", "--no-limits"]).ok();
    assert_eq!(bed.json(&["queues", "ls"])["queues"][0]["flow"], json!(null));
}

/// F18: a queue is set to what a full lane answers, and `enqueue` says what became of the job.
#[test]
fn a_full_lane_answers_in_words() {
    let bed = Bed::new();
    let set = |words: &[&str]| bed.run(&[&["queues", "set", "sync"], words].concat());
    let said = set(&["--per-key", "1", "--backlog", "1"]).ok().out;
    assert!(said.contains("1 per key, 1 waiting per key, then refused"), "{said}");
    let words = ["enqueue", "shop.sync", "--queue", "sync", "--key", "acme"];
    bed.run(&words).ok();
    let full = bed.run(&words);
    assert_eq!(full.code, 4, "{}", full.err);
    assert!(full.err.contains("key acme has 1 jobs waiting in queue sync"), "{}", full.err);
    let said = set(&["--backlog", "1", "--full", "drop"]).ok().out;
    assert!(said.contains("then dropped"), "{said}");
    let dropped = bed.run(&[&words[..], &["--wait"]].concat()).ok();
    assert!(
        dropped.out.trim().is_empty() && dropped.err.contains("dropped"),
        "{} {}",
        dropped.out,
        dropped.err
    );
    assert_eq!(bed.json(&words)["dropped"], true);
    let said = set(&["--breaker", "5/10,within=1m,pause=30s"]).ok().out;
    assert!(said.contains("breaks for 30s when 5 of 10 fail within 1m"), "{said}");
    for wrong in ["5/10", "5,within=1m,pause=30s", "5/10,within=1m,pause=x", "11/10,within=1m,pause=30s"] {
        assert_eq!(set(&["--breaker", wrong]).code, 2, "{wrong}");
    }
    let said = set(&["--newest", "--per-key", "1"]).ok().out;
    assert!(said.contains("the newest of a key"), "{said}");
    let older = bed.enqueue(&words[1..]);
    bed.enqueue(&words[1..]);
    assert_eq!(bed.job(&older)["error"]["code"], "superseded");
    for wrong in [&["--full", "drop"][..], &["--backlog", "1", "--full", "wait"], &["--backlog", "0"]] {
        assert_eq!(set(wrong).code, 2, "{wrong:?}");
    }
}

/// F17, F11: keys are listed and let go, and a later request takes the place of one that waits.
#[test]
fn keys_are_listed_and_jobs_debounced() {
    let bed = Bed::new();
    let set = bed.run(&["queues", "set", "sync", "--fair", "--aging", "5m"]).ok().out;
    assert!(set.contains("keys take turns, aging 5m"), "{set}");
    bed.enqueue(&["shop.sync", "--queue", "sync", "--key", "acme"]);
    let shown = bed.run(&["lanes", "ls", "sync"]).ok().out;
    assert!(shown.contains("acme") && shown.contains("HELD UNTIL"), "{shown}");
    assert!(bed.run(&["lanes", "ls", "mail"]).ok().out.contains("no key of this queue"));
    let said = bed.run(&["lanes", "release", "sync", "acme"]).ok().out;
    assert!(said.contains("acme of sync was not held"), "{said}");
    let words = ["reindex", "--key", "site", "--debounce", "30s,max=5m"];
    let first = bed.enqueue(&[&words[..], &["--payload", "1"]].concat());
    let again = bed.enqueue(&[&words[..], &["--payload", "2"]].concat());
    assert_eq!((&again, &bed.job(&first)["payload"]), (&first, &json!(2)));
    for wrong in [&["--debounce", "30s"][..], &["--key", "a", "--debounce", "1s,most=2s"]] {
        let ran = bed.run(&[&["enqueue", "reindex"], wrong].concat());
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.err);
    }
}
