//! The id of a request: the caller's, or a fresh one. It is in every answer, every problem and every log line.

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, HeaderValue};
use windlass_core::lease::hex;
use windlass_store::fresh;

/// The header that carries it, both ways.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a caller.
const LONGEST: usize = 128;

/// The id of one request.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// The caller's own, if it is plain and short; else a fresh one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let plain = |value: &&HeaderValue| {
            let bytes = value.as_bytes();
            (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
        };
        let own = headers.get(X_REQUEST_ID).filter(plain).cloned();
        Self(own.unwrap_or_else(|| {
            // Hex digits are always a header value.
            HeaderValue::from_str(&hex(&fresh::random::<12>())).unwrap_or(HeaderValue::from_static("none"))
        }))
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or("none")
    }

    /// As a header.
    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}
