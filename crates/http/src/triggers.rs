//! Triggers: events from outside that start jobs.

use crate::app::known;
use crate::call::{Call, Reply, json, ok};
use crate::idempotency::once;
use crate::problem::Problem;
use crate::wire::raw::{Raw, Shown, payload};
use crate::wire::time::Time;
use crate::wire::trigger::{EventBody, TriggerBody};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::trigger::{JOBS_MAX, Passed, Trigger, TriggerJob, TriggerState};
use windlass_core::{Facts, Invalid, Key, Name, Refusal};
use windlass_store::{
    EventsOf, Ingest, Ingested, PutTrigger, PutTriggerSecret, ReadTriggerEvents, RemoveTrigger, TriggerEvent,
    WebhookSecret, fresh,
};

/// A trigger as it stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Trigger)]
pub(crate) struct TriggerShape {
    /// Its name.
    name: String,
    /// What each event starts.
    jobs: Vec<TriggeredJob>,
    /// Grows with every change by a person.
    version: i64,
    /// Whether it takes signed webhooks: it has a secret.
    signed: bool,
    /// Where its webhooks are sent to.
    webhook: String,
    /// Why it starts nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
    /// When it was made.
    created_at: Time,
    /// When a person changed it last.
    updated_at: Time,
}

/// A job that a trigger starts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TriggeredJob {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    facts: Facts,
    /// The template; absent where the payload of the event is passed on as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
}

impl TriggerShape {
    fn of(state: TriggerState) -> Self {
        let job = |TriggerJob { job: facts, payload }| {
            let payload = if let Passed::Template(template) = payload { Some(template) } else { None };
            TriggeredJob { facts, payload }
        };
        Self {
            webhook: format!("/v1/webhooks/{}", state.name),
            name: state.name.to_string(),
            jobs: state.trigger.jobs.into_iter().map(job).collect(),
            version: state.version,
            signed: state.signed,
            broken: state.broken,
            created_at: Time(state.created_at),
            updated_at: Time(state.updated_at),
        }
    }
}

/// Every trigger, by name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Triggers)]
pub(crate) struct TriggersPage {
    triggers: Vec<TriggerShape>,
}

/// Whether all of its jobs are the caller's.
fn is_visible(call: &Call, state: &TriggerState) -> bool {
    state.trigger.queues().all(|queue| call.who.sees(queue))
}

/// `GET /v1/triggers`
pub(crate) async fn triggers(call: Call) -> Reply {
    let states = call.store().triggers((), None).await?.into_iter();
    let visible = states.filter(|state| is_visible(&call, state));
    ok(&TriggersPage { triggers: visible.map(TriggerShape::of).collect() })
}

/// `GET /v1/triggers/{name}`
pub(crate) async fn trigger(call: Call) -> Reply {
    ok(&TriggerShape::of(find(&call).await?))
}

/// The trigger of the path. One of another queue is as if it were not there.
async fn find(call: &Call) -> Result<TriggerState, Problem> {
    let name = Name::parse("name", call.segment("name"))?;
    let state = call.store().trigger(name.clone(), None).await?;
    let visible = state.filter(|state| is_visible(call, state));
    Ok(visible.ok_or_else(|| Refusal::TriggerNotFound(name.to_string()))?)
}

/// `PUT /v1/triggers/{name}`
pub(crate) async fn put(call: Call) -> Reply {
    let body: TriggerBody = call.body()?;
    let name = Name::parse("name", call.segment("name"))?;
    let policies = call.app.policies().await?;
    let mut jobs = Vec::new();
    for job in body.jobs {
        let job = job.resolve(&policies)?;
        call.who.check_queue(&job.facts.queue)?;
        let template = job.payload.as_ref().map(|payload| serde_json::from_slice(payload.as_bytes()));
        let unreadable = |_| Invalid::new("jobs.payload", "bytes", "a template is JSON");
        let payload = template.transpose().map_err(unreadable)?.map_or(Passed::Whole, Passed::Template);
        jobs.push(TriggerJob { job: job.facts, payload });
    }
    if let Some(state) = call.store().trigger(name.clone(), None).await? {
        state.trigger.queues().try_for_each(|queue| call.who.check_sees(queue))?;
    }
    let request = PutTrigger {
        name,
        trigger: Trigger { jobs },
        expected_version: body.expected_version,
        actor: call.actor(),
    };
    ok(&TriggerShape::of(call.store().put_trigger(request, None).await??))
}

/// That it is gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerRemoved)]
pub(crate) struct Removed {
    removed: String,
}

/// `DELETE /v1/triggers/{name}`
pub(crate) async fn remove(call: Call) -> Reply {
    let name = find(&call).await?.name;
    call.store().remove_trigger(RemoveTrigger { name: name.clone(), actor: call.actor() }, None).await??;
    ok(&Removed { removed: name.to_string() })
}

/// A secret that was made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerSecret)]
pub(crate) struct MadeSecret {
    /// The secret itself, for whoever sends the webhooks. It is shown this once.
    secret: String,
    /// Where webhooks are sent to.
    webhook: String,
}

/// `POST /v1/triggers/{name}/secret`
pub(crate) async fn secret(call: Call) -> Reply {
    let name = find(&call).await?.name;
    let secret = WebhookSecret::from_bytes(fresh::random::<32>())?;
    let request = PutTriggerSecret { name: name.clone(), secret: secret.clone(), actor: call.actor() };
    // A lost answer is asked for again: nobody else could ever show this secret.
    known(|| call.app.store.put_trigger_secret(request.clone(), None)).await??;
    let webhook = format!("/v1/webhooks/{name}");
    json(StatusCode::CREATED, &MadeSecret { secret: secret.to_text(), webhook })
}

/// What became of an event.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TriggerFired)]
pub(crate) struct Fired {
    /// The event that is kept: this one, or the first with its key.
    #[schema(format = "uuid")]
    event: String,
    /// Whether an event with its key came before; then this one started nothing.
    deduped: bool,
    /// Whether that one brought another payload.
    payload_differs: bool,
    /// The jobs that the event started.
    jobs: Vec<String>,
    /// Why it started none yet: it is kept, and tried again when the trigger is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Fired {
    fn of(ingested: Ingested) -> Self {
        let Ingested { event, deduped, payload_differs } = ingested;
        let jobs = event.detail.jobs.iter().map(ToString::to_string).collect();
        Self { event: event.id.to_string(), deduped, payload_differs, jobs, problem: event.detail.problem }
    }
}

/// An event on its way into the store.
pub(crate) fn event(call: &Call, trigger: Name) -> Ingest {
    Ingest {
        id: fresh::trigger_event_id(),
        trigger,
        dedupe_key: None,
        payload: None,
        actor: call.actor(),
        ids: (0..JOBS_MAX).map(|_| fresh::job_id()).collect(),
    }
}

/// `POST /v1/triggers/{name}`
pub(crate) async fn fire(call: Call) -> Reply {
    let body: EventBody = call.body()?;
    let trigger = find(&call).await?.name;
    let own_key = body.dedupe_key.map(|key| Key::parse("dedupe_key", key)).transpose()?;
    let payload = payload("payload", body.payload, body.payload_base64, PAYLOAD_MAX_BYTES)?;
    let is_promised = call.idempotency()?.is_some();
    let (fired, _) = once(&call, async |key| {
        let dedupe_key = own_key.or_else(|| is_promised.then_some(key));
        let request = Ingest { dedupe_key, payload, ..event(&call, trigger) };
        Ok(Fired::of(known(|| call.app.store.ingest(request.clone(), None)).await??))
    })
    .await?;
    let status = match (fired.deduped, &fired.problem) {
        (true, _) => StatusCode::OK,
        (false, None) => StatusCode::CREATED,
        (false, Some(_)) => StatusCode::ACCEPTED,
    };
    json(status, &fired)
}

/// An event that came in.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerEvent)]
pub(crate) struct EventShape {
    #[schema(format = "uuid")]
    id: String,
    /// The trigger that it came for.
    trigger: String,
    /// What makes another one the same.
    dedupe_key: Option<String>,
    /// What it brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Option<Raw>>,
    /// The same as base64, for what is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// Who sent it.
    actor: String,
    received_at: Time,
    /// When its jobs were made; null while they could not be.
    processed_at: Option<Time>,
    /// When it is tried again.
    due_at: Option<Time>,
    /// How often it was tried in vain.
    tries: u32,
    jobs: Vec<String>,
    /// Why it started nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl From<TriggerEvent> for EventShape {
    fn from(event: TriggerEvent) -> Self {
        let (payload, payload_base64) = Shown::of(event.payload.as_ref()).or_null();
        Self {
            id: event.id.to_string(),
            trigger: event.trigger.to_string(),
            dedupe_key: event.dedupe_key.map(|key| key.to_string()),
            payload,
            payload_base64,
            actor: event.actor.to_string(),
            received_at: Time(event.received_at),
            processed_at: event.processed_at.map(Time),
            due_at: event.due_at.map(Time),
            tries: event.detail.tries,
            jobs: event.detail.jobs.iter().map(ToString::to_string).collect(),
            problem: event.detail.problem,
        }
    }
}

/// Events of a trigger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TriggerEvents)]
pub(crate) struct EventsPage {
    events: Vec<EventShape>,
}

/// `GET /v1/triggers/{name}/events`
pub(crate) async fn events(call: Call) -> Reply {
    let name = find(&call).await?.name;
    let of = if call.query.flag("unprocessed")? {
        EventsOf::Unprocessed(Some(name))
    } else {
        EventsOf::Trigger(name)
    };
    let request = ReadTriggerEvents { of, limit: call.query.limit(100)? };
    let events = call.store().trigger_events(request, None).await?;
    ok(&EventsPage { events: events.into_iter().map(EventShape::from).collect() })
}
