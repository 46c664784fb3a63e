//! Queues: what stands in them, what their jobs fall back to, pausing and resuming.

use crate::call::{Call, Reply, ok};
use crate::problem::Problem;
use crate::wire::control::QueueBody;
use crate::wire::new_job::lease_ms;
use crate::wire::registry::QueueShape;
use crate::wire::time::Span;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::{Backoff, Count, Name, Queue, QueueDefaults, QueueLimits, QueueMode};
use windlass_store::{PauseQueue, PutQueue, QueueState};

/// Up to where due jobs are counted.
const CAP: i64 = 10_000;

/// Every queue that has a setting or a job that may run, now or later, or runs; or in which something happened in the last
/// day, as this server saw it.
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
    // A queue that is drained as fast as it fills holds nothing at this moment, and one whose jobs all failed holds none.
    for name in call.app.hub.known() {
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
    let flow = body.flow.map(QueueLimits::try_from).transpose()?;
    let request = PutQueue { name: name.clone(), defaults, mode, flow, actor: call.actor() };
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
    QueueState { queue: Queue::new(name), due: Count::default(), oldest_due_at: None, held_until: None }
}

async fn show(call: &Call, name: Name) -> Reply {
    let known = call.store().queues(CAP, None).await?.into_iter().find(|state| state.queue.name == name);
    let state = known.unwrap_or_else(|| unset(name.clone()));
    let rates = call.app.hub.rates(&name);
    ok(&OneQueue { queue: QueueShape::of(state, rates) })
}
