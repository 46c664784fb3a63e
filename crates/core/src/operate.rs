//! What operators do to a job: cancel, redrive, fork; and what a leader does: assign.
//!
//! Each of an operator's verbs may say which version of the job it was decided on; at any other version it is refused and nothing is written.

use crate::decide::{self, Command, Move, cancel_is_on_record, decide};
use crate::erase::is_erased;
use crate::event::{Assigned, Event, EventKind};
use crate::flow::FLOW_KIND;
use crate::ids::JobId;
use crate::job::{Job, RunAt, Version};
use crate::limits::{self, Invalid, PAYLOAD_MAX_BYTES};
use crate::name::{Actor, Key};
use crate::payload::{Payload, fits};
use crate::refusal::Refusal;
use crate::status::Status;
use crate::time::Timestamp;

/// A wish to stop a job.
#[derive(Debug, Clone)]
pub struct Cancel {
    /// Which.
    pub job: JobId,
    /// Who, why, how hard.
    pub wish: decide::Cancel,
    /// The version it was decided on; any when absent.
    pub expected_version: Option<Version>,
}

impl Cancel {
    /// The job of a schedule's last slot gives way to the next.
    pub fn for_next_slot(job: JobId, actor: Actor) -> Self {
        let reason = Some("its schedule fires again".to_owned());
        let wish =
            decide::Cancel { actor, reason, force: false, force_after_ms: limits::FORCE_AFTER_DEFAULT_MS };
        Self { job, wish, expected_version: None }
    }
}

/// A dead or cancelled job to send back.
#[derive(Debug, Clone)]
pub struct Redrive {
    /// Which.
    pub job: JobId,
    /// From when.
    pub run_at: RunAt,
    /// Whether recorded steps are forgotten.
    pub from_start: bool,
    /// Another payload. The old one stays in the log.
    pub payload: Option<Payload>,
    /// Who.
    pub actor: Actor,
    /// Recognises a repeat.
    pub key: Option<Key>,
    /// The version it was decided on; any when absent.
    pub expected_version: Option<Version>,
}

/// A new job that begins with another's log.
#[derive(Debug, Clone)]
pub struct Fork {
    /// The other.
    pub from: JobId,
    /// Up to which version; all of it when absent.
    pub from_version: Option<Version>,
    /// The new job; a repeat is recognised by it.
    pub id: JobId,
    /// Another payload.
    pub payload: Option<Payload>,
    /// Who.
    pub actor: Actor,
    /// The version of the other that it was decided on; any when absent.
    pub expected_version: Option<Version>,
}

/// What a request that may be a repeat comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It was carried out before, at this version.
    Already(Version),
    /// To be written.
    Step(Box<Move>),
}

impl Verdict {
    pub(crate) fn step(step: Move) -> Self {
        Self::Step(Box::new(step))
    }
}

/// Refuses a decision that was made on another version of the job than this one.
pub(crate) fn expect(job: &Job, expected: Option<Version>) -> Result<(), Refusal> {
    match expected {
        Some(version) if version != job.version => Err(Refusal::VersionMismatch(job.version)),
        _ => Ok(()),
    }
}

impl Cancel {
    /// Cancels at once, or asks the holder to stop. A wish that is on record is a repeat, at whatever version.
    pub fn decide(&self, job: &Job, now: Timestamp) -> Result<Verdict, Refusal> {
        if cancel_is_on_record(job, &self.wish, now) {
            return Ok(Verdict::Already(job.version));
        }
        if !job.status.is_terminal() {
            expect(job, self.expected_version)?;
        }
        decide(job, Command::Cancel(self.wish.clone()), now).map(Verdict::step)
    }
}

impl Redrive {
    /// Sends the job back to pending; `keyed` is the event that carries the key of the request. What the return
    /// entails is said by [`key_again`](crate::end::key_again) and [`Behind`](crate::flow::Behind).
    /// One that was erased has nothing to run with.
    pub fn decide(
        &self,
        job: &Job,
        is_erased: bool,
        keyed: Option<&Event>,
        now: Timestamp,
    ) -> Result<Verdict, Refusal> {
        if let Some(event) = keyed {
            let version = event.repeated_by("job_redriven", None)?;
            let is_same = is_erased || event.payload == self.payload;
            return if is_same { Ok(Verdict::Already(version)) } else { Err(Refusal::KeyReused(version)) };
        }
        if job.status.is_terminal() && job.status != Status::Completed {
            expect(job, self.expected_version)?;
            if is_erased {
                return Err(Refusal::Erased);
            }
        }
        let payload = self.payload.clone();
        let command = Command::Redrive(self.actor.clone(), self.run_at, self.from_start, payload);
        decide(job, command, now).map(|step| Verdict::step(step.key(self.key.clone())))
    }
}

/// Gives the job to a worker. The same assignment again is a repeat; a queue that is closed for it, paused or
/// without a free slot, gives nothing.
pub fn assign(job: &Job, to: Assigned, closed: bool, now: Timestamp) -> Result<Verdict, Refusal> {
    if let Some(assignment) = job.assignment
        && job.status == Status::Assigned
        && job.worker_id.as_ref() == Some(&to.worker)
        && job.epoch == Some(to.epoch)
    {
        return Ok(Verdict::Already(assignment));
    }
    if closed && !job.status.is_terminal() {
        return Err(Refusal::NotClaimable(job.status));
    }
    decide(job, Command::Assign(to), now).map(Verdict::step)
}

/// A new job that begins with another's log, to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Forked {
    /// The events that were copied.
    pub copied: Vec<Event>,
    /// The row that they lead to.
    pub row: Job,
    /// The fork itself.
    pub step: Move,
}

impl Fork {
    /// Up to which version of the source it copies.
    pub fn copies_to(&self, source: &Job) -> Result<Version, Refusal> {
        expect(source, self.expected_version)?;
        if source.kind.as_str() == FLOW_KIND {
            return Err(
                Invalid::new("job", "a flow", "has no handler to run again; fork its jobs instead").into()
            );
        }
        let to = self.from_version.unwrap_or(source.version);
        limits::within("from_version", to, 1, source.version)?;
        fits("payload", self.payload.as_ref(), PAYLOAD_MAX_BYTES)?;
        Ok(to)
    }

    /// The new job, from the source's log up to a version. Of one that was erased there is nothing to begin with.
    pub fn decide(&self, log: Vec<Event>, to: Version, now: Timestamp) -> Result<Forked, Refusal> {
        if is_erased(&log) {
            return Err(Refusal::Erased);
        }
        let copied = decide::copy_log(log, self.id, self.payload.as_ref());
        let row = Job::fold(&copied).ok_or(Refusal::NotFound)?;
        let now = now.max(row.updated_at);
        let step = decide::fork(&row, self.from, to, self.actor.clone(), now);
        Ok(Forked { copied, row, step })
    }

    /// Where in the log of the job that has this id this very fork is on record. A copied log may hold older forks;
    /// the last counts.
    pub fn made_before(&self, log: &[Event]) -> Result<Version, Refusal> {
        let last = log.iter().rev().find_map(|event| match &event.what {
            EventKind::JobForked(fork) => Some((event.version, fork)),
            _ => None,
        });
        match last {
            Some((version, fork))
                if fork.from == self.from && self.from_version.is_none_or(|v| v == fork.from_version) =>
            {
                Ok(version)
            }
            _ => Err(Refusal::JobExists),
        }
    }
}
