//! From the table of routes to a router. What is the same for every request is done here, once: its id, who may, how much
//! of a body is read, what is measured, which headers go out.

use crate::access;
use crate::app::App;
use crate::body;
use crate::call::{Call, Reply};
use crate::codes;
use crate::problem::Problem;
use crate::query::Query;
use crate::request_id::{RequestId, X_REQUEST_ID};
use crate::route::Route;
use crate::routes;
use crate::throttle::Peer;
use axum::RequestExt;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Response};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::time::{Instant, timeout};
use tracing::Instrument;
use tracing::field::Empty;
use windlass_engine::TraceContext;
use windlass_store::StoreError;

/// The router of every route.
pub(crate) fn router(app: &Arc<App>) -> Router {
    router_of(app, |_| true)
}

/// The router of some routes.
pub(crate) fn router_of(app: &Arc<App>, is_served: impl Fn(&Route) -> bool) -> Router {
    let mut router = Router::new();
    for route in routes::table().into_iter().filter(is_served) {
        let (app, route) = (Arc::clone(app), Arc::new(route));
        let (path, filter) = (route.path, filter(&route.method));
        let handler = move |request: Request| {
            let (app, route) = (Arc::clone(&app), Arc::clone(&route));
            async move { serve(app, Some(route), request).await }
        };
        router = router.route(path, on(filter, handler));
    }
    let (here, there) = (Arc::clone(app), Arc::clone(app));
    router
        .method_not_allowed_fallback(move |request: Request| {
            let app = Arc::clone(&here);
            async move { serve(app, None, request).await }
        })
        .fallback(move |request: Request| {
            let app = Arc::clone(&there);
            async move { serve(app, None, request).await }
        })
}

fn filter(method: &Method) -> MethodFilter {
    match *method {
        Method::POST => MethodFilter::POST,
        Method::PUT => MethodFilter::PUT,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}

/// Serves one request, whatever becomes of it.
async fn serve(app: Arc<App>, route: Option<Arc<Route>>, request: Request) -> Response<Body> {
    let started = Instant::now();
    let id = RequestId::of(request.headers());
    let method = request.method().clone();
    let path = route.as_ref().map_or("", |route| route.path);
    let span = tracing::info_span!(
        "request",
        otel.name = %format_args!("{method} {path}"),
        otel.kind = "server",
        otel.status_code = Empty,
        id = id.as_str(),
        %method,
        route = path,
        status = Empty,
    );
    if let Some(context) = trace_context(request.headers()) {
        context.adopt(&span);
    }
    let counted = app.metrics.began();
    let handled = AssertUnwindSafe(handle(&app, route.as_deref(), request)).catch_unwind();
    let reply = handled.instrument(span.clone()).await;
    let _in_span = span.enter();
    let reply = reply.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("");
        tracing::error!(panic = said, "a handler panicked; this is a bug");
        Err(Problem::new(
            codes::INTERNAL,
            "the server made a mistake, which is in its log under this request id",
        ))
    });
    let mut response = reply.unwrap_or_else(|problem| {
        let code = problem.code();
        tracing::debug!(code = code.code, detail = problem.detail(), "refused");
        app.writes.learn(&method, &problem);
        problem.respond(&id)
    });
    let took = started.elapsed();
    span.record("status", response.status().as_u16());
    if response.status().is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    tracing::debug!(status = response.status().as_u16(), ?took, "answered");
    counted.ended(&method, path, response.status(), took);
    guard(response.headers_mut());
    response.headers_mut().insert(X_REQUEST_ID, id.header());
    response
}

/// The trace that a request belongs to, if it says so (W3C Trace Context).
pub(crate) fn trace_context(headers: &HeaderMap) -> Option<TraceContext> {
    TraceContext::parse(headers.get("traceparent")?.to_str().ok()?)
}

/// Headers that every answer has. What a handler set stays.
fn guard(headers: &mut HeaderMap) {
    let defaults = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in defaults {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

async fn handle(app: &Arc<App>, route: Option<&Route>, mut request: Request) -> Reply {
    let Some(route) = route else { return Err(lost(&request)) };
    let unreadable =
        |what: &str| Problem::new(codes::MALFORMED_REQUEST, format!("the {what} cannot be read"));
    let segments = request.extract_parts::<RawPathParams>().await.map_err(|_| unreadable("path"))?;
    let segments = segments.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (parts, body) = request.into_parts();
    let (caller, peer) = (access::caller_of(&parts), parts.extensions.get().copied());
    let who = access::enter(app, route, &parts).await.inspect_err(|problem| {
        note_refused(app, route, "nobody", peer, problem);
    })?;
    let name = who.name();
    access::check_role(route, &who).inspect_err(|problem| note_refused(app, route, &name, peer, problem))?;
    let query = Query::parse(parts.uri.query(), &route.params)?;
    let body = if route.takes.is_some() {
        let is_stranger = matches!(who, access::Principal::Nobody);
        let max = if is_stranger { route.stranger_max_bytes } else { body::MAX_BYTES };
        let body = body::read(body, &parts.headers, max, app.patience).await?;
        body::check_type(&parts.headers, &body)?;
        body
    } else {
        Bytes::new()
    };
    let (method, headers) = (parts.method, parts.headers);
    let path = parts.uri.path().to_owned();
    let call = Call { app: Arc::clone(app), who, caller, method, path, segments, query, headers, body };
    let answered =
        timeout(route.deadline(), (route.handler)(call)).await.unwrap_or_else(|_| Err(late(route)));
    answered.inspect_err(|problem| note_refused(app, route, &name, peer, problem))
}

/// A store that says nothing for as long as a request may take.
fn late(route: &Route) -> Problem {
    let silent = "the store did not answer in time".to_owned();
    let is_read = route.method == Method::GET;
    if is_read { StoreError::Unavailable(silent).into() } else { StoreError::Indeterminate(silent).into() }
}

/// Refused access is counted, and logged as long as nobody floods the log.
fn note_refused(app: &App, route: &Route, who: &str, peer: Option<Peer>, problem: &Problem) {
    let code = problem.code();
    // A full lane says nothing about who asks.
    if !matches!(code.status, 401 | 403 | 429) || code == codes::LANE_FULL {
        return;
    }
    app.metrics.denied(code.code);
    if app.throttle.may_log() {
        let address = peer.map(|Peer(address)| address.to_string()).unwrap_or_default();
        tracing::warn!(code = code.code, who, address, route = ?route, "access was refused");
    }
}

/// There is no such route, or it has no such method.
fn lost(request: &Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    let table = routes::table();
    let there: Vec<&Route> = table.iter().filter(|route| fits(route.path, path)).collect();
    // As in the router, a path that is written out goes before one with a parameter.
    let is_written_out = there.iter().any(|route| route.path == path);
    let there: Vec<&str> = there
        .into_iter()
        .filter(|route| !is_written_out || route.path == path)
        .map(|route| route.method.as_str())
        .collect();
    if there.is_empty() {
        let detail = format!("there is no route {path}; the routes are listed in /openapi.json");
        return Problem::new(codes::ROUTE_NOT_FOUND, detail);
    }
    let detail = format!("{path} has no method {method}; it has {}", there.join(", "));
    Problem::new(codes::METHOD_NOT_ALLOWED, detail).header(header::ALLOW, &there.join(", "))
}

fn fits(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(rest), Some(_)) if rest.starts_with("{*") => return true,
            (Some(known), Some(given)) if known == given || (known.starts_with('{') && !given.is_empty()) => {
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fit_their_pattern() {
        assert!(fits("/v1/jobs/{id}", "/v1/jobs/7") && !fits("/v1/jobs/{id}", "/v1/jobs/"));
        assert!(!fits("/v1/jobs", "/v1/jobs/7") && !fits("/v1/jobs/{id}", "/v1/jobs"));
    }
}
