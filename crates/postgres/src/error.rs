//! When PostgreSQL fails: what it means, and what to do.

use std::time::Duration;
use tokio_postgres::error::SqlState;
use windlass_core::JobId;
use windlass_core::event::Unreadable;
use windlass_store::StoreError;

/// What the trigger before the tables of a closed store raises.
const CLOSED: &str = "WL014";

/// Why a transaction could not be finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Sql(#[from] tokio_postgres::Error),
    #[error("no connection: {0}")]
    Pool(String),
    #[error("a stored value does not read back: {0}; run `windlass verify` on this store")]
    Unreadable(String),
    /// The same, of one job.
    #[error("what is stored of job {job} does not read back: {why}; run `windlass verify` on this store")]
    Corrupt { job: JobId, why: String },
    /// A statement was sent and nothing came back: the connection must not be used again.
    #[error("the server did not answer for {} s, though its connection stands", .0.as_secs())]
    Silent(Duration),
    /// COMMIT was sent and its answer was lost.
    #[error("what became of it is unknown, COMMIT was sent and then: {0}")]
    Unknown(String),
    /// Some items of a batch were carried out, then came this.
    #[error("a part was done, then: {0}")]
    Partly(Box<Failure>),
    /// Somebody else was faster in a way that a fresh look settles.
    #[error("the same rows were changed at the same time, again and again")]
    Raced,
}

pub(crate) type Tried<T> = Result<T, Failure>;

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

impl From<deadpool_postgres::PoolError> for Failure {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        Self::Pool(match error {
            deadpool_postgres::PoolError::Backend(why) => advice(&why),
            other => other.to_string(),
        })
    }
}

impl Failure {
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Sql(e) => e.code(),
            _ => None,
        }
    }

    /// Whether a fresh transaction may simply succeed: nothing was done and nothing is wrong with the request.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Raced)
            || self.code().is_some_and(|c| {
                [&SqlState::T_R_DEADLOCK_DETECTED, &SqlState::T_R_SERIALIZATION_FAILURE].contains(&c)
            })
    }

    /// Whether the connection is gone, so that what it was doing was rolled back, unless it was a commit.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Silent(_) => true,
            Self::Sql(e) => {
                e.is_closed()
                    || e.code().is_none()
                    || e.code().is_some_and(|c| c.code().starts_with("57P") || c.code().starts_with("08"))
            }
            _ => false,
        }
    }

    /// Whether the server did not answer in time.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Silent(_))
    }

    /// Whether another transaction kept a row locked for too long: nothing was done.
    pub(crate) fn is_locked(&self) -> bool {
        self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether it may be the fault of one item among many, so that the others should be tried without it: what
    /// it holds (classes 22 and 23, 54, the guard's own `WL` and raised ones), or a lock or a time that ran out.
    pub(crate) fn may_be_one_items(&self) -> bool {
        let classes = ["22", "23", "54", "55", "57014", "P0", "WL"];
        matches!(self, Self::Raced | Self::Unreadable(_) | Self::Corrupt { .. })
            || self.code().is_some_and(|c| classes.iter().any(|class| c.code().starts_with(class)))
    }

    /// What callers are told.
    pub(crate) fn told(&self) -> StoreError {
        match self {
            Self::Unknown(_) | Self::Partly(_) => StoreError::Indeterminate(self.to_string()),
            Self::Unreadable(why) => StoreError::Corrupt { job: None, why: why.clone() },
            Self::Corrupt { job, why } => StoreError::Corrupt { job: Some(*job), why: why.clone() },
            other if other.is_locked() => StoreError::Busy(other.reason()),
            other => match other.code() {
                Some(&SqlState::DISK_FULL) => StoreError::Full(other.reason()),
                Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => StoreError::ReadOnly(other.reason()),
                Some(code) if code.code() == CLOSED => StoreError::Closed(other.message()),
                _ => StoreError::Unavailable(other.reason()),
            },
        }
    }

    /// The server's own words.
    fn message(&self) -> String {
        let Self::Sql(error) = self else { return self.to_string() };
        error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned())
    }

    /// What went wrong, with what to do about it.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Sql(e) => advice(e),
            other => other.to_string(),
        }
    }

    /// The same after COMMIT was sent: with the connection the answer is lost, and one that does not read came late.
    pub(crate) fn after_commit(self) -> Self {
        let unknown = self.is_lost() || matches!(self, Self::Unreadable(_) | Self::Corrupt { .. });
        if unknown { Self::Unknown(self.reason()) } else { self }
    }

    /// The same where BEGIN failed although the connection lives: whatever came behind it stood without a transaction.
    pub(crate) fn without_begin(self) -> Self {
        if self.is_lost() { self } else { Self::Unknown(self.reason()) }
    }
}

fn advice(error: &tokio_postgres::Error) -> String {
    let Some(db) = error.as_db_error() else {
        let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        let advice = if source.contains("certificate") {
            "; name the authority that signed it with sslrootcert=FILE in the URL, or use the host's name that it is for"
        } else {
            ""
        };
        return format!("{error}: {source}{advice}").trim_end_matches(": ").to_owned();
    };
    let advice = match *db.code() {
        SqlState::INSUFFICIENT_PRIVILEGE => "the role lacks a privilege; run the migrations as the owner",
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            "the schema is not there; run `windlass migrate`"
        }
        SqlState::DISK_FULL => "free some room on the database's disk",
        SqlState::READ_ONLY_SQL_TRANSACTION => "it is perhaps a standby: connect to the primary",
        SqlState::LOCK_NOT_AVAILABLE => "a row or table stayed locked too long; look for long transactions",
        SqlState::QUERY_CANCELED => "the statement took longer than its timeout",
        _ => "",
    };
    let detail = db.detail().map(|d| format!(" ({d})")).unwrap_or_default();
    let space = if advice.is_empty() { "" } else { ": " };
    format!("{advice}{space}{}{detail} [{}]", db.message(), db.code().code())
}

/// Why a store could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL is not one.
    #[error("the store URL is malformed: {0}; write postgres://user:password@host:5432/database")]
    Url(String),
    /// The schema is from the future.
    #[error(
        "the schema has migration {found}, this windlass knows {known}; upgrade windlass, nothing was changed"
    )]
    NewerSchema {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration in this binary.
        known: i64,
    },
    /// A migration was applied with another text.
    #[error("migration {0} was applied with another text; this schema was made by a modified windlass")]
    ChangedMigration(String),
    /// The schema is not there, or old, and migrating was not allowed.
    #[error("the schema is at migration {found} and this windlass needs {known}; run `windlass migrate`")]
    OldSchema {
        /// The newest migration in the database, 0 without a schema.
        found: i64,
        /// The newest migration in this binary.
        known: i64,
    },
    /// A role that may not write itself, and the functions for that are of another version.
    #[error(
        "the functions that this role calls are not there; run `windlass migrate` of this version as the owner"
    )]
    MissingFunctions,
    /// The name of the schema cannot be one.
    #[error("{0:?} cannot be a schema; use 1 to 63 of a-z 0-9 _, not starting with a digit or pg_")]
    Schema(String),
    /// The certificates of `sslrootcert` cannot be read.
    #[error("sslrootcert {0:?} cannot be used: {1}; name a file of PEM certificates")]
    RootCertificate(String, String),
    /// Anything else.
    #[error("cannot open the store: {0}")]
    Failed(String),
}
