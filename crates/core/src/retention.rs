//! Retention: how long finished jobs are kept, as rules of which the most specific wins.

use crate::decide::Move;
use crate::event::{Event, EventKind};
use crate::ids::JobId;
use crate::job::{Job, Version};
use crate::limits::{self, HORIZON_MS, Invalid};
use crate::list::Filter;
use crate::logs::LogPart;
use crate::name::{Actor, Name};
use crate::refusal::Refusal;
use crate::registry::LogLine;
use crate::span::within_ms;
use crate::status::Status;
use crate::term::Term;
use crate::time::Timestamp;
use crate::trigger::leads;
use serde::{Deserialize, Serialize};

/// Most rules that can be set.
pub const RULES_MAX: usize = 100;
/// The shortest time that finished jobs are kept, in milliseconds.
pub const KEEP_MIN_MS: i64 = 1_000;

/// How long finished jobs are kept: those of a status, a queue, a kind, or any of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RetentionRule {
    /// Jobs that ended so; all when absent.
    pub status: Option<Status>,
    /// Jobs of this queue; all when absent.
    pub queue: Option<Name>,
    /// Jobs of this kind; all when absent.
    pub kind: Option<Name>,
    /// How long after their end they are kept, in milliseconds; for ever when absent.
    pub keep_ms: Option<i64>,
}

impl RetentionRule {
    /// Whether the rule is about this job.
    pub fn covers(&self, job: &Job) -> bool {
        job.status.is_terminal()
            && self.status.is_none_or(|status| status == job.status)
            && self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.kind.as_ref().is_none_or(|kind| *kind == job.kind)
    }

    /// A kind says more than a queue, and a queue more than a status.
    fn rank(&self) -> u8 {
        u8::from(self.kind.is_some()) * 4
            + u8::from(self.queue.is_some()) * 2
            + u8::from(self.status.is_some())
    }

    /// The jobs that this rule lets go at this moment, unless a more specific one covers them; none if it keeps them.
    pub fn filter(&self, now: Timestamp) -> Option<Filter> {
        let keep_ms = self.keep_ms?;
        let terminal = || Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
        Some(Filter {
            statuses: self.status.map_or_else(terminal, |status| vec![status]),
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            finished_before: Some(now.plus_ms(-keep_ms)),
            ..Filter::default()
        })
    }
}

/// The rule that decides about a job: of those that cover it, the one that says most.
pub fn deciding<'a>(rules: &'a [RetentionRule], job: &Job) -> Option<&'a RetentionRule> {
    rules.iter().filter(|rule| rule.covers(job)).max_by_key(|rule| rule.rank())
}

/// Whether a job's time is over: as long ago as its rule says, it ended, and came back from the archive if it did.
pub fn is_over(rules: &[RetentionRule], job: &Job, now: Timestamp) -> bool {
    let keep_ms = deciding(rules, job).and_then(|rule| rule.keep_ms);
    keep_ms.is_some_and(|keep_ms| job.updated_at < now.plus_ms(-keep_ms))
}

/// What is left of a job that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// How it ended.
    pub status: Status,
    /// When it ended; absent where only its unique key is left.
    pub finished_at: Option<Timestamp>,
    /// The part of the archive that holds it; absent if it was not archived.
    pub archive: Option<String>,
}

impl std::fmt::Display for Tombstone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.archive {
            Some(archive) => write!(f, "the job ended as {} and was archived in {archive}", self.status),
            None => {
                write!(f, "the job ended as {} and was removed; its unique key is still taken", self.status)
            }
        }
    }
}

/// Old tombstones to forget, by the leader.
#[derive(Debug, Clone)]
pub struct ForgetTombstones {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// Of jobs that were removed before.
    pub before: Timestamp,
    /// At most so many.
    pub limit: usize,
}

impl ForgetTombstones {
    /// Refuses who does not lead.
    pub fn decide(&self, term: Option<&Term>, now: Timestamp) -> Result<(), Refusal> {
        leads(term, self.epoch, now)
    }
}

/// An archived job to put back as it was.
#[derive(Debug, Clone)]
pub struct Restore {
    /// Its log, whole.
    pub events: Vec<Event>,
    /// Its log lines, but for those that had moved to the archive before.
    pub logs: Vec<LogLine>,
    /// Where those are.
    pub log_parts: Vec<LogPart>,
    /// Who.
    pub actor: Actor,
}

impl Restore {
    /// Which job.
    pub fn job(&self) -> Option<JobId> {
        self.events.first().map(|event| event.job)
    }

    /// The row as it was, and the event that says that it came back.
    pub fn decide(&self, now: Timestamp) -> Result<(Job, Move), Refusal> {
        let first = self.events.first().ok_or(Refusal::NotFound)?;
        for (version, event) in (1..).zip(&self.events) {
            if event.job != first.job || event.version != version {
                let why = format!("event {version} of its log is missing");
                return Err(Refusal::Unreadable(why));
            }
            if let EventKind::Unreadable(stored) = &event.what {
                return Err(Refusal::Unreadable(stored.to_string()));
            }
        }
        let why = || Refusal::Unreadable("its log does not begin with job_created".to_owned());
        let row = Job::fold(&self.events).ok_or_else(why)?;
        if !row.status.is_terminal() {
            return Err(Refusal::NotFinished(row.status));
        }
        let now = now.max(row.updated_at);
        let step = Move::new(&row, now, self.actor.clone(), EventKind::JobRestored).done();
        Ok((row, step))
    }

    /// Where in the log of the job that has this id this very return is on record.
    pub fn made_before(&self, log: &[Event]) -> Result<Version, Refusal> {
        let next = log.get(self.events.len());
        let is_same = log.starts_with(&self.events);
        next.filter(|event| is_same && event.what == EventKind::JobRestored)
            .map(|event| event.version)
            .ok_or(Refusal::JobExists)
    }
}

/// Accepts rules that are within the limits and of which no two are about the same jobs.
pub fn check(rules: &[RetentionRule]) -> Result<(), Invalid> {
    limits::within("retention", rules.len() as i64, 0, RULES_MAX as i64)?;
    for (n, rule) in rules.iter().enumerate() {
        if let Some(keep_ms) = rule.keep_ms {
            within_ms("retention.keep", keep_ms, KEEP_MIN_MS, HORIZON_MS)?;
        }
        if let Some(status) = rule.status.filter(|status| !status.is_terminal()) {
            let why = "must be completed, failed, timed_out or cancelled: only finished jobs are removed";
            return Err(Invalid::new("retention.status", status.as_str(), why));
        }
        let same = |other: &RetentionRule| RetentionRule { keep_ms: rule.keep_ms, ..other.clone() } == *rule;
        if rules[..n].iter().any(same) {
            let why = "must not name the same status, queue and kind in two rules";
            return Err(Invalid::new("retention", format!("rule {}", n + 1), why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Actor, Event, EventKind, Facts, JobId};

    fn name(text: &str) -> Name {
        Name::parse("name", text).unwrap()
    }

    fn job(kind: &str, queue: &str, status: Status) -> Job {
        let created = Event {
            job: JobId::from_bytes([1; 16]),
            version: 1,
            at: Timestamp::from_micros(0),
            actor: Actor::api(),
            attempt: 0,
            generation: 0,
            lease: None,
            key: None,
            what: EventKind::JobCreated(Box::new(Facts::new(name(kind), name(queue)))),
            payload: None,
        };
        Job { status, ..Job::created(&created).unwrap() }
    }

    fn rule(status: Option<Status>, queue: Option<&str>, kind: Option<&str>, keep_ms: i64) -> RetentionRule {
        RetentionRule { status, queue: queue.map(name), kind: kind.map(name), keep_ms: Some(keep_ms) }
    }

    /// T9
    #[test]
    fn the_most_specific_rule_decides() {
        let done = Some(Status::Completed);
        let rules = [
            rule(None, None, None, 1_000),
            rule(done, None, None, 2_000),
            rule(None, Some("mail"), None, 3_000),
            rule(done, Some("mail"), None, 4_000),
            rule(None, None, Some("send"), 5_000),
            rule(None, Some("mail"), Some("send"), 6_000),
            rule(done, Some("mail"), Some("send"), 7_000),
        ];
        let keep = |kind, queue, status| deciding(&rules, &job(kind, queue, status)).and_then(|r| r.keep_ms);
        assert_eq!(keep("x", "default", Status::Failed), Some(1_000));
        assert_eq!(keep("x", "default", Status::Completed), Some(2_000));
        assert_eq!(keep("x", "mail", Status::Failed), Some(3_000));
        assert_eq!(keep("x", "mail", Status::Completed), Some(4_000));
        assert_eq!(keep("send", "default", Status::Completed), Some(5_000), "a kind says more than a status");
        assert_eq!(keep("send", "mail", Status::Failed), Some(6_000));
        assert_eq!(keep("send", "mail", Status::Completed), Some(7_000));
        for status in Status::ALL.into_iter().filter(|status| !status.is_terminal()) {
            assert_eq!(keep("send", "mail", status), None, "never a live one");
        }
        assert_eq!(deciding(&rules[1..2], &job("x", "mail", Status::Failed)), None, "no rule keeps for ever");
        let for_ever = RetentionRule { kind: Some(name("send")), ..RetentionRule::default() };
        let rules = [rules[0].clone(), for_ever.clone()];
        assert_eq!(deciding(&rules, &job("send", "mail", Status::Failed)), Some(&for_ever));
        assert_eq!(for_ever.filter(Timestamp::from_micros(0)), None);
    }

    #[test]
    fn rules_out_of_bounds_are_refused() {
        assert_eq!(check(&[rule(None, None, None, 1_000), rule(None, Some("q"), None, 1_000)]), Ok(()));
        for (bad, field) in [
            (vec![rule(None, None, None, 999)], "retention.keep"),
            (vec![rule(Some(Status::Running), None, None, 1_000)], "retention.status"),
            (vec![rule(None, None, None, 1_000), rule(None, None, None, 2_000)], "retention"),
            (vec![RetentionRule::default(); 101], "retention"),
        ] {
            assert_eq!(check(&bad).map_err(|e| e.field), Err(field.to_owned()), "{bad:?}");
        }
    }
}
