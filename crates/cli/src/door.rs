//! How a command reaches jobs: one trait, the same documents either way. [`OnStore`] asks a store itself,
//! [`Remote`] a server.

mod on_store;
mod remote;

pub use on_store::OnStore;
pub use remote::Remote;

use crate::fail::Outcome;
use crate::shape::Reply;
use async_trait::async_trait;
use windlass_core::{ApprovalId, JobId, Key, Name, Payload, QueueDefaults, Role, RunAt, Timestamp, Who};

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

/// Everything a command may ask, answered in the words of the public API.
#[async_trait]
pub trait Door: Send + Sync {
    /// `{job, existed, payload_differs}`
    async fn enqueue(&self, draft: Draft) -> Outcome<Reply>;
    /// The job, now or as it stood.
    async fn job(&self, id: JobId, at_version: Option<i64>) -> Outcome<Reply>;
    /// `{jobs, next_cursor}`
    async fn jobs(&self, filter: &Pairs, cursor: Option<String>, limit: usize) -> Outcome<Reply>;
    /// `{events}`
    async fn events(&self, id: JobId, after: i64, limit: usize) -> Outcome<Reply>;
    /// `{lines}`
    async fn logs(&self, id: JobId, after: i64, limit: usize) -> Outcome<Reply>;
    /// `{job}`
    async fn cancel(
        &self,
        id: JobId,
        reason: Option<String>,
        force: bool,
        force_after_ms: i64,
    ) -> Outcome<Reply>;
    /// `{job}`
    async fn redrive(&self, id: JobId, run_at: RunAt, from_start: bool) -> Outcome<Reply>;
    /// `{job}`
    async fn fork(&self, id: JobId, from_version: Option<i64>, payload: Option<Payload>) -> Outcome<Reply>;
    /// `{duplicate, version}`
    async fn signal(
        &self,
        id: JobId,
        name: Name,
        payload: Option<Payload>,
        key: Option<Key>,
    ) -> Outcome<Reply>;
    /// `{matched, sample, done, skipped, next_cursor}`; so much per call.
    async fn bulk(
        &self,
        filter: &Pairs,
        action: &Action,
        dry_run: bool,
        cursor: Option<String>,
    ) -> Outcome<Reply>;
    /// `{approvals}`
    async fn approvals(&self, job: Option<JobId>, status: Option<String>, limit: usize) -> Outcome<Reply>;
    /// `{status, approval}`
    async fn decide(
        &self,
        id: ApprovalId,
        approve: bool,
        reason: Option<String>,
        token: Option<String>,
    ) -> Outcome<Reply>;
    /// `{queues}`
    async fn queues(&self) -> Outcome<Reply>;
    /// `{queue}`
    async fn set_queue(&self, name: Name, defaults: QueueDefaults) -> Outcome<Reply>;
    /// `{queue}`
    async fn pause(&self, name: Name, pause: bool) -> Outcome<Reply>;
    /// `{workers}`
    async fn workers(&self) -> Outcome<Reply>;
    /// `{worker}`
    async fn drain(&self, id: Who) -> Outcome<Reply>;
    /// `{entries}`
    async fn audit(&self, limit: usize) -> Outcome<Reply>;
    /// `{keys}`
    async fn keys(&self) -> Outcome<Reply>;
    /// `{key, secret}`
    async fn create_key(&self, key: KeyDraft) -> Outcome<Reply>;
    /// `{key}`
    async fn revoke_key(&self, name: Who) -> Outcome<Reply>;
    /// Waits until there may be something new; also when there is not.
    async fn changed(&self);
}
