//! What a user's job is: a type that becomes a payload, with a kind, an output and what its jobs fall back to.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use windlass_core::Backoff;
use windlass_core::unique::Policy as UniquePolicy;
use windlass_engine::HandlerError;

/// A job: the type is the payload, the kind is its name in the database, the output is what a handler gives back.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
///
/// #[derive(Serialize, Deserialize, windlass::Job)]
/// #[job(kind = "email.send", queue = "mail", output = u64, max_retries = 5, timeout = Duration::from_secs(30))]
/// struct SendEmail {
///     to: String,
/// }
///
/// // The same by hand, as far as it goes:
/// #[derive(Serialize, Deserialize)]
/// struct Greet;
///
/// impl windlass::Job for Greet {
///     const KIND: &str = "greet";
///     type Output = String;
/// }
/// ```
///
/// Jobs outlive deployments: an old payload must still read back. Add fields with `#[serde(default)]`; where that is not
/// enough raise [`Job::VERSION`] and write [`Job::upgrade`]; give a type that means something else a kind of its own.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// Its name in the database: 1 to 128 characters of `A-Z a-z 0-9 . _ : -`.
    const KIND: &'static str;

    /// The queue it stands in when nobody says otherwise.
    const QUEUE: &'static str = "default";

    /// −5 to 5, higher first, when nobody says otherwise.
    const PRIORITY: i32 = 0;

    /// How many failures are repeated, when nobody says otherwise; with none here, the kind's, queue's or store's default.
    const MAX_RETRIES: Option<u32> = None;

    /// How long one attempt may take, when nobody says otherwise.
    const TIMEOUT: Option<Duration> = None;

    /// Whether the same payload is the same job, and for how long, when nobody says otherwise.
    const UNIQUE: Option<UniquePolicy> = None;

    /// The shape of the payload. It travels with the job as metadata `payload_version`; a job without is of version 1.
    const VERSION: u32 = 1;

    /// What its handler gives back.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// How long to wait between tries, when nobody says otherwise.
    fn backoff() -> Option<Backoff> {
        None
    }

    /// Turns the payload of an older version into this one's, before it is read.
    ///
    /// # Errors
    /// What cannot be turned: the job fails with it.
    fn upgrade(from: u32, value: Value) -> Result<Value, HandlerError> {
        let _ = from;
        Ok(value)
    }
}
