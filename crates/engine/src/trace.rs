//! Traces: a span per attempt and per step, with the caller's trace context from the job's metadata.
//!
//! The context travels in the metadata of jobs, so any program can put one there. With the feature `otel` it is read from
//! and given to OpenTelemetry; without it the engine only passes on what it finds.

#[cfg(feature = "otel")]
mod otel;

use crate::attempt::Attempt;
use crate::error::HandlerError;
use crate::metrics::outcome_word;
use std::fmt;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};
use windlass_core::job::check_metadata;
use windlass_core::{Metadata, Name, Outcome, TRACE_KEYS};

/// The keys under which a job's metadata carries its trace context.
const PARENT: &str = TRACE_KEYS[0];
const STATE: &str = TRACE_KEYS[1];

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
        Self::parse(metadata.get(PARENT)?.as_str()?)
    }

    /// Lets a job's metadata carry this context.
    pub fn put(&self, metadata: &mut Metadata) {
        metadata.insert(PARENT.to_owned(), self.to_string().into());
    }

    /// The context of the span that this code runs in, if OpenTelemetry records one (feature `otel`).
    pub fn current() -> Option<Self> {
        current().map(|(context, _)| context)
    }

    /// Makes a span the child of this context (feature `otel`). To be called before anything happens in the span.
    pub fn adopt(&self, span: &Span) {
        adopt(span, self, None);
    }
}

/// Lets a job's metadata carry the current trace context. A context that the caller gave stays, and metadata without room
/// stays as it is: a trace is never a reason to refuse a job.
pub fn carry(metadata: &mut Metadata) {
    carry_or(metadata, &Metadata::new());
}

/// As [`carry`], with the context that other metadata carry when nothing is recorded here.
pub fn carry_or(metadata: &mut Metadata, other: &Metadata) {
    if metadata.contains_key(PARENT) {
        return;
    }
    let found = current()
        .or_else(|| TraceContext::of(other).map(|context| (context, state_of(other).map(str::to_owned))));
    let Some((context, state)) = found else { return };
    context.put(metadata);
    if let Some(state) = state {
        metadata.insert(STATE.to_owned(), state.into());
    }
    if check_metadata(metadata).is_err() {
        metadata.retain(|key, _| !TRACE_KEYS.contains(&key.as_str()));
    }
}

fn state_of(metadata: &Metadata) -> Option<&str> {
    metadata.get(STATE)?.as_str()
}

#[cfg(feature = "otel")]
use otel::{adopt, current};

#[cfg(not(feature = "otel"))]
fn current() -> Option<(TraceContext, Option<String>)> {
    None
}

#[cfg(not(feature = "otel"))]
fn adopt(_span: &Span, _context: &TraceContext, _state: Option<&str>) {}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = windlass_core::lease::hex;
        write!(f, "00-{}-{}-{:02x}", hex(&self.trace_id), hex(&self.span_id), self.flags)
    }
}

/// The span of an attempt. It is nobody's child but the enqueuer's: whoever happened to start the worker is not its cause.
pub(crate) fn span(attempt: &Attempt) -> Span {
    let span = tracing::info_span!(
        parent: None,
        "attempt",
        otel.name = Empty,
        otel.kind = "consumer",
        otel.status_code = Empty,
        otel.status_description = Empty,
        error.type = Empty,
        job = %attempt.job_id(),
        kind = attempt.kind().as_str(),
        queue = attempt.job().queue.as_str(),
        attempt = attempt.number(),
        traceparent = Empty,
        outcome = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    span.record("otel.name", display(format_args!("attempt {}", attempt.kind())));
    if let Some(context) = TraceContext::of(attempt.metadata()) {
        adopt(&span, &context, state_of(attempt.metadata()));
        span.record("traceparent", display(context));
    }
    span
}

/// Puts what became of an attempt on its span.
pub(crate) fn ended(span: &Span, outcome: Option<&Outcome>, attempt: &Attempt) {
    if span.is_disabled() {
        return;
    }
    let word = outcome_word(outcome, attempt.job());
    span.record("outcome", word);
    match outcome {
        Some(Outcome::Fail { error, .. }) => mark_failed(span, error.code().as_str(), error.message()),
        Some(Outcome::TimeOut) => mark_failed(span, word, "the attempt took too long"),
        None => mark_failed(span, word, "the lease was lost"),
        _ => {}
    }
}

fn mark_failed(span: &Span, code: &str, message: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", message);
    span.record("error.type", code);
}

impl Attempt {
    /// The trace context for what this attempt starts: that of the span this code runs in, else the one its job carries.
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::current().or_else(|| TraceContext::of(self.metadata()))
    }

    /// Runs a step or tool in a span of its own, `what` and its name, below the span of the attempt.
    pub async fn traced<T>(
        &self,
        what: &'static str,
        name: &Name,
        work: impl Future<Output = Result<T, HandlerError>>,
    ) -> Result<T, HandlerError> {
        let span = tracing::info_span!(
            "step",
            otel.name = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
            error.type = Empty,
            job = %self.job_id(),
            step = name.as_str(),
            what,
        );
        if span.is_disabled() {
            return work.await;
        }
        span.record("otel.name", display(format_args!("{what} {name}")));
        let done = work.instrument(span.clone()).await;
        if let Err(error) = &done {
            mark_failed(&span, error.error_code(), error.message());
        }
        done
    }
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
