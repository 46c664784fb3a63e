//! `/healthz`, `/readyz`, `/metrics`: for whoever watches the server.

use crate::call::{Call, Reply, ok};
use crate::codes;
use crate::metrics;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{self, HeaderValue};
use serde::Serialize;
use utoipa::ToSchema;

/// How the server stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Health)]
pub(crate) struct Health {
    /// `ok` or `ready`.
    status: &'static str,
}

/// `GET /healthz`: the process is alive.
pub(crate) async fn healthz(_: Call) -> Reply {
    ok(&Health { status: "ok" })
}

/// `GET /readyz`: the store answers and takes writes. The reader of the feed asks it every second, and whoever writes
/// learns the rest, so this asks nothing.
pub(crate) async fn readyz(call: Call) -> Reply {
    if call.app.is_ending() {
        let detail = "the server is ending; send requests elsewhere";
        return Err(Problem::new(codes::UNAVAILABLE, detail).header(header::RETRY_AFTER, "5"));
    }
    if call.app.hub.is_silent() {
        let detail = "the store does not answer; see the log of this server";
        return Err(Problem::new(codes::UNAVAILABLE, detail).header(header::RETRY_AFTER, "1"));
    }
    if let Some(why) = call.app.writes.refused() {
        let detail = format!("no writes are taken; {}", why.advice());
        return Err(Problem::new(codes::UNAVAILABLE, detail).header(header::RETRY_AFTER, "1"));
    }
    ok(&Health { status: "ready" })
}

/// `GET /metrics`: counts of every queue, so for keys of every queue.
pub(crate) async fn metrics(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let mut response = Response::new(Body::from(metrics::render(&call.app).await));
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}
