//! What people and the leader do to subscriptions.

use super::{Credential, Failing, NAME_MAX, Paused, Subscription, SubscriptionState, Target, WHY_MAX};
use crate::job::Metadata;
use crate::limits::{self, Invalid};
use crate::name::{Actor, Name};
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::term::Term;
use crate::time::Timestamp;
use crate::trigger::webhook::WebhookSecret;

/// What a request about a subscription writes.
pub type Changed = Option<(SubscriptionState, WriteAudit)>;

fn not_found(name: &Name) -> Refusal {
    Refusal::SubscriptionNotFound(name.to_string())
}

/// A subscription to make or to change.
#[derive(Debug, Clone)]
pub struct PutSubscription {
    /// Which.
    pub name: Name,
    /// What it is to be.
    pub subscription: Subscription,
    /// Its secret; none keeps the one that it has.
    pub credential: Option<Credential>,
    /// The version it must be at; 0 for one that must not be there.
    pub expected_version: Option<i64>,
    /// Who.
    pub actor: Actor,
}

impl PutSubscription {
    /// The subscription after this; none if it is so already.
    pub fn decide(
        &self,
        before: Option<&(SubscriptionState, Option<Credential>)>,
        now: Timestamp,
    ) -> Result<Changed, Refusal> {
        let (state, secret) = before.map_or((None, None), |(state, secret)| (Some(state), secret.as_ref()));
        let version = state.map_or(0, |state| state.version);
        limits::within("name", self.name.as_str().len() as i64, 1, NAME_MAX as i64)?;
        self.subscription.check()?;
        let new_secret = self.credential.as_ref().filter(|new| Some(*new) != secret);
        let kept = state.and_then(|state| state.subscription.as_ref());
        if kept == Some(&self.subscription) && new_secret.is_none() {
            return Ok(None);
        }
        if self.expected_version.is_some_and(|expected| expected != version) {
            return Err(Refusal::VersionMismatch(version));
        }
        if matches!(self.subscription.target, Target::Webhook { .. }) {
            let will_be = self.credential.as_ref().or(secret);
            let signs = will_be.is_some_and(|secret| WebhookSecret::parse(secret.reveal()).is_ok());
            if !signs {
                return Err(Invalid::new("secret", "none", "a webhook is signed and needs one").into());
            }
        }
        // An address may hold a secret of its own.
        let json = |subscription: &Subscription| {
            let mut value = serde_json::to_value(subscription).unwrap_or_default();
            value["target"]["url"] = subscription.target.shown_url().into();
            value
        };
        let detail = Metadata::from_iter([
            ("before".to_owned(), kept.map(json).unwrap_or_default()),
            ("after".to_owned(), json(&self.subscription)),
            ("new_secret".to_owned(), new_secret.is_some().into()),
        ]);
        let audit = WriteAudit::of(self.actor.clone(), "subscription.put", &self.name, detail);
        let readable = state.filter(|state| state.version > 0);
        let state = SubscriptionState {
            name: self.name.clone(),
            subscription: Some(self.subscription.clone()),
            version: version + 1,
            paused: readable.and_then(|state| state.paused.clone()),
            failing: None,
            created_at: readable.map_or(now, |state| state.created_at),
            updated_at: now,
        };
        Ok(Some((state, audit)))
    }
}

/// A subscription to pause, or to resume from where it stands.
#[derive(Debug, Clone)]
pub struct PauseSubscription {
    /// Which.
    pub name: Name,
    /// Why it is paused; none resumes it.
    pub why: Option<String>,
    /// Who.
    pub actor: Actor,
}

impl PauseSubscription {
    /// The subscription after this; none if it is so already.
    pub fn decide(&self, before: Option<&SubscriptionState>, now: Timestamp) -> Result<Changed, Refusal> {
        let state = before.ok_or_else(|| not_found(&self.name))?;
        if let Some(paused) = state.paused.as_ref().filter(|_| state.version == 0) {
            return Err(Invalid::new("subscription", &self.name, paused.why.clone()).into());
        }
        if state.paused.is_some() == self.why.is_some() {
            return Ok(None);
        }
        let action = if self.why.is_some() { "subscription.pause" } else { "subscription.resume" };
        let why = self.why.as_deref().map(shorten);
        let was = state.paused.as_ref().map(|paused| paused.why.clone());
        let detail = Metadata::from_iter([("why".to_owned(), why.clone().or(was).into())]);
        let audit = WriteAudit::of(self.actor.clone(), action, &self.name, detail);
        let state = SubscriptionState {
            paused: why.map(|why| Paused { at: now, by: self.actor.clone(), why }),
            failing: None,
            version: state.version + 1,
            updated_at: now,
            ..state.clone()
        };
        Ok(Some((state, audit)))
    }
}

/// A subscription to remove, with its secret and its place.
#[derive(Debug, Clone)]
pub struct RemoveSubscription {
    /// Which.
    pub name: Name,
    /// Who.
    pub actor: Actor,
}

impl RemoveSubscription {
    /// What goes to the audit.
    pub fn decide(&self, before: Option<&SubscriptionState>) -> Result<WriteAudit, Refusal> {
        let state = before.ok_or_else(|| not_found(&self.name))?;
        let to = state.subscription.as_ref().map(|subscription| subscription.target.shown_url());
        let detail = Metadata::from_iter([("to".to_owned(), to.into())]);
        Ok(WriteAudit::of(self.actor.clone(), "subscription.remove", &self.name, detail))
    }
}

/// How deliveries went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// They arrive.
    Works,
    /// They do not, and why; they are tried again.
    Fails(String),
    /// They never will, and why.
    GivesUp(String),
}

/// What the leader reports about a subscription.
#[derive(Debug, Clone)]
pub struct ReportSubscription {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// Which.
    pub name: Name,
    /// The version that was delivered under.
    pub version: i64,
    /// How it went.
    pub delivery: Delivery,
}

impl ReportSubscription {
    /// The subscription after this, paused where it failed for too long; none if nothing changes.
    pub fn decide(
        &self,
        term: Option<&Term>,
        before: Option<&SubscriptionState>,
        now: Timestamp,
    ) -> Result<Option<(SubscriptionState, Option<WriteAudit>)>, Refusal> {
        if !term.is_some_and(|term| term.allows(self.epoch, now)) {
            return Err(Refusal::StaleEpoch(term.map_or(0, |term| term.epoch)));
        }
        let state = before.ok_or_else(|| not_found(&self.name))?;
        if state.version != self.version {
            return Err(Refusal::VersionMismatch(state.version));
        }
        if state.paused.is_some() {
            return Ok(None);
        }
        let (why, gone) = match &self.delivery {
            Delivery::Works if state.failing.is_none() => return Ok(None),
            Delivery::Works => return Ok(Some((SubscriptionState { failing: None, ..state.clone() }, None))),
            Delivery::Fails(why) => (shorten(why), false),
            Delivery::GivesUp(why) => (shorten(why), true),
        };
        let since = state.failing.as_ref().map_or(now, |failing| failing.since);
        let patience_ms = state.subscription.as_ref().map_or(0, |subscription| subscription.give_up_ms);
        let too_long = now >= since.plus_ms(patience_ms);
        if !gone && !too_long {
            let failing = Some(Failing { since, why });
            let changed = failing != state.failing;
            return Ok(changed.then(|| (SubscriptionState { failing, ..state.clone() }, None)));
        }
        let why = if gone { why } else { format!("deliveries failed since {since}: {why}") };
        let detail = Metadata::from_iter([("why".to_owned(), why.clone().into())]);
        let audit = WriteAudit::of(Actor::engine(), "subscription.pause", &self.name, detail);
        let paused = Some(Paused { at: now, by: Actor::engine(), why });
        Ok(Some((SubscriptionState { paused, failing: None, ..state.clone() }, Some(audit))))
    }
}

fn shorten(why: &str) -> String {
    why.chars().filter(|c| !c.is_control()).take(WHY_MAX).collect()
}
