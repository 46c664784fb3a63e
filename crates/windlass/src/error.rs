//! What a client is told when something did not happen. Errors of handlers are [`HandlerError`](crate::HandlerError).

use windlass_core::limits::Invalid;
use windlass_core::{JobId, Refusal, Status};
use windlass_engine::RunError;
use windlass_store::{BatchRefusal, JobView, StoreError};

/// Why a call of a client did not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL names no store.
    #[error("the store's URL {0}; use sqlite:PATH, postgres://USER@HOST/DATABASE or memory:")]
    Url(String),
    /// The store's crate was left out of this build.
    #[error("this build has no {store} store: enable the feature `{feature}` of the crate `windlass`")]
    Feature {
        /// Which store.
        store: &'static str,
        /// What to enable.
        feature: &'static str,
    },
    /// The store could not be opened.
    #[error("the store cannot be opened: {0}")]
    Open(#[source] OpenError),
    /// A value is outside its limits. Nothing was written.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store said no, and why. Nothing was written.
    #[error(transparent)]
    Refused(Refusal),
    /// One of many was refused, so none was written.
    #[error(transparent)]
    Batch(#[from] BatchRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job ended without a result.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The job completed, and its result is not what was expected.
    #[error("the result of job {job} is not a {expected}: {why}")]
    Result {
        /// Which job.
        job: JobId,
        /// The type that was expected.
        expected: &'static str,
        /// What does not fit.
        why: String,
    },
    /// The archive failed: a job was not archived, so neither it nor those after it were removed; or it was not erased there.
    #[error("job {job} is not removed or erased, because of the archive: {why}")]
    Archive {
        /// Which job.
        job: JobId,
        /// What went wrong.
        why: String,
    },
    /// The worker did not run.
    #[error(transparent)]
    Worker(RunError),
    /// A statement failed inside the caller's own transaction; roll it back. What the engine refuses there is
    /// [`Error::Refused`] or [`Error::Batch`], as elsewhere.
    #[error("the statement failed inside the transaction, roll it back: {message}")]
    Transaction {
        /// The SQLSTATE; none if the database did not answer.
        sqlstate: Option<String>,
        /// What the driver says.
        message: String,
    },
}

/// Why a store could not be opened, by the kind of store.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A SQLite file.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Sqlite(#[from] windlass_sqlite::OpenError),
    /// A PostgreSQL database.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] windlass_postgres::OpenError),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(invalid) => Self::Invalid(invalid),
            refusal => Self::Refused(refusal),
        }
    }
}

impl Error {
    /// The refusal, if the store said no.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) | Self::Batch(BatchRefusal { refusal, .. }) => Some(refusal),
            _ => None,
        }
    }
}

/// How a job ended that has no result: failed, timed out or cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job {job} is {status}: {message} ({code})")]
#[non_exhaustive]
pub struct Ended {
    /// Which job.
    pub job: JobId,
    /// Where it stands.
    pub status: Status,
    /// The code of its last error; `cancelled` for a cancelled one.
    pub code: String,
    /// What its last error says.
    pub message: String,
    /// What its handler kept beside the message; see [`Ended::details`].
    pub details: Option<Box<serde_json::Value>>,
}

impl Ended {
    /// What the handler kept with [`HandlerError::details`](crate::HandlerError::details), if it reads as this type.
    pub fn details<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        self.details.clone().and_then(|details| serde_json::from_value(*details).ok())
    }

    /// How the job of this view ended.
    pub(crate) fn of(view: &JobView) -> Self {
        #[derive(serde::Deserialize)]
        struct Told {
            code: String,
            message: String,
            details: Option<Box<serde_json::Value>>,
        }
        let told = view.error.as_ref().and_then(|(payload, _)| payload.parse::<Told>().ok());
        let (code, message, details) = match told {
            _ if view.job.status == Status::Cancelled => {
                ("cancelled".into(), "it was cancelled".into(), None)
            }
            Some(told) => (told.code, told.message, told.details),
            None => (view.job.status.to_string(), "no reason is on record".into(), None),
        };
        Self { job: view.job.id, status: view.job.status, code, message, details }
    }
}

/// What calls of a client return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Invalid(invalid) => Self::Invalid(invalid),
            other => Self::Worker(other),
        }
    }
}
