//! Queues: what their jobs fall back to, how they reach workers, their limits, pausing.

use super::{Endpoint, SetEndpoint, WriteAudit};
use crate::backoff::Backoff;
use crate::job::Metadata;
use crate::lane::QueueLimits;
use crate::lease::LeaseMs;
use crate::limits::{self, Invalid};
use crate::name::{Actor, Name};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Defaults that jobs of a queue fall back to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueueDefaults {
    /// Retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<i32>,
    /// Timeout of one attempt, in milliseconds; 0 is no timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// Lease, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<LeaseMs>,
    /// Grace, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<i64>,
    /// Backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
}

impl QueueDefaults {
    /// Accepts what is within the limits.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(n) = self.max_retries {
            limits::within("max_retries", n.into(), 0, limits::MAX_RETRIES_MAX)?;
        }
        if let Some(ms) = self.timeout_ms {
            crate::span::within_ms("timeout", ms, 0, limits::TIMEOUT_MAX_MS)?;
        }
        if let Some(ms) = self.lease_ms {
            LeaseMs::new(ms.get())?;
        }
        if let Some(ms) = self.grace_ms {
            crate::span::within_ms("grace", ms, 0, limits::GRACE_MAX_MS)?;
        }
        self.backoff.map_or(Ok(()), |b| b.check().map(|_| ()))
    }
}

/// How jobs of a queue reach workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// Workers take them.
    #[default]
    Pull,
    /// The leader assigns them, to the least loaded worker whose labels match.
    Push,
}

impl QueueMode {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Result<Self, Invalid> {
        match word {
            "pull" => Ok(Self::Pull),
            "push" => Ok(Self::Push),
            other => Err(Invalid::new("mode", other, "must be pull or push")),
        }
    }
}

/// A queue as it is kept: only queues with a setting have a row, others exist by having jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: Name,
    /// When it was paused and by whom.
    pub paused: Option<(Timestamp, Actor)>,
    /// What its jobs fall back to.
    pub defaults: QueueDefaults,
    /// How its jobs reach workers.
    pub mode: QueueMode,
    /// Its limits; none if it has no rule.
    pub flow: Option<QueueLimits>,
    /// The web service that servers send its jobs to; none if workers take them.
    pub endpoint: Option<Endpoint>,
}

impl Queue {
    /// A queue without a setting.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            paused: None,
            defaults: QueueDefaults::default(),
            mode: QueueMode::default(),
            flow: None,
            endpoint: None,
        }
    }

    /// Whether a worker may take a job from it that it was not assigned.
    pub fn is_open(&self) -> bool {
        self.paused.is_none() && self.mode == QueueMode::Pull
    }
}

/// A queue's settings.
#[derive(Debug, Clone)]
pub struct PutQueue {
    /// Which.
    pub name: Name,
    /// What its jobs fall back to; as before when absent.
    pub defaults: Option<QueueDefaults>,
    /// How its jobs reach workers; as before when absent.
    pub mode: Option<QueueMode>,
    /// Its limits; as before when absent, none when there is no rule in it.
    pub flow: Option<QueueLimits>,
    /// What becomes of its endpoint.
    pub endpoint: SetEndpoint,
    /// Who sets them.
    pub actor: Actor,
}

impl PutQueue {
    /// Everything as before.
    pub fn new(name: Name, actor: Actor) -> Self {
        Self { name, defaults: None, mode: None, flow: None, endpoint: SetEndpoint::Keep, actor }
    }

    /// The queue with these settings; none if it has them.
    pub fn decide(&self, before: Option<&Queue>) -> Result<Option<(Queue, WriteAudit)>, Invalid> {
        self.defaults.map_or(Ok(()), |defaults| defaults.check())?;
        self.flow.as_ref().map_or(Ok(()), QueueLimits::check)?;
        let queue = before.cloned().unwrap_or_else(|| Queue::new(self.name.clone()));
        // What is held stays held, whatever the rules are; what broke is whole once they are set.
        let held = queue.flow.as_ref().is_some_and(|flow| flow.held);
        let set = self.flow.clone().map(|flow| QueueLimits { broken: None, ..flow });
        let rules = set.or_else(|| queue.flow.clone()).unwrap_or_default();
        let flow = Some(QueueLimits { held, ..rules }).filter(|flow| !flow.is_empty());
        let endpoint = self.endpoint.decide(queue.endpoint.as_ref())?;
        let mode = self.mode.unwrap_or(queue.mode);
        let defaults = self.defaults.unwrap_or(queue.defaults);
        let after = Queue { defaults, mode, flow, endpoint, ..queue };
        if before == Some(&after) {
            return Ok(None);
        }
        let json = |queue: &Queue| {
            let mut settings = serde_json::to_value(queue.defaults).unwrap_or_default();
            if let (Some(settings), QueueMode::Push) = (settings.as_object_mut(), queue.mode) {
                settings.insert("mode".to_owned(), queue.mode.as_str().into());
            }
            if let (Some(settings), Some(flow)) = (settings.as_object_mut(), queue.without_holds().flow) {
                let flow = QueueLimits { broken: None, ..flow };
                settings.insert("flow".to_owned(), serde_json::to_value(flow).unwrap_or_default());
            }
            if let (Some(settings), Some(endpoint)) = (settings.as_object_mut(), &queue.endpoint) {
                settings.insert("endpoint".to_owned(), endpoint.to_audit());
            }
            settings
        };
        let detail = Metadata::from_iter([
            ("before".to_owned(), before.map_or(serde_json::Value::Null, json)),
            ("after".to_owned(), json(&after)),
        ]);
        let audit = WriteAudit::of(self.actor.clone(), "queue.put", &self.name, detail);
        Ok(Some((after, audit)))
    }
}

/// A queue to pause or resume.
#[derive(Debug, Clone)]
pub struct PauseQueue {
    /// Which.
    pub name: Name,
    /// Whether to pause; else resume.
    pub pause: bool,
    /// Who.
    pub actor: Actor,
}

impl PauseQueue {
    /// The queue paused or resumed; none if it is. A repeat does not even change since when it is paused.
    pub fn decide(&self, before: Option<&Queue>, now: Timestamp) -> Option<(Queue, WriteAudit)> {
        let queue = before.cloned().unwrap_or_else(|| Queue::new(self.name.clone()));
        if queue.paused.is_some() == self.pause {
            return None;
        }
        let action = if self.pause { "queue.pause" } else { "queue.resume" };
        let paused = self.pause.then(|| (now, self.actor.clone()));
        let audit = WriteAudit::of(self.actor.clone(), action, &self.name, Metadata::new());
        Some((Queue { paused, ..queue }, audit))
    }
}
