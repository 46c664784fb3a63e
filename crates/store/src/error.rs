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

/// What [`StoreError::Unavailable`] begins with when there is no room left: waiting alone does not help.
pub const FULL: &str = "the store is full";
/// What [`StoreError::Unavailable`] begins with when nothing may be written: waiting alone does not help.
pub const READ_ONLY: &str = "the store is read-only";

impl StoreError {
    /// Which of [`FULL`] and [`READ_ONLY`] it is, if it is one: then reads go on, and somebody must do something.
    ///
    /// ```
    /// use windlass_store::{FULL, StoreError};
    ///
    /// let error = StoreError::Unavailable(format!("{FULL}: free some room"));
    /// assert_eq!(error.takes_no_writes(), Some(FULL));
    /// assert_eq!(StoreError::Unavailable("the network is down".into()).takes_no_writes(), None);
    /// ```
    pub fn takes_no_writes(&self) -> Option<&'static str> {
        let Self::Unavailable(why) = self else { return None };
        [FULL, READ_ONLY].into_iter().find(|what| why.starts_with(what))
    }
}

/// What every verb returns.
pub type StoreResult<T> = Result<T, StoreError>;
