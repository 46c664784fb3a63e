//! Every example runs, as a process of its own, and says what it should.

mod support;

use std::path::Path;
use std::process::Command;
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
    support::is_trip(&run_on_sqlite("saga"));
}

/// J11, M5, M8
#[test]
fn shop() {
    support::is_shop(&run_on_sqlite("shop"));
}

#[test]
fn flow() {
    let said = run_on_sqlite("flow");
    assert_eq!(said, "3 words, the last is example.org\nthe alert is skipped\n");
}

#[test]
fn limits() {
    let said = run_on_sqlite("limits");
    let expected =
        "globex, which came last of 11, was among the first\nat once: acme 1, globex 1, in all 2\n";
    assert_eq!(said, expected);
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

/// The first page's `Cargo.toml` lines and its program, pasted into a package of their own, compile. Nothing is downloaded:
/// the versions are those that this build has.
#[test]
fn the_readme_compiles_as_pasted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("a README");
    let block = |fence: &str| {
        let (_, rest) = readme.split_once(fence).unwrap_or_else(|| panic!("README has no {fence}"));
        rest.split_once("\n```").expect("a block that ends").0.to_owned()
    };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let package = target.join("package");
    std::fs::create_dir_all(package.join("src")).expect("a folder");
    let windlass = root.join("crates/windlass");
    let manifest = format!(
        "[package]\nname = \"pasted\"\nedition = \"2024\"\n[workspace]\n{}\n[patch.crates-io]\nwindlass = {{ path = {:?} }}\n",
        block("```toml\n"),
        windlass.display(),
    );
    std::fs::write(package.join("Cargo.toml"), manifest).expect("a manifest");
    std::fs::write(package.join("src/main.rs"), block("```rust,no_run\n")).expect("a program");
    std::fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).expect("the versions of this build");
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments).arg("--offline").current_dir(&package).env("CARGO_TARGET_DIR", &target);
        let ran = cargo.output().expect("cargo runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    cargo(&["check", "--quiet"]);
    // A program that embeds Windlass decides for itself whether its JSON keeps the order of keys.
    let features = cargo(&["tree", "--edges", "normal,features", "--invert", "serde_json"]);
    assert!(features.contains("windlass") && !features.contains("preserve_order"), "{features}");
}
