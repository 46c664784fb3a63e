//! Jobs into the store, and what became of them.

use super::job::JobShape;
use super::new_job::NewJobShape;
use super::object::two_way;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

two_way!(Batch);

/// Jobs to enqueue, all or none.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewJobs)]
pub struct Batch {
    /// At most 10,000.
    #[schema(max_items = 10_000)]
    pub jobs: Vec<NewJobShape>,
}

/// A job that was enqueued, or was there already.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Enqueued)]
pub struct EnqueuedShape {
    /// The job: the first one, if it existed. Only its id when the caller prefers a short answer.
    #[schema(value_type = JobShape)]
    pub job: JobOrId,
    /// Whether it was there already.
    pub existed: bool,
    /// Whether the one that was there has another payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_differs: Option<bool>,
    /// How the one that was there ended, if it was removed since and only its unique key is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// True if it was left out, because as many jobs of its key wait as may: there is no such job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<bool>,
}

/// A job, or only its id where a short answer was preferred.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum JobOrId {
    /// The job.
    Job(Box<JobShape>),
    /// Its id alone.
    Id {
        /// The id.
        id: String,
    },
}

impl<'de> Deserialize<'de> for JobOrId {
    /// Bytes that pass through unchanged are lost where variants are tried one after the other, so this is done by hand.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Short {
            id: String,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if let Ok(Short { id }) = serde_json::from_str(raw.get()) {
            return Ok(Self::Id { id });
        }
        serde_json::from_str(raw.get()).map(|job| Self::Job(Box::new(job))).map_err(D::Error::custom)
    }
}
