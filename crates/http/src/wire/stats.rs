//! What is asked of statistics and problems.

use super::object::two_way;
use super::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

two_way!(RebuildBody, ProblemBody);

/// What is to be counted again.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = RebuildStats)]
pub struct RebuildBody {
    /// From the beginning of this hour on; everything that is in the log when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// What becomes of a problem.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProblemState)]
pub enum StateWord {
    /// It needs somebody.
    Open,
    /// It is over; when it is seen again it is open again.
    Resolved,
    /// It is known and stays as it is.
    Muted,
}

/// What a problem is to be.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = PutProblem)]
pub struct ProblemBody {
    /// What it is to be.
    pub state: StateWord,
}
