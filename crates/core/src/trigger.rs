//! Triggers: events from outside start jobs.
//!
//! A trigger names the jobs that one event starts. An event is written down first and once, by its dedupe key; the jobs
//! are made in the same transaction. Where they cannot be made, because the event does not fit a template, the event is
//! kept with the reason, and a leader tries again until it is processed.

mod event;
pub mod template;
pub mod webhook;

use crate::job::{Facts, Metadata, RunAt};
use crate::limits::{self, Invalid};
use crate::name::{Actor, Name};
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::time::Timestamp;
pub(crate) use event::leads;
pub use event::{
    EventsOf, ForgetTriggerEvents, Ingest, Ingested, ProcessTriggerEvent, ReadTriggerEvents, Started,
    TriggerEvent, TriggerEventDetail,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use webhook::WebhookSecret;

/// Most jobs that one event starts.
pub const JOBS_MAX: usize = 16;
/// How long the secret before the newest still opens, in milliseconds.
pub const OLD_SECRET_MS: i64 = 86_400_000;

/// What a job of a trigger gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Passed {
    /// The payload of the event, byte for byte.
    Whole,
    /// JSON with places that are filled in from the event.
    Template(Value),
}

/// One job that an event starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriggerJob {
    /// What it is.
    pub job: Facts,
    /// What it gets.
    pub payload: Passed,
}

/// What a trigger is: everything that a person wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// The jobs that each event starts, one of each.
    pub jobs: Vec<TriggerJob>,
}

impl Trigger {
    /// Accepts a trigger whose jobs can be made.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        limits::within("jobs", self.jobs.len() as i64, 1, JOBS_MAX as i64)?;
        for (n, TriggerJob { job, payload }) in self.jobs.iter().enumerate() {
            let refuse =
                |field: &str, why: &str| Err(Invalid::new(&format!("jobs[{n}].{field}"), "given", why));
            if job.unique.is_some() {
                return refuse("unique", "an event starts its jobs once by its dedupe key; leave it out");
            }
            if matches!(job.run_at, RunAt::At(_)) {
                return refuse(
                    "run_at",
                    "jobs of a trigger run when their event comes; give `delay` instead",
                );
            }
            if job.graph.is_some() {
                return refuse("after", "a job of a trigger waits for no other");
            }
            if job.parent_id.is_some() {
                return refuse("parent_id", "a job of a trigger has no parent");
            }
            let named =
                |invalid: Invalid| Invalid { field: format!("jobs[{n}].{}", invalid.field), ..invalid };
            job.check(now).map_err(named)?;
            if let Passed::Template(template) = payload {
                template::check("payload", template).map_err(named)?;
            }
        }
        Ok(())
    }

    /// Whose queues it puts jobs into.
    pub fn queues(&self) -> impl Iterator<Item = &Name> {
        self.jobs.iter().map(|job| &job.job.queue)
    }
}

/// A trigger as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriggerState {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub trigger: Trigger,
    /// Grows with every change by a person. 0 is one that can no longer be read.
    pub version: i64,
    /// Whether webhooks can be signed for it: it has a secret.
    pub signed: bool,
    /// Why it starts nothing: it can no longer be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a person changed it last.
    pub updated_at: Timestamp,
}

impl TriggerState {
    /// Stands for a row that does not read back, and says why.
    pub fn unreadable(name: Name, why: impl std::fmt::Display) -> Self {
        let epoch = Timestamp::from_micros(0);
        Self {
            name,
            trigger: Trigger { jobs: vec![] },
            version: 0,
            signed: false,
            broken: Some(format!(
                "what is stored does not read back: {why}; put the trigger again, or remove it"
            )),
            created_at: epoch,
            updated_at: epoch,
        }
    }

    /// Whether its row does not read back.
    pub fn is_unreadable(&self) -> bool {
        self.version == 0
    }
}

/// A trigger to make or to change.
#[derive(Debug, Clone)]
pub struct PutTrigger {
    /// Which.
    pub name: Name,
    /// What it is to be.
    pub trigger: Trigger,
    /// The version it must be at; 0 for one that must not be there.
    pub expected_version: Option<i64>,
    /// Who.
    pub actor: Actor,
}

/// What a request about a trigger writes.
pub type Changed = Option<(TriggerState, WriteAudit)>;

impl PutTrigger {
    /// The trigger after this; none if it is so already.
    pub fn decide(&self, before: Option<&TriggerState>, now: Timestamp) -> Result<Changed, Refusal> {
        let version = before.map_or(0, |state| state.version);
        self.trigger.check(now)?;
        if before.is_some_and(|state| state.trigger == self.trigger) {
            return Ok(None);
        }
        if self.expected_version.is_some_and(|expected| expected != version) {
            return Err(Refusal::VersionMismatch(version));
        }
        let json = |state: &TriggerState| serde_json::to_value(&state.trigger).unwrap_or_default();
        let detail = Metadata::from_iter([
            (
                "before".to_owned(),
                before.filter(|state| !state.is_unreadable()).map(json).unwrap_or_default(),
            ),
            ("after".to_owned(), serde_json::to_value(&self.trigger).unwrap_or_default()),
        ]);
        let audit = WriteAudit::of(self.actor.clone(), "trigger.put", &self.name, detail);
        let state = TriggerState {
            name: self.name.clone(),
            trigger: self.trigger.clone(),
            version: version + 1,
            signed: before.is_some_and(|state| state.signed),
            broken: None,
            created_at: before.filter(|state| !state.is_unreadable()).map_or(now, |state| state.created_at),
            updated_at: now,
        };
        Ok(Some((state, audit)))
    }
}

/// A trigger to remove. Its jobs stay; what it did not process yet is left undone.
#[derive(Debug, Clone)]
pub struct RemoveTrigger {
    /// Which.
    pub name: Name,
    /// Who.
    pub actor: Actor,
}

impl RemoveTrigger {
    /// What goes to the audit.
    pub fn decide(&self, before: Option<&TriggerState>) -> Result<WriteAudit, Refusal> {
        let Some(state) = before else { return Err(Refusal::TriggerNotFound(self.name.to_string())) };
        let was = serde_json::to_value(&state.trigger).unwrap_or_default();
        let detail = Metadata::from_iter([("before".to_owned(), was)]);
        Ok(WriteAudit::of(self.actor.clone(), "trigger.remove", &self.name, detail))
    }
}

/// A secret that webhooks are signed with from now on.
#[derive(Debug, Clone)]
pub struct PutTriggerSecret {
    /// Of which trigger.
    pub name: Name,
    /// The secret.
    pub secret: WebhookSecret,
    /// Who.
    pub actor: Actor,
}

/// A secret as it is kept. The newest has no end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSecret {
    /// What signatures are made with.
    pub secret: WebhookSecret,
    /// From when on it opens nothing any more.
    pub ends_at: Option<Timestamp>,
}

impl KeptSecret {
    /// Those that open at `now`.
    pub fn open(kept: &[Self], now: Timestamp) -> Vec<WebhookSecret> {
        let opens = |kept: &&Self| kept.ends_at.is_none_or(|end| now < end);
        kept.iter().filter(opens).map(|kept| kept.secret.clone()).collect()
    }
}

impl PutTriggerSecret {
    /// The trigger and its secrets after this; none if this is its secret. The one before ends a day later.
    pub fn decide(
        &self,
        before: Option<&(TriggerState, Vec<KeptSecret>)>,
        now: Timestamp,
    ) -> Result<Option<(TriggerState, Vec<KeptSecret>, WriteAudit)>, Refusal> {
        let Some((state, secrets)) = before else {
            return Err(Refusal::TriggerNotFound(self.name.to_string()));
        };
        if let Some(why) = state.broken.as_ref().filter(|_| state.is_unreadable()) {
            return Err(Invalid::new("trigger", &self.name, why.clone()).into());
        }
        if secrets.iter().any(|kept| kept.secret == self.secret) {
            return Ok(None);
        }
        let newest = KeptSecret { secret: self.secret.clone(), ends_at: None };
        let last = secrets.iter().find(|kept| kept.ends_at.is_none()).cloned();
        let last = last.map(|kept| KeptSecret { ends_at: Some(now.plus_ms(OLD_SECRET_MS)), ..kept });
        let audit = WriteAudit::of(self.actor.clone(), "trigger.secret", &self.name, Metadata::new());
        let state =
            TriggerState { signed: true, version: state.version + 1, updated_at: now, ..state.clone() };
        Ok(Some((state, [newest].into_iter().chain(last).collect(), audit)))
    }
}
