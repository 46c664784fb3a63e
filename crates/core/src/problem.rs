//! Problems: errors that are one and the same thing, whatever numbers and ids their messages hold.

use crate::event::{Event, EventKind};
use crate::ids::JobId;
use crate::job::Metadata;
use crate::lease::hex;
use crate::limits::Invalid;
use crate::name::{Actor, Name, Who};
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::stats::Resolution;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// The most characters of a problem's message.
const MESSAGE_MAX: usize = 240;
/// Characters of a fingerprint.
const FINGERPRINT_LEN: usize = 16;

/// What tells problems apart: sixteen hex digits of a hash over kind, code and message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == FINGERPRINT_LEN && text.bytes().all(is_hex) {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(Invalid::new("problem", shown, "must be 16 of 0-9 a-f, as the list of problems shows them"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(kind: &Name, code: &str, message: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [kind.as_str(), code, message] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hex(&hash.finalize())[..FINGERPRINT_LEN].to_owned())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message without what differs from one occurrence to the next: numbers, ids and hashes.
///
/// Its first line that says something, each run of digits as `#`, each id or hash (eight or more hex digits, at least one
/// of them a number, with or without hyphens) as `#` too, spaces as one.
pub fn normalise(message: &str) -> String {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut out = String::new();
    let mut word = String::new();
    for c in line.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '-' {
            word.push(c);
            continue;
        }
        push_word(&mut out, &word);
        word.clear();
        let c = if c.is_whitespace() || c.is_control() { ' ' } else { c };
        if c != ' ' || !out.ends_with(' ') {
            out.push(c);
        }
    }
    // "# #" of dates and "#.#" of addresses and decimals are one number each.
    let mut said = out.trim().to_owned();
    for (many, one) in [("#.#", "#"), ("#:#", "#"), ("#,#", "#")] {
        while said.contains(many) {
            said = said.replace(many, one);
        }
    }
    match said.char_indices().nth(MESSAGE_MAX) {
        Some((cut, _)) => said[..cut].to_owned(),
        None => said,
    }
}

fn push_word(out: &mut String, word: &str) {
    let bare: Vec<char> = word.chars().filter(|c| *c != '-').collect();
    let has_digit = bare.iter().any(char::is_ascii_digit);
    let is_hex = bare.len() >= 8 && bare.iter().all(char::is_ascii_hexdigit);
    let is_0x = word.strip_prefix("0x").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit()));
    if has_digit && (is_hex || is_0x || bare.iter().all(char::is_ascii_digit)) {
        out.push('#');
        return;
    }
    let mut digits = false;
    for c in word.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !digits {
            out.push('#');
        }
        digits = c.is_ascii_digit();
    }
}

/// What an operator said of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemState {
    /// It needs somebody.
    Open,
    /// It is over; when it is seen again it is open again.
    Resolved,
    /// It is known and stays as it is.
    Muted,
}

impl ProblemState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Resolved, Self::Muted];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved => "resolved",
            Self::Muted => "muted",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// Errors that are one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What tells it from others.
    pub fingerprint: Fingerprint,
    /// The kind of its jobs.
    pub kind: Name,
    /// The error's code.
    pub code: Who,
    /// The error's message, without numbers and ids.
    pub message: String,
    /// When it was seen first.
    pub first_seen_at: Timestamp,
    /// When it was seen last.
    pub last_seen_at: Timestamp,
    /// The job that it was seen at last.
    pub last_job: JobId,
    /// What an operator said of it.
    pub state: ProblemState,
    /// Since when it is in that state.
    pub state_at: Timestamp,
    /// Who put it into that state; none when it was seen first or again.
    pub state_by: Option<Actor>,
    /// How often it was seen again after it had been resolved.
    pub reopened: i64,
}

/// Errors of one problem within one hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Of which problem.
    pub fingerprint: Fingerprint,
    /// Its kind.
    pub kind: Name,
    /// Its code.
    pub code: Who,
    /// Its message.
    pub message: String,
    /// The hour.
    pub hour: Timestamp,
    /// The first of them.
    pub first_at: Timestamp,
    /// The last of them.
    pub last_at: Timestamp,
    /// The job of the last.
    pub last_job: JobId,
    /// How many.
    pub errors: i64,
    /// After how many of them the job gave up.
    pub dead: i64,
}

impl Sighting {
    /// What an event says of a problem; none if it is no error. Its payload is the error.
    pub fn of(kind: &Name, event: &Event) -> Option<Self> {
        let (code, dead) = match &event.what {
            EventKind::JobFailed(d) => (d.code.clone(), true),
            EventKind::JobRetried(d) => (d.code.clone(), false),
            EventKind::JobTimedOut(d) => (Who::word("timed_out"), d.due_at.is_none()),
            _ => return None,
        };
        let message = normalise(&message_of(event));
        Some(Self {
            fingerprint: Fingerprint::of(kind, code.as_str(), &message),
            kind: kind.clone(),
            code,
            message,
            hour: Resolution::Hour.floor(event.at),
            first_at: event.at,
            last_at: event.at,
            last_job: event.job,
            errors: 1,
            dead: i64::from(dead),
        })
    }

    /// The same, taken back.
    #[must_use]
    pub fn taken_back(mut self) -> Self {
        (self.errors, self.dead) = (-self.errors, -self.dead);
        self
    }

    fn merge(&mut self, other: Self) {
        self.errors += other.errors;
        self.dead += other.dead;
        self.first_at = self.first_at.min(other.first_at);
        if other.last_at >= self.last_at {
            (self.last_at, self.last_job) = (other.last_at, other.last_job);
        }
    }
}

/// The message of an event's error; empty if it has none.
fn message_of(event: &Event) -> String {
    #[derive(Deserialize)]
    struct Error {
        message: String,
    }
    let said = event.payload.as_ref().and_then(|p| serde_json::from_slice::<Error>(p.as_bytes()).ok());
    said.map(|error| error.message).unwrap_or_default()
}

/// Sightings that are being gathered.
#[derive(Debug, Clone, Default)]
pub struct Sightings(BTreeMap<(Fingerprint, Timestamp), Sighting>);

impl Sightings {
    /// Adds one.
    pub fn add(&mut self, sighting: Sighting) {
        let key = (sighting.fingerprint.clone(), sighting.hour);
        match self.0.get_mut(&key) {
            Some(seen) => seen.merge(sighting),
            None => drop(self.0.insert(key, sighting)),
        }
    }

    /// All of them, by problem and hour.
    pub fn into_all(self) -> Vec<Sighting> {
        self.0.into_values().filter(|seen| seen.errors != 0 || seen.dead != 0).collect()
    }
}

impl Problem {
    /// The problem after it was seen, for the first time or again. One that was resolved is open again if it happened
    /// after that.
    pub fn seen(before: Option<Self>, seen: &Sighting) -> Self {
        let Some(mut problem) = before else {
            return Self {
                fingerprint: seen.fingerprint.clone(),
                kind: seen.kind.clone(),
                code: seen.code.clone(),
                message: seen.message.clone(),
                first_seen_at: seen.first_at,
                last_seen_at: seen.last_at,
                last_job: seen.last_job,
                state: ProblemState::Open,
                state_at: seen.first_at,
                state_by: None,
                reopened: 0,
            };
        };
        problem.first_seen_at = problem.first_seen_at.min(seen.first_at);
        if seen.last_at >= problem.last_seen_at {
            (problem.last_seen_at, problem.last_job) = (seen.last_at, seen.last_job);
        }
        if problem.state == ProblemState::Resolved && seen.last_at > problem.state_at {
            (problem.state, problem.state_at, problem.state_by) = (ProblemState::Open, seen.last_at, None);
            problem.reopened += 1;
        }
        problem
    }
}

/// What an operator says of a problem.
#[derive(Debug, Clone)]
pub struct PutProblem {
    /// Which.
    pub fingerprint: Fingerprint,
    /// What it is to be.
    pub state: ProblemState,
    /// Who says so.
    pub actor: Actor,
}

impl PutProblem {
    /// The problem so, and what goes on record; none if it is so.
    pub fn decide(
        &self,
        before: Option<&Problem>,
        now: Timestamp,
    ) -> Result<Option<(Problem, WriteAudit)>, Refusal> {
        let problem = before.ok_or_else(|| Refusal::ProblemNotFound(self.fingerprint.as_str().to_owned()))?;
        if problem.state == self.state {
            return Ok(None);
        }
        let after = Problem {
            state: self.state,
            state_at: now.max(problem.last_seen_at),
            state_by: Some(self.actor.clone()),
            ..problem.clone()
        };
        let detail = Metadata::from_iter([
            ("before".to_owned(), problem.state.as_str().into()),
            ("after".to_owned(), self.state.as_str().into()),
        ]);
        let audit = WriteAudit::of(self.actor.clone(), "problem.put", &self.fingerprint, detail);
        Ok(Some((after, audit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Failed;
    use crate::payload::Payload;

    fn failure(ms: i64, message: &str) -> Event {
        let error = serde_json::json!({ "code": "smtp", "message": message }).to_string();
        Event {
            job: JobId::from_bytes([7; 16]),
            version: 3,
            at: Timestamp::from_micros(ms * 1_000),
            actor: Actor::api(),
            attempt: 1,
            generation: 0,
            lease: None,
            key: None,
            what: EventKind::JobFailed(Failed { code: Who::word("smtp") }),
            payload: Some(Payload::stored(error.into_bytes(), true)),
        }
    }

    fn seen(ms: i64, message: &str) -> Sighting {
        Sighting::of(&Name::word("mail"), &failure(ms, message)).expect("an error")
    }

    #[test]
    fn numbers_and_ids_are_taken_out_of_messages() {
        for (message, said) in [
            ("order 4711 not found", "order # not found"),
            ("order 99 not found", "order # not found"),
            ("user 01900000-0000-7000-8000-000000000010 is gone", "user # is gone"),
            ("commit deadbeef01 at 0x7ffe", "commit # at #"),
            ("timeout after 1.5s at 10.0.0.1:5432", "timeout after #s at #"),
            ("  two   words\nand a trace", "two words"),
            ("the facade was added", "the facade was added"),
            ("http2 v10", "http# v#"),
            ("since 2026-01-31T12:00:00Z", "since #-#-#T#Z"),
            ("", ""),
        ] {
            assert_eq!(normalise(message), said, "{message}");
        }
        assert!(normalise(&"é".repeat(10_000)).chars().count() <= MESSAGE_MAX);
    }

    #[test]
    fn one_problem_whatever_the_number_and_another_for_another_kind_or_code() {
        let (a, b) = (seen(1, "order 1 failed"), seen(2, "order 22 failed"));
        assert_eq!(a.fingerprint, b.fingerprint);
        assert_ne!(a.fingerprint, seen(1, "order lost").fingerprint);
        assert_ne!(
            a.fingerprint,
            Sighting::of(&Name::word("sms"), &failure(1, "order 1 failed")).unwrap().fingerprint
        );
        assert_eq!(Fingerprint::parse(a.fingerprint.as_str()).unwrap(), a.fingerprint);
        assert!(Fingerprint::parse("12").is_err() && Fingerprint::parse("ABCDEF0123456789").is_err());
        let mut all = Sightings::default();
        for one in [a.clone(), b, seen(3_600_000, "order 3 failed"), seen(5, "x"), seen(5, "x").taken_back()]
        {
            all.add(one);
        }
        let all = all.into_all();
        assert_eq!(all.iter().map(|s| (s.errors, s.dead)).collect::<Vec<_>>(), [(2, 2), (1, 1)]);
        assert_eq!(all[0].last_at, Timestamp::from_micros(2_000));
    }

    #[test]
    fn a_resolved_problem_is_open_again_when_it_is_seen_later_and_a_muted_one_stays() {
        let open = Problem::seen(None, &seen(10, "broken"));
        assert_eq!((open.state, open.state_by.clone()), (ProblemState::Open, None));
        let put = |state| PutProblem { fingerprint: open.fingerprint.clone(), state, actor: Actor::api() };
        let now = Timestamp::from_micros(20_000);
        let (resolved, _) = put(ProblemState::Resolved).decide(Some(&open), now).unwrap().unwrap();
        assert_eq!(put(ProblemState::Resolved).decide(Some(&resolved), now), Ok(None), "a repeat");
        assert!(matches!(put(ProblemState::Muted).decide(None, now), Err(Refusal::ProblemNotFound(_))));
        let late = Problem::seen(Some(resolved.clone()), &seen(15, "broken"));
        assert_eq!((late.state, late.reopened), (ProblemState::Resolved, 0), "it happened before");
        let again = Problem::seen(Some(resolved), &seen(30, "broken"));
        assert_eq!((again.state, again.reopened), (ProblemState::Open, 1));
        let (muted, _) = put(ProblemState::Muted).decide(Some(&again), now).unwrap().unwrap();
        assert_eq!(Problem::seen(Some(muted), &seen(99, "broken")).state, ProblemState::Muted);
    }
}
