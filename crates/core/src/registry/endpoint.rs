//! A queue's endpoint: the web service that the servers send its jobs to, so that it needs no worker process.

use crate::limits::{self, Invalid};
use crate::subscription::{TIMEOUT_MS, Target};
use crate::trigger::webhook::WebhookSecret;
use serde::{Deserialize, Serialize};

/// How many jobs a server has with the service at once, unless it is said.
pub const AT_ONCE: i64 = 10;
/// The most that can be said.
pub const AT_ONCE_MAX: i64 = 1_000;

/// A web service that a queue's jobs are POSTed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Where it is.
    pub url: String,
    /// What requests are signed with. Never shown.
    pub secret: WebhookSecret,
    /// How many jobs each server has with it at once.
    pub max: i64,
}

impl Endpoint {
    /// Its address without what may be a secret.
    pub fn shown_url(&self) -> String {
        target(&self.url).shown_url()
    }

    /// What goes to the audit.
    pub(super) fn to_audit(&self) -> serde_json::Value {
        serde_json::json!({ "url": self.shown_url(), "max": self.max })
    }
}

fn target(url: &str) -> Target {
    Target::Webhook { url: url.to_owned(), timeout_ms: TIMEOUT_MS }
}

/// What becomes of a queue's endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SetEndpoint {
    /// It stays as it is.
    #[default]
    Keep,
    /// It goes: workers are to take the jobs again.
    Remove,
    /// It is this one.
    Put {
        /// Where it is.
        url: String,
        /// What requests are signed with; as before when absent.
        secret: Option<WebhookSecret>,
        /// How many jobs each server has with it at once; [`AT_ONCE`] when absent.
        max: Option<i64>,
    },
}

impl SetEndpoint {
    /// The endpoint after this.
    pub(super) fn decide(&self, before: Option<&Endpoint>) -> Result<Option<Endpoint>, Invalid> {
        match self {
            Self::Keep => Ok(before.cloned()),
            Self::Remove => Ok(None),
            Self::Put { url, secret, max } => {
                target(url).check()?;
                let max = limits::within("endpoint.max", max.unwrap_or(AT_ONCE), 1, AT_ONCE_MAX)?;
                let missing =
                    || Invalid::new("endpoint.secret", "none", "what is sent is signed and needs one");
                let secret = secret.clone().or_else(|| before.map(|before| before.secret.clone()));
                Ok(Some(Endpoint { url: url.clone(), secret: secret.ok_or_else(missing)?, max }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn put(url: &str, secret: Option<&str>, max: Option<i64>) -> SetEndpoint {
        let secret = secret.map(|text| WebhookSecret::parse(text).expect("a secret"));
        SetEndpoint::Put { url: url.to_owned(), secret, max }
    }

    #[test]
    fn an_endpoint_keeps_its_secret_until_it_is_given_another() {
        let made = put("https://a.example/x", Some(SECRET), None).decide(None).expect("good").expect("one");
        assert_eq!((made.max, made.shown_url().as_str()), (AT_ONCE, "https://a.example/…"));
        let moved = put("https://b.example", None, Some(3)).decide(Some(&made)).expect("good").expect("one");
        assert_eq!((&moved.secret, moved.max), (&made.secret, 3));
        assert_eq!(SetEndpoint::Keep.decide(Some(&moved)), Ok(Some(moved.clone())));
        assert_eq!(SetEndpoint::Remove.decide(Some(&moved)), Ok(None));
        assert!(!format!("{moved:?}").contains("MfKQ"), "a secret is not shown");
        for bad in [
            put("https://b.example", None, None),
            put("ftp://b.example", Some(SECRET), None),
            put("https://u:p@b.example", Some(SECRET), None),
            put("https://b.example", Some(SECRET), Some(0)),
            put("https://b.example", Some(SECRET), Some(1_001)),
        ] {
            assert!(bad.decide(None).is_err(), "{bad:?}");
        }
    }
}
