//! Readers of the feed that keep their place in the store, so that any process can go on where another stopped.
//!
//! A store reads the leader's term and the place under its locks, and writes the place that comes back together with what
//! the reader found: both or neither. So what a reader writes is written once, whoever reads.

use crate::feed::FeedCursor;
use crate::job::Metadata;
use crate::name::{Actor, Name};
use crate::problem::Sighting;
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::seal::SealedEvent;
use crate::stats::{Gauge, Resolution, Rollup};
use crate::term::Term;
use crate::time::Timestamp;

/// The reader whose findings are the stats and the problems.
pub const STATS: &str = "stats";

/// How far a reader has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub reader: Name,
    /// Behind the last event that it has dealt with; none at the beginning of the feed.
    pub cursor: Option<FeedCursor>,
    /// Under which epoch it was moved last; 0 when an operator moved it.
    pub epoch: i64,
    /// When it was moved last.
    pub moved_at: Timestamp,
    /// Events that happened before are passed over, for they are dealt with; none if every event counts.
    pub since: Option<Timestamp>,
}

/// What a reader found in the events that it moves past.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// What is added to the rollups, one item per key.
    pub rollups: Vec<Rollup>,
    /// How queues stood; the largest of a slot is kept.
    pub gauges: Vec<Gauge>,
    /// Errors that were seen, one item per problem and hour.
    pub sightings: Vec<Sighting>,
    /// Events to seal: one seal for all of them, chained to the last one.
    pub sealed: Vec<SealedEvent>,
    /// Whether what is older than it is kept is removed too.
    pub forget: bool,
}

impl Findings {
    /// Whether writing them twice is as good as once.
    fn can_repeat(&self) -> bool {
        self.rollups.is_empty() && self.sightings.is_empty() && self.sealed.is_empty()
    }
}

/// A reader's move, with what it found.
#[derive(Debug, Clone)]
pub struct Advance {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// Which reader.
    pub reader: Name,
    /// Where it stood.
    pub from: Option<FeedCursor>,
    /// Where it stands now. The same place again only takes findings that may be written twice.
    pub to: FeedCursor,
    /// What it found on the way.
    pub findings: Findings,
}

impl Advance {
    /// The place after this move; none if this very move was made before, and its findings are written.
    pub fn decide(
        &self,
        term: Option<&Term>,
        before: Option<&Place>,
        now: Timestamp,
    ) -> Result<Option<Place>, Refusal> {
        if !term.is_some_and(|term| term.allows(self.epoch, now)) {
            return Err(Refusal::StaleEpoch(term.map_or(0, |term| term.epoch)));
        }
        let stands = before.and_then(|place| place.cursor.as_ref());
        if stands == Some(&self.to) && !(self.from.as_ref() == stands && self.findings.can_repeat()) {
            return Ok(None);
        }
        if stands != self.from.as_ref() {
            return Err(Refusal::CursorExpired("the reader's place was moved since; read the place again"));
        }
        Ok(Some(Place {
            reader: self.reader.clone(),
            cursor: Some(self.to.clone()),
            epoch: self.epoch,
            moved_at: now,
            since: before.and_then(|place| place.since),
        }))
    }
}

/// Stats and the counts of problems, to be made again from the log.
#[derive(Debug, Clone)]
pub struct RebuildStats {
    /// From this hour on; all of them when absent. Jobs that were removed are not counted again.
    pub since: Option<Timestamp>,
    /// Who says so.
    pub actor: Actor,
}

impl RebuildStats {
    /// The place from which everything is read again, and what goes on record. What is counted from [`Place::since`] on
    /// is to be removed in the same transaction.
    pub fn decide(&self, now: Timestamp) -> (Place, WriteAudit) {
        let since = self.since.map(|at| Resolution::Hour.floor(at));
        let place = Place { reader: Name::word(STATS), cursor: None, epoch: 0, moved_at: now, since };
        let since = since.map_or(serde_json::Value::Null, |at| at.to_string().into());
        let detail = Metadata::from_iter([("since".to_owned(), since)]);
        (place, WriteAudit::of(self.actor.clone(), "stats.rebuild", STATS, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::Life;
    use crate::name::Who;

    const NOW: Timestamp = Timestamp::from_micros(10_000_000);

    fn cursor(n: i64) -> FeedCursor {
        FeedCursor::after_number(Life { store: 1, incarnation: 0 }, None, n)
    }

    fn moved(from: Option<i64>, to: i64) -> Advance {
        let from = from.map(cursor);
        Advance {
            term: Name::word("leader"),
            epoch: 3,
            reader: Name::word(STATS),
            from,
            to: cursor(to),
            findings: Findings::default(),
        }
    }

    fn counts(mut advance: Advance) -> Advance {
        let key =
            crate::stats::RollupKey::of(Resolution::Minute, NOW, "q", "k", crate::stats::Tally::Started);
        advance.findings.rollups.push(Rollup { key, count: 1, times: Default::default() });
        advance
    }

    #[test]
    fn a_place_moves_once_and_only_under_the_epoch() {
        let term =
            Term { name: Name::word("leader"), holder: Who::word("a"), epoch: 3, expires_at: NOW.plus_ms(1) };
        let first = counts(moved(None, 5)).decide(Some(&term), None, NOW).unwrap().unwrap();
        assert_eq!((first.cursor.clone(), first.epoch), (Some(cursor(5)), 3));
        let at = Some(&first);
        assert_eq!(counts(moved(None, 5)).decide(Some(&term), at, NOW), Ok(None), "a repeat");
        assert!(matches!(moved(None, 6).decide(Some(&term), at, NOW), Err(Refusal::CursorExpired(_))));
        assert_eq!(
            counts(moved(Some(5), 5)).decide(Some(&term), at, NOW),
            Ok(None),
            "nothing is counted twice"
        );
        assert!(moved(Some(5), 5).decide(Some(&term), at, NOW).unwrap().is_some(), "gauges may come again");
        assert!(moved(Some(5), 9).decide(Some(&term), at, NOW).unwrap().is_some());
        assert_eq!(moved(Some(5), 9).decide(None, at, NOW), Err(Refusal::StaleEpoch(0)));
        let over = Term { expires_at: NOW, ..term.clone() };
        assert_eq!(moved(Some(5), 9).decide(Some(&over), at, NOW), Err(Refusal::StaleEpoch(3)));
        let next = Term { epoch: 4, ..term };
        assert_eq!(moved(Some(5), 9).decide(Some(&next), at, NOW), Err(Refusal::StaleEpoch(4)));
    }
}
