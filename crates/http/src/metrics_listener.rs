//! An address of its own for whoever measures: `/metrics`, `/healthz` and `/readyz`, without a key.

use crate::access::Owner;
use crate::app::App;
use crate::dispatch;
use axum::Router;
use axum::http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::ServiceExt;
use windlass_core::Actor;

/// The routes that are served here.
const PATHS: [&str; 3] = ["/metrics", "/healthz", "/readyz"];
/// The most connections at once; more wait to be accepted.
const CONNECTIONS: usize = 64;
/// How long a connection may be silent.
const SILENT: Duration = Duration::from_secs(75);
/// How long a connection is kept at all, so that none is held for ever by somebody who reads nothing.
const KEPT: Duration = Duration::from_secs(3_600);

/// Serves until it is dropped.
pub(crate) async fn run(listener: Arc<TcpListener>, app: Arc<App>) {
    let Ok(actor) = Actor::parse("actor", "metrics") else { return };
    let elsewhere = async || (StatusCode::NOT_FOUND, "only /metrics, /healthz and /readyz are served here\n");
    let router = dispatch::router_of(&app, |route| PATHS.contains(&route.path)).fallback(elsewhere);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(), if connections.len() < CONNECTIONS => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                drop(connections.spawn(timeout(KEPT, keep(stream, router.clone(), actor.clone()))))
            }
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics could not be accepted");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn keep(stream: TcpStream, router: Router, actor: Actor) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(SILENT).max_buf_size(64 << 10);
    // Whoever reaches this address may ask what is served here.
    let router = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Owner(actor.clone()));
        request
    });
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection for metrics broke");
    }
}
