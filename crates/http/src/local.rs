//! The API without a network: for whoever has opened the store itself, and so may everything.

use crate::access::Owner;
use crate::server::Server;
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, header};
use http_body_util::BodyExt;
use std::sync::Arc;
use tower::ServiceExt;
use windlass_core::Actor;
use windlass_store::Store;

/// The routes over a store, called in this process. What an operator does on a store and through a server is the same code,
/// with the same answers.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # use std::sync::Arc;
/// use windlass_core::Actor;
/// use windlass_http::Local;
///
/// let local = Local::new(Arc::new(windlass_memory::MemoryStore::new()), Actor::parse("actor", "cli:ada").unwrap());
/// let (status, body) = local.ask("GET", "/v1/queues", None, None).await;
/// assert_eq!((status, body.as_str()), (200, r#"{"queues":[]}"#));
/// # });
/// ```
#[derive(Clone)]
pub struct Local {
    router: Router,
    actor: Actor,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").field("actor", &self.actor).finish_non_exhaustive()
    }
}

impl Local {
    /// Calls routes over `store` in the name of `actor`.
    pub fn new(store: Arc<dyn Store>, actor: Actor) -> Self {
        Self::of(&Server::new(store), actor)
    }

    /// Calls the routes of a server in the name of `actor`.
    pub fn of(server: &Server, actor: Actor) -> Self {
        Self { router: server.router(), actor }
    }

    /// Calls a route, and answers its status and JSON. Streams are not for this: they have no end.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        idempotency_key: Option<&str>,
    ) -> (u16, String) {
        let mut request = Request::new(Body::from(body.unwrap_or_default()));
        let (Ok(method), Ok(uri)) = (method.parse::<Method>(), path.parse()) else {
            return (400, format!("{{\"detail\":\"there is no route {method} with such a path\"}}"));
        };
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        let json = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json.clone());
        request.headers_mut().insert(header::ACCEPT, json);
        if let Some(Ok(key)) = idempotency_key.map(str::parse) {
            request.headers_mut().insert("idempotency-key", key);
        }
        request.extensions_mut().insert(Owner(self.actor.clone()));
        let Ok(response) = self.router.clone().oneshot(request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
}
