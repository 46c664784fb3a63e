//! `POST /v1/jobs`, `POST /v1/jobs/batch`: jobs into the store.

use crate::app::known;
use crate::call::{Call, Reply, json};
use crate::codes;
use crate::dispatch::trace_context;
use crate::problem::Problem;
use crate::wire::enqueue::{Batch, EnqueuedShape, JobOrId};
use crate::wire::job::JobShape;
use crate::wire::new_job::NewJobShape;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::limits::{ENQUEUE_MAX, count};
use windlass_core::unique::Scope;
use windlass_core::{JobId, Metadata, NewJob};
use windlass_engine::carry_or;
use windlass_store::{BatchRefusal, Enqueue, Enqueued};

/// `POST /v1/jobs`
pub(crate) async fn enqueue(call: Call) -> Reply {
    let shape: NewJobShape = call.body()?;
    let mut job = shape.resolve(&*call.app.policies().await?)?;
    trace(&call, &mut job);
    check(&call, &job).await?;
    let answers = send(&call, vec![job]).await?.map_err(|refused| Problem::from(refused.refusal))?;
    let [Enqueued { id, existed, payload_differs, dropped }] = answers[..] else {
        return Err(windlass_store::StoreError::Indeterminate("the store answered for no job".into()).into());
    };
    let status = if existed || dropped { StatusCode::OK } else { StatusCode::CREATED };
    let job = if prefers_short(&call) || dropped { None } else { visible(&call, id).await? };
    let outcome = match job {
        None if existed => call.store().purged(id, None).await?.map(|left| left.status.as_str().to_owned()),
        _ => None,
    };
    let job = job.map_or_else(|| JobOrId::Id { id: id.to_string() }, |job| JobOrId::Job(Box::new(job)));
    json(
        status,
        &EnqueuedShape {
            job,
            existed,
            payload_differs: existed.then_some(payload_differs),
            outcome,
            dropped: dropped.then_some(true),
        },
    )
}

/// Whether the caller does not want to read what it has just written (RFC 7240): a look into the store less.
fn prefers_short(call: &Call) -> bool {
    let mut prefers = call.headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    prefers.any(|value| value.split([',', ';']).any(|part| part.trim() == "return=minimal"))
}

/// The job, unless it is gone, or in a queue that is not the caller's: a unique key may lead there.
async fn visible(call: &Call, id: JobId) -> Result<Option<JobShape>, Problem> {
    let view = call.store().job(id, None).await?;
    Ok(view.filter(|view| call.who.sees(&view.job.queue)).map(JobShape::view))
}

/// Lets a job carry the trace of its request, unless its metadata names one: that of the span that answers it, where spans
/// are recorded, else the caller's.
pub(crate) fn trace(call: &Call, job: &mut NewJob) {
    let mut given = Metadata::new();
    if let Some(context) = trace_context(&call.headers) {
        context.put(&mut given);
    }
    carry_or(&mut job.facts.metadata, &given);
}

async fn check(call: &Call, job: &NewJob) -> Result<(), Problem> {
    check_own(call, job)?;
    let named = job.facts.parent_id.into_iter().chain(job.facts.after().iter().map(|edge| edge.job));
    for id in named {
        call.check_job(id).await?;
    }
    Ok(())
}

/// Refuses a job of a flow that the caller may not make. Jobs of the same request, which it knows by name, are not there
/// yet and checked by themselves.
pub(crate) async fn check_node(call: &Call, job: &NewJob) -> Result<(), Problem> {
    check_own(call, job)?;
    for edge in job.facts.after().iter().filter(|edge| edge.name.is_none()) {
        call.check_job(edge.job).await?;
    }
    Ok(())
}

fn check_own(call: &Call, job: &NewJob) -> Result<(), Problem> {
    call.who.check_queue(&job.facts.queue)?;
    check_unique(call, job)
}

/// A key that is unique among all jobs of a kind would tell of jobs in every queue, and keep them out.
fn check_unique(call: &Call, job: &NewJob) -> Result<(), Problem> {
    let is_of_queue = |scope: &Scope| matches!(scope, Scope::Queue(_) | Scope::Debounce { .. });
    let is_wide = job.facts.unique.as_ref().is_some_and(|unique| !is_of_queue(&unique.scope));
    if !is_wide || !call.who.is_for_some_queues() {
        return Ok(());
    }
    let detail = "unique among all jobs of a kind concerns every queue and this key is for some only; \
                  set unique.scope to \"queue\", or use a key for all queues";
    Err(Problem::new(codes::QUEUE_FORBIDDEN, detail).with("field", "unique.scope"))
}

pub(crate) async fn send(
    call: &Call,
    jobs: Vec<NewJob>,
) -> Result<Result<Vec<Enqueued>, BatchRefusal>, Problem> {
    let request = Enqueue { jobs, actor: call.actor(), idempotency: call.idempotency()? };
    Ok(known(|| call.app.store.enqueue(request.clone(), None)).await?)
}

/// What became of each job of a batch, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnqueuedMany)]
pub(crate) struct BatchAnswer {
    results: Vec<BatchItem>,
}

/// One job of a batch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnqueuedItem)]
struct BatchItem {
    /// The job: the first one, if it existed.
    id: String,
    /// Whether it was there already.
    existed: bool,
    /// Whether the one that was there has another payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_differs: Option<bool>,
    /// True if it was left out, because as many jobs of its key wait as may: there is no such job.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<bool>,
}

/// `POST /v1/jobs/batch`
pub(crate) async fn batch(call: Call) -> Reply {
    let Batch { jobs: shapes } = call.body()?;
    count("jobs", shapes.len(), ENQUEUE_MAX)?;
    let policies = call.app.policies().await?;
    let mut jobs = Vec::with_capacity(shapes.len());
    for (index, shape) in shapes.into_iter().enumerate() {
        let refused = |invalid: windlass_core::Invalid| BatchRefusal { index, refusal: invalid.into() };
        let mut job = shape.resolve(&policies).map_err(refused)?;
        trace(&call, &mut job);
        check(&call, &job).await.map_err(|problem| problem.with("index", index))?;
        jobs.push(job);
    }
    let answers = send(&call, jobs).await??;
    let item = |Enqueued { id, existed, payload_differs, dropped }| BatchItem {
        id: JobId::to_string(&id),
        existed,
        payload_differs: existed.then_some(payload_differs),
        dropped: dropped.then_some(true),
    };
    json(StatusCode::CREATED, &BatchAnswer { results: answers.into_iter().map(item).collect() })
}
