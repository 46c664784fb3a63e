//! Subscriptions: events carried to web services and brokers.

use crate::app::known;
use crate::call::{Call, Reply, ok};
use crate::problem::Problem;
use crate::wire::event::EventShape;
use crate::wire::subscription::{EnqueueShape, PauseBody, SubscriptionBody};
use crate::wire::time::{Span, Time};
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::subscription::{Becomes, Begin, GIVE_UP_MS, Selection, Subscription, TIMEOUT_MS, Target};
use windlass_core::{Invalid, Name, Refusal, Role, Status, Timestamp};
use windlass_store::{
    Credential, FeedEvent, PauseSubscription, Place, PutSubscription, RemoveSubscription, SubscriptionState,
    WebhookSecret, fresh,
};

/// A subscription as it stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Subscription)]
pub(crate) struct SubscriptionShape {
    /// Its name.
    name: String,
    /// Where to. Only operators see more than the host.
    url: String,
    queues: Vec<String>,
    kinds: Vec<String>,
    types: Vec<String>,
    statuses: Vec<String>,
    /// Where it begins: `now` or `start`.
    from: &'static str,
    /// How long a web service has to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    give_up_after: Span,
    /// The exchange of a broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mandatory: Option<bool>,
    /// The queue of a broker whose messages are taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    consume: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enqueue: Option<EnqueueShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter: Option<String>,
    /// `on`, `failing` or `paused`.
    status: &'static str,
    /// Why it is failing or paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Since when it is failing or paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    /// When its place in the feed moved last; null while it has none.
    moved_at: Option<Time>,
    /// Grows with every change by a person.
    version: i64,
    created_at: Time,
    updated_at: Time,
    /// The secret of its webhooks, in the answer to the request that made it and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl SubscriptionShape {
    fn of(call: &Call, state: SubscriptionState, moved_at: Option<Timestamp>) -> Self {
        let texts = |names: &[Name]| names.iter().map(ToString::to_string).collect();
        let subscription = state.subscription;
        let select = subscription.as_ref().map(|s| s.select.clone()).unwrap_or_default();
        let target = subscription.as_ref().map(|s| &s.target);
        let url = |target: &Target| {
            if call.who.has(&[Role::Operator]) { target.url().to_owned() } else { target.shown_url() }
        };
        let (timeout, exchange, mandatory) = match target {
            Some(Target::Webhook { timeout_ms, .. }) => (Some(Span::from_ms(*timeout_ms)), None, None),
            Some(Target::Amqp { exchange, mandatory, .. }) => {
                (None, Some(exchange.clone()), Some(*mandatory))
            }
            Some(Target::AmqpQueue { .. }) | None => (None, None, None),
        };
        let (consume, dead_letter, enqueue) = match target {
            Some(Target::AmqpQueue { queue, dead_letter, becomes, .. }) => {
                let enqueue = match becomes {
                    Becomes::Jobs { queue, kind } => {
                        Some(EnqueueShape { queue: queue.to_string(), kind: kind.to_string() })
                    }
                    Becomes::News => None,
                };
                (Some(queue.clone()), Some(dead_letter.clone()), enqueue)
            }
            _ => (None, None, None),
        };
        let (status, why, since) = match (state.paused, state.failing) {
            (Some(paused), _) => ("paused", Some(paused.why), Some(Time(paused.at))),
            (None, Some(failing)) => ("failing", Some(failing.why), Some(Time(failing.since))),
            (None, None) => ("on", None, None),
        };
        Self {
            name: state.name.to_string(),
            url: target.map(url).unwrap_or_default(),
            queues: texts(&select.queues),
            kinds: texts(&select.kinds),
            types: texts(&select.types),
            statuses: select.statuses.iter().map(ToString::to_string).collect(),
            from: match subscription.as_ref().map(|s| s.from).unwrap_or_default() {
                Begin::Start => "start",
                Begin::Now => "now",
            },
            timeout,
            give_up_after: Span::from_ms(subscription.as_ref().map_or(GIVE_UP_MS, |s| s.give_up_ms)),
            exchange,
            mandatory,
            consume,
            enqueue,
            dead_letter,
            status,
            why,
            since,
            moved_at: moved_at.map(Time),
            version: state.version,
            created_at: Time(state.created_at),
            updated_at: Time(state.updated_at),
            secret: None,
        }
    }
}

/// Every subscription, by name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Subscriptions)]
pub(crate) struct SubscriptionsPage {
    subscriptions: Vec<SubscriptionShape>,
}

/// Whose events it carries, or where it puts jobs; none where that is not said, and so may be any.
fn queues(subscription: &Subscription) -> &[Name] {
    match &subscription.target {
        Target::AmqpQueue { becomes: Becomes::Jobs { queue, .. }, .. } => std::slice::from_ref(queue),
        _ => &subscription.select.queues,
    }
}

/// Whether all that it carries is the caller's.
fn is_visible(call: &Call, state: &SubscriptionState) -> bool {
    let queues = state.subscription.as_ref().map(queues).unwrap_or_default();
    !call.who.is_for_some_queues() || !queues.is_empty() && queues.iter().all(|queue| call.who.sees(queue))
}

/// `GET /v1/subscriptions`
pub(crate) async fn subscriptions(call: Call) -> Reply {
    let places = call.store().places((), None).await?;
    let moved = |name: &Name| {
        let reader = SubscriptionState::reader(name);
        places.iter().find(|place: &&Place| place.reader == reader).map(|place| place.moved_at)
    };
    let states = call.store().subscriptions((), None).await?.into_iter();
    let visible = states.filter(|state| is_visible(&call, state));
    let shape = |state: SubscriptionState| {
        let moved_at = moved(&state.name);
        SubscriptionShape::of(&call, state, moved_at)
    };
    ok(&SubscriptionsPage { subscriptions: visible.map(shape).collect() })
}

/// `GET /v1/subscriptions/{name}`
pub(crate) async fn subscription(call: Call) -> Reply {
    let state = find(&call).await?;
    show(&call, state, None).await
}

async fn show(call: &Call, state: SubscriptionState, secret: Option<String>) -> Reply {
    let place = call.store().place(SubscriptionState::reader(&state.name), None).await?;
    let shape = SubscriptionShape::of(call, state, place.map(|place| place.moved_at));
    ok(&SubscriptionShape { secret, ..shape })
}

/// The subscription of the path. One of other queues is as if it were not there.
async fn find(call: &Call) -> Result<SubscriptionState, Problem> {
    let name = Name::parse("name", call.segment("name"))?;
    let state = call.store().subscription(name.clone(), None).await?;
    let visible = state.filter(|state| is_visible(call, state));
    Ok(visible.ok_or_else(|| Refusal::SubscriptionNotFound(name.to_string()))?)
}

fn names(field: &str, texts: Vec<String>) -> Result<Vec<Name>, Invalid> {
    texts.into_iter().map(|text| Name::parse(field, text)).collect()
}

impl SubscriptionBody {
    fn resolve(self) -> Result<(Subscription, Option<Credential>, Option<i64>), Invalid> {
        let only = |field: &str, given: bool, whose: &str| {
            if given { Err(Invalid::new(field, "given", format!("is for {whose} only"))) } else { Ok(()) }
        };
        if self.consume.is_none() {
            only("enqueue", self.enqueue.is_some(), "what is consumed")?;
            only("dead_letter", self.dead_letter.is_some(), "what is consumed")?;
        }
        let target = if let Some(queue) = self.consume {
            only("timeout", self.timeout.is_some(), "webhooks")?;
            only("exchange", self.exchange.is_some(), "what is published")?;
            only("mandatory", self.mandatory.is_some(), "what is published")?;
            let becomes = match self.enqueue {
                Some(job) => Becomes::Jobs {
                    queue: Name::parse("enqueue.queue", job.queue)?,
                    kind: Name::parse("enqueue.kind", job.kind)?,
                },
                None => Becomes::News,
            };
            let dead_letter = self.dead_letter.unwrap_or_else(|| "windlass.dead".to_owned());
            Target::AmqpQueue { url: self.url, queue, dead_letter, becomes }
        } else if self.url.starts_with("amqp") {
            only("timeout", self.timeout.is_some(), "webhooks")?;
            let exchange = self.exchange.unwrap_or_else(|| "windlass".to_owned());
            Target::Amqp { url: self.url, exchange, mandatory: self.mandatory.unwrap_or(true) }
        } else {
            only("exchange", self.exchange.is_some(), "brokers")?;
            only("mandatory", self.mandatory.is_some(), "brokers")?;
            Target::Webhook { url: self.url, timeout_ms: self.timeout.map_or(TIMEOUT_MS, Span::ms) }
        };
        let status = |word: String| {
            let wrong = || Invalid::new("statuses", &word, "must be the status of a job");
            Status::parse(&word).ok_or_else(wrong)
        };
        let from = match self.from.as_deref() {
            None | Some("now") => Begin::Now,
            Some("start") => Begin::Start,
            Some(other) => return Err(Invalid::new("from", other, "must be now or start")),
        };
        let select = Selection {
            queues: names("queues", self.queues)?,
            kinds: names("kinds", self.kinds)?,
            types: names("types", self.types)?,
            statuses: self.statuses.into_iter().map(status).collect::<Result<_, _>>()?,
        };
        let credential = self.secret.as_deref().map(|text| Credential::parse(&target, text)).transpose()?;
        let give_up_ms = self.give_up_after.map_or(GIVE_UP_MS, Span::ms);
        Ok((Subscription { select, target, from, give_up_ms }, credential, self.expected_version))
    }
}

/// `PUT /v1/subscriptions/{name}`
pub(crate) async fn put(call: Call) -> Reply {
    let body: SubscriptionBody = call.body()?;
    let name = Name::parse("name", call.segment("name"))?;
    let (subscription, given, expected_version) = body.resolve()?;
    if call.who.is_for_some_queues() && queues(&subscription).is_empty() {
        let limit = "must name queues of this key, which is for some queues only";
        return Err(Invalid::new("queues", "none", limit).into());
    }
    queues(&subscription).iter().try_for_each(|queue| call.who.check_queue(queue))?;
    if call.store().subscription(name.clone(), None).await?.is_some() {
        find(&call).await?;
    }
    let mut made = None;
    let signs = matches!(subscription.target, Target::Webhook { .. });
    let credential = match given {
        None if signs && call.store().credential(name.clone(), None).await?.is_none() => {
            let secret = WebhookSecret::from_bytes(fresh::random::<32>())?.to_text();
            let credential = Credential::parse(&subscription.target, &secret)?;
            made = Some(secret);
            Some(credential)
        }
        given => given,
    };
    let request = PutSubscription {
        name: name.clone(),
        subscription,
        credential,
        expected_version,
        actor: call.actor(),
    };
    // A lost answer is asked for again: nobody else could ever show the secret that was made here.
    let state = known(|| call.app.store.put_subscription(request.clone(), None)).await??;
    show(&call, state, made).await
}

/// That it is gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SubscriptionRemoved)]
pub(crate) struct Removed {
    removed: String,
}

/// `DELETE /v1/subscriptions/{name}`
pub(crate) async fn remove(call: Call) -> Reply {
    let name = find(&call).await?.name;
    let request = RemoveSubscription { name: name.clone(), actor: call.actor() };
    call.store().remove_subscription(request, None).await??;
    ok(&Removed { removed: name.to_string() })
}

/// `POST /v1/subscriptions/{name}/pause`
pub(crate) async fn pause(call: Call) -> Reply {
    let body: PauseBody = call.body()?;
    set_paused(&call, Some(body.reason.unwrap_or_else(|| "an operator paused it".to_owned()))).await
}

/// `POST /v1/subscriptions/{name}/resume`
pub(crate) async fn resume(call: Call) -> Reply {
    set_paused(&call, None).await
}

async fn set_paused(call: &Call, why: Option<String>) -> Reply {
    let request = PauseSubscription { name: find(call).await?.name, why, actor: call.actor() };
    let state = call.store().pause_subscription(request, None).await??;
    show(call, state, None).await
}

/// An event as subscriptions carry it: its type, when it happened, and the event as the feed shows it.
#[derive(Serialize)]
struct Carried {
    r#type: String,
    timestamp: Time,
    data: EventShape,
}

/// An event of the feed as subscriptions carry it, as JSON.
pub fn carried(fed: &FeedEvent) -> Vec<u8> {
    let mut data = EventShape::of(&fed.event);
    data.job_id = Some(fed.event.job.to_string());
    data.queue = Some(fed.queue.to_string());
    data.kind = Some(fed.kind.to_string());
    let r#type = fed.event.what.type_name().to_owned();
    // Texts, numbers and checked JSON always become JSON.
    serde_json::to_vec(&Carried { r#type, timestamp: Time(fed.event.at), data }).unwrap_or_default()
}
