//! Queues: what stands in them, what their jobs fall back to, pausing and resuming.

use crate::access::forbidden;
use crate::call::{Call, Reply, ok};
use crate::problem::Problem;
use crate::wire::control::{EndpointBody, QueueBody};
use crate::wire::new_job::lease_ms;
use crate::wire::registry::{OneQueue, QueueShape, QueuesPage};
use crate::wire::time::Span;
use windlass_core::{Backoff, Count, Invalid, Name, Queue, QueueDefaults, QueueLimits, QueueMode, Role};
use windlass_store::{PauseQueue, PutQueue, QueueState, SetEndpoint, WebhookSecret, fresh};

/// Up to where due jobs are counted.
const CAP: i64 = 10_000;

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
    let (endpoint, secret) = endpoint(&call, &name, body.endpoint).await?;
    let request =
        PutQueue { name: name.clone(), defaults: Some(defaults), mode, flow, endpoint, actor: call.actor() };
    call.store().put_queue(request, None).await??;
    call.app.defaults.forget();
    show(&call, name, secret).await
}

/// What becomes of a queue's endpoint, and the secret that was made for one that had none.
async fn endpoint(
    call: &Call,
    name: &Name,
    body: Option<EndpointBody>,
) -> Result<(SetEndpoint, Option<String>), Problem> {
    let Some(EndpointBody { url, secret, max }) = body else { return Ok((SetEndpoint::Keep, None)) };
    let Some(url) = url else {
        return match (secret, max) {
            (None, None) => Ok((SetEndpoint::Remove, None)),
            _ => Err(Invalid::new("endpoint.url", "missing", "say where the web service is").into()),
        };
    };
    // What the service answers becomes a result that the caller may read: it would read whatever this server can reach.
    if !call.who.has(&[Role::Admin]) {
        return Err(forbidden("`endpoint.url`", "admin"));
    }
    let given = secret.as_deref().map(WebhookSecret::parse).transpose()?;
    let queues = call.store().queue_settings((), None).await?;
    let has_one = queues.iter().any(|queue| queue.name == *name && queue.endpoint.is_some());
    let made = (given.is_none() && !has_one).then(|| WebhookSecret::from_bytes(fresh::random::<32>()));
    let made = made.transpose()?;
    let shown = made.as_ref().map(WebhookSecret::to_text);
    Ok((SetEndpoint::Put { url, secret: given.or(made), max }, shown))
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
    show(call, name, None).await
}

/// A queue that nobody set anything for, with nothing due in it.
fn unset(name: Name) -> QueueState {
    QueueState { queue: Queue::new(name), due: Count::default(), oldest_due_at: None, held_until: None }
}

async fn show(call: &Call, name: Name, secret: Option<String>) -> Reply {
    let known = call.store().queues(CAP, None).await?.into_iter().find(|state| state.queue.name == name);
    let state = known.unwrap_or_else(|| unset(name.clone()));
    let rates = call.app.hub.rates(&name);
    let mut queue = QueueShape::of(state, rates);
    if let Some(endpoint) = &mut queue.endpoint {
        endpoint.secret = secret;
    }
    ok(&OneQueue { queue })
}
