//! Server-sent events: how they are written, and what every stream does.

use crate::call::Call;
use crate::pass::Pass;
use crate::problem::Problem;
use crate::throttle::Counted;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{self, HeaderName, HeaderValue};
use bytes::Bytes;
use futures_util::stream;
use std::collections::VecDeque;
use std::convert::Infallible;

/// What a stream begins with: how soon to come back when it breaks, in milliseconds.
const OPENING: &str = "retry: 2000\n";
/// Nothing, said so that everybody between sees that the stream is alive.
const COMMENT: &str = ": still here\n\n";

/// What a stream is open under, and counted by.
pub(crate) struct Open {
    pass: Pass,
    _counted: Counted,
}

impl Open {
    /// Opens a stream for a caller, unless it has too many.
    pub(crate) fn of(call: &Call) -> Result<Self, Problem> {
        let _counted = call.app.throttle.stream(&call.who.caller(&call.caller))?;
        Ok(Self { pass: call.who.pass(&call.app), _counted })
    }
}

/// One who listens.
pub(crate) trait Listen: Send + 'static {
    /// The next frames; none at the end. It says something now and then, and never waits for ever.
    fn next(&mut self) -> impl Future<Output = Option<VecDeque<Bytes>>> + Send;
}

/// The stream of a listener.
pub(crate) fn respond<L: Listen>(listener: L, open: Open, first: Bytes) -> Response<Body> {
    let waiting = VecDeque::from([first]);
    let stream = stream::unfold((listener, open, waiting), |(mut listener, mut open, mut waiting)| async {
        loop {
            if open.pass.is_over() {
                return None;
            }
            if let Some(frame) = waiting.pop_front() {
                return Some((Ok::<_, Infallible>(frame), (listener, open, waiting)));
            }
            // A listener that is given up here is not asked again.
            waiting = tokio::select! {
                next = listener.next() => next?,
                () = open.pass.over() => return None,
            };
        }
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that gather answers would hold the stream back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// What a stream begins with: from where it can be resumed before any event came.
pub(crate) fn opening(cursor: &str) -> Bytes {
    Bytes::from(format!("{OPENING}id: {cursor}\n\n"))
}

/// A cursor without an event.
pub(crate) fn place(cursor: &str) -> Bytes {
    Bytes::from(format!("id: {cursor}\n\n"))
}

/// How many events were left out, for newer ones of the same jobs, or because there were too many.
pub(crate) fn skipped(n: u64) -> Bytes {
    Bytes::from(format!("event: skipped\ndata: {{\"skipped\":{n}}}\n\n"))
}

/// A sign of life.
pub(crate) const fn comment() -> Bytes {
    Bytes::from_static(COMMENT.as_bytes())
}

/// Where a caller wants to resume: the address says it, or the browser.
pub(crate) fn resume_from(call: &Call) -> Option<String> {
    let header = call.headers.get("last-event-id").and_then(|value| value.to_str().ok());
    call.query.text("after").or(header).filter(|text| !text.is_empty()).map(str::to_owned)
}
