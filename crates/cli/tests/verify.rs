//! `windlass verify`: everything that somebody wrote past the guard is found and named, and the rest is checked all the same.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking")]

mod bed;
#[path = "bed/database.rs"]
mod database;

use bed::Bed;
use database::Database;
use serde_json::{Value, json};

/// Somebody who knows how to get round the guard of a file.
fn in_the_file(bed: &Bed, statements: &[String]) {
    let script = format!(
        "import sqlite3, json; c = sqlite3.connect({:?})\n\
         for (n,) in c.execute(\"select name from sqlite_master where type='trigger'\").fetchall(): c.execute('drop trigger ' + n)\n\
         for s in json.loads({:?}): c.execute(s)\n\
         c.commit()",
        bed.path("jobs.db").display().to_string(),
        serde_json::to_string(statements).unwrap(),
    );
    let ran = bed::ran(std::process::Command::new("python3").args(["-c", &script]).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_row_that_is_not_the_fold_of_its_log_is_found() {
    let bed = Bed::new();
    let id = bed.enqueue(&["sum", "--payload", "1"]);
    bed.run(&["jobs", "cancel", &id]).ok();
    bed.enqueue(&["sum", "--payload", "2"]);
    let fine = bed.json(&["verify"]);
    assert_eq!((&fine["jobs"], &fine["events"], &fine["problems"]), (&json!(2), &json!(3), &json!([])));
    in_the_file(&bed, &["update jobs set priority = 4".to_owned()]);
    let wrong = bed.run(&["verify", "--json"]);
    assert_eq!(wrong.code, 1, "{} {}", wrong.out, wrong.err);
    assert_eq!(wrong.json()["problems"].as_array().unwrap().len(), 2);
    assert!(wrong.out.contains("priority: 4"), "{}", wrong.out);
}

/// How a store writes what is planted.
struct Words {
    /// A table's name.
    table: fn(&str) -> String,
    /// A job's id.
    id: fn(&str) -> String,
    /// So many bytes.
    bytes: fn(usize) -> String,
    /// A moment.
    time: &'static str,
    no: &'static str,
}

const SQLITE: Words = Words {
    table: str::to_owned,
    id: |id| format!("x'{}'", id.replace('-', "")),
    bytes: |n| format!("x'{}'", "00".repeat(n)),
    time: "1",
    no: "0",
};

const POSTGRES: Words = Words {
    table: |name| format!("windlass.{name}"),
    id: |id| format!("'{id}'"),
    bytes: |n| format!("'\\x{}'", "00".repeat(n)),
    time: "'2026-01-01Z'",
    no: "false",
};

/// An id that no job has.
const NOBODY: &str = "019b76da-a800-7000-8000-00000000dead";

/// Plants one of each, runs `verify` and checks that each is named with its job.
fn everything_is_named(
    bed: &Bed,
    words: &Words,
    run: impl Fn(&[&str]) -> bed::Ran,
    plant: impl FnOnce(&[String]),
) {
    let enqueue = |more: &[&str]| {
        let made = run(&[&["enqueue", "sum", "--json"], more].concat()).ok().json();
        made["job"]["id"].as_str().unwrap().to_owned()
    };
    let (ahead, unreadable, keyed) = (enqueue(&[]), enqueue(&[]), enqueue(&["--unique-key", "mine"]));
    let (forged, asked) = (enqueue(&[]), enqueue(&[]));
    run(&["keys", "create", "ann", "--role", "viewer"]).ok();
    run(&["verify"]).ok();
    let Words { table, id, bytes, time, no } = words;
    let event = |job: &str, version: i64| {
        format!(
            "INSERT INTO {} (seq, job_id, version, at, type, actor, attempt, generation) \
             VALUES ({}, {}, {version}, {time}, 'seen', 'api', 0, 0)",
            table("job_events"),
            900_000 + version,
            id(job)
        )
    };
    plant(&[
        event(&ahead, 2),
        event(NOBODY, 7),
        format!(
            "UPDATE {} SET detail = '{{\"n\":1e400}}' WHERE job_id = {} AND version = 1",
            table("job_events"),
            id(&unreadable)
        ),
        format!(
            "INSERT INTO {} (scope, key, job_id, payload_hash) VALUES ('queue:default', 'theirs', {}, {})",
            table("job_keys"),
            id(&forged),
            bytes(32)
        ),
        format!(
            "INSERT INTO {} VALUES ({}, {}, 'deploy', 'approved', 1, 1, {time}, {}, {no}, 1, {time}, {time})",
            table("approvals"),
            id(NOBODY),
            id(&asked),
            bytes(32)
        ),
        format!(
            "INSERT INTO {} (name, hash, roles, created_at) VALUES ('eve', {}, '[\"admin\"]', {time})",
            table("access_keys"),
            bytes(31)
        ),
    ]);
    let wrong = run(&["verify", "--json"]);
    assert_eq!(wrong.code, 1, "{} {}", wrong.out, wrong.err);
    let told = wrong.json();
    assert_eq!(told["jobs"], 5, "every job was looked at: {told}");
    let problems = told["problems"].as_array().unwrap();
    let of = |job: Option<&str>| -> Vec<&str> {
        let job = job.map_or(Value::Null, Value::from);
        problems.iter().filter(|p| p["job_id"] == job).map(|p| p["problem"].as_str().unwrap()).collect()
    };
    let expected: [(Option<&str>, &str); 6] = [
        (Some(&ahead), "ahead of its row"),
        (Some(NOBODY), "no row"),
        (Some(&unreadable), "does not read back"),
        (Some(&forged), "theirs"),
        (Some(&asked), "never asked for"),
        (None, "access key eve"),
    ];
    for (job, part) in expected {
        let said = of(job);
        assert!(said.len() == 1 && said[0].contains(part), "{part}: {told}");
    }
    assert_eq!((problems.len(), of(Some(&keyed)).len()), (6, 0), "{told}");
    let shown = bed::ran(bed.command(&["explain", "job_unreadable"]).output().unwrap()).ok();
    assert!(shown.out.contains("windlass verify"), "{}", shown.out);
}

/// (verify): in a file.
#[test]
fn what_no_event_explains_is_named_in_a_file() {
    let bed = Bed::new();
    everything_is_named(&bed, &SQLITE, |words| bed.run(words), |planted| in_the_file(&bed, planted));
}

/// (verify): in PostgreSQL.
#[test]
fn what_no_event_explains_is_named_in_postgresql() {
    let (bed, database) = (Bed::new(), Database::new());
    let run =
        |words: &[&str]| bed::ran(bed.command(words).env("WINDLASS_STORE", &database.url).output().unwrap());
    run(&["migrate"]).ok();
    let plant = |planted: &[String]| {
        database.within(&format!(
            "BEGIN; SET LOCAL session_replication_role = replica; {}; COMMIT",
            planted.join("; ")
        ));
    };
    everything_is_named(&bed, &POSTGRES, run, plant);
}

/// (operations): a restore that the store cannot notice is said to it, on record.
#[test]
fn a_store_is_adopted_only_when_that_is_meant() {
    let bed = Bed::new();
    bed.run(&["migrate"]).ok();
    let asked = bed.run(&["adopt"]);
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{} {}", asked.code, asked.err);
    for incarnation in 1..=2 {
        assert_eq!(bed.json(&["adopt", "--yes"])["incarnation"], incarnation);
    }
    let audit = bed.json(&["audit", "ls"]);
    let entries = audit["entries"].as_array().unwrap();
    assert_eq!(entries.iter().filter(|e| e["action"] == "store.adopt").count(), 2, "{audit}");
    assert!(entries[0]["actor"].as_str().unwrap().starts_with("cli"), "{audit}");
}
