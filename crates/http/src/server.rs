//! The server: what it listens on, how connections are kept, and how it ends.

use crate::app::App;
use crate::background;
use crate::body::Patience;
use crate::direct;
use crate::dispatch;
use crate::metrics_listener;
use crate::stall::Stalling;
use crate::throttle::{Caller, Limits, Peer};
use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tower::ServiceExt;
use windlass_core::LeaseMs;
use windlass_engine::archive::Archive;
use windlass_engine::service::{Endpoints, Publishers};
use windlass_engine::{Level, Shutdown};
use windlass_store::{Store, StoreError};

/// How long a connection may be silent between requests, or within the head of one.
const HEAD: Duration = Duration::from_secs(75);
/// How long a client may read nothing of what it asked for.
const STALLED: Duration = Duration::from_secs(60);
/// How long requests have to end.
const DEADLINE: Duration = Duration::from_secs(25);
/// How often a silent stream says that it is there.
const COMMENT: Duration = Duration::from_secs(15);
/// How long the end waits for this server to resign as leader, so that another leads at once.
const RESIGNING: Duration = Duration::from_secs(2);
/// How long jobs that are with an endpoint may take to come back when the server ends.
const DRAINING: Duration = Duration::from_secs(25);
/// The most connections at once; more wait to be accepted.
const CONNECTIONS: usize = 20_000;

/// The JSON API over a store.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::sync::Arc;
/// use windlass_engine::Shutdown;
/// use windlass_http::Server;
///
/// let server = Server::new(Arc::new(windlass_memory::MemoryStore::new()));
/// let listener = server.listen("127.0.0.1:0").await?;
/// let shutdown = Shutdown::new();
/// # shutdown.graceful();
/// server.run(listener, shutdown).await?;
/// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "nothing is served before `run`"]
pub struct Server {
    store: Arc<dyn Store>,
    patience: Patience,
    stalled: Duration,
    deadline: Duration,
    comment_every: Duration,
    connections: usize,
    sweeps: bool,
    schedules: bool,
    limits: Limits,
    lease_ms: LeaseMs,
    metrics: Option<Arc<TcpListener>>,
    publishers: Option<Arc<dyn Publishers>>,
    endpoints: Option<Arc<dyn Endpoints>>,
    archive: Option<Arc<dyn Archive>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Others could reach it, and nothing would keep them out.
    #[error(
        "will not listen on {0} without a key, for whoever reaches it could do everything; make one first \
         (windlass keys create admin --role admin), or listen on 127.0.0.1"
    )]
    NoKey(SocketAddr),
    /// The address is taken or not allowed.
    #[error("cannot listen on {0}: {1}; choose another address")]
    Address(String, io::Error),
    /// The store could not say whether there is a key.
    #[error("cannot tell whether there is a key, because {0}")]
    Store(#[from] StoreError),
}

impl Server {
    /// A server over `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            patience: Patience::default(),
            stalled: STALLED,
            deadline: DEADLINE,
            comment_every: COMMENT,
            connections: CONNECTIONS,
            sweeps: true,
            schedules: false,
            limits: Limits::default(),
            lease_ms: LeaseMs::DEFAULT,
            metrics: None,
            publishers: None,
            endpoints: None,
            archive: None,
        }
    }

    /// Sends jobs of queues with an endpoint there.
    pub fn endpoints(mut self, endpoints: Arc<dyn Endpoints>) -> Self {
        self.endpoints = Some(endpoints);
        self
    }

    /// Carries events to where subscriptions say, while this server leads; with [`Server::schedules`].
    pub fn publishers(mut self, publishers: Arc<dyn Publishers>) -> Self {
        self.publishers = Some(publishers);
        self
    }

    /// How long a lease lasts when its holder does not say; 30 seconds unless said otherwise.
    pub fn default_lease(mut self, lease_ms: LeaseMs) -> Self {
        self.lease_ms = lease_ms;
        self
    }

    /// Serves `/metrics`, `/healthz` and `/readyz` also here, without a key: for an address that only those who measure can
    /// reach.
    pub fn metrics_on(mut self, listener: TcpListener) -> Self {
        self.metrics = Some(Arc::new(listener));
        self
    }

    /// How long requests have to end after a graceful shutdown began; 25 seconds unless said otherwise, which leaves room
    /// within the 30 that supervisors usually give.
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long a client may pause within a body, and read nothing of an answer, before it is given up.
    pub fn patience(mut self, piece: Duration, stalled: Duration) -> Self {
        self.patience.piece = piece;
        self.stalled = stalled;
        self
    }

    /// How often a silent stream says that it is there; 15 seconds unless said otherwise.
    pub fn comment_every(mut self, every: Duration) -> Self {
        self.comment_every = every;
        self
    }

    /// The most connections at once; 20,000 unless said otherwise. More wait to be accepted.
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// What one caller may do, by key or by address: wrong keys and links per minute (100 unless said otherwise).
    pub fn wrong_per_minute(mut self, most: u32) -> Self {
        self.limits.wrong = most;
        self
    }

    /// What one caller may have open, by key or by address: streams of events, and connections. Unless said otherwise
    /// 1,000 each, and any number for callers of this machine.
    pub fn open_per_caller(mut self, streams: usize, connections: usize) -> Self {
        self.limits.streams = Some(streams);
        self.limits.connections = Some(connections);
        self
    }

    /// Whether the server looks at deadlines now and then, as every worker does; yes unless said otherwise. Without it
    /// and without workers of the engine, timeouts and expired waits are noticed only when somebody touches the job.
    pub fn sweeps(mut self, sweeps: bool) -> Self {
        self.sweeps = sweeps;
        self
    }

    /// Whether the server leads when it can: fires schedules, counts stats and does all else of `LedServices`; no unless
    /// said. `windlass serve` does. Of all servers and workers that would, one does at a time, servers before workers.
    pub fn schedules(mut self, fires: bool) -> Self {
        self.schedules = fires;
        self
    }

    /// Where finished jobs are kept once they left the store. A server that leads removes them as the settings say.
    pub fn archive(mut self, archive: Arc<dyn Archive>) -> Self {
        self.archive = Some(archive);
        self
    }

    /// Binds an address. One that others can reach is refused while no key exists.
    ///
    /// # Errors
    /// If the address cannot be bound, if there is no key for one that others can reach, or if the store cannot tell.
    pub async fn listen(
        &self,
        address: impl ToSocketAddrs + std::fmt::Debug,
    ) -> Result<TcpListener, ListenError> {
        let named = format!("{address:?}");
        let failed = |error| ListenError::Address(named.trim_matches('"').to_owned(), error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        if !local.ip().is_loopback() && self.store.access_keys((), None).await?.is_empty() {
            return Err(ListenError::NoKey(local));
        }
        Ok(listener)
    }

    /// The routes alone, to be served by somebody else's server. Whoever calls them must show a key; streams of events
    /// need [`Server::run`], which reads the feed.
    pub fn router(&self) -> Router {
        dispatch::router(&self.app())
    }

    fn app(&self) -> Arc<App> {
        let store = Arc::clone(&self.store);
        let mut app = App::new(store, self.patience, self.comment_every, self.limits, self.lease_ms);
        app.archive.clone_from(&self.archive);
        Arc::new(app)
    }

    /// Serves until the shutdown: then no connection is accepted, streams and waiting claims end at once, and requests
    /// have until the deadline.
    ///
    /// # Errors
    /// If the listener is of no use.
    pub async fn run(self, listener: TcpListener, shutdown: Shutdown) -> io::Result<()> {
        let app = self.app();
        app.set_loopback(listener.local_addr()?.ip().is_loopback());
        let mut parts = background::start(
            &app,
            self.sweeps,
            self.schedules,
            self.publishers.clone(),
            self.endpoints.clone(),
        );
        if let Some(listener) = self.metrics {
            parts.spawn(metrics_listener::run(listener, Arc::clone(&app)));
        }
        let router = dispatch::router(&app);
        let mut connections = JoinSet::new();
        let room = Arc::new(Semaphore::new(self.connections));
        let graceful = shutdown.reached(Level::Graceful);
        tokio::pin!(graceful);
        loop {
            let accepted = tokio::select! {
                () = &mut graceful => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&listener, &room) => accepted,
            };
            match accepted {
                Ok((stream, peer, place)) => {
                    let (router, app, stalled) = (router.clone(), Arc::clone(&app), self.stalled);
                    let Some(counted) = app.throttle.connection(&Caller::at(peer.0)) else {
                        app.metrics.denied("too_many_requests");
                        turn_away(&stream);
                        continue;
                    };
                    connections.spawn(async move {
                        if let Some(stream) = direct::take(stream, peer, &router, &app, HEAD, stalled).await {
                            // Boxed, so that streams of events do not take as much room.
                            Box::pin(keep(stream, peer, router, app, stalled)).await;
                        }
                        drop((place, counted));
                    });
                }
                Err(error) => {
                    // Of one connection, or because there is no room for another one: the others go on.
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        app.ending.graceful();
        let deadline = Instant::now() + self.deadline;
        let now = shutdown.reached(Level::Now);
        tokio::pin!(now);
        while !connections.is_empty() {
            tokio::select! {
                _ = connections.join_next() => {}
                () = sleep_until(deadline) => break,
                () = &mut now => break,
            }
        }
        if !connections.is_empty() {
            tracing::warn!(connections = connections.len(), "requests did not end in time and are cut off");
        }
        connections.shutdown().await;
        if self.schedules && timeout(RESIGNING, app.resigned.notified()).await.is_err() {
            tracing::debug!("the leader's term could not be resigned; it ends by itself");
        }
        if self.endpoints.is_some() && timeout(DRAINING, app.drained.notified()).await.is_err() {
            tracing::warn!("jobs are still with an endpoint; they are sent again when their leases are over");
        }
        parts.shutdown().await;
        Ok(())
    }

    /// As [`Server::run`], until a future ends.
    ///
    /// # Errors
    /// If the listener is of no use.
    pub async fn run_until(self, listener: TcpListener, end: impl Future<Output = ()>) -> io::Result<()> {
        let shutdown = Shutdown::new();
        let running = self.run(listener, shutdown.clone());
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => return ended,
            () = end => shutdown.graceful(),
        }
        running.await
    }
}

/// The next connection, as soon as there is room for one.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, Peer, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    // Events are small and wait for nobody.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone before it began");
    }
    Ok((stream, Peer(peer.ip()), place))
}

/// Answers a caller that has too many connections open, and reads nothing.
fn turn_away(stream: &TcpStream) {
    let answer =
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    if let Err(error) = stream.try_write(answer) {
        tracing::debug!(%error, "a connection too many was gone before it was answered");
    }
}

/// Serves one connection to its end.
async fn keep(stream: TcpStream, peer: Peer, router: Router, app: Arc<App>, stalled: Duration) {
    let io = Stalling::new(TokioIo::new(stream), stalled);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(64 << 10);
    let router = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request
    });
    let connection = builder.serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = app.ending.reached(Level::Graceful) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
