//! What surrounds jobs, as users see it: queues, workers, audit entries, access keys.

use super::time::{Span, Time};
use crate::route::role_word;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::registry::Slots;
use windlass_core::{AccessKey, AuditEntry, Backoff, Metadata, Queue, QueueDefaults, Timestamp, Worker};
use windlass_store::QueueState;

/// A queue with what stands in it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueShape {
    /// Its name.
    name: String,
    /// Jobs that a worker could take now.
    due: i64,
    /// Whether there are more than were counted.
    due_capped: bool,
    /// Since when the oldest of them is due.
    oldest_due_at: Option<Time>,
    /// When it was paused and by whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<PausedShape>,
    /// What its jobs fall back to.
    defaults: DefaultsShape,
    /// How its jobs reach workers: `pull` or `push`.
    mode: &'static str,
    /// What happened in the last minute, as far as this server saw it.
    rates: RatesShape,
}

/// Since when a queue is paused.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Paused)]
struct PausedShape {
    /// When.
    at: Time,
    /// By whom.
    by: String,
}

/// Events of the last minute, per second.
#[derive(Debug, Default, Clone, Copy, Serialize, ToSchema)]
#[schema(as = Rates)]
pub(crate) struct RatesShape {
    /// Jobs that came in.
    pub(crate) enqueued: f64,
    /// Attempts that began.
    pub(crate) started: f64,
    /// Jobs that completed.
    pub(crate) completed: f64,
    /// Jobs that failed or timed out for good.
    pub(crate) dead: f64,
}

/// What a queue's jobs fall back to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Defaults)]
struct DefaultsShape {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<BackoffOut>,
}

/// How retries are spaced.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Backoff)]
pub(crate) struct BackoffOut {
    base: Span,
    max: Span,
    multiplier: f64,
    jitter: bool,
}

impl From<Backoff> for BackoffOut {
    fn from(backoff: Backoff) -> Self {
        let Backoff { base_ms, max_ms, multiplier, jitter } = backoff;
        Self { base: Span::from_ms(base_ms), max: Span::from_ms(max_ms), multiplier, jitter }
    }
}

impl QueueShape {
    /// A queue as it stands.
    pub(crate) fn of(state: QueueState, rates: RatesShape) -> Self {
        let QueueState { queue: Queue { name, paused, defaults, mode }, due, oldest_due_at } = state;
        let QueueDefaults { max_retries, timeout_ms, lease_ms, grace_ms, backoff } = defaults;
        Self {
            name: name.to_string(),
            due: due.n,
            due_capped: due.capped,
            oldest_due_at: oldest_due_at.map(Time),
            paused: paused.map(|(at, by)| PausedShape { at: Time(at), by: by.to_string() }),
            defaults: DefaultsShape {
                max_retries,
                timeout: timeout_ms.map(Span::from_ms),
                lease: lease_ms.map(|ms| Span::from_ms(ms.get())),
                grace: grace_ms.map(Span::from_ms),
                backoff: backoff.map(BackoffOut::from),
            },
            mode: mode.as_str(),
            rates,
        }
    }
}

/// A worker process.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Worker)]
pub(crate) struct WorkerShape {
    /// Its identity, fresh per process start.
    id: String,
    /// Queues it takes from.
    queues: Vec<String>,
    /// Kinds it knows; all when empty.
    kinds: Vec<String>,
    /// How many jobs at once.
    capacity: i32,
    /// How many of them from a queue, where that is less.
    #[schema(value_type = Object)]
    slots: Slots,
    /// Labels, for people and for what jobs of push queues require.
    #[schema(value_type = Object)]
    labels: Metadata,
    /// Whether it takes no more.
    draining: bool,
    /// Whether it is there.
    live: bool,
    /// When it was first seen.
    started_at: Time,
    /// When it was last seen.
    seen_at: Time,
    /// When it counts as gone.
    expires_at: Time,
}

impl WorkerShape {
    /// A worker as it stands at `now`.
    pub(crate) fn of(worker: Worker, now: Timestamp) -> Self {
        let names = |names: Vec<windlass_core::Name>| names.iter().map(ToString::to_string).collect();
        Self {
            id: worker.id.to_string(),
            queues: names(worker.queues),
            kinds: names(worker.kinds),
            capacity: worker.capacity,
            slots: worker.slots,
            labels: worker.labels,
            draining: worker.draining,
            live: worker.expires_at > now,
            started_at: Time(worker.started_at),
            seen_at: Time(worker.seen_at),
            expires_at: Time(worker.expires_at),
        }
    }
}

/// An action on record.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct AuditShape {
    /// Its place.
    seq: i64,
    /// When.
    at: Time,
    /// Who.
    actor: String,
    /// What, as a word.
    action: String,
    /// On what.
    target: String,
    /// How it stood before and after.
    #[schema(value_type = Object)]
    detail: Metadata,
}

impl From<AuditEntry> for AuditShape {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { seq, at, actor, action, target, detail } = entry;
        Self { seq, at: Time(at), actor: actor.to_string(), action: action.to_string(), target, detail }
    }
}

/// An access key, without what proves it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AccessKey)]
pub(crate) struct KeyShape {
    /// Its name: who it stands for in logs and audit.
    name: String,
    /// What it may do.
    roles: Vec<&'static str>,
    /// Only for these queues.
    queues: Option<Vec<String>>,
    /// Until when.
    expires_at: Option<Time>,
    /// When it was made.
    created_at: Time,
    /// When it was taken back.
    revoked_at: Option<Time>,
}

impl From<&AccessKey> for KeyShape {
    fn from(key: &AccessKey) -> Self {
        Self {
            name: key.name.to_string(),
            roles: key.roles.iter().map(|role| role_word(*role)).collect(),
            queues: key.queues.as_ref().map(|names| names.iter().map(ToString::to_string).collect()),
            expires_at: key.expires_at.map(Time),
            created_at: Time(key.created_at),
            revoked_at: key.revoked_at.map(Time),
        }
    }
}
