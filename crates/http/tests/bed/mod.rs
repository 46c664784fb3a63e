//! A test bed: a real server on a port of this machine over a store of each kind, and a real client.

#![allow(dead_code, reason = "each test takes from here what it needs")]

pub mod counting;
pub mod events;

use axum::http::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::any::Any;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use windlass_core::limits::Limits;
use windlass_core::{Role, Who};
use windlass_engine::Shutdown;
use windlass_http::{KeyText, Server};
use windlass_memory::MemoryStore;
use windlass_store::{Limited, PutAccessKey, Store};

/// The longest any condition is awaited. Far more than any of them needs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A store for one test, and what must live as long as it.
pub struct Place {
    pub name: &'static str,
    pub store: Arc<dyn Store>,
    keep: Box<dyn Any + Send + Sync>,
}

/// A store within the default limits, as the command opens it.
fn within_limits(store: impl Store + 'static) -> Arc<dyn Store> {
    Arc::new(Limited::new(Arc::new(store), Limits::default()))
}

impl Place {
    pub fn memory() -> Self {
        Self { name: "memory", store: within_limits(MemoryStore::new()), keep: Box::new(()) }
    }

    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = windlass_sqlite::Options::new(folder.path().join("windlass.db")).open().expect("a store");
        Self { name: "sqlite", store: within_limits(store), keep: Box::new(folder) }
    }

    pub fn around<S: Store + 'static>(self, wrap: impl FnOnce(Arc<dyn Store>) -> S) -> (Self, Arc<S>) {
        let store = Arc::new(wrap(self.store));
        (Self { store: Arc::clone(&store) as Arc<dyn Store>, ..self }, store)
    }

    pub fn other(name: &'static str, store: Arc<dyn Store>, keep: Box<dyn Any + Send + Sync>) -> Self {
        Self { name, store, keep }
    }

    /// Serves it.
    pub async fn serve(self) -> Bed {
        self.serve_with(|server| server).await
    }

    /// Serves it with settings.
    pub async fn serve_with(self, set: impl FnOnce(Server) -> Server) -> Bed {
        let running = Running::start(set(Server::new(Arc::clone(&self.store)))).await;
        Bed { place: self, running, key: None }
    }
}

/// A server that runs.
pub struct Running {
    pub address: SocketAddr,
    pub shutdown: Shutdown,
    pub ended: JoinHandle<std::io::Result<()>>,
    pub client: reqwest::Client,
}

impl Running {
    #[expect(clippy::disallowed_methods, reason = "its end is awaited by the tests that end it")]
    pub async fn start(server: Server) -> Self {
        let listener = server.listen("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shutdown = Shutdown::new();
        let ended = tokio::spawn(server.run(listener, shutdown.clone()));
        // Beside the command, whose client speaks TLS, this one is built to want a provider too, and uses none.
        let _there_already = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { address, shutdown, ended, client }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }
}

/// A served store, and whoever calls it.
pub struct Bed {
    pub place: Place,
    pub running: Running,
    pub key: Option<String>,
}

/// Both stores, served.
pub async fn beds() -> [Bed; 2] {
    [Place::memory().serve().await, Place::sqlite().serve().await]
}

/// What the server answered.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
    pub text: String,
}

impl Answer {
    pub async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("a body");
        let body = serde_json::from_str(&text).unwrap_or_default();
        Self { status, headers, body, text }
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// The problem of an answer with this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        let kind = self.headers["content-type"].to_str().expect("a text");
        assert_eq!(kind, "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["request_id"], self.headers["x-request-id"].to_str().expect("a text"));
        assert_eq!(self.body["type"], format!("/errors/{code}"));
        assert!(
            !self.body["detail"].as_str().expect("a detail").is_empty() && self.body["title"].is_string()
        );
        self.body
    }
}

impl Bed {
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.place.store
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.running.request(method, path);
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path).send().await.expect("an answer")).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        Answer::of(self.request(Method::POST, path).json(&body).send().await.expect("an answer")).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        Answer::of(self.request(Method::PUT, path).json(&body).send().await.expect("an answer")).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path).send().await.expect("an answer")).await
    }

    /// Posts under an idempotency key.
    pub async fn post_once(&self, key: &str, path: &str, body: &Value) -> Answer {
        let request = self.request(Method::POST, path).header("idempotency-key", key).json(body);
        Answer::of(request.send().await.expect("an answer")).await
    }

    /// Enqueues a job of kind `work`, with more fields.
    pub async fn put_job(&self, more: Value) -> String {
        let mut body = json!({ "kind": "work" });
        let more = more.as_object().expect("fields").clone();
        body.as_object_mut().expect("fields").extend(more);
        let answer = self.post("/v1/jobs", body).await.is(201);
        answer["job"]["id"].as_str().expect("an id").to_owned()
    }

    /// Claims a job by its id, and answers its lease token.
    pub async fn hold(&self, id: &str) -> String {
        let body = json!({ "worker_id": "w1" });
        let answer = self.post(&format!("/v1/jobs/{id}/claim"), body).await.is(200);
        answer["job"]["lease"]["token"].as_str().expect("a token").to_owned()
    }

    /// Enqueues and claims.
    pub async fn held_job(&self) -> (String, String) {
        let id = self.put_job(json!({})).await;
        let token = self.hold(&id).await;
        (id, token)
    }

    pub async fn job(&self, id: &str) -> Value {
        self.get(&format!("/v1/jobs/{id}")).await.is(200)
    }

    /// Makes a key behind the server's back.
    pub async fn make_key(&self, name: &str, roles: &[Role], queues: Option<&[&str]>) -> String {
        make_key(self.store(), name, roles, queues).await
    }

    /// The same bed as somebody with this key.
    pub fn with_key(mut self, key: Option<String>) -> Self {
        self.key = key;
        self
    }
}

pub async fn make_key(store: &Arc<dyn Store>, name: &str, roles: &[Role], queues: Option<&[&str]>) -> String {
    let text = KeyText::fresh();
    let name_of = |queue: &&str| windlass_core::Name::parse("queue", queue).expect("a name");
    let request = PutAccessKey {
        name: Who::parse("name", name).expect("a name"),
        hash: text.hash(),
        roles: roles.to_vec(),
        queues: queues.map(|queues| queues.iter().map(name_of).collect()),
        expires_at: None,
        actor: windlass_core::Actor::api(),
    };
    assert!(store.put_access_key(request, None).await.expect("the store"));
    text.as_str().to_owned()
}

/// Waits for something, with a deadline.
pub async fn soon<T>(what: &str, answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, answer).await.unwrap_or_else(|_| panic!("waited a minute in vain: {what}"))
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    soon(what, async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
