//! Subscriptions: what happens to jobs is carried to a web service or to a broker.
//!
//! A subscription says which events, and where to. How far it has come is the place of a reader of its own, in the store.
//! What cannot be delivered is tried again; where that lasts too long, or the other side says that it is gone, the
//! subscription is paused with the reason, and goes on from its place when a person resumes it.

mod change;

use crate::event::Event;
use crate::limits::{self, Invalid};
use crate::name::{Actor, Name};
use crate::span::within_ms;
use crate::status::Status;
use crate::time::Timestamp;
use crate::trigger::webhook::WebhookSecret;
pub use change::{
    Changed, Delivery, PauseSubscription, PutSubscription, RemoveSubscription, ReportSubscription,
};
use serde::{Deserialize, Serialize};

/// The most characters of a subscription's name: the name of its reader is longer.
pub const NAME_MAX: usize = 100;
/// Most names in one list of a selection.
pub const SELECTED_MAX: usize = 100;
/// The most characters of an address.
pub const URL_MAX: usize = 2_000;
/// How long a web service has to answer, in milliseconds.
pub const TIMEOUT_MS: i64 = 15_000;
/// How long deliveries fail before the subscription is paused, in milliseconds.
pub const GIVE_UP_MS: i64 = 24 * 3_600_000;
/// How long it is remembered that a message came, in milliseconds.
pub const KEPT_MS: i64 = 30 * 86_400_000;
/// How much of a reason is kept.
const WHY_MAX: usize = 500;

/// Which events are wanted. An empty list wants them all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// Of jobs in these queues.
    pub queues: Vec<Name>,
    /// Of jobs of these kinds.
    pub kinds: Vec<Name>,
    /// Of these types.
    pub types: Vec<Name>,
    /// Those by which a job came to stand here.
    pub statuses: Vec<Status>,
}

impl Selection {
    /// Whether an event of a job in this queue, of this kind, is wanted.
    pub fn takes(&self, queue: &Name, kind: &Name, event: &Event) -> bool {
        let has =
            |names: &[Name], one: &str| names.is_empty() || names.iter().any(|name| name.as_str() == one);
        has(&self.queues, queue.as_str())
            && has(&self.kinds, kind.as_str())
            && has(&self.types, event.what.type_name())
            && (self.statuses.is_empty()
                || event.moved_to().is_some_and(|status| self.statuses.contains(&status)))
    }

    fn check(&self) -> Result<(), Invalid> {
        let lists = [("queues", self.queues.len()), ("kinds", self.kinds.len())];
        let more = [("types", self.types.len()), ("statuses", self.statuses.len())];
        for (field, count) in lists.into_iter().chain(more) {
            limits::within(field, count as i64, 0, SELECTED_MAX as i64)?;
        }
        Ok(())
    }
}

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum Target {
    /// Each is POSTed to a web service, signed as Standard Webhooks says.
    Webhook {
        /// Where to.
        url: String,
        /// How long the service has to answer, in milliseconds.
        timeout_ms: i64,
    },
    /// Each is published to an exchange of RabbitMQ.
    Amqp {
        /// The broker: `amqp://user@host/vhost`. The password is the secret.
        url: String,
        /// A topic exchange. It is declared durable.
        exchange: String,
        /// Whether an event for which no queue is bound is kept and tried again, rather than dropped.
        mandatory: bool,
    },
    /// The other way round: messages of a queue of RabbitMQ become jobs, or news about jobs.
    AmqpQueue {
        /// The broker: `amqp://user@host/vhost`. The password is the secret.
        url: String,
        /// The queue that is consumed. It must be there.
        queue: String,
        /// The exchange that takes what can never be dealt with. It is declared durable, with a queue of its name.
        dead_letter: String,
        /// What a message becomes.
        becomes: Becomes,
    },
}

/// What a message that came becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Becomes {
    /// A job each, with the message's body as its payload. The message's id makes one that comes again the same job.
    Jobs {
        /// In this queue.
        queue: Name,
        /// Of this kind.
        kind: Name,
    },
    /// The message names a job: those who wait for work look for it, unless it has ended.
    News,
}

impl Target {
    /// Its address.
    pub fn url(&self) -> &str {
        match self {
            Self::Webhook { url, .. } | Self::Amqp { url, .. } | Self::AmqpQueue { url, .. } => url,
        }
    }

    /// Its address without what may be a secret: a path and a query often hold one.
    pub fn shown_url(&self) -> String {
        let url = self.url();
        match self {
            Self::Amqp { .. } | Self::AmqpQueue { .. } => url.to_owned(),
            Self::Webhook { .. } => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let more = if rest.len() > host.len() + 1 { "/…" } else { "" };
                format!("{scheme}://{host}{more}")
            }
        }
    }

    /// Accepts what can be reached.
    pub fn check(&self) -> Result<(), Invalid> {
        let url = self.url();
        let refuse = |why: &str| Err(Invalid::new("url", self.shown_url(), why));
        if url.len() > URL_MAX || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return refuse("must be at most 2000 characters without spaces");
        }
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        if host.is_empty() || host.starts_with(':') {
            return refuse("must name a host");
        }
        match self {
            Self::Webhook { timeout_ms, .. } => {
                if !["http", "https"].contains(&scheme) || user.is_some() {
                    return refuse("must be an http:// or https:// address without a user and password");
                }
                within_ms("timeout", *timeout_ms, 1_000, 300_000).map(|_| ())
            }
            Self::Amqp { exchange: name, .. } | Self::AmqpQueue { dead_letter: name, .. } => {
                if !["amqp", "amqps"].contains(&scheme) || user.is_some_and(|user| user.contains(':')) {
                    return refuse(
                        "must be amqp://USER@HOST/VHOST or amqps://…, with the password as the secret",
                    );
                }
                check_broker_name("exchange", name)?;
                match self {
                    Self::AmqpQueue { queue, .. } => check_broker_name("consume", queue),
                    _ => Ok(()),
                }
            }
        }
    }
}

fn check_broker_name(field: &str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() || name.len() > 255 || name.starts_with("amq.") {
        return Err(Invalid::new(field, name, "must be 1 to 255 bytes and not begin with amq."));
    }
    Ok(())
}

/// Where a subscription begins that has no place, or has lost it, as after a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// At the first event that is left.
    Start,
    /// Behind the last event.
    #[default]
    Now,
}

/// What a subscription is: everything that a person wrote, but for its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// Which events.
    pub select: Selection,
    /// Where to.
    pub target: Target,
    /// Where it begins.
    pub from: Begin,
    /// How long deliveries fail before it is paused, in milliseconds.
    pub give_up_ms: i64,
}

impl Subscription {
    /// Accepts what can be delivered.
    pub fn check(&self) -> Result<(), Invalid> {
        self.select.check()?;
        self.target.check()?;
        if matches!(self.target, Target::AmqpQueue { .. }) && self.select != Selection::default() {
            return Err(Invalid::new(
                "queues",
                "given",
                "choose events, and this subscription takes messages in",
            ));
        }
        within_ms("give_up_after", self.give_up_ms, 60_000, limits::HORIZON_MS).map(|_| ())
    }
}

/// What webhooks are signed with, or a broker's password. Never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Credential(String);

impl Credential {
    /// A secret for this target: `whsec_…` for a webhook.
    pub fn parse(target: &Target, text: &str) -> Result<Self, Invalid> {
        if text.is_empty() || text.len() > 1_000 {
            return Err(Invalid::new("secret", format!("{} bytes", text.len()), "must be 1 to 1000 bytes"));
        }
        if matches!(target, Target::Webhook { .. }) {
            WebhookSecret::parse(text)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// Why and since when nothing is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Since when.
    pub at: Timestamp,
    /// Who paused it.
    pub by: Actor,
    /// Why.
    pub why: String,
}

/// That deliveries fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// Since when.
    pub since: Timestamp,
    /// Why the last one did.
    pub why: String,
}

/// A subscription as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionState {
    /// Its name.
    pub name: Name,
    /// What it is; none if it can no longer be read.
    pub subscription: Option<Subscription>,
    /// Grows with every change by a person. 0 is one that can no longer be read.
    pub version: i64,
    /// That nothing is delivered, and why.
    pub paused: Option<Paused>,
    /// That deliveries fail, and why.
    pub failing: Option<Failing>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a person changed it last.
    pub updated_at: Timestamp,
}

impl SubscriptionState {
    /// Stands for a row that does not read back, and says why.
    pub fn unreadable(name: Name, why: impl std::fmt::Display) -> Self {
        let epoch = Timestamp::from_micros(0);
        let why =
            format!("what is stored does not read back: {why}; put the subscription again, or remove it");
        Self {
            name,
            subscription: None,
            version: 0,
            paused: Some(Paused { at: epoch, by: Actor::engine(), why }),
            failing: None,
            created_at: epoch,
            updated_at: epoch,
        }
    }

    /// The name of the reader whose place is how far it has come.
    pub fn reader(name: &Name) -> Name {
        Name::try_from(format!("subscription:{name}")).unwrap_or_else(|_| Name::unreadable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(url: &str) -> Target {
        Target::Webhook { url: url.to_owned(), timeout_ms: TIMEOUT_MS }
    }

    fn amqp(url: &str) -> Target {
        Target::Amqp { url: url.to_owned(), exchange: "windlass".to_owned(), mandatory: true }
    }

    #[test]
    fn an_address_holds_no_password() {
        for good in [webhook("https://a.example/x?y=1"), amqp("amqp://guest@localhost:5672/%2f")] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        let bad =
            ["ftp://a.example", "https://u:p@a.example/", "https://u@a.example/", "https:///x", "a.example"];
        for url in bad {
            assert!(webhook(url).check().is_err(), "{url}");
        }
        for url in ["amqp://guest:guest@localhost", "http://localhost", "amqp://:5672/"] {
            assert!(amqp(url).check().is_err(), "{url}");
        }
    }

    #[test]
    fn what_is_shown_of_an_address_is_its_host() {
        assert_eq!(webhook("https://a.example/hook/T0KEN?k=1").shown_url(), "https://a.example/…");
        assert_eq!(webhook("https://a.example:8443").shown_url(), "https://a.example:8443");
        let secret = Credential::parse(&amqp("amqp://a"), "hunter2").expect("a password");
        assert_eq!(format!("{secret:?}"), "Credential(…)");
        assert!(Credential::parse(&webhook("https://a"), "hunter2").is_err());
    }
}
