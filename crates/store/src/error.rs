//! When the store itself fails. A refusal is not an error; see [`windlass_core::Refusal`].

/// The store could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing happened.
    #[error("the store is unavailable and nothing was changed: {0}")]
    Unavailable(String),
    /// The change may or may not have happened. Send the very same request again: every verb can be repeated.
    #[error("the answer was lost and the change may have happened, send the same request again: {0}")]
    Indeterminate(String),
}

/// What every verb returns.
pub type StoreResult<T> = Result<T, StoreError>;
