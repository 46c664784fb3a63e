//! Any program as a handler: real processes, their output, their exit codes and their end.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, kill, lives, wait_for};
use serde_json::json;
use windlass_core::Timestamp;

const SH: &[&str] = &["--exec", "sh", "-c"];

fn sh(script: &str) -> Vec<&str> {
    [SH, &[script]].concat()
}

#[test]
fn a_worker_says_what_failed_and_nothing_when_it_is_to_be_quiet() {
    let mut bed = Bed::new();
    let loud = bed.work(&["--kind", "loud", "--exec", "sh", "-c", "echo broken >&2; exit 65"]);
    let quiet = bed.work(&["-q", "--kind", "quiet", "--exec", "true"]);
    let (dead, done) = (bed.enqueue(&["loud"]), bed.enqueue(&["quiet"]));
    bed.until_status(&dead, "failed");
    bed.until_status(&done, "completed");
    let said = |worker: usize| std::fs::read_to_string(bed.path(&format!("log-{worker}"))).unwrap();
    assert!(said(loud).contains("job not done") && said(loud).contains("broken"), "{}", said(loud));
    assert_eq!(said(quiet), "");
}

#[test]
fn payload_in_result_out_and_log_lines_beside() {
    let mut bed = Bed::new();
    let script = r#"read n; echo "working on $n" >&2; echo chatter; echo "{\"got\":$n}""#;
    bed.work(&sh(script));
    let ran = bed.run(&["enqueue", "sum", "--payload", "[1,2]", "--wait"]).ok();
    assert_eq!(ran.out.trim(), r#"{"got":[1,2]}"#);
    let jobs = bed.json(&["jobs", "ls", "--status", "completed"]);
    let id = jobs["jobs"][0]["id"].as_str().unwrap().to_owned();
    let logs = bed.run(&["jobs", "logs", &id]).ok().out;
    assert!(logs.contains("working on [1,2]"), "{logs}");
    let workers = bed.json(&["workers", "ls"]);
    assert_eq!(
        (&workers["workers"][0]["live"], &workers["workers"][0]["capacity"]),
        (&json!(true), &json!(1))
    );
    bed.run(&["jobs", "watch", &id]).ok();
    bed.run(&["verify"]).ok();
}

#[test]
fn a_job_without_payload_is_null_and_output_that_is_no_json_is_text() {
    let mut bed = Bed::new();
    let worker = bed.work(&sh("cat >&2; echo hello, you"));
    let id = bed.enqueue(&["greet"]);
    let job = bed.until_status(&id, "completed");
    assert_eq!(job["result"], "hello, you");
    let said = std::fs::read_to_string(bed.path(&format!("log-{worker}"))).unwrap();
    for word in ["working", "default", "kept as text", "job done", &id] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(bed.json(&["jobs", "logs", &id])["line"], "null");
}

#[test]
fn exit_codes_say_what_follows() {
    let mut bed = Bed::new();
    let script = "read n; echo \"because $n\" >&2; if [ $n = 9 ]; then kill -9 $$; fi; exit $n";
    bed.work(&sh(script));
    let good = bed.enqueue(&["k", "--payload", "0"]);
    let bad = bed.enqueue(&["k", "--payload", "65"]);
    let tried = bed.enqueue(&["k", "--payload", "3", "--max-retries", "0"]);
    let killed = bed.enqueue(&["k", "--payload", "9", "--max-retries", "0"]);
    let later = bed.enqueue(&["k", "--payload", "75", "--max-retries", "0"]);
    bed.until_status(&good, "completed");
    let job = bed.until_status(&bad, "failed");
    assert_eq!(
        (&job["error"]["code"], &job["retries"]),
        (&json!("exit_65"), &json!(0)),
        "no retry was left unused in vain"
    );
    assert_eq!(job["error"]["message"], "exit code 65: because 65");
    assert_eq!(bed.until_status(&tried, "failed")["error"]["code"], "exit_3");
    assert_eq!(bed.until_status(&killed, "failed")["error"]["code"], "signal_9");
    let job = bed.until(&later, |job| job["attempt"].as_i64() >= Some(1) && job["status"] == "retry");
    assert_eq!(job["retries"], 0, "it used none");
}

#[test]
fn a_failure_uses_a_retry_and_the_fence_grows() {
    let mut bed = Bed::new();
    bed.work(&sh("[ $WINDLASS_ATTEMPT -ge 2 ] && echo \\\"$WINDLASS_ATTEMPT\\\" && exit 0; exit 1"));
    let id = bed.enqueue(&["k"]);
    let job = bed.until_status(&id, "completed");
    assert_eq!((&job["attempt"], &job["retries"], &job["result"]), (&json!(2), &json!(1), &json!("2")));
}

#[test]
fn a_program_knows_its_job_and_no_secret() {
    let mut bed = Bed::new();
    let script = "env | sort > seen.tmp && mv seen.tmp seen";
    let store = bed.url();
    let words =
        [&["--store", &store, "--url", "http://127.0.0.1:7070", "--key", "wl_secret"][..], &sh(script)]
            .concat();
    bed.work(&words);
    let id = bed.enqueue(&["k"]);
    bed.until_status(&id, "completed");
    let seen = bed.read("seen");
    assert!(seen.contains(&format!("WINDLASS_JOB_ID={id}")), "{seen}");
    for word in [
        "WINDLASS_ATTEMPT=1",
        "WINDLASS_KIND=k",
        "WINDLASS_LEASE_TOKEN=",
        "WINDLASS_URL=http://127.0.0.1:7070",
    ] {
        assert!(seen.contains(word), "{word}: {seen}");
    }
    for word in ["WINDLASS_STORE", "WINDLASS_KEY", "jobs.db", "wl_secret"] {
        assert!(!seen.contains(word), "{word}: {seen}");
    }
}

/// The shell does not pass its own death on: the group must be signalled.
const FAMILY: &str =
    "sleep 600 & echo $! > grandchild.tmp; mv grandchild.tmp grandchild; echo $$ > child; wait";

#[test]
fn a_cancel_ends_the_program_and_what_it_started() {
    let mut bed = Bed::new();
    bed.work(&[&["--lease", "6s"][..], &sh(FAMILY)].concat());
    let id = bed.enqueue(&["k"]);
    let (child, grandchild) = (bed.read("child"), bed.read("grandchild"));
    assert!(lives(&child) && lives(&grandchild));
    bed.run(&["jobs", "cancel", &id, "--reason", "enough"]).ok();
    bed.until_status(&id, "cancelled");
    wait_for(|| !lives(&child) && !lives(&grandchild));
}

#[test]
fn who_ignores_sigterm_is_killed() {
    let mut bed = Bed::new();
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 1; done' & echo $$ > child; wait; wait";
    bed.work(&[&["--lease", "6s", "--kill-after", "500ms"][..], &sh(script)].concat());
    let id = bed.enqueue(&["k"]);
    let (child, grandchild) = (bed.read("child"), bed.read("grandchild"));
    bed.run(&["jobs", "cancel", &id]).ok();
    bed.until_status(&id, "cancelled");
    wait_for(|| !lives(&child) && !lives(&grandchild));
}

#[test]
fn who_takes_too_long_is_stopped() {
    let mut bed = Bed::new();
    bed.work(&[&["--kill-after", "500ms"][..], &sh(FAMILY)].concat());
    let id = bed.enqueue(&["k", "--timeout", "1s", "--max-retries", "0"]);
    let (child, grandchild) = (bed.read("child"), bed.read("grandchild"));
    bed.until_status(&id, "timed_out");
    wait_for(|| !lives(&child) && !lives(&grandchild));
}

#[test]
fn what_a_program_leaves_behind_ends_with_it() {
    let mut bed = Bed::new();
    bed.work(&sh("sleep 600 & echo $! > left; echo '{\"ok\":true}'"));
    let id = bed.enqueue(&["k"]);
    assert_eq!(bed.until_status(&id, "completed")["result"], json!({ "ok": true }));
    let left = bed.read("left");
    wait_for(|| !lives(&left));
}

#[test]
fn a_lost_lease_ends_the_program() {
    let mut bed = Bed::new();
    bed.work(&[&["--lease", "6s", "--kill-after", "500ms"][..], &sh(FAMILY)].concat());
    let id = bed.enqueue(&["k"]);
    let (child, grandchild) = (bed.read("child"), bed.read("grandchild"));
    // By force: the holder is not asked, and finds its lease gone at the next renewal.
    bed.run(&["jobs", "cancel", &id, "--force"]).ok();
    assert_eq!(bed.job(&id)["status"], "cancelled");
    wait_for(|| !lives(&child) && !lives(&grandchild));
}

/// J1, J12: after the lease that was asked for.
#[test]
fn a_killed_workers_job_is_done_by_the_next() {
    let mut bed = Bed::new();
    let first = bed.work(&[&["--lease", "4s"][..], &sh("echo $$ > child; exec sleep 600")].concat());
    let id = bed.enqueue(&["k"]);
    let child = bed.read("child");
    bed.signal(first, "KILL");
    bed.ended(first);
    bed.work(&sh("echo '\"second\"'"));
    let job = bed.until_status(&id, "completed");
    assert_eq!((&job["attempt"], &job["crashes"], &job["result"]), (&json!(2), &json!(1), &json!("second")));
    // Nobody is left to stop the first one's program; it is ours to tidy.
    kill("KILL", child.parse().unwrap());
}

/// Starts a worker whose program never ends, waits for the program, and kills both: what is left is the lease.
fn dead_worker(bed: &mut Bed, lease: Option<&str>, flags: &[&str]) -> serde_json::Value {
    let id = bed.enqueue(&["k"]);
    let program = sh("echo $$ > child; exec sleep 600");
    let mut command = bed.command(&[&["work", "--queue", "default"], flags, &program[..]].concat());
    command.stderr(std::fs::File::create(bed.path("log")).unwrap());
    if let Some(lease) = lease {
        command.env("WINDLASS_LEASE", lease);
    }
    let worker = bed.spawn(command);
    let child = bed.read("child");
    bed.signal(worker, "KILL");
    bed.ended(worker);
    kill("KILL", child.parse().unwrap());
    bed.job(&id)
}

fn seconds_between(from: &serde_json::Value, to: &serde_json::Value) -> f64 {
    let at = |value: &serde_json::Value| Timestamp::parse("time", value.as_str().unwrap()).unwrap();
    (at(to).as_micros() - at(from).as_micros()) as f64 / 1e6
}

/// J14: how long a lease lasts is a setting: the file's, stronger the environment's, stronger the flag's; else 30 seconds.
#[test]
fn the_lease_of_a_worker_is_a_setting() {
    let file = "lease = \"40m\"\n";
    for (file, variable, flags, expected) in [
        (None, None, &[][..], 30.0),
        (Some(file), None, &[][..], 2_400.0),
        (Some(file), Some("20m"), &[][..], 1_200.0),
        (Some(file), Some("20m"), &["--lease", "10m"][..], 600.0),
    ] {
        let mut bed = Bed::new();
        if let Some(file) = file {
            std::fs::write(bed.path("windlass.toml"), file).unwrap();
        }
        let job = dead_worker(&mut bed, variable, flags);
        let lasts = seconds_between(&job["started_at"], &job["lease"]["expires_at"]);
        // It may have been renewed before it was killed.
        assert!((expected..expected + 200.0).contains(&lasts), "{lasts} s instead of {expected} s");
    }
}

/// J14: a dead worker's job comes back when the lease that was set is over, and not before.
#[test]
fn a_dead_workers_job_comes_back_when_its_lease_is_over() {
    let mut bed = Bed::new();
    let held = dead_worker(&mut bed, Some("5s"), &[]);
    let id = held["id"].as_str().unwrap().to_owned();
    bed.work(&sh("true"));
    bed.until_status(&id, "completed");
    let log = bed.json(&["jobs", "events", &id]);
    let mut claims = log["events"].as_array().unwrap().iter().filter(|event| event["type"] == "job_claimed");
    let second = claims.next_back().unwrap();
    let late = seconds_between(&held["lease"]["expires_at"], &second["at"]);
    assert!(late >= 0.0, "taken {} s before the lease was over", -late);
}

#[test]
fn an_end_lets_programs_finish_and_gives_back_what_does_not() {
    let mut bed = Bed::new();
    let script = "read n; echo $$ > started-$n; if [ $n = 1 ]; then until [ -e go ]; do sleep 0.05; done; else sleep 600; fi";
    let words =
        [&["--concurrency", "2", "--shutdown-deadline", "3s", "--kill-after", "500ms"][..], &sh(script)]
            .concat();
    let worker = bed.work(&words);
    let (short, long) = (bed.enqueue(&["k", "--payload", "1"]), bed.enqueue(&["k", "--payload", "2"]));
    bed.read("started-1");
    let child = bed.read("started-2");
    bed.signal(worker, "TERM");
    std::fs::write(bed.path("go"), "").unwrap();
    assert_eq!(bed.ended(worker), 0);
    assert_eq!(bed.job(&short)["status"], "completed");
    let job = bed.job(&long);
    assert_eq!(
        (&job["retries"], &job["crashes"]),
        (&json!(0), &json!(0)),
        "given back, and it used nothing: {job}"
    );
    assert!(["pending", "retry"].contains(&job["status"].as_str().unwrap()), "{job}");
    assert!(!lives(&child), "no program outlives its worker");
}

/// With its defaults a worker whose programs hear nothing ends within the 30 s that supervisors usually give, and it is the worker
/// that stops them.
#[test]
fn an_end_fits_into_the_patience_of_a_supervisor() {
    let mut bed = Bed::new();
    let worker = bed.work(&sh("trap '' TERM; echo $$ > started; while :; do sleep 0.2; done"));
    let id = bed.enqueue(&["k"]);
    let child = bed.read("started");
    let asked = std::time::Instant::now();
    bed.signal(worker, "TERM");
    assert_eq!(bed.ended(worker), 0);
    let took = asked.elapsed().as_secs_f64();
    assert!((15.0..30.0).contains(&took), "{took} s");
    assert!(!lives(&child), "no program outlives its worker");
    assert_eq!(bed.job(&id)["retries"], 0, "given back");
}

#[test]
fn kinds_without_this_program_are_left_alone() {
    let mut bed = Bed::new();
    bed.work(&[&["--kind", "mine"][..], &sh("true")].concat());
    let (other, mine) = (bed.enqueue(&["other"]), bed.enqueue(&["mine"]));
    bed.until_status(&mine, "completed");
    assert_eq!(bed.job(&other)["blocked"]["reason"], "no_worker");
}
