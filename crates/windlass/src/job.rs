//! What a user's job is: a type that becomes a payload, with a kind and an output.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A job: the type is the payload, the kind is its name in the database, the output is what a handler gives back.
///
/// ```
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendEmail {
///     to: String,
/// }
///
/// impl windlass::Job for SendEmail {
///     const KIND: &str = "email.send";
///     type Output = u64;
/// }
/// ```
///
/// Jobs outlive deployments: an old payload must still read back. Add fields with `#[serde(default)]`, and give a
/// type that means something else a kind of its own.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// Its name in the database: 1 to 128 characters of `A-Z a-z 0-9 . _ : -`.
    const KIND: &'static str;

    /// The queue it stands in when nobody says otherwise.
    const QUEUE: &'static str = "default";

    /// What its handler gives back.
    type Output: Serialize + DeserializeOwned + Send + 'static;
}
