//! Whether the store takes writes. A disk that is full or read-only is still read, so reading alone would look like health.

use crate::codes;
use crate::problem::Problem;
use axum::http::Method;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::lease::hex;
use windlass_core::{Invalid, Key};
use windlass_store::{Idempotency, Remember, Store, fresh};

/// How often a store that refused a write is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// What is written then: as much as a small job takes, so that a store with hardly any room left does not look healthy.
const PROBE_BYTES: usize = 16 << 10;

/// Whether the store takes writes, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    are_refused: AtomicBool,
}

impl Writes {
    /// Learns from what became of a request.
    pub(crate) fn learn(&self, method: &Method, problem: &Problem) {
        let is_of_the_store = [codes::UNAVAILABLE, codes::OUTCOME_UNKNOWN].contains(&problem.code());
        if is_of_the_store && *method != Method::GET {
            self.are_refused.store(true, Ordering::Release);
        }
    }

    /// Whether the last write failed and none has succeeded since.
    pub(crate) fn are_refused(&self) -> bool {
        self.are_refused.load(Ordering::Acquire)
    }

    /// After a write has failed, writes something small every second until it is taken: whoever sends requests elsewhere
    /// while this server is not ready would never tell it that there is room again.
    pub(crate) async fn watch(&self, store: &dyn Store) {
        loop {
            sleep(RETRY).await;
            if !self.are_refused() {
                continue;
            }
            match probe(store).await {
                Ok(()) => {
                    tracing::info!("the store takes writes again");
                    self.are_refused.store(false, Ordering::Release);
                }
                Err(error) => tracing::warn!(error, "the store takes no writes"),
            }
        }
    }
}

/// Remembers an answer that nobody will ask for; it goes with the others after 24 hours.
async fn probe(store: &dyn Store) -> Result<(), String> {
    let key = Key::parse("key", format!("http:probe:{}", hex(&fresh::random::<16>())));
    let key = key.map_err(|invalid: Invalid| invalid.to_string())?;
    let idempotency = Idempotency { key, request_hash: [0; 32] };
    let request = Remember { idempotency, body: vec![0; PROBE_BYTES] };
    match store.remember(request, None).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
