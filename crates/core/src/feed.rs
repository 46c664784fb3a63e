//! Places in the feed.
//!
//! A cursor names what it rests on: the store and its incarnation, and the last event that its reader was given. A store
//! that was restored from a back-up, or lost commits, is so noticed when the cursor comes back, and the cursor refused.
//! Nothing is skipped in silence.

use crate::event::Event;
use crate::ids::JobId;
use crate::job::{Metadata, Version};
use crate::lease::{hex, unhex};
use crate::limits::Invalid;
use crate::name::Actor;
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::time::Timestamp;
use sha2::{Digest, Sha256};

/// The most characters of a cursor's text: it travels in addresses and headers.
pub const CURSOR_MAX: usize = 2_000;

/// One life of a store: from its creation, or from a restore, to the next restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Life {
    /// Which store. It stays the same when the store is restored.
    pub store: u64,
    /// How often the store has been restored, or has lost commits in a failover. It only grows.
    pub incarnation: u32,
}

impl Life {
    /// The fence of an attempt in this life: higher than every fence of that job before, also than those that a restore
    /// forgot.
    ///
    /// ```
    /// use windlass_core::feed::Life;
    /// assert_eq!(Life { store: 7, incarnation: 0 }.fence(3), 3);
    /// assert!(Life { store: 7, incarnation: 1 }.fence(1) > Life { store: 7, incarnation: 0 }.fence(i32::MAX));
    /// ```
    pub fn fence(&self, attempt: i32) -> i64 {
        (i64::from(self.incarnation) << 32) + i64::from(attempt)
    }

    /// What goes on record when this life is begun by an operator.
    pub fn adopted(&self, actor: Actor) -> WriteAudit {
        WriteAudit::of(actor, "store.adopt", self.incarnation, Metadata::new())
    }
}

/// An event by which a reader's place is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LastRead {
    /// Its number in the feed.
    pub seq: i64,
    /// What tells it from another event with that number.
    pub hash: u64,
}

impl LastRead {
    /// An event with its number.
    pub fn of(seq: i64, event: &Event) -> Self {
        Self::new(seq, event.job, event.version, event.at, event.what.type_name())
    }

    /// The event with this number, by what is needed to recognise it.
    pub fn new(seq: i64, job: JobId, version: Version, at: Timestamp, type_name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(job.as_bytes());
        hash.update(version.to_be_bytes());
        hash.update(at.as_micros().to_be_bytes());
        hash.update(type_name);
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        Self { seq, hash: u64::from_be_bytes(first) }
    }
}

/// A place in the feed: opaque to its reader.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FeedCursor {
    /// The life of the store that it comes from. No other understands the position.
    pub life: Life,
    /// The last event that was read before this place; none at the beginning.
    pub last: Option<LastRead>,
    /// Where, in that store's own terms.
    pub position: Vec<u8>,
}

impl FeedCursor {
    /// The opaque text that users see: letters and digits.
    pub fn to_text(&self) -> String {
        let mut bytes = self.life.store.to_be_bytes().to_vec();
        bytes.extend(self.life.incarnation.to_be_bytes());
        let last = self.last.unwrap_or(LastRead { seq: 0, hash: 0 });
        bytes.extend(last.seq.to_be_bytes());
        bytes.extend(last.hash.to_be_bytes());
        bytes.extend(&self.position);
        format!("f2{}", hex(&bytes))
    }

    /// Parses what [`FeedCursor::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let shown = || text.chars().take(80).collect::<String>();
        let wrong = || Invalid::new("cursor", shown(), "must come from the feed of this store");
        let bytes =
            text.strip_prefix("f2").filter(|t| t.len() < CURSOR_MAX).and_then(unhex).ok_or_else(wrong)?;
        let (store, rest) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (incarnation, rest) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        let (seq, rest) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (hash, position) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
        let life = Life { store: u64::from_be_bytes(*store), incarnation: u32::from_be_bytes(*incarnation) };
        let last = LastRead { seq: i64::from_be_bytes(*seq), hash: u64::from_be_bytes(*hash) };
        Ok(Self { life, last: (last.seq > 0).then_some(last), position: position.to_vec() })
    }

    /// Refuses a cursor of another store, or of another life of this one.
    pub fn check_life(&self, now: Life) -> Result<(), Refusal> {
        if self.life.store != now.store {
            return Err(Refusal::CursorExpired("it comes from another store"));
        }
        if self.life.incarnation != now.incarnation {
            return Err(Refusal::CursorExpired("the store was restored or failed over since"));
        }
        Ok(())
    }

    /// Refuses a cursor whose last event is not the one that the store has under its number. A purge may have removed it:
    /// `purged` is the highest number that one has.
    pub fn check_last(&self, found: Option<LastRead>, purged: i64) -> Result<(), Refusal> {
        let Some(last) = self.last else { return Ok(()) };
        match found {
            Some(found) if found == last => Ok(()),
            None if last.seq <= purged => Ok(()),
            _ => Err(Refusal::CursorExpired("its last event is not in the store, which was restored since")),
        }
    }

    /// A place in a feed that one writer at a time numbers: after a plain number.
    pub fn after_number(life: Life, last: Option<LastRead>, seq: i64) -> Self {
        Self { life, last, position: seq.to_be_bytes().to_vec() }
    }

    /// The plain number of such a place.
    pub fn number(&self) -> Result<i64, Invalid> {
        let number = self.position.as_slice().try_into().ok().map(i64::from_be_bytes);
        number.filter(|n| *n >= 0).ok_or_else(|| self.malformed())
    }

    /// Says that the position is none.
    pub fn malformed(&self) -> Invalid {
        let shown: String = self.to_text().chars().take(80).collect();
        Invalid::new("cursor", shown, "must come from the feed of this store, whole and unchanged")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor() -> FeedCursor {
        let life = Life { store: 7, incarnation: 3 };
        FeedCursor::after_number(life, Some(LastRead { seq: 41, hash: 9 }), 42)
    }

    #[test]
    fn cursors_read_back_and_nonsense_does_not() {
        assert_eq!(FeedCursor::parse(&cursor().to_text()).unwrap(), cursor());
        assert_eq!(cursor().number().unwrap(), 42);
        let first = FeedCursor { last: None, ..cursor() };
        assert_eq!(FeedCursor::parse(&first.to_text()).unwrap(), first);
        let long = format!("f2{}", "00".repeat(CURSOR_MAX));
        for text in ["", "f2", "f1000000", "f2zz", &long] {
            assert!(FeedCursor::parse(text).is_err(), "{text}");
        }
        for position in [vec![], vec![1], vec![255; 8], vec![0; 9]] {
            assert!(FeedCursor { position, ..cursor() }.number().is_err());
        }
    }

    #[test]
    fn a_cursor_is_refused_when_what_it_rests_on_is_gone() {
        let (here, found) = (cursor().life, cursor().last);
        assert_eq!(cursor().check_life(here), Ok(()));
        for other in [Life { store: 8, ..here }, Life { incarnation: 2, ..here }] {
            assert!(matches!(cursor().check_life(other), Err(Refusal::CursorExpired(_))));
        }
        assert_eq!(cursor().check_last(found, 0), Ok(()));
        assert_eq!(cursor().check_last(None, 41), Ok(()), "it was purged");
        for (found, purged) in [(None, 40), (Some(LastRead { seq: 41, hash: 8 }), 41)] {
            assert!(matches!(cursor().check_last(found, purged), Err(Refusal::CursorExpired(_))));
        }
    }
}
