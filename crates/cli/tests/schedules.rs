//! Jobs by the clock: `windlass schedules`, and a server that fires them.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, wait_for};
use serde_json::json;

/// R7, R12: made, listed, changed, paused, triggered and removed from the command line; a typo is told as one.
#[test]
fn schedules_are_kept_from_the_command_line() {
    let bed = Bed::new();
    bed.run(&["migrate"]).ok();
    let cron = ["schedules", "put", "nightly", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin"];
    let made = bed.json(&[&cron[..], &["--kind", "report", "--payload", "{\"to\":\"ops\"}"]].concat());
    assert_eq!((&made["version"], &made["job"]["payload"]), (&json!(1), &json!({"to": "ops"})));
    assert_eq!(bed.json(&["schedules", "ls"])["schedules"][0]["timezone"], "Europe/Berlin");
    assert_eq!(bed.json(&["schedules", "next", "nightly", "-n", "4"])["next"].as_array().unwrap().len(), 4);
    let shown = bed.run(&["schedules", "ls"]).ok();
    assert!(
        shown.out.contains("0 3 * * * Europe/Berlin") && shown.out.contains("report in default"),
        "{}",
        shown.out
    );
    let paused = bed.json(&["schedules", "pause", "nightly"]);
    assert!(paused["next_at"].is_null());
    assert!(bed.run(&["schedules", "ls"]).ok().out.contains("paused by"));
    let job = bed.json(&["schedules", "trigger", "nightly"]);
    assert_eq!(bed.job(job["id"].as_str().unwrap())["kind"], "report");
    assert!(bed.json(&["schedules", "resume", "nightly"])["next_at"].is_string());
    bed.run(&["schedules", "rm", "nightly"]).ok();
    let gone = bed.run(&["schedules", "show", "nightly"]);
    assert_eq!(gone.code, 3, "{}", gone.err);
    let never = bed.run(&["schedules", "put", "bad", "--cron", "0 0 31 2 *", "--kind", "k"]);
    assert_eq!(never.code, 2, "{}", never.err);
    assert!(never.err.contains("never fires"), "{}", never.err);
    let both = bed.run(&["schedules", "put", "bad", "--cron", "@daily", "--every", "5m", "--kind", "k"]);
    assert_eq!(both.code, 2, "{}", both.err);
}

/// Waits until so many slots have a job, and answers the jobs.
fn slots(bed: &Bed, n: usize) -> Vec<String> {
    let mut ids = Vec::new();
    wait_for(|| {
        let page = bed.json(&["jobs", "ls", "--kind", "tick", "--limit", "1000"]);
        ids = page["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["id"].as_str().unwrap().to_owned())
            .collect();
        ids.len() >= n
    });
    ids
}

/// R7, R4: a server leads and fires; killed and started again, it makes no slot twice.
#[test]
fn a_server_fires_what_is_due() {
    let mut bed = Bed::new();
    bed.run(&["migrate"]).ok();
    bed.run(&["schedules", "put", "pulse", "--every", "1s", "--kind", "tick", "--missed", "all"]).ok();
    let (_, first) = bed.serve("serve");
    slots(&bed, 3);
    bed.signal(first, "KILL");
    bed.ended(first);
    let (_, second) = bed.serve("serve");
    let before = slots(&bed, 3).len();
    // The new one leads once the term of the dead one is over.
    let ids = slots(&bed, before + 3);
    bed.signal(second, "TERM");
    bed.ended(second);
    let mut seen = std::collections::BTreeSet::new();
    for id in ids {
        let slot = bed.job(&id)["metadata"]["slot"].as_str().unwrap().to_owned();
        assert!(seen.insert(slot.clone()), "slot {slot} was fired twice");
    }
    let changes = bed.json(&["audit", "ls", "--action", "leader.change"]);
    assert_eq!(changes["entries"].as_array().unwrap().len(), 2);
}
