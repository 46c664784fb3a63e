//! Ending attempts: `POST /v1/settle` for many, and complete, fail, release and wait for one.

use crate::app::known;
use crate::call::{Call, Reply, lease_token, ok};
use crate::shape::job::JobShape;
use crate::shape::new_job::job_id;
use crate::shape::object::objects;
use crate::shape::raw::{Json, payload};
use crate::shape::time::{Moment, Span, run_at};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::limits::{BATCH_MAX, PAYLOAD_MAX_BYTES, count};
use windlass_core::outcome::Found;
use windlass_core::{Done, Failure, Invalid, JobId, Name, Outcome, Refusal, RunAt, Token, Wait, WaitFor};
use windlass_store::{Settle, SettleItem};

objects!(ErrorParts, SettleBody, ItemBody, CompleteBody, FailBody, ReleaseBody, WaitBody);

/// An error: a text, or a code and a message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = NewError)]
enum ErrorBody {
    /// The message.
    Text(String),
    /// Both.
    Parts(ErrorParts),
}

/// A code and a message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
struct ErrorParts {
    /// One word; `failed` when it is absent.
    #[serde(default)]
    code: Option<String>,
    /// What went wrong.
    #[serde(default)]
    message: Option<String>,
}

fn failure(error: Option<ErrorBody>) -> Result<Failure, Invalid> {
    match error {
        None => Failure::new("", ""),
        Some(ErrorBody::Text(message)) => Failure::new("", &message),
        Some(ErrorBody::Parts(ErrorParts { code, message })) => {
            Failure::new(code.as_deref().unwrap_or_default(), message.as_deref().unwrap_or_default())
        }
    }
}

/// Attempts to end. Each stands alone.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Settle)]
pub(crate) struct SettleBody {
    /// At most 10,000.
    items: Vec<ItemBody>,
}

/// One attempt to end.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = SettleItem)]
struct ItemBody {
    /// Which job.
    job_id: String,
    /// Its lease.
    lease_token: String,
    /// How.
    outcome: OutcomeWord,
    /// What it gave, at most 1 MiB. For `complete`.
    #[serde(default)]
    result: Option<Json>,
    /// The same as base64.
    #[serde(default)]
    result_base64: Option<String>,
    /// What went wrong. For `fail`.
    #[serde(default)]
    error: Option<ErrorBody>,
    /// Whether no retry can help. For `fail`.
    #[serde(default)]
    permanent: Option<bool>,
    /// When to try again. For `fail` and `release`.
    #[serde(default)]
    run_at: Option<Moment>,
    /// The same as a delay.
    #[serde(default)]
    delay: Option<Span>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeWord {
    Complete,
    Fail,
    Release,
    Cancelled,
}

impl ItemBody {
    fn resolve(self) -> Result<SettleItem, Invalid> {
        let again = run_at(self.run_at, self.delay)?;
        let result = payload("result", self.result, self.result_base64, PAYLOAD_MAX_BYTES)?;
        let outcome = match self.outcome {
            OutcomeWord::Complete => Outcome::Complete(result),
            OutcomeWord::Fail => Outcome::Fail {
                error: failure(self.error)?,
                permanent: self.permanent.unwrap_or_default(),
                run_at: again,
            },
            OutcomeWord::Release => Outcome::Release(again.unwrap_or(RunAt::Now)),
            OutcomeWord::Cancelled => Outcome::Cancelled { reason: None },
        };
        Ok(SettleItem {
            job: job_id("job_id", &self.job_id)?,
            token: lease_token(&self.lease_token)?,
            outcome,
        })
    }
}

/// What became of each attempt, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SettledMany)]
pub(crate) struct SettledMany {
    items: Vec<SettledItem>,
}

/// What became of one attempt.
#[derive(Debug, Serialize, ToSchema)]
struct SettledItem {
    /// Of which job.
    job_id: String,
    /// Whether it is settled.
    ok: bool,
    /// Where the job stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// The event that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    /// Whether it was settled so before.
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl SettledItem {
    fn of(job_id: String, answer: Result<Done, Refusal>) -> Self {
        let mut item = Self {
            job_id,
            ok: answer.is_ok(),
            status: None,
            version: None,
            replayed: None,
            code: None,
            detail: None,
        };
        match answer {
            Ok(done) => {
                item.version = Some(done.version());
                item.replayed = Some(done.is_repeat());
                item.status = if let Done::Moved(_, status) = done { Some(status.as_str()) } else { None };
            }
            Err(refusal) => {
                item.code = Some(refusal.code());
                item.detail = Some(refusal.to_string());
            }
        }
        item
    }
}

/// `POST /v1/settle`
pub(crate) async fn settle(call: Call) -> Reply {
    let SettleBody { items } = call.body()?;
    count("items", items.len(), BATCH_MAX)?;
    let ids: Vec<String> = items.iter().map(|item| item.job_id.clone()).collect();
    let resolved: Vec<Result<SettleItem, Invalid>> = items.into_iter().map(ItemBody::resolve).collect();
    let good = resolved.iter().filter_map(|item| item.as_ref().ok()).cloned().collect();
    let request = Settle { items: good };
    let mut answers = known(|| call.app.store.settle(request.clone(), None)).await?.into_iter();
    let mut settled = Vec::with_capacity(ids.len());
    for (id, item) in ids.into_iter().zip(resolved) {
        let answer = match item {
            Ok(_) => answers.next().ok_or_else(|| {
                windlass_store::StoreError::Indeterminate("the store answered for fewer items".into())
            })?,
            Err(invalid) => Err(invalid.into()),
        };
        if let Err(refusal) = &answer {
            call.refused(refusal);
        }
        settled.push(SettledItem::of(id, answer));
    }
    ok(&SettledMany { items: settled })
}

/// The job after its attempt ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Settled)]
pub(crate) struct Settled {
    job: JobShape,
    /// Whether it was settled so before.
    replayed: bool,
}

/// Ends one attempt, and shows the job after it.
async fn one(call: &Call, job: JobId, token: Token, outcome: Outcome) -> Reply {
    let request = Settle { items: vec![SettleItem { job, token, outcome }] };
    let answer = known(|| call.app.store.settle(request.clone(), None)).await?.pop();
    let answer = answer
        .ok_or_else(|| windlass_store::StoreError::Indeterminate("the store answered for no item".into()))?;
    let done = answer.inspect_err(|refusal| call.refused(refusal))?;
    let view = call.store().job(job, None).await?.ok_or(Refusal::NotFound)?;
    ok(&Settled { job: JobShape::view(view), replayed: done.is_repeat() })
}

/// An attempt that is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Complete)]
pub(crate) struct CompleteBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default)]
    lease_token: Option<String>,
    /// What it gave, at most 1 MiB.
    #[serde(default)]
    result: Option<Json>,
    /// The same as base64, for what is not JSON.
    #[serde(default)]
    result_base64: Option<String>,
}

/// `POST /v1/jobs/{id}/complete`
pub(crate) async fn complete(call: Call) -> Reply {
    let body: CompleteBody = call.body()?;
    let (job, token) = (call.job_id()?, call.token(body.lease_token.as_deref())?);
    let result = payload("result", body.result, body.result_base64, PAYLOAD_MAX_BYTES)?;
    one(&call, job, token, Outcome::Complete(result)).await
}

/// An attempt that failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Fail)]
pub(crate) struct FailBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default)]
    lease_token: Option<String>,
    /// What went wrong.
    #[serde(default)]
    error: Option<ErrorBody>,
    /// Whether no retry can help.
    #[serde(default)]
    permanent: Option<bool>,
    /// When to try again; the job's backoff decides when nothing is said.
    #[serde(default)]
    run_at: Option<Moment>,
    /// The same as a delay.
    #[serde(default)]
    delay: Option<Span>,
}

/// `POST /v1/jobs/{id}/fail`
pub(crate) async fn fail(call: Call) -> Reply {
    let body: FailBody = call.body()?;
    let (job, token) = (call.job_id()?, call.token(body.lease_token.as_deref())?);
    let outcome = Outcome::Fail {
        error: failure(body.error)?,
        permanent: body.permanent.unwrap_or_default(),
        run_at: run_at(body.run_at, body.delay)?,
    };
    one(&call, job, token, outcome).await
}

/// A job to give back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Release)]
pub(crate) struct ReleaseBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default)]
    lease_token: Option<String>,
    /// For how long nobody should take it.
    #[serde(default)]
    delay: Option<Span>,
}

/// `POST /v1/jobs/{id}/release`
pub(crate) async fn release(call: Call) -> Reply {
    let body: ReleaseBody = call.body()?;
    let (job, token) = (call.job_id()?, call.token(body.lease_token.as_deref())?);
    let outcome = Outcome::Release(run_at(None, body.delay)?.unwrap_or(RunAt::Now));
    one(&call, job, token, outcome).await
}

/// What a job is to wait for, holding no worker.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Wait)]
pub(crate) struct WaitBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default)]
    lease_token: Option<String>,
    /// What to wait for.
    r#for: WaitWord,
    /// Name of the signal or approval.
    #[serde(default)]
    name: Option<String>,
    /// When a timer fires: a time, or a length of time from now.
    #[serde(default)]
    until: Option<Moment>,
    /// When to stop waiting for a signal or children: a time, or a length of time from now.
    #[serde(default)]
    expires: Option<Moment>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum WaitWord {
    Approval,
    Signal,
    Timer,
    Children,
}

/// `POST /v1/jobs/{id}/wait`
pub(crate) async fn wait(call: Call) -> Reply {
    let body: WaitBody = call.body()?;
    let (job, token) = (call.job_id()?, call.token(body.lease_token.as_deref())?);
    let waits_for = match body.r#for {
        WaitWord::Approval => WaitFor::Approval,
        WaitWord::Signal => WaitFor::Signal,
        WaitWord::Timer => WaitFor::Timer,
        WaitWord::Children => WaitFor::Children,
    };
    let wait = Wait {
        waits_for,
        name: body.name.map(|name| Name::parse("name", name)).transpose()?,
        until: body.until.map(Moment::resolve),
        expires_at: body.expires.map(Moment::resolve),
        since: 0,
    };
    one(&call, job, token, Outcome::Wait(wait, Found::default())).await
}
