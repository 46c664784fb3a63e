//! Queues: what stands in them, what their jobs fall back to, pausing and resuming.

use crate::call::{Call, Reply, ok};
use crate::problem::Problem;
use crate::shape::new_job::{BackoffShape, lease_ms};
use crate::shape::object::objects;
use crate::shape::registry::QueueShape;
use crate::shape::time::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{Backoff, Count, Name, Queue, QueueDefaults, QueueMode};
use windlass_store::{PauseQueue, PutQueue, QueueState};

objects!(QueueBody);

/// Up to where due jobs are counted.
const CAP: i64 = 10_000;

/// Every queue that has a setting or a job that could be taken, or was busy in the last minute as this server saw it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Queues)]
pub(crate) struct QueuesPage {
    queues: Vec<QueueShape>,
}

/// `GET /v1/queues`
pub(crate) async fn queues(call: Call) -> Reply {
    ok(&QueuesPage { queues: standing(&call, CAP).await? })
}

/// Every queue that the caller sees, with due jobs counted up to a cap.
pub(crate) async fn standing(call: &Call, cap: i64) -> Result<Vec<QueueShape>, Problem> {
    let mut states = call.store().queues(cap, None).await?;
    // A queue that is drained as fast as it fills has nothing due at this moment, and is busy all the same.
    for name in call.app.hub.busy() {
        if !states.iter().any(|state| state.queue.name == name) {
            states.push(unset(name));
        }
    }
    states.sort_by(|a, b| a.queue.name.cmp(&b.queue.name));
    let visible = states.into_iter().filter(|state| call.who.sees(&state.queue.name));
    let shape = |state: QueueState| {
        let rates = call.app.hub.rates(&state.queue.name);
        QueueShape::of(state, rates)
    };
    Ok(visible.map(shape).collect())
}

/// What a queue's jobs fall back to, and how they reach workers. What is left out is unset; the mode stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = QueueSettings)]
pub(crate) struct QueueBody {
    /// Failures allowed, 0 to 100.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 100)]
    max_retries: Option<i32>,
    /// How long one attempt may take.
    #[serde(default)]
    timeout: Option<Span>,
    /// How long a lease lasts.
    #[serde(default)]
    lease: Option<Span>,
    /// How long after its lease only the holder may still finish a job.
    #[serde(default)]
    grace: Option<Span>,
    /// How retries are spaced.
    #[serde(default)]
    backoff: Option<BackoffShape>,
    /// `pull`: workers take its jobs; `push`: the leader assigns them, to workers whose labels match.
    #[serde(default)]
    #[schema(example = "push")]
    mode: Option<String>,
}

/// A queue after it was changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OneQueue)]
pub(crate) struct OneQueue {
    queue: QueueShape,
}

/// `PUT /v1/queues/{queue}`
pub(crate) async fn put(call: Call) -> Reply {
    let body: QueueBody = call.body()?;
    let name = call.queue()?;
    let defaults = QueueDefaults {
        max_retries: body.max_retries,
        timeout_ms: body.timeout.map(Span::ms),
        lease_ms: lease_ms("lease", body.lease)?,
        grace_ms: body.grace.map(Span::ms),
        backoff: body.backoff.map(Backoff::from),
    };
    let mode = body.mode.as_deref().map(QueueMode::parse).transpose()?;
    let request = PutQueue { name: name.clone(), defaults, mode, actor: call.actor() };
    call.store().put_queue(request, None).await??;
    call.app.defaults.forget();
    show(&call, name).await
}

/// `POST /v1/queues/{queue}/pause`
pub(crate) async fn pause(call: Call) -> Reply {
    set_paused(&call, true).await
}

/// `POST /v1/queues/{queue}/resume`
pub(crate) async fn resume(call: Call) -> Reply {
    set_paused(&call, false).await
}

async fn set_paused(call: &Call, pause: bool) -> Reply {
    let name = call.queue()?;
    call.store().pause_queue(PauseQueue { name: name.clone(), pause, actor: call.actor() }, None).await?;
    show(call, name).await
}

/// A queue that nobody set anything for, with nothing due in it.
fn unset(name: Name) -> QueueState {
    QueueState { queue: Queue::new(name), due: Count::default(), oldest_due_at: None }
}

async fn show(call: &Call, name: Name) -> Reply {
    let known = call.store().queues(CAP, None).await?.into_iter().find(|state| state.queue.name == name);
    let state = known.unwrap_or_else(|| unset(name.clone()));
    let rates = call.app.hub.rates(&name);
    ok(&OneQueue { queue: QueueShape::of(state, rates) })
}
