//! Erasure: what a finished job was given, found and printed goes for good; that it went, by whom and when, stays.
//!
//! Erased are the bytes of all events (payloads, results, errors, checkpoints, step values, signals, notes), the texts and
//! metadata in their details, and all log lines. What the engine itself knows of the job stays: its events, statuses and
//! times, error codes, names, tags and keys. The first event says that the job is erased, so every reader knows.
//!
//! The event of the erasure keeps the hash of every event that it changed, as that event was and as it is left. A seal over
//! the log can so be checked afterwards.

use crate::decide::Move;
use crate::event::{Event, EventKind};
use crate::ids::JobId;
use crate::job::{Job, Metadata, Version};
use crate::lease::unhex;
use crate::logs::LogPart;
use crate::name::Actor;
use crate::operate::expect;
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::seal::EventHash;
use crate::time::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;

/// A finished job whose payload is to be erased.
#[derive(Debug, Clone)]
pub struct Erase {
    /// The job to erase.
    pub job: JobId,
    /// Who erases it.
    pub actor: Actor,
    /// The version it was decided on; any when absent.
    pub expected_version: Option<Version>,
}

/// What an erasure comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Erasure {
    /// The job was erased at this version, and nothing came since.
    Already(Version),
    /// To be written.
    Write {
        /// Events that say less than before, each in the place of the one of its version.
        changed: Vec<Event>,
        /// The event that puts the erasure on record, and the row after it.
        step: Box<Move>,
    },
}

impl Erase {
    /// Decides on the row of a job, its whole log with the hash of each event as it is stored, and whether there are log
    /// lines, here or in the archive.
    pub fn decide(
        &self,
        job: &Job,
        log: &[Event],
        hashes: &[EventHash],
        has_lines: bool,
        now: Timestamp,
    ) -> Result<Erasure, Refusal> {
        if !job.status.is_terminal() {
            return Err(Refusal::NotFinished(job.status));
        }
        let less = log.iter().zip(hashes).map(|(event, hash)| (event, without_values(event), *hash));
        let changed: Vec<(Event, EventHash)> =
            less.filter(|(event, less, _)| less != *event).map(|(_, less, hash)| (less, hash)).collect();
        let last = log.iter().rev().find(|event| event.what == EventKind::JobErased);
        if let Some(last) = last
            && changed.is_empty()
            && !has_lines
        {
            return Ok(Erasure::Already(last.version));
        }
        expect(job, self.expected_version)?;
        let kept = KeptHashes::from_iter(changed.iter().map(|(less, was)| (less.version, *was, less.hash())));
        let kept = Payload::stored(kept.to_text().into_bytes(), true);
        let now = now.max(job.updated_at);
        let step = Move::new(job, now, self.actor.clone(), EventKind::JobErased).payload(Some(kept)).done();
        let changed = changed.into_iter().map(|(event, _)| event).collect();
        Ok(Erasure::Write { changed, step: Box::new(step) })
    }
}

/// What an erasure keeps of the events that it changed: the hash of each as it was, and as it is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptHashes(BTreeMap<Version, (EventHash, EventHash)>);

impl FromIterator<(Version, EventHash, EventHash)> for KeptHashes {
    fn from_iter<I: IntoIterator<Item = (Version, EventHash, EventHash)>>(changed: I) -> Self {
        Self(changed.into_iter().map(|(version, was, left)| (version, (was, left))).collect())
    }
}

impl KeptHashes {
    /// What an event of an erasure keeps; none of any other event, or if it does not read back.
    pub fn read(event: &Event) -> Option<Self> {
        if event.what != EventKind::JobErased {
            return None;
        }
        let kept: BTreeMap<String, BTreeMap<Version, String>> = event.payload.as_ref()?.parse().ok()?;
        let (was, left) = (kept.get("sha256")?, kept.get("left")?);
        let hash = |text: &String| Some(EventHash(unhex(text)?.try_into().ok()?));
        was.iter().map(|(version, was)| Some((*version, hash(was)?, hash(left.get(version)?)?))).collect()
    }

    /// The hash of an event before the erasure and after; none if it did not change.
    pub fn of(&self, version: Version) -> Option<(EventHash, EventHash)> {
        self.0.get(&version).copied()
    }

    fn to_text(&self) -> String {
        let texts = |of: fn(&(EventHash, EventHash)) -> EventHash| -> BTreeMap<Version, String> {
            self.0.iter().map(|(version, hashes)| (*version, of(hashes).to_text())).collect()
        };
        json!({ "sha256": texts(|hashes| hashes.0), "left": texts(|hashes| hashes.1) }).to_string()
    }
}

/// An event without what a caller or a handler said in it.
fn without_values(event: &Event) -> Event {
    let mut event = event.clone();
    if event.what == EventKind::JobErased {
        // Its bytes are hashes.
        return event;
    }
    event.payload = None;
    match &mut event.what {
        EventKind::JobCreated(facts) => {
            facts.metadata = Metadata::new();
            facts.erased = true;
        }
        EventKind::JobProgressed(detail) => {
            detail.stage = None;
            detail.metadata = detail.metadata.take().map(|_| Metadata::new());
        }
        EventKind::JobCancelRequested(detail) => detail.reason = None,
        EventKind::JobCancelled(detail) => detail.reason = None,
        EventKind::JobApprovalAsked(detail) => detail.prompt = String::new(),
        EventKind::JobApprovalVoted(detail) => detail.reason = None,
        EventKind::Unreadable(stored) => stored.detail = None,
        _ => {}
    }
    event
}

/// Whether a log begins with the event of an erased job.
pub fn is_erased(log: &[Event]) -> bool {
    matches!(log.first().map(|event| &event.what), Some(EventKind::JobCreated(facts)) if facts.erased)
}

impl LogPart {
    /// Stands where lines were that are erased. Their numbers are not given again.
    pub const ERASED: &str = "erased";

    /// The reference that is left of lines up to this one.
    pub fn erased(last: i64) -> Self {
        Self { first: 1, last, part: Self::ERASED.to_owned() }
    }

    /// Whether the lines are erased, and in no archive.
    pub fn is_erased(&self) -> bool {
        self.part == Self::ERASED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ApprovalAsked, ApprovalVoted, CancelRequested, Cancelled, Failed, Progressed};
    use crate::ids::ApprovalId;
    use crate::job::Facts;
    use crate::name::{Name, Who};
    use crate::wait::Decision;

    /// Stands in every place where a caller or a handler can write.
    const SECRET: &str = "ann@example.org";

    fn metadata() -> Metadata {
        Metadata::from_iter([("to".to_owned(), SECRET.into())])
    }

    fn event(version: Version, what: EventKind) -> Event {
        Event {
            job: JobId::from_bytes([1; 16]),
            version,
            at: Timestamp::from_micros(version),
            actor: Actor::api(),
            attempt: 0,
            generation: 0,
            lease: None,
            key: None,
            what,
            payload: Some(Payload::stored(format!("\"{SECRET}\"").into_bytes(), true)),
        }
    }

    /// A log in which every event says something.
    fn log() -> Vec<Event> {
        let name = Name::parse("name", "x").unwrap();
        let mut facts = Facts::new(name.clone(), name.clone());
        facts.metadata = metadata();
        let reason = || Some(SECRET.to_owned());
        let (at, approval) = (Timestamp::from_micros(9), ApprovalId::from_bytes([2; 16]));
        let asked = ApprovalAsked {
            approval,
            name: name.clone(),
            prompt: SECRET.to_owned(),
            approvers: Vec::new(),
            required: 1,
            expires_at: at,
            asker: None,
        };
        let decision = Decision::Approve;
        let by = Who::word("key");
        let voted =
            ApprovalVoted { approval, name: name.clone(), decision, by, reason: reason(), woke: false };
        let progressed =
            Progressed { progress: Some(5), stage: reason(), metadata: Some(metadata()), charged: None };
        let what = vec![
            EventKind::JobCreated(Box::new(facts)),
            EventKind::JobClaimed,
            EventKind::JobProgressed(progressed),
            EventKind::JobApprovalAsked(asked),
            EventKind::JobApprovalVoted(voted),
            EventKind::Noted(name),
            EventKind::JobCancelRequested(CancelRequested { reason: reason(), force_at: at }),
            EventKind::JobFailed(Failed { code: Who::word("broken") }),
            EventKind::JobCancelled(Cancelled { reason: reason(), code: None }),
        ];
        (1..).zip(what).map(|(version, what)| event(version, what)).collect()
    }

    fn erased(log: &[Event], has_lines: bool) -> Result<Erasure, Refusal> {
        let wish = Erase { job: log[0].job, actor: Actor::engine(), expected_version: None };
        let hashes: Vec<EventHash> = log.iter().map(Event::hash).collect();
        wish.decide(&Job::fold(log).unwrap(), log, &hashes, has_lines, Timestamp::from_micros(99))
    }

    /// T9: whatever an event can say is gone, the row is the fold of what is left, and each hash is that of the event as it was.
    #[test]
    fn no_event_says_anything_and_the_row_is_their_fold() {
        let mut log = log();
        let before: Vec<EventHash> = log.iter().map(Event::hash).collect();
        let Ok(Erasure::Write { changed, step }) = erased(&log, false) else { panic!("it is written") };
        assert_eq!(changed.len(), log.len(), "every event had said something");
        log = changed;
        log.push(step.event.clone());
        assert_eq!(Job::fold(&log).unwrap(), step.job);
        assert!(!format!("{log:?} {:?}", step.job).contains(SECRET), "{log:?}");
        assert!(is_erased(&log));
        let kept: serde_json::Value = step.event.payload.as_ref().unwrap().parse().unwrap();
        for (n, hash) in before.iter().enumerate() {
            assert_eq!(kept["sha256"][(n + 1).to_string()], hash.to_text());
            assert_eq!(kept["left"][(n + 1).to_string()], log[n].hash().to_text());
        }
        let read = KeptHashes::read(&step.event).unwrap();
        assert_eq!(read.of(3), Some((before[2], log[2].hash())));
        assert_eq!((read.of(99), KeptHashes::read(&log[1])), (None, None));
        assert_eq!(erased(&log, false), Ok(Erasure::Already(step.event.version)), "a repeat");
        assert!(matches!(erased(&log, true), Ok(Erasure::Write { changed, .. }) if changed.is_empty()));
    }

    /// T9: a note that came after the erasure goes with the next one, which keeps the hash of that note alone.
    #[test]
    fn what_came_since_is_erased_too() {
        let mut log = log();
        let Ok(Erasure::Write { changed, step }) = erased(&log, false) else { panic!("it is written") };
        log = changed;
        log.push(step.event);
        let noted = event(log.len() as Version + 1, EventKind::Noted(Name::parse("name", "later").unwrap()));
        log.push(noted.clone());
        let Ok(Erasure::Write { changed, step }) = erased(&log, false) else { panic!("it is written") };
        assert_eq!(changed.iter().map(|event| event.version).collect::<Vec<_>>(), [noted.version]);
        let kept: serde_json::Value = step.event.payload.unwrap().parse().unwrap();
        let (was, left) = (noted.hash().to_text(), changed[0].hash().to_text());
        let version = noted.version.to_string();
        assert_eq!(kept, json!({ "sha256": { &version: was }, "left": { &version: left } }));
    }
}
