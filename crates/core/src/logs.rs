//! Log lines that leave the store: they move to the archive when they are old, and a reference stays.

use crate::ids::JobId;
use crate::limits::Invalid;
use crate::name::Name;
use crate::refusal::Refusal;
use crate::registry::LogLine;
use crate::term::Term;
use crate::time::Timestamp;
use crate::trigger::leads;

/// Lines of a job that are in the archive and no longer in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// The number of the first of them.
    pub first: i64,
    /// The number of the last of them.
    pub last: i64,
    /// The part of the archive that holds them.
    pub part: String,
}

/// Some lines of a job, without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// Whose.
    pub job: JobId,
    /// The number of the first of them.
    pub first: i64,
    /// The number of the last of them.
    pub last: i64,
}

impl LogRange {
    /// How many lines it names.
    pub const fn lines(&self) -> i64 {
        self.last - self.first + 1
    }

    /// Accepts numbers that lines can have.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.first >= 1 && self.last >= self.first {
            return Ok(());
        }
        let value = format!("{} to {}", self.first, self.last);
        Err(Invalid::new("lines", value, "must be numbers of lines, the first before the last"))
    }

    /// Whether the lines are to be removed: yes if all of them are here, no if this very move was made before. Else they
    /// moved to another part or were erased, and nothing is removed.
    pub fn decide(&self, here: i64, moved: &[LogPart], part: &str) -> Result<bool, Refusal> {
        self.check()?;
        if here == self.lines() {
            return Ok(true);
        }
        let is_this = |one: &LogPart| one.first == self.first && one.last == self.last && one.part == part;
        if moved.iter().any(is_this) { Ok(false) } else { Err(Refusal::NotFound) }
    }
}

/// Lines to remove from the store, for a part of the archive holds them; by the leader.
#[derive(Debug, Clone)]
pub struct MoveLogs {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// The part of the archive.
    pub part: String,
    /// Which lines; no line twice.
    pub ranges: Vec<LogRange>,
}

impl MoveLogs {
    /// Refuses who does not lead.
    pub fn decide(&self, term: Option<&Term>, now: Timestamp) -> Result<(), Refusal> {
        leads(term, self.epoch, now)
    }
}

/// How many of a job's lines, from the first on, go at this moment: through the last one that is old. Clocks may have gone
/// back, so a younger line before it goes along; numbers stay without a gap.
pub fn old_lines(lines: &[LogLine], before: Timestamp) -> usize {
    lines.iter().rposition(|line| line.at < before).map_or(0, |last| last + 1)
}

/// Lines from the store and from the archive as one list: by number, each once.
pub fn merged(mut lines: Vec<LogLine>, limit: usize) -> Vec<LogLine> {
    lines.sort_by_key(|line| line.n);
    lines.dedup_by_key(|line| line.n);
    lines.truncate(limit);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: i64, at: i64) -> LogLine {
        LogLine { n, at: Timestamp::from_micros(at), attempt: 1, line: n.to_string() }
    }

    fn range(first: i64, last: i64) -> LogRange {
        LogRange { job: JobId::from_bytes([1; 16]), first, last }
    }

    #[test]
    fn lines_go_once_and_whole() {
        let moved = [LogPart { first: 1, last: 3, part: "a".to_owned() }];
        assert_eq!(range(4, 6).decide(3, &moved, "b"), Ok(true));
        assert_eq!(range(4, 6).decide(2, &moved, "b"), Err(Refusal::NotFound), "one is gone");
        assert_eq!(range(1, 3).decide(0, &moved, "a"), Ok(false), "a repeat");
        assert_eq!(range(1, 3).decide(0, &moved, "b"), Err(Refusal::NotFound), "they are elsewhere");
        for bad in [range(0, 1), range(2, 1)] {
            assert!(matches!(bad.decide(0, &moved, "a"), Err(Refusal::Invalid(_))));
        }
    }

    #[test]
    fn a_line_behind_a_clock_that_went_back_goes_along() {
        let lines = [line(1, 10), line(2, 90), line(3, 20), line(4, 91)];
        let old = |before| old_lines(&lines, Timestamp::from_micros(before));
        assert_eq!((old(10), old(11), old(21), old(100)), (0, 1, 3, 4));
    }

    #[test]
    fn a_line_that_is_in_both_places_is_shown_once() {
        let lines = vec![line(3, 1), line(4, 1), line(1, 1), line(2, 1), line(3, 1)];
        let numbers = |limit| merged(lines.clone(), limit).iter().map(|line| line.n).collect::<Vec<_>>();
        assert_eq!((numbers(9), numbers(2)), (vec![1, 2, 3, 4], vec![1, 2]));
    }
}
