//! Where claims go on from: hints of this process, never a decision.
//!
//! Rows that were moved leave dead entries at the head of the line for as long as some transaction is open; beginning
//! behind them keeps a claim flat. A claim of some kinds reads past other kinds' jobs, a bounded number per call, and
//! goes on where it stopped. So that nothing is hidden, one claim looks at the head of the line a second after the last
//! such look ended, and once the end was reached, the next such look goes through the whole line again. And claims begin
//! a little before their hint: a job whose enqueue commits late has a due time that others' claims have passed.
//!
//! What that costs while some transaction is open for long: a look at the head reads every dead entry, 0.2 s for a million
//! (PostgreSQL 15), in one claim of this process at a time. The others read the dead entries of the last [`LATE`] alone, and
//! none where the line is further behind than that.

use crate::lanes::Lanes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use uuid::Uuid;
use windlass_core::{Name, Timestamp};
use windlass_store::ClaimMany;

/// Priorities there are: so many probes per queue.
const PRIORITIES: usize = 11;
/// How long a claim may begin where the last one ended before it looks at the head of the line again.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How often a process that claims looks for leases that are over.
const RECOVER_EVERY: Duration = Duration::from_millis(500);
/// How late an enqueue may commit and still be seen by the very next claim.
const LATE: Duration = Duration::from_millis(500);
/// A claim of so many takes its turn.
const LARGE: usize = 250;
/// How long it waits for that.
const TURN: Duration = Duration::from_secs(1);
/// The most jobs of one queue and priority that one call looks at for its kinds.
const LOOK_MAX: i64 = 5_000;
/// What a first look for kinds takes in, as long as they turn up; each that falls short takes in four times as many.
const LOOK_MIN: i64 = 64;

/// Behind every job there can be.
const END: Place = (Timestamp::from_micros(i64::MAX / 2), Uuid::max());

/// A place in the line of one queue and priority: due time and id.
pub(super) type Place = (Timestamp, Uuid);
/// Queues and kinds.
type Asked = (Vec<Name>, Vec<Name>);

/// Where the last claims of this process ended, per queues and kinds.
#[derive(Debug, Default)]
pub(crate) struct Positions(
    Mutex<HashMap<Asked, Position>>,
    Mutex<Option<Instant>>,
    /// What is known of queues with rules.
    pub(crate) Lanes,
);

#[derive(Debug, Clone)]
struct Position {
    /// When to look at the head of the line again, unless a claim does so now.
    sweep_at: Instant,
    is_swept: bool,
    from: Vec<Option<Place>>,
    /// Whether the end was reached; else some of the line was not looked at yet.
    complete: bool,
    look: i64,
    /// Large claims of one process take turns until they know what they take: else each would go through all that another
    /// one is about to take, locked row by locked row.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The right of a large claim to look first.
pub(super) type Turn = tokio::sync::OwnedMutexGuard<()>;

/// The way of one claim through the lines.
pub(super) struct Course {
    /// From where to look, per queue and priority; from the beginning where there is nothing.
    from: Vec<Option<Place>>,
    /// How many jobs to look at for the kinds, per queue and priority.
    pub(super) look: i64,
    /// Lines whose end was reached.
    done: Vec<bool>,
    complete: bool,
    /// Where earlier claims stopped, if this one begins at the head of the line, and whether it goes on from there.
    earlier: Vec<Option<Place>>,
    jumps: bool,
    /// If it begins at the head of the line.
    sweep: Option<Sweep>,
    /// Whether it has said already where the next one is to begin.
    pub(super) passed_on: bool,
    /// How many more it may look at.
    left: i64,
}

/// A look at the head of the line. However it ends, the next one begins a second later.
struct Sweep {
    positions: Arc<Positions>,
    key: Asked,
}

impl Drop for Sweep {
    #[expect(clippy::disallowed_methods, reason = "measures how old a hint is, in this process only")]
    fn drop(&mut self) {
        let Ok(mut map) = self.positions.0.lock() else { return };
        if let Some(position) = map.get_mut(&self.key) {
            (position.is_swept, position.sweep_at) = (false, Instant::now() + SWEEP_EVERY);
        }
    }
}

impl Positions {
    /// Whether leases that are over are to be looked for now: at most once per [`RECOVER_EVERY`].
    #[expect(clippy::disallowed_methods, reason = "measures how long ago it was, in this process only")]
    pub(super) fn recovers(&self) -> bool {
        let Ok(mut last) = self.1.lock() else { return true };
        let due = last.is_none_or(|at| at.elapsed() >= RECOVER_EVERY);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    /// Where to begin. With a clock of the caller's own the way is exact: hints are for the real one.
    #[expect(clippy::disallowed_methods, reason = "measures how old a hint is, in this process only")]
    pub(super) fn begin(self: &Arc<Self>, asked: &ClaimMany, exact: bool) -> Course {
        let none = vec![None; asked.queues.len() * PRIORITIES];
        let look = (2 * asked.max as i64).clamp(LOOK_MIN, LOOK_MAX);
        let head = Course {
            done: vec![false; none.len()],
            earlier: none.clone(),
            from: none,
            look,
            complete: true,
            jumps: false,
            sweep: None,
            passed_on: false,
            left: LOOK_MAX,
        };
        if exact {
            return Course { left: i64::MAX, ..head };
        }
        let Ok(mut map) = self.0.lock() else { return head };
        if map.len() > 1_000 {
            map.clear();
        }
        let now = Instant::now();
        let fresh = || Position {
            sweep_at: now,
            is_swept: false,
            from: head.from.clone(),
            complete: true,
            look,
            turn: Arc::default(),
        };
        let position = map.entry(key(asked)).or_insert_with(fresh);
        if position.is_swept || now < position.sweep_at {
            return Course { from: position.from.clone(), look: position.look.max(look), ..head };
        }
        position.is_swept = true;
        let sweep = Sweep { positions: Arc::clone(self), key: key(asked) };
        Course { earlier: position.from.clone(), jumps: !position.complete, sweep: Some(sweep), ..head }
    }

    /// Waits until no other large claim of this process is looking, but not for ever: it is a matter of speed.
    pub(super) async fn turn(&self, asked: &ClaimMany) -> Option<Turn> {
        if asked.max < LARGE {
            return None;
        }
        let turn = Arc::clone(&self.0.lock().ok()?.get(&key(asked))?.turn);
        tokio::time::timeout(TURN, turn.lock_owned()).await.ok()
    }

    /// Where the next claim is to begin, said by one that knows what it takes and has not committed yet.
    pub(super) fn pass_on(&self, asked: &ClaimMany, taken: &HashMap<usize, Place>, now: Timestamp) {
        let Ok(mut map) = self.0.lock() else { return };
        let Some(position) = map.get_mut(&key(asked)) else { return };
        for (probe, place) in taken {
            if let Some(from) = position.from.get_mut(*probe) {
                *from = Some((*place).min(late(now)));
            }
        }
    }

    /// What a claim said that it takes, it did not: the next one looks at the head of the line.
    #[expect(clippy::disallowed_methods, reason = "measures how old a hint is, in this process only")]
    pub(super) fn forget(&self, asked: &ClaimMany) {
        if let Ok(mut map) = self.0.lock()
            && let Some(position) = map.get_mut(&key(asked))
        {
            position.sweep_at = Instant::now();
        }
    }

    /// Where the next claim is to begin. `now` is the server's clock while this one looked, where that is known.
    pub(super) fn end(&self, asked: &ClaimMany, course: &mut Course, now: Option<Timestamp>) {
        if let Ok(mut map) = self.0.lock()
            && let Some(position) = map.get_mut(&key(asked))
        {
            let from = std::mem::take(&mut course.from);
            if !course.passed_on {
                position.from = from;
            }
            // A look for kinds that did not reach the end goes on where it stopped: it would else not get past what came
            // within the last moment.
            if let Some(now) = now.filter(|_| course.complete) {
                position.from.iter_mut().flatten().for_each(|place| *place = (*place).min(late(now)));
            }
            (position.complete, position.look) = (course.complete, course.look);
        }
        drop(course.sweep.take());
    }
}

impl Course {
    /// From where to look, per queue and priority.
    pub(super) fn from(&self) -> impl Iterator<Item = Option<Place>> {
        self.from.iter().zip(&self.done).map(|(from, done)| if *done { Some(END) } else { *from })
    }

    /// Goes on behind a job that was taken.
    pub(super) fn pass(&mut self, probe: usize, place: Place) {
        if let Some(from) = self.from.get_mut(probe) {
            *from = (*from).max(Some(place));
        }
    }

    /// Goes on behind jobs that ended. Lines before theirs were gone through, unless a look for kinds stopped there: what
    /// these ends freed in them waits for the next claim, as it does where one job is looked at after another.
    pub(super) fn pass_ended(&mut self, ended: &[(usize, Place)], stopped: &[(usize, Place)]) {
        for (probe, place) in ended {
            self.pass(*probe, *place);
            for before in 0..*probe {
                self.done[before] |= stopped.iter().all(|(n, _)| *n != before);
            }
        }
    }

    /// All that was wanted was found: the next look may be short again.
    pub(super) fn found(&mut self) {
        self.look = LOOK_MIN;
    }

    /// Not all that was wanted was found. Goes on from where looks for kinds stopped, and says whether to look again:
    /// not if there is nothing more, nor when enough was looked at for one call.
    pub(super) fn go_on(&mut self, stopped: &[(usize, Place)]) -> bool {
        self.left = self.left.saturating_sub(self.look);
        self.look = self.look.saturating_mul(4).min(LOOK_MAX);
        self.complete = stopped.is_empty();
        for probe in 0..self.from.len() {
            let here = stopped.iter().find(|(n, _)| *n == probe).map(|(_, place)| *place);
            let earlier = self.earlier[probe].filter(|_| self.complete || self.jumps);
            self.done[probe] = here.is_none();
            self.from[probe] = self.from[probe].max(here).max(earlier);
        }
        self.earlier.fill(None);
        let more = !self.complete && self.left > 0;
        if more {
            self.look = self.look.min(self.left);
        }
        more
    }
}

/// Behind the end of every line that a claim asks for.
pub(super) fn nowhere(asked: &ClaimMany) -> Vec<Option<Place>> {
    vec![Some(END); asked.queues.len() * PRIORITIES]
}

/// Behind here a job may stand whose enqueue commits late.
fn late(now: Timestamp) -> Place {
    (now.plus_ms(-(LATE.as_millis() as i64)), Uuid::nil())
}

fn key(asked: &ClaimMany) -> Asked {
    (asked.queues.clone(), asked.kinds.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_store::fresh;

    fn asked(max: usize) -> ClaimMany {
        let word = |text: &str| Name::try_from(text).expect("a name");
        let worker = windlass_core::Who::try_from("w").expect("a worker");
        let mut asked = ClaimMany::new(worker, vec![word("default")], max, fresh::secret());
        asked.kinds = vec![word("rare")];
        asked
    }

    fn at(n: i64) -> Place {
        (Timestamp::from_micros(n), Uuid::from_u128(n.unsigned_abs().into()))
    }

    /// As if so much time had passed.
    fn later(positions: &Positions, asked: &ClaimMany, time: Duration) {
        positions.0.lock().expect("unpoisoned").get_mut(&key(asked)).expect("it").sweep_at -= time;
    }

    /// Goes on from where it stopped, call by call, also when every call comes later than a look at the head is due.
    #[test]
    fn a_long_line_is_gone_through_however_rarely_somebody_asks() {
        let (positions, asked) = (Arc::new(Positions::default()), asked(1));
        let (mut reached, mut looks) = (0, 0);
        while reached < 100_000 {
            let mut course = positions.begin(&asked, false);
            loop {
                looks += 1;
                let from = course.from().nth(5).flatten().map_or(0, |p| p.0.as_micros());
                reached = reached.max(from + course.look);
                if !course.go_on(&[(5, at(from + course.look))]) {
                    break;
                }
            }
            positions.end(&asked, &mut course, None);
            later(&positions, &asked, SWEEP_EVERY);
        }
        assert!(looks < 200, "{looks} looks");
    }

    /// Once the end was reached, the next look at the head goes through the whole line again.
    #[test]
    fn a_line_that_was_gone_through_is_begun_again() {
        let (positions, asked) = (Arc::new(Positions::default()), asked(1));
        let mut course = positions.begin(&asked, false);
        assert!(course.go_on(&[(5, at(64))]));
        assert_eq!(
            (course.from().nth(5).flatten(), course.from().nth(4).flatten()),
            (Some(at(64)), Some(END))
        );
        assert!(!course.go_on(&[]));
        positions.end(&asked, &mut course, None);
        assert_eq!(positions.begin(&asked, false).from().nth(5).flatten(), Some(at(64)), "it stays there");
        later(&positions, &asked, SWEEP_EVERY);
        let mut course = positions.begin(&asked, false);
        assert_eq!(course.from().nth(5).flatten(), None, "at the head");
        assert!(course.go_on(&[(5, at(10))]));
        assert_eq!(course.from().nth(5).flatten(), Some(at(10)), "and on from there");
    }

    /// However a look at the head ended, given up or not, the next one begins a second later, and never two at once.
    #[test]
    fn the_head_is_looked_at_every_second() {
        let (positions, asked) = (Arc::new(Positions::default()), asked(1));
        let first = |course: &Course| course.from().nth(5).flatten();
        for is_given_up in [false, true, false] {
            let mut course = positions.begin(&asked, false);
            assert!(course.sweep.is_some(), "at the head");
            course.pass(5, at(7));
            later(&positions, &asked, 3_600 * SWEEP_EVERY);
            assert!(positions.begin(&asked, false).sweep.is_none(), "however long it takes, one at a time");
            if is_given_up {
                drop(course);
            } else {
                positions.end(&asked, &mut course, None);
            }
            let next = positions.begin(&asked, false);
            assert_eq!((first(&next), next.sweep.is_some()), (Some(at(7)), false), "not yet");
            drop(next);
            later(&positions, &asked, SWEEP_EVERY);
        }
    }

    /// A claim begins where a job may stand that was enqueued before others were taken, and committed after.
    #[test]
    fn a_claim_begins_a_little_before_its_hint() {
        let (positions, asked) = (Arc::new(Positions::default()), asked(1));
        let place = |micros: i64| (Timestamp::from_micros(micros), Uuid::nil());
        let now = Timestamp::from_micros(60_000_000);
        for (passed, expected) in [(at(59_999_999), place(59_500_000)), (at(59_000_000), at(59_000_000))] {
            let mut course = positions.begin(&asked, false);
            course.from.fill(None);
            course.pass(5, passed);
            positions.end(&asked, &mut course, Some(now));
            assert_eq!(positions.begin(&asked, false).from().nth(5).flatten(), Some(expected));
        }
    }

    /// A look for kinds that stopped before the end goes on from there, however young the jobs are that it passed.
    #[test]
    fn a_look_that_stopped_half_way_keeps_its_place() {
        let (positions, asked) = (Arc::new(Positions::default()), asked(1));
        let mut course = positions.begin(&asked, false);
        course.go_on(&[(5, at(59_999_999))]);
        positions.end(&asked, &mut course, Some(Timestamp::from_micros(60_000_000)));
        assert_eq!(positions.begin(&asked, false).from().nth(5).flatten(), Some(at(59_999_999)));
    }

    /// A call looks at a bounded number of jobs, and only with a clock of its own at all of them.
    #[test]
    fn a_call_gives_up_after_a_while() {
        let positions = Arc::new(Positions::default());
        let mut looked = 0;
        let mut course = positions.begin(&asked(10), false);
        loop {
            looked += course.look;
            if !course.go_on(&[(0, at(looked))]) {
                break;
            }
        }
        assert_eq!(looked, LOOK_MAX);
        let mut course = positions.begin(&asked(10), true);
        assert!((0..100).all(|n| course.go_on(&[(0, at(n))])));
    }
}
