//! Jobs by the clock: when a schedule fires, and what a firing makes.
//!
//! A schedule keeps the slot that comes next. A leader asks a store to fire it; the store decides here, under its lock,
//! which slots are fired now, and writes their jobs and the next slot in one transaction. Each slot is a unique key of its
//! own: whoever else tries, it becomes one job.

mod apply;
pub mod cron;
mod fire;

use crate::enqueue::Enqueued;
use crate::ids::JobId;
use crate::job::{Facts, Metadata, NewJob, RunAt};
use crate::limits::{self, HORIZON_MS, Invalid, TEXT_MAX_BYTES};
use crate::name::{Actor, Name};
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::time::Timestamp;
use crate::unique::Unique;
pub use apply::{APPLY_MAX, Applied, ApplySchedules};
use cron::Cron;
pub use fire::{FireSchedule, Firing, MissedLimits};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Most slots that one firing makes jobs of; what is left follows with the next one.
pub const SLOTS_MAX: usize = 100;
/// Most missed slots that `missed = "all"` makes up for, when it does not say how many.
pub const MISSED_DEFAULT: u32 = 10;
/// Most missed slots that `missed = "all"` may make up for.
pub const MISSED_MAX: i64 = 1_000;
/// Most slots of the past that are made up for by one backfill.
pub const BACKFILL_MAX: usize = 1_000;
/// Shortest interval, in milliseconds.
pub const EVERY_MIN_MS: i64 = 1_000;
/// A slot that is so much later than this, in milliseconds, was missed: nobody led, or the store was away.
pub const MISSED_AFTER_MS: i64 = 60_000;

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// When a clock shows what a cron text says.
    Cron(String),
    /// In a fixed interval, in milliseconds, from the start or else from when the schedule was made.
    Every(i64),
}

/// What becomes of slots that passed while nobody could fire them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// The newest of them is fired, late.
    #[default]
    Once,
    /// They are left out.
    Skip,
    /// The newest of them are fired, so many at most.
    All,
}

/// What becomes of a slot while the job of the last one still lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is fired.
    #[default]
    Allow,
    /// It is left out.
    Skip,
    /// It is fired, and the older job is cancelled.
    Cancel,
}

/// What a schedule is: everything that a person wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// When it fires.
    pub timing: Timing,
    /// The time zone of a cron text, by its IANA name.
    #[serde(default = "utc")]
    pub timezone: String,
    /// What its jobs are.
    pub job: Facts,
    /// What its jobs get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    /// What becomes of missed slots.
    #[serde(default)]
    pub missed: Missed,
    /// How many missed slots `all` makes up for.
    #[serde(default = "missed_default")]
    pub missed_max: u32,
    /// What becomes of a slot while the last job lives.
    #[serde(default)]
    pub overlap: Overlap,
    /// Jobs run up to so many milliseconds after their slot, each its own while.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jitter_ms: i64,
    /// Nothing fires before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// Nothing fires from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
}

fn utc() -> String {
    "UTC".into()
}

fn missed_default() -> u32 {
    MISSED_DEFAULT
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

impl Schedule {
    /// A schedule with everything else as usual.
    pub fn new(timing: Timing, job: Facts) -> Self {
        Self {
            timing,
            timezone: utc(),
            job,
            payload: None,
            missed: Missed::default(),
            missed_max: MISSED_DEFAULT,
            overlap: Overlap::default(),
            jitter_ms: 0,
            starts_at: None,
            ends_at: None,
        }
    }

    /// Accepts a schedule that can be read and fires again after `now`.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        if let Timing::Every(ms) = self.timing {
            limits::within("every", ms, EVERY_MIN_MS, HORIZON_MS)?;
        }
        limits::within("jitter", self.jitter_ms, 0, HORIZON_MS)?;
        limits::within("missed_max", self.missed_max.into(), 1, MISSED_MAX)?;
        if self.job.unique.is_some() {
            let why = "jobs of a schedule are unique by their slot already; leave it out";
            return Err(Invalid::new("job.unique", "given", why));
        }
        if self.job.run_at != RunAt::Now {
            let why = "jobs of a schedule run at their slot; leave it out, or give `jitter`";
            return Err(Invalid::new("job.run_at", "given", why));
        }
        if self.job.graph.is_some() {
            return Err(Invalid::new("job.after", "given", "a job of a schedule waits for no other"));
        }
        if self.job.parent_id.is_some() {
            return Err(Invalid::new("job.parent_id", "given", "a job of a schedule has no parent"));
        }
        self.job.check(now)?;
        self.payload()?;
        for (field, at) in [("starts_at", self.starts_at), ("ends_at", self.ends_at)] {
            at.map_or(Ok(now), |at| at.near(field, now))?;
        }
        let anchor = self.starts_at.unwrap_or(now);
        if self.slots(anchor)?.after(now).is_none() {
            let (field, text) = match &self.timing {
                Timing::Cron(text) => ("cron", text.clone()),
                Timing::Every(ms) => ("every", format!("{ms}ms")),
            };
            return Err(Invalid::new(
                field,
                text,
                "never fires again; say when it is to, or remove the schedule",
            ));
        }
        Ok(())
    }

    fn payload(&self) -> Result<Option<Payload>, Invalid> {
        let read = |value| Payload::from_value("payload", value, limits::PAYLOAD_MAX_BYTES);
        self.payload.as_ref().map(read).transpose()
    }

    /// Its slots. An interval counts from the start, or else from `made_at`.
    pub fn slots(&self, made_at: Timestamp) -> Result<Slots, Invalid> {
        let ticks = match &self.timing {
            Timing::Every(ms) => Ticks::Every { ms: (*ms).max(1), from: self.starts_at.unwrap_or(made_at) },
            Timing::Cron(text) => {
                limits::count("cron", text.len(), TEXT_MAX_BYTES)?;
                Ticks::Cron(Cron::parse(text)?, zone(&self.timezone)?)
            }
        };
        Ok(Slots { ticks, starts_at: self.starts_at, ends_at: self.ends_at })
    }

    /// The job of one slot.
    pub fn job_of(&self, name: &Name, slot: Timestamp, id: JobId) -> Result<NewJob, Invalid> {
        let mut facts = self.job.clone();
        facts.metadata.extend(Self::named(name, Some(slot)));
        facts.unique = Some(Unique::slot(name.clone(), slot)?);
        facts.run_at = RunAt::At(slot.plus_ms(self.jitter(name, slot)));
        Ok(NewJob { id, facts, payload: self.payload()?, parent_token: None })
    }

    /// The same job outside of every slot: somebody wants it now.
    pub fn job_now(&self, name: &Name, id: JobId) -> Result<NewJob, Invalid> {
        let mut facts = self.job.clone();
        facts.metadata.extend(Self::named(name, None));
        Ok(NewJob { id, facts, payload: self.payload()?, parent_token: None })
    }

    /// How a job names its schedule and its slot.
    fn named(name: &Name, slot: Option<Timestamp>) -> Metadata {
        let slot = slot.map(|slot| ("slot".to_owned(), slot.to_string().into()));
        Metadata::from_iter([("schedule".to_owned(), name.to_string().into())].into_iter().chain(slot))
    }

    /// How much later than its slot a job runs: the same whoever computes it.
    fn jitter(&self, name: &Name, slot: Timestamp) -> i64 {
        if self.jitter_ms == 0 {
            return 0;
        }
        let drawn = Sha256::new().chain_update(name.as_str()).chain_update(slot.as_micros().to_be_bytes());
        let drawn = drawn.finalize().iter().take(8).fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
        (drawn % self.jitter_ms.unsigned_abs()) as i64
    }
}

fn zone(name: &str) -> Result<TimeZone, Invalid> {
    let why = "must be the name of a time zone, like UTC, Europe/Berlin or America/New_York";
    TimeZone::get(name).map_err(|_| Invalid::new("timezone", name, why))
}

/// The moments at which a schedule fires.
#[derive(Debug, Clone)]
pub struct Slots {
    ticks: Ticks,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
enum Ticks {
    Cron(Cron, TimeZone),
    Every { ms: i64, from: Timestamp },
}

impl Slots {
    /// The first slot after `after`.
    pub fn after(&self, after: Timestamp) -> Option<Timestamp> {
        // The start itself may be a slot.
        let start = self.starts_at.map(|at| Timestamp::from_micros(at.as_micros().saturating_sub(1)));
        let after = start.map_or(after, |start| start.max(after));
        let next = match &self.ticks {
            Ticks::Cron(cron, zone) => {
                let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?;
                cron.next(after, zone)?.into()
            }
            Ticks::Every { ms, from } => {
                let (step, past) =
                    (ms.saturating_mul(1_000), after.as_micros().saturating_sub(from.as_micros()));
                let n = if past < 0 { 0 } else { past / step + 1 };
                Timestamp::from_micros(from.as_micros().checked_add(step.checked_mul(n)?)?)
            }
        };
        Some(next).filter(|next| self.ends_at.is_none_or(|end| *next < end))
    }

    /// Every slot from `from` until before `to`; refused if there are more than [`BACKFILL_MAX`].
    pub fn between(&self, from: Timestamp, to: Timestamp) -> Result<Vec<Timestamp>, Invalid> {
        let mut found = Vec::new();
        let mut at = Timestamp::from_micros(from.as_micros().saturating_sub(1));
        while let Some(next) = self.after(at).filter(|next| *next < to) {
            if found.len() == BACKFILL_MAX {
                let limit =
                    format!("at most {BACKFILL_MAX} slots at once; end with {next} and go on from there");
                return Err(Invalid::new("to", to, limit));
            }
            found.push(next);
            at = next;
        }
        Ok(found)
    }

    /// The newest `max` slots from `from` to `to`, both included, oldest first.
    pub fn newest(&self, from: Timestamp, to: Timestamp, max: usize) -> Vec<Timestamp> {
        // Looks back in growing steps, so that years of slots cost no more than the last of them.
        let mut back = 1_000_000_i64;
        loop {
            let since = Timestamp::from_micros(to.as_micros().saturating_sub(back)).max(from);
            let mut found = std::collections::VecDeque::new();
            let mut at = Timestamp::from_micros(since.as_micros().saturating_sub(1));
            while let Some(next) = self.after(at).filter(|next| *next <= to) {
                found.push_back(next);
                if found.len() > max {
                    found.pop_front();
                }
                at = next;
            }
            if found.len() >= max || since == from {
                return found.into();
            }
            back = back.saturating_mul(16);
        }
    }
}

/// A schedule as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleState {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub schedule: Schedule,
    /// Grows with every change by a person.
    pub version: i64,
    /// When it was paused and by whom.
    pub paused: Option<(Timestamp, Actor)>,
    /// The slot that comes next; none while it is paused, and when there is no more.
    pub next_at: Option<Timestamp>,
    /// The slot that was fired last.
    pub last_slot: Option<Timestamp>,
    /// Its job.
    pub last_job: Option<JobId>,
    /// Why it does not fire although it is not paused: it can no longer be read.
    pub broken: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a person changed it last.
    pub updated_at: Timestamp,
}

impl ScheduleState {
    /// Stands for a row that does not read back, and says why. It fires nothing.
    pub fn unreadable(name: Name, why: impl std::fmt::Display) -> Self {
        let epoch = Timestamp::from_micros(0);
        let job = Facts::new(Name::unreadable(), Name::unreadable());
        Self {
            name,
            schedule: Schedule::new(Timing::Every(HORIZON_MS), job),
            version: 0,
            paused: None,
            next_at: None,
            last_slot: None,
            last_job: None,
            broken: Some(format!(
                "what is stored does not read back: {why}; put the schedule again, or remove it"
            )),
            created_at: epoch,
            updated_at: epoch,
        }
    }

    /// Whether its row does not read back. Every one that does has a version above 0.
    pub fn is_unreadable(&self) -> bool {
        self.version == 0
    }

    /// The schedule once its jobs are made: the last one is the one that has the slot, whoever made it.
    #[must_use]
    pub fn after(self, made: &[Enqueued]) -> Self {
        Self { last_job: made.last().map(|job| job.id).or(self.last_job), ..self }
    }
}

/// A schedule to make or to change.
#[derive(Debug, Clone)]
pub struct PutSchedule {
    /// Which.
    pub name: Name,
    /// What it is to be.
    pub schedule: Schedule,
    /// The version it must be at; 0 for one that must not be there.
    pub expected_version: Option<i64>,
    /// Who.
    pub actor: Actor,
}

/// What a request about a schedule writes.
pub type Changed = Option<(ScheduleState, WriteAudit)>;

impl PutSchedule {
    /// The schedule after this; none if it is so already. What comes next stays, unless the times are others.
    pub fn decide(&self, before: Option<&ScheduleState>, now: Timestamp) -> Result<Changed, Refusal> {
        let version = before.map_or(0, |state| state.version);
        if self.expected_version.is_some_and(|expected| expected != version) {
            return Err(Refusal::VersionMismatch(version));
        }
        self.schedule.check(now)?;
        if before.is_some_and(|state| state.schedule == self.schedule) {
            return Ok(None);
        }
        // What cannot be read is made anew.
        let before = before.filter(|state| !state.is_unreadable());
        let created_at = before.map_or(now, |state| state.created_at);
        let when = |s: &Schedule| (s.timing.clone(), s.timezone.clone(), s.starts_at, s.ends_at);
        let paused = before.and_then(|state| state.paused.clone());
        let next_at = match before {
            Some(state) if when(&state.schedule) == when(&self.schedule) => state.next_at,
            _ if paused.is_some() => None,
            _ => self.schedule.slots(created_at)?.after(now),
        };
        let json = |schedule: &Schedule| serde_json::to_value(schedule).unwrap_or_default();
        let detail = Metadata::from_iter([
            ("before".to_owned(), before.map_or(serde_json::Value::Null, |state| json(&state.schedule))),
            ("after".to_owned(), json(&self.schedule)),
        ]);
        let audit = WriteAudit::of(self.actor.clone(), "schedule.put", &self.name, detail);
        let state = ScheduleState {
            name: self.name.clone(),
            schedule: self.schedule.clone(),
            version: version + 1,
            paused,
            next_at,
            last_slot: before.and_then(|state| state.last_slot),
            last_job: before.and_then(|state| state.last_job),
            broken: None,
            created_at,
            updated_at: now,
        };
        Ok(Some((state, audit)))
    }
}

/// A schedule to pause or resume.
#[derive(Debug, Clone)]
pub struct PauseSchedule {
    /// Which.
    pub name: Name,
    /// Whether to pause; else resume.
    pub pause: bool,
    /// Who.
    pub actor: Actor,
}

impl PauseSchedule {
    /// The schedule paused or resumed; none if it is. What passed while it was paused was not missed.
    pub fn decide(&self, before: Option<&ScheduleState>, now: Timestamp) -> Result<Changed, Refusal> {
        let Some(state) = before else { return Err(Refusal::ScheduleNotFound(self.name.to_string())) };
        if let Some(why) = state.broken.as_ref().filter(|_| state.is_unreadable()) {
            return Err(Invalid::new("schedule", &self.name, why.clone()).into());
        }
        if state.paused.is_some() == self.pause {
            return Ok(None);
        }
        let next_at = if self.pause { None } else { state.schedule.slots(state.created_at)?.after(now) };
        let action = if self.pause { "schedule.pause" } else { "schedule.resume" };
        let audit = WriteAudit::of(self.actor.clone(), action, &self.name, Metadata::new());
        let paused = self.pause.then(|| (now, self.actor.clone()));
        let version = state.version + 1;
        Ok(Some((ScheduleState { paused, next_at, version, updated_at: now, ..state.clone() }, audit)))
    }
}

/// A schedule to remove. Its jobs stay.
#[derive(Debug, Clone)]
pub struct RemoveSchedule {
    /// Which.
    pub name: Name,
    /// Who.
    pub actor: Actor,
}

impl RemoveSchedule {
    /// What goes to the audit.
    pub fn decide(&self, before: Option<&ScheduleState>) -> Result<WriteAudit, Refusal> {
        let Some(state) = before else { return Err(Refusal::ScheduleNotFound(self.name.to_string())) };
        let readable = Some(&state.schedule).filter(|_| !state.is_unreadable());
        let was = serde_json::to_value(readable).unwrap_or_default();
        let detail = Metadata::from_iter([("before".to_owned(), was)]);
        Ok(WriteAudit::of(self.actor.clone(), "schedule.remove", &self.name, detail))
    }
}
