//! What is added to a job while it lives: notes, steps, log lines.

use crate::app::known;
use crate::archived;
use crate::call::{Call, Reply, json, ok};
use crate::codes;
use crate::idempotency::once;
use crate::problem::Problem;
use crate::wire::append::{Note, StepBody, StepStatus};
use crate::wire::claim::LogsBody;
use crate::wire::event::{LogLineShape, LogsPage};
use crate::wire::raw::{Raw, Shown, payload};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::limits::{EVENT_PAYLOAD_MAX_BYTES, PAYLOAD_MAX_BYTES, within};
use windlass_core::step::{RecordedStep, RecordedWait, StepState};
use windlass_core::{Invalid, Key, Name, Refusal, Token};
use windlass_engine::logs::read_logs;
use windlass_store::{Append, HolderReply, ReadLogs, ReadSteps, RecordStep, WriteLogs};

/// Where the change stands in the log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Written)]
pub(crate) struct Written {
    /// The event's version.
    pub(crate) version: i64,
    /// Whether it was there already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) replayed: bool,
    /// Whether the holder should stop.
    pub(crate) cancel_requested: bool,
}

impl From<HolderReply> for Written {
    fn from(HolderReply { done, cancel_requested }: HolderReply) -> Self {
        Self { version: done.version(), replayed: done.is_repeat(), cancel_requested }
    }
}

/// `POST /v1/jobs/{id}/events`
pub(crate) async fn append(call: Call) -> Reply {
    let note: Note = call.body()?;
    let job = call.job_id()?;
    let token = match (&note.lease_token, call.who.lease()) {
        (None, None) => None,
        (given, _) => Some(call.token(given.as_deref())?),
    };
    if token.is_none() {
        call.check_job(job).await?;
    }
    let request = Append {
        job,
        type_name: Name::parse("type", &note.r#type)?,
        payload: payload("payload", note.payload, None, EVENT_PAYLOAD_MAX_BYTES)?,
        actor: call.actor(),
        token,
        expected_version: note.expected_version,
        key: note.key.map(|key| Key::parse("key", key)).transpose()?,
    };
    let (mut written, is_repeat) = once(&call, async |key| {
        let request = Append { key: request.key.clone().or(Some(key)), ..request.clone() };
        let told = known(|| call.app.store.append(request.clone(), None)).await??;
        Ok(Written::from(told))
    })
    .await?;
    written.replayed |= is_repeat;
    json(if written.replayed { StatusCode::OK } else { StatusCode::CREATED }, &written)
}

/// `PUT /v1/jobs/{id}/steps/{name}`
pub(crate) async fn put_step(call: Call) -> Reply {
    let body: StepBody = call.body()?;
    let finished = body.status == StepStatus::Finished;
    let (given, other, word) =
        if finished { (body.value, body.args, "args") } else { (body.args, body.value, "value") };
    if other.is_some() {
        let goes = if finished { "status started" } else { "status finished" };
        return Err(Invalid::new(word, "given", format!("goes with {goes} only")).into());
    }
    let request = RecordStep {
        job: call.job_id()?,
        token: call.token(body.lease_token.as_deref())?,
        name: Name::parse("name", call.segment("name"))?,
        tool: body.tool.unwrap_or_default(),
        finished,
        payload: payload(if finished { "value" } else { "args" }, given, None, PAYLOAD_MAX_BYTES)?,
    };
    let told = known(|| call.app.store.record_step(request.clone(), None)).await??;
    ok(&Written::from(told))
}

/// Everything on record that a resumed run must not do again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recorded)]
pub(crate) struct RecordedShape {
    /// Steps and tools, in the order of their first record.
    steps: Vec<StepShape>,
    /// Waits that ended, in order.
    waits: Vec<WaitShape>,
}

/// A step on record.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Step)]
struct StepShape {
    /// Its name.
    name: String,
    /// Whether it is a call of a tool.
    tool: bool,
    /// A tool that started and did not finish is in doubt: it may have acted.
    status: StepStatus,
    /// What it was called with, when it has not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Raw>,
    /// Its value, when it has finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Raw>,
    /// The same, when that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    /// The event that says so.
    version: i64,
}

/// A wait that ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EndedWait)]
struct WaitShape {
    /// What it waited for.
    r#for: &'static str,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// How it ended.
    outcome: &'static str,
    /// What the signal brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Raw>,
    /// The event that began it.
    version: i64,
}

fn step(step: RecordedStep) -> StepShape {
    let RecordedStep { name, tool, state, version, .. } = step;
    let (status, shown) = match &state {
        StepState::Begun { args } => (StepStatus::Started, args),
        StepState::Ended { value } => (StepStatus::Finished, value),
    };
    let (json, value_base64) = Shown::of(shown.as_ref()).or_absent();
    let (args, value) = if status == StepStatus::Started { (json, None) } else { (None, json) };
    StepShape { name: name.to_string(), tool, status, args, value, value_base64, version }
}

fn wait(RecordedWait { version, wake }: RecordedWait) -> WaitShape {
    let (payload, _) = Shown::of(wake.payload.as_ref()).or_absent();
    let name = wake.name.map(|name| name.to_string());
    WaitShape { r#for: wake.waited_for.as_str(), name, outcome: wake.outcome.as_str(), payload, version }
}

/// `GET /v1/jobs/{id}/steps`
pub(crate) async fn steps(call: Call) -> Reply {
    let job = call.job_id()?;
    if let Some(token) = call.who.lease() {
        check_reader(&call, token).await?;
    } else {
        call.check_job(job).await?;
    }
    let recorded = call.store().steps(ReadSteps::all(job), None).await?.ok_or(Refusal::NotFound)?;
    ok(&RecordedShape {
        steps: recorded.steps.into_iter().map(step).collect(),
        waits: recorded.waits.into_iter().map(wait).collect(),
    })
}

/// A lease token reads what its own job has on record, while it is the job's.
pub(crate) async fn check_reader(call: &Call, token: Token) -> Result<(), Problem> {
    let view = call.job().await?;
    if view.job.lease_hash == Some(token.hash()) {
        return Ok(());
    }
    Err(Problem::new(codes::LEASE_MISMATCH, Refusal::Mismatch.to_string()))
}

/// How many lines were written.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LogsWritten)]
pub(crate) struct LogsWritten {
    written: usize,
}

/// `POST /v1/jobs/{id}/logs`
pub(crate) async fn write_logs(call: Call) -> Reply {
    let body: LogsBody = call.body()?;
    let token = call.token(body.lease_token.as_deref())?;
    let written = body.lines.len();
    let request = WriteLogs { job: call.job_id()?, token, lines: body.lines };
    call.store().write_logs(request, None).await??;
    json(StatusCode::CREATED, &LogsWritten { written })
}

/// `GET /v1/jobs/{id}/logs`
pub(crate) async fn logs(call: Call) -> Reply {
    let job = call.job_id()?;
    let after = within("after", call.query.number("after")?.unwrap_or_default(), 0, i64::MAX)?;
    let limit = call.query.limit(100)?;
    let request = ReadLogs { job, after, limit };
    let (lines, is_erased) = match call.seen(job).await? {
        Some(view) => {
            let archive = call.app.archive.as_deref();
            (read_logs(call.store(), archive, request).await?, view.facts.erased)
        }
        None => archived::logs(&call, request).await?,
    };
    let lines = lines.into_iter().map(LogLineShape::from).collect();
    ok(&LogsPage { lines, erased: is_erased.then_some(true) })
}
