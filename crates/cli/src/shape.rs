//! Answers of the public API as they are passed on, and bodies as they are sent.

use crate::fail::{Failure, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_core::Invalid;

/// An answer: the text for programs, which is passed on as it is, and the value for people.
#[derive(Debug, Clone)]
pub struct Reply {
    /// JSON.
    pub text: String,
    /// The same, to look into.
    pub value: Value,
}

impl Reply {
    /// The answer in the shapes of the contract.
    pub fn read<T: DeserializeOwned>(&self) -> Outcome<T> {
        let unread = |e| {
            format!("the answer cannot be read: {e}; is the server of another version than this command?")
        };
        serde_json::from_str(&self.text).map_err(|e| Failure::failed(unread(e)))
    }
}

/// A body as it is sent.
pub fn to_text(body: &impl Serialize) -> Outcome<String> {
    serde_json::to_string(body).map_err(|e| Failure::failed(format!("this cannot be written as JSON: {e}")))
}

/// A word of the API, as it was typed.
pub fn word<T: DeserializeOwned>(field: &str, text: String) -> Outcome<T> {
    let read = serde_json::from_value(Value::String(text.clone()));
    Ok(read.map_err(|e| Invalid::new(field, text, e.to_string()))?)
}
