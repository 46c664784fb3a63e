//! Server-sent events: how they are written, and what every stream does.

use crate::access::Principal;
use crate::app::App;
use crate::call::Call;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{self, HeaderName, HeaderValue};
use bytes::Bytes;
use futures_util::stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use windlass_store::fresh;

/// What a stream begins with: how soon to come back when it breaks, in milliseconds.
const OPENING: &str = "retry: 2000\n";
/// Nothing, said so that everybody between sees that the stream is alive.
const COMMENT: &str = ": still here\n\n";

/// One who listens.
pub(crate) trait Listen: Send + 'static {
    /// The next frames; none at the end. It says something now and then, and never waits for ever.
    fn next(&mut self) -> impl Future<Output = Option<VecDeque<Bytes>>> + Send;
}

/// The stream of a listener.
pub(crate) fn respond<L: Listen>(listener: L, first: Bytes) -> Response<Body> {
    let waiting = VecDeque::from([first]);
    let stream = stream::unfold((listener, waiting), |(mut listener, mut waiting)| async {
        loop {
            if let Some(frame) = waiting.pop_front() {
                return Some((Ok::<_, Infallible>(frame), (listener, waiting)));
            }
            waiting = listener.next().await?;
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

/// A sign of life.
pub(crate) const fn comment() -> Bytes {
    Bytes::from_static(COMMENT.as_bytes())
}

/// Where a caller wants to resume: the address says it, or the browser.
pub(crate) fn resume_from(call: &Call) -> Option<String> {
    let header = call.headers.get("last-event-id").and_then(|value| value.to_str().ok());
    call.query.text("after").or(header).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Whether whoever listens may still: a key can be revoked, and a stream lives long.
pub(crate) async fn may_still(app: &Arc<App>, who: &Principal) -> bool {
    match who {
        Principal::Key(key) => match app.gate.find_hash(key.hash).await {
            Ok(found) => found.is_some_and(|key| key.is_valid(fresh::wall_clock())),
            // The store is away: nothing new can be told either.
            Err(_) => true,
        },
        // Once there are keys, nobody listens without one.
        Principal::Owner(_) => true,
        Principal::Local => !app.gate.is_keyed().await.unwrap_or(false),
        Principal::Lease(_) | Principal::Nobody => false,
    }
}
