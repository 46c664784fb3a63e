//! Subscriptions as they are asked for.

use super::object::two_way;
use super::time::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

two_way!(SubscriptionBody, PauseBody);

/// A subscription: which events, and where to.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewSubscription)]
pub struct SubscriptionBody {
    /// `https://…` or `http://…`: each event is POSTed there, signed as Standard Webhooks says. `amqp://USER@HOST/VHOST` or
    /// `amqps://…`: each is published to RabbitMQ.
    #[schema(max_length = 2000)]
    pub url: String,
    /// The secret that webhooks are signed with (`whsec_…`), or the broker's password. What is left out stays as it is; a
    /// new webhook gets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Events of jobs in these queues; of all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub queues: Vec<String>,
    /// Events of jobs of these kinds; of all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub kinds: Vec<String>,
    /// Events of these types; of all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub types: Vec<String>,
    /// Events by which a job came to stand here; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub statuses: Vec<String>,
    /// Where it begins, and begins again after a restore: `now` or `start`; now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// How long a web service has to answer; 15 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How long deliveries fail before the subscription is paused; a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub give_up_after: Option<Span>,
    /// The topic exchange of a broker; `windlass`. The routing key is QUEUE.KIND.TYPE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
    /// Whether an event for which the broker has no queue is kept and tried again, rather than dropped; true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mandatory: Option<bool>,
    /// The other way round: a queue of the broker whose messages are taken in. It must be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consume: Option<String>,
    /// What each message becomes; when it is left out, messages name jobs, which are looked for unless they have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueue: Option<EnqueueShape>,
    /// The exchange that takes messages that can never be dealt with; `windlass.dead`. It is declared, with a queue of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
    /// Only if it is at this version; 0 if it must not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub expected_version: Option<i64>,
}

/// The job that a message becomes, with the message's body as its payload and the message's id as its unique key.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MessageJob)]
pub struct EnqueueShape {
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
}

/// Why a subscription is paused.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = PauseSubscription)]
pub struct PauseBody {
    /// For those who look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
