//! From a handler's values to bytes and back. What does not fit fails for good: trying again would not make it fit.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::{Name, Payload};
use windlass_engine::HandlerError;

/// The bytes of a value; a permanent failure that names size and limit when it is too large.
pub(crate) fn encode(what: &str, value: &impl Serialize, max: usize) -> Result<Payload, HandlerError> {
    let wrong = |e: serde_json::Error| {
        HandlerError::permanent(format!("{what} does not become JSON: {e}")).code("not_json")
    };
    let bytes = serde_json::to_vec(value).map_err(wrong)?;
    let size = bytes.len();
    if size > max {
        let message = format!(
            "{what} is {size} bytes: at most {max} bytes; keep large things elsewhere and give a reference"
        );
        return Err(HandlerError::permanent(message).code("too_large"));
    }
    Payload::json(what, bytes, max).map_err(|e| HandlerError::permanent(e).code("invalid"))
}

/// The value of bytes on record; a permanent failure that says why when they are something else.
pub(crate) fn read<T: DeserializeOwned>(what: &str, payload: Option<&Payload>) -> Result<T, HandlerError> {
    // Nothing is `null`: what `()` and an empty `Option` are written as.
    let bytes = payload.map_or(&b"null"[..], Payload::as_bytes);
    serde_json::from_slice(bytes).map_err(|e| {
        let expected = std::any::type_name::<T>();
        HandlerError::permanent(format!("{what} does not read as {expected}: {e}")).code("unreadable")
    })
}

/// A name that a handler gave; a permanent failure when it is none.
pub(crate) fn named(what: &str, name: &str) -> Result<Name, HandlerError> {
    Name::parse(what, name).map_err(|e| HandlerError::permanent(e).code("invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_names_size_and_limit_and_is_not_tried_again() {
        let error = encode("the result", &"x".repeat(100), 64).unwrap_err();
        assert!(error.is_permanent() && error.error_code() == "too_large");
        assert!(error.message().contains("102 bytes") && error.message().contains("64"), "{error}");
        let odd = std::collections::HashMap::from([((1, 2), 3)]);
        assert_eq!(encode("the result", &odd, 64).unwrap_err().error_code(), "not_json");
    }

    #[test]
    fn nothing_reads_as_unit_and_something_else_says_why() {
        read::<()>("the payload", None).unwrap();
        let payload = encode("it", &"text", 64).unwrap();
        let error = read::<u32>("the payload", Some(&payload)).unwrap_err();
        assert!(error.is_permanent() && error.message().contains("u32"), "{error}");
    }
}
