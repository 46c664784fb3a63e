//! What surrounds jobs: queues, workers, access keys, remembered answers, audit, log lines.
//!
//! A request says what becomes of what is there, and what goes to the audit. A store reads what is there under its lock,
//! and writes what comes back.

use crate::ids::JobId;
use crate::job::{Metadata, Version};
use crate::lease::LeaseMs;
use crate::name::{Actor, Key, Name, Who};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod endpoint;
mod queue;

pub use endpoint::{AT_ONCE, AT_ONCE_MAX, Endpoint, SetEndpoint};
pub use queue::{PauseQueue, PutQueue, Queue, QueueDefaults, QueueMode};

/// How many jobs of a queue at once.
pub type Slots = BTreeMap<Name, i32>;

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
    /// How many of them from one queue, where that is less.
    pub slots: Slots,
    /// Labels, for people and for what jobs of push queues require.
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
    /// Whether it will start nothing more of what it was assigned: it does not report any more, or is drained.
    pub fn is_gone(&self, now: Timestamp) -> bool {
        self.expires_at <= now || self.draining
    }

    /// Whether it is there and takes jobs of this queue and kind.
    pub fn takes(&self, queue: &Name, kind: &Name, now: Timestamp) -> bool {
        self.expires_at > now
            && !self.draining
            && self.queues.contains(queue)
            && (self.kinds.is_empty() || self.kinds.contains(kind))
    }
}

/// A worker that reports itself.
#[derive(Debug, Clone)]
pub struct PutWorker {
    /// Its identity, fresh per process start.
    pub id: Who,
    /// Queues it takes from.
    pub queues: Vec<Name>,
    /// Kinds it knows; all when empty.
    pub kinds: Vec<Name>,
    /// How many jobs at once.
    pub capacity: i32,
    /// How many of them from one queue, where that is less.
    pub slots: Slots,
    /// Labels, for people and for what jobs of push queues require.
    pub labels: Metadata,
    /// Whether it takes no more; also set by [`DrainWorker`] and never unset by a report.
    pub draining: bool,
    /// How long it counts as there, in milliseconds.
    pub ttl_ms: LeaseMs,
}

impl PutWorker {
    /// The worker after its report.
    pub fn decide(&self, before: Option<&Worker>, now: Timestamp) -> Worker {
        Worker {
            id: self.id.clone(),
            queues: self.queues.clone(),
            kinds: self.kinds.clone(),
            capacity: self.capacity,
            slots: self.slots.clone(),
            labels: self.labels.clone(),
            draining: self.draining || before.is_some_and(|worker| worker.draining),
            started_at: before.map_or(now, |worker| worker.started_at),
            seen_at: now,
            expires_at: now.plus_ms(self.ttl_ms.get()),
        }
    }
}

/// A worker to drain, or to let take jobs again.
#[derive(Debug, Clone)]
pub struct DrainWorker {
    /// Which.
    pub id: Who,
    /// Whether it takes no more; false undoes that.
    pub drain: bool,
    /// Who says so.
    pub actor: Actor,
}

impl DrainWorker {
    /// The worker as it is wanted; none if it is so already.
    pub fn decide(&self, before: &Worker) -> Option<(Worker, WriteAudit)> {
        let action = if self.drain { "worker.drain" } else { "worker.undrain" };
        let audit = WriteAudit::of(self.actor.clone(), action, &self.id, Metadata::new());
        (before.draining != self.drain).then(|| (Worker { draining: self.drain, ..before.clone() }, audit))
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
fn grants(roles: &[Role], queues: Option<&[Name]>, expires_at: Option<Timestamp>) -> Metadata {
    let json = |value| serde_json::to_value(value).unwrap_or_default();
    Metadata::from_iter([
        ("roles".to_owned(), serde_json::to_value(roles).unwrap_or_default()),
        ("queues".to_owned(), queues.map(json).unwrap_or_default()),
        ("expires_at".to_owned(), expires_at.map(|at| at.to_string()).into()),
    ])
}

/// An access key to make.
#[derive(Debug, Clone)]
pub struct PutAccessKey {
    /// Its name; taken once, also after it was revoked.
    pub name: Who,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// What it may do.
    pub roles: Vec<Role>,
    /// Only for these queues.
    pub queues: Option<Vec<Name>>,
    /// Until when.
    pub expires_at: Option<Timestamp>,
    /// Who makes it.
    pub actor: Actor,
}

/// What making an access key comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyMaking {
    /// This very key was made before.
    Already,
    /// Its name or its hash is another key's.
    Taken,
    /// To be written.
    New(Box<AccessKey>, WriteAudit),
}

impl PutAccessKey {
    /// The key, given the ones that have its name and its hash.
    pub fn decide(
        &self,
        by_name: Option<&AccessKey>,
        by_hash: Option<&AccessKey>,
        now: Timestamp,
    ) -> KeyMaking {
        if let Some(there) = by_name.or(by_hash) {
            let same = there.name == self.name && there.hash == self.hash;
            return if same { KeyMaking::Already } else { KeyMaking::Taken };
        }
        let detail = grants(&self.roles, self.queues.as_deref(), self.expires_at);
        let key = AccessKey {
            name: self.name.clone(),
            hash: self.hash,
            roles: self.roles.clone(),
            queues: self.queues.clone(),
            expires_at: self.expires_at,
            created_at: now,
            revoked_at: None,
        };
        KeyMaking::New(Box::new(key), WriteAudit::of(self.actor.clone(), "key.create", &self.name, detail))
    }
}

/// An access key to take back.
#[derive(Debug, Clone)]
pub struct RevokeAccessKey {
    /// Which.
    pub name: Who,
    /// Who takes it back.
    pub actor: Actor,
}

impl RevokeAccessKey {
    /// The key, revoked; none if it is.
    pub fn decide(&self, before: &AccessKey, now: Timestamp) -> Option<(AccessKey, WriteAudit)> {
        let audit = WriteAudit::of(self.actor.clone(), "key.revoke", &self.name, Metadata::new());
        let revoked = || AccessKey { revoked_at: Some(now), ..before.clone() };
        before.revoked_at.is_none().then(|| (revoked(), audit))
    }
}

/// A caller's promise that the same key means the same request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key.
    pub key: Key,
    /// SHA-256 of the request.
    pub request_hash: [u8; 32],
}

impl Idempotency {
    /// The answer for this request, from the one that is kept for its key: the hash of its request, and the answer.
    pub fn recall(&self, kept: Option<([u8; 32], Vec<u8>)>) -> Result<Option<Vec<u8>>, Refusal> {
        match kept {
            Some((hash, _)) if hash != self.request_hash => Err(Refusal::IdempotencyKeyReused),
            kept => Ok(kept.map(|(_, body)| body)),
        }
    }
}

/// An answer to remember for a repeated request.
#[derive(Debug, Clone)]
pub struct Remember {
    /// The key and what it stood for.
    pub idempotency: Idempotency,
    /// The answer.
    pub body: Vec<u8>,
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

/// An action to put on record.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteAudit {
    /// Who.
    pub actor: Actor,
    /// What.
    pub action: Name,
    /// On what.
    pub target: String,
    /// How it stood before and after.
    pub detail: Metadata,
}

impl WriteAudit {
    /// A job was erased at a version, and so many files of the archive were written anew for it.
    pub fn erased(actor: Actor, job: JobId, version: Version, archive_files: usize) -> Self {
        let detail =
            [("version".to_owned(), version.into()), ("archive_files".to_owned(), archive_files.into())];
        Self::of(actor, "job.erase", job, Metadata::from_iter(detail))
    }

    /// A job that does not read back was failed without looking at it: why.
    pub fn set_aside(job: JobId, why: &str) -> Self {
        Self::of(Actor::engine(), "job.set_aside", job, Metadata::from_iter([("why".to_owned(), why.into())]))
    }

    /// What a store itself sees an operator do.
    pub(crate) fn of(
        actor: Actor,
        action: &'static str,
        target: impl std::fmt::Display,
        detail: Metadata,
    ) -> Self {
        Self { actor, action: Name::word(action), target: target.to_string(), detail }
    }
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
