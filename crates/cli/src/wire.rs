//! One request and what comes back, once, from a server or from the same routes in this process. Whether to send it again is
//! for whoever knows what it means.

use crate::fail::{Exit, Failure, Outcome};
use crate::shape::Reply;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Client;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::Actor;
use windlass_engine::archive::Archive;
use windlass_http::{Local, Server};
use windlass_store::Store;

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(10);
/// The code of an answer that was lost after the request may have been carried out.
pub const UNKNOWN: &str = "outcome_unknown";

/// Where requests go.
#[derive(Debug, Clone)]
pub enum Wire {
    /// To a server.
    Net {
        /// Keeps connections.
        client: Client,
        /// Its URL.
        base: String,
        /// What opens it.
        key: Option<String>,
    },
    /// To a store that this process has opened.
    Here(Local),
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// How.
    pub method: &'a str,
    /// What, from the first slash on.
    pub path: &'a str,
    /// JSON.
    pub body: Option<&'a str>,
    /// Makes a repeat the same request.
    pub idempotency_key: Option<&'a str>,
    /// How long the answer may take.
    pub patience: Duration,
}

impl Wire {
    /// To the server at `url`.
    pub fn to(url: &str, key: Option<String>) -> Outcome<Self> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Failure::usage("the server's URL must begin with http:// or https://"));
        }
        // Nobody else installs one; a second time is no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let built = Client::builder().connect_timeout(CONNECTING).build();
        let client = built.map_err(|e| Failure::failed(format!("no HTTP client can be made: {e}")))?;
        Ok(Self::Net { client, base: url.trim_end_matches('/').to_owned(), key })
    }

    /// To a store, in the name of `actor`.
    pub fn on(store: Arc<dyn Store>, archive: Option<Arc<dyn Archive>>, actor: Actor) -> Self {
        let mut server = Server::new(store);
        if let Some(archive) = archive {
            server = server.archive(archive);
        }
        Self::Here(Local::of(&server, actor))
    }

    /// Sends a request that is answered with JSON.
    pub async fn send(&self, request: Request<'_>) -> Outcome<Reply> {
        let (status, text) = self.ask(request).await?;
        understood(status, text)
    }

    /// The status and the text that a request is answered with.
    async fn ask(&self, request: Request<'_>) -> Outcome<(u16, String)> {
        let Request { method, path, body, idempotency_key, patience } = request;
        let (client, base, key) = match self {
            Self::Net { client, base, key } => (client, base, key),
            Self::Here(local) => {
                return Ok(local.ask(method, path, body.map(str::to_owned), idempotency_key).await);
            }
        };
        let method = method.parse().map_err(|_| Failure::failed(format!("there is no method {method}")))?;
        let mut sent = client.request(method, format!("{base}{path}")).timeout(patience);
        sent = sent.header("Accept", "application/json, text/plain;q=0.9");
        if let Some(bearer) = key {
            sent = sent.bearer_auth(bearer);
        }
        if let Some(key) = idempotency_key {
            sent = sent.header("Idempotency-Key", key);
        }
        if let Some(body) = body {
            sent = sent.header("Content-Type", "application/json").body(body.to_owned());
        }
        let response = sent.send().await.map_err(|error| lost(base, error))?;
        let status = response.status().as_u16();
        Ok((status, response.text().await.map_err(|error| lost(base, error))?))
    }
}

/// The answer, or what was said instead.
fn understood(status: u16, text: String) -> Outcome<Reply> {
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    if (200..300).contains(&status) && !value.is_null() {
        return Ok(Reply { text, value });
    }
    Err(problem(status, &value))
}

/// Without a connection nothing was asked; with one, nobody knows.
fn lost(base: &str, error: reqwest::Error) -> Failure {
    let is_connect = error.is_connect();
    let code = if is_connect { "unavailable" } else { UNKNOWN };
    let is_timeout = error.is_timeout();
    // The cause that says something stands at the end of the chain.
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let is_refused = cause
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
    let detail = if is_refused {
        format!("connection refused: nobody listens at {base}; start `windlass serve` there, or check --url")
    } else if is_timeout && is_connect {
        format!("no connection to {base} within {} s; check --url, and that it runs", CONNECTING.as_secs())
    } else if is_timeout {
        format!("the server at {base} did not answer in time; check that it runs")
    } else {
        format!("the server at {base} does not answer: {cause}; check --url, and that it runs")
    };
    Failure::new(Exit::Unavailable, code, detail)
}

fn problem(status: u16, value: &Value) -> Failure {
    let exit = match status {
        404 => Exit::NotFound,
        // The job was known, and is not here any more.
        410 if value["code"] == "job_purged" => Exit::NotFound,
        400 | 405 | 413 | 415 | 422 => Exit::Usage,
        429 if value["code"] == "lane_full" => Exit::Refused,
        429 => Exit::Unavailable,
        401..=499 => Exit::Refused,
        200..=399 => Exit::Failed,
        _ => Exit::Unavailable,
    };
    let word = |name: &str| value[name].as_str().filter(|text| !text.is_empty());
    let code = word("code").unwrap_or(if status >= 500 { UNKNOWN } else { "unavailable" });
    let plain =
        || format!("the server answered {status} without a reason; check that --url is a Windlass server's");
    let told = word("detail").or_else(|| word("title"));
    Failure::new(exit, code, told.map_or_else(plain, str::to_owned))
}

/// Text as it stands in a path or behind a question mark.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
