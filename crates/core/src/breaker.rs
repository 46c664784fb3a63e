//! The breaker of a queue: when too many attempts fail, nothing more starts for a while, then one job at a time until one
//! succeeds.
//!
//! Whoever leads counts, from the feed, in its memory, and writes down what follows under its epoch. What it wrote holds for
//! every claim, also when another leads. A new leader counts anew.

use crate::event::Event;
use crate::job::Metadata;
use crate::lane::QueueLimits;
use crate::limits::{self, Invalid};
use crate::name::{Actor, Name};
use crate::refusal::Refusal;
use crate::registry::{Queue, WriteAudit};
use crate::span;
use crate::stats::{Tally, tally};
use crate::term::Term;
use crate::time::Timestamp;
use crate::trigger::leads;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Most attempts that a breaker waits for.
const OF_MAX: i64 = 10_000;
/// Shortest span and pause, in milliseconds.
const SPAN_MIN_MS: i64 = 1_000;
/// Longest span in which attempts are counted, in milliseconds (an hour).
const WITHIN_MAX_MS: i64 = 3_600_000;
/// Longest pause, in milliseconds (a day).
const PAUSE_MAX_MS: i64 = 86_400_000;
/// How finely attempts are counted, in microseconds (a quarter of a second).
const SLICE: i64 = 250_000;

/// When a queue breaks: `errors` of `of` attempts that ended within a span failed, or a larger part of more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breaker {
    /// How many of `of` must fail.
    pub errors: i32,
    /// With fewer attempts than that nothing is decided.
    pub of: i32,
    /// In which time, in milliseconds.
    pub within_ms: i64,
    /// For how long nothing starts then, in milliseconds.
    pub pause_ms: i64,
}

impl Breaker {
    /// Accepts what is within the limits.
    pub fn check(self) -> Result<(), Invalid> {
        limits::within("flow.breaker.of", self.of.into(), 1, OF_MAX)?;
        limits::within("flow.breaker.errors", self.errors.into(), 1, self.of.into())?;
        span::within_ms("flow.breaker.within", self.within_ms, SPAN_MIN_MS, WITHIN_MAX_MS)?;
        span::within_ms("flow.breaker.pause", self.pause_ms, SPAN_MIN_MS, PAUSE_MAX_MS).map(|_| ())
    }

    fn is_passed(self, count: Attempts) -> bool {
        let Attempts { ended, failed } = count;
        ended >= i64::from(self.of) && failed * i64::from(self.of) >= i64::from(self.errors) * ended
    }
}

/// In words: `breaks for 30s when 5 of 10 fail within 1m`.
impl fmt::Display for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { errors, of, within_ms, pause_ms } = *self;
        let (within, pause) = (span::to_text(within_ms), span::to_text(pause_ms));
        write!(f, "breaks for {pause} when {errors} of {of} fail within {within}")
    }
}

/// Attempts that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attempts {
    /// How many.
    pub ended: i64,
    /// How many of them failed or took too long.
    pub failed: i64,
}

/// That a queue broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// Since when.
    pub at: Timestamp,
    /// From then on one job at a time is tried.
    pub until: Timestamp,
    /// What was counted.
    pub count: Attempts,
}

impl Broken {
    /// Whether one job at a time is tried.
    pub fn tries(&self, now: Timestamp) -> bool {
        now >= self.until
    }
}

/// In words: `6 of 10 attempts failed`.
impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} attempts failed", self.count.failed, self.count.ended)
    }
}

impl QueueLimits {
    /// Whether it broke and tries nothing yet, not even what was lost.
    pub fn is_shut(&self, now: Timestamp) -> bool {
        self.broken.is_some_and(|broken| !broken.tries(now))
    }

    /// The limits as they hold at a moment: a queue that broke starts nothing, and then one job at a time.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Self {
        let mut limits = self.clone();
        if let Some(broken) = self.broken {
            let most = i32::from(broken.tries(now));
            limits.concurrency = Some(self.concurrency.map_or(most, |n| n.min(most)));
        }
        limits
    }
}

/// What a leader has counted of a queue.
#[derive(Debug, Clone, Default)]
pub struct Window {
    slices: BTreeMap<i64, Attempts>,
    last_success: Option<Timestamp>,
    last_failure: Option<Timestamp>,
    /// Whether the queue was broken when it was last looked at.
    was_broken: bool,
}

/// What follows from what was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Stays,
    /// It breaks, or what was tried failed too.
    Breaks(Attempts),
    /// It is whole again.
    Mends,
}

impl Window {
    /// Counts an event, if it ends an attempt.
    pub fn add(&mut self, event: &Event) {
        let failed = match tally(event) {
            Some(Tally::Completed) => false,
            Some(Tally::Retried | Tally::Failed | Tally::TimedOut) => true,
            _ => return,
        };
        let slice = self.slices.entry(event.at.as_micros().div_euclid(SLICE)).or_default();
        slice.ended += 1;
        slice.failed += i64::from(failed);
        let last = if failed { &mut self.last_failure } else { &mut self.last_success };
        *last = (*last).max(Some(event.at));
    }

    /// What follows at `now`. What is older than the breaker looks is forgotten.
    pub fn judge(&mut self, breaker: Breaker, broken: Option<&Broken>, now: Timestamp) -> Verdict {
        let from = now.plus_ms(-breaker.within_ms).as_micros().div_euclid(SLICE);
        self.slices = self.slices.split_off(&from);
        let sum = |sum: Attempts, one: &Attempts| Attempts {
            ended: sum.ended + one.ended,
            failed: sum.failed + one.failed,
        };
        let count = self.slices.values().fold(Attempts::default(), sum);
        // An operator mended it since the last look: the failures that broke it are forgiven.
        if std::mem::replace(&mut self.was_broken, broken.is_some()) && broken.is_none() {
            self.slices.clear();
            return Verdict::Stays;
        }
        let Some(broken) = broken else {
            return if breaker.is_passed(count) { Verdict::Breaks(count) } else { Verdict::Stays };
        };
        // What ran before it broke says nothing of how it is now.
        let since = |last: Option<Timestamp>| last.is_some_and(|at| at >= broken.until);
        if since(self.last_success) {
            // What failed before is forgiven.
            self.slices.clear();
            self.was_broken = false;
            return Verdict::Mends;
        }
        if since(self.last_failure) { Verdict::Breaks(count) } else { Verdict::Stays }
    }

    /// Notes that the verdict [`Verdict::Breaks`] was written: who mends the queue before the next look is noticed too.
    pub fn broke(&mut self) {
        self.was_broken = true;
    }
}

/// What a leader found about a queue with a breaker.
#[derive(Debug, Clone)]
pub struct BreakQueue {
    /// The leader's term.
    pub term: Name,
    /// The epoch under which it leads.
    pub epoch: i64,
    /// Which queue.
    pub queue: Name,
    /// Attempts that failed, for which it breaks; none if it is whole again.
    pub count: Option<Attempts>,
}

impl BreakQueue {
    /// The queue after it; none if it has no breaker any more, or is whole already. Refuses who does not lead.
    pub fn decide(
        &self,
        term: Option<&Term>,
        before: Option<&Queue>,
        now: Timestamp,
    ) -> Result<Option<(Queue, WriteAudit)>, Refusal> {
        leads(term, self.epoch, now)?;
        let Some(queue) = before else { return Ok(None) };
        let Some((flow, breaker)) = queue.flow.as_ref().and_then(|flow| Some((flow, flow.breaker?))) else {
            return Ok(None);
        };
        let until = now.plus_ms(breaker.pause_ms);
        let at = flow.broken.map_or(now, |broken| broken.at);
        let broken = self.count.map(|count| Broken { at, until, count });
        if flow.broken.is_none() && broken.is_none() {
            return Ok(None);
        }
        let mut detail = Metadata::new();
        if let Some(Broken { until, count, .. }) = broken {
            detail.insert("failed".to_owned(), count.failed.into());
            detail.insert("ended".to_owned(), count.ended.into());
            detail.insert("until".to_owned(), until.to_string().into());
        }
        let action = if broken.is_some() { "queue.break" } else { "queue.mend" };
        let audit = WriteAudit::of(Actor::engine(), action, &self.queue, detail);
        let flow = Some(QueueLimits { broken, ..flow.clone() });
        Ok(Some((Queue { flow, ..queue.clone() }, audit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{self, EventKind};
    use crate::ids::JobId;
    use crate::name::Who;

    const BREAKER: Breaker = Breaker { errors: 2, of: 4, within_ms: 10_000, pause_ms: 5_000 };

    fn time(ms: i64) -> Timestamp {
        Timestamp::from_micros(ms * 1_000)
    }

    fn ended(window: &mut Window, ms: i64, failed: bool) {
        let code = Who::try_from("broken").unwrap();
        let what =
            if failed { EventKind::JobFailed(event::Failed { code }) } else { EventKind::JobCompleted };
        window.add(&Event {
            job: JobId::from_parts(time(0), [0; 8]),
            version: 3,
            at: time(ms),
            actor: Actor::engine(),
            attempt: 1,
            generation: 0,
            lease: None,
            key: None,
            what,
            payload: None,
        });
    }

    #[test]
    fn it_breaks_by_a_part_of_enough_attempts() {
        let mut window = Window::default();
        for (ms, failed) in [(1_000, true), (2_000, true), (3_000, true)] {
            ended(&mut window, ms, failed);
        }
        assert_eq!(window.judge(BREAKER, None, time(3_000)), Verdict::Stays, "too few to tell");
        ended(&mut window, 3_000, false);
        let count = Attempts { ended: 4, failed: 3 };
        assert_eq!(window.judge(BREAKER, None, time(3_500)), Verdict::Breaks(count));
        let mut mostly = Window::default();
        (0..8).for_each(|n| ended(&mut mostly, 1_000, n < 3));
        assert_eq!(mostly.judge(BREAKER, None, time(1_000)), Verdict::Stays, "3 of 8 is less than 2 of 4");
        ended(&mut mostly, 1_000, true);
        assert_eq!(mostly.judge(BREAKER, None, time(1_000)), Verdict::Stays);
        ended(&mut mostly, 1_000, true);
        assert_eq!(
            mostly.judge(BREAKER, None, time(1_000)),
            Verdict::Breaks(Attempts { ended: 10, failed: 5 })
        );
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let mut window = Window::default();
        (0..4).for_each(|_| ended(&mut window, 1_000, true));
        assert_eq!(window.judge(BREAKER, None, time(11_251)), Verdict::Stays);
    }

    #[test]
    fn a_try_mends_or_breaks_again() {
        let broken = Broken { at: time(1_000), until: time(6_000), count: Attempts { ended: 4, failed: 4 } };
        let mut window = Window::default();
        ended(&mut window, 5_999, false);
        assert_eq!(window.judge(BREAKER, Some(&broken), time(7_000)), Verdict::Stays, "it ran before");
        ended(&mut window, 6_500, true);
        assert!(matches!(window.judge(BREAKER, Some(&broken), time(7_000)), Verdict::Breaks(_)));
        ended(&mut window, 6_600, false);
        assert_eq!(window.judge(BREAKER, Some(&broken), time(7_000)), Verdict::Mends);
        assert_eq!(window.judge(BREAKER, None, time(7_001)), Verdict::Stays, "the past is forgiven");
    }

    #[test]
    fn what_an_operator_mended_is_not_broken_again_by_old_failures() {
        let mut window = Window::default();
        (0..4).for_each(|_| ended(&mut window, 1_000, true));
        assert!(matches!(window.judge(BREAKER, None, time(1_500)), Verdict::Breaks(_)));
        assert!(matches!(window.judge(BREAKER, None, time(1_600)), Verdict::Breaks(_)), "it was not written");
        window.broke();
        assert_eq!(window.judge(BREAKER, None, time(2_000)), Verdict::Stays, "mended before the next look");
        assert_eq!(window.judge(BREAKER, None, time(2_500)), Verdict::Stays);
        (0..4).for_each(|_| ended(&mut window, 3_000, true));
        assert!(matches!(window.judge(BREAKER, None, time(3_000)), Verdict::Breaks(_)), "new failures count");
        window.broke();
        let broken = Broken { at: time(3_000), until: time(8_000), count: Attempts::default() };
        assert_eq!(window.judge(BREAKER, Some(&broken), time(3_500)), Verdict::Stays);
        assert_eq!(window.judge(BREAKER, None, time(4_000)), Verdict::Stays, "mended after a look");
    }

    #[test]
    fn a_breaker_is_checked_and_said_in_words() {
        assert_eq!(BREAKER.to_string(), "breaks for 5s when 2 of 4 fail within 10s");
        for (wrong, field) in [
            (Breaker { errors: 0, ..BREAKER }, "flow.breaker.errors"),
            (Breaker { errors: 5, ..BREAKER }, "flow.breaker.errors"),
            (Breaker { of: 10_001, ..BREAKER }, "flow.breaker.of"),
            (Breaker { within_ms: 999, ..BREAKER }, "flow.breaker.within"),
            (Breaker { pause_ms: 86_400_001, ..BREAKER }, "flow.breaker.pause"),
        ] {
            assert_eq!(wrong.check().unwrap_err().field, field);
        }
    }
}
