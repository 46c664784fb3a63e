//! Documents of the public API: answers, and bodies that `wire` has no shape for.

use crate::fail::{Failure, Outcome};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use windlass_core::{Payload, Timestamp};

/// An answer: the text for programs, which is passed on as it is, and the value for people.
#[derive(Debug, Clone)]
pub struct Reply {
    /// JSON.
    pub text: String,
    /// The same, to look into.
    pub value: Value,
}

/// A body as it is sent.
pub fn to_text(body: &impl Serialize) -> Outcome<String> {
    serde_json::to_string(body).map_err(|e| Failure::failed(format!("this cannot be written as JSON: {e}")))
}

/// A JSON object that keeps the bytes and the order of what is put into it.
#[derive(Debug, Default)]
pub struct Doc {
    fields: Vec<(&'static str, Box<RawValue>)>,
}

impl Doc {
    /// Adds a field.
    pub fn put(&mut self, name: &'static str, value: impl Serialize) -> &mut Self {
        // What is put here always serialises: texts, numbers and documents like this one.
        if let Ok(raw) = to_raw_value(&value) {
            self.fields.push((name, raw));
        }
        self
    }

    /// Adds a field, if there is something.
    pub fn put_some(&mut self, name: &'static str, value: Option<impl Serialize>) -> &mut Self {
        if let Some(value) = value {
            self.put(name, value);
        }
        self
    }

    /// Adds bytes: JSON as it stands, anything else as base64 under another name.
    pub fn put_bytes(
        &mut self,
        name: &'static str,
        base64: &'static str,
        payload: Option<&Payload>,
    ) -> &mut Self {
        let Some(payload) = payload else { return self };
        let json = std::str::from_utf8(payload.as_bytes()).ok().filter(|_| payload.is_json());
        match json.and_then(|text| serde_json::from_str::<Box<RawValue>>(text).ok()) {
            Some(raw) => self.fields.push((name, raw)),
            None => return self.put(base64, STANDARD.encode(payload.as_bytes())),
        }
        self
    }
}

impl Serialize for Doc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A moment in RFC 3339.
pub fn time(at: Timestamp) -> String {
    at.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let odd = r#"{"b": 1.0, "a":"\u0000", "b":2, "n":123456789012345678901234567890}"#;
        let mut doc = Doc::default();
        doc.put("n", 1).put_bytes("payload", "payload_base64", Some(&Payload::stored(odd.into(), true)));
        doc.put_bytes("result", "result_base64", Some(&Payload::stored(vec![0, 255], false)));
        let text = serde_json::to_string(&doc).unwrap();
        assert_eq!(text, format!(r#"{{"n":1,"payload":{odd},"result_base64":"AP8="}}"#));
    }
}
