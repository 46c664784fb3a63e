//! What surrounds jobs: queues, workers, terms, access keys, audit, log lines.

use crate::backoff::Backoff;
use crate::job::Metadata;
use crate::lease::LeaseMs;
use crate::limits::{self, Invalid};
use crate::name::{Actor, Name, Who};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Defaults that jobs of a queue fall back to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueueDefaults {
    /// Retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i32>,
    /// Timeout of one attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// Lease, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<LeaseMs>,
    /// Grace, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<i64>,
    /// Backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
}

impl QueueDefaults {
    /// Accepts what is within the limits.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(n) = self.max_retries {
            limits::within("max_retries", n.into(), 0, limits::MAX_RETRIES_MAX)?;
        }
        if let Some(ms) = self.timeout_ms {
            limits::within("timeout", ms, 1, limits::TIMEOUT_MAX_MS)?;
        }
        if let Some(ms) = self.lease_ms {
            LeaseMs::new(ms.get())?;
        }
        if let Some(ms) = self.grace_ms {
            limits::within("grace", ms, 0, limits::GRACE_MAX_MS)?;
        }
        self.backoff.map_or(Ok(()), |b| b.check().map(|_| ()))
    }
}

/// A queue as it is kept: only queues with a setting have a row, others exist by having jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: Name,
    /// When it was paused and by whom.
    pub paused: Option<(Timestamp, Actor)>,
    /// What its jobs fall back to.
    pub defaults: QueueDefaults,
}

/// A worker process: fresh identity per process start.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    /// Its identity.
    pub id: Who,
    /// Queues it takes from.
    pub queues: Vec<Name>,
    /// Kinds it knows; all when empty.
    pub kinds: Vec<Name>,
    /// How many jobs at once.
    pub capacity: i32,
    /// Labels for people.
    pub labels: Metadata,
    /// Whether it takes no more.
    pub draining: bool,
    /// When it was first seen.
    pub started_at: Timestamp,
    /// When it was last seen.
    pub seen_at: Timestamp,
    /// When it counts as gone.
    pub expires_at: Timestamp,
}

impl Worker {
    /// Whether it is there and takes jobs of this queue and kind.
    pub fn takes(&self, queue: &Name, kind: &Name, now: Timestamp) -> bool {
        self.expires_at > now
            && !self.draining
            && self.queues.contains(queue)
            && (self.kinds.is_empty() || self.kinds.contains(kind))
    }
}

/// Leadership for a time: one holder, and an epoch that grows with every change of holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Of what.
    pub name: Name,
    /// Who leads.
    pub holder: Who,
    /// Which reign: every leader's write carries it.
    pub epoch: i64,
    /// When the reign is over.
    pub expires_at: Timestamp,
}

impl Term {
    /// Whether `epoch` may act at `now`.
    pub fn allows(&self, epoch: i64, now: Timestamp) -> bool {
        self.epoch == epoch && self.expires_at > now
    }
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Enqueues, signals, cancels.
    Producer,
    /// Claims and settles.
    Worker,
    /// Votes.
    Approver,
    /// Redrives, pauses, forks.
    Operator,
    /// Everything.
    Admin,
}

/// An access key: 256 random bits, shown once, kept as a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// Its name: who it stands for in logs and audit.
    pub name: Who,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// What it may do.
    pub roles: Vec<Role>,
    /// Only for these queues.
    pub queues: Option<Vec<Name>>,
    /// Until when.
    pub expires_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
}

impl AccessKey {
    /// Whether it opens anything at `now`.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|t| t > now)
    }
}

/// What a key grants, in the words of the audit: all of it, also what it is not limited by.
pub fn granted(roles: &[Role], queues: Option<&[Name]>, expires_at: Option<Timestamp>) -> Metadata {
    let json = |value| serde_json::to_value(value).unwrap_or_default();
    Metadata::from_iter([
        ("roles".to_owned(), serde_json::to_value(roles).unwrap_or_default()),
        ("queues".to_owned(), queues.map(json).unwrap_or_default()),
        ("expires_at".to_owned(), expires_at.map(|at| at.to_string()).into()),
    ])
}

/// An operator's action on record.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// Its place.
    pub seq: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// What, as a word: `queue.pause`, `approval.refused`.
    pub action: Name,
    /// On what.
    pub target: String,
    /// How it stood before and after, as far as that says something.
    pub detail: Metadata,
}

/// A line of a job's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its place among the job's lines.
    pub n: i64,
    /// When.
    pub at: Timestamp,
    /// Which attempt wrote it.
    pub attempt: i32,
    /// The text.
    pub line: String,
}
