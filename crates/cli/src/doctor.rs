//! `windlass doctor`: looks at everything that is known to go wrong, and names each problem with its fix.
//!
//! Every check says something, also when all is well: what was not looked at cannot be told from what is good.

mod endpoints;
mod idle;
mod jobs;
mod lanes;
mod postgres;
mod readers;
mod retention;
mod schedules;
mod seals;
mod server;
mod sqlite;
mod subscriptions;

pub use postgres::loses_commits;

use crate::api_client::ApiClient;
use crate::args::DoctorArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::open;
use crate::settings::{Settings, masked};
use serde_json::json;
use windlass_core::Timestamp;
use windlass_store::fresh;
use windlass_store::house::House;

/// A clock that is further off than this is told.
const SKEW_MS: i64 = 2_000;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    /// Worth a look.
    Warning,
    /// Work stands still, is lost, or will be.
    Problem,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What a check found.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// What was looked at.
    check: &'static str,
    level: Level,
    found: String,
    fix: Option<String>,
}

fn ok(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, level: Level::Ok, found: found.into(), fix: None }
}

fn warning(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { check, level: Level::Warning, found: found.into(), fix: Some(fix.into()) }
}

fn problem(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { check, level: Level::Problem, found: found.into(), fix: Some(fix.into()) }
}

/// Looks at everything. Exit code 1 if there is a problem.
pub async fn run(args: &DoctorArgs, settings: &Settings, out: &Out) -> Outcome {
    let late_ms = args.late.ms();
    let low_bytes = args.room.saturating_mul(1 << 20);
    let findings = match open(settings, false, None).await {
        Ok(client) => {
            let mut findings = of_store(settings, late_ms, low_bytes)
                .await
                .unwrap_or_else(|failure| unread("store", failure));
            findings.push(ok("schema", "it is what this version of windlass wants"));
            let jobs = jobs::look(client.store(), late_ms).await;
            findings.extend(jobs.unwrap_or_else(|failure| unread("jobs", failure)));
            let lanes = lanes::look(client.store()).await;
            findings.extend(lanes.unwrap_or_else(|failure| unread("limits", failure)));
            let idle = idle::look(client.store(), args.idle.ms()).await;
            findings.extend(idle.unwrap_or_else(|failure| unread("idle work", failure)));
            let schedules = schedules::look(client.store(), late_ms).await;
            findings.extend(schedules.unwrap_or_else(|failure| unread("schedules", failure)));
            let readers = readers::look(client.store(), late_ms).await;
            findings.extend(readers.unwrap_or_else(|failure| unread("readers", failure)));
            let seals = seals::look(client.store()).await;
            findings.extend(seals.unwrap_or_else(|failure| unread("seals", failure)));
            let subscriptions = subscriptions::look(client.store()).await;
            findings.extend(subscriptions.unwrap_or_else(|failure| unread("subscriptions", failure)));
            let endpoints = endpoints::look(client.store()).await;
            findings.extend(endpoints.unwrap_or_else(|failure| unread("endpoints", failure)));
            let retention = retention::look(client.store(), settings).await;
            findings.extend(retention.unwrap_or_else(|failure| unread("retention", failure)));
            findings
        }
        Err(failure) => {
            let fix =
                "start the database; `windlass migrate` creates or updates a store, --store names another";
            vec![problem("store", failure.detail, fix)]
        }
    };
    tell(&masked(&settings.store.value), out, &findings)
}

/// Looks at a server from outside.
pub async fn run_through(args: &DoctorArgs, url: &str, door: &ApiClient, out: &Out) -> Outcome {
    tell(&masked(url), out, &server::look(door, args.late.ms()).await)
}

/// Whether the store is closed, because its jobs move.
async fn of_closing(house: &dyn House) -> Outcome<Option<Finding>> {
    let closed = house.standing().await?.closed;
    let fix = "say the same `windlass move` again: it goes on, or says that it is done; with --give-up the old store opens again";
    Ok(closed.map(|why| problem("closed", why.to_string(), fix)))
}

/// A look that failed is a finding like any other: the rest is looked at all the same.
fn unread(check: &'static str, failure: Failure) -> Vec<Finding> {
    let fix =
        "the message says what to do; `windlass verify` looks at everything, docs/operate/backup.md restores";
    vec![problem(check, failure.detail, fix)]
}

async fn of_store(settings: &Settings, late_ms: i64, low_bytes: u64) -> Outcome<Vec<Finding>> {
    match settings.store.value.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => sqlite::look(settings, low_bytes).await,
        Some("postgres" | "postgresql") => postgres::look(settings, late_ms).await,
        _ => Ok(vec![ok("store", "memory: nothing is kept")]),
    }
}

fn tell(looked_at: &str, out: &Out, findings: &[Finding]) -> Outcome {
    let shown =
        |f: &Finding| json!({ "check": f.check, "level": f.level.word(), "found": f.found, "fix": f.fix });
    let count = |level: Level| findings.iter().filter(|f| f.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    let all: Vec<_> = findings.iter().map(shown).collect();
    let answer = json!({ "ok": problems == 0, "store": looked_at, "findings": all });
    out.show(&answer, |out| {
        for finding in findings {
            let level = out.status(&format!("{:<7}", finding.level.word()));
            out.line(format!("{level}  {:<12}  {}", finding.check, finding.found));
            if let Some(fix) = &finding.fix {
                out.line(format!("{:23}fix: {fix}", ""));
            }
        }
        let told = match (problems, warnings) {
            (0, 0) => "nothing is wrong".to_owned(),
            (0, n) => format!("no problem, {}", counted(n, "warning")),
            (n, m) => format!("{}, {}", counted(n, "problem"), counted(m, "warning")),
        };
        out.line(format!("{looked_at}: {told}"));
    });
    if problems == 0 { Ok(()) } else { Err(Failure::told()) }
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Compares the store's clock with this machine's, which was looked at before and after.
fn of_clock(before: Timestamp, theirs: Timestamp, after: Timestamp) -> Finding {
    let ms = |from: Timestamp, to: Timestamp| (to.as_micros() - from.as_micros()) / 1_000;
    let off_ms = if theirs < before { -ms(theirs, before) } else { ms(after, theirs).max(0) };
    if off_ms.abs() <= SKEW_MS {
        return ok("clock", format!("the store's and this machine's differ by {off_ms} ms"));
    }
    let found = format!(
        "the store's clock is {} s {} this machine's",
        off_ms.abs() / 1_000,
        if off_ms > 0 { "ahead of" } else { "behind" }
    );
    warning(
        "clock",
        found,
        "set both by NTP; the store's clock decides what is due, this one what --run-at means",
    )
}

/// How long ago, in words.
fn ago(since: Timestamp, now: Timestamp) -> String {
    let seconds = ((now.as_micros() - since.as_micros()) / 1_000_000).max(0);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// This machine's clock.
fn here() -> Timestamp {
    fresh::wall_clock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_told_with_its_direction() {
        let at = |s: i64| Timestamp::from_micros(s * 1_000_000);
        assert_eq!(of_clock(at(100), at(100), at(101)).level, Level::Ok);
        assert_eq!(of_clock(at(100), at(102), at(101)).level, Level::Ok, "within the tolerance");
        let (behind, ahead) = (of_clock(at(100), at(40), at(101)), of_clock(at(100), at(171), at(101)));
        assert!(behind.found.contains("60 s behind"), "{}", behind.found);
        assert!(ahead.found.contains("70 s ahead of"), "{}", ahead.found);
    }

    #[test]
    fn lengths_of_time_are_short() {
        let at = |s: i64| Timestamp::from_micros(s * 1_000_000);
        for (seconds, told) in [(5, "5 s"), (600, "10 min"), (10_000, "2 h"), (400_000, "4 d"), (-5, "0 s")] {
            assert_eq!(ago(at(0), at(seconds)), told);
        }
    }
}
