//! `windlass demo` as a newcomer meets it: what it prints is typed, an order is let go on, and the second start continues.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, Ran, free_port, wait_for};
use serde_json::Value;
use std::process::Command;

/// In the folder of the demo, with nothing configured.
fn typed(bed: &Bed, line: &str) -> Ran {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", line])
        .current_dir(bed.path(""))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    bed::ran(shell.output().unwrap())
}

fn windlass(bed: &Bed, words: &[&str]) -> Ran {
    bed::ran(bed.command(words).env_remove("WINDLASS_STORE").output().unwrap())
}

fn json(bed: &Bed, words: &[&str]) -> Value {
    windlass(bed, &[words, &["--json"]].concat()).ok().json()
}

fn start(bed: &mut Bed) -> usize {
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = bed.command(&["demo", "--listen", &address]);
    command.env_remove("WINDLASS_STORE");
    let demo = bed.spawn(command);
    wait_for(|| std::net::TcpStream::connect(&address).is_ok());
    demo
}

/// The commands that a demo has printed so far, without what is said about them.
fn printed(bed: &Bed, demo: usize) -> Vec<String> {
    let lines = bed.printed(demo);
    let command = |line: &str| Some(line.strip_prefix("  ")?.split(" # ").next()?.trim().to_owned());
    lines.lines().filter_map(command).collect()
}

fn orders(bed: &Bed) -> Vec<u64> {
    let jobs = json(bed, &["jobs", "ls", "--kind", "order.fulfil", "--limit", "1000"]);
    let ids: Vec<&str> =
        jobs["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    ids.iter().map(|id| json(bed, &["jobs", "show", id])["payload"]["order"].as_u64().unwrap()).collect()
}

#[test]
fn a_newcomer_types_what_is_printed_and_comes_back_later() {
    let mut bed = Bed::new();
    let demo = start(&mut bed);
    wait_for(|| printed(&bed, demo).iter().any(|line| line.contains("approvals approve")));
    wait_for(|| !json(&bed, &["jobs", "ls", "--dead"])["jobs"].as_array().unwrap().is_empty());
    let commands = printed(&bed, demo);
    assert!(commands.len() >= 7, "{commands:?}");
    for line in &commands {
        let ran = typed(&bed, line);
        assert_eq!(ran.code, 0, "{line}: {} {}", ran.out, ran.err);
        assert!(!ran.out.is_empty(), "{line}");
    }
    let approved = commands.iter().find(|line| line.contains("approvals approve")).unwrap();
    let id = approved.rsplit(' ').next().unwrap();
    let approvals = json(&bed, &["approvals", "ls"]);
    let order = approvals["approvals"].as_array().unwrap().iter().find(|a| a["id"] == id).unwrap().clone();
    let job = order["job_id"].as_str().unwrap();
    wait_for(|| json(&bed, &["jobs", "show", job])["status"] == "completed");
    let dead = &json(&bed, &["jobs", "ls", "--dead"])["jobs"][0];
    assert_eq!(dead["error"]["code"], "address_unknown");
    wait_for(|| {
        let jobs = json(&bed, &["jobs", "ls", "--kind", "order.fulfil", "--status", "completed"]);
        jobs["jobs"].as_array().unwrap().iter().any(|job| job["retries"] == 1)
    });

    // A limited queue, and a flow whose last job waited for the others.
    let shown = windlass(&bed, &["queues", "ls"]).ok().out;
    assert!(shown.contains("5/s, 1 per key"), "{shown}");
    let of =
        |kind: &str| json(&bed, &["jobs", "ls", "--kind", kind, "--status", "completed"])["jobs"].clone();
    wait_for(|| of("stock.add-up").as_array().is_some_and(|jobs| !jobs.is_empty()));
    let last = of("stock.add-up")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(json(&bed, &["jobs", "show", &last])["result"], 42);

    bed.signal(demo, "INT");
    assert_eq!(bed.ended(demo), 0);
    assert!(bed.printed(demo).ends_with("goes on where it was\n"), "{}", bed.printed(demo));
    assert_eq!(json(&bed, &["jobs", "ls", "--status", "running"])["jobs"], serde_json::json!([]));
    windlass(&bed, &["verify"]).ok();

    let before = orders(&bed);
    let demo = start(&mut bed);
    wait_for(|| orders(&bed).len() > before.len() + 1);
    bed.signal(demo, "INT");
    assert_eq!(bed.ended(demo), 0);
    let mut all = orders(&bed);
    all.sort_unstable();
    assert!(all.iter().copied().eq(1_001..1_001 + all.len() as u64), "numbers go on: {all:?}");
}

#[test]
fn a_port_that_is_taken_is_told() {
    let bed = Bed::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = windlass(&bed, &["demo", "--listen", &address]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains(&address) && ran.err.contains("--listen"), "{}", ran.err);
}
