//! What a server says about jobs in a worker's hands, and what is said to it about their end.

use std::time::Duration;
use windlass_core::decide::Claim;
use windlass_core::event::{Event, EventKind};
use windlass_core::limits::Invalid;
use windlass_core::{
    Actor, Answer, Backoff, Done, Facts, Job, JobId, Key, Lease, LeaseMs, Name, Outcome, Refusal, Status,
    Timestamp, Token, Who,
};
use windlass_http::wire::claim::{ClaimedJobs, RenewedLease};
use windlass_http::wire::job::JobShape;
use windlass_http::wire::operate::OneJob;
use windlass_http::wire::raw::{Raw, fields, payload};
use windlass_http::wire::settle::{ErrorBody, ErrorParts, ItemBody, OutcomeWord, SettledItem};
use windlass_http::wire::time::{Moment, Span};
use windlass_store::{Claimed, Extended, SettleItem};

fn ms_between(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_micros() - from.as_micros()) / 1_000
}

fn missing(field: &str) -> Invalid {
    Invalid::new(field, "missing", "must stand in the answer to a claim")
}

/// A job in a claim's answer, as far as running a program needs it.
fn resolve(shown: JobShape, asked: LeaseMs) -> Result<Claimed, Invalid> {
    let lease = shown.lease.ok_or_else(|| missing("lease"))?;
    let token = Token::parse(&lease.token.ok_or_else(|| missing("lease.token"))?)?;
    let worker = Who::parse("worker_id", lease.worker_id)?;
    let expires_at = lease.expires_at.ok_or_else(|| missing("lease.expires_at"))?.0;
    let started_at = shown.started_at.ok_or_else(|| missing("started_at"))?.0;
    let (id, due_at) = (JobId::parse(&shown.id)?, shown.due_at.map(|at| at.0));
    let mut facts = Facts::new(Name::parse("kind", shown.kind)?, Name::parse("queue", shown.queue)?);
    facts.priority = shown.priority;
    facts.max_retries = shown.max_retries;
    facts.timeout_ms = shown.timeout.map(Span::ms);
    // What was given and not asked for is the job's own.
    let given_ms = ms_between(started_at, expires_at);
    facts.lease_ms = LeaseMs::new(given_ms).ok().filter(|ms| (ms.get() - asked.get()).abs() > 1);
    facts.grace_ms = due_at.map_or(0, |due_at| ms_between(expires_at, due_at).max(0));
    facts.backoff = shown.backoff.as_ref().map(Backoff::from);
    facts.agent_id = shown.agent_id.map(|id| Who::parse("agent_id", id)).transpose()?;
    facts.parent_id = shown.parent_id.as_deref().map(JobId::parse).transpose()?;
    facts.key = shown.key.map(|key| Key::parse("key", key)).transpose()?;
    facts.cost = shown.cost.unwrap_or(facts.cost);
    facts.tags = shown.tags.iter().map(|tag| Name::parse("tags", tag)).collect::<Result<_, _>>()?;
    let born = Event {
        job: id,
        version: 1,
        at: shown.created_at.0,
        actor: Actor::api(),
        attempt: 0,
        generation: 0,
        lease: None,
        key: None,
        what: EventKind::JobCreated(Box::new(facts.clone())),
        payload: None,
    };
    let mut job =
        Job::created(&born).ok_or_else(|| Invalid::new("job", id, "must begin with its creation"))?;
    (job.status, job.attempt, job.retries) = (Status::Running, shown.attempt, shown.retries);
    (job.crashes, job.version, job.generation) = (shown.crashes, shown.version, shown.generation);
    (job.due_at, job.lease_expires_at, job.started_at) = (due_at, Some(expires_at), Some(started_at));
    (job.worker_id, job.lease_hash) = (Some(worker.clone()), Some(token.hash()));
    job.updated_at = shown.updated_at.0;
    job.cancel_requested_at = shown.cancel_requested_at.map(|at| at.0);
    let json = shown.payload.flatten().map(Raw::into_payload);
    let bytes = payload("payload", None, shown.payload_base64, usize::MAX)?;
    let fence = lease.fence.ok_or_else(|| missing("lease.fence"))?;
    Ok(Claimed {
        lease: Lease { job: id, attempt: shown.attempt, fence, token, worker, expires_at },
        job,
        facts,
        payload: json.or(bytes),
        // A program that works in steps asks the server for these, with its lease token.
        checkpoint: None,
        metadata: shown.metadata.unwrap_or_default(),
        wake: None,
        steps_recorded: shown.steps_recorded.unwrap_or_default(),
    })
}

/// Reads the answer to a claim of one job.
pub fn one(text: &str, claim: &Claim) -> Result<Claimed, String> {
    let OneJob { job } = serde_json::from_str(text).map_err(|e| e.to_string())?;
    resolve(job, claim.lease_ms).map_err(|invalid| invalid.to_string())
}

/// What a claim brought.
#[derive(Debug)]
pub struct Hands(Vec<Claimed>);

impl Hands {
    /// Reads the answer to a claim.
    pub fn read(text: &str, claim: &Claim) -> Result<Self, String> {
        let page: ClaimedJobs = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let jobs = page.jobs.into_iter().map(|job| resolve(job, claim.lease_ms));
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
pub fn extended(answer: &RenewedLease) -> Option<Result<Extended, Refusal>> {
    if !answer.ok {
        return Some(Err(refusal(answer.code.as_deref()?, "")));
    }
    let expires_at = answer.expires_at?.0;
    Some(Ok(Extended { expires_at, cancel_requested: answer.cancel_requested }))
}

/// The end of an attempt as the API has it; none for what the server notices by itself.
pub fn settled(item: &SettleItem) -> Option<ItemBody> {
    let mut body = ItemBody {
        job_id: item.job.to_string(),
        lease_token: item.token.to_text(),
        outcome: OutcomeWord::Complete,
        result: None,
        result_base64: None,
        error: None,
        permanent: None,
        run_at: None,
        delay: None,
        hold: None,
    };
    match &item.outcome {
        Outcome::Complete(result) => (body.result, body.result_base64) = fields(result.as_ref()),
        Outcome::Fail { error, permanent, run_at } => {
            body.outcome = OutcomeWord::Fail;
            let (code, message) = (Some(error.code().to_string()), Some(error.message().to_owned()));
            body.error = Some(ErrorBody::Parts(ErrorParts { code, message }));
            body.permanent = Some(*permanent);
            body.run_at = run_at.map(Moment::from);
        }
        Outcome::Release(run_at) => {
            body.outcome = OutcomeWord::Release;
            body.run_at = Some(Moment::from(*run_at));
        }
        Outcome::RateLimited(after_ms) => {
            body.outcome = OutcomeWord::Release;
            body.hold = Some(Span::from_ms(*after_ms));
        }
        Outcome::Cancelled { .. } => body.outcome = OutcomeWord::Cancelled,
        // A program waits by asking the server itself.
        Outcome::TimeOut | Outcome::Wait(..) => return None,
    }
    Some(body)
}

/// What a server says of one end.
pub fn answer(item: SettledItem) -> Answer {
    let version = item.version.unwrap_or_default();
    if !item.ok {
        return Err(refusal(&item.code.unwrap_or_default(), &item.detail.unwrap_or_default()));
    }
    Ok(item.status.map_or(Done::Already(version), |status| Done::Moved(version, status)))
}

/// The refusal of this code. Statuses are not told, and whoever asks here only wants to know whether to go on.
pub fn refusal(code: &str, detail: &str) -> Refusal {
    match code {
        "job_busy" => Refusal::Busy,
        "job_unreadable" => Refusal::Unreadable(detail.to_owned()),
        "not_found" => Refusal::NotFound,
        "job_finished" | "job_purged" => Refusal::Finished(Status::Cancelled),
        "not_claimable" => Refusal::NotClaimable(Status::Retry),
        "not_leased" => Refusal::NotLeased(Status::Retry),
        "lease_expired" => Refusal::Expired,
        "lease_mismatch" => Refusal::Mismatch,
        other => Refusal::Invalid(Invalid::new("request", other, detail)),
    }
}
