//! Moments and spans as users write them: RFC 3339, seconds, or `"30s"`.

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use windlass_core::{Invalid, RunAt, Timestamp, span};
use windlass_store::fresh;

/// A moment, in RFC 3339 and UTC. Read also as one seen from now: `-1h`, `10m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        span::parse_moment("time", &text, fresh::wall_clock()).map(Self).map_err(de::Error::custom)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .into()
    }
}

impl ToSchema for Time {}

/// A length of time: seconds as a number, or a text such as `"30s"`, `"1h30m"`, `"250ms"`. Written as seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    ms: i64,
}

impl Span {
    /// So many milliseconds.
    pub const fn from_ms(ms: i64) -> Self {
        Self { ms }
    }

    /// Milliseconds.
    pub const fn ms(self) -> i64 {
        self.ms
    }

    /// Parses seconds, or numbers with units.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        span::parse_ms(field, text).map(Self::from_ms)
    }

    fn seconds(seconds: f64) -> Option<Self> {
        span::from_ms(seconds * 1_000.0).map(Self::from_ms)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.ms % 1_000 == 0 {
            serializer.serialize_i64(self.ms / 1_000)
        } else {
            serializer.serialize_f64(self.ms as f64 / 1_000.0)
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Spans;
        impl Visitor<'_> for Spans {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("seconds, or a length of time like \"30s\"")
            }
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Span, E> {
                self.visit_f64(seconds as f64)
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
                self.visit_f64(seconds as f64)
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Span, E> {
                Span::seconds(seconds).ok_or_else(|| E::custom(format!("{seconds} seconds is too long")))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                Span::parse("span", text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Spans)
    }
}

impl PartialSchema for Span {
    fn schema() -> RefOr<Schema> {
        let seconds = ObjectBuilder::new().schema_type(Type::Number).description(Some("seconds"));
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(r"^([0-9]+(\.[0-9]+)?(ms|s|m|min|h|d))+$"))
            .examples(["30s", "1h30m"]);
        OneOfBuilder::new().item(seconds).item(text).into()
    }
}

impl ToSchema for Span {}

/// A moment, or a length of time from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// That moment.
    At(Timestamp),
    /// So long from now.
    In(Span),
}

impl Moment {
    /// The moment, seen from this process. Only where the store asks for a moment and not for a delay.
    pub fn resolve(self) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::In(span) => fresh::wall_clock().plus_ms(span.ms),
        }
    }
}

impl From<RunAt> for Moment {
    fn from(run_at: RunAt) -> Self {
        match run_at {
            RunAt::Now => Self::In(Span::from_ms(0)),
            RunAt::At(time) => Self::At(time),
            RunAt::After(ms) => Self::In(Span::from_ms(ms)),
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(time) => Time(*time).serialize(serializer),
            Self::In(span) => span.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Moments;
        impl Visitor<'_> for Moments {
            type Value = Moment;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time like \"2026-01-31T12:00:00Z\", or a length of time like \"30s\"")
            }
            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Moment, E> {
                self.visit_f64(seconds as f64)
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Moment, E> {
                self.visit_f64(seconds as f64)
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Moment, E> {
                let span = Span::seconds(seconds);
                span.map(Moment::In).ok_or_else(|| E::custom(format!("{seconds} seconds is too long")))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                if let Ok(span) = Span::parse("span", text) {
                    return Ok(Moment::In(span));
                }
                span::parse_moment("time", text, fresh::wall_clock()).map(Moment::At).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Moments)
    }
}

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new().item(Time::schema()).item(Span::schema()).into()
    }
}

impl ToSchema for Moment {}

/// From when something may run: at a time, after a delay, or at once.
pub fn run_at(at: Option<Moment>, delay: Option<Span>) -> Result<Option<RunAt>, Invalid> {
    match (at, delay) {
        (None, None) => Ok(None),
        (Some(Moment::At(at)), None) => Ok(Some(RunAt::At(at))),
        // Left to the store, so that a repeat of the request is the same request.
        (Some(Moment::In(span)), None) => Ok(Some(RunAt::After(span.ms))),
        (None, Some(delay)) => Ok(Some(RunAt::After(delay.ms))),
        (Some(_), Some(_)) => Err(Invalid::new("run_at", "given beside delay", "give one of the two")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_seconds_or_texts_with_units() {
        let ms = |json: &str| serde_json::from_str::<Span>(json).map(Span::ms);
        for (json, expected) in [
            ("30", 30_000),
            ("0.25", 250),
            ("\"30s\"", 30_000),
            ("\"1h30m\"", 5_400_000),
            ("\"250ms\"", 250),
            ("\"1.5s\"", 1_500),
            ("\"45\"", 45_000),
            ("-1", -1_000),
        ] {
            assert_eq!(ms(json).unwrap(), expected, "{json}");
        }
        for json in
            ["\"\"", "\"soon\"", "\"5\\u0000\"", "\"3x\"", "\"s\"", "1e300", "true", "null", "\"1..5s\""]
        {
            assert!(ms(json).is_err(), "{json}");
        }
        assert_eq!(serde_json::to_string(&Span::from_ms(30_000)).unwrap(), "30");
        assert_eq!(serde_json::to_string(&Span::from_ms(1_500)).unwrap(), "1.5");
    }

    #[test]
    fn moments_are_times_or_spans() {
        let at = Timestamp::from_micros(1_000_000);
        assert_eq!(serde_json::from_str::<Moment>("\"1970-01-01T00:00:01Z\"").unwrap(), Moment::At(at));
        assert_eq!(serde_json::from_str::<Moment>("\"5m\"").unwrap(), Moment::In(Span::from_ms(300_000)));
        assert!(serde_json::from_str::<Moment>("\"tomorrow\"").is_err());
        for moment in [Moment::At(at), Moment::In(Span::from_ms(1_500))] {
            let text = serde_json::to_string(&moment).unwrap();
            assert_eq!(serde_json::from_str::<Moment>(&text).unwrap(), moment, "{text}");
        }
        assert_eq!(serde_json::to_string(&Time(at)).unwrap(), "\"1970-01-01T00:00:01Z\"");
    }
}
