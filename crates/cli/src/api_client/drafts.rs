//! What is asked for, as it was typed and checked.

use windlass_core::dispatch::Requires;
use windlass_core::{JobId, Key, Metadata, Name, Payload, Role, RunAt, Timestamp, Who};

/// Filters as they are typed: names and values.
pub type Pairs = Vec<(String, String)>;

/// A job as it was typed.
#[derive(Debug, Clone)]
pub struct Draft {
    /// What to do.
    pub kind: Name,
    /// Which line it stands in.
    pub queue: Name,
    /// What the handler gets.
    pub payload: Option<Payload>,
    /// −5..5, higher first.
    pub priority: i32,
    /// From when it may run.
    pub run_at: RunAt,
    /// What makes two jobs the same.
    pub unique_key: Option<Key>,
    /// Failures allowed; its queue decides when nothing is said.
    pub max_retries: Option<i32>,
    /// How long one attempt may take, in milliseconds.
    pub timeout_ms: Option<i64>,
    /// Labels.
    pub tags: Vec<Name>,
    /// The agent it belongs to.
    pub agent_id: Option<Who>,
    /// Its id, if the caller has made one.
    pub id: Option<JobId>,
    /// Small facts.
    pub metadata: Option<Metadata>,
    /// The pause before a retry, in the words of the API.
    pub backoff: Option<serde_json::Map<String, serde_json::Value>>,
    /// Labels that its worker must have.
    pub requires: Requires,
}

/// What is done to all jobs of a filter.
#[derive(Debug, Clone)]
pub enum Action {
    /// Stop them.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
    /// Send them back.
    Redrive {
        /// Not before.
        run_at: Option<Timestamp>,
        /// Spread evenly over so many milliseconds.
        spread_ms: i64,
    },
}

/// A key to make.
#[derive(Debug, Clone)]
pub struct KeyDraft {
    /// Its name.
    pub name: Who,
    /// What it may do.
    pub roles: Vec<Role>,
    /// Only for these queues.
    pub queues: Option<Vec<Name>>,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}
