//! The clock of a store whose database has none.

use crate::fresh::wall_clock;
use std::cell::Cell;
use std::time::{Duration, Instant};
use windlass_core::Timestamp;

/// The wall's time that never goes back and never stands still.
///
/// A log must not go back, so no moment lies before the last one written. If the wall's clock is behind that, because it
/// was wrong then or is wrong now, this one goes on from there at nine tenths of real speed: leases and delays take at
/// most a ninth longer, instead of as long as the wall needs to catch up, and the two meet again some time.
#[derive(Debug, Default)]
pub struct Clock {
    /// The last moment given, and when that was.
    given: Cell<Option<(Timestamp, Instant)>>,
}

impl Clock {
    /// The moment of a verb that was given none; not before `last_written`.
    #[expect(clippy::disallowed_methods, reason = "measures how much time passed, whatever the wall says")]
    pub fn now(&self, last_written: Timestamp) -> Timestamp {
        self.at(wall_clock(), Instant::now(), last_written)
    }

    fn at(&self, wall: Timestamp, instant: Instant, last_written: Timestamp) -> Timestamp {
        let gone_on = self.given.get().map(|(given, since)| {
            let passed: Duration = instant.saturating_duration_since(since) * 9 / 10;
            let passed = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_micros(given.as_micros().saturating_add(passed))
        });
        let now = wall.max(last_written).max(gone_on.unwrap_or(wall));
        self.given.set(Some((now, instant)));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_S: i64 = 3_600;

    fn second(s: i64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    /// Reads a clock each second of real time, with the wall showing what `wall` says; answers what it gave, in seconds.
    #[expect(clippy::disallowed_methods, reason = "a beginning; nothing is waited for")]
    fn read(clock: &Clock, seconds: u64, mut written: i64, wall: impl Fn(i64) -> i64) -> Vec<i64> {
        let begin = Instant::now();
        let mut given = Vec::new();
        for s in 0..=seconds {
            let now = clock.at(second(wall(s as i64)), begin + Duration::from_secs(s), second(written));
            written = now.as_micros() / 1_000_000;
            given.push(written);
        }
        given
    }

    #[test]
    fn it_is_the_wall_while_the_wall_goes_on() {
        assert_eq!(read(&Clock::default(), 5, 0, |s| 100 + s), [100, 101, 102, 103, 104, 105]);
        let jumps = |s| if s < 3 { 100 + s } else { 100 + s + HOUR_S };
        assert_eq!(read(&Clock::default(), 4, 0, jumps), [100, 101, 102, 103 + HOUR_S, 104 + HOUR_S]);
    }

    #[test]
    fn it_goes_on_while_the_wall_is_behind() {
        let back = |s| if s < 10 { HOUR_S + s } else { s };
        let given = read(&Clock::default(), 110, 0, back);
        assert_eq!(given[9], HOUR_S + 9);
        assert!(given.is_sorted(), "never back: {given:?}");
        let passed = given[110] - given[10];
        assert!((80..=100).contains(&passed), "{passed} of 100 seconds passed");
    }

    #[test]
    fn one_moment_written_ahead_does_not_stop_it_and_the_wall_catches_up() {
        let given = read(&Clock::default(), 100, HOUR_S, |s| s);
        assert_eq!(given[0], HOUR_S);
        assert!(given[100] >= HOUR_S + 80, "{}", given[100]);
        let given = read(&Clock::default(), 2_000, 100, |s| s);
        assert_eq!(given[2_000], 2_000, "a hundred seconds ahead are caught up after a thousand");
    }
}
