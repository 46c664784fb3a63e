//! When the store itself fails. A refusal is not an error; see [`windlass_core::Refusal`].

use windlass_core::JobId;

/// The store could not answer. The variants say what the caller can rely on; the text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing happened. The store is away, or overloaded: send the request again later.
    #[error("the store is unavailable and nothing was changed: {0}")]
    Unavailable(String),
    /// Nothing happened. Another transaction keeps a row locked that this request needs; the store itself is well. Verbs
    /// on several jobs answer [`windlass_core::Refusal::Busy`] for that job instead.
    #[error("another transaction keeps a row locked and nothing was changed: {0}")]
    Busy(String),
    /// The change may or may not have happened. Send the very same request again: every verb can be repeated.
    #[error("the answer was lost and the change may have happened, send the same request again: {0}")]
    Indeterminate(String),
    /// Nothing happened: there is no room left. Reads go on; an operator must free some.
    #[error("the store is full and nothing was changed: {0}")]
    Full(String),
    /// Nothing happened: the store may only be read. Reads go on; an operator must make it writable.
    #[error("the store is read-only and nothing was changed: {0}")]
    ReadOnly(String),
    /// Nothing happened: the store is closed, because its jobs move to another or in from there. The text says where.
    #[error("{0}; nothing was changed")]
    Closed(String),
    /// Nothing happened, and nothing ever will: this place does not have the verb. Sending it again is of no use.
    #[error("{0}; nothing was changed")]
    Unsupported(String),
    /// Nothing happened: a stored value does not read back.
    #[error("{}does not read back and nothing was changed: {why}; run `windlass verify`", stored(.job.as_ref()))]
    Corrupt {
        /// The job it belongs to, where that is known.
        job: Option<JobId>,
        /// What was read.
        why: String,
    },
}

fn stored(job: Option<&JobId>) -> String {
    job.map_or_else(|| "a stored value ".into(), |job| format!("what is stored of job {job} "))
}

impl StoreError {
    /// Whether the change may have happened: only then must the very same request be sent again.
    ///
    /// ```
    /// use windlass_store::StoreError;
    ///
    /// assert!(StoreError::Indeterminate("cut off".into()).is_unknown());
    /// assert!(!StoreError::Unavailable("the network is down".into()).is_unknown());
    /// ```
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Indeterminate(_))
    }

    /// Whether it says something about one request only: the store answers others as usual.
    pub const fn is_of_one_request(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Unsupported(_) | Self::Corrupt { .. })
    }
}

/// What every verb returns.
pub type StoreResult<T> = Result<T, StoreError>;
