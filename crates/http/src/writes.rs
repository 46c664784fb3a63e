//! Whether the store takes writes. A disk that is full or read-only is still read, so reading alone would look like health.

use crate::problem::Problem;
use axum::http::Method;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use windlass_core::Key;
use windlass_core::lease::hex;
use windlass_store::{Idempotency, Remember, Store, StoreError, StoreResult, fresh};

/// How often a store that refused a write is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long a store has to take it.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is written then: as much as a small job takes, so that a store with hardly any room left does not look healthy.
const PROBE_BYTES: usize = 16 << 10;

/// Why a store took no write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// There is no room.
    Full,
    /// It may only be read.
    ReadOnly,
    /// Its jobs move, or have moved.
    Closed,
    /// Something in it does not read back.
    Corrupt,
    /// It is away, perhaps; its log tells.
    Other,
}

impl Why {
    pub(crate) fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Full(_) => Self::Full,
            StoreError::ReadOnly(_) => Self::ReadOnly,
            StoreError::Closed(_) => Self::Closed,
            StoreError::Corrupt { .. } => Self::Corrupt,
            _ => Self::Other,
        }
    }

    /// What is the matter and what to do about it.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Full => "the store is full: free some room on its disk, and it goes on by itself",
            Self::ReadOnly => {
                "the store is read-only: make it writable, or connect to the primary, and it goes on by itself"
            }
            Self::Closed => {
                "the store is closed, because its jobs move or have moved; `windlass doctor` and the server's log say where"
            }
            Self::Corrupt => {
                "a stored value does not read back: run `windlass verify`, see the log of this server"
            }
            Self::Other => "the store does not answer, or takes no writes; see the log of this server",
        }
    }
}

/// Whether the store takes writes, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// A blocking lock: it is held for a look or an assignment.
    refused: Mutex<Option<Why>>,
}

impl Writes {
    fn why(&self) -> MutexGuard<'_, Option<Why>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns from what became of a request.
    pub(crate) fn learn(&self, method: &Method, problem: &Problem) {
        if let Some(why) = problem.of_store().filter(|_| *method != Method::GET) {
            *self.why() = Some(why);
        }
    }

    /// Learns that the store did not take what the server itself had to write.
    pub(crate) fn failed(&self, error: &StoreError) {
        *self.why() = Some(Why::of(error));
    }

    /// Why the last write failed, if none has succeeded since.
    pub(crate) fn refused(&self) -> Option<Why> {
        *self.why()
    }

    /// After a write has failed, writes something small every second until it is taken: whoever sends requests elsewhere
    /// while this server is not ready would never tell it that there is room again.
    pub(crate) async fn watch(&self, store: &dyn Store) {
        loop {
            sleep(RETRY).await;
            if self.refused().is_none() {
                continue;
            }
            let late = |_| Err(StoreError::Unavailable("a write was not answered in time".into()));
            match timeout(PATIENCE, probe(store)).await.unwrap_or_else(late) {
                Ok(()) => {
                    tracing::info!("the store takes writes again");
                    *self.why() = None;
                }
                Err(error) => {
                    tracing::warn!(%error, "the store takes no writes");
                    self.failed(&error);
                }
            }
        }
    }
}

/// Remembers an answer that nobody will ask for; it goes with the others after 24 hours.
async fn probe(store: &dyn Store) -> StoreResult<()> {
    let key = Key::parse("key", format!("http:probe:{}", hex(&fresh::random::<16>())));
    let key = key.map_err(|invalid| StoreError::Unavailable(invalid.to_string()))?;
    let idempotency = Idempotency { key, request_hash: [0; 32] };
    let request = Remember { idempotency, body: vec![0; PROBE_BYTES] };
    store.remember(request, None).await.map(|_| ())
}
