//! A program that knows nothing of the project but its HTTP API drives the real binary, on each store.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use std::process::Command;
use wire::Place;

fn drive(place: &Place) {
    let served = place.serve();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/blackbox.py");
    let ran = Command::new("python3").arg(script).arg(&served.address).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "on {}:\n{out}{err}\nthe server said:\n{}", place.name, served.log());
    drop(served);
    place.is_sound();
}

/// M11, Q6, J6, M8, T6: every call with success and every refusal by its code, on SQLite.
#[test]
fn a_stranger_drives_it_on_sqlite() {
    drive(&Place::sqlite());
}

/// M11, Q6, J6, M8, T6: the same on PostgreSQL.
#[test]
fn a_stranger_drives_it_on_postgres() {
    drive(&Place::postgres());
}
