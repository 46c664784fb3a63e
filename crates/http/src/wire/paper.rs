//! What people keep beside the jobs: views and marks.

use super::object::two_way;
use super::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

two_way!(ViewBody, MarkBody);

/// A filter to keep under a name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewView)]
pub struct ViewBody {
    /// The filter of a list of jobs, as its address has it: `{"queue": "mail", "status": "failed"}`.
    pub filter: BTreeMap<String, String>,
    /// Only if it is at this version; 0 if it must not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub expected_version: Option<i64>,
}

/// A filter with a name.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = View)]
pub struct ViewShape {
    /// Its name.
    pub name: String,
    /// The filter.
    pub filter: BTreeMap<String, String>,
    /// Grows with every change.
    pub version: i64,
    /// Who made it.
    pub by: String,
    /// When it was changed last.
    pub updated_at: Time,
}

/// Every view, by name.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Views)]
pub struct ViewsPage {
    /// They.
    pub views: Vec<ViewShape>,
}

/// Something that happened outside, such as a deploy.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewMark)]
pub struct MarkBody {
    /// What happened, 1 to 200 characters.
    pub text: String,
    /// When; now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// A mark in time.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Mark)]
pub struct MarkShape {
    /// Its id.
    pub id: String,
    /// When it happened.
    pub at: Time,
    /// What happened.
    pub text: String,
    /// Who said so.
    pub by: String,
}

/// Marks, the latest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Marks)]
pub struct MarksPage {
    /// They.
    pub marks: Vec<MarkShape>,
}
