//! The ends of attempts.

use super::job::JobShape;
use super::object::two_way;
use super::raw::Json;
use super::time::{Moment, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::Status;

two_way!(ErrorParts, SettleBody, ItemBody, CompleteBody, FailBody, ReleaseBody, WaitBody);

/// An error: a text, or a code and a message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = NewError)]
pub enum ErrorBody {
    /// The message.
    Text(String),
    /// Both.
    Parts(ErrorParts),
}

/// A code and a message.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ErrorParts {
    /// One word; `failed` when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Attempts to end. Each stands alone.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Settle)]
pub struct SettleBody {
    /// At most 10,000.
    pub items: Vec<ItemBody>,
}

/// One attempt to end.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = SettleItem)]
pub struct ItemBody {
    /// Which job.
    pub job_id: String,
    /// Its lease.
    pub lease_token: String,
    /// How.
    pub outcome: OutcomeWord,
    /// What it gave, at most 1 MiB. For `complete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// The same as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// What went wrong. For `fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// Whether no retry can help. For `fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permanent: Option<bool>,
    /// When to try again. For `fail` and `release`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Moment>,
    /// The same as a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// For `release`, instead of those: what the job calls takes no more for so long. Its key is held, or its queue if it has
    /// no key; at most a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeWord {
    /// It is done.
    Complete,
    /// It failed.
    Fail,
    /// It is given back.
    Release,
    /// It stopped because it was asked to.
    Cancelled,
}

/// What became of each attempt, in order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = SettledMany)]
pub struct SettledMany {
    /// One per item.
    pub items: Vec<SettledItem>,
}

/// What became of one attempt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SettledItem {
    /// Of which job.
    pub job_id: String,
    /// Whether it is settled.
    pub ok: bool,
    /// Where the job stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub status: Option<Status>,
    /// The event that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Whether it was settled so before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The job after its attempt ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Settled)]
pub struct Settled {
    /// The job.
    pub job: JobShape,
    /// Whether it was settled so before.
    pub replayed: bool,
}

/// An attempt that is done.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Complete)]
pub struct CompleteBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// What it gave, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// The same as base64, for what is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
}

/// An attempt that failed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Fail)]
pub struct FailBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// Whether no retry can help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permanent: Option<bool>,
    /// When to try again; the job's backoff decides when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Moment>,
    /// The same as a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
}

/// A job to give back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Release)]
pub struct ReleaseBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// For how long nobody should take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Instead of that: what the job calls takes no more for so long. Its key is held, or its queue if it has no key; at most
    /// a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

/// What a job is to wait for, holding no worker.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Wait)]
pub struct WaitBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// What to wait for.
    pub r#for: WaitWord,
    /// Name of the signal or approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When a timer fires: a time, or a length of time from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// When to stop waiting for a signal or children: a time, or a length of time from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Moment>,
}

/// What a job waits for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitWord {
    /// A decision.
    Approval,
    /// A signal.
    Signal,
    /// A moment.
    Timer,
    /// The end of its children.
    Children,
}
