//! The body of a request: read within limits, then read as JSON of a known shape.

use crate::codes;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use windlass_core::Invalid;

/// The largest request.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// How long a client may pause within a body, and how long all of it may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the next piece.
    pub(crate) piece: Duration,
    /// For the whole.
    pub(crate) whole: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { piece: Duration::from_secs(15), whole: Duration::from_secs(120) }
    }
}

/// The most that is read of a body that is too large, and how long, so that a client that is still sending gets to read
/// the answer instead of a broken pipe.
const DRAIN_MAX_BYTES: usize = 64 << 20;
const DRAIN: Duration = Duration::from_secs(5);

/// Reads a body of at most `max` bytes. A larger one is refused by its announced length, or where it passes the limit;
/// what comes after that is thrown away.
pub(crate) async fn read(
    mut body: Body,
    headers: &HeaderMap,
    max: usize,
    patience: Patience,
) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the request is larger than {max} bytes; send less at once, or a reference");
        Problem::new(codes::REQUEST_TOO_LARGE, detail)
            .with("limit_bytes", max)
            .header(header::CONNECTION, "close")
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > max as u64) {
        drain(body, headers, max).await;
        return Err(too_large());
    }
    let end = Instant::now() + patience.whole;
    let mut whole = BytesMut::new();
    loop {
        let next = timeout_at(end.min(Instant::now() + patience.piece), body.frame()).await;
        let Ok(frame) = next else {
            let detail = "the body came too slowly; send it again over a better connection";
            return Err(Problem::new(codes::REQUEST_TIMEOUT, detail).header(header::CONNECTION, "close"));
        };
        let Some(frame) = frame else { return Ok(whole.freeze()) };
        let frame =
            frame.map_err(|e| Problem::new(codes::MALFORMED_REQUEST, format!("the body broke off: {e}")))?;
        let Ok(piece) = frame.into_data() else { continue };
        if whole.len() + piece.len() > max {
            drain(body, headers, max).await;
            return Err(too_large());
        }
        if whole.is_empty() {
            whole.reserve(announced.map_or(piece.len(), |n| (n as usize).min(max)).min(1 << 20));
        }
        whole.extend_from_slice(&piece);
    }
}

/// Throws away what a client still sends, up to a few times what it may send.
async fn drain(mut body: Body, headers: &HeaderMap, max: usize) {
    // It waits for a word before it sends anything, and gets the refusal instead.
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let mut left = DRAIN_MAX_BYTES.min(max.saturating_mul(4));
    let end = Instant::now() + DRAIN;
    while let Ok(Some(Ok(frame))) = timeout_at(end, body.frame()).await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        if length > left {
            return;
        }
        left -= length;
    }
}

/// Refuses bodies that are not declared to be JSON: a form of another site can send those without asking first.
pub(crate) fn check_type(headers: &HeaderMap, body: &Bytes) -> Result<(), Problem> {
    if body.is_empty() {
        return Ok(());
    }
    let declared =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = declared.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail =
        format!("the body is declared as {declared:?}; send JSON with content-type: application/json");
    Err(Problem::new(codes::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// Reads JSON of a known shape; no body is an empty object.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|_| explain::<T>(body))
}

/// Why a body is refused. It is read a second time, now with an eye on where: the way that succeeds pays nothing for it.
fn explain<T: DeserializeOwned>(body: &[u8]) -> Problem {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let (path, error) = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) => (error.path().to_string(), error.into_inner()),
        Ok(_) => match reader.end() {
            Err(error) => (String::new(), error),
            Ok(()) => {
                return Problem::new(
                    codes::INTERNAL,
                    "the body was refused and then accepted; this is a bug",
                );
            }
        },
    };
    if error.classify() != Category::Data {
        return Problem::new(codes::MALFORMED_JSON, format!("the body is not JSON: {error}"));
    }
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or(&said);
    let quoted = |prefix: &str| Some(said.strip_prefix(prefix)?.split('`').nth(1)?.to_owned());
    let within = |field: &str| match path.as_str() {
        "." | "" => field.to_owned(),
        path if path.ends_with(field) => path.to_owned(),
        path => format!("{path}.{field}"),
    };
    if let Some(field) = quoted("unknown field") {
        return Problem::new(codes::UNKNOWN_FIELD, format!("{}: {said}", within(&field)))
            .with("field", within(&field));
    }
    if let Some(field) = quoted("missing field") {
        return Invalid::new(&within(&field), "missing", "is required").into();
    }
    let field = if path == "." || path.is_empty() { "body" } else { &path };
    Problem::new(codes::INVALID, format!("{field}: {said}")).with("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its shape is of interest")]
    struct Outer {
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its shape is of interest")]
    struct Inner {
        kind: String,
        raw: Option<Box<serde_json::value::RawValue>>,
    }

    fn refused(body: &str) -> (&'static str, String) {
        let problem = parse::<Outer>(body.as_bytes()).unwrap_err();
        (problem.code().code, problem.detail().to_owned())
    }

    #[test]
    fn a_refused_body_says_what_and_where() {
        let (code, said) = refused(r#"{"inner":[{"kind":"a"},{"kin":"b"}]}"#);
        assert!(code == "unknown_field" && said.starts_with("inner[1].kin: unknown field"), "{said}");
        let (code, said) = refused(r#"{"inner":[{"raw":{"x":1}}]}"#);
        assert!(code == "invalid" && said.starts_with("inner[0].kind is missing"), "{said}");
        let (code, said) = refused(r#"{"inner":[{"kind":7}]}"#);
        assert!(code == "invalid" && said.starts_with("inner[0].kind: invalid type: integer `7`"), "{said}");
        for body in ["{", "{\"inner\":[]} x", "nonsense", "\"\u{1}\""] {
            assert_eq!(refused(body).0, "malformed_json", "{body}");
        }
        assert_eq!(refused("[]").0, "invalid");
        assert!(parse::<Outer>(br#"{"inner":[{"kind":"a","raw":{"x":[1]}}]}"#).is_ok());
    }
}
