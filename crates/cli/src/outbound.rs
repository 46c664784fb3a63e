//! What is common to everything that this program sends to web services.

use crate::fail::{Failure, Outcome};
use reqwest::{Client, Response};
use std::time::Duration;
use windlass_store::fresh;

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(10);

/// A client that follows no redirect: a signed body goes to whom it was signed for.
pub fn client() -> Outcome<Client> {
    // Nobody else installs one; a second time is no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().connect_timeout(CONNECTING).redirect(reqwest::redirect::Policy::none());
    client.build().map_err(|e| Failure::failed(format!("no HTTP client can be made: {e}")))
}

/// `Retry-After`, in seconds or as a date.
pub fn retry_after(answer: &Response) -> Option<Duration> {
    let text = answer.headers().get("retry-after")?.to_str().ok()?;
    match text.trim().parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?;
            let at = at.duration_since(std::time::UNIX_EPOCH).ok()?;
            let now = Duration::from_micros(u64::try_from(fresh::wall_clock().as_micros()).ok()?);
            Some(at.saturating_sub(now))
        }
    }
}

/// The cause that says something stands at the end of the chain.
pub fn root(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
