//! An event that came in, and what it starts.

use super::{Passed, TriggerState, template};
use crate::enqueue::Enqueued;
use crate::ids::{JobId, TriggerEventId};
use crate::job::{Metadata, NewJob};
use crate::limits::{Invalid, PAYLOAD_MAX_BYTES};
use crate::name::{Actor, Key, Name};
use crate::payload::{Payload, fits};
use crate::refusal::Refusal;
use crate::term::Term;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest pause before an event that could not be processed is tried again, in milliseconds.
const PAUSE_MAX_MS: i64 = 3_600_000;

/// An event that came in. Its jobs are made once, when it is processed.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggerEvent {
    /// Its identity.
    pub id: TriggerEventId,
    /// Of which trigger.
    pub trigger: Name,
    /// Another event of the trigger with this key is the same one; none is never the same.
    pub dedupe_key: Option<Key>,
    /// What it brought.
    pub payload: Option<Payload>,
    /// Who sent it.
    pub actor: Actor,
    /// When it came.
    pub received_at: Timestamp,
    /// When it is tried again; none once it is processed.
    pub due_at: Option<Timestamp>,
    /// When it was processed; none before.
    pub processed_at: Option<Timestamp>,
    /// What came of it.
    pub detail: TriggerEventDetail,
}

/// What came of an event so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TriggerEventDetail {
    /// The jobs that it started.
    #[serde(default)]
    pub jobs: Vec<JobId>,
    /// How often that failed.
    #[serde(default)]
    pub tries: u32,
    /// Why it failed last, or why it started none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// An event to take in.
#[derive(Debug, Clone)]
pub struct Ingest {
    /// Made by the application, so that a repeat is recognised.
    pub id: TriggerEventId,
    /// Of which trigger.
    pub trigger: Name,
    /// What makes two events the same.
    pub dedupe_key: Option<Key>,
    /// What it brings.
    pub payload: Option<Payload>,
    /// Who sends it.
    pub actor: Actor,
    /// Ids for its jobs, at least as many as [`super::JOBS_MAX`].
    pub ids: Vec<JobId>,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Ingested {
    /// The event that is kept: this one, or the first with its key.
    pub event: TriggerEvent,
    /// Whether another event with its key came before.
    pub deduped: bool,
    /// Whether that one brought something else.
    pub payload_differs: bool,
}

/// An event with what it starts, to be written in one transaction.
#[derive(Debug)]
pub struct Started {
    /// The event afterwards.
    pub event: TriggerEvent,
    /// Its jobs.
    pub jobs: Vec<NewJob>,
}

impl Started {
    /// The event without its jobs, because the store refused them: it is tried again.
    #[must_use]
    pub fn refused(self, refusal: &Refusal, now: Timestamp) -> TriggerEvent {
        TriggerEvent { processed_at: None, ..self.event }.failed(refusal.to_string(), now)
    }
}

impl Ingest {
    /// The event with the jobs that it starts, if none with its id or key is there.
    pub fn decide(&self, trigger: Option<&TriggerState>, now: Timestamp) -> Result<Started, Refusal> {
        let Some(state) = trigger else { return Err(Refusal::TriggerNotFound(self.trigger.to_string())) };
        fits("payload", self.payload.as_ref(), PAYLOAD_MAX_BYTES)?;
        let event = TriggerEvent {
            id: self.id,
            trigger: self.trigger.clone(),
            dedupe_key: self.dedupe_key.clone(),
            payload: self.payload.clone(),
            actor: self.actor.clone(),
            received_at: now,
            due_at: None,
            processed_at: None,
            detail: TriggerEventDetail::default(),
        };
        Ok(event.start(state, &self.ids, now))
    }

    /// The answer where an event with the same id or key is there.
    pub fn answer(&self, there: TriggerEvent) -> Ingested {
        let print = |payload: Option<&Payload>| payload.map(Payload::fingerprint);
        let deduped = there.id != self.id;
        let payload_differs = deduped && print(there.payload.as_ref()) != print(self.payload.as_ref());
        Ingested { event: there, deduped, payload_differs }
    }
}

impl TriggerEvent {
    /// Who enqueues its jobs.
    pub fn enqueuer(&self) -> Result<Actor, Refusal> {
        Ok(Actor::try_from(format!("trigger:{}", self.trigger))?)
    }

    /// Makes its jobs; keeps it for later if they cannot be made.
    fn start(self, state: &TriggerState, ids: &[JobId], now: Timestamp) -> Started {
        let problem = match (&state.broken, self.jobs(state, ids, now)) {
            (Some(why), _) => why.clone(),
            (None, Err(invalid)) => invalid.to_string(),
            (None, Ok(jobs)) => {
                let started = jobs.iter().map(|job| job.id).collect();
                let detail = TriggerEventDetail { jobs: started, problem: None, ..self.detail };
                return Started {
                    event: Self { processed_at: Some(now), due_at: None, detail, ..self },
                    jobs,
                };
            }
        };
        Started { event: self.failed(problem, now), jobs: vec![] }
    }

    /// Not processed, and why: tried again after a pause that doubles, up to an hour.
    fn failed(self, problem: String, now: Timestamp) -> Self {
        let pause_ms = 1_000_i64.checked_shl(self.detail.tries.min(20)).unwrap_or(PAUSE_MAX_MS);
        let due_at = Some(now.plus_ms(pause_ms.min(PAUSE_MAX_MS)));
        let detail = TriggerEventDetail {
            jobs: vec![],
            tries: self.detail.tries.saturating_add(1),
            problem: Some(problem),
        };
        Self { due_at, detail, ..self }
    }

    fn jobs(&self, state: &TriggerState, ids: &[JobId], now: Timestamp) -> Result<Vec<NewJob>, Invalid> {
        let one = |(job, id): (&super::TriggerJob, &JobId)| {
            let mut facts = job.job.clone();
            facts.metadata.extend(Metadata::from_iter([
                ("trigger".to_owned(), self.trigger.to_string().into()),
                ("event".to_owned(), self.id.to_string().into()),
            ]));
            let payload = match &job.payload {
                Passed::Whole => self.payload.clone(),
                Passed::Template(template) => Some(template::fill("payload", template, self)?),
            };
            let job = NewJob { id: *id, facts, payload, parent_token: None };
            job.check(now)?;
            Ok(job)
        };
        if ids.len() < state.trigger.jobs.len() {
            return Err(Invalid::new("ids", ids.len(), "an id for each job is needed"));
        }
        state.trigger.jobs.iter().zip(ids).map(one).collect()
    }
}

/// A leader's wish to process an event that was kept.
#[derive(Debug, Clone)]
pub struct ProcessTriggerEvent {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// Which event.
    pub id: TriggerEventId,
    /// Ids for its jobs, at least as many as [`super::JOBS_MAX`].
    pub ids: Vec<JobId>,
}

impl ProcessTriggerEvent {
    /// The event with its jobs; none if it is gone, processed, or tried again later.
    pub fn decide(
        &self,
        term: Option<&Term>,
        event: Option<TriggerEvent>,
        trigger: Option<&TriggerState>,
        now: Timestamp,
    ) -> Result<Option<Started>, Refusal> {
        leads(term, self.epoch, now)?;
        let Some(event) = event.filter(|event| event.due_at.is_some_and(|at| at <= now)) else {
            return Ok(None);
        };
        let Some(state) = trigger else {
            let problem = Some("its trigger was removed before it was processed".to_owned());
            let detail = TriggerEventDetail { problem, ..event.detail };
            let event = TriggerEvent { processed_at: Some(now), due_at: None, detail, ..event };
            return Ok(Some(Started { event, jobs: vec![] }));
        };
        Ok(Some(event.start(state, &self.ids, now)))
    }
}

/// Old processed events that a leader removes.
#[derive(Debug, Clone)]
pub struct ForgetTriggerEvents {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// Processed before.
    pub before: Timestamp,
    /// At most so many.
    pub limit: usize,
}

impl ForgetTriggerEvents {
    /// Refuses who does not lead.
    pub fn decide(&self, term: Option<&Term>, now: Timestamp) -> Result<(), Refusal> {
        leads(term, self.epoch, now)
    }
}

/// Refuses who does not lead.
pub(crate) fn leads(term: Option<&Term>, epoch: i64, now: Timestamp) -> Result<(), Refusal> {
    match term {
        Some(term) if term.allows(epoch, now) => Ok(()),
        other => Err(Refusal::StaleEpoch(other.map_or(0, |term| term.epoch))),
    }
}

/// Which events to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventsOf {
    /// Those of a trigger, newest first.
    Trigger(Name),
    /// Those that are not processed, oldest first; of one trigger, or of all.
    Unprocessed(Option<Name>),
}

/// A page of events to read.
#[derive(Debug, Clone)]
pub struct ReadTriggerEvents {
    /// Which.
    pub of: EventsOf,
    /// At most 1,000.
    pub limit: usize,
}

impl Ingested {
    /// A new event.
    pub fn new(event: TriggerEvent) -> Self {
        Self { event, deduped: false, payload_differs: false }
    }
}

/// What was enqueued says which jobs there are, by whatever id.
impl TriggerEvent {
    /// The event with the jobs as they were enqueued.
    #[must_use]
    pub fn with(mut self, made: &[Enqueued]) -> Self {
        if !made.is_empty() {
            self.detail.jobs = made.iter().map(|job| job.id).collect();
        }
        self
    }
}
