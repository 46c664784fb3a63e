//! Between rows and values: the only place that knows the order of columns.

use crate::error::{Failure, Tried};
use rusqlite::types::{FromSql, ToSql, Value};
use rusqlite::{Row, Statement};
use std::rc::Rc;
use windlass_core::unique::Policy;
use windlass_core::wait::ApprovalStatus;
use windlass_core::{
    Actor, Approval, ApprovalId, Event, EventKind, Job, JobId, Key, Lane, LeaseHash, LeaseMs, Name, Payload,
    Status, Timestamp, WaitFor, Who, Worker,
};

/// Reads columns one after the other.
struct Columns<'r, 's> {
    row: &'r Row<'s>,
    next: usize,
    /// The first column that was read and holds what nobody may have written there.
    wrong: Option<String>,
}

impl<'r, 's> Columns<'r, 's> {
    fn new(row: &'r Row<'s>, next: usize) -> Self {
        Self { row, next, wrong: None }
    }

    fn get<T: FromSql>(&mut self) -> Tried<T> {
        self.next += 1;
        Ok(self.row.get(self.next - 1)?)
    }

    fn text<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Tried<T> {
        self.opt_text(read)?.ok_or_else(|| Failure::Unreadable(format!("column {} is null", self.next - 1)))
    }

    fn opt_text<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Tried<Option<T>> {
        self.next += 1;
        let value = self.row.get_ref(self.next - 1)?;
        let Some(text) = value.as_str_or_null().map_err(|e| Failure::Unreadable(e.to_string()))? else {
            return Ok(None);
        };
        read(text).map(Some).ok_or_else(|| Failure::Unreadable(format!("column {}: {text:?}", self.next - 1)))
    }

    /// Puts something in the place of what does not read, and remembers that.
    fn or<T>(&mut self, end: Tried<T>, instead: impl FnOnce() -> T) -> Tried<T> {
        match end {
            Err(Failure::Unreadable(why)) => {
                self.wrong.get_or_insert(why);
                Ok(instead())
            }
            Err(Failure::Sql(error @ rusqlite::Error::FromSqlConversionFailure(..)))
            | Err(Failure::Sql(error @ rusqlite::Error::InvalidColumnType(..))) => {
                self.wrong.get_or_insert(error.to_string());
                Ok(instead())
            }
            end => end,
        }
    }

    fn text_or<T>(&mut self, read: impl FnOnce(&str) -> Option<T>, instead: impl FnOnce() -> T) -> Tried<T> {
        let text = self.text(read);
        self.or(text, instead)
    }

    /// As [`Columns::opt_text`], without what does not read.
    fn readable<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Tried<Option<T>> {
        let text = self.opt_text(read);
        self.or(text, || None)
    }

    /// A column that may be absent, without what does not read.
    fn readable_value<T: FromSql>(&mut self) -> Tried<Option<T>> {
        let value = self.get();
        self.or(value, || None)
    }

    fn time(&mut self) -> Tried<Timestamp> {
        Ok(Timestamp::from_micros(self.get()?))
    }

    fn opt_time(&mut self) -> Tried<Option<Timestamp>> {
        Ok(self.get::<Option<i64>>()?.map(Timestamp::from_micros))
    }

    fn opt_job(&mut self) -> Tried<Option<JobId>> {
        Ok(self.get::<Option<[u8; 16]>>()?.map(JobId::from_bytes))
    }
}

fn name(text: &str) -> Option<Name> {
    Name::try_from(text).ok()
}

fn who(text: &str) -> Option<Who> {
    Who::try_from(text).ok()
}

/// A status that stands alone in its row.
pub(crate) fn status(row: &Row<'_>) -> Tried<Status> {
    Columns::new(row, 0).text(Status::parse)
}

/// How many columns `jobs` has.
const COLUMNS: usize = 46;

/// A row of `jobs`.
pub(crate) fn job(row: &Row<'_>) -> Tried<Job> {
    match readable_job(row)? {
        (job, None) => Ok(job),
        (job, Some(why)) => Err(Failure::Corrupt { job: job.id, why: format!("its row: {why}") }),
    }
}

/// A row of `jobs`, and what of it does not read back.
pub(crate) type Readable = (Job, Option<String>);

/// The same, also where a column does not read: what could be read, and what could not.
pub(crate) fn readable_job(row: &Row<'_>) -> Tried<Readable> {
    let mut c = Columns::new(row, 0);
    let job = Job {
        id: JobId::from_bytes(c.get()?),
        queue: c.text_or(name, Name::unreadable)?,
        kind: c.text_or(name, Name::unreadable)?,
        priority: c.get()?,
        status: c.text_or(Status::parse, || Status::Orphaned)?,
        due_at: c.opt_time()?,
        deadline_at: c.opt_time()?,
        worker_id: c.readable(who)?,
        lease_hash: c.readable_value::<[u8; 16]>()?.map(LeaseHash),
        lease_expires_at: c.opt_time()?,
        epoch: c.get()?,
        assignment: c.get()?,
        attempt: c.get()?,
        retries: c.get()?,
        max_retries: c.get()?,
        crashes: c.get()?,
        version: c.get()?,
        generation: c.get()?,
        progress: c.get()?,
        stage: c.get()?,
        waiting_for: c.readable(WaitFor::parse)?,
        wait_name: c.readable(name)?,
        wait_version: c.get()?,
        wake_version: c.get()?,
        signals: c.get()?,
        children: c.get()?,
        parent_id: c.opt_job()?,
        cancel_requested_at: c.opt_time()?,
        steps_from: c.get()?,
        unique_policy: c.readable(Policy::from_text)?,
        timeout_ms: c.get()?,
        lease_ms: c.get::<Option<i64>>()?.and_then(|ms| LeaseMs::new(ms).ok()),
        grace_ms: c.get()?,
        backoff: c.readable(|t| serde_json::from_str(t).ok())?,
        result_version: c.get()?,
        error_version: c.get()?,
        error_code: c.readable(who)?,
        checkpoint_version: c.get()?,
        payload_version: c.get()?,
        meta_version: c.get()?,
        created_at: c.time()?,
        started_at: c.opt_time()?,
        updated_at: c.time()?,
        finished_at: c.opt_time()?,
        lane: c.get::<Option<i64>>()?.map(Lane::from_number),
        dependents: c.get::<Option<i32>>()?.unwrap_or_default(),
    };
    Ok((job, c.wrong))
}

/// A row of `jobs` with its rowid behind it.
pub(crate) fn placed_job(row: &Row<'_>) -> Tried<(i64, Readable)> {
    Ok((row.get(COLUMNS)?, readable_job(row)?))
}

/// Binds values one after the other.
pub(crate) struct Binder<'a, 'c> {
    statement: &'a mut Statement<'c>,
    next: usize,
}

impl<'a, 'c> Binder<'a, 'c> {
    pub(crate) fn new(statement: &'a mut Statement<'c>) -> Self {
        Self { statement, next: 0 }
    }

    pub(crate) fn put(&mut self, value: impl ToSql) -> Tried<()> {
        self.next += 1;
        Ok(self.statement.raw_bind_parameter(self.next, value)?)
    }

    fn time(&mut self, value: Option<Timestamp>) -> Tried<()> {
        self.put(value.map(Timestamp::as_micros))
    }

    pub(crate) fn execute(self) -> Tried<usize> {
        Ok(self.statement.raw_execute()?)
    }
}

/// What is known of a job that was just created, in the order of `create_job.sql`.
pub(crate) fn create_job(statement: &mut Statement<'_>, job: &Job) -> Tried<usize> {
    created(statement, job.id.as_bytes(), job)
}

/// The same of jobs with these ids that are else like one another, in the order of `create_jobs.sql`.
pub(crate) fn create_jobs(statement: &mut Statement<'_>, ids: Rc<Vec<Value>>, like: &Job) -> Tried<usize> {
    created(statement, ids, like)
}

fn created(statement: &mut Statement<'_>, id: impl ToSql, job: &Job) -> Tried<usize> {
    let mut b = Binder::new(statement);
    b.put(id)?;
    b.put(job.queue.as_str())?;
    b.put(job.kind.as_str())?;
    b.put(job.priority)?;
    b.time(job.due_at)?;
    b.put(job.max_retries)?;
    b.put(job.parent_id.as_ref().map(JobId::as_bytes))?;
    b.put(job.unique_policy.map(Policy::to_text))?;
    b.put(job.timeout_ms)?;
    b.put(job.lease_ms.map(LeaseMs::get))?;
    b.put(job.grace_ms)?;
    b.put(job.backoff.map(|v| serde_json::to_string(&v)).transpose()?)?;
    b.put(job.meta_version)?;
    b.time(Some(job.created_at))?;
    b.put(job.lane.map(Lane::number))?;
    b.execute()
}

/// Every column of `jobs`, for an insert.
pub(crate) fn insert_job(statement: &mut Statement<'_>, job: &Job) -> Tried<usize> {
    let mut b = Binder::new(statement);
    b.put(job.id.as_bytes())?;
    b.put(job.queue.as_str())?;
    b.put(job.kind.as_str())?;
    b.put(job.priority)?;
    b.put(job.status.as_str())?;
    b.time(job.due_at)?;
    b.time(job.deadline_at)?;
    b.put(job.worker_id.as_ref().map(Who::as_str))?;
    b.put(job.lease_hash.map(|h| h.0))?;
    b.time(job.lease_expires_at)?;
    b.put(job.epoch)?;
    b.put(job.assignment)?;
    b.put(job.attempt)?;
    b.put(job.retries)?;
    b.put(job.max_retries)?;
    b.put(job.crashes)?;
    b.put(job.version)?;
    b.put(job.generation)?;
    b.put(job.progress)?;
    b.put(job.stage.as_deref())?;
    b.put(job.waiting_for.map(WaitFor::as_str))?;
    b.put(job.wait_name.as_ref().map(Name::as_str))?;
    b.put(job.wait_version)?;
    b.put(job.wake_version)?;
    b.put(job.signals)?;
    b.put(job.children)?;
    b.put(job.parent_id.as_ref().map(JobId::as_bytes))?;
    b.time(job.cancel_requested_at)?;
    b.put(job.steps_from)?;
    b.put(job.unique_policy.map(Policy::to_text))?;
    b.put(job.timeout_ms)?;
    b.put(job.lease_ms.map(LeaseMs::get))?;
    b.put(job.grace_ms)?;
    b.put(job.backoff.map(|v| serde_json::to_string(&v)).transpose()?)?;
    b.put(job.result_version)?;
    b.put(job.error_version)?;
    b.put(job.error_code.as_ref().map(Who::as_str))?;
    b.put(job.checkpoint_version)?;
    b.put(job.payload_version)?;
    b.put(job.meta_version)?;
    b.time(Some(job.created_at))?;
    b.time(job.started_at)?;
    b.time(Some(job.updated_at))?;
    b.time(job.finished_at)?;
    b.put(job.lane.map(Lane::number))?;
    b.put((job.dependents > 0).then_some(job.dependents))?;
    b.execute()
}

/// Everything that can change about a job, in the order of `move_job.sql`.
pub(crate) fn move_job(statement: &mut Statement<'_>, job: &Job) -> Tried<usize> {
    let mut b = Binder::new(statement);
    b.put(job.id.as_bytes())?;
    b.put(job.status.as_str())?;
    b.time(job.due_at)?;
    b.time(job.deadline_at)?;
    b.put(job.worker_id.as_ref().map(Who::as_str))?;
    b.put(job.lease_hash.map(|h| h.0))?;
    b.time(job.lease_expires_at)?;
    b.put(job.epoch)?;
    b.put(job.assignment)?;
    b.put(job.attempt)?;
    b.put(job.retries)?;
    b.put(job.crashes)?;
    b.put(job.version)?;
    b.put(job.generation)?;
    b.put(job.progress)?;
    b.put(job.stage.as_deref())?;
    b.put(job.waiting_for.map(WaitFor::as_str))?;
    b.put(job.wait_name.as_ref().map(Name::as_str))?;
    b.put(job.wait_version)?;
    b.put(job.wake_version)?;
    b.put(job.signals)?;
    b.put(job.children)?;
    b.time(job.cancel_requested_at)?;
    b.put(job.steps_from)?;
    b.put(job.result_version)?;
    b.put(job.error_version)?;
    b.put(job.error_code.as_ref().map(Who::as_str))?;
    b.put(job.checkpoint_version)?;
    b.put(job.payload_version)?;
    b.put(job.meta_version)?;
    b.time(job.started_at)?;
    b.time(Some(job.updated_at))?;
    b.time(job.finished_at)?;
    b.put((job.dependents > 0).then_some(job.dependents))?;
    b.execute()
}

/// A row of `job_events`; its place in the feed is the first column.
pub(crate) fn event(row: &Row<'_>) -> Tried<Event> {
    let event = readable_event(row)?;
    match event.what {
        EventKind::Unreadable(stored) => {
            Err(Failure::Corrupt { job: event.job, why: format!("version {}: {stored}", event.version) })
        }
        _ => Ok(event),
    }
}

/// The same, also where it does not read back: then as [`EventKind::Unreadable`].
pub(crate) fn readable_event(row: &Row<'_>) -> Tried<Event> {
    let mut c = Columns::new(row, 1);
    let job = JobId::from_bytes(c.get()?);
    let version = c.get()?;
    let at = c.time()?;
    let type_name: String = c.get()?;
    let actor = c.text_or(|t| Actor::try_from(t).ok(), Actor::engine)?;
    let attempt = c.get()?;
    let generation = c.get()?;
    let lease = c.readable_value::<[u8; 16]>()?.map(LeaseHash);
    let key = c.readable(|t| Some(Key::stored(t)))?;
    let detail: Option<String> = c.readable_value()?;
    let is_json: Option<bool> = c.get()?;
    let payload: Option<Vec<u8>> = c.get()?;
    let what = match (EventKind::read(&type_name, detail.as_deref()), c.wrong) {
        (Ok(what), None) => what,
        (Err(unreadable), _) => EventKind::Unreadable(Box::new(unreadable)),
        (Ok(_), Some(why)) => EventKind::unreadable(&type_name, detail.as_deref(), why),
    };
    let payload = payload.map(|bytes| Payload::stored(bytes, is_json.unwrap_or(false)));
    Ok(Event { job, version, at, actor, attempt, generation, lease, key, what, payload })
}

/// An event for the log, in the order of `append_event.sql`.
pub(crate) fn append_event(statement: &mut Statement<'_>, seq: i64, event: &Event) -> Tried<usize> {
    let facts = match &event.what {
        EventKind::JobCreated(facts) => Some(facts),
        _ => None,
    };
    let mut b = Binder::new(statement);
    b.put(seq)?;
    b.put(event.job.as_bytes())?;
    b.put(event.version)?;
    b.put(event.at.as_micros())?;
    b.put(event.what.type_name())?;
    b.put(event.actor.as_str())?;
    b.put(event.attempt)?;
    b.put(event.generation)?;
    b.put(event.lease.map(|l| l.0))?;
    b.put(event.key.as_ref().map(Key::as_str))?;
    b.put(event.what.detail())?;
    b.put(event.payload.as_ref().map(Payload::is_json))?;
    b.put(event.payload.as_ref().map(Payload::as_bytes))?;
    b.put(facts.map(|f| f.kind.as_str()))?;
    b.put(facts.and_then(|f| f.agent_id.as_ref()).map(Who::as_str))?;
    b.put(facts.and_then(|f| f.parent_id.as_ref()).map(JobId::as_bytes))?;
    b.execute()
}

/// A row of `approvals`.
pub(crate) fn approval(row: &Row<'_>) -> Tried<Approval> {
    let mut c = Columns::new(row, 0);
    Ok(Approval {
        id: ApprovalId::from_bytes(c.get()?),
        job: JobId::from_bytes(c.get()?),
        name: c.text(name)?,
        status: c.text(ApprovalStatus::parse)?,
        required: c.get()?,
        approved: c.get()?,
        expires_at: c.time()?,
        token_hash: c.get()?,
        token_used: c.get()?,
        asked_version: c.get()?,
        asked_at: c.time()?,
        decided_at: c.opt_time()?,
    })
}

/// A row of `workers`.
pub(crate) fn worker(row: &Row<'_>) -> Tried<Worker> {
    let mut c = Columns::new(row, 0);
    Ok(Worker {
        id: c.text(who)?,
        queues: c.text(|t| serde_json::from_str(t).ok())?,
        kinds: c.text(|t| serde_json::from_str(t).ok())?,
        capacity: c.get()?,
        labels: c.text(|t| serde_json::from_str(t).ok())?,
        draining: c.get()?,
        started_at: c.time()?,
        seen_at: c.time()?,
        expires_at: c.time()?,
        slots: c.text(|t| serde_json::from_str(t).ok())?,
    })
}
