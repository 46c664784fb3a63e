//! Seals: hashes over the log, each chained to the one before, so that a change of history behind the engine's back shows.
//!
//! The leader reads the feed and writes a seal for every page: of each event whose it is, its version and the beginning of
//! its hash, and over all of them and the seal before a hash of its own. The payload of an event stands in its hash by its
//! own hash. What an erasure changed is known from the event of the erasure, which keeps the hashes of before and after;
//! what retention removed is on record beside the seals.

use crate::event::Event;
use crate::feed::Life;
use crate::follow::Advance;
use crate::ids::JobId;
use crate::job::Version;
use crate::lease::hex;
use crate::time::Timestamp;
use sha2::{Digest, Sha256};

mod judge;

pub use judge::{Differing, Removal, Wrong};

/// The reader whose findings are the seals.
pub const SEALS: &str = "seals";
/// The most events of one seal.
pub const SEALED_MAX: usize = 1_000;
/// So many bytes of an event's hash stand in a seal. To find another event with the same ones takes 2^128 attempts.
const MARK: usize = 16;

/// SHA-256 over the canonical bytes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventHash(pub [u8; 32]);

impl EventHash {
    /// What of it stands in a seal.
    pub fn mark(&self) -> [u8; MARK] {
        let mut mark = [0; MARK];
        mark.copy_from_slice(&self.0[..MARK]);
        mark
    }

    /// As hexadecimal digits.
    pub fn to_text(&self) -> String {
        hex(&self.0)
    }
}

/// An event as a store keeps it, byte for byte: also what the engine would pass over when it reads it.
#[derive(Debug, Clone, Copy)]
pub struct StoredEvent<'a> {
    /// Whose log.
    pub job: JobId,
    /// Its place in that log.
    pub version: Version,
    /// When.
    pub at: Timestamp,
    /// The attempt it belongs to.
    pub attempt: i32,
    /// The generation it belongs to.
    pub generation: i32,
    /// Its type.
    pub type_name: &'a str,
    /// Who.
    pub actor: &'a str,
    /// The hash of the lease.
    pub lease: Option<&'a [u8]>,
    /// The caller's key.
    pub key: Option<&'a str>,
    /// Its detail, as JSON text.
    pub detail: Option<&'a str>,
    /// The SHA-256 of its payload, and whether that is JSON.
    pub payload: Option<([u8; 32], bool)>,
}

impl StoredEvent<'_> {
    /// Bytes that are the same for the same event on every store. The payload stands for itself by its own hash.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"windlass event 1");
        out.extend_from_slice(self.job.as_bytes());
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&self.at.as_micros().to_be_bytes());
        out.extend_from_slice(&self.attempt.to_be_bytes());
        out.extend_from_slice(&self.generation.to_be_bytes());
        let mut part = |bytes: Option<&[u8]>| match bytes {
            None => out.push(0),
            Some(bytes) => {
                out.push(1);
                out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
                out.extend_from_slice(bytes);
            }
        };
        part(Some(self.type_name.as_bytes()));
        part(Some(self.actor.as_bytes()));
        part(self.lease);
        part(self.key.map(str::as_bytes));
        part(self.detail.map(str::as_bytes));
        part(self.payload.as_ref().map(|(hash, _)| hash.as_slice()));
        part(self.payload.map(|(_, is_json)| if is_json { b"json".as_slice() } else { b"bytes".as_slice() }));
        out
    }

    /// The hash of those bytes.
    pub fn hash(&self) -> EventHash {
        EventHash(Sha256::digest(self.canonical_bytes()).into())
    }
}

impl Event {
    /// Bytes that are the same for the same event on every store: what seals hash. The payload stands for
    /// itself by its own hash, so that erasing it later breaks no seal.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        self.with_stored(|stored| stored.canonical_bytes())
    }

    /// The hash of this event, written as the engine writes it.
    pub fn hash(&self) -> EventHash {
        self.with_stored(|stored| stored.hash())
    }

    fn with_stored<T>(&self, read: impl FnOnce(&StoredEvent<'_>) -> T) -> T {
        let detail = self.what.detail();
        read(&StoredEvent {
            job: self.job,
            version: self.version,
            at: self.at,
            attempt: self.attempt,
            generation: self.generation,
            type_name: self.what.type_name(),
            actor: self.actor.as_str(),
            lease: self.lease.as_ref().map(|lease| lease.0.as_slice()),
            key: self.key.as_ref().map(|key| key.as_str()),
            detail: detail.as_deref(),
            payload: self.payload.as_ref().map(|payload| (payload.sha256(), payload.is_json())),
        })
    }
}

/// An event in a seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealedEvent {
    /// Whose log.
    pub job: JobId,
    /// Its place in that log.
    pub version: Version,
    /// The first half of its hash.
    pub mark: [u8; MARK],
}

impl SealedEvent {
    /// An event with this hash.
    pub fn of(job: JobId, version: Version, hash: &EventHash) -> Self {
        Self { job, version, mark: hash.mark() }
    }
}

/// What recognises a seal, and with it all before: small enough to be kept elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealHead {
    /// Its number in the chain: 1, 2, 3 … without a gap.
    pub number: i64,
    /// Its hash.
    pub hash: [u8; 32],
}

/// A seal over a page of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSeal {
    /// Its number in the chain: 1, 2, 3 … without a gap.
    pub number: i64,
    /// When it was made.
    pub at: Timestamp,
    /// In which life of which store.
    pub life: Life,
    /// What was sealed, packed: see [`LogSeal::events`].
    pub body: Vec<u8>,
    /// Over all of this and the hash of the seal before.
    pub hash: [u8; 32],
}

impl LogSeal {
    /// The seal that follows the last one.
    pub fn next(last: Option<&SealHead>, life: Life, at: Timestamp, events: &[SealedEvent]) -> Self {
        let number = last.map_or(0, |last| last.number) + 1;
        let mut seal = Self { number, at, life, body: pack(events), hash: [0; 32] };
        seal.hash = seal.hash_behind(last);
        seal
    }

    /// What recognises it.
    pub fn head(&self) -> SealHead {
        SealHead { number: self.number, hash: self.hash }
    }

    /// Whether it follows this one, and is as it was made.
    pub fn follows(&self, last: Option<&SealHead>) -> bool {
        self.number == last.map_or(0, |last| last.number) + 1 && self.hash == self.hash_behind(last)
    }

    fn hash_behind(&self, last: Option<&SealHead>) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"windlass seal 1");
        hash.update(last.map_or([0; 32], |last| last.hash));
        hash.update(self.number.to_be_bytes());
        hash.update(self.at.as_micros().to_be_bytes());
        hash.update(self.life.store.to_be_bytes());
        hash.update(self.life.incarnation.to_be_bytes());
        hash.update(Sha256::digest(&self.body));
        hash.finalize().into()
    }

    /// What was sealed, by job and version; none if the bytes are no body of a seal.
    pub fn events(&self) -> Option<Vec<SealedEvent>> {
        let (mut events, mut rest) = (Vec::new(), self.body.as_slice());
        while !rest.is_empty() {
            let (job, after) = rest.split_first_chunk::<16>()?;
            rest = after;
            let (first, count) = (number(&mut rest)?, number(&mut rest)?);
            for n in 0..count {
                let (mark, after) = rest.split_first_chunk::<MARK>()?;
                rest = after;
                let version = Version::try_from(first.checked_add(n)?).ok()?;
                events.push(SealedEvent { job: JobId::from_bytes(*job), version, mark: *mark });
            }
        }
        Some(events)
    }
}

/// Versions of a job that follow each other stand together: the job, the first version, how many, and their marks.
fn pack(events: &[SealedEvent]) -> Vec<u8> {
    let mut events = events.to_vec();
    events.sort();
    let mut body = Vec::with_capacity(events.len() * (MARK + 8));
    for run in events.chunk_by(|a, b| a.job == b.job && b.version == a.version + 1) {
        body.extend_from_slice(run[0].job.as_bytes());
        put_number(&mut body, run[0].version.unsigned_abs());
        put_number(&mut body, run.len() as u64);
        run.iter().for_each(|event| body.extend_from_slice(&event.mark));
    }
    body
}

/// Seven bits per byte, the lowest first; the highest bit says that more follows.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

impl Advance {
    /// The seal that is written with this move; none if it brings nothing to seal.
    pub fn seal(&self, last: Option<&SealHead>, now: Timestamp) -> Option<LogSeal> {
        let sealed = &self.findings.sealed;
        (!sealed.is_empty()).then(|| LogSeal::next(last, self.to.life, now, sealed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::job::Facts;
    use crate::name::{Actor, Key, Name};
    use crate::payload::Payload;

    const LIFE: Life = Life { store: 7, incarnation: 1 };

    fn job(n: u8) -> JobId {
        JobId::from_bytes([n; 16])
    }

    fn at(n: i64) -> Timestamp {
        Timestamp::from_micros(n)
    }

    fn sealed(n: u8, version: Version) -> SealedEvent {
        SealedEvent { job: job(n), version, mark: [n ^ version as u8; MARK] }
    }

    fn chain() -> Vec<LogSeal> {
        let pages =
            [vec![sealed(1, 1), sealed(2, 1)], vec![sealed(1, 2)], vec![sealed(2, 2), sealed(2, 300)]];
        let mut chain: Vec<LogSeal> = Vec::new();
        for (n, page) in (1..).zip(pages) {
            let last = chain.last().map(LogSeal::head);
            chain.push(LogSeal::next(last.as_ref(), LIFE, at(n), &page));
        }
        chain
    }

    fn holds(chain: &[LogSeal]) -> bool {
        let mut last = None;
        chain.iter().all(|seal| {
            let follows = seal.follows(last.as_ref());
            last = Some(seal.head());
            follows
        })
    }

    #[test]
    fn a_seal_reads_back_whatever_the_order_and_the_gaps() {
        let mut events: Vec<SealedEvent> =
            (0..200).map(|n| sealed((n % 7) as u8, i64::from(n) * 3 / 2)).collect();
        let seal = LogSeal::next(None, LIFE, at(1), &events);
        events.reverse();
        assert_eq!(LogSeal::next(None, LIFE, at(1), &events), seal, "the order of the page is not sealed");
        events.sort();
        assert_eq!(seal.events().unwrap(), events);
        for end in [1, 16, 17, 30, seal.body.len() - 1] {
            let cut = LogSeal { body: seal.body[..end].to_vec(), ..seal.clone() };
            assert_ne!(cut.events(), seal.events(), "cut at {end}");
        }
        let three = LogSeal::next(None, LIFE, at(1), &[sealed(1, 1), sealed(1, 2), sealed(1, 3)]);
        assert_eq!(three.body.len(), 16 + 2 + 3 * MARK, "what a job of three events costs");
        let endless = LogSeal { body: [vec![1; 16], vec![0xff; 20]].concat(), ..seal };
        assert_eq!(endless.events(), None);
    }

    #[test]
    fn any_change_of_any_seal_breaks_the_chain() {
        let whole = chain();
        assert!(holds(&whole));
        for n in 0..whole.len() {
            let mut changes: Vec<Vec<LogSeal>> = Vec::new();
            let mut change = |edit: &dyn Fn(&mut LogSeal)| {
                let mut chain = whole.clone();
                edit(&mut chain[n]);
                changes.push(chain);
            };
            change(&|seal| seal.body[0] ^= 1);
            change(&|seal| seal.body.truncate(seal.body.len() - MARK));
            change(&|seal| seal.at = at(99));
            change(&|seal| seal.number += 1);
            change(&|seal| seal.life.store += 1);
            change(&|seal| seal.life.incarnation += 1);
            change(&|seal| seal.hash[31] ^= 1);
            let mut shorter = whole.clone();
            shorter.remove(n);
            if n + 1 < whole.len() {
                changes.push(shorter);
            }
            for chain in changes {
                assert!(!holds(&chain), "seal {}", n + 1);
            }
        }
    }

    fn event() -> Event {
        let name = || Name::parse("name", "x").unwrap();
        Event {
            job: job(1),
            version: 1,
            at: at(5),
            actor: Actor::api(),
            attempt: 0,
            generation: 0,
            lease: None,
            key: Some(Key::parse("key", "k").unwrap()),
            what: EventKind::JobCreated(Box::new(Facts::new(name(), name()))),
            payload: Some(Payload::stored(b"[1]".to_vec(), true)),
        }
    }

    /// Seals of today are to be checked by every later version: these hashes never change. They were made by another program
    /// from the description in the documents.
    #[test]
    fn the_bytes_that_are_hashed_stay_as_they_are() {
        let stored = StoredEvent {
            job: job(1),
            version: 1,
            at: at(5),
            attempt: 2,
            generation: 3,
            type_name: "job_created",
            actor: "api",
            lease: Some(&[9; 16]),
            key: Some("k"),
            detail: Some(r#"{"kind":"x"}"#),
            payload: Some((Sha256::digest(b"[1]").into(), true)),
        };
        let hash = stored.hash();
        assert_eq!(hash.to_text(), "8d40eecfa16225c1feaabf0fad63ad27b9bb60379a2e8e3840ed73d636bbea40");
        let seal = LogSeal::next(None, LIFE, at(5), &[SealedEvent::of(job(1), 1, &hash)]);
        assert_eq!(hex(&seal.hash), "7c342d09dbc1a6adcfbc070c42be8d9641a945d7fa95b977e2406403d3af74a5");
    }

    #[test]
    fn every_part_of_an_event_is_in_its_hash() {
        let (event, detail) = (event(), event().what.detail());
        let stored = StoredEvent {
            job: event.job,
            version: 1,
            at: event.at,
            attempt: 0,
            generation: 0,
            type_name: "job_created",
            actor: "api",
            lease: None,
            key: Some("k"),
            detail: detail.as_deref(),
            payload: Some((event.payload.as_ref().unwrap().sha256(), true)),
        };
        assert_eq!(stored.hash(), event.hash());
        let spaced = detail.as_ref().unwrap().replace(':', ": ");
        let others = [
            StoredEvent { job: job(2), ..stored },
            StoredEvent { version: 2, ..stored },
            StoredEvent { at: at(6), ..stored },
            StoredEvent { attempt: 1, ..stored },
            StoredEvent { generation: 1, ..stored },
            StoredEvent { type_name: "job_creatd", ..stored },
            StoredEvent { actor: "cli", ..stored },
            StoredEvent { lease: Some(&[0; 16]), ..stored },
            StoredEvent { key: None, ..stored },
            StoredEvent { detail: None, ..stored },
            StoredEvent { detail: Some(&spaced), ..stored },
            StoredEvent { payload: None, ..stored },
            StoredEvent { payload: Some(([0; 32], true)), ..stored },
            StoredEvent { payload: stored.payload.map(|(hash, _)| (hash, false)), ..stored },
        ];
        for other in others {
            assert_ne!(other.hash(), stored.hash(), "{other:?}");
        }
    }
}
