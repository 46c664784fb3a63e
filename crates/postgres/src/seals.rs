//! Seals over the log, and what there is to check them by.

use crate::db::{Db, Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{Columns, Ts};
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::seal::StoredEvent;
use windlass_core::{Event, JobId, Life, Timestamp};
use windlass_store::{Advance, EventHash, EventKey, LogSeal, Now, ReadSeals, Removal};

/// The most seals of one answer.
const SEALS_MAX: usize = 100;

fn seal(row: &Row) -> Tried<LogSeal> {
    let mut c = Columns::new(row, 0);
    let (number, at) = (c.get()?, c.time()?);
    let store = c.get::<i64>()?.cast_unsigned();
    let life = Life { store, incarnation: c.get::<i32>()?.cast_unsigned() };
    Ok(LogSeal { number, at, life, body: c.get()?, hash: c.hash()? })
}

fn removal(row: &Row) -> Tried<Removal> {
    let mut c = Columns::new(row, 0);
    Ok(Removal { job: c.job_id()?, version: c.get()?, at: c.time()? })
}

/// The hash of an event, from what is stored and nothing else; none if it is not there.
fn hash(row: &Row) -> Tried<Option<EventHash>> {
    let mut c = Columns::new(row, 0);
    let Some(job) = c.get::<Option<Uuid>>()? else { return Ok(None) };
    let mut stored = StoredEvent {
        job: JobId::from_bytes(job.into_bytes()),
        version: c.get()?,
        at: c.time()?,
        attempt: c.get()?,
        generation: c.get()?,
        type_name: c.get()?,
        actor: c.get()?,
        lease: c.get()?,
        key: c.get()?,
        detail: c.get()?,
        payload: None,
    };
    let payload: Option<[u8; 32]> = c.bytes()?;
    let is_json = c.get::<Option<bool>>()?.unwrap_or_default();
    stored.payload = payload.map(|hash| (hash, is_json));
    Ok(Some(stored.hash()))
}

impl Db<'_> {
    pub(crate) async fn seals(&self, request: &ReadSeals, _: Now) -> Tried<Vec<LogSeal>> {
        let limit = request.limit.clamp(1, SEALS_MAX) as i64;
        self.all(sql!("seals"), params![request.after, limit], seal).await
    }

    pub(crate) async fn last_seal(&self, (): &(), _: Now) -> Tried<Option<LogSeal>> {
        self.one(sql!("last_seal"), params![], seal).await
    }

    pub(crate) async fn event_hashes(&self, keys: &[EventKey], _: Now) -> Tried<Vec<Option<EventHash>>> {
        let jobs: Vec<Uuid> = keys.iter().map(|(job, _)| uuid(*job)).collect();
        let versions: Vec<i64> = keys.iter().map(|(_, version)| *version).collect();
        self.all(sql!("event_hashes"), params![jobs, versions], hash).await
    }

    /// The hashes of events that were read in this transaction.
    pub(crate) async fn stored_hashes(&self, log: &[Event]) -> Tried<Vec<EventHash>> {
        let keys: Vec<_> = log.iter().map(|event| (event.job, event.version)).collect();
        let hashes = self.event_hashes(&keys, None).await?.into_iter().collect::<Option<Vec<_>>>();
        hashes.ok_or_else(|| Failure::Unreadable("an event is gone that was just read".into()))
    }

    pub(crate) async fn removals(&self, jobs: &[JobId], _: Now) -> Tried<Vec<Removal>> {
        let jobs: Vec<Uuid> = jobs.iter().map(|job| uuid(*job)).collect();
        self.all(sql!("removals"), params![jobs], removal).await
    }
}

impl Tx<'_> {
    /// Seals what a reader brings with its move, behind the last seal. The reader's place is locked: nobody else does.
    pub(crate) async fn put_seal(&self, request: &Advance, now: Timestamp) -> Tried<()> {
        if request.findings.sealed.is_empty() {
            return Ok(());
        }
        let last = self.last_seal(&(), None).await?.map(|last| last.head());
        let Some(seal) = request.seal(last.as_ref(), now) else { return Ok(()) };
        let (store, incarnation) = (seal.life.store.cast_signed(), seal.life.incarnation.cast_signed());
        let (body, hash) = (seal.body.as_slice(), seal.hash.as_slice());
        let (number, at) = (seal.number, Ts(seal.at));
        self.execute(sql!("put_seal"), params![number, at, store, incarnation, body, hash]).await
    }
}
