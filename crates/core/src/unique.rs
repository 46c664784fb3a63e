//! Unique keys: what makes two jobs the same, and for how long.

use crate::ids::JobId;
use crate::limits::{DEBOUNCE_MAX_MS, HORIZON_MS, Invalid};
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
    /// Among the jobs of a queue and kind that give way to the latest; see [`Debounce`].
    Debounce {
        /// The queue.
        queue: Name,
        /// The kind.
        kind: Name,
    },
}

impl Scope {
    /// The text that the key table holds.
    pub fn to_text(&self) -> String {
        match self {
            Self::Queue(n) => format!("queue:{n}"),
            Self::Kind(n) => format!("kind:{n}"),
            Self::Schedule(n) => format!("schedule:{n}"),
            Self::Debounce { queue, kind } => format!("debounce:{queue}:{kind}"),
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
    /// While the job waits for its first run: until then the latest request is the one that it runs with.
    Debounce(Debounce),
}

/// Latest wins: while a job waits, the same key again gives it another payload and starts its wait anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debounce {
    /// How long a job waits after the latest request, in milliseconds.
    pub delay_ms: i64,
    /// How long after the first request it runs at the latest, in milliseconds.
    pub max_ms: i64,
}

impl Debounce {
    /// How many times its delay a job waits at most when nothing is said.
    const MAX_DELAYS: i64 = 10;

    /// With the longest wait that was asked for, or ten times the delay.
    pub fn new(delay_ms: i64, max_ms: Option<i64>) -> Self {
        let max_ms = max_ms.unwrap_or_else(|| delay_ms.saturating_mul(Self::MAX_DELAYS));
        Self { delay_ms, max_ms }
    }

    fn check(self) -> Result<(), Invalid> {
        within_ms("debounce.delay", self.delay_ms, 1, DEBOUNCE_MAX_MS)?;
        within_ms("debounce.max", self.max_ms, self.delay_ms, HORIZON_MS).map(|_| ())
    }

    /// When a job that was made then is due after a request now. A request never makes it due earlier than now.
    pub fn due_at(self, created_at: Timestamp, now: Timestamp) -> Timestamp {
        now.plus_ms(self.delay_ms).min(created_at.plus_ms(self.max_ms)).max(now)
    }
}

impl Policy {
    /// Whether a job that ends in `status` gives its key back.
    pub fn frees_at(self, status: Status) -> bool {
        match self {
            Self::Active | Self::Debounce(_) => status.is_terminal(),
            Self::Succeeded => status.is_terminal() && status != Status::Completed,
            Self::Forever | Self::Ttl(_) => false,
        }
    }

    /// The policy as the row keeps it: what is debounced holds its key while it is live, unless a later job takes it over.
    pub fn kept(self) -> Self {
        if let Self::Debounce(_) = self { Self::Active } else { self }
    }

    /// The text that the row holds: `active`, `succeeded`, `forever`, `ttl:5000`.
    pub fn to_text(self) -> String {
        match self {
            Self::Active | Self::Debounce(_) => "active".into(),
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

    /// The latest job of a queue and kind under a key wins.
    pub fn debounced(queue: Name, kind: Name, key: Key, debounce: Debounce) -> Self {
        Self { scope: Scope::Debounce { queue, kind }, key, policy: Policy::Debounce(debounce) }
    }

    /// Accepts a time to live of at most ten years, and a delay of at most a day.
    pub fn check(&self) -> Result<(), Invalid> {
        match (&self.scope, self.policy) {
            (_, Policy::Ttl(ms)) => within_ms("unique.ttl", ms, 1, HORIZON_MS).map(|_| ()),
            (Scope::Debounce { .. }, Policy::Debounce(debounce)) => debounce.check(),
            (Scope::Debounce { .. }, _) | (_, Policy::Debounce(_)) => {
                Err(Invalid::new("unique.policy", "debounce", "has a scope of its own"))
            }
            _ => Ok(()),
        }
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
