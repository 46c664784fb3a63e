//! A job as a caller asks for it.

use super::flow::AfterShape;
use super::object::two_way;
use super::raw::{Json, payload};
use super::time::{Moment, Span, run_at};
use crate::call::lease_token;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use windlass_core::flow::Graph;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::unique::{Debounce, Policy as Hold, Scope, Unique};
use windlass_core::{Backoff, Facts, Invalid, JobId, Key, LeaseMs, Metadata, Name, NewJob, RunAt, Who};
use windlass_engine::{Policies, Policy};
use windlass_store::fresh;

two_way!(NewJobShape, BackoffShape, UniqueShape, DebounceShape);

/// A job to enqueue.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewJob)]
pub struct NewJobShape {
    /// What to do: 1–128 of `A-Za-z0-9._:-`.
    pub kind: String,
    /// Which line it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "default")]
    pub queue: Option<String>,
    /// What its handler gets, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The same as base64, for what is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// A UUIDv7 made by the caller: the same id with the same body again is the same job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub id: Option<String>,
    /// −5 to 5, higher first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -5, maximum = 5, default = 0)]
    pub priority: Option<i32>,
    /// From when it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Moment>,
    /// The same as a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Failures allowed before it is dead, 0 to 100; 3 unless its queue says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Its own lease, 1 s to 24 h, instead of the claimer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// How long after its lease only the holder may still finish it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// How retries are spaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffShape>,
    /// The agent it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Small JSON that travels with it, at most 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Labels to find it by, at most 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// What makes two jobs the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueShape>,
    /// Labels with their values that its worker must have, at most 16. Only queues in mode push look at them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub requires: Option<BTreeMap<String, String>>,
    /// Whose job it is, such as a tenant. In a queue with rules for keys, jobs of one key form a lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "acme")]
    pub key: Option<String>,
    /// Latest wins: while a job of the same queue, kind and `key` waits for its first run, it gets this payload instead of
    /// being joined by another, and its wait begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debounce: Option<DebounceShape>,
    /// How many units of its queue's rate one start takes; one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub cost: Option<i32>,
    /// The job that spawns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub parent_id: Option<String>,
    /// What it waits for before it first runs. Another end than it asks for skips it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AfterShape>,
    /// That job's lease, when its holder spawns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
}

/// How retries are spaced: `min(max, base × multiplier^n)`.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = BackoffWish)]
pub struct BackoffShape {
    /// The first delay; one second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Span>,
    /// The longest delay; five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// Growth per retry; two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<f64>,
    /// Whether delays are drawn evenly from zero to the full one; yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<bool>,
}

impl From<BackoffShape> for Backoff {
    fn from(shape: BackoffShape) -> Self {
        let usual = Self::default();
        Self {
            base_ms: shape.base.map_or(usual.base_ms, Span::ms),
            max_ms: shape.max.map_or(usual.max_ms, Span::ms),
            multiplier: shape.multiplier.unwrap_or(usual.multiplier),
            jitter: shape.jitter.unwrap_or(usual.jitter),
        }
    }
}

/// What makes two jobs the same, and for how long.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Unique)]
pub struct UniqueShape {
    /// The caller's key, 1 to 512 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Instead of a key: the same payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ByWord>,
    /// Among which jobs; the queue's for a key, the kind's for a payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeWord>,
    /// How long the key stays taken; while the job is live or has succeeded unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyWord>,
    /// How long, for the policy `ttl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
}

/// What makes two jobs the same, instead of a key.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ByWord {
    /// The same payload.
    Payload,
}

/// How long a job waits for a later one to take its place.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Debounce)]
pub struct DebounceShape {
    /// How long it waits after the latest request, at most a day.
    pub delay: Span,
    /// How long after the first request it runs at the latest; ten times the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
}

impl DebounceShape {
    fn resolve(self, facts: &mut Facts) -> Result<(), Invalid> {
        let wrong = |field: &str, limit: &str| Err(Invalid::new(field, "given with debounce", limit));
        if facts.unique.is_some() {
            return wrong("unique", "is a rule of its own; leave one of the two out");
        }
        if facts.run_at != RunAt::Now {
            return wrong("delay", "is said by debounce itself");
        }
        let Some(key) = facts.key.clone() else {
            return Err(Invalid::new("key", "missing", "is what debounce goes by"));
        };
        let debounce = Debounce::new(self.delay.ms(), self.max.map(Span::ms));
        facts.run_at = RunAt::After(debounce.delay_ms);
        facts.unique = Some(Unique::debounced(facts.queue.clone(), facts.kind.clone(), key, debounce));
        Ok(())
    }
}

/// Among which jobs a key is unique.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeWord {
    /// Those of the queue.
    Queue,
    /// Those of the kind.
    Kind,
}

/// How long a unique key stays taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyWord {
    /// While the job is live.
    Active,
    /// While the job is live or has succeeded.
    Succeeded,
    /// For ever.
    Forever,
    /// For a time.
    Ttl,
}

impl UniqueShape {
    fn resolve(self, job: &NewJob) -> Result<Unique, Invalid> {
        let facts = &job.facts;
        let mut unique = match (self.key, self.by) {
            (Some(key), None) => Unique::in_queue(facts.queue.clone(), Key::parse("unique.key", key)?),
            (None, Some(ByWord::Payload)) => Unique::by_payload(facts.kind.clone(), job.payload.as_ref())?,
            (None, None) => {
                return Err(Invalid::new("unique", "empty", "must have a key, or by: \"payload\""));
            }
            (Some(_), Some(_)) => return Err(Invalid::new("unique", "key and by", "give one of the two")),
        };
        match self.scope {
            Some(ScopeWord::Queue) => unique.scope = Scope::Queue(facts.queue.clone()),
            Some(ScopeWord::Kind) => unique.scope = Scope::Kind(facts.kind.clone()),
            None => {}
        }
        unique.policy = match (self.policy, self.ttl) {
            (None | Some(PolicyWord::Ttl), Some(ttl)) => Hold::Ttl(ttl.ms()),
            (Some(PolicyWord::Ttl), None) => {
                return Err(Invalid::new("unique.ttl", "missing", "is required"));
            }
            (Some(_), Some(_)) => {
                return Err(Invalid::new("unique.ttl", "given", "goes with policy \"ttl\" only"));
            }
            (Some(PolicyWord::Active), None) => Hold::Active,
            (None | Some(PolicyWord::Succeeded), None) => Hold::Succeeded,
            (Some(PolicyWord::Forever), None) => Hold::Forever,
        };
        Ok(unique)
    }
}

/// A lease as the caller wishes it.
pub(crate) fn lease_ms(field: &str, span: Option<Span>) -> Result<Option<LeaseMs>, Invalid> {
    let named = |e| Invalid { field: field.to_owned(), ..e };
    span.map(|span| LeaseMs::new(span.ms()).map_err(named)).transpose()
}

/// The id in a field of a body.
pub(crate) fn job_id(field: &str, text: &str) -> Result<JobId, Invalid> {
    JobId::parse(text).map_err(|e| Invalid { field: field.to_owned(), ..e })
}

impl NewJobShape {
    /// The job as the store takes it.
    pub(crate) fn resolve(self, policies: &Policies) -> Result<NewJob, Invalid> {
        let queue = self.queue.as_deref().unwrap_or("default");
        let mut facts = Facts::new(Name::parse("kind", &self.kind)?, Name::parse("queue", queue)?);
        facts.priority = self.priority.unwrap_or_default();
        facts.run_at = run_at(self.run_at, self.delay)?.unwrap_or(RunAt::Now);
        facts.agent_id = self.agent_id.map(|id| Who::parse("agent_id", id)).transpose()?;
        facts.metadata = self.metadata.unwrap_or_default();
        let tags = self.tags.unwrap_or_default();
        facts.tags = tags.iter().map(|tag| Name::parse("tags", tag)).collect::<Result<_, _>>()?;
        for (label, value) in self.requires.unwrap_or_default() {
            facts.requires.insert(Name::parse("requires", label)?, value);
        }
        facts.key = self.key.map(|key| Key::parse("key", key)).transpose()?;
        facts.cost = self.cost.unwrap_or(1);
        facts.parent_id = self.parent_id.map(|id| job_id("parent_id", &id)).transpose()?;
        let own = Policy {
            max_retries: self.max_retries,
            timeout_ms: self.timeout.map(Span::ms),
            lease_ms: lease_ms("lease", self.lease)?,
            grace_ms: self.grace.map(Span::ms),
            backoff: self.backoff.map(Backoff::from),
        };
        policies.fill(&mut facts, &own);
        let after = self.after.map(AfterShape::edges).transpose()?.unwrap_or_default();
        if !after.is_empty() {
            facts.graph = Some(Box::new(Graph { after, ..Graph::default() }));
        }
        let parent_token = self.lease_token.as_deref().map(lease_token).transpose()?;
        if parent_token.is_some() && facts.parent_id.is_none() {
            return Err(Invalid::new("lease_token", "given without parent_id", "goes with parent_id only"));
        }
        let mut job = NewJob {
            id: self.id.map_or_else(|| Ok(fresh::job_id()), |id| JobId::parse(&id))?,
            facts,
            payload: payload("payload", self.payload, self.payload_base64, PAYLOAD_MAX_BYTES)?,
            parent_token,
        };
        if let Some(unique) = self.unique {
            job.facts.unique = Some(unique.resolve(&job)?);
        }
        if let Some(debounce) = self.debounce {
            debounce.resolve(&mut job.facts)?;
        }
        Ok(job)
    }
}
