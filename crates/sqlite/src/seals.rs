//! Seals over the log, and what there is to check them by.

use crate::db::{Db, Tx, array, sql};
use crate::error::{Failure, Tried};
use rusqlite::Row;
use sha2::{Digest, Sha256};
use windlass_core::seal::StoredEvent;
use windlass_core::{Event, JobId, Life, Timestamp};
use windlass_store::{Advance, EventHash, EventKey, LogSeal, ReadSeals, Removal};

/// The most seals of one answer.
const SEALS_MAX: usize = 100;

fn seal(r: &Row<'_>) -> Tried<LogSeal> {
    let life = Life { store: r.get::<_, i64>(2)?.cast_unsigned(), incarnation: r.get(3)? };
    let at = Timestamp::from_micros(r.get(1)?);
    Ok(LogSeal { number: r.get(0)?, at, life, body: r.get(4)?, hash: r.get(5)? })
}

fn removal(r: &Row<'_>) -> Tried<Removal> {
    let (job, at) = (JobId::from_bytes(r.get(0)?), Timestamp::from_micros(r.get(2)?));
    Ok(Removal { job, version: r.get(1)?, at })
}

/// The hash of an event, from what is stored and nothing else.
fn hash(r: &Row<'_>, (job, version): EventKey) -> Tried<EventHash> {
    let text = |column: usize| {
        let text = r.get_ref(column)?.as_str_or_null();
        text.map_err(|e| Failure::Unreadable(format!("version {version} of job {job}: {e}")))
    };
    let bytes = |column: usize| {
        let bytes = r.get_ref(column)?.as_bytes_or_null();
        bytes.map_err(|e| Failure::Unreadable(format!("version {version} of job {job}: {e}")))
    };
    let is_json: Option<bool> = r.get(9)?;
    let stored = StoredEvent {
        job,
        version,
        at: Timestamp::from_micros(r.get(0)?),
        attempt: r.get(1)?,
        generation: r.get(2)?,
        type_name: text(3)?.unwrap_or_default(),
        actor: text(4)?.unwrap_or_default(),
        lease: bytes(5)?,
        key: text(6)?,
        detail: text(7)?,
        payload: bytes(8)?.map(|payload| (Sha256::digest(payload).into(), is_json.unwrap_or_default())),
    };
    Ok(stored.hash())
}

impl Db<'_> {
    pub(crate) fn seals(&self, request: ReadSeals) -> Tried<Vec<LogSeal>> {
        let limit = request.limit.clamp(1, SEALS_MAX) as i64;
        self.all(sql!("seals"), (request.after, limit), seal)
    }

    pub(crate) fn last_seal(&self) -> Tried<Option<LogSeal>> {
        self.one(sql!("last_seal"), (), seal)
    }

    pub(crate) fn event_hashes(&self, keys: &[EventKey]) -> Tried<Vec<Option<EventHash>>> {
        let of = |key: &EventKey| self.one(sql!("event_hash"), (key.0.as_bytes(), key.1), |r| hash(r, *key));
        keys.iter().map(of).collect()
    }

    /// The hashes of events that were read in this transaction.
    pub(crate) fn stored_hashes(&self, log: &[Event]) -> Tried<Vec<EventHash>> {
        let keys: Vec<EventKey> = log.iter().map(|event| (event.job, event.version)).collect();
        let hashes = self.event_hashes(&keys)?.into_iter().collect::<Option<Vec<_>>>();
        hashes.ok_or_else(|| Failure::Unreadable("an event is gone that was just read".into()))
    }

    pub(crate) fn removals(&self, jobs: &[JobId]) -> Tried<Vec<Removal>> {
        self.all(sql!("removals"), [array(jobs.iter().map(|job| job.as_bytes().to_vec()))], removal)
    }
}

impl Tx<'_, '_> {
    /// Seals what a reader brings with its move, behind the last seal.
    pub(crate) fn put_seal(&self, request: &Advance, now: Timestamp) -> Tried<()> {
        if request.findings.sealed.is_empty() {
            return Ok(());
        }
        let last = self.last_seal()?.map(|last| last.head());
        let Some(seal) = request.seal(last.as_ref(), now) else { return Ok(()) };
        let (store, incarnation) = (seal.life.store.cast_signed(), seal.life.incarnation);
        let row = (seal.number, seal.at.as_micros(), store, incarnation, seal.body, seal.hash);
        self.execute(sql!("put_seal"), row).map(|_| ())
    }
}
