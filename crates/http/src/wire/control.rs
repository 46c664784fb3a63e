//! What operators set: queues, workers, access keys, votes.

use super::lane::LimitsShape;
use super::new_job::BackoffShape;
use super::object::two_way;
use super::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use windlass_core::Metadata;

two_way!(QueueBody, EndpointBody, WorkerBody, NewKey, DecideBody, SignIn);

/// What a queue's jobs fall back to, and how they reach workers. What is left out is unset; mode, limits and endpoint stay as
/// they are.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = QueueSettings)]
pub struct QueueBody {
    /// Failures allowed, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How long a lease lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// How long after its lease only the holder may still finish a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// How retries are spaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffShape>,
    /// `pull`: workers take its jobs; `push`: the leader assigns them, to workers whose labels match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "push")]
    pub mode: Option<String>,
    /// Its limits; as they are when left out, none when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<LimitsShape>,
    /// The web service that servers send its jobs to, as `windlass work --post` does; as it is when left out, none when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointBody>,
}

/// A web service for the jobs of a queue.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = QueueEndpointSettings)]
pub struct EndpointBody {
    /// Where it is, `http://` or `https://`; left out, the queue has no endpoint any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What requests are signed with, `whsec_…`; as it was when left out, and made and answered once where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// How many jobs each server has with it at once; 10. The limit of the queue bounds all servers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max: Option<i64>,
}

/// What a worker says of itself. With nothing but `draining` it tells a known worker to take no
/// more, or to take jobs again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = WorkerReport)]
pub struct WorkerBody {
    /// Queues it takes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// Kinds it knows; all when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    /// How many jobs at once; one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub capacity: Option<i64>,
    /// How many of them from a queue, where that is less: a number for each such queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub slots: Option<BTreeMap<String, i64>>,
    /// Labels, for people and for what jobs of push queues require.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub labels: Option<Metadata>,
    /// Whether it takes no more. It is never unset by a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<bool>,
    /// How long it counts as there; 60 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
}

/// A key to make.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewAccessKey)]
pub struct NewKey {
    /// Its name: who it stands for in logs and audit. Taken once, also after it was revoked.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// What it may do: `viewer`, `producer`, `worker`, `approver`, `operator`, `admin`.
    #[schema(min_items = 1)]
    pub roles: Vec<String>,
    /// Only for these queues; for all when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// Until when; for ever when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// A vote.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Decide)]
pub struct DecideBody {
    /// Yes or no.
    pub decision: DecisionWord,
    /// The token of the link, instead of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why; a denial tells it to the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A vote in a word.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionWord {
    /// Yes.
    Approve,
    /// No.
    Deny,
}

/// Who signs in.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = SignIn)]
pub struct SignIn {
    /// The key, unless it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}
