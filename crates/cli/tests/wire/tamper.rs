//! Somebody who changes a store behind the engine's back, and what `windlass verify` says about it.

use super::{Place, until};
use serde_json::Value;
use std::process::Command;

/// How a store writes what somebody changes in it.
pub struct Words {
    /// Before a table's name.
    pub schema: &'static str,
    pub id: fn(&str) -> String,
    /// The bytes of a text.
    pub bytes: fn(&str) -> String,
    pub later: &'static str,
}

pub fn words(place: &Place) -> Words {
    let blob = |id: &str| format!("x'{}'", id.replace('-', ""));
    match place.name {
        "sqlite" => {
            Words { schema: "", id: blob, bytes: |text| format!("CAST('{text}' AS BLOB)"), later: "at + 1" }
        }
        _ => {
            let bytes = |text: &str| format!("convert_to('{text}', 'UTF8')");
            Words { schema: "windlass.", id: |id| format!("'{id}'"), bytes, later: "at + interval '1 us'" }
        }
    }
}

/// Somebody who knows how to get round the guard.
pub fn tampers(place: &Place, statements: &[String]) {
    if place.name == "postgres" {
        let all = statements.join("; ");
        place.on_database(&format!("BEGIN; SET LOCAL session_replication_role = replica; {all}; COMMIT"));
        return;
    }
    let script = format!(
        "import sqlite3, json; c = sqlite3.connect({:?})\n\
         for (n,) in c.execute(\"select name from sqlite_master where type='trigger'\").fetchall(): c.execute('drop trigger ' + n)\n\
         for s in json.loads({:?}): c.execute(s)\n\
         c.commit()",
        place.folder().join("jobs.db").display().to_string(),
        serde_json::to_string(statements).unwrap(),
    );
    let ran = Command::new("python3").args(["-c", &script]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// What `verify` says, and its exit code.
pub fn verify(place: &Place, more: &[&str]) -> (i32, Value) {
    let ran = place.command(&[&["verify", "--json"], more].concat()).output().unwrap();
    let said = serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| {
        panic!("{e}: {} {}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
    });
    (ran.status.code().unwrap(), said)
}

pub fn problems(said: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = said["problems"].as_array().unwrap().iter();
    let mut all: Vec<_> = all.map(|one| (text(&one["job_id"]), text(&one["problem"]))).collect();
    all.sort();
    all
}

/// Waits until so many events are sealed, and finds nothing wrong.
pub fn until_sealed(place: &Place, events: u64) {
    until("the log is sealed", || {
        let (code, said) = verify(place, &[]);
        assert_eq!((code, problems(&said)), (0, vec![]));
        said["seals"]["events"].as_u64().unwrap() >= events
    });
}

/// Makes a subscription's way long: notes of one job that it passes over, as many as `WINDLASS_TEST_FAR_BEHIND` says, written past the
/// engine, for that is quick. The server must not run meanwhile.
pub fn far_behind(place: &Place, noted: &str, otherwise: u64) -> u64 {
    let wish = std::env::var("WINDLASS_TEST_FAR_BEHIND");
    let notes = wish.map_or(otherwise, |text| text.parse().unwrap());
    let id = (words(place).id)(noted);
    tampers(
        place,
        &[
            format!(
                "WITH RECURSIVE n(version) AS (SELECT 2 UNION ALL SELECT version + 1 FROM n WHERE version <= {notes}) \
                 INSERT INTO job_events (job_id, version, at, type, actor, attempt, generation) \
                 SELECT job_id, n.version, at, 'seen', 'api', 0, 0 FROM n, job_events e WHERE e.job_id = {id} AND e.version = 1"
            ),
            format!("UPDATE jobs SET version = {notes} + 1 WHERE id = {id}"),
        ],
    );
    notes
}
