//! `windlass doctor`: every problem is made, for real, and then found with its fix.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;
#[path = "bed/database.rs"]
mod database;

use bed::{Bed, kill, wait_for};
use database::{Database, Pooled};
use serde_json::Value;
use std::io::{Seek, SeekFrom, Write};
use windlass_core::outcome::Found;
use windlass_core::{Name, Outcome, Wait, WaitFor, Who};
use windlass_store::{ClaimMany, Settle, SettleItem, fresh};

/// What the doctor says of a check, the worst first.
fn said(bed: &Bed, words: &[&str], check: &str) -> Value {
    let ran = bed.run(&[&["doctor", "--json"], words].concat());
    let told = ran.json();
    assert_eq!(ran.code == 0, told["ok"] == true, "{told}");
    let all: Vec<Value> =
        told["findings"].as_array().unwrap().iter().filter(|f| f["check"] == check).cloned().collect();
    let worst =
        ["problem", "warning", "ok"].iter().find_map(|level| all.iter().find(|f| f["level"] == **level));
    worst.unwrap_or_else(|| panic!("{check} is not looked at: {told}")).clone()
}

#[track_caller]
fn assert_said(finding: &Value, level: &str, found: &str, fix: &str) {
    let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("level"), level, "{finding}");
    assert!(text("found").contains(found) && text("fix").contains(fix), "{finding}");
}

#[test]
fn a_healthy_file_has_every_check_told_and_no_problem() {
    let bed = Bed::new();
    bed.run(&["migrate"]).ok();
    let told = bed.json(&["doctor"]);
    assert_eq!(told["ok"], true, "{told}");
    let checks: Vec<&str> =
        told["findings"].as_array().unwrap().iter().map(|f| f["check"].as_str().unwrap()).collect();
    for check in [
        "store",
        "schema",
        "integrity",
        "durability",
        "wal",
        "file system",
        "disk",
        "queues",
        "leases",
        "deadlines",
        "workers",
        "dead letters",
    ] {
        assert!(checks.contains(&check), "{check}: {checks:?}");
    }
    let people = bed.run(&["doctor"]).ok().out;
    assert!(people.contains("SQLite") && people.contains("jobs.db"), "{people}");
}

#[test]
fn no_store_is_a_problem_and_is_not_made() {
    let bed = Bed::new();
    assert_said(&said(&bed, &[], "store"), "problem", "there is no store", "windlass migrate");
    assert!(!bed.path("jobs.db").exists());
    let away = ["--store", "postgres://nobody@127.0.0.1:1/none"];
    assert_said(&said(&bed, &away, "store"), "problem", "", "start the database");
}

#[test]
fn a_damaged_file_is_found() {
    let bed = Bed::new();
    for n in 0..40 {
        bed.enqueue(&["k", "--payload", &format!("\"{}\"", "x".repeat(4_000 + n))]);
    }
    assert_said(&said(&bed, &[], "integrity"), "ok", "quick check", "");
    let path = bed.path("jobs.db");
    // Everything is in the file and not beside it once the last process has closed it.
    let pages = std::fs::metadata(&path).unwrap().len() / 8_192;
    assert!(pages > 10, "{pages} pages");
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for page in pages / 2..pages - 1 {
        file.seek(SeekFrom::Start(page * 8_192)).unwrap();
        file.write_all(&[0xA5; 64]).unwrap();
    }
    drop(file);
    let ran = bed.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("damaged") || ran.out.contains("malformed"), "{} {}", ran.out, ran.err);
}

#[test]
fn a_file_in_memory_is_told() {
    let bed = Bed::new();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    bed.run(&["migrate", "--store", &url]).ok();
    assert_said(&said(&bed, &["--store", &url], "file system"), "warning", "in memory", "--store");
}

#[test]
fn queues_that_stand_still_are_told() {
    let bed = Bed::new();
    bed.enqueue(&["sum", "--queue", "math"]);
    assert_said(
        &said(&bed, &[], "queues"),
        "problem",
        "no live worker",
        "windlass work --queue math --kind sum",
    );
    bed.run(&["queues", "pause", "math"]).ok();
    assert_said(&said(&bed, &[], "queues"), "warning", "paused", "windlass queues resume math");
    let id = bed.enqueue(&["sum"]);
    bed.run(&["jobs", "cancel", &id]).ok();
    assert_said(&said(&bed, &[], "dead letters"), "ok", "none", "");
}

#[test]
fn dead_letters_dead_workers_and_leases_in_dead_hands_are_told() {
    let mut bed = Bed::new();
    let worker = bed.work(&[
        "--lease",
        "1s",
        "--exec",
        "sh",
        "-c",
        "read n; [ $n = 1 ] || exit 65; echo $$ > child; sleep 600",
    ]);
    let dead = bed.enqueue(&["k", "--payload", "0"]);
    bed.until_status(&dead, "failed");
    assert_said(&said(&bed, &[], "dead letters"), "warning", "1 jobs are dead", "redrive");
    let held = bed.enqueue(&["k", "--payload", "1"]);
    let child = bed.read("child");
    bed.signal(worker, "KILL");
    bed.ended(worker);
    kill("KILL", child.parse().unwrap());
    wait_for(|| said(&bed, &["--late", "1s"], "leases")["level"] == "problem");
    let finding = said(&bed, &["--late", "1s"], "leases");
    assert_said(&finding, "problem", &held, "");
    assert_said(&said(&bed, &[], "leases"), "ok", "1 running", "");
}

/// A job that waits for a signal until a moment, and nobody is there to see it pass.
#[test]
fn deadlines_that_nobody_looks_at_are_told() {
    let bed = Bed::new();
    bed.enqueue(&["k"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = windlass::connect(&bed.url()).await.unwrap();
        let queue = Name::parse("queue", "default").unwrap();
        let request = ClaimMany::new(Who::parse("worker", "w").unwrap(), vec![queue], 1, fresh::secret());
        let held = client.store().claim(request, None).await.unwrap().pop().unwrap();
        let expires_at = Some(fresh::wall_clock().plus_ms(500));
        let name = Some(Name::parse("name", "go").unwrap());
        let wait = Wait { waits_for: WaitFor::Signal, name, until: None, expires_at };
        let item = SettleItem {
            job: held.job.id,
            token: held.lease.token,
            outcome: Outcome::Wait(wait, Found::default()),
        };
        client.store().settle(Settle { items: vec![item] }, None).await.unwrap().pop().unwrap().unwrap();
    });
    wait_for(|| said(&bed, &["--late", "1s"], "deadlines")["level"] == "problem");
    assert_said(&said(&bed, &["--late", "1s"], "deadlines"), "problem", "nobody acted", "windlass serve");
}

#[test]
fn a_server_is_looked_at() {
    let (bed, database) = (Bed::new(), Database::new());
    let store = ["--store", &database.url];
    bed.run(&[&["migrate"], &store[..]].concat()).ok();
    assert_said(&said(&bed, &store, "store"), "ok", "PostgreSQL", "");
    assert_said(&said(&bed, &store, "clock"), "ok", "differ by", "");
    assert_said(&said(&bed, &store, "pooler"), "ok", "", "");
    assert_said(&said(&bed, &store, "wake-ups"), "ok", "NOTIFY comes back", "");
    assert_said(&said(&bed, &store, "transactions"), "ok", "none", "");
    assert_said(&said(&bed, &store, "vacuum"), "ok", "jobs: ", "");
    database.on("ALTER DATABASE {} SET synchronous_commit = off");
    assert_said(&said(&bed, &store, "durability"), "problem", "synchronous_commit = off", "reload");
}

#[test]
fn a_transaction_that_is_left_open_is_told_with_its_process() {
    let (bed, database) = (Bed::new(), Database::new());
    bed.run(&["migrate", "--store", &database.url]).ok();
    let open = database.open_transaction();
    let words = ["--store", &database.url, "--late", "1s"];
    wait_for(|| said(&bed, &words, "transactions")["level"] != "ok");
    let finding = said(&bed, &words, "transactions");
    assert!(
        finding["fix"].as_str().unwrap().contains(&format!("pg_terminate_backend({})", open.pid)),
        "{finding}"
    );
    assert!(finding["found"].as_str().unwrap().contains("idle in transaction"), "{finding}");
    drop(open);
    wait_for(|| said(&bed, &words, "transactions")["level"] == "ok");
}

#[test]
fn a_pooler_that_lends_for_a_transaction_is_told() {
    let (bed, database) = (Bed::new(), Database::new());
    bed.run(&["migrate", "--store", &database.url]).ok();
    let through = Pooled::new(&database);
    let words = ["--store", &through.url];
    assert_said(&said(&bed, &words, "pooler"), "warning", "wake-ups are lost", "--notify-url");
    assert_said(&said(&bed, &words, "wake-ups"), "warning", "lost in the pooler", "--notify-url");
    let beside = ["--store", &through.url, "--notify-url", &database.url];
    assert_said(&said(&bed, &beside, "pooler"), "ok", "notify_url", "");
    assert_said(&said(&bed, &beside, "wake-ups"), "ok", "comes back", "");
}
