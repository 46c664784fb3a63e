//! What a connection can read, and what a transaction can write.

use crate::error::{Failure, Tried};
use crate::row;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, Statement};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use windlass_core::decide::Move;
use windlass_core::end::Ending;
use windlass_core::{
    Event, EventKind, Facts, Job, JobId, Key, Life, Metadata, Name, Payload, Refusal, Status, Timestamp,
    Version,
};
use windlass_store::Clock;

/// The text of a statement: one file each, named like what uses it.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// The statements of the hot path, compiled once and kept: looking one up costs as much as a read.
struct Hot<'c> {
    job: RefCell<Statement<'c>>,
    event: RefCell<Statement<'c>>,
    append_event: RefCell<Statement<'c>>,
    create_job: RefCell<Statement<'c>>,
    move_job: RefCell<Statement<'c>>,
}

/// Ids, or other bytes, as one parameter of a statement that works on many rows.
pub(crate) fn array(values: impl IntoIterator<Item = Vec<u8>>) -> Rc<Vec<Value>> {
    Rc::new(values.into_iter().map(Value::Blob).collect())
}

/// Reading.
pub(crate) struct Db<'c> {
    conn: &'c Connection,
    hot: Option<Hot<'c>>,
    /// What time it is for verbs that are not given one.
    clock: Clock,
    /// Whether it writes to a store that is closed.
    mover: bool,
}

impl<'c> Db<'c> {
    /// For a read or two.
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self { conn, hot: None, clock: Clock::default(), mover: false }
    }

    /// For a thread that does nothing else.
    pub(crate) fn hot(conn: &'c Connection, mover: bool) -> rusqlite::Result<Self> {
        let prepare = |sql: &str| conn.prepare(sql).map(RefCell::new);
        let hot = Hot {
            job: prepare(sql!("job"))?,
            event: prepare(sql!("event"))?,
            append_event: prepare(sql!("append_event"))?,
            create_job: prepare(sql!("create_job"))?,
            move_job: prepare(sql!("move_job"))?,
        };
        Ok(Self { conn, hot: Some(hot), clock: Clock::default(), mover })
    }

    /// Runs a statement that is kept compiled, or one from the cache where none is.
    fn kept<T>(
        &self,
        kept: impl for<'h> FnOnce(&'h Hot<'c>) -> &'h RefCell<Statement<'c>>,
        sql: &str,
        run: impl FnOnce(&mut Statement<'c>) -> Tried<T>,
    ) -> Tried<T> {
        match &self.hot {
            Some(hot) => run(&mut kept(hot).borrow_mut()),
            None => run(&mut *self.statement(sql)?),
        }
    }

    pub(crate) fn statement(&self, sql: &str) -> Tried<CachedStatement<'c>> {
        Ok(self.conn.prepare_cached(sql)?)
    }

    /// At most one row.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Tried<T>,
    ) -> Tried<Option<T>> {
        let mut statement = self.statement(sql)?;
        statement.query_row(params, |row| Ok(read(row))).optional()?.transpose()
    }

    /// All rows of a statement that limits itself.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Tried<T>,
    ) -> Tried<Vec<T>> {
        let mut statement = self.statement(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    /// The row of a job.
    pub(crate) fn job(&self, id: JobId) -> Tried<Option<Job>> {
        self.kept(
            |hot| &hot.job,
            sql!("job"),
            |s| s.query_row([id.as_bytes()], |row| Ok(row::job(row))).optional()?.transpose(),
        )
    }

    /// One entry of a job's log.
    pub(crate) fn event(&self, job: JobId, version: Version) -> Tried<Option<Event>> {
        self.kept(
            |hot| &hot.event,
            sql!("event"),
            |s| s.query_row((job.as_bytes(), version), |row| Ok(row::event(row))).optional()?.transpose(),
        )
    }

    /// The entry that carries a caller's key.
    pub(crate) fn event_by_key(&self, job: JobId, key: &Key) -> Tried<Option<Event>> {
        self.one(sql!("event_by_key"), (job.as_bytes(), key.as_str()), row::event)
    }

    /// The version at which a request with this key was carried out; refused if the key stands for another.
    pub(crate) fn already(
        &self,
        job: JobId,
        key: Option<&Key>,
        type_name: &str,
        signal: Option<&Name>,
    ) -> Tried<Result<Option<Version>, Refusal>> {
        let known = key.map_or(Ok(None), |key| self.event_by_key(job, key))?;
        Ok(known.map(|event| event.repeated_by(type_name, signal)).transpose())
    }

    /// What of the log says who waits for a job, and which children it has.
    pub(crate) fn graph_events(&self, job: JobId) -> Tried<Vec<Event>> {
        self.all(sql!("graph_events"), [job.as_bytes()], row::event)
    }

    /// What of a job's log says where it stands in a graph.
    pub(crate) fn graph_log(&self, job: JobId) -> Tried<Vec<Event>> {
        self.all(sql!("graph_log"), [job.as_bytes()], row::event)
    }

    /// What of the log a resumed run is given, after a version.
    pub(crate) fn remembered(&self, job: JobId, after: Version) -> Tried<Vec<Event>> {
        self.all(sql!("remembered"), (job.as_bytes(), after), row::event)
    }

    /// How many steps and tools of a job are on record as ended.
    pub(crate) fn count_steps(&self, job: &Job) -> Tried<i64> {
        let counted =
            self.one(sql!("count_steps"), (job.id.as_bytes(), job.steps_from), |r| Ok(r.get(0)?))?;
        Ok(counted.unwrap_or_default())
    }

    /// The whole log of a job up to a version.
    pub(crate) fn log(&self, job: JobId, to: Version) -> Tried<Vec<Event>> {
        self.all(sql!("events"), (job.as_bytes(), 0, to.max(0)), row::event)
    }

    /// The facts and the payload of a job; none when its first event is gone.
    pub(crate) fn created(&self, job: JobId) -> Tried<Option<(Facts, Option<Payload>)>> {
        Ok(self.event(job, 1)?.and_then(|e| match e.what {
            EventKind::JobCreated(facts) => Some((*facts, e.payload)),
            _ => None,
        }))
    }

    /// The payload of a job as it stands, given that of its first event.
    pub(crate) fn payload_now(&self, job: &Job, first: Option<Payload>) -> Tried<Option<Payload>> {
        Ok(match self.pointed(job.id, job.payload_version)? {
            Some(redriven) => redriven.payload,
            None => first,
        })
    }

    /// The payload of the event that a pointer of the row points at.
    pub(crate) fn pointed(&self, job: JobId, version: Option<Version>) -> Tried<Option<Event>> {
        version.map_or(Ok(None), |v| self.event(job, v))
    }

    /// The metadata of a job as it stands.
    pub(crate) fn metadata(&self, job: &Job) -> Tried<Metadata> {
        Ok(match self.pointed(job.id, job.meta_version)?.map(|e| e.what) {
            Some(EventKind::JobCreated(facts)) => facts.metadata,
            Some(EventKind::JobProgressed(p)) => p.metadata.unwrap_or_default(),
            _ => Metadata::new(),
        })
    }
}

/// Writing: one transaction of the writer thread, shared by the verbs of one group.
pub(crate) struct Tx<'w, 'c> {
    db: &'w Db<'c>,
    life: Life,
    /// The last number of the feed.
    seq: Cell<i64>,
    /// Whether numbers after the last entry were handed out and purged: then entries must be numbered one by one.
    gap: Cell<bool>,
    /// The last moment written: time never goes back.
    last_at: Cell<i64>,
    /// What is to be hinted at after the commit: events, due jobs.
    wrote: Cell<bool>,
    due: Cell<bool>,
}

impl<'c> Deref for Tx<'_, 'c> {
    type Target = Db<'c>;
    fn deref(&self) -> &Db<'c> {
        self.db
    }
}

impl<'w, 'c> Tx<'w, 'c> {
    /// Inside a transaction that has begun.
    pub(crate) fn new(db: &'w Db<'c>) -> Tried<Self> {
        let head = db.head()?;
        if let Some(why) = head.closed.filter(|_| !db.mover) {
            return Err(Failure::Closed(why));
        }
        let no = || Cell::new(false);
        let (seq, last_at, gap) = (Cell::new(head.seq), Cell::new(head.last_at), Cell::new(head.gap));
        Ok(Self { db, life: head.life, seq, gap, last_at, wrote: no(), due: no() })
    }

    /// The moment of a verb.
    pub(crate) fn now(&self, given: Option<Timestamp>) -> Timestamp {
        let last = Timestamp::from_micros(self.last_at.get());
        given.map_or_else(|| self.clock.now(last), |now| now.max(last))
    }

    /// Whether something was written, and whether a job became due.
    pub(crate) fn hints(&self) -> (bool, bool) {
        (self.wrote.get(), self.due.get())
    }

    /// Which store this is, and which of its lives.
    pub(crate) fn life(&self) -> Life {
        self.life
    }

    /// The last number of the feed.
    pub(crate) fn last_seq(&self) -> i64 {
        self.seq.get()
    }

    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Tried<usize> {
        Ok(self.statement(sql)?.execute(params)?)
    }

    /// Whether a statement may append many entries and let SQLite number them.
    pub(crate) fn numbers_itself(&self) -> bool {
        !self.gap.get()
    }

    /// Says that a statement appended so many entries.
    pub(crate) fn appended(&self, entries: usize, at: Timestamp) {
        self.seq.set(self.seq.get() + entries as i64);
        self.gap.set(false);
        self.last_at.set(self.last_at.get().max(at.as_micros()));
        self.wrote.set(true);
    }

    /// Executes a statement as a stranger's connection would: the guard's triggers act.
    pub(crate) fn guarded(&self, sql: &str, params: impl Params) -> Tried<usize> {
        self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
        let done = self.execute(sql, params);
        self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        done
    }

    /// Says that something was logged without this transaction numbering it: the next number is read anew.
    pub(crate) fn logged_otherwise(&self) -> Tried<()> {
        let head = self.head()?;
        self.seq.set(head.seq);
        self.gap.set(head.gap);
        self.last_at.set(self.last_at.get().max(head.last_at));
        self.wrote.set(true);
        Ok(())
    }

    /// Appends to the log.
    pub(crate) fn append_event(&self, event: &Event) -> Tried<()> {
        self.appended(1, event.at);
        let write = |s: &mut Statement<'c>| row::append_event(s, self.seq.get(), event);
        self.kept(|hot| &hot.append_event, sql!("append_event"), write)?;
        Ok(())
    }

    /// A new job: its row beside its first event.
    pub(crate) fn create_job(&self, job: &Job, now: Timestamp) -> Tried<()> {
        self.kept(|hot| &hot.create_job, sql!("create_job"), |s| row::create_job(s, job))?;
        self.hint_due(job, now);
        Ok(())
    }

    /// A new job that stands where its log has brought it.
    pub(crate) fn insert_job(&self, job: &Job, now: Timestamp) -> Tried<()> {
        row::insert_job(&mut *self.statement(sql!("insert_job"))?, job)?;
        self.hint_due(job, now);
        Ok(())
    }

    /// The one way a job changes: row and event together, and what its end entails.
    pub(crate) fn write(&self, before: &Job, step: &Move) -> Tried<()> {
        let ended = self.write_row(before, step)?;
        self.follow_ends(ended.into_iter().collect(), step.event.at)
    }

    /// The row and its event; what its end entails is the caller's to follow.
    pub(crate) fn write_row(&self, before: &Job, step: &Move) -> Tried<Option<Ending>> {
        let now = step.event.at;
        self.append_event(&step.event)?;
        let moved = self.kept(|hot| &hot.move_job, sql!("move_job"), |s| row::move_job(s, &step.job))?;
        if moved != 1 {
            return Err(Failure::Unreadable(format!(
                "job {} is not at version {}",
                before.id, before.version
            )));
        }
        self.hint_due(&step.job, now);
        Ok(Ending::of(before, &step.job))
    }

    /// Says that jobs may have become claimable without an event.
    pub(crate) fn hint(&self) {
        self.wrote.set(true);
        self.due.set(true);
    }

    /// Sets whether a job is left that became due, when what did was taken.
    pub(crate) fn set_due(&self, due: bool) {
        self.due.set(due);
    }

    pub(crate) fn hint_due(&self, job: &Job, now: Timestamp) {
        // An assigned job waits for its worker, which looks as for a due one.
        if job.status == Status::Assigned || job.status != Status::Running && job.is_due(now) {
            self.due.set(true);
        }
    }
}
