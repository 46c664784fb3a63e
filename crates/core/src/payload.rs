//! Bytes that come in and go out unchanged, with a mark whether they are JSON.

use crate::canonical::canonical;
use crate::limits::{Invalid, JSON_DEPTH_MAX};
use serde::Serialize;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Opaque bytes. JSON is checked once when it enters and is never parsed or rewritten afterwards.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    bytes: Arc<[u8]>,
    is_json: bool,
}

impl Payload {
    /// Accepts JSON text of at most `max` bytes and 64 levels.
    pub fn json(field: &str, bytes: impl Into<Vec<u8>>, max: usize) -> Result<Self, Invalid> {
        let bytes = bytes.into();
        check_len(field, bytes.len(), max)?;
        check_depth(field, &bytes)?;
        serde_json::from_slice::<IgnoredAny>(&bytes).map_err(|e| {
            Invalid::new(field, format!("not JSON ({e})"), "must be valid JSON, or be sent as bytes")
        })?;
        Ok(Self { bytes: bytes.into(), is_json: true })
    }

    /// Accepts a value that becomes JSON.
    pub fn from_value(field: &str, value: &impl Serialize, max: usize) -> Result<Self, Invalid> {
        let bytes = serde_json::to_vec(value)
            .map_err(|e| Invalid::new(field, format!("not JSON ({e})"), "must serialise to JSON"))?;
        Self::json(field, bytes, max)
    }

    /// Accepts any bytes, at most `max` of them.
    pub fn bytes(field: &str, bytes: impl Into<Vec<u8>>, max: usize) -> Result<Self, Invalid> {
        let bytes = bytes.into();
        check_len(field, bytes.len(), max)?;
        Ok(Self { bytes: bytes.into(), is_json: false })
    }

    /// What a store wrote, as it stands.
    pub fn stored(bytes: Vec<u8>, is_json: bool) -> Self {
        Self { bytes: bytes.into(), is_json }
    }

    /// The bytes as they came.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the bytes were accepted as JSON.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// SHA-256 of the bytes: what seals use.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }

    /// What two payloads are compared by, for unique keys: SHA-256, of JSON whatever the order of its keys is. A map of keys
    /// has none, so the same value may be written in many ways.
    pub fn fingerprint(&self) -> [u8; 32] {
        if self.is_json { Sha256::digest(canonical(&self.bytes)).into() } else { self.sha256() }
    }

    /// The value, if the bytes are JSON that fits `T`.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) if text.len() <= 200 => write!(f, "Payload({text})"),
            _ => write!(f, "Payload({} bytes, json: {})", self.bytes.len(), self.is_json),
        }
    }
}

/// Accepts a payload that is small enough for where it goes.
pub fn fits(field: &str, payload: Option<&Payload>, max: usize) -> Result<(), Invalid> {
    check_len(field, payload.map_or(0, |p| p.bytes.len()), max)
}

fn check_len(field: &str, len: usize, max: usize) -> Result<(), Invalid> {
    if len > max {
        return Err(Invalid::new(
            field,
            format!("{len} bytes"),
            format!("at most {max} bytes; keep large things elsewhere and send a reference"),
        ));
    }
    Ok(())
}

/// Counts brackets outside strings, so that a hostile document never recurses.
fn check_depth(field: &str, bytes: &[u8]) -> Result<(), Invalid> {
    // Nearly always: no more brackets at all than may be open at once, which is counted many bytes at a time.
    if bytes.iter().filter(|&&b| b | 0x20 == b'{').count() <= JSON_DEPTH_MAX {
        return Ok(());
    }
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for &b in bytes {
        if in_string {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match b {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            let limit = format!("at most {JSON_DEPTH_MAX} levels of nesting");
            return Err(Invalid::new(field, "JSON nested deeper", limit));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_passes_unchanged_and_other_bytes_too() {
        let odd = br#"{"b":1, "a" : "\u0000", "b":2}"#;
        assert_eq!(Payload::json("payload", odd.to_vec(), 100).unwrap().as_bytes(), odd);
        assert!(Payload::json("payload", b"{".to_vec(), 100).is_err());
        assert!(!Payload::bytes("payload", vec![0, 255], 100).unwrap().is_json());
        assert!(Payload::bytes("payload", vec![0; 101], 100).is_err());
    }

    #[test]
    fn depth_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(Payload::json("payload", nested(64), 1 << 20).is_ok());
        assert!(Payload::json("payload", nested(65), 1 << 20).is_err());
        assert!(Payload::json("payload", nested(500_000), 1 << 20).is_err());
        let objects = |n: usize| format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n));
        assert!(Payload::json("payload", objects(64), 1 << 20).is_ok());
        assert!(Payload::json("payload", objects(65), 1 << 20).is_err());
        assert!(Payload::json("payload", format!("\"{}\\\"[\"", "[".repeat(100)), 1 << 20).is_ok());
    }
}
