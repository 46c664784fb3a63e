//! What a connection can read, and what a transaction can write.

use crate::cached_plans;
use crate::error::{Failure, Tried};
use crate::param::{Params, params};
use crate::row::{self, Ts};
use crate::statements::Texts;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::{Client, Row};
use uuid::Uuid;
use windlass_core::decide::Move;
use windlass_core::end::Ending;
use windlass_core::{
    Event, EventKind, Facts, Job, JobId, Key, Life, Metadata, Name, Payload, Refusal, Status, Timestamp,
    Version, Who,
};
use windlass_store::Now;

/// The text of a statement: one file each, named like what uses it.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// A future that may be sent to another thread.
pub(crate) type Boxed<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// A job's id as PostgreSQL has it.
pub(crate) fn uuid(id: JobId) -> Uuid {
    *id.as_uuid()
}

/// Reading.
pub(crate) struct Db<'c> {
    client: &'c Client,
    texts: &'c Texts,
    /// How long the server may take to answer a statement.
    limit: Duration,
}

impl<'c> Db<'c> {
    pub(crate) fn new(client: &'c Client, texts: &'c Texts, limit: Duration) -> Self {
        Self { client, texts, limit }
    }

    /// What the server answers, unless it takes too long. Then the connection must not be used again.
    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Tried<T> {
        match timeout(self.limit, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::Silent(self.limit)),
        }
    }

    /// Sends statements that answer nothing.
    pub(crate) async fn send(&self, text: &str) -> Tried<()> {
        self.in_time(self.client.batch_execute(text)).await
    }

    /// Says that the store was seen in this incarnation.
    pub(crate) fn note_incarnation(&self, incarnation: u32) {
        self.texts.note_incarnation(incarnation);
    }

    /// The fence of an attempt that is handed out now.
    pub(crate) fn fence(&self, attempt: i32) -> i64 {
        Life { store: 0, incarnation: self.texts.incarnation() }.fence(attempt)
    }

    /// All rows of a statement that limits itself, in one round trip and without anything prepared.
    pub(crate) async fn rows(&self, sql: &'static str, params: &Params<'_>) -> Tried<Vec<Row>> {
        let text = self.texts.of(sql);
        self.in_time(self.client.query_typed(&text, params)).await
    }

    /// The same, inside a transaction, for a statement whose plan the server keeps.
    pub(crate) async fn rows_kept(&self, sql: &'static str, params: &Params<'_>) -> Tried<Vec<Row>> {
        if let Some(call) = self.texts.kept(sql) {
            return self.in_time(self.client.query_typed(&call, params)).await;
        }
        let text = self.texts.of(sql);
        let (pinned, rows) = tokio::join!(
            biased;
            self.send(cached_plans::PINNED),
            self.in_time(self.client.query_typed(&text, params))
        );
        pinned?;
        rows
    }

    /// All rows, read.
    pub(crate) async fn all<T>(
        &self,
        sql: &'static str,
        params: &Params<'_>,
        read: impl Fn(&Row) -> Tried<T> + Send,
    ) -> Tried<Vec<T>> {
        self.rows(sql, params).await?.iter().map(read).collect()
    }

    /// All rows of a list, read along an index whatever statistics say. Inside a transaction, which then plans so to its end.
    pub(crate) async fn listed<T>(
        &self,
        sql: &'static str,
        params: &Params<'_>,
        read: impl Fn(&Row) -> Tried<T> + Send,
    ) -> Tried<Vec<T>> {
        let (pinned, rows) = tokio::join!(biased; self.send(cached_plans::PINNED), self.rows(sql, params));
        pinned?;
        rows?.iter().map(read).collect()
    }

    /// At most one row.
    pub(crate) async fn one<T>(
        &self,
        sql: &'static str,
        params: &Params<'_>,
        read: impl Fn(&Row) -> Tried<T> + Send,
    ) -> Tried<Option<T>> {
        self.rows(sql, params).await?.first().map(read).transpose()
    }

    /// The row of a job, not locked.
    pub(crate) async fn job(&self, id: JobId) -> Tried<Option<Job>> {
        self.one(sql!("job"), params![uuid(id)], row::job).await
    }

    /// One entry of a job's log.
    pub(crate) async fn event(&self, job: JobId, version: Version) -> Tried<Option<Event>> {
        self.one(sql!("event"), params![uuid(job), version], |r| row::event(r, 0)).await
    }

    /// The entry that carries a caller's key.
    pub(crate) async fn event_by_key(&self, job: JobId, key: &Key) -> Tried<Option<Event>> {
        self.one(sql!("event_by_key"), params![uuid(job), key.as_str()], |r| row::event(r, 0)).await
    }

    /// The version at which a request with this key was carried out; refused if the key stands for another.
    pub(crate) async fn already(
        &self,
        job: JobId,
        key: Option<&Key>,
        type_name: &str,
        signal: Option<&Name>,
    ) -> Tried<Result<Option<Version>, Refusal>> {
        let Some(key) = key else { return Ok(Ok(None)) };
        let known = self.event_by_key(job, key).await?;
        Ok(known.map(|event| event.repeated_by(type_name, signal)).transpose())
    }

    /// What of the log says who waits for a job, and which children it has.
    pub(crate) async fn graph_events(&self, job: JobId) -> Tried<Vec<Event>> {
        self.all(sql!("graph_events"), params![uuid(job)], |r| row::event(r, 0)).await
    }

    /// What of the logs of jobs says where they stand in a graph.
    pub(crate) async fn graph_logs(&self, jobs: Vec<Uuid>) -> Tried<Vec<Event>> {
        self.all(sql!("graph_logs"), params![jobs], |r| row::event(r, 0)).await
    }

    /// What of the log a resumed run is given, after a version.
    pub(crate) async fn remembered(&self, job: JobId, after: Version) -> Tried<Vec<Event>> {
        self.all(sql!("remembered"), params![uuid(job), after], |r| row::event(r, 0)).await
    }

    /// How many steps and tools of a job are on record as ended.
    pub(crate) async fn count_steps(&self, job: &Job) -> Tried<i64> {
        let counted = self
            .one(sql!("count_steps"), params![uuid(job.id), job.steps_from], |r| Ok(r.try_get(0)?))
            .await?;
        Ok(counted.unwrap_or_default())
    }

    /// The whole log of a job up to a version.
    pub(crate) async fn log(&self, job: JobId, to: Version) -> Tried<Vec<Event>> {
        self.all(sql!("events"), params![uuid(job), 0i64, to.max(0)], |r| row::event(r, 0)).await
    }

    /// The same, with what does not read back as such.
    pub(crate) async fn readable_log(&self, job: JobId, to: Version) -> Tried<Vec<Event>> {
        self.all(sql!("events"), params![uuid(job), 0i64, to.max(0)], |r| row::readable_event(r, 0)).await
    }

    /// The facts and the payload of a job; none when its first event is gone.
    pub(crate) async fn created(&self, job: JobId) -> Tried<Option<(Facts, Option<Payload>)>> {
        Ok(self.event(job, 1).await?.and_then(|e| match e.what {
            EventKind::JobCreated(facts) => Some((*facts, e.payload)),
            _ => None,
        }))
    }

    /// The payload of a job as it stands, given that of its first event.
    pub(crate) async fn payload_now(&self, job: &Job, first: Option<Payload>) -> Tried<Option<Payload>> {
        Ok(match self.pointed(job.id, job.payload_version).await? {
            Some(redriven) => redriven.payload,
            None => first,
        })
    }

    /// The event that a pointer of the row points at.
    pub(crate) async fn pointed(&self, job: JobId, version: Option<Version>) -> Tried<Option<Event>> {
        match version {
            Some(version) => self.event(job, version).await,
            None => Ok(None),
        }
    }

    /// The metadata of a job as it stands.
    pub(crate) async fn metadata(&self, job: &Job) -> Tried<Metadata> {
        Ok(match self.pointed(job.id, job.meta_version).await?.map(|e| e.what) {
            Some(EventKind::JobCreated(facts)) => facts.metadata,
            Some(EventKind::JobProgressed(p)) => p.metadata.unwrap_or_default(),
            _ => Metadata::new(),
        })
    }

    /// The moment, by the database's clock unless a test brings its own.
    pub(crate) async fn clock(&self, given: Now) -> Tried<Timestamp> {
        if let Some(now) = given {
            return Ok(now);
        }
        let now = self.one(sql!("clock"), params![], |r| Ok(r.try_get::<_, Ts>(0)?.0)).await?;
        now.ok_or_else(|| Failure::Unreadable("the clock does not answer".into()))
    }
}

/// A locked row and its moment: whatever the clock says, time never runs backwards within a job.
fn held_at(job: Option<Job>, now: Timestamp) -> (Option<Job>, Timestamp) {
    let now = job.as_ref().map_or(now, |j| now.max(j.updated_at));
    (job, now)
}

/// What became of a lock that was not waited for.
pub(crate) enum Lock {
    /// The row, and the moment at which it was held.
    Ours(Box<Job>, Timestamp),
    /// Another transaction holds the job, or it was removed.
    HeldOrGone,
    /// Another transaction holds the job's parent.
    HeldParent(JobId),
}

/// Writing: one transaction.
pub(crate) struct Tx<'c> {
    db: Db<'c>,
    given: Now,
    /// What is to be hinted at after the commit: events, due jobs.
    wrote: AtomicBool,
    due: AtomicBool,
}

impl<'c> Deref for Tx<'c> {
    type Target = Db<'c>;
    fn deref(&self) -> &Db<'c> {
        &self.db
    }
}

impl<'c> Tx<'c> {
    /// Inside a transaction that has begun.
    pub(crate) fn new(db: Db<'c>, given: Now) -> Self {
        Self { db, given, wrote: AtomicBool::new(false), due: AtomicBool::new(false) }
    }

    /// Whether something was written, and whether a job became due.
    pub(crate) fn hints(&self) -> (bool, bool) {
        (self.wrote.load(Ordering::Relaxed), self.due.load(Ordering::Relaxed))
    }

    /// Says that events were written here.
    pub(crate) fn mark(&self, due: bool) {
        self.wrote.store(true, Ordering::Relaxed);
        self.due.fetch_or(due, Ordering::Relaxed);
    }

    /// Says that a job was moved here.
    pub(crate) fn mark_move(&self, job: &Job, now: Timestamp) {
        // An assigned job waits for its worker, which looks as for a due one.
        self.mark(job.status == Status::Assigned || job.status != Status::Running && job.is_due(now));
    }

    /// Says that what became due here was taken.
    pub(crate) fn nothing_due(&self) {
        self.due.store(false, Ordering::Relaxed);
    }

    /// The moment that a test brought.
    pub(crate) fn given(&self) -> Now {
        self.given
    }

    /// The moment of this verb. Ask after the locks are held, never before: waiting for one takes time.
    pub(crate) async fn now(&self) -> Tried<Timestamp> {
        self.clock(self.given).await
    }

    pub(crate) async fn execute(&self, sql: &'static str, params: &Params<'_>) -> Tried<()> {
        self.rows(sql, params).await.map(|_| ())
    }

    /// A place to go back to.
    pub(crate) async fn savepoint(&self) -> Tried<()> {
        self.execute(sql!("savepoint"), params![]).await
    }

    /// Undoes what was done since [`Tx::savepoint`].
    pub(crate) async fn back_to_savepoint(&self) -> Tried<()> {
        self.execute(sql!("back_to_savepoint"), params![]).await
    }

    /// Locks a job, its parent first, and tells the moment at which it was held. One round trip: the three
    /// statements go out together and run one after the other, so the clock is read after the wait.
    pub(crate) async fn lock(&self, id: JobId) -> Tried<(Option<Job>, Timestamp)> {
        let id = uuid(id);
        let (parent, job) = (params![id], params![id]);
        let (_, job, now) = tokio::try_join!(
            biased;
            self.rows(sql!("lock_parent"), parent),
            self.one(sql!("lock"), job, row::job),
            self.now()
        )?;
        Ok(held_at(job, now))
    }

    /// Locks a job without its parent, for what can never end it: the children of one parent stay out of each
    /// other's way.
    pub(crate) async fn lock_row(&self, id: JobId) -> Tried<(Option<Job>, Timestamp)> {
        let id = uuid(id);
        let row = params![id];
        let (job, now) = tokio::try_join!(biased; self.one(sql!("lock"), row, row::job), self.now())?;
        Ok(held_at(job, now))
    }

    /// Locks those of some jobs that no other transaction holds, without their parents.
    pub(crate) async fn lock_free(&self, ids: Vec<Uuid>) -> Tried<HashSet<Uuid>> {
        let free = self.all(sql!("lock_free"), params![ids], |r| Ok(r.try_get::<_, Uuid>(0)?)).await?;
        Ok(free.into_iter().collect())
    }

    /// The same, with their rows; a job that another transaction holds is refused, unknown ones are absent.
    pub(crate) async fn lock_free_rows(&self, ids: &[JobId]) -> Tried<HashMap<JobId, Result<Job, Refusal>>> {
        let uuids: Vec<Uuid> = ids.iter().copied().map(uuid).collect();
        let free = self.lock_free(uuids).await?;
        // A later statement, so it sees the rows as they were locked.
        let rows = self.jobs_of(ids.iter().copied()).await?;
        let answered = |(id, job): (JobId, Job)| {
            (id, if free.contains(&uuid(id)) { Ok(job) } else { Err(Refusal::Busy) })
        };
        Ok(rows.into_iter().map(answered).collect())
    }

    /// Locks a job, its parent first, unless another transaction holds one of them.
    pub(crate) async fn try_lock(&self, id: JobId) -> Tried<Lock> {
        let id = uuid(id);
        let (parent, job) = (params![id], params![id]);
        let (parents, job, now) = tokio::try_join!(
            biased;
            self.rows(sql!("try_lock_parent"), parent),
            self.one(sql!("try_lock"), job, row::job),
            self.now()
        )?;
        // A parent that is not ours is either held by somebody else or was removed.
        if let Some(parent) = job.as_ref().and_then(|j| j.parent_id)
            && parents.is_empty()
            && self.job(parent).await?.is_some()
        {
            return Ok(Lock::HeldParent(parent));
        }
        let (job, now) = held_at(job, now);
        Ok(job.map_or(Lock::HeldOrGone, |job| Lock::Ours(Box::new(job), now)))
    }

    /// Appends to the log.
    pub(crate) async fn append_event(&self, event: &Event) -> Tried<()> {
        self.mark(false);
        let facts = match &event.what {
            EventKind::JobCreated(facts) => Some(facts),
            _ => None,
        };
        let detail = event.what.detail();
        let tags = facts
            .filter(|f| !f.tags.is_empty())
            .map(|f| f.tags.iter().map(|t| t.as_str().to_owned()).collect::<Vec<String>>());
        let (kind, agent, parent) = (
            facts.map(|f| f.kind.as_str()),
            facts.and_then(|f| f.agent_id.as_ref()).map(Who::as_str),
            facts.and_then(|f| f.parent_id).map(uuid),
        );
        self.execute(
            sql!("append_event"),
            params![
                uuid(event.job),
                event.version,
                Ts(event.at),
                event.what.type_name(),
                event.actor.as_str(),
                event.attempt,
                event.generation,
                event.lease.as_ref().map(|l| l.0.as_slice()),
                event.key.as_ref().map(Key::as_str),
                detail.as_deref(),
                event.payload.as_ref().map(Payload::is_json),
                event.payload.as_ref().map(Payload::as_bytes),
                kind,
                agent,
                parent,
                tags.unwrap_or_default(),
            ],
        )
        .await
    }

    /// The one way a job changes: row and event together, and what its end entails.
    pub(crate) fn write<'a>(&'a self, before: &'a Job, step: &'a Move) -> Boxed<'a, Tried<()>> {
        self.write_claimed(before, step, None)
    }

    /// The same for a job that is handed out, by a claim of this number.
    pub(crate) fn write_claimed<'a>(
        &'a self,
        before: &'a Job,
        step: &'a Move,
        claim: Option<i64>,
    ) -> Boxed<'a, Tried<()>> {
        Box::pin(async move {
            let ended = self.write_row(before, step, claim).await?;
            self.follow_ends(ended.into_iter().collect(), step.event.at).await
        })
    }

    /// The row and its event; what its end entails is the caller's to follow.
    pub(crate) fn write_row<'a>(
        &'a self,
        before: &'a Job,
        step: &'a Move,
        claim: Option<i64>,
    ) -> Boxed<'a, Tried<Option<Ending>>> {
        Box::pin(async move {
            let (job, now) = (&step.job, step.event.at);
            if let (Some(claim), Status::Running) = (claim, job.status) {
                self.hold_job(job, claim).await?;
            }
            let append = self.append_event(&step.event);
            let (_, moved) = tokio::try_join!(biased; append, self.move_job(job, before.version, claim))?;
            if !moved {
                let message = format!("job {} is not at version {}", before.id, before.version);
                return Err(Failure::Unreadable(message));
            }
            self.mark_move(job, now);
            Ok(Ending::of(before, job))
        })
    }
}
