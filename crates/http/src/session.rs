//! Sessions of browsers. The cookie is a random id that means nothing elsewhere; the store keeps its hash, beside the hash
//! of the key that it stands for, among the answers that it remembers for 24 hours. So every server knows every session,
//! and a copy of the store opens none.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::lease::hex;
use windlass_core::{Key, Timestamp};
use windlass_store::{Idempotency, Remember, Store, StoreError, StoreResult, fresh};

/// How long a session lasts, in seconds (12 hours): shorter than the store remembers it.
pub(crate) const SECONDS: u32 = 43_200;
/// How long an answer about a session is trusted: a sign-out at another server takes effect within it.
const TRUSTED: Duration = Duration::from_secs(2);
/// The most answers that are kept.
const MOST: usize = 4_096;

/// SHA-256 of a session's id.
pub(crate) type SessionHash = [u8; 32];

/// The hash of the id that a cookie shows.
pub(crate) fn hash(id: &str) -> SessionHash {
    Sha256::digest(id.as_bytes()).into()
}

/// An answer about a session: the hash of its key, if it is on; and when that was asked.
type Answered = (Instant, Option<[u8; 32]>);

/// Where sessions are looked up.
pub(crate) struct Sessions {
    store: Arc<dyn Store>,
    /// A blocking lock: it is held for a look or an insertion.
    answers: Mutex<HashMap<SessionHash, Answered>>,
}

impl Sessions {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, answers: Mutex::default() }
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<SessionHash, Answered>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session of a key, and returns the id for the cookie.
    pub(crate) async fn begin(&self, key: [u8; 32]) -> StoreResult<String> {
        let id = hex(&fresh::random::<32>());
        let until = fresh::wall_clock().plus_ms(i64::from(SECONDS) * 1_000);
        let body = [key.as_slice(), &until.as_micros().to_be_bytes()].concat();
        self.write("begin", hash(&id), body).await?;
        Ok(id)
    }

    /// Whether this was a session at the last look.
    pub(crate) fn was_known(&self, session: SessionHash) -> bool {
        self.answers().get(&session).is_some_and(|(_, key)| key.is_some())
    }

    /// The hash of the key that a session stands for, if it is on.
    pub(crate) async fn find(&self, session: SessionHash) -> StoreResult<Option<[u8; 32]>> {
        if let Some((at, key)) = self.answers().get(&session)
            && at.elapsed() < TRUSTED
        {
            return Ok(*key);
        }
        self.ask(session).await
    }

    /// The same, as the store knows it now.
    pub(crate) async fn ask(&self, session: SessionHash) -> StoreResult<Option<[u8; 32]>> {
        let asked_at = Instant::now();
        let begun = self.read("begin", session).await?;
        let key = match begun.as_deref().and_then(parse) {
            Some((key, until)) if until > fresh::wall_clock() => {
                self.read("end", session).await?.is_none().then_some(key)
            }
            _ => None,
        };
        let mut answers = self.answers();
        if answers.len() >= MOST {
            answers.clear();
        }
        answers.insert(session, (asked_at, key));
        Ok(key)
    }

    /// Ends a session for good.
    pub(crate) async fn end(&self, session: SessionHash) -> StoreResult<()> {
        self.write("end", session, Vec::new()).await?;
        self.answers().remove(&session);
        Ok(())
    }

    async fn write(&self, what: &str, session: SessionHash, body: Vec<u8>) -> StoreResult<()> {
        let idempotency = record(what, session)?;
        self.store.remember(Remember { idempotency, body }, None).await.map(|_| ())
    }

    async fn read(&self, what: &str, session: SessionHash) -> StoreResult<Option<Vec<u8>>> {
        Ok(self.store.recall(record(what, session)?, None).await?.unwrap_or_default())
    }
}

/// Under which key the store remembers it. No caller's idempotency key looks like this: theirs are a hash after `http:`.
fn record(what: &str, session: SessionHash) -> StoreResult<Idempotency> {
    let key = Key::parse("key", format!("http:session:{what}:{}", hex(&session)));
    let key = key.map_err(|invalid| StoreError::Unavailable(invalid.to_string()))?;
    Ok(Idempotency { key, request_hash: [0; 32] })
}

/// The hash of the key, and until when.
fn parse(body: &[u8]) -> Option<([u8; 32], Timestamp)> {
    let (key, until) = body.split_at_checked(32)?;
    Some((key.try_into().ok()?, Timestamp::from_micros(i64::from_be_bytes(until.try_into().ok()?))))
}
