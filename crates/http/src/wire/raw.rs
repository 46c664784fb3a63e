//! Bytes that pass through unchanged: JSON as it stands in the request, anything else as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use windlass_core::{Invalid, Payload};

/// Any JSON, byte for byte as it was sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// How many bytes it is.
    #[expect(clippy::len_without_is_empty, reason = "no JSON is empty")]
    pub fn len(&self) -> usize {
        self.0.get().len()
    }
}

impl PartialSchema for Json {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("any JSON")).into()
    }
}

impl ToSchema for Json {}

/// A payload as the two fields of which one carries it: JSON as it stands, anything else as base64.
pub fn fields(payload: Option<&Payload>) -> (Option<Json>, Option<String>) {
    let Some(payload) = payload else { return (None, None) };
    let json = std::str::from_utf8(payload.as_bytes()).ok().filter(|_| payload.is_json());
    match json.and_then(|text| RawValue::from_string(text.to_owned()).ok()) {
        Some(raw) => (Some(Json(raw)), None),
        None => (None, Some(STANDARD.encode(payload.as_bytes()))),
    }
}

/// The payload that a request brings as JSON or as base64, if it brings one.
pub fn payload(
    field: &str,
    json: Option<Json>,
    base64: Option<String>,
    max: usize,
) -> Result<Option<Payload>, Invalid> {
    match (json, base64) {
        (None, None) => Ok(None),
        (Some(json), None) => Payload::json(field, String::from(Box::<str>::from(json.0)), max).map(Some),
        (None, Some(text)) => {
            let wrong =
                |_| Invalid::new(field, "not base64", "must be base64 with padding, or be sent as JSON");
            Payload::bytes(field, STANDARD.decode(text).map_err(wrong)?, max).map(Some)
        }
        (Some(_), Some(_)) => Err(Invalid::new(field, "given as JSON and as base64", "give one of the two")),
    }
}

/// A payload that is JSON, on its way out as it stands.
#[derive(Debug, Clone)]
pub struct Raw(Payload);

impl Raw {
    /// The bytes.
    pub fn into_payload(self) -> Payload {
        self.0
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(self.0.as_bytes()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Payload::stored(String::from(Box::<str>::from(raw)).into_bytes(), true)))
    }
}

impl PartialSchema for Raw {
    fn schema() -> RefOr<Schema> {
        Json::schema()
    }
}

impl ToSchema for Raw {}

/// Bytes on their way out: JSON, or base64 of what is none.
#[derive(Debug, Clone)]
pub(crate) enum Shown {
    /// There are none.
    Nothing,
    /// JSON.
    Json(Raw),
    /// Anything else.
    Base64(String),
}

/// A member that is there, be it null.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Shown {
    /// How bytes go out. What was taken as JSON and cannot stand in a JSON text goes out as base64.
    pub(crate) fn of(payload: Option<&Payload>) -> Self {
        let Some(payload) = payload else { return Self::Nothing };
        if payload.is_json() && serde_json::from_slice::<&RawValue>(payload.as_bytes()).is_ok() {
            return Self::Json(Raw(payload.clone()));
        }
        Self::Base64(STANDARD.encode(payload.as_bytes()))
    }

    /// As two fields of which one is shown; nothing is `null` where `null` is said to mean nothing.
    pub(crate) fn or_null(self) -> (Option<Option<Raw>>, Option<String>) {
        match self {
            Self::Nothing => (Some(None), None),
            Self::Json(raw) => (Some(Some(raw)), None),
            Self::Base64(text) => (None, Some(text)),
        }
    }

    /// As two fields of which at most one is shown.
    pub(crate) fn or_absent(self) -> (Option<Raw>, Option<String>) {
        match self {
            Self::Nothing => (None, None),
            Self::Json(raw) => (Some(raw), None),
            Self::Base64(text) => (None, Some(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Body {
        payload: Option<Json>,
        payload_base64: Option<String>,
    }

    fn read(body: &str) -> Result<Option<Payload>, Invalid> {
        let body: Body = serde_json::from_str(body).unwrap();
        payload("payload", body.payload, body.payload_base64, 100)
    }

    #[test]
    fn json_passes_byte_for_byte_and_other_bytes_as_base64() {
        let odd = r#"{"b": 1.0, "a":"\u0000", "b":2}"#;
        let taken = read(&format!(r#"{{"payload":{odd}}}"#)).unwrap().unwrap();
        assert_eq!(taken.as_bytes(), odd.as_bytes());
        assert!(
            matches!(Shown::of(Some(&taken)), Shown::Json(raw) if serde_json::to_string(&raw).unwrap() == odd)
        );
        let bytes = read(r#"{"payload_base64":"AP8="}"#).unwrap().unwrap();
        assert!(!bytes.is_json() && bytes.as_bytes() == [0, 255]);
        assert!(matches!(Shown::of(Some(&bytes)), Shown::Base64(text) if text == "AP8="));
        assert!(read(r#"{"payload":null}"#).unwrap().is_none());
        assert!(read(r#"{"payload_base64":"%"}"#).is_err());
        assert!(read(r#"{"payload":1,"payload_base64":""}"#).is_err());
        for payload in [&taken, &bytes] {
            let (json, base64) = fields(Some(payload));
            assert_eq!(super::payload("payload", json, base64, 100).unwrap().as_ref(), Some(payload));
        }
        let broken = Payload::stored(b"\"\xff\"".to_vec(), true);
        assert!(matches!(Shown::of(Some(&broken)), Shown::Base64(_)), "it cannot stand in a JSON text");
    }
}
