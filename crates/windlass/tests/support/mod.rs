//! Jobs and stores that the tests share.

#![allow(dead_code, reason = "each test takes from here what it needs")]

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use windlass::{Client, Job};

/// Adds two numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Add(pub i64, pub i64);

impl Job for Add {
    const KIND: &str = "add";
    type Output = i64;
}

/// Does whatever the test's handler does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Task {
    /// What it is about.
    pub text: String,
}

impl Job for Task {
    const KIND: &str = "task";
    const QUEUE: &str = "tasks";
    type Output = String;
}

pub fn task(text: &str) -> Task {
    Task { text: text.into() }
}

/// A store that ends with the test.
pub struct Place {
    pub client: Client,
    pub what: &'static str,
    _folder: Option<tempfile::TempDir>,
}

/// Every store that needs no server.
pub async fn places() -> [Place; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let sqlite = windlass::connect(&url).await.expect("a SQLite store");
    let memory = windlass::connect("memory:").await.expect("a memory store");
    [
        Place { client: memory, what: "memory", _folder: None },
        Place { client: sqlite, what: "sqlite", _folder: Some(folder) },
    ]
}

/// Cargo builds examples together with the tests and puts them beside.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test's own path");
    let folder = test.parent().and_then(Path::parent).expect("the folder of the build").join("examples");
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is not built; run `cargo build -p windlass --all-features --examples`",
        path.display()
    );
    path
}

/// What the shop prints, on any store.
pub fn is_shop(said: &str) {
    let expected = "Ada paid 900 cents: Ada #0, Ada #1\norder fails: Bob did not pay\nunpaid: Bob did not pay\n\
                    what was reserved is given back\nCleo paid 450 cents: Cleo #0\n";
    // Bob's order may fail before Ada's result was read.
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let mut wanted: Vec<&str> = expected.lines().collect();
    wanted.sort_unstable();
    assert_eq!(lines, wanted, "{said}");
}

/// What the saga prints, on any store.
pub fn is_trip(said: &str) {
    let booked = "booked a flight to Lisbon and a car\n";
    let undone =
        "given back: a car\ngiven back: a flight to Ghent\nthe hotel is full Some(Full { rooms: 0 })\n";
    assert!(said.contains(booked) && said.ends_with(undone), "{said}");
}

/// What an example prints on a store of its own.
pub fn run(name: &str, url: &str) -> String {
    let output =
        Command::new(built(name)).arg(url).stdin(Stdio::null()).output().expect("the example starts");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{said}\n{complained}", output.status);
    said.into_owned()
}
