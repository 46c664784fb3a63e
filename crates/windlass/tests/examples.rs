//! Every example runs, as a process of its own, and says what it should.

mod support;

use support::run;

fn run_on_sqlite(name: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    run(name, &format!("sqlite:{}", folder.path().join("jobs.db").display()))
}

#[test]
fn hello() {
    assert!(run_on_sqlite("hello").ends_with("hello, Ada\n"));
}

/// J11, J12
#[test]
fn steps_survive_kill_9() {
    let said = run_on_sqlite("steps");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..3], ["attempt 1", "charging for a windlass", "kill -9"], "{said}");
    assert!(lines[3].contains("SIGKILL"), "{said}");
    assert_eq!(lines[4..], ["attempt 2", "shipping a windlass", "receipt 1, parcel 1"], "{said}");
}

#[test]
fn approval() {
    let said = run_on_sqlite("approval");
    assert!(said.contains("approved: refunded 900 cents in attempt 2\n"), "{said}");
    assert!(said.contains("denied: too much (approval_denied)\n"), "{said}");
}

#[test]
fn fan_out() {
    let said = run_on_sqlite("fan_out");
    assert_eq!(said, "10 children joined in attempt 2\n168 primes below 1000\n");
}

/// J11, J12
#[test]
fn saga() {
    let said = run_on_sqlite("saga");
    let booked = "booked a flight to Lisbon and a car\n";
    let undone =
        "given back: a car\ngiven back: a flight to Ghent\nthe hotel is full Some(Full { rooms: 0 })\n";
    assert!(said.contains(booked) && said.ends_with(undone), "{said}");
}

/// M13
#[test]
fn shutdown() {
    let said = run_on_sqlite("shutdown");
    let first =
        "baking cake 1\ncake 1 is finished before the end\nthe worker has ended\ncake 1 is completed\n";
    assert!(said.starts_with(first), "{said}");
    assert_eq!(said.matches("baking").count(), 1, "nothing new was begun: {said}");
    assert_eq!(said.matches("is completed").count(), 1, "{said}");
}
