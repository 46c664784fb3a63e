//! Answers of the public API as they are passed on, and bodies as they are sent.

use crate::fail::{Failure, Outcome};
use serde::Serialize;
use serde_json::Value;

/// An answer: the text for programs, which is passed on as it is, and the value for people.
#[derive(Debug, Clone)]
pub struct Reply {
    /// JSON.
    pub text: String,
    /// The same, to look into.
    pub value: Value,
}

/// A body as it is sent.
pub fn to_text(body: &impl Serialize) -> Outcome<String> {
    serde_json::to_string(body).map_err(|e| Failure::failed(format!("this cannot be written as JSON: {e}")))
}
