//! Events from outside, settings of the store and files of schedules, from the command line.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, wait_for};
use serde_json::json;

/// R10, R12: made, fired, looked at, given a secret and removed.
#[test]
fn triggers_are_kept_from_the_command_line() {
    let bed = Bed::new();
    let made = bed.json(&[
        "triggers",
        "put",
        "paid",
        "--kind",
        "invoice",
        "--payload",
        "{\"of\":\"{{payload.id}}\"}",
    ]);
    assert_eq!(
        (&made["version"], &made["jobs"][0]["payload"]),
        (&json!(1), &json!({"of": "{{payload.id}}"}))
    );
    let fire = ["triggers", "fire", "paid", "--dedupe-key", "p-1", "--payload", "{\"id\":7}"];
    let fired = bed.json(&fire);
    assert_eq!(bed.job(fired["jobs"][0].as_str().unwrap())["payload"], json!({"of": 7}));
    let again = bed.run(&fire).ok();
    assert!(again.out.trim() == fired["jobs"][0] && again.err.contains("came before"), "{}", again.err);
    let kept = bed.run(&["triggers", "fire", "paid", "--payload", "{}"]).ok();
    assert!(kept.out.is_empty() && kept.err.contains("is kept"), "{} {}", kept.out, kept.err);
    let shown = bed.run(&["triggers", "events", "paid", "--unprocessed"]).ok();
    assert!(shown.out.contains("{{payload.id}}"), "{}", shown.out);
    assert!(bed.run(&["triggers", "ls"]).ok().out.contains("invoice in default"));
    let secret = bed.run(&["triggers", "secret", "paid"]).ok();
    assert!(secret.out.starts_with("whsec_") && secret.err.contains("/v1/webhooks/paid"), "{}", secret.err);
    assert!(!bed.run(&["triggers", "show", "paid"]).ok().out.contains("whsec_"), "it is shown once");
    let doctor = bed.run(&["doctor"]);
    assert!(doctor.out.contains("1 events are not processed"), "{}", doctor.out);
    bed.run(&["triggers", "rm", "paid"]).ok();
    assert_eq!(bed.run(&["triggers", "show", "paid"]).code, 3);
    assert_eq!(bed.run(&["triggers", "fire", "paid"]).code, 3);
    let bad = bed.run(&["triggers", "put", "bad", "--kind", "k", "--payload", "\"{{nothing}}\""]);
    assert!(bad.code == 2 && bad.err.contains("{{nothing}}"), "{}", bad.err);
    let both = bed.json(&[
        "triggers",
        "put",
        "two",
        "--job",
        "{\"kind\":\"a\"}",
        "--job",
        "{\"kind\":\"b\",\"delay\":\"5m\"}",
    ]);
    assert_eq!(both["jobs"].as_array().unwrap().len(), 2);
}

/// R12: read, changed and put back; a typo is told with what there is.
#[test]
fn settings_are_kept_from_the_command_line() {
    let bed = Bed::new();
    assert!(bed.run(&["settings", "get"]).ok().out.contains("missed_after"));
    let set = bed.json(&["settings", "set", "missed_after=30s", "webhooks_per_minute=60"]);
    assert_eq!((&set["version"], &set["settings"]["missed_after"]), (&json!(1), &json!(30)));
    assert_eq!(set["settings"]["webhooks_per_minute"], 60);
    assert_eq!(bed.run(&["settings", "get", "missed_after"]).ok().out.trim(), "30s");
    let back = bed.json(&["settings", "set", "missed_after=default"]);
    assert_eq!(
        (&back["settings"]["missed_after"], &back["settings"]["webhooks_per_minute"]),
        (&json!(60), &json!(60))
    );
    for (change, said) in
        [("speed=9", "missed_after"), ("missed_max", "NAME=VALUE"), ("missed_max=0", "missed_max")]
    {
        let refused = bed.run(&["settings", "set", change]);
        assert!(
            refused.code == 2 && refused.err.contains(said),
            "{change}: {} {}",
            refused.code,
            refused.err
        );
    }
    let audit = bed.json(&["audit", "ls", "--action", "settings.put"]);
    assert_eq!(audit["entries"].as_array().unwrap().len(), 2);
}

const FILE: &str = r#"
[schedules.nightly]
cron = "0 3 * * *"
timezone = "Europe/Berlin"
job = { kind = "report", queue = "reports", payload = { to = "ops" } }

[schedules.pulse]
every = "10m"
overlap = "skip"
starts_at = 2030-01-01T00:00:00Z
job = { kind = "ping" }
"#;

/// R7, R12: a file is shown as a difference, applied as a whole, and prunes only if that is said.
#[test]
fn a_file_of_schedules_is_applied() {
    let bed = Bed::new();
    bed.run(&["schedules", "put", "by-hand", "--every", "1h", "--kind", "k"]).ok();
    std::fs::write(bed.path("schedules.toml"), FILE).unwrap();
    let file = bed.path("schedules.toml").display().to_string();
    let apply = |more: &[&str]| bed.run(&[&["schedules", "apply", "-f", &file], more].concat());
    let shown = apply(&["--dry-run", "--prune"]).ok();
    for line in [
        "+ nightly",
        "+   cron = \"0 3 * * *\"",
        "+   job.kind = \"report\"",
        "+ pulse",
        "- by-hand",
        "3 would change",
    ] {
        assert!(shown.out.contains(line), "{line}: {}", shown.out);
    }
    assert_eq!(apply(&["--dry-run", "--exit-code"]).code, 1, "something would change");
    let names = || {
        let all = bed.json(&["schedules", "ls"]);
        all["schedules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["by-hand"], "nothing was written");
    apply(&[]).ok();
    assert_eq!(names(), ["by-hand", "nightly", "pulse"]);
    assert!(apply(&["--exit-code"]).ok().out.contains("0 changed, 2 as they are"));
    std::fs::write(bed.path("schedules.toml"), FILE.replace("0 3", "0 4")).unwrap();
    let changed = apply(&["--prune"]).ok();
    assert!(changed.out.contains("-   cron = \"0 3 * * *\"\n+   cron = \"0 4 * * *\""), "{}", changed.out);
    assert_eq!(names(), ["nightly", "pulse"]);
    for (text, said) in [
        ("[schedules.nightly]\ncron = \"61 * * * *\"\njob = { kind = \"k\" }", "nightly: cron"),
        ("[schedules.nightly]\ncrone = \"0 3 * * *\"\njob = { kind = \"k\" }", "crone"),
        ("[nightly]\ncron = \"0 3 * * *\"", "[schedules.NAME]"),
        ("what", "is not TOML"),
    ] {
        std::fs::write(bed.path("schedules.toml"), text).unwrap();
        let refused = apply(&["--prune"]);
        assert!(refused.code == 2 && refused.err.contains(said), "{text}: {} {}", refused.code, refused.err);
    }
    assert_eq!(names(), ["nightly", "pulse"], "nothing of a bad file is kept");
    std::fs::remove_file(bed.path("schedules.toml")).unwrap();
    assert_eq!(apply(&[]).code, 2);
}

/// R7: slots of the past are shown, enqueued once, and not fired again.
#[test]
fn a_stretch_of_the_past_is_made_up_for() {
    let bed = Bed::new();
    bed.run(&["schedules", "put", "nightly", "--cron", "0 3 * * *", "--kind", "report"]).ok();
    let range = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-04T00:00:00Z"];
    let fill =
        |more: &[&str]| bed.run(&[&["schedules", "backfill", "nightly"], &range[..], more].concat()).ok();
    assert_eq!(fill(&["--dry-run"]).out.matches("would be enqueued").count(), 3);
    assert_eq!(fill(&[]).out.lines().count(), 3);
    assert_eq!(fill(&[]).out.matches("was there").count(), 3);
    assert_eq!(bed.json(&["jobs", "ls", "--kind", "report"])["jobs"].as_array().unwrap().len(), 3);
    let long =
        bed.run(&["schedules", "backfill", "nightly", "--from", "2020-01-01T00:00:00Z", "--to", "-1h"]);
    assert!(long.code == 2 && long.err.contains("1000 slots"), "{}", long.err);
}

/// R10, R4: a server processes what was kept once the trigger is mended.
#[test]
fn a_server_processes_what_was_kept() {
    let mut bed = Bed::new();
    bed.run(&["triggers", "put", "paid", "--kind", "invoice", "--payload", "\"{{payload.id}}\""]).ok();
    bed.run(&["triggers", "fire", "paid", "--payload", "{}"]).ok();
    let (_, server) = bed.serve("serve");
    bed.run(&["triggers", "put", "paid", "--kind", "invoice"]).ok();
    wait_for(|| {
        bed.json(&["triggers", "events", "paid", "--unprocessed"])["events"].as_array().unwrap().is_empty()
    });
    assert_eq!(bed.json(&["jobs", "ls", "--kind", "invoice"])["jobs"].as_array().unwrap().len(), 1);
    bed.signal(server, "TERM");
    bed.ended(server);
}
