//! Handlers: services from an attempt to a result, found by kind, wrapped in layers.

use crate::attempt::Attempt;
use crate::error::HandlerError;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};
use windlass_core::{Name, Payload};

/// What layers of other crates call any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Future_ = futures_util::future::BoxFuture<'static, Result<Option<Payload>, HandlerError>>;

/// A handler: a [`tower::Service`] from an [`Attempt`] to the job's result. Cheap to clone.
#[derive(Clone)]
pub struct Handler(BoxCloneSyncService<Attempt, Option<Payload>, HandlerError>);

impl Handler {
    /// From an async function.
    ///
    /// ```
    /// # use windlass_engine::{Handler, HandlerError};
    /// let echo = Handler::from_fn(|attempt| async move { Ok::<_, HandlerError>(attempt.payload().cloned()) });
    /// ```
    pub fn from_fn<F, Fut>(run: F) -> Self
    where
        F: Fn(Attempt) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Payload>, HandlerError>> + Send + 'static,
    {
        Self(BoxCloneSyncService::new(tower::service_fn(run)))
    }

    /// From any service. What it answers as an error is retried, unless it is a [`HandlerError`] on its way out.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Attempt, Response = Option<Payload>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        let told = |error: S::Error| HandlerError::from_boxed(error.into());
        Self(BoxCloneSyncService::new(service.map_err(told)))
    }

    /// From one service that all attempts share, also one that cannot be cloned, such as a rate limit. Attempts ask it one
    /// after the other whether it is ready, in the order they came, and then run beside each other.
    pub fn shared<S>(service: S) -> Self
    where
        S: Service<Attempt, Response = Option<Payload>> + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        // Of tokio, because it is held while somebody waits for the service to be ready.
        let service = Arc::new(tokio::sync::Mutex::new(service));
        Self::from_fn(move |attempt| {
            let service = Arc::clone(&service);
            async move {
                let told = |error: S::Error| HandlerError::from_boxed(error.into());
                let running = {
                    let mut service = service.lock().await;
                    poll_fn(|cx| service.poll_ready(cx)).await.map_err(told)?;
                    service.call(attempt)
                };
                running.await.map_err(told)
            }
        })
    }

    /// This handler inside a layer, as a service that all attempts share.
    #[must_use]
    pub fn layer<L>(self, layer: &L) -> Self
    where
        L: Layer<Self>,
        L::Service: Service<Attempt, Response = Option<Payload>> + Send + 'static,
        <L::Service as Service<Attempt>>::Error: Into<BoxError>,
        <L::Service as Service<Attempt>>::Future: Send + 'static,
    {
        Self::shared(layer.layer(self))
    }
}

impl Service<Attempt> for Handler {
    type Response = Option<Payload>;
    type Error = HandlerError;
    type Future = Future_;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HandlerError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, attempt: Attempt) -> Future_ {
        self.0.call(attempt)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

/// Handlers by kind.
#[derive(Debug, Clone, Default)]
pub struct Handlers {
    kinds: HashMap<Name, Handler>,
    any: Option<Handler>,
}

impl Handlers {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs jobs of `kind` with `handler`; false if the kind had one, which is replaced.
    pub fn insert(&mut self, kind: Name, handler: Handler) -> bool {
        self.kinds.insert(kind, handler).is_none()
    }

    /// Runs jobs of every kind that has no handler of its own.
    pub fn insert_any(&mut self, handler: Handler) {
        self.any = Some(handler);
    }

    /// Wraps all that are here now.
    pub fn layer<L>(&mut self, layer: &L)
    where
        L: Layer<Handler>,
        L::Service: Service<Attempt, Response = Option<Payload>> + Send + 'static,
        <L::Service as Service<Attempt>>::Error: Into<BoxError>,
        <L::Service as Service<Attempt>>::Future: Send + 'static,
    {
        for handler in self.kinds.values_mut().chain(self.any.as_mut()) {
            *handler = handler.clone().layer(layer);
        }
    }

    /// The handler of a kind.
    pub fn get(&self, kind: &Name) -> Option<&Handler> {
        self.kinds.get(kind).or(self.any.as_ref())
    }

    /// What to ask a claim for: sorted kinds, none for all of them.
    pub fn kinds(&self) -> Vec<Name> {
        if self.any.is_some() {
            return Vec::new();
        }
        let mut kinds: Vec<Name> = self.kinds.keys().cloned().collect();
        kinds.sort();
        kinds
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.any.is_none()
    }
}
