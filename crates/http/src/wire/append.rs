//! What is added to a job while it lives: notes, steps, progress, charges.

use super::object::two_way;
use super::raw::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::Metadata;

two_way!(Note, StepBody, ProgressBody, ChargeBody);

/// A note to append to a job's log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewEvent)]
pub struct Note {
    /// Its type; `job_…` is the engine's own, `node_…` and `tool_…` need the lease.
    pub r#type: String,
    /// Its payload, at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The version the writer believes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<i64>,
    /// The lease to write under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// Recognises a repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A step that began or ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewStep)]
pub struct StepBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// Whether it began or ended.
    pub status: StepStatus,
    /// Whether it is a call of a tool, which may be in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<bool>,
    /// What it was called with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Json>,
    /// Its value, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub enum StepStatus {
    Started,
    Finished,
}

/// What a holder reports: one change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Progress)]
pub struct ProgressBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub progress: Option<i64>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Merged into what is there, key by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// For the next attempt, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Json>,
}

/// What a job turned out to cost.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Charge)]
pub struct ChargeBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// Units of the rates of its key and its queue, beside those it was started for. A debt is allowed.
    #[schema(minimum = 1, maximum = 1000000)]
    pub units: i32,
}
