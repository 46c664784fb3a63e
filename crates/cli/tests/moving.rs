//! `windlass move`: from a file to a server and on to another schema, as a person would.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking")]

mod bed;
#[path = "bed/database.rs"]
mod database;

use bed::Bed;
use database::Database;
use serde_json::json;

#[test]
fn a_file_moves_to_a_server_and_on() {
    let (bed, database) = (Bed::new(), Database::new());
    let id = bed.enqueue(&["sum", "--payload", "{\"n\":1}", "--tag", "blue"]);
    bed.run(&["jobs", "cancel", &id]).ok();
    let waits = bed.enqueue(&["sum", "--delay", "1h", "--unique-key", "once"]);
    bed.run(&["queues", "set", "default", "--limit", "3"]).ok();
    bed.run(&["schedules", "put", "nightly", "--cron", "0 3 * * *", "--kind", "report"]).ok();
    let to = ["move", "--from", &bed.url(), "--to", &database.url];
    let moved = bed.run(&to).ok();
    assert!(moved.out.contains("2 jobs and 3 events have moved"), "{}", moved.out);
    // The old store says where to go, to the command and to the doctor.
    let refused = bed.run(&["enqueue", "sum"]);
    assert_eq!(refused.code, 5, "{} {}", refused.out, refused.err);
    assert!(refused.err.contains("its jobs move or have moved"), "{}", refused.err);
    let doctor = bed.run(&["doctor"]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.out.contains("its jobs move to postgres"), "{}", doctor.out);
    // Everything is there, once.
    let there = ["--store", &database.url];
    let at = |words: &[&str]| bed.json(&[&there, words].concat());
    assert_eq!(at(&["jobs", "show", &id])["status"], json!("cancelled"));
    assert_eq!(at(&["jobs", "show", &waits])["status"], json!("pending"));
    assert_eq!(at(&["jobs", "ls", "--tag", "blue"])["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(at(&["verify"])["problems"], json!([]));
    let again = at(&["enqueue", "sum", "--delay", "1h", "--unique-key", "once"]);
    assert_eq!((&again["job"]["id"], &again["existed"]), (&json!(waits), &json!(true)));
    let done = bed.run(&to);
    assert_eq!(done.code, 4, "{} {}", done.out, done.err);
    assert!(done.err.contains("have moved to"), "{}", done.err);
    // On to another schema of the same database.
    let on = bed.json(&["move", "--from", &database.url, "--to", &database.url, "--to-schema", "other"]);
    assert_eq!(on["rows"]["jobs"], json!(2));
    let there = ["--store", &database.url, "--schema", "other"];
    let shown = bed.json(&[&there[..], &["jobs", "show", &id]].concat());
    assert_eq!(shown["status"], json!("cancelled"));
}

#[test]
fn what_cannot_be_moved_is_named() {
    let bed = Bed::new();
    bed.enqueue(&["sum"]);
    let into = format!("sqlite:{}", bed.path("new.db").display());
    let itself = bed.run(&["move", "--from", &bed.url(), "--to", &bed.url()]);
    assert_eq!(itself.code, 2, "{}", itself.err);
    assert!(itself.err.contains("the same store"), "{}", itself.err);
    let nowhere = bed.run(&["move", "--from", "sqlite:nothing.db", "--to", &into]);
    assert!(nowhere.err.contains("there is no store at"), "{}", nowhere.err);
    let memory = bed.run(&["move", "--from", &bed.url(), "--to", "memory:"]);
    assert_eq!(memory.code, 2, "{}", memory.err);
    let nothing = bed.run(&["move", "--from", &bed.url(), "--to", &into, "--give-up"]);
    assert!(nothing.code != 0, "{}", nothing.out);
    bed.run(&["--store", &into, "migrate"]).ok();
    bed.run(&["--store", &into, "enqueue", "other"]).ok();
    let full = bed.run(&["move", "--from", &bed.url(), "--to", &into]);
    assert!(full.err.contains("move into an empty store"), "{}", full.err);
    // Nothing was changed by all that.
    bed.enqueue(&["sum"]);
    bed.run(&["--store", &into, "enqueue", "other"]).ok();
}
