//! One request to a server and what comes back, once. Whether to send it again is for whoever knows what it means.

use crate::fail::{Exit, Failure, Outcome};
use crate::shape::Reply;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(10);
/// The code of an answer that was lost after the request may have been carried out.
pub const UNKNOWN: &str = "outcome_unknown";

/// A server that is asked over HTTP.
#[derive(Debug, Clone)]
pub struct Wire {
    client: Client,
    base: String,
    key: Option<String>,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// How.
    pub method: &'a Method,
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
    /// The server at `url`.
    pub fn new(url: &str, key: Option<String>) -> Outcome<Self> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Failure::usage("the server's URL must begin with http:// or https://"));
        }
        // Nobody else installs one; a second time is no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let built = Client::builder().connect_timeout(CONNECTING).build();
        let client = built.map_err(|e| Failure::failed(format!("no HTTP client can be made: {e}")))?;
        Ok(Self { client, base: url.trim_end_matches('/').to_owned(), key })
    }

    /// Sends a request.
    pub async fn send(&self, request: Request<'_>) -> Outcome<Reply> {
        let Request { method, path, body, idempotency_key, patience } = request;
        let url = format!("{}{path}", self.base);
        let mut sent = self.client.request(method.clone(), url).timeout(patience);
        if let Some(bearer) = &self.key {
            sent = sent.bearer_auth(bearer);
        }
        if let Some(key) = idempotency_key {
            sent = sent.header("Idempotency-Key", key);
        }
        if let Some(body) = body {
            sent = sent.header("Content-Type", "application/json").body(body.to_owned());
        }
        heard(sent.send().await).await
    }
}

/// The answer, or what the server or the way to it said instead.
async fn heard(answer: reqwest::Result<reqwest::Response>) -> Outcome<Reply> {
    let response = answer.map_err(lost)?;
    let status = response.status();
    let text = response.text().await.map_err(lost)?;
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    if status.is_success() && !value.is_null() {
        return Ok(Reply { text, value });
    }
    Err(problem(status, &value))
}

/// Without a connection nothing was asked; with one, nobody knows.
fn lost(error: reqwest::Error) -> Failure {
    let code = if error.is_connect() { "unavailable" } else { UNKNOWN };
    let mut told = error.without_url().to_string();
    if told.is_empty() {
        told = "no reason is given".to_owned();
    }
    let detail = format!("the server does not answer: {told}; check --url, and that it runs");
    Failure::new(Exit::Unavailable, code, detail)
}

fn problem(status: StatusCode, value: &Value) -> Failure {
    let exit = match status.as_u16() {
        404 => Exit::NotFound,
        400 | 405 | 413 | 415 | 422 => Exit::Usage,
        401..=499 if status != StatusCode::TOO_MANY_REQUESTS => Exit::Refused,
        200..=399 => Exit::Failed,
        _ => Exit::Unavailable,
    };
    let word = |name: &str| value[name].as_str().filter(|text| !text.is_empty());
    let code = word("code").unwrap_or(if status.is_server_error() { UNKNOWN } else { "unavailable" });
    let plain =
        || format!("the server answered {status} without a reason; check that --url is a Windlass server's");
    let told = word("detail").or_else(|| word("title"));
    Failure::new(exit, code, told.map_or_else(plain, str::to_owned))
}

/// Text as it stands in a path or behind a question mark.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
