//! Access keys: how they are made, and how a request's key is found again without asking the store each time.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::AccessKey;
use windlass_core::lease::hex;
use windlass_store::{Store, StoreResult, fresh};

/// How long an answer about a key is trusted: another server's revocation takes effect within it.
const TRUSTED: Duration = Duration::from_secs(2);
/// How long it is trusted that there are no keys at all.
const TRUSTED_OPEN: Duration = Duration::from_secs(1);
/// The most answers that are kept.
const MOST: usize = 4_096;
/// What keys begin with, so that people and scanners of secrets know one when they see it.
const PREFIX: &str = "wl_";

/// A fresh access key: 256 random bits, to be shown once. The store gets only [`KeyText::hash`].
///
/// ```
/// let key = windlass_http::KeyText::fresh();
/// assert!(key.as_str().starts_with("wl_"));
/// assert_eq!(format!("{key:?}"), "KeyText(…)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    /// A fresh one.
    pub fn fresh() -> Self {
        Self(format!("{PREFIX}{}", hex(&fresh::random::<32>())))
    }

    /// The text that its owner keeps.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the store keeps: SHA-256 of the text.
    pub fn hash(&self) -> [u8; 32] {
        hash(&self.0)
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(…)")
    }
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// An answer about a key, and when it was given.
type Answered = (Instant, Option<Arc<AccessKey>>);

/// Where keys are looked up.
pub(crate) struct Gate {
    store: Arc<dyn Store>,
    /// Whether a key was ever made. Keys are revoked but never removed, so it never goes back.
    is_keyed: AtomicBool,
    /// When there was none last.
    open_at: Mutex<Option<Instant>>,
    /// An async lock: one asks whether there is a key, the others wait for the answer.
    asking: tokio::sync::Mutex<()>,
    /// A blocking lock: it is held for a look or an insertion.
    answers: Mutex<HashMap<[u8; 32], Answered>>,
}

impl Gate {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            is_keyed: AtomicBool::new(false),
            open_at: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            answers: Mutex::default(),
        }
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<[u8; 32], Answered>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a key was ever made, valid or not: then nobody gets in without one.
    pub(crate) async fn is_keyed(&self) -> StoreResult<bool> {
        if let Some(known) = self.known_keyed() {
            return Ok(known);
        }
        let _turn = self.asking.lock().await;
        if let Some(known) = self.known_keyed() {
            return Ok(known);
        }
        let asked_at = Instant::now();
        let is_keyed = !self.store.access_keys((), None).await?.is_empty();
        if is_keyed {
            self.is_keyed.store(true, Ordering::Release);
        } else {
            *self.open_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked_at);
        }
        Ok(is_keyed)
    }

    /// Whether a key was ever made, as far as is known without asking the store.
    pub(crate) fn known_keyed(&self) -> Option<bool> {
        if self.is_keyed.load(Ordering::Acquire) {
            return Some(true);
        }
        let open_at = *self.open_at.lock().unwrap_or_else(PoisonError::into_inner);
        open_at.is_some_and(|at| at.elapsed() < TRUSTED_OPEN).then_some(false)
    }

    /// The key of this text, valid or not.
    pub(crate) async fn find(&self, text: &str) -> StoreResult<Option<Arc<AccessKey>>> {
        self.find_hash(hash(text)).await
    }

    /// The key of this hash, valid or not.
    pub(crate) async fn find_hash(&self, hash: [u8; 32]) -> StoreResult<Option<Arc<AccessKey>>> {
        if let Some((at, key)) = self.answers().get(&hash)
            && at.elapsed() < TRUSTED
        {
            return Ok(key.clone());
        }
        self.ask(hash).await
    }

    /// Whether this text was a key at the last look, valid or not.
    pub(crate) fn was_known(&self, text: &str) -> bool {
        self.answers().get(&hash(text)).is_some_and(|(_, key)| key.is_some())
    }

    /// The key of this hash as the store knows it now.
    pub(crate) async fn ask(&self, hash: [u8; 32]) -> StoreResult<Option<Arc<AccessKey>>> {
        let asked_at = Instant::now();
        let key = self.store.access_key(hash, None).await?.map(Arc::new);
        let mut answers = self.answers();
        if answers.len() >= MOST {
            answers.retain(|_, (at, _)| at.elapsed() < TRUSTED);
            // Many wrong keys within seconds: known ones are asked for again, which is all it costs.
            if answers.len() >= MOST {
                answers.clear();
            }
        }
        answers.insert(hash, (asked_at, key.clone()));
        Ok(key)
    }

    /// Forgets what was answered: keys have changed.
    pub(crate) fn forget(&self) {
        self.answers().clear();
        *self.open_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_and_shown_nowhere() {
        let key = KeyText::fresh();
        assert_eq!(key.as_str().len(), 3 + 64);
        assert_ne!(key, KeyText::fresh());
        assert!(!format!("{key:?}").contains(&key.as_str()[3..]));
    }
}
