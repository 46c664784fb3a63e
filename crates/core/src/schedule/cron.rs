//! When a clock on the wall shows what a cron text says, in one time zone.
//!
//! A text names times of the wall clock. Each of them happens once: a time that a clock skips (spring) happens at the
//! first moment after the gap, and one that it shows twice (autumn) happens the first time.

use crate::limits::Invalid;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// How many years without a match make a text one that never fires. (29 February is absent for eight years around 2100.)
const YEARS: i16 = 12;

/// A cron text: five fields, or six with seconds in front, or a word like `@daily`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether a day matches by either of the two, as it does where both are restricted.
    either_day: bool,
}

/// One field: what users call it, its range, and names for its values from the lowest on.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", min: 0, max: 59, names: &[] };
const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
const DAY: Field = Field { name: "day of month", min: 1, max: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// 7 is Sunday too.
const WEEKDAY: Field =
    Field { name: "day of week", min: 0, max: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] };

impl Cron {
    /// Reads a cron text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let spelled = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let wrong = |why: String| Invalid::new("cron", text, why);
        let fields: Vec<&str> = spelled.split_whitespace().collect();
        let (second, rest) = match fields.as_slice() {
            rest if rest.len() == 5 => ("0", rest),
            [second, rest @ ..] if rest.len() == 5 => (*second, rest),
            _ => {
                let why = "must be five fields (minute hour day month weekday), six with seconds in front, or \
                           @hourly, @daily, @weekly, @monthly, @yearly; for a fixed interval use `every`";
                return Err(wrong(why.into()));
            }
        };
        let [minute, hour, day, month, weekday] = rest else {
            return Err(wrong("must be five fields".into()));
        };
        let read = |field: &Field, text: &str| field.read(text).map_err(wrong);
        let weekdays = read(&WEEKDAY, weekday)?;
        let open = |text: &str| text.starts_with(['*', '?']);
        Ok(Self {
            seconds: read(&SECOND, second)?,
            minutes: read(&MINUTE, minute)?,
            hours: read(&HOUR, hour)?,
            days: read(&DAY, day)?,
            months: read(&MONTH, month)?,
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            either_day: !open(day) && !open(weekday),
        })
    }

    /// The first moment after `after` at which a clock in this zone shows a matching time; none within twelve years.
    pub fn next(&self, after: jiff::Timestamp, zone: &TimeZone) -> Option<jiff::Timestamp> {
        // Moments never go back as times of the wall clock go on, so the first one that is later is the next.
        let mut from = zone.to_datetime(after);
        let limit = from.year().saturating_add(YEARS);
        loop {
            let shown = self.next_shown(from, limit)?;
            match moment(shown, zone) {
                Some(at) if at > after => return Some(at),
                _ => from = shown.checked_add(jiff::Span::new().seconds(1)).ok()?,
            }
        }
    }

    /// The first matching time of the wall clock from `from` on, before the end of the year `limit`.
    fn next_shown(&self, from: DateTime, limit: i16) -> Option<DateTime> {
        let mut earliest = whole_second(from)?;
        loop {
            let date = earliest.date();
            if date.year() > limit {
                return None;
            }
            if !has(self.months, date.month().unsigned_abs().into()) {
                earliest = date.last_of_month().tomorrow().ok()?.at(0, 0, 0, 0);
                continue;
            }
            if self.has_day(date)
                && let Some(time) = self.time_from(earliest.time())
            {
                return Some(date.to_datetime(time));
            }
            earliest = date.tomorrow().ok()?.at(0, 0, 0, 0);
        }
    }

    fn has_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day().unsigned_abs().into());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset().unsigned_abs().into());
        if self.either_day { day || weekday } else { day && weekday }
    }

    /// The first matching time of a day from `from` on.
    fn time_from(&self, from: Time) -> Option<Time> {
        let (h, m, s) = (from.hour(), from.minute(), from.second());
        let hour = first(self.hours, h)?;
        let (minute, second) = if hour > h {
            (first(self.minutes, 0)?, first(self.seconds, 0)?)
        } else {
            let minute = first(self.minutes, m);
            let second = match minute {
                Some(minute) if minute == m => first(self.seconds, s),
                Some(_) => first(self.seconds, 0),
                None => None,
            };
            match (minute, second) {
                (Some(minute), Some(second)) => (minute, second),
                // The rest of this minute, then of this hour, has none.
                _ => {
                    let later = if m < 59 { first(self.minutes, m + 1) } else { None };
                    match later {
                        Some(minute) => (minute, first(self.seconds, 0)?),
                        None if h < 23 => return self.time_from(Time::new(h + 1, 0, 0, 0).ok()?),
                        None => return None,
                    }
                }
            }
        };
        Time::new(hour, minute, second, 0).ok()
    }
}

impl Field {
    /// The values of a field, as bits.
    fn read(&self, text: &str) -> Result<u64, String> {
        let mut bits = 0;
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                None => (part, None),
                Some((range, step)) => (range, Some(self.step(step)?)),
            };
            let (from, to) = match range.split_once('-') {
                _ if range == "*" || range == "?" => (self.min, self.last()),
                Some((from, to)) => (self.value(from)?, self.value(to)?),
                // `5/15` means from 5 on.
                None if step.is_some() => (self.value(range)?, self.last()),
                None => (self.value(range)?, self.value(range)?),
            };
            if from > to {
                return Err(format!("the {} {range} ends before it begins", self.name));
            }
            for value in (from..=to).step_by(step.unwrap_or(1)) {
                bits |= 1 << value;
            }
        }
        Ok(bits)
    }

    /// Of weekdays, 7 is only another name of 0.
    fn last(&self) -> u32 {
        self.max.min(if self.max == 7 { 6 } else { self.max })
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = named.map(|place| place as u32 + self.min).or_else(|| text.parse().ok());
        value
            .filter(|value| (self.min..=self.max).contains(value))
            .ok_or_else(|| format!("the {} {text:?} is none of {} to {}", self.name, self.min, self.last()))
    }

    fn step(&self, text: &str) -> Result<usize, String> {
        text.parse()
            .ok()
            .filter(|step| *step > 0)
            .ok_or_else(|| format!("the step {text:?} of the {} must be a number from 1 on", self.name))
    }
}

fn has(bits: u64, value: u32) -> bool {
    bits & (1 << value) != 0
}

/// The first value from `from` on.
fn first(bits: u64, from: i8) -> Option<i8> {
    let at = (bits & (u64::MAX << from)).trailing_zeros();
    i8::try_from(at).ok().filter(|at| *at < 64)
}

fn whole_second(time: DateTime) -> Option<DateTime> {
    if time.subsec_nanosecond() == 0 {
        return Some(time);
    }
    let whole = time.date().at(time.hour(), time.minute(), time.second(), 0);
    whole.checked_add(jiff::Span::new().seconds(1)).ok()
}

/// When a clock shows this time: the first moment after a gap, the earlier of two.
fn moment(shown: DateTime, zone: &TimeZone) -> Option<jiff::Timestamp> {
    match zone.to_ambiguous_timestamp(shown).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(shown).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(shown).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            let just_before = after.to_timestamp(shown).ok()?;
            zone.following(just_before).next().map(|change| change.timestamp())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(cron: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
        let (cron, zone) = (Cron::parse(cron).unwrap(), TimeZone::get(zone).unwrap());
        let mut at: jiff::Timestamp = after.parse().unwrap();
        let mut found = Vec::new();
        while found.len() < n
            && let Some(next) = cron.next(at, &zone)
        {
            found.push(next.to_string());
            at = next;
        }
        found
    }

    #[test]
    fn a_text_is_read_as_people_mean_it() {
        let next = |cron| fires(cron, "UTC", "2026-01-01T00:00:00Z", 1).remove(0);
        assert_eq!(next("0 3 * * *"), "2026-01-01T03:00:00Z");
        assert_eq!(next("*/15 * * * *"), "2026-01-01T00:15:00Z");
        assert_eq!(next("30 0 3 * * *"), "2026-01-01T03:00:30Z", "six fields begin with seconds");
        assert_eq!(next("0 0 * * MON"), "2026-01-05T00:00:00Z");
        assert_eq!(next("0 0 * * 7"), "2026-01-04T00:00:00Z", "7 is Sunday");
        assert_eq!(next("0 9 * * mon-fri"), "2026-01-01T09:00:00Z");
        assert_eq!(next("0 0 13 * FRI"), "2026-01-02T00:00:00Z", "where both days are named, either will do");
        assert_eq!(next("0 0 31 * *"), "2026-01-31T00:00:00Z");
        assert_eq!(next("0 0 29 2 *"), "2028-02-29T00:00:00Z");
        assert_eq!(next("5/20 1 * * *"), "2026-01-01T01:05:00Z");
        assert_eq!(next("@monthly"), "2026-02-01T00:00:00Z");
        assert_eq!(next("59 59 23 31 12 *"), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn a_text_that_says_nothing_clear_is_refused() {
        for (text, why) in [
            ("", "five fields"),
            ("* * * *", "five fields"),
            ("60 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day of month"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "day of week"),
            ("*/0 * * * *", "step"),
            ("30-10 * * * *", "ends before it begins"),
            ("a * * * *", "minute"),
            ("@every 5m", "every"),
        ] {
            let refused = Cron::parse(text).unwrap_err();
            assert!(refused.limit.contains(why), "{text:?}: {}", refused.limit);
        }
    }

    #[test]
    fn what_never_comes_is_none() {
        assert_eq!(fires("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", 1), Vec::<String>::new());
        assert_eq!(fires("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
    }

    /// Spring: 02:30 does not exist and happens at 03:00. Autumn: 02:30 comes twice and happens once.
    #[test]
    fn a_gap_is_made_up_for_and_a_fold_counts_once() {
        let berlin = |cron, after, n| fires(cron, "Europe/Berlin", after, n);
        assert_eq!(
            berlin("30 2 * * *", "2026-03-28T12:00:00Z", 2),
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        assert_eq!(
            berlin("30 2 * * *", "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        assert_eq!(
            berlin("*/30 * * * *", "2026-10-24T23:45:00Z", 4),
            ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"]
        );
        // In the second pass of the hour everything of it has happened.
        assert_eq!(berlin("*/30 * * * *", "2026-10-25T01:10:00Z", 1), ["2026-10-25T02:00:00Z"]);
    }

    /// Half an hour of summer time, and a day that was left out.
    #[test]
    fn odd_zones_hold_too() {
        assert_eq!(
            fires("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2),
            ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"]
        );
        assert_eq!(
            fires("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", 2),
            ["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]
        );
    }
}
