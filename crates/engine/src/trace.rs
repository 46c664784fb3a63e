//! Traces: a span per attempt, with the caller's trace context from the job's metadata.

use crate::attempt::Attempt;
use std::fmt;
use windlass_core::Metadata;

/// The key under which a job's metadata carries its trace context.
const KEY: &str = "traceparent";

/// Where a job comes from, as W3C Trace Context writes it: `00-<trace>-<span>-<flags>`.
///
/// ```
/// # use windlass_engine::TraceContext;
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context = TraceContext::parse(text).unwrap();
/// assert_eq!(context.to_string(), text);
/// assert!(TraceContext::parse("00-0-0-00").is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span that enqueued the job.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded, and what else its flags say.
    pub flags: u8,
}

impl TraceContext {
    /// Reads a `traceparent`; none for anything that the standard tells to ignore.
    pub fn parse(text: &str) -> Option<Self> {
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b) || b == b'-';
        let fields: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = fields.iter().map(|field| field.len()).collect();
        let known = fields.first() == Some(&"00") && lengths == [2, 32, 16, 2];
        // A later version may bring more fields, but never fewer.
        let later = fields.first() != Some(&"ff") && lengths.starts_with(&[2, 32, 16, 2]);
        if !text.bytes().all(lower) || !(known || (later && fields[0] != "00")) {
            return None;
        }
        let bytes = |field: &str| windlass_core::lease::unhex(field);
        let trace_id: [u8; 16] = bytes(fields[1])?.try_into().ok()?;
        let span_id: [u8; 8] = bytes(fields[2])?.try_into().ok()?;
        let flags = *bytes(fields[3])?.first()?;
        (trace_id != [0; 16] && span_id != [0; 8]).then_some(Self { trace_id, span_id, flags })
    }

    /// The context that a job's metadata carries.
    pub fn of(metadata: &Metadata) -> Option<Self> {
        Self::parse(metadata.get(KEY)?.as_str()?)
    }

    /// Lets a job's metadata carry this context.
    pub fn put(&self, metadata: &mut Metadata) {
        metadata.insert(KEY.to_owned(), self.to_string().into());
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = windlass_core::lease::hex;
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace_id), hex(&self.span_id), self.flags)
    }
}

/// The span of an attempt.
pub(crate) fn span(attempt: &Attempt) -> tracing::Span {
    let span = tracing::info_span!(
        "attempt",
        job = %attempt.job_id(),
        kind = attempt.kind().as_str(),
        queue = attempt.job().queue.as_str(),
        attempt = attempt.number(),
        traceparent = tracing::field::Empty,
        outcome = tracing::field::Empty,
    );
    if !span.is_disabled()
        && let Some(context) = TraceContext::of(attempt.metadata())
    {
        span.record("traceparent", tracing::field::display(context));
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_traceparent_is_one() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut metadata = Metadata::new();
        TraceContext::parse(good).unwrap().put(&mut metadata);
        assert_eq!(TraceContext::of(&metadata).unwrap().to_string(), good);
        assert!(TraceContext::parse(&good.replacen("00", "01", 1)).is_some(), "a later version");
        assert!(
            TraceContext::parse(&format!("{}-more", good.replacen("00", "01", 1).replace("more", "")))
                .is_none()
        );
        for bad in [
            "",
            "00",
            &good.to_uppercase(),
            &format!("{good}-00"),
            &good.replacen("00", "ff", 1),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            assert!(TraceContext::parse(bad).is_none(), "{bad}");
        }
    }
}
