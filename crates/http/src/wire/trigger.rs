//! Triggers as they are asked for, and events that fire them.

use super::new_job::NewJobShape;
use super::object::two_way;
use super::raw::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

two_way!(TriggerBody, EventBody);

/// A trigger: what each event starts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewTrigger)]
pub struct TriggerBody {
    /// One job of each. A job without `payload` gets that of the event as it is; a `payload` is a template, in which
    /// `{{payload.some.path}}` is filled in.
    #[schema(min_items = 1, max_items = 16)]
    pub jobs: Vec<NewJobShape>,
    /// Only if it is at this version; 0 if it must not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub expected_version: Option<i64>,
}

/// An event for a trigger.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewTriggerEvent)]
pub struct EventBody {
    /// Another event of this trigger with the same key is the same event: it starts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub dedupe_key: Option<String>,
    /// What it brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The same as base64, for what is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
}
