//! Between rows and values: the only place that knows the order of columns.

use crate::error::{Failure, Tried};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, private::BytesMut, to_sql_checked};
use uuid::Uuid;
use windlass_core::unique::Policy;
use windlass_core::wait::ApprovalStatus;
use windlass_core::{
    Actor, Approval, ApprovalId, Event, EventKind, Job, JobId, Key, Lane, LeaseHash, LeaseMs, Name, Payload,
    Status, Timestamp, WaitFor, Who, Worker,
};

/// Microseconds from 1970, where we count from, to 2000, where PostgreSQL does.
const EPOCH: i64 = 946_684_800_000_000;
/// The first moment that PostgreSQL knows, in its own count.
const EARLIEST: i64 = -211_813_488_000_000_000;

/// A moment as PostgreSQL has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ts(pub(crate) Timestamp);

impl<'a> FromSql<'a> for Ts {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        let micros = i64::from_sql(&Type::INT8, raw).map_err(|e| format!("{ty}: {e}"))?;
        Ok(Self(Timestamp::from_micros(micros.saturating_add(EPOCH))))
    }
    accepts!(TIMESTAMPTZ);
}

impl ToSql for Ts {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let micros = self.0.as_micros().saturating_sub(EPOCH);
        // PostgreSQL knows no moment before 4714 BC but "before everything", which it writes as the least number.
        let micros = if micros < EARLIEST { i64::MIN } else { micros };
        micros.to_sql(&Type::INT8, out)
    }
    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

/// Reads columns one after the other.
pub(crate) struct Columns<'r> {
    row: &'r Row,
    next: usize,
    /// The first column that was read and holds what nobody may have written there.
    wrong: Option<String>,
}

impl<'r> Columns<'r> {
    pub(crate) fn new(row: &'r Row, next: usize) -> Self {
        Self { row, next, wrong: None }
    }

    /// Leaves out columns that only statements read.
    pub(crate) fn pass(&mut self, columns: usize) -> &mut Self {
        self.next += columns;
        self
    }

    pub(crate) fn get<T: FromSql<'r>>(&mut self) -> Tried<T> {
        self.next += 1;
        Ok(self.row.try_get(self.next - 1)?)
    }

    pub(crate) fn text<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Tried<T> {
        self.opt_text(read)?.ok_or_else(|| Failure::Unreadable(format!("column {} is null", self.next - 1)))
    }

    pub(crate) fn opt_text<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Tried<Option<T>> {
        let Some(text) = self.get::<Option<&str>>()? else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| Failure::Unreadable(format!("column {}: {text:?}", self.next - 1)))
    }

    /// Puts something in the place of what does not read, and remembers that.
    fn or<T>(&mut self, end: Tried<T>, instead: impl FnOnce() -> T) -> Tried<T> {
        match end {
            Err(Failure::Unreadable(why)) => {
                self.wrong.get_or_insert(why);
                Ok(instead())
            }
            end => end,
        }
    }

    /// As [`Columns::text`], with something in the place of what does not read.
    pub(crate) fn text_or<T>(
        &mut self,
        read: impl FnOnce(&str) -> Option<T>,
        instead: impl FnOnce() -> T,
    ) -> Tried<T> {
        let text = self.text(read);
        self.or(text, instead)
    }

    /// As [`Columns::opt_text`], without what does not read.
    fn readable<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Tried<Option<T>> {
        let text = self.opt_text(read);
        self.or(text, || None)
    }

    /// As [`Columns::bytes`], without what does not read.
    fn readable_bytes<const N: usize>(&mut self) -> Tried<Option<[u8; N]>> {
        let bytes = self.bytes();
        self.or(bytes, || None)
    }

    pub(crate) fn time(&mut self) -> Tried<Timestamp> {
        Ok(self.get::<Ts>()?.0)
    }

    pub(crate) fn opt_time(&mut self) -> Tried<Option<Timestamp>> {
        Ok(self.get::<Option<Ts>>()?.map(|t| t.0))
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> Tried<Option<[u8; N]>> {
        let Some(bytes) = self.get::<Option<&[u8]>>()? else { return Ok(None) };
        let wrong = |_| Failure::Unreadable(format!("column {}: {} bytes", self.next - 1, bytes.len()));
        bytes.try_into().map(Some).map_err(wrong)
    }

    /// Bytes that are always there.
    pub(crate) fn hash<const N: usize>(&mut self) -> Tried<[u8; N]> {
        self.bytes()?.ok_or_else(|| Failure::Unreadable(format!("column {} is null", self.next - 1)))
    }

    pub(crate) fn job_id(&mut self) -> Tried<JobId> {
        Ok(JobId::from_bytes(self.get::<Uuid>()?.into_bytes()))
    }
}

pub(crate) fn name(text: &str) -> Option<Name> {
    Name::try_from(text).ok()
}

pub(crate) fn who(text: &str) -> Option<Who> {
    Who::try_from(text).ok()
}

/// A row of `jobs`, its columns in the order of the table from the first column on.
pub(crate) fn job(row: &Row) -> Tried<Job> {
    match readable_job(row)? {
        (job, None) => Ok(job),
        (job, Some(why)) => Err(Failure::Corrupt { job: job.id, why: format!("its row: {why}") }),
    }
}

/// The same, also where a column does not read: what could be read, and what could not.
pub(crate) fn readable_job(row: &Row) -> Tried<(Job, Option<String>)> {
    let mut c = Columns::new(row, 0);
    let mut job = Job {
        id: c.job_id()?,
        created_at: c.time()?,
        grace_ms: c.get()?,
        priority: c.get::<i16>()?.into(),
        max_retries: c.get()?,
        queue: c.text_or(name, Name::unreadable)?,
        kind: c.text_or(name, Name::unreadable)?,
        parent_id: c.get::<Option<Uuid>>()?.map(|u| JobId::from_bytes(u.into_bytes())),
        unique_policy: c.readable(Policy::from_text)?,
        timeout_ms: c.get()?,
        lease_ms: c.get::<Option<i64>>()?.and_then(|ms| LeaseMs::new(ms).ok()),
        backoff: c.readable(|t| serde_json::from_str(t).ok())?,
        meta_version: c.get()?,
        lane: c.get::<Option<i64>>()?.map(Lane::from_number),
        retries: c.get()?,
        crashes: c.get()?,
        generation: c.get()?,
        signals: c.get()?,
        children: c.get()?,
        dependents: c.get::<Option<i32>>()?.unwrap_or_default(),
        steps_from: c.get()?,
        stage: c.get()?,
        epoch: c.get()?,
        assignment: c.get()?,
        waiting_for: c.readable(WaitFor::parse)?,
        wait_name: c.readable(name)?,
        wait_version: c.get()?,
        wake_version: c.get()?,
        cancel_requested_at: c.opt_time()?,
        error_version: c.get()?,
        error_code: c.readable(who)?,
        checkpoint_version: c.get()?,
        payload_version: c.get()?,
        deadline_at: c.opt_time()?,
        status: c.pass(4).text_or(Status::parse, || Status::Orphaned)?,
        version: c.get()?,
        attempt: c.get()?,
        progress: c.get()?,
        due_at: c.opt_time()?,
        lease_expires_at: c.opt_time()?,
        lease_hash: c.readable_bytes()?.map(LeaseHash),
        updated_at: c.time()?,
        finished_at: c.opt_time()?,
        result_version: c.get()?,
        started_at: c.opt_time()?,
        worker_id: c.pass(1).readable(who)?,
    };
    // The column keeps who held it last.
    job.worker_id = job.worker_id.filter(|_| matches!(job.status, Status::Running | Status::Assigned));
    Ok((job, c.wrong))
}

/// A row of `job_events` from column `first` on; its place in the feed is that column.
pub(crate) fn event(row: &Row, first: usize) -> Tried<Event> {
    let event = readable_event(row, first)?;
    match event.what {
        EventKind::Unreadable(stored) => {
            Err(Failure::Corrupt { job: event.job, why: format!("version {}: {stored}", event.version) })
        }
        _ => Ok(event),
    }
}

/// The same, also where it does not read back: then as [`EventKind::Unreadable`].
pub(crate) fn readable_event(row: &Row, first: usize) -> Tried<Event> {
    let mut c = Columns::new(row, first + 1);
    let job = c.job_id()?;
    let version = c.get()?;
    let at = c.time()?;
    let type_name: &str = c.get()?;
    let actor = c.text_or(|t| Actor::try_from(t).ok(), Actor::engine)?;
    let attempt = c.get()?;
    let generation = c.get()?;
    let lease = c.readable_bytes()?.map(LeaseHash);
    let key = c.opt_text(|t| Some(Key::stored(t)))?;
    let detail: Option<&str> = c.get()?;
    let is_json: Option<bool> = c.get()?;
    let payload: Option<Vec<u8>> = c.get()?;
    let what = match (EventKind::read(type_name, detail), c.wrong) {
        (Ok(what), None) => what,
        (Err(unreadable), _) => EventKind::Unreadable(Box::new(unreadable)),
        (Ok(_), Some(why)) => EventKind::unreadable(type_name, detail, why),
    };
    let payload = payload.map(|bytes| Payload::stored(bytes, is_json.unwrap_or(false)));
    Ok(Event { job, version, at, actor, attempt, generation, lease, key, what, payload })
}

/// A row of `approvals`.
pub(crate) fn approval(row: &Row) -> Tried<Approval> {
    let mut c = Columns::new(row, 0);
    let lost = || Failure::Unreadable("an approval without a token hash".into());
    Ok(Approval {
        id: ApprovalId::from_bytes(c.get::<Uuid>()?.into_bytes()),
        job: c.job_id()?,
        name: c.text(name)?,
        status: c.text(ApprovalStatus::parse)?,
        required: c.get()?,
        approved: c.get()?,
        expires_at: c.time()?,
        token_hash: c.bytes()?.ok_or_else(lost)?,
        token_used: c.get()?,
        asked_version: c.get()?,
        asked_at: c.time()?,
        decided_at: c.opt_time()?,
    })
}

/// A row of `workers`.
pub(crate) fn worker(row: &Row) -> Tried<Worker> {
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
