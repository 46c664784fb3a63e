//! The handlers in `examples/exec`, each run by a real worker. An interpreter that is missing fails the test.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::Bed;
use serde_json::{Value, json};

fn example(name: &str) -> String {
    format!("{}/../../examples/exec/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn done(words: &[&str], payload: &str) -> Value {
    let mut bed = Bed::new();
    bed.work(&[&["--exec"], words].concat());
    let ran = bed.run(&["enqueue", "k", "--payload", payload, "--wait"]);
    let log = std::fs::read_to_string(bed.path("log-0")).unwrap_or_default();
    assert_eq!(ran.code, 0, "{} {} {log}", ran.out, ran.err);
    ran.json()
}

#[test]
fn shell() {
    assert_eq!(done(&[&example("hello.sh")], "\"Ada\""), json!({ "greeting": "hello", "name": "Ada" }));
}

#[test]
fn python() {
    assert_eq!(done(&["python3", &example("sum.py")], "[1,2,3]"), json!({ "sum": 6 }));
    let mut bed = Bed::new();
    bed.work(&["--exec", "python3", &example("sum.py")]);
    let id = bed.enqueue(&["k", "--payload", "7"]);
    assert_eq!(bed.until_status(&id, "failed")["error"]["code"], "exit_65");
}

#[test]
fn node() {
    let made = done(&["node", &example("resize.mjs")], r#"{"image":"cat.png","widths":[320]}"#);
    assert_eq!(made, json!({ "made": ["cat.png@320#1"] }));
}
