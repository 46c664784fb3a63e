//! Moments, to the microsecond. There is no clock here: a moment always comes from a store.

use crate::limits::{HORIZON_MS, Invalid};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `micros` microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This moment plus `ms` milliseconds; never overflows.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000)))
    }

    /// Parses RFC 3339.
    pub fn parse(field: &str, value: &str) -> Result<Self, Invalid> {
        let parsed: Result<jiff::Timestamp, _> = value.parse();
        parsed
            .map(|t| Self(t.as_microsecond()))
            .map_err(|_| Invalid::new(field, value, "must be a time like 2026-01-31T12:00:00Z"))
    }

    /// Accepts a moment at most ten years away from `now`, either way.
    pub fn near(self, field: &str, now: Self) -> Result<Self, Invalid> {
        if self.0.abs_diff(now.0) <= HORIZON_MS as u64 * 1_000 {
            return Ok(self);
        }
        Err(Invalid::new(field, self, format!("must be within 10 years of now ({now})")))
    }
}

impl From<std::time::SystemTime> for Timestamp {
    /// What the system's type says, to the microsecond; times that do not fit are the nearest that does.
    fn from(time: std::time::SystemTime) -> Self {
        let micros = |d: std::time::Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
        match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        Self(time.as_microsecond())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(t) => write!(f, "{t}"),
            Err(_) => write!(f, "{} µs since 1970", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_reads_back_as_it_was_written() {
        let t = Timestamp::parse("run_at", "2026-01-31T12:00:00.000001Z").unwrap();
        assert_eq!(t.to_string(), "2026-01-31T12:00:00.000001Z");
        assert!(Timestamp::parse("run_at", "yesterday").is_err());
        assert_eq!(Timestamp::from_micros(i64::MAX).plus_ms(i64::MAX).as_micros(), i64::MAX);
    }

    #[test]
    fn other_types_of_time_mean_the_same_moment() {
        let t = Timestamp::from_micros(1_500_000);
        let system = std::time::UNIX_EPOCH + std::time::Duration::from_micros(1_500_000);
        assert_eq!(Timestamp::from(system), t);
        assert_eq!(Timestamp::from(jiff::Timestamp::from_microsecond(1_500_000).unwrap()), t);
        let before = std::time::UNIX_EPOCH - std::time::Duration::from_secs(1);
        assert_eq!(Timestamp::from(before).as_micros(), -1_000_000);
    }

    #[test]
    fn ten_years_is_the_horizon() {
        let now = Timestamp::parse("now", "2026-01-01T00:00:00Z").unwrap();
        assert!(now.plus_ms(HORIZON_MS).near("run_at", now).is_ok());
        assert!(Timestamp::from_micros(now.plus_ms(HORIZON_MS).as_micros() + 1).near("run_at", now).is_err());
        assert!(Timestamp::from_micros(i64::MIN).near("run_at", now).is_err());
    }
}
