//! Cron beside a second implementation: a walk over every minute with Python's zoneinfo.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use windlass_core::schedule::cron::Cron;

/// Zones with rules of their own kind: half an hour of summer time, a day left out, a new offset, summer time in winter.
const ODD: [&str; 8] = [
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "Asia/Pyongyang",
    "Europe/Dublin",
    "Antarctica/Troll",
];
const TEXTS: [&str; 5] = ["*/30 * * * *", "15 2 * * *", "0 0 * * *", "30 1,2,3 * * 0", "10 0-4/2 * * *"];
const DAY: i64 = 86_400;

/// R7: every zone around changes of its clocks, from 2001 to 2022: rules that are history everywhere.
#[test]
fn python_sees_the_same_slots() {
    let from: Timestamp = "2001-01-01T00:00:00Z".parse().unwrap();
    let to: Timestamp = "2022-06-01T00:00:00Z".parse().unwrap();
    let mut zones: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
    zones.sort();
    let some =
        zones.iter().filter(|zone| zone.contains('/') && !zone.starts_with("Etc/")).step_by(5).cloned();
    let zones: Vec<String> = ODD.iter().map(ToString::to_string).chain(some).collect();
    let (mut asked, mut cases) = (String::new(), Vec::new());
    for (n, name) in zones.iter().enumerate() {
        let zone = TimeZone::get(name).unwrap();
        let changes: Vec<i64> = zone
            .following(from)
            .map(|change| change.timestamp().as_second())
            .take_while(|at| *at < to.as_second())
            .collect();
        let picked = changes.iter().skip(n % 3).step_by(1 + changes.len() / 3).copied();
        for (m, change) in picked.chain([from.as_second() + 1_000 * DAY]).enumerate() {
            let (start, text) = (change - DAY - 60 * (m as i64 * 7), TEXTS[(n + m) % TEXTS.len()]);
            writeln!(asked, "{name}\t{text}\t{start}\t2").unwrap();
            cases.push((zone.clone(), name, text, start));
        }
    }
    assert!(cases.len() > 200, "{}", cases.len());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    let mut python =
        Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = python.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || pipe.write_all(asked.as_bytes()).unwrap());
    let answered = python.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(answered.status.success());
    let answered = String::from_utf8(answered.stdout).unwrap();
    assert_eq!(answered.lines().count(), cases.len());
    let mut slots = 0;
    for ((zone, name, text, start), line) in cases.iter().zip(answered.lines()) {
        let expected: Vec<i64> = line.split_whitespace().map(|at| at.parse().unwrap()).collect();
        let cron = Cron::parse(text).unwrap();
        let (mut at, mut found) = (Timestamp::from_second(*start).unwrap(), Vec::new());
        while let Some(next) = cron.next(at, zone).filter(|next| next.as_second() < start + 2 * DAY) {
            found.push(next.as_second());
            at = next;
        }
        assert_eq!(found, expected, "{name}, {text}, from {start}");
        slots += found.len();
    }
    assert!(slots > 2_000, "{slots}");
}
