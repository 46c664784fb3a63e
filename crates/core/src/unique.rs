//! Unique keys: what makes two jobs the same, and for how long.

use crate::ids::JobId;
use crate::limits::{HORIZON_MS, Invalid};
use crate::name::{Key, Name};
use crate::payload::Payload;
use crate::span::within_ms;
use crate::status::Status;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Within what a key is unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// Among the jobs of a queue.
    Queue(Name),
    /// Among the jobs of a kind.
    Kind(Name),
    /// Among the slots of a schedule.
    Schedule(Name),
}

impl Scope {
    /// The text that the key table holds.
    pub fn to_text(&self) -> String {
        match self {
            Self::Queue(n) => format!("queue:{n}"),
            Self::Kind(n) => format!("kind:{n}"),
            Self::Schedule(n) => format!("schedule:{n}"),
        }
    }
}

/// How long a key stays taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// While the job is live.
    Active,
    /// While the job is live, and after it completed. A job that failed or was cancelled frees its key.
    Succeeded,
    /// For ever, also after the job was removed.
    Forever,
    /// For a time, in milliseconds, whatever becomes of the job.
    Ttl(i64),
}

impl Policy {
    /// Whether a job that ends in `status` gives its key back.
    pub fn frees_at(self, status: Status) -> bool {
        match self {
            Self::Active => status.is_terminal(),
            Self::Succeeded => status.is_terminal() && status != Status::Completed,
            Self::Forever | Self::Ttl(_) => false,
        }
    }

    /// The text that the row holds: `active`, `succeeded`, `forever`, `ttl:5000`.
    pub fn to_text(self) -> String {
        match self {
            Self::Active => "active".into(),
            Self::Succeeded => "succeeded".into(),
            Self::Forever => "forever".into(),
            Self::Ttl(ms) => format!("ttl:{ms}"),
        }
    }

    /// The policy a text of the row stands for.
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            "active" => Some(Self::Active),
            "succeeded" => Some(Self::Succeeded),
            "forever" => Some(Self::Forever),
            _ => text.strip_prefix("ttl:")?.parse().ok().map(Self::Ttl),
        }
    }
}

/// A unique key as a job asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unique {
    /// Within what it is unique.
    pub scope: Scope,
    /// The key.
    pub key: Key,
    /// For how long.
    pub policy: Policy,
}

impl Unique {
    /// The caller's own key within a queue, held while the job is live or succeeded.
    pub fn in_queue(queue: Name, key: Key) -> Self {
        Self { scope: Scope::Queue(queue), key, policy: Policy::Succeeded }
    }

    /// The same input of a kind, by the payload's fingerprint: the order of keys in it does not matter.
    pub fn by_payload(kind: Name, payload: Option<&Payload>) -> Result<Self, Invalid> {
        let hash = payload.map(Payload::fingerprint).unwrap_or_default();
        let key = Key::parse("unique.key", format!("sha256:{}", crate::lease::hex(&hash)))?;
        Ok(Self { scope: Scope::Kind(kind), key, policy: Policy::Succeeded })
    }

    /// One slot of a schedule: created once, whoever and however many try.
    pub fn slot(schedule: Name, instant: Timestamp) -> Result<Self, Invalid> {
        let key = Key::parse("slot", instant.to_string())?;
        Ok(Self { scope: Scope::Schedule(schedule), key, policy: Policy::Forever })
    }

    /// Accepts a time to live of at most ten years.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Policy::Ttl(ms) = self.policy {
            within_ms("unique.ttl", ms, 1, HORIZON_MS)?;
        }
        Ok(())
    }
}

/// A taken key, as the key table holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Whose it is. The job may be gone already: keys outlive jobs.
    pub job: JobId,
    /// Fingerprint of that job's payload, to tell a duplicate whether its own differs.
    pub payload_hash: [u8; 32],
    /// Until when, if it ends by time.
    pub expires_at: Option<Timestamp>,
}

impl Hold {
    /// What a job takes at `now`.
    pub fn take(job: JobId, unique: &Unique, payload: Option<&Payload>, now: Timestamp) -> Self {
        let expires_at = match unique.policy {
            Policy::Ttl(ms) => Some(now.plus_ms(ms)),
            _ => None,
        };
        Self { job, payload_hash: payload.map(Payload::fingerprint).unwrap_or_default(), expires_at }
    }

    /// Whether it still keeps others out.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|t| t > now)
    }
}
