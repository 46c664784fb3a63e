//! Lengths of time and moments as people write them. One parser for the API, the command line and the settings.

use crate::limits::{HORIZON_MS, Invalid};
use crate::time::Timestamp;

/// Units with their milliseconds, the largest first.
const UNITS: [(&str, i64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// What is told when a text is no length of time.
const SPAN: &str = "must be a length of time like 30s, 5m, 1h30m or 250ms; a bare number is seconds";
/// What is told when a text is no moment.
const MOMENT: &str = "must be a time like 2026-01-31T12:00:00Z, or one seen from now like -1h or 10m";

/// A length of time in milliseconds: `30s`, `1h30m`, `250ms`, `1.5h`; a bare number is seconds. Rounded up, so that nothing
/// happens early.
pub fn parse_ms(field: &str, text: &str) -> Result<i64, Invalid> {
    let wrong = || Invalid::new(field, text, SPAN);
    let trimmed = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (mut rest, mut ms) = (trimmed, 0f64);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let (unit, next) = behind.split_at(behind.find(is_number).unwrap_or(behind.len()));
        let is_bare = number.len() == trimmed.len();
        let unit_ms = match unit {
            "" if is_bare => 1_000,
            "min" => 60_000,
            unit => UNITS.iter().find(|(known, _)| *known == unit).ok_or_else(wrong)?.1,
        };
        ms += number.parse::<f64>().map_err(|_| wrong())? * unit_ms as f64;
        rest = next;
    }
    from_ms(ms)
        .ok_or_else(|| Invalid::new(field, text, "is too long; nothing may be further away than 10 years"))
}

/// Whole milliseconds, rounded up. None beyond what any limit allows, so that no sum overflows.
pub fn from_ms(ms: f64) -> Option<i64> {
    let ms = ms.ceil();
    (ms.is_finite() && ms.abs() <= 2.0 * HORIZON_MS as f64).then_some(ms as i64)
}

/// A length of time as people write it, with the largest units that are exact: `1h30m`, `250ms`, `0s`.
pub fn to_text(ms: i64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let (mut rest, mut text) = (ms.unsigned_abs(), String::new());
    for (unit, unit_ms) in UNITS {
        let n = rest / unit_ms.unsigned_abs();
        if n > 0 {
            text += &format!("{n}{unit}");
            rest %= unit_ms.unsigned_abs();
        }
    }
    if ms < 0 { format!("-{text}") } else { text }
}

/// Accepts a length of time within `min..=max`, and names all three as people write them.
pub fn within_ms(field: &str, ms: i64, min: i64, max: i64) -> Result<i64, Invalid> {
    if (min..=max).contains(&ms) {
        return Ok(ms);
    }
    let limit = format!("must be between {} and {}", to_text(min), to_text(max));
    Err(Invalid::new(field, to_text(ms), limit))
}

/// A moment: RFC 3339, `now`, or seen from `now`: `-1h` is an hour ago, `10m` and `+10m` in ten minutes.
pub fn parse_moment(field: &str, text: &str, now: Timestamp) -> Result<Timestamp, Invalid> {
    let trimmed = text.trim();
    if trimmed == "now" {
        return Ok(now);
    }
    let (sign, span) = match trimmed.strip_prefix('-') {
        Some(span) => (-1, span),
        None => (1, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    // A bare number is more likely a mistyped date than seconds.
    if span.ends_with(|c: char| c.is_ascii_alphabetic())
        && let Ok(ms) = parse_ms(field, span)
    {
        return Ok(now.plus_ms(sign * ms));
    }
    Timestamp::parse(field, trimmed).map_err(|_| Invalid::new(field, text, MOMENT))
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
            ("5min", 300_000),
            ("250ms", 250),
            ("1.5s", 1_500),
            ("0.1ms", 1),
            (" 2d ", 172_800_000),
        ] {
            assert_eq!(parse_ms("t", text).unwrap(), ms, "{text}");
        }
        for text in [
            "",
            " ",
            "soon",
            "3x",
            "s",
            "-1s",
            "1h30",
            "1..5s",
            "1e3",
            "inf",
            "99999d9999999999d",
            "5\u{0}",
            "٣s",
        ] {
            assert!(parse_ms("t", text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_written_as_they_are_read() {
        for (ms, text) in
            [(0, "0s"), (250, "250ms"), (5_400_000, "1h30m"), (86_400_000, "1d"), (-1_500, "-1s500ms")]
        {
            assert_eq!(to_text(ms), text);
        }
        for ms in [1, 999, 1_000, 61_001, 86_399_999, 90_061_001] {
            assert_eq!(parse_ms("t", &to_text(ms)).unwrap(), ms);
        }
        let told = within_ms("lease", 100, 1_000, 86_400_000).unwrap_err().to_string();
        assert_eq!(told, "lease is 100ms: must be between 1s and 1d");
    }

    #[test]
    fn moments_are_dates_or_seen_from_now() {
        let now = Timestamp::from_micros(10_000_000);
        let at = |text: &str| parse_moment("t", text, now).map(Timestamp::as_micros);
        for (text, micros) in [
            ("now", 10_000_000),
            ("-5s", 5_000_000),
            ("5s", 15_000_000),
            ("+1m", 70_000_000),
            (" 1m", 70_000_000),
            ("1970-01-01T00:00:01Z", 1_000_000),
        ] {
            assert_eq!(at(text), Ok(micros), "{text}");
        }
        for text in ["", "2026", "yesterday", "--1h", "- 1h ago"] {
            assert!(at(text).is_err(), "{text}");
        }
    }
}
