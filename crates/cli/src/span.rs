//! Lengths of time and moments as people type them: `30s`, `1h30m`, `250ms`, or RFC 3339.

use std::str::FromStr;
use std::time::Duration;
use windlass_core::Timestamp;
use windlass_core::limits::HORIZON_MS;

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
        let wrong =
            || "must be a length of time like 30s, 5m, 1h30m or 250ms; a bare number is seconds".to_owned();
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(wrong());
        }
        let mut ms = 0f64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
            let is_alone = digits == text.trim().len();
            ms += number * unit_ms(&rest[..unit], is_alone).ok_or_else(wrong)?;
            rest = &rest[unit..];
        }
        // Rounded up: nothing happens early.
        let ms = ms.ceil();
        if ms > 2.0 * HORIZON_MS as f64 {
            return Err("is too long; nothing may be further away than 10 years".to_owned());
        }
        Ok(Self { ms: ms as i64 })
    }
}

fn unit_ms(unit: &str, is_alone: bool) -> Option<f64> {
    Some(match unit {
        "" if is_alone => 1_000.0,
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    })
}

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Timestamp::parse("time", text).map(Self).map_err(|invalid| invalid.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_people_write_them() {
        for (text, ms) in [
            ("30", 30_000),
            ("0.25", 250),
            ("30s", 30_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("2d", 172_800_000),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().ms(), ms, "{text}");
        }
        for text in ["", "soon", "3x", "s", "-1s", "1h30", "1..5s", "99999d9999999999d"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        assert!("2026-01-31T12:00:00Z".parse::<Moment>().is_ok() && "tomorrow".parse::<Moment>().is_err());
    }
}
