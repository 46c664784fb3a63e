//! The job: what is asked for, what never changes about it, and the narrow row that says where it stands.

use crate::backoff::Backoff;
use crate::dispatch::Requires;
use crate::event::{EventKind, Unreadable};
use crate::flow::Graph;
use crate::ids::JobId;
use crate::lane::Lane;
use crate::lease::{LeaseHash, LeaseMs, Token};
use crate::limits::{self, Invalid};
use crate::name::{Key, Name, Who};
use crate::payload::{Payload, fits};
use crate::status::Status;
use crate::time::Timestamp;
use crate::unique::{Policy, Unique};
use crate::wait::WaitFor;
use serde::{Deserialize, Serialize};

/// The version of a job: how many events were ever written for it.
pub type Version = i64;

/// Small JSON object that travels with a job.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// From when a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunAt {
    /// At once.
    #[default]
    Now,
    /// From a moment on.
    At(Timestamp),
    /// So many milliseconds after the store took it.
    After(i64),
}

impl RunAt {
    /// The moment, for something written at `now`.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::At(t) => t,
            Self::After(ms) => now.plus_ms(ms),
        }
    }

    /// Accepts moments within ten years and delays that are not negative.
    pub fn check(self, field: &str, now: Timestamp) -> Result<Timestamp, Invalid> {
        if let Self::After(ms) = self {
            crate::span::within_ms("delay", ms, 0, limits::HORIZON_MS)?;
        }
        self.resolve(now).near(field, now)
    }
}

/// What never changes about a job. Event 1 carries it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// What to do.
    pub kind: Name,
    /// Which line it stands in.
    pub queue: Name,
    /// −5..5, higher first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// From when it may run.
    #[serde(default, skip_serializing_if = "is_now")]
    pub run_at: RunAt,
    /// Failures allowed before it is dead.
    pub max_retries: i32,
    /// How long one attempt may take, in milliseconds; 0 is no timeout, none is what the worker falls back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// Its own lease, in milliseconds, instead of the claimer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<LeaseMs>,
    /// How long after its lease only the holder may still finish it, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub grace_ms: i64,
    /// Its own backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// The agent it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<Who>,
    /// The job that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<JobId>,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Name>,
    /// Its first metadata.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Its unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// Labels that a worker must have to be assigned it. Only queues in mode push look at them.
    #[serde(default, skip_serializing_if = "Requires::is_empty")]
    pub requires: Requires,
    /// Whose job it is, such as a tenant: jobs of one key form a lane of their queue, where the queue has rules for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// How many units of its queue's rate one start takes, 1..=1,000.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: i32,
    /// Its place in a graph of jobs: what it waits for, or that it is the parent of a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Box<Graph>>,
    /// Whether what it was given, found and printed was erased, also its metadata.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub erased: bool,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

fn one() -> i32 {
    1
}

fn is_one(n: &i32) -> bool {
    *n == 1
}

/// Keys of a job's metadata that carry its trace context (W3C Trace Context).
pub const TRACE_KEYS: [&str; 2] = ["traceparent", "tracestate"];

fn is_zero_ms(n: &i64) -> bool {
    *n == 0
}

fn is_now(run_at: &RunAt) -> bool {
    *run_at == RunAt::Now
}

impl Facts {
    /// Reads them back from the detail of a job's first event.
    pub fn read(detail: Option<&str>) -> Result<Self, Unreadable> {
        match EventKind::read("job_created", detail)? {
            EventKind::JobCreated(facts) => Ok(*facts),
            other => Err(Unreadable {
                type_name: other.type_name().to_owned(),
                detail: other.detail(),
                why: "it is not job_created".to_owned(),
            }),
        }
    }

    /// A plain job of `kind` in `queue`.
    pub fn new(kind: Name, queue: Name) -> Self {
        Self {
            kind,
            queue,
            priority: 0,
            run_at: RunAt::Now,
            max_retries: limits::MAX_RETRIES_DEFAULT as i32,
            timeout_ms: None,
            lease_ms: None,
            grace_ms: 0,
            backoff: None,
            agent_id: None,
            parent_id: None,
            tags: Vec::new(),
            metadata: Metadata::new(),
            unique: None,
            requires: Requires::new(),
            key: None,
            cost: 1,
            graph: None,
            erased: false,
        }
    }

    /// Whether both ask for the same job. The trace that a request belongs to is not part of what it asks for: a repeat may
    /// come from another one. Of an erased job the rest is compared.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        if self.erased {
            return *self == Self { metadata: Metadata::new(), erased: true, ..other.clone() };
        }
        let untraced = |facts: &Self| {
            let mut facts = facts.clone();
            facts.metadata.retain(|key, _| !TRACE_KEYS.contains(&key.as_str()));
            facts
        };
        untraced(self) == untraced(other)
    }

    /// How long one attempt may take, in milliseconds. A timeout of 0 means none, whatever the job would fall back to.
    pub fn own_timeout_ms(&self) -> Option<i64> {
        self.timeout_ms.filter(|ms| *ms != 0)
    }

    /// Accepts what is within the limits at `now`.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        limits::within("priority", self.priority.into(), limits::PRIORITY_MIN, limits::PRIORITY_MAX)?;
        limits::within("max_retries", self.max_retries.into(), 0, limits::MAX_RETRIES_MAX)?;
        if let Some(ms) = self.timeout_ms {
            crate::span::within_ms("timeout", ms, 0, limits::TIMEOUT_MAX_MS)?;
        }
        if let Some(ms) = self.lease_ms {
            LeaseMs::new(ms.get())?;
        }
        crate::span::within_ms("grace", self.grace_ms, 0, limits::GRACE_MAX_MS)?;
        if let Some(backoff) = self.backoff {
            backoff.check()?;
        }
        limits::within("cost", self.cost.into(), 1, limits::COST_MAX)?;
        limits::count("tags", self.tags.len(), limits::TAGS_MAX)?;
        check_metadata(&self.metadata)?;
        limits::count("requires", self.requires.len(), limits::REQUIRES_MAX)?;
        for value in self.requires.values() {
            limits::text("requires", value, limits::LABEL_MAX_BYTES)?;
        }
        if let Some(unique) = &self.unique {
            unique.check()?;
        }
        if self.is_reserved_kind() {
            let limit = "is the engine's own; make a flow with POST /v1/flows or `client.flow()`";
            return Err(Invalid::new("kind", self.kind.as_str(), limit));
        }
        if let Some(graph) = &self.graph {
            graph.check(self)?;
        }
        self.run_at.check("run_at", now).map(|_| ())
    }
}

/// Accepts metadata within its limits.
pub fn check_metadata(metadata: &Metadata) -> Result<(), Invalid> {
    if metadata.is_empty() {
        return Ok(());
    }
    Payload::from_value("metadata", metadata, limits::METADATA_MAX_BYTES).map(|_| ())
}

/// A job as a caller asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Made by the application, so that a repeat is recognised.
    pub id: JobId,
    /// What never changes about it.
    pub facts: Facts,
    /// What the handler gets.
    pub payload: Option<Payload>,
    /// The lease of the parent, when the parent's handler spawns it.
    pub parent_token: Option<Token>,
}

impl NewJob {
    /// Accepts what is within the limits at `now`.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        self.facts.check(now)?;
        fits("payload", self.payload.as_ref(), limits::PAYLOAD_MAX_BYTES)
    }
}

/// The narrow row: where a job stands. A fold of its log, except `lease_expires_at` and, while running,
/// `due_at`, which renewals move without an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its identity.
    pub id: JobId,
    /// Which line it stands in.
    pub queue: Name,
    /// What to do.
    pub kind: Name,
    /// −5..5, higher first.
    pub priority: i32,
    /// Where it stands.
    pub status: Status,
    /// From when a worker may take it; while running, when the lease is over.
    pub due_at: Option<Timestamp>,
    /// When the engine must act: expiry of a wait, lapse of an assignment, forced cancel, timeout.
    pub deadline_at: Option<Timestamp>,
    /// Who holds it or is assigned it.
    pub worker_id: Option<Who>,
    /// Hash of the holder's token.
    pub lease_hash: Option<LeaseHash>,
    /// When the holder must have stopped by itself.
    pub lease_expires_at: Option<Timestamp>,
    /// The leader's epoch under which it was assigned and runs; none when a worker claimed it.
    pub epoch: Option<i64>,
    /// The event that assigned it, while it is assigned or runs under that assignment.
    pub assignment: Option<Version>,
    /// Executions over the whole life: the fence.
    pub attempt: i32,
    /// Failures that used the budget.
    pub retries: i32,
    /// The budget.
    pub max_retries: i32,
    /// Leases lost in a row.
    pub crashes: i32,
    /// Events ever written.
    pub version: Version,
    /// Redrives.
    pub generation: i32,
    /// 0..100.
    pub progress: i32,
    /// Free text of where the handler is.
    pub stage: Option<String>,
    /// What it waits for, exactly while waiting.
    pub waiting_for: Option<WaitFor>,
    /// The name of that wait.
    pub wait_name: Option<Name>,
    /// The event of the last wait of this run.
    pub wait_version: Option<Version>,
    /// The event that ended it.
    pub wake_version: Option<Version>,
    /// Signals kept for later waits.
    pub signals: i32,
    /// Children not finished; before the first run of a job that waits for others, also its upstream jobs.
    pub children: i32,
    /// Edges to jobs that wait for its end.
    pub dependents: i32,
    /// The job that spawned it and counts it among its children.
    pub parent_id: Option<JobId>,
    /// When a cancel was requested of its holder.
    pub cancel_requested_at: Option<Timestamp>,
    /// Steps recorded before this version do not count: it was redriven from the start.
    pub steps_from: Version,
    /// How its unique key is held, if it has one.
    pub unique_policy: Option<Policy>,
    /// How long one attempt may take, in milliseconds.
    pub timeout_ms: Option<i64>,
    /// Its own lease, in milliseconds.
    pub lease_ms: Option<LeaseMs>,
    /// Its grace, in milliseconds.
    pub grace_ms: i64,
    /// Its own backoff.
    pub backoff: Option<Backoff>,
    /// Its lane, made from its key; none without a key.
    pub lane: Option<Lane>,
    /// The event with the result.
    pub result_version: Option<Version>,
    /// The event with the last error.
    pub error_version: Option<Version>,
    /// The code of that error.
    pub error_code: Option<Who>,
    /// The event with the last checkpoint.
    pub checkpoint_version: Option<Version>,
    /// The event with the payload that a redrive brought; the first event has it when absent.
    pub payload_version: Option<Version>,
    /// The event with the whole metadata.
    pub meta_version: Option<Version>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its latest attempt started.
    pub started_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// Until when only its holder may go on with it, although its lease has expired: it is in its grace.
    pub fn in_grace_until(&self, now: Timestamp) -> Option<Timestamp> {
        let has_expired = self.status == Status::Running && self.lease_expires_at.is_some_and(|at| at <= now);
        self.due_at.filter(|over_at| has_expired && now < *over_at)
    }

    /// Whether a lease is live: held, and not over.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.status == Status::Running && self.due_at.is_some_and(|t| t > now)
    }

    /// Whether its deadline has passed.
    pub fn is_past_deadline(&self, now: Timestamp) -> bool {
        self.deadline_at.is_some_and(|t| t <= now)
    }

    /// Whether a claim may look at it.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.due_at.is_some_and(|t| t <= now)
    }

    /// The row without what renewals move: what the log must fold to.
    #[must_use]
    pub fn folded(&self) -> Self {
        let mut job = self.clone();
        job.lease_expires_at = None;
        if job.status == Status::Running {
            job.due_at = None;
        }
        job
    }
}
