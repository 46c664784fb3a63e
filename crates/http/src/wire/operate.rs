//! What operators ask for: cancel, redrive, fork, signal, and what is done to all that a filter matches.

use super::filter::FilterShape;
use super::job::JobShape;
use super::object::two_way;
use super::raw::Json;
use super::time::{Moment, Span, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

two_way!(CancelBody, RedriveBody, ForkBody, SignalBody, BulkBody);

/// A job after it was acted on.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = OneJob)]
pub struct OneJob {
    /// The job.
    pub job: JobShape,
}

/// A wish to stop a job.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Cancel)]
pub struct CancelBody {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether a holder is not even asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// How long a holder has to stop; 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_after: Option<Span>,
    /// The version of the job that this was decided on; at another one it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<i64>,
}

/// A dead or cancelled job to send back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Redrive)]
pub struct RedriveBody {
    /// From when it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Moment>,
    /// The same as a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Whether recorded steps are forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_start: Option<bool>,
    /// Another payload from now on, at most 1 MiB. The old one stays in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The same as bytes that are no JSON, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// The version of the job that this was decided on; at another one it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<i64>,
}

/// Where a new job begins.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Fork)]
pub struct ForkBody {
    /// Up to which version of the other's log; all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_version: Option<i64>,
    /// Another payload than the other's, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The version of the job that this was decided on; at another one it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<i64>,
}

/// A signal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Signal)]
pub struct SignalBody {
    /// Its name.
    pub name: String,
    /// What it brings, at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// Recognises a repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What became of a signal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Signalled)]
pub struct Signalled {
    /// Whether its key came before.
    pub duplicate: bool,
    /// The event that it is.
    pub version: i64,
}

/// What to do to everything that a filter matches.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Bulk)]
pub struct BulkBody {
    /// Which jobs. Without a status: those that the action is for. This or `ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterShape>,
    /// These jobs, at most 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// What to do.
    pub action: Action,
    /// Whether to count only.
    pub dry_run: bool,
    /// From when redriven jobs may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// Over which period redriven jobs are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Span>,
    /// Where the last request ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Why, for cancelled jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Leave it to the leader, as an operation that begins after so long and can be stopped; at most a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

/// What is done to jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Stop them.
    Cancel,
    /// Send them back.
    Redrive,
}

/// What was found and done.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = BulkDone)]
pub struct BulkDone {
    /// Jobs that the filter matches and the action is for, as far as this request looked.
    pub matched: usize,
    /// Some of them.
    pub sample: Vec<String>,
    /// Jobs that were acted on.
    pub done: usize,
    /// Jobs that had moved on meanwhile.
    pub skipped: usize,
    /// Where to go on; none at the end.
    pub next_cursor: Option<String>,
}
