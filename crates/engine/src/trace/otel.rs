//! Between a job's trace context and OpenTelemetry's.

use super::TraceContext;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use std::str::FromStr;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The context of the current span of `tracing`; of a program that uses OpenTelemetry alone, the one it made current.
pub(super) fn current() -> Option<(TraceContext, Option<String>)> {
    let of = |context: &Context| {
        let span = context.span();
        let span = span.span_context();
        span.is_valid().then(|| {
            let context = TraceContext {
                trace_id: span.trace_id().to_bytes(),
                span_id: span.span_id().to_bytes(),
                flags: span.trace_flags().to_u8(),
            };
            (context, Some(span.trace_state().header()).filter(|state| !state.is_empty()))
        })
    };
    of(&Span::current().context()).or_else(|| of(&Context::current()))
}

/// Makes a span the child of a context elsewhere, and links it to it as messaging conventions ask of consumers.
pub(super) fn adopt(span: &Span, context: &TraceContext, state: Option<&str>) {
    let remote = SpanContext::new(
        TraceId::from_bytes(context.trace_id),
        SpanId::from_bytes(context.span_id),
        TraceFlags::new(context.flags),
        true,
        state.and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default(),
    );
    // Refused only where no layer of OpenTelemetry listens: then there is nothing to tell.
    let _ = span.set_parent(Context::new().with_remote_span_context(remote.clone()));
    span.add_link(remote);
}
