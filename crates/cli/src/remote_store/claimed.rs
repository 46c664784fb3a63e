//! What a server says about jobs in a worker's hands, and what is said to it about their end.

use crate::shape::{Doc, seconds, time};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;
use windlass_core::decide::Claim;
use windlass_core::event::{Event, EventKind};
use windlass_core::limits::Invalid;
use windlass_core::{
    Actor, Answer, Backoff, Done, Facts, Job, JobId, Lease, LeaseMs, Metadata, Name, Outcome, Payload,
    Refusal, RunAt, Status, Timestamp, Token, Who,
};
use windlass_store::{Claimed, Extended, SettleItem};

/// A job as a claim shows it, as far as running a program needs it.
#[derive(Debug, Deserialize)]
struct JobText {
    id: JobId,
    kind: Name,
    queue: Name,
    priority: i32,
    attempt: i32,
    retries: i32,
    max_retries: i32,
    crashes: i32,
    version: i64,
    generation: i32,
    due_at: Option<String>,
    lease: LeaseText,
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    #[serde(default)]
    metadata: Metadata,
    tags: Vec<Name>,
    agent_id: Option<Who>,
    parent_id: Option<JobId>,
    timeout: Option<f64>,
    backoff: Option<BackoffText>,
    cancel_requested_at: Option<String>,
    #[serde(default)]
    steps_recorded: i64,
    created_at: String,
    started_at: String,
    updated_at: String,
}

#[derive(Debug, Deserialize)]
struct LeaseText {
    worker_id: Who,
    token: String,
    fence: i64,
    expires_at: String,
}

#[derive(Debug, Deserialize)]
struct BackoffText {
    base: f64,
    max: f64,
    multiplier: f64,
    jitter: bool,
}

fn ms(seconds: f64) -> i64 {
    (seconds * 1_000.0).round() as i64
}

fn at(text: &str) -> Result<Timestamp, Invalid> {
    Timestamp::parse("time", text)
}

fn ms_between(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_micros() - from.as_micros()) / 1_000
}

impl JobText {
    fn resolve(self, asked: LeaseMs) -> Result<Claimed, Invalid> {
        let (started_at, expires_at) = (at(&self.started_at)?, at(&self.lease.expires_at)?);
        let token = Token::parse(&self.lease.token)?;
        let due_at = self.due_at.as_deref().map(at).transpose()?;
        let mut facts = Facts::new(self.kind, self.queue);
        facts.priority = self.priority;
        facts.max_retries = self.max_retries;
        facts.timeout_ms = self.timeout.map(ms);
        // What was given and not asked for is the job's own.
        let given_ms = ms_between(started_at, expires_at);
        facts.lease_ms = LeaseMs::new(given_ms).ok().filter(|ms| (ms.get() - asked.get()).abs() > 1);
        facts.grace_ms = due_at.map_or(0, |due_at| ms_between(expires_at, due_at).max(0));
        facts.backoff = self.backoff.map(|b| Backoff {
            base_ms: ms(b.base),
            max_ms: ms(b.max),
            multiplier: b.multiplier,
            jitter: b.jitter,
        });
        (facts.agent_id, facts.parent_id, facts.tags) = (self.agent_id, self.parent_id, self.tags);
        let born = Event {
            job: self.id,
            version: 1,
            at: at(&self.created_at)?,
            actor: Actor::api(),
            attempt: 0,
            generation: 0,
            lease: None,
            key: None,
            what: EventKind::JobCreated(Box::new(facts.clone())),
            payload: None,
        };
        let born = Job::created(&born);
        let mut job = born.ok_or_else(|| Invalid::new("job", self.id, "must begin with its creation"))?;
        (job.status, job.attempt, job.retries) = (Status::Running, self.attempt, self.retries);
        (job.crashes, job.version, job.generation) = (self.crashes, self.version, self.generation);
        (job.due_at, job.lease_expires_at, job.started_at) = (due_at, Some(expires_at), Some(started_at));
        (job.worker_id, job.lease_hash) = (Some(self.lease.worker_id.clone()), Some(token.hash()));
        job.updated_at = at(&self.updated_at)?;
        job.cancel_requested_at = self.cancel_requested_at.as_deref().map(at).transpose()?;
        let bytes = self.payload_base64.map(|text| STANDARD.decode(text)).transpose();
        let bytes = bytes.map_err(|_| Invalid::new("payload_base64", "malformed", "must be base64"))?;
        let json = self.payload.map(|raw| Payload::stored(raw.get().as_bytes().to_vec(), true));
        Ok(Claimed {
            lease: Lease {
                job: self.id,
                attempt: self.attempt,
                fence: self.lease.fence,
                token,
                worker: self.lease.worker_id,
                expires_at,
            },
            job,
            facts,
            payload: json.or_else(|| bytes.map(|bytes| Payload::stored(bytes, false))),
            // A program that works in steps asks the server for these, with its lease token.
            checkpoint: None,
            metadata: self.metadata,
            wake: None,
            steps_recorded: self.steps_recorded,
        })
    }
}

/// What a claim brought.
#[derive(Debug)]
pub struct Hands(Vec<Claimed>);

#[derive(Deserialize)]
struct Page {
    jobs: Vec<JobText>,
}

impl Hands {
    /// Reads the answer to a claim.
    pub fn read(text: &str, claim: &Claim) -> Result<Self, String> {
        let page: Page = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let jobs = page.jobs.into_iter().map(|job| job.resolve(claim.lease_ms));
        jobs.collect::<Result<_, _>>().map(Self).map_err(|invalid| invalid.to_string())
    }

    /// Whether there was nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The jobs, as they came.
    pub fn into_claimed(self) -> Vec<Claimed> {
        self.0
    }

    /// What proves the leases.
    pub fn leases(&self) -> Vec<(JobId, Token)> {
        self.0.iter().map(|held| (held.job.id, held.lease.token)).collect()
    }

    /// The shortest lease that was given.
    pub fn shortest(&self) -> LeaseMs {
        let given = self.0.iter().filter_map(given).filter_map(|ms| LeaseMs::new(ms.max(1_000)).ok());
        given.min().unwrap_or(LeaseMs::DEFAULT)
    }

    /// The jobs whose leases were renewed for `lease_ms`, `later` than the claim was sent. Their clocks are moved by that,
    /// so that whoever counts from the sending counts right.
    pub fn renewed(
        self,
        kept: &[Result<Extended, Refusal>],
        lease_ms: LeaseMs,
        later: Duration,
    ) -> Vec<Claimed> {
        let later_ms = i64::try_from(later.as_millis()).unwrap_or(0);
        let moved = |(mut held, kept): (Claimed, &Result<Extended, Refusal>)| {
            let extended = kept.as_ref().ok()?;
            let from = held.job.started_at.unwrap_or(held.job.updated_at);
            held.lease.expires_at = from.plus_ms(later_ms + lease_ms.get());
            held.facts.timeout_ms = held.facts.timeout_ms.map(|ms| ms + later_ms);
            if extended.cancel_requested {
                held.job.cancel_requested_at.get_or_insert(from);
            }
            Some(held)
        };
        self.0.into_iter().zip(kept).filter_map(moved).collect()
    }
}

fn given(held: &Claimed) -> Option<i64> {
    held.job.started_at.map(|started_at| ms_between(started_at, held.lease.expires_at))
}

/// What a server says of one renewal.
pub fn extended(answer: &Value) -> Option<Result<Extended, Refusal>> {
    if answer["ok"] != true {
        return Some(Err(refusal(answer["code"].as_str()?, "")));
    }
    let expires_at = at(answer["expires_at"].as_str()?).ok()?;
    Some(Ok(Extended { expires_at, cancel_requested: answer["cancel_requested"] == true }))
}

/// The end of an attempt as the API has it; none for what the server notices by itself.
pub fn settled(item: &SettleItem) -> Option<Doc> {
    let mut doc = Doc::default();
    doc.put("job_id", item.job.to_string()).put("lease_token", item.token.to_text());
    match &item.outcome {
        Outcome::Complete(result) => {
            doc.put("outcome", "complete").put_bytes("result", "result_base64", result.as_ref());
        }
        Outcome::Fail { error, permanent, run_at: again } => {
            let mut said = Doc::default();
            said.put("code", error.code()).put("message", error.message());
            doc.put("outcome", "fail").put("error", said).put("permanent", permanent);
            if let Some(again) = again {
                run_at(&mut doc, *again);
            }
        }
        Outcome::Release(again) => {
            doc.put("outcome", "release");
            run_at(&mut doc, *again);
        }
        Outcome::Cancelled { .. } => drop(doc.put("outcome", "cancelled")),
        // A program waits by asking the server itself.
        Outcome::TimeOut | Outcome::Wait(..) => return None,
    }
    Some(doc)
}

fn run_at(doc: &mut Doc, again: RunAt) {
    match again {
        RunAt::Now => doc.put("delay", 0),
        RunAt::At(moment) => doc.put("run_at", time(moment)),
        RunAt::After(ms) => doc.put("delay", seconds(ms)),
    };
}

/// What a server says of one end.
pub fn answer(item: &Value) -> Answer {
    let version = item["version"].as_i64().unwrap_or_default();
    if item["ok"] != true {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        return Err(refusal(text("code"), text("detail")));
    }
    let status = item["status"].as_str().and_then(Status::parse);
    Ok(status.map_or(Done::Already(version), |status| Done::Moved(version, status)))
}

/// The refusal of this code. Statuses are not told, and whoever asks here only wants to know whether to go on.
pub fn refusal(code: &str, detail: &str) -> Refusal {
    match code {
        "job_busy" => Refusal::Busy,
        "job_unreadable" => Refusal::Unreadable(detail.to_owned()),
        "not_found" => Refusal::NotFound,
        "job_finished" => Refusal::Finished(Status::Cancelled),
        "not_leased" => Refusal::NotLeased(Status::Retry),
        "lease_expired" => Refusal::Expired,
        "lease_mismatch" => Refusal::Mismatch,
        other => Refusal::Invalid(Invalid::new("request", other, detail)),
    }
}
