//! When SQLite fails: what it means, and what to do.

use rusqlite::ErrorCode;
use windlass_core::event::Unreadable;
use windlass_core::{JobId, Refusal};
use windlass_store::StoreError;
use windlass_store::house::Closed;

/// Why a transaction could not be finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("a stored value does not read back: {0}; run `windlass verify` on this store")]
    Unreadable(String),
    /// The same, of one job.
    #[error("what is stored of job {job} does not read back: {why}; run `windlass verify` on this store")]
    Corrupt { job: JobId, why: String },
    #[error("the writer of this store has stopped; open it again")]
    Stopped,
    #[error("{0}")]
    Closed(Closed),
}

pub(crate) type Tried<T> = Result<T, Failure>;

/// The answer about one item of several: a job that does not read back is answered for itself. Rows are read before
/// anything is written for an item, so nothing is left half done.
pub(crate) fn one_items<T>(end: Tried<Result<T, Refusal>>) -> Tried<Result<T, Refusal>> {
    match end {
        Err(Failure::Corrupt { why, .. }) => Ok(Err(Refusal::Unreadable(why))),
        end => end,
    }
}

impl From<Unreadable> for Failure {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl Failure {
    /// The store error for something that was rolled back: nothing happened.
    pub(crate) fn undone(&self) -> StoreError {
        let code = match self {
            Self::Sql(rusqlite::Error::SqliteFailure(e, _)) => Some(e.code),
            _ => None,
        };
        match (self, code) {
            (Self::Unreadable(why), _) => StoreError::Corrupt { job: None, why: why.clone() },
            (Self::Corrupt { job, why }, _) => StoreError::Corrupt { job: Some(*job), why: why.clone() },
            (Self::Closed(why), _) => StoreError::Closed(why.to_string()),
            (_, Some(ErrorCode::DiskFull)) => StoreError::Full(self.advice()),
            (_, Some(ErrorCode::ReadOnly)) => StoreError::ReadOnly(self.advice()),
            _ => StoreError::Unavailable(self.advice()),
        }
    }

    /// The store error for a commit whose end is not known.
    pub(crate) fn unknown(&self) -> StoreError {
        StoreError::Indeterminate(self.advice())
    }

    /// Whether the file system may have kept what SQLite could not confirm. Of a write that failed it has not: without its
    /// last frame a transaction is not in the log.
    pub(crate) fn is_io(&self) -> bool {
        matches!(self, Self::Sql(rusqlite::Error::SqliteFailure(e, _))
            if e.code == ErrorCode::SystemIoFailure && e.extended_code != rusqlite::ffi::SQLITE_IOERR_WRITE)
    }

    fn advice(&self) -> String {
        let Self::Sql(rusqlite::Error::SqliteFailure(e, _)) = self else { return self.to_string() };
        let advice = match e.code {
            ErrorCode::DiskFull => "free some room on its disk",
            ErrorCode::ReadOnly => "make the file and its folder writable for this user",
            ErrorCode::CannotOpen => "the file cannot be opened; check the path and its folder's permissions",
            ErrorCode::SystemIoFailure => "the file system failed; check the disk",
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                "the file is damaged or is not a Windlass store; restore a back-up"
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                "another program keeps the file locked; end its transaction"
            }
            _ => return self.to_string(),
        };
        format!("{advice} (SQLite: {self})")
    }
}

/// Why a store could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file system cannot carry SQLite's locks.
    #[error(
        "{path} is on a network file system ({kind}); use a local disk, or PostgreSQL for several machines"
    )]
    NetworkFileSystem {
        /// The file.
        path: String,
        /// The file system.
        kind: String,
    },
    /// The schema is from the future.
    #[error(
        "the schema has migration {found}, this windlass knows {known}; upgrade windlass, nothing was changed"
    )]
    NewerSchema {
        /// The newest migration in the file.
        found: i64,
        /// The newest migration in this binary.
        known: i64,
    },
    /// A migration was applied with another text.
    #[error("migration {0} was applied with another text; this file was made by a modified windlass")]
    ChangedMigration(String),
    /// There is no store there, and none was to be created.
    #[error("there is no store at {0}; start a server or a worker there first, or check the path")]
    NoStore(String),
    /// The store has older migrations than this binary, and migrating was not allowed.
    #[error("the schema is at migration {found} and this windlass needs {known}; run `windlass migrate`")]
    OldSchema {
        /// The newest migration in the file.
        found: i64,
        /// The newest migration in this binary.
        known: i64,
    },
    /// Anything else.
    #[error("{path}: {why}")]
    Failed {
        /// The file.
        path: String,
        /// What SQLite or the system says, and what to do.
        why: String,
    },
}
