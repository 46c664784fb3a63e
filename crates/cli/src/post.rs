//! Any web service as a handler: the job is POSTed, signed as Standard Webhooks asks, and the answer says how it went.
//!
//! What is never known here: which store it is.

use crate::exec::TRACEPARENT;
use crate::fail::{Failure, Outcome};
use crate::outbound;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Serialize;
use sha2::Sha256;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::registry::Endpoint;
use windlass_core::{Metadata, Payload};
use windlass_engine::{Attempt, HandlerError};
use windlass_http::wire::raw::{Json, fields};
use windlass_http::wire::time::Time;
use windlass_store::fresh;

/// The longest that a service may send its job away for; what asks for more is asked again then.
const SNOOZE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a queue waits whose endpoint cannot be reached, at first and at most.
const HOLD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How much of an answer that says no is kept as its reason.
const REASON_MAX_BYTES: usize = 2_000;
/// What a secret begins with, as Standard Webhooks writes them.
const PREFIX: &str = "whsec_";
/// The variable that holds the secret.
pub const SECRET: &str = "WINDLASS_POST_SECRET";

/// A web service that handles jobs.
#[derive(Debug)]
pub struct Service {
    client: Client,
    url: Url,
    key: Key,
    /// Where a service that answers later finds the server.
    server: Option<String>,
    /// Set where a server sends the jobs itself: the service may answer later, and what cannot be reached holds its queue.
    away: Option<Away>,
}

/// How often a service could not be reached in a row.
#[derive(Debug, Default)]
struct Away(AtomicU32);

impl Away {
    /// It was reached.
    fn reached(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// How long its queue waits now that it could not be reached: twice as long each time.
    fn hold(&self) -> Duration {
        let times = self.0.fetch_add(1, Ordering::Relaxed).min(10);
        HOLD.0.saturating_mul(1 << times).min(HOLD.1)
    }
}

/// What requests are signed with; never shown.
struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// What a service is sent.
#[derive(Debug, Serialize)]
struct Message<'a> {
    r#type: &'static str,
    timestamp: Time,
    data: Job<'a>,
}

/// The job in it.
#[derive(Debug, Serialize)]
struct Job<'a> {
    id: String,
    kind: &'a str,
    queue: &'a str,
    attempt: i32,
    fence: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    lease_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    metadata: &'a Metadata,
}

impl Service {
    /// The service at `url`. The secret stands in a file, or in the environment.
    pub fn new(url: &str, secret_file: Option<&Path>, server: Option<String>) -> Outcome<Self> {
        let wrong = |why: String| Failure::usage(format!("--post {url} cannot be used: {why}"));
        let url = Url::parse(url).map_err(|e| wrong(e.to_string()))?;
        if !["http", "https"].contains(&url.scheme())
            || !url.username().is_empty()
            || url.password().is_some()
        {
            return Err(wrong("give an http:// or https:// URL without a user and password".to_owned()));
        }
        Ok(Self { client: outbound::client()?, url, key: key(secret_file)?, server, away: None })
    }

    /// The endpoint of a queue.
    pub fn of(client: Client, endpoint: &Endpoint) -> Result<Self, String> {
        let url = Url::parse(&endpoint.url).map_err(|e| format!("its address cannot be used: {e}"))?;
        let key = decoded(&endpoint.secret.to_text());
        Ok(Self { client, url, key: Key(key), server: None, away: Some(Away::default()) })
    }

    /// Sends one attempt's job, and reads what came of it.
    pub async fn run(&self, attempt: Attempt) -> Result<Option<Payload>, HandlerError> {
        let outcome = tokio::select! {
            biased;
            outcome = self.ask(&attempt) => outcome,
            () = attempt.cancelled() => Err(HandlerError::cancelled()),
        };
        let (job, kind) = (attempt.job_id(), attempt.kind());
        match &outcome {
            Ok(_) => tracing::info!(%job, %kind, attempt = attempt.number(), "job done"),
            Err(error) => {
                let (code, error) = (error.error_code(), error.message());
                tracing::warn!(%job, %kind, attempt = attempt.number(), code, error, "job not done");
            }
        }
        outcome
    }

    async fn ask(&self, attempt: &Attempt) -> Result<Option<Payload>, HandlerError> {
        let now = fresh::wall_clock();
        let body = serde_json::to_string(&self.message(attempt, Time(now)))?;
        let id = format!("{}.{}", attempt.job_id(), attempt.number());
        let timestamp = now.as_micros() / 1_000_000;
        let signature = self.key.sign(&id, timestamp, &body);
        let mut request = self.client.post(self.url.clone()).header("Content-Type", "application/json");
        request = request.header("webhook-id", id).header("webhook-timestamp", timestamp);
        request = request.header("webhook-signature", signature);
        if let Some(context) = attempt.trace_context() {
            request = request.header(TRACEPARENT.to_ascii_lowercase(), context.to_string());
        }
        // Whether the service acted is not known when its answer does not come.
        let lost = |e: reqwest::Error| {
            if let Some(away) = self.away.as_ref().filter(|_| e.is_connect()) {
                // Nothing was sent. Others of its queue need not try, and none loses a retry.
                let wait = away.hold();
                tracing::warn!(url = shown(&self.url), ?wait, "the endpoint of a queue cannot be reached");
                return HandlerError::rate_limited(wait);
            }
            let told = format!("{} did not answer: {}", self.url, outbound::root(&e.without_url()));
            HandlerError::in_doubt(told).code("post_unanswered")
        };
        let answer = request.body(body).send().await.map_err(lost)?;
        if let Some(away) = &self.away {
            away.reached();
        }
        let wait = outbound::retry_after(&answer).map(|wait| wait.min(SNOOZE_MAX));
        let status = answer.status();
        if status == StatusCode::ACCEPTED {
            return self.settled_later(attempt).await;
        }
        let said = read(answer).await.map_err(lost)?;
        self.outcome(status, wait, said, attempt.facts().key.is_some())
    }

    fn message<'a>(&'a self, attempt: &'a Attempt, timestamp: Time) -> Message<'a> {
        let (payload, payload_base64) = fields(attempt.payload());
        let data = Job {
            id: attempt.job_id().to_string(),
            kind: attempt.kind().as_str(),
            queue: attempt.job().queue.as_str(),
            attempt: attempt.number(),
            fence: attempt.fence(),
            key: attempt.facts().key.as_ref().map(|key| key.as_str()),
            lease_token: attempt.lease_token().to_text(),
            server: self.server.as_deref(),
            payload,
            payload_base64,
            metadata: attempt.metadata(),
        };
        Message { r#type: "windlass.job", timestamp, data }
    }

    /// The service settles the job itself, by its lease token. The lease is renewed meanwhile; when it is settled the next
    /// renewal says so, and this is dropped. The job's timeout bounds it.
    async fn settled_later(&self, attempt: &Attempt) -> Result<Option<Payload>, HandlerError> {
        if self.server.is_none() && self.away.is_none() {
            let told = "the service answered 202, but there is no server to settle the job at; start the worker with --url";
            return Err(HandlerError::permanent(told).code("post_accepted"));
        }
        tracing::info!(job = %attempt.job_id(), "accepted; the service settles it by its lease");
        std::future::pending().await
    }

    fn outcome(
        &self,
        status: StatusCode,
        wait: Option<Duration>,
        said: Option<Vec<u8>>,
        has_key: bool,
    ) -> Result<Option<Payload>, HandlerError> {
        let code = format!("http_{}", status.as_u16());
        let because = || {
            let said = said.as_deref().unwrap_or_default();
            let said = String::from_utf8_lossy(&said[..said.len().min(REASON_MAX_BYTES)]);
            let said = if said.trim().is_empty() { String::new() } else { format!(": {}", said.trim()) };
            format!("{} answered {status}{said}", self.url)
        };
        match (status, wait) {
            (status, _) if status.is_success() => result(said),
            // The service means whom the job is for: others of that key need not ask.
            (StatusCode::TOO_MANY_REQUESTS, Some(wait)) if has_key => Err(HandlerError::rate_limited(wait)),
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(wait)) => {
                Err(HandlerError::snooze(wait))
            }
            (status, _) if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
                Err(HandlerError::permanent(because()).code(&code))
            }
            _ => Err(HandlerError::retry(because()).code(&code)),
        }
    }
}

impl Key {
    /// `v1,` and the signature of `id.timestamp.body`.
    fn sign(&self, id: &str, timestamp: i64, body: &str) -> String {
        // Any length of key will do.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body.as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

fn key(file: Option<&Path>) -> Outcome<Key> {
    let text = match file {
        Some(path) => std::fs::read_to_string(path).map_err(|e| {
            Failure::usage(format!("the secret's file {} cannot be read: {e}", path.display()))
        })?,
        None => std::env::var(SECRET).unwrap_or_default(),
    };
    let text = text.trim();
    if text.is_empty() {
        let told = format!(
            "--post signs what it sends and needs a secret that the service knows too: --post-secret-file, or {SECRET}; make \
             one with: echo whsec_$(head -c 32 /dev/urandom | base64)"
        );
        return Err(Failure::usage(told));
    }
    let bytes = decoded(text);
    if bytes.len() < 24 || bytes.len() > 64 {
        let told = "the secret must be whsec_ and base64 of 24 to 64 random bytes; make one with: echo whsec_$(head -c 32 \
                    /dev/urandom | base64)";
        return Err(Failure::usage(told));
    }
    Ok(Key(bytes))
}

/// The bytes of a secret's text; none of what is no base64.
fn decoded(text: &str) -> Vec<u8> {
    STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).unwrap_or_default()
}

/// An address without what may be a secret.
fn shown(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
}

/// What a service that succeeded gave: JSON as it stands, anything else as text.
fn result(said: Option<Vec<u8>>) -> Result<Option<Payload>, HandlerError> {
    let too_large = |why: String| HandlerError::permanent(why).code("result_too_large");
    let Some(said) = said else {
        return Err(too_large(format!("the answer is longer than {PAYLOAD_MAX_BYTES} bytes")));
    };
    if said.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&said).is_ok();
    let payload = if is_json {
        Payload::json("result", said, PAYLOAD_MAX_BYTES)
    } else {
        Payload::from_value("result", &String::from_utf8_lossy(&said), PAYLOAD_MAX_BYTES)
    };
    payload.map(Some).map_err(|e| too_large(e.to_string()))
}

/// The body, unless it is larger than a result may be.
async fn read(mut answer: Response) -> reqwest::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if bytes.len() + chunk.len() > PAYLOAD_MAX_BYTES {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn a_signature_is_as_the_standard_says() {
        let secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let key = Key(STANDARD.decode(secret).unwrap());
        let signed = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(format!("{key:?}"), "Key");
    }
}
