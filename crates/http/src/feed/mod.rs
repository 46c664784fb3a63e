//! The feed over HTTP: one reader of the store's feed, however many listen.
//!
//! | to learn about | read |
//! |---|---|
//! | the one reader, and the recent events it keeps | `hub` |
//! | one event, written once for all listeners | `item` |
//! | which events a listener wants | `want` |
//! | a listener of everything: from a cursor to the live end without gap or repeat | `listen` |
//! | a listener that is told at most so often | `gather` |
//! | a listener of one job | `job` |
//! | pages of the feed as JSON | `page` |
//! | how server-sent events are written | `sse` |
//! | what happened in the last minute | `rates` |

mod gather;
mod hub;
mod item;
mod job;
mod listen;
mod page;
mod rates;
mod sse;
mod want;

use crate::call::{Call, Reply};
use axum::http::header;

pub(crate) use hub::Hub;
pub(crate) use page::FeedPageShape;

/// `GET /v1/feed`
pub(crate) async fn feed(call: Call) -> Reply {
    if wants_json(&call) { page::page(call).await } else { listen::stream(call).await }
}

/// `GET /v1/jobs/{id}/feed`
pub(crate) async fn job_feed(call: Call) -> Reply {
    if wants_json(&call) { job::page(call).await } else { job::stream(call).await }
}

/// Whether the caller asks for JSON pages rather than for a stream.
fn wants_json(call: &Call) -> bool {
    let accept = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("application/json") && !accept.contains("text/event-stream")
}
