//! Workers that only claim: a claim is a sign of life, so that `workers ls`, `blocked` and `doctor` know them too.
//!
//! A worker that reports itself (`PUT /v1/workers/{id}`) says more than its claims do, and is left alone.

use crate::call::Call;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::registry::Slots;
use windlass_core::{LeaseMs, Metadata, Name, Who, Worker};
use windlass_store::PutWorker;

/// How often a worker that claims is written down.
const EVERY: Duration = Duration::from_secs(20);
/// How long it then counts as there: longer than a claim may wait, and some.
const TTL_MS: i64 = 120_000;
/// The label of a worker that is known by its claims only.
const SEEN_BY: &str = "seen_by";
const CLAIM: &str = "claim";
/// The label of the key that a worker was made with.
pub(crate) const KEY: &str = "key";
/// The most workers that are kept in mind.
const MOST: usize = 10_000;

/// Workers that claimed lately.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// When each was written down. A blocking lock: it is held for a look or an insertion.
    seen: Mutex<HashMap<Who, Instant>>,
}

impl Presence {
    fn seen(&self) -> MutexGuard<'_, HashMap<Who, Instant>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time to write a worker down; from now on it is not for a while.
    fn is_time(&self, worker: &Who) -> bool {
        let mut seen = self.seen();
        if seen.get(worker).is_some_and(|at| at.elapsed() < EVERY) {
            return false;
        }
        if seen.len() >= MOST {
            seen.retain(|_, at| at.elapsed() < EVERY);
        }
        seen.insert(worker.clone(), Instant::now());
        true
    }
}

/// What a claim says of its worker.
pub(crate) struct Sign<'a> {
    pub(crate) worker: &'a Who,
    pub(crate) queues: &'a [Name],
    pub(crate) kinds: &'a [Name],
    pub(crate) max: usize,
}

/// A worker claims. Its claim does not depend on whether this is written down.
pub(crate) async fn saw(call: &Call, sign: Sign<'_>) {
    let id = sign.worker;
    if !call.app.presence.is_time(id) {
        return;
    }
    let known = match call.store().workers((), None).await {
        Ok(workers) => workers.into_iter().find(|worker| worker.id == *id),
        Err(error) => return tracing::debug!(%error, "a worker could not be written down"),
    };
    let is_own = |worker: &Worker| is_by_claim(worker) && is_made_by(call, worker);
    if known.as_ref().is_some_and(|worker| !is_own(worker)) {
        return;
    }
    if let Err(error) = call.store().put_worker(report(call, &sign, known), None).await {
        tracing::debug!(%error, "a worker could not be written down");
    }
}

/// What is known of a worker by its claims: every queue and kind that it asked for.
fn report(call: &Call, claim: &Sign<'_>, known: Option<Worker>) -> PutWorker {
    let is_for_all = |kinds: &[Name]| kinds.is_empty();
    let mut labels = Metadata::from_iter([(SEEN_BY.to_owned(), CLAIM.into())]);
    put_key(call, &mut labels);
    let (queues, kinds, capacity) = match known {
        None => (claim.queues.to_vec(), claim.kinds.to_vec(), 1),
        Some(worker) => {
            let kinds = if is_for_all(&worker.kinds) || is_for_all(claim.kinds) {
                Vec::new()
            } else {
                united(worker.kinds, claim.kinds)
            };
            (united(worker.queues, claim.queues), kinds, worker.capacity)
        }
    };
    PutWorker {
        id: claim.worker.clone(),
        queues,
        kinds,
        capacity: capacity.max(i32::try_from(claim.max).unwrap_or(i32::MAX)),
        slots: Slots::new(),
        labels,
        draining: false,
        ttl_ms: LeaseMs::new(TTL_MS).unwrap_or(LeaseMs::DEFAULT),
    }
}

fn united(mut names: Vec<Name>, more: &[Name]) -> Vec<Name> {
    for name in more {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Whether a worker is known by its claims only.
fn is_by_claim(worker: &Worker) -> bool {
    worker.labels.get(SEEN_BY).is_some_and(|by| by == CLAIM)
}

/// Writes down which key a worker is made with.
pub(crate) fn put_key(call: &Call, labels: &mut Metadata) {
    labels.remove(KEY);
    if let crate::access::Principal::Key(key, _) = &call.who {
        labels.insert(KEY.to_owned(), key.name.as_str().into());
    }
}

/// The key that a worker was made with, if it was one.
pub(crate) fn made_by(worker: &Worker) -> Option<Who> {
    worker.labels.get(KEY).and_then(|name| Who::parse("key", name.as_str()?).ok())
}

/// Whether a worker was made with the caller's own key; without keys everybody is one.
pub(crate) fn is_made_by(call: &Call, worker: &Worker) -> bool {
    match &call.who {
        crate::access::Principal::Key(key, _) => made_by(worker).as_ref() == Some(&key.name),
        _ => true,
    }
}
