//! What surrounds jobs, as users see it: queues, workers, audit entries, access keys.

use super::lane::{BrokenShape, LimitsShape};
use super::time::{Span, Time};
use crate::route::role_word;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::registry::Slots;
use windlass_core::{AccessKey, AuditEntry, Backoff, Metadata, Queue, QueueDefaults, Timestamp, Worker};
use windlass_store::QueueState;

/// A queue with what stands in it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Queue)]
pub struct QueueShape {
    /// Its name.
    pub name: String,
    /// Jobs that a worker could take now.
    pub due: i64,
    /// Whether there are more than were counted.
    pub due_capped: bool,
    /// Since when the oldest of them is due.
    pub oldest_due_at: Option<Time>,
    /// When it was paused and by whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PausedShape>,
    /// What its jobs fall back to.
    pub defaults: DefaultsShape,
    /// How its jobs reach workers: `pull` or `push`.
    pub mode: String,
    /// Until when it is held as a whole, because what a job of it calls takes no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Time>,
    /// That its breaker keeps its jobs from starting, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<BrokenShape>,
    /// Its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<LimitsShape>,
    /// The web service that servers send its jobs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointShape>,
    /// What happened in the last minute, as far as this server saw it.
    pub rates: RatesShape,
}

/// The web service that servers send a queue's jobs to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = QueueEndpoint)]
pub struct EndpointShape {
    /// Where it is: its host, for a path may hold a secret.
    pub url: String,
    /// How many jobs each server has with it at once.
    pub max: i64,
    /// What requests are signed with, in the answer to the request that made it and never again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Since when a queue is paused.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Paused)]
pub struct PausedShape {
    /// When.
    pub at: Time,
    /// By whom.
    pub by: String,
}

/// Events of the last minute, per second.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Rates)]
pub struct RatesShape {
    /// Jobs that came in.
    pub enqueued: f64,
    /// Attempts that began.
    pub started: f64,
    /// Jobs that completed.
    pub completed: f64,
    /// Jobs that failed or timed out for good.
    pub dead: f64,
}

/// What a queue's jobs fall back to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Defaults)]
pub struct DefaultsShape {
    /// Failures allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i32>,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How long a lease lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// How long after its lease only the holder may still finish a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// How retries are spaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffOut>,
}

/// How retries are spaced.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Backoff)]
pub struct BackoffOut {
    /// The first delay.
    pub base: Span,
    /// The longest delay.
    pub max: Span,
    /// Growth per retry.
    pub multiplier: f64,
    /// Whether delays are drawn evenly from zero to the full one.
    pub jitter: bool,
}

impl From<Backoff> for BackoffOut {
    fn from(backoff: Backoff) -> Self {
        let Backoff { base_ms, max_ms, multiplier, jitter } = backoff;
        Self { base: Span::from_ms(base_ms), max: Span::from_ms(max_ms), multiplier, jitter }
    }
}

impl From<&BackoffOut> for Backoff {
    fn from(out: &BackoffOut) -> Self {
        let BackoffOut { base, max, multiplier, jitter } = *out;
        Self { base_ms: base.ms(), max_ms: max.ms(), multiplier, jitter }
    }
}

impl QueueShape {
    /// A queue as it stands.
    pub(crate) fn of(state: QueueState, rates: RatesShape) -> Self {
        let QueueState { queue, due, oldest_due_at, held_until } = state;
        let Queue { name, paused, defaults, mode, flow, endpoint } = queue;
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
            mode: mode.as_str().to_owned(),
            held_until: held_until.map(Time),
            broken: flow.as_ref().and_then(|flow| flow.broken).map(BrokenShape::from),
            flow: flow.as_ref().filter(|flow| flow.has_rules()).map(LimitsShape::from),
            endpoint: endpoint.map(|endpoint| EndpointShape {
                url: endpoint.shown_url(),
                max: endpoint.max,
                secret: None,
            }),
            rates,
        }
    }
}

/// A worker process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Worker)]
pub struct WorkerShape {
    /// Its identity, fresh per process start.
    pub id: String,
    /// Queues it takes from.
    pub queues: Vec<String>,
    /// Kinds it knows; all when empty.
    pub kinds: Vec<String>,
    /// How many jobs at once.
    pub capacity: i32,
    /// How many of them from a queue, where that is less.
    #[schema(value_type = Object)]
    pub slots: Slots,
    /// Labels, for people and for what jobs of push queues require.
    #[schema(value_type = Object)]
    pub labels: Metadata,
    /// Whether it takes no more.
    pub draining: bool,
    /// Whether it is there.
    pub live: bool,
    /// When it was first seen.
    pub started_at: Time,
    /// When it was last seen.
    pub seen_at: Time,
    /// When it counts as gone.
    pub expires_at: Time,
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
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct AuditShape {
    /// Its place.
    pub seq: i64,
    /// When.
    pub at: Time,
    /// Who.
    pub actor: String,
    /// What, as a word.
    pub action: String,
    /// On what.
    pub target: String,
    /// How it stood before and after.
    #[schema(value_type = Object)]
    pub detail: Metadata,
}

impl From<AuditEntry> for AuditShape {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { seq, at, actor, action, target, detail } = entry;
        Self { seq, at: Time(at), actor: actor.to_string(), action: action.to_string(), target, detail }
    }
}

/// An access key, without what proves it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AccessKey)]
pub struct KeyShape {
    /// Its name: who it stands for in logs and audit.
    pub name: String,
    /// What it may do.
    pub roles: Vec<String>,
    /// Only for these queues.
    pub queues: Option<Vec<String>>,
    /// Until when.
    pub expires_at: Option<Time>,
    /// When it was made.
    pub created_at: Time,
    /// When it was taken back.
    pub revoked_at: Option<Time>,
}

impl From<&AccessKey> for KeyShape {
    fn from(key: &AccessKey) -> Self {
        Self {
            name: key.name.to_string(),
            roles: key.roles.iter().map(|role| role_word(*role).to_owned()).collect(),
            queues: key.queues.as_ref().map(|names| names.iter().map(ToString::to_string).collect()),
            expires_at: key.expires_at.map(Time),
            created_at: Time(key.created_at),
            revoked_at: key.revoked_at.map(Time),
        }
    }
}

/// Every queue that has a setting or a job that may run, now or later, or runs; or in which something happened in the last
/// day, as this server saw it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Queues)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct QueuesPage {
    pub queues: Vec<QueueShape>,
}

/// A queue after it was changed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = OneQueue)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct OneQueue {
    pub queue: QueueShape,
}

/// Every worker that was not forgotten.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Workers)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct WorkersPage {
    pub workers: Vec<WorkerShape>,
}

/// A worker after it reported, or was told.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = OneWorker)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct OneWorker {
    pub worker: WorkerShape,
}

/// A page of the audit, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Audit)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct AuditPage {
    pub entries: Vec<AuditShape>,
    /// Where to go on; none at the end.
    pub next_cursor: Option<String>,
}

/// Every key that grants no more than the caller's own, by name.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AccessKeys)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct KeysPage {
    pub keys: Vec<KeyShape>,
}

/// One key.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = OneAccessKey)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct OneKey {
    pub key: KeyShape,
}

/// A key that was made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MadeAccessKey)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct MadeKey {
    pub key: KeyShape,
    /// The key itself. It is shown this once and kept nowhere.
    pub secret: String,
}
