//! How a command fails: an exit code that scripts can rely on, a stable code, and words that say what to do.

use serde_json::{Value, json};
use windlass_core::Refusal;
use windlass_core::limits::Invalid;
use windlass_store::StoreError;

/// What a command ends with. The numbers are contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It was done and the outcome is bad: a job failed, a check found something.
    Failed = 1,
    /// What was typed cannot be right.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// The store or the server said no.
    Refused = 4,
    /// The store or the server does not answer.
    Unavailable = 5,
}

/// A command that did not do what it was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What the process ends with.
    pub exit: Exit,
    /// A word for programs.
    pub code: String,
    /// What went wrong and what to do.
    pub detail: String,
    /// Whether the output has said it already.
    pub is_told: bool,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(exit: Exit, code: &str, detail: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), detail: detail.into(), is_told: false }
    }

    /// It was done, and the outcome is bad.
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::new(Exit::Failed, "failed", detail)
    }

    /// What was typed cannot be right.
    pub fn usage(detail: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", detail)
    }

    /// There is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, "not_found", detail)
    }

    /// Nobody answers.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(Exit::Unavailable, "unavailable", detail)
    }

    /// The outcome is bad, and was printed.
    pub fn told() -> Self {
        Self { is_told: true, ..Self::failed("") }
    }

    /// For `--json`.
    pub fn to_json(&self) -> Value {
        json!({ "code": self.code, "detail": self.detail, "exit": self.exit as u8 })
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::new(Exit::Usage, "invalid", invalid.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let exit = match &refusal {
            Refusal::Invalid(_) | Refusal::ApprovalTokenMalformed => Exit::Usage,
            Refusal::NotFound
            | Refusal::Purged(_)
            | Refusal::ScheduleNotFound(_)
            | Refusal::ApprovalNotFound => Exit::NotFound,
            Refusal::Busy => Exit::Unavailable,
            _ => Exit::Refused,
        };
        Self::new(exit, refusal.code(), refusal.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match error {
            StoreError::Indeterminate(_) => "outcome_unknown",
            StoreError::Busy(_) => "job_busy",
            StoreError::Corrupt { job: Some(_), .. } => "job_unreadable",
            _ => "unavailable",
        };
        Self::new(Exit::Unavailable, code, error.to_string())
    }
}

impl From<windlass::Error> for Failure {
    fn from(error: windlass::Error) -> Self {
        use windlass::Error;
        match error {
            Error::Invalid(invalid) => invalid.into(),
            Error::Refused(refusal) => refusal.into(),
            Error::Batch(refused) => refused.refusal.into(),
            Error::Store(error) => error.into(),
            Error::Url(_) | Error::Feature { .. } => Self::usage(error.to_string()),
            Error::Open(_) => Self::unavailable(error.to_string()),
            other => Self::failed(other.to_string()),
        }
    }
}

/// What commands return.
pub type Outcome<T = ()> = Result<T, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_become_the_exit_codes_of_the_contract() {
        let exit = |refusal: Refusal| Failure::from(refusal).exit as u8;
        assert_eq!(exit(Refusal::NotFound), 3);
        assert_eq!(exit(Refusal::Completed), 4);
        assert_eq!(exit(Refusal::Busy), 5);
        assert_eq!(exit(Invalid::new("priority", 9, "must be between -5 and 5").into()), 2);
        assert_eq!(Failure::from(StoreError::Unavailable("gone".into())).exit as u8, 5);
    }
}
