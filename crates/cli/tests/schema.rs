//! Thousands of generated requests, good and bad, from the document that the real binary serves. Whatever comes: no server
//! error, no status, type or shape that the document does not name, no bad request accepted, nobody let in without a key.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use wire::{Place, Served};

/// The generator: made by `scripts/test`, which says where.
fn schemathesis() -> PathBuf {
    let folder = std::env::var_os("WINDLASS_TEST_PYTHON").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin"));
    let program = folder.join("schemathesis");
    let how = "`make test` installs it, or name the folder of another with WINDLASS_TEST_PYTHON";
    assert!(program.exists(), "there is no {}; {how}", program.display());
    program
}

/// Sends generated requests to what `words` select, and fails with what was found.
fn generate(place: &Place, served: &Served, key: &str, examples: &str, words: &[&str]) {
    let mut command = Command::new(schemathesis());
    command
        .args(["run", &format!("{}/openapi.json", served.url()), "--no-color"])
        .current_dir(place.folder());
    command.args(["-H", &format!("Authorization: Bearer {key}"), "-H", "Accept: application/json"]);
    // What is valid field by field may still be refused, as a run time beside a delay is: that is no finding.
    command.args(["--checks", "all", "--exclude-checks", "positive_data_acceptance"]);
    command.args([
        "--phases",
        "examples,coverage,fuzzing,stateful",
        "--max-examples",
        examples,
        "--seed",
        "7",
    ]);
    command.args(["--generation-database", "none", "--generation-with-security-parameters", "false"]);
    command
        .args(["--request-timeout", "90", "--suppress-health-check", "all", "--warnings", "off"])
        .args(words);
    let ran = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}\nthe server said:\n{}", served.log());
}

/// (http) Generated requests find nothing, and leave a store in which every row is the fold of its log.
#[test]
fn generated_requests_find_nothing() {
    let place = Place::sqlite();
    let made = place
        .command(&["keys", "create", "generator", "--role", "admin", "--create", "--json"])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let key = made["secret"].as_str().unwrap();
    let served = place.serve();
    // Taking keys back comes last and by itself: the generator finds out its own key's name.
    generate(&place, &served, key, "10", &["--exclude-operation-id", "delete_keys_name"]);
    generate(&place, &served, key, "5", &["--include-operation-id", "delete_keys_name"]);
    drop(served);
    place.is_sound();
}
