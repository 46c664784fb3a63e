//! Undoing: the job that undoes what another job did, and what it reads of that job's log.
//!
//! A job that is about to do something undoable gets a job behind it, which runs if it ends in any way but completed
//! ([`On::Failure`]). So what an end entails ([`end`](crate::end)) starts the undoing, whoever ends the job and however:
//! its holder, a cancel, a sweep, a claim that finds one crash too many, an SQL prompt.

use crate::event::{Event, EventKind};
use crate::flow::{Edge, Graph, On};
use crate::ids::JobId;
use crate::job::{Facts, Job, Metadata, Version};
use crate::limits::{Invalid, PAYLOAD_MAX_BYTES};
use crate::name::Name;
use crate::payload::Payload;
use crate::status::Status;
use crate::step::{REMEMBERED, Recorded, StepRun, StepState, recorded};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What the kind of a job ends with that undoes jobs of the kind before it.
pub const UNDO_SUFFIX: &str = ":undo";
/// An undoing is worth more tries than other work.
const RETRIES: i32 = 10;

/// The kind of the jobs that undo jobs of this kind.
pub fn undo_kind(kind: &Name) -> Result<Name, Invalid> {
    Name::parse("kind", format!("{kind}{UNDO_SUFFIX}"))
}

/// Whether jobs of this kind undo others.
pub fn is_undo(kind: &Name) -> bool {
    kind.as_str().ends_with(UNDO_SUFFIX)
}

/// The payload of a job that undoes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undoes {
    /// The job whose steps it undoes.
    pub undoes: JobId,
    /// As of which version: it is the first end after that which is undone.
    pub since: Version,
}

impl Undoes {
    /// What undoes a job, if it should end badly from where it is now.
    pub fn of(job: &Job) -> Self {
        Self { undoes: job.id, since: job.version }
    }

    /// As a payload.
    pub fn payload(&self) -> Result<Payload, Invalid> {
        Payload::from_value("payload", self, PAYLOAD_MAX_BYTES)
    }

    /// The facts of the job that undoes it: in the same queue, at the same priority, for the same workers. It has no key,
    /// so no rule of a lane refuses it or lets a newer job take its place.
    pub fn facts(&self, undone: &Facts) -> Result<Facts, Invalid> {
        let after = vec![Edge { job: self.undoes, on: On::Failure, name: Some(Name::word("undoes")) }];
        Ok(Facts {
            priority: undone.priority,
            max_retries: undone.max_retries.max(RETRIES),
            timeout_ms: undone.timeout_ms,
            lease_ms: undone.lease_ms,
            grace_ms: undone.grace_ms,
            backoff: undone.backoff,
            agent_id: undone.agent_id.clone(),
            tags: undone.tags.clone(),
            requires: undone.requires.clone(),
            graph: Some(Box::new(Graph { after, ..Graph::default() })),
            ..Facts::new(undo_kind(&undone.kind)?, undone.queue.clone())
        })
    }

    /// What a step that can be undone has on record when it begins.
    pub fn mark(undo: &Name) -> Result<Payload, Invalid> {
        Payload::from_value("undo", &Mark { undo: undo.clone() }, PAYLOAD_MAX_BYTES)
    }
}

/// In the event that begins a step: what undoes it.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    undo: Name,
}

/// A job as it was when a life of it ended, read from its log event by event.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedJob {
    /// Its row.
    pub job: Job,
    /// What never changes about it.
    pub facts: Facts,
    /// What it worked on.
    pub payload: Option<Payload>,
    /// Its metadata.
    pub metadata: Metadata,
    /// Its last checkpoint.
    pub checkpoint: Option<Payload>,
    log: Vec<Event>,
}

impl EndedJob {
    /// Begins with the first event; none if that is not the first of a job.
    pub fn begin(first: &Event) -> Option<Self> {
        let EventKind::JobCreated(facts) = &first.what else { return None };
        let (facts, payload) = ((**facts).clone(), first.payload.clone());
        let (job, metadata) = (Job::created(first)?, facts.metadata.clone());
        Some(Self { job, facts, payload, metadata, checkpoint: None, log: Vec::new() })
    }

    /// Reads the next event. What comes after the end of the life is not read any more.
    pub fn read(&mut self, event: Event, undoes: &Undoes) {
        if self.has_ended(undoes) {
            return;
        }
        self.job.apply(&event);
        if self.job.payload_version == Some(event.version) {
            self.payload.clone_from(&event.payload);
        }
        if self.job.checkpoint_version == Some(event.version) {
            self.checkpoint.clone_from(&event.payload);
        }
        if let EventKind::JobProgressed(report) = &event.what
            && let Some(metadata) = &report.metadata
        {
            self.metadata.clone_from(metadata);
        }
        if REMEMBERED.contains(&event.what.type_name()) {
            self.log.push(event);
        }
    }

    /// Whether the life that is undone has ended, as far as the log was read.
    pub fn has_ended(&self, undoes: &Undoes) -> bool {
        self.job.version > undoes.since && self.job.status.is_terminal()
    }

    /// Whether there is anything to undo: it ended, and not well.
    pub fn failed(&self) -> bool {
        self.job.status.is_terminal() && self.job.status != Status::Completed
    }

    /// What is on record of it.
    pub fn recorded(&self) -> Recorded {
        recorded(&self.log, self.job.steps_from)
    }

    /// The steps to undo: those that ended in this life, and began as ones that can be undone.
    pub fn undoable(&self) -> BTreeSet<Name> {
        let marked =
            |event: &Event| event.payload.as_ref().is_some_and(|payload| payload.parse::<Mark>().is_ok());
        let marked = self.log.iter().filter_map(|event| match &event.what {
            EventKind::NodeStarted(step) if marked(event) => Some(&step.name),
            _ => None,
        });
        let marked: BTreeSet<&Name> = marked.collect();
        let ended = self.recorded().steps.into_iter().filter(|step| {
            step.run == StepRun::This
                && marked.contains(&step.name)
                && matches!(step.state, StepState::Ended { .. })
        });
        ended.map(|step| step.name).collect()
    }
}
