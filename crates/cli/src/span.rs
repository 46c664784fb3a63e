//! Lengths of time and moments as they are typed; [`windlass_core::span`] reads them.

use std::str::FromStr;
use std::time::Duration;
use windlass_core::{Timestamp, span};
use windlass_store::fresh;

/// A length of time, in whole milliseconds. A bare number is seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    ms: i64,
}

impl Span {
    /// Milliseconds.
    pub const fn ms(self) -> i64 {
        self.ms
    }

    /// For timers.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.ms.unsigned_abs())
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        span::parse_ms("time", text).map(|ms| Self { ms }).map_err(|invalid| invalid.limit)
    }
}

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = span::parse_moment("time", text, fresh::wall_clock());
        at.map(Self).map_err(|invalid| invalid.limit)
    }
}

/// A time that lies back, as the API reads it: a length of time is so long ago, a moment stays one.
pub fn ago(text: &str) -> String {
    let is_span = span::parse_ms("time", text).is_ok() && text.ends_with(|c: char| c.is_ascii_alphabetic());
    if is_span { format!("-{}", text.trim()) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        assert_eq!("1h30m".parse::<Span>().unwrap().ms(), 5_400_000);
        assert!("soon".parse::<Span>().unwrap_err().contains("like 30s"));
        assert!("2026-01-31T12:00:00Z".parse::<Moment>().is_ok() && "tomorrow".parse::<Moment>().is_err());
        let (ago, now) = ("-1h".parse::<Moment>().unwrap().0, fresh::wall_clock());
        assert_eq!((super::ago("1h").as_str(), super::ago("now").as_str()), ("-1h", "now"));
        assert!(ago < now.plus_ms(-3_599_000) && ago > now.plus_ms(-3_660_000));
    }
}
