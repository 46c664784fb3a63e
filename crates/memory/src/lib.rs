//! The memory store: the law of a store in plain Rust, and the model the other stores are compared with.
//!
//! Everything is in one `State` behind one lock. A verb takes the lock, looks, lets the core
//! decide, writes row and event together, and is done: there is nothing to await, so no verb is ever half done.
//!
//! | verb | file |
//! |---|---|
//! | what is stored, and the one function that changes a job | `state`, `index` |
//! | enqueue, enqueue_claimed | `enqueue` |
//! | claim, claim_one | `claim` |
//! | queues with rules | `lanes` |
//! | assign, start | `assign` |
//! | extend | `lease` |
//! | settle | `settle` |
//! | sweep | `sweep` |
//! | append, progress, steps, log lines | `append` |
//! | cancel, redrive, fork | `operate` |
//! | signal | `wait` |
//! | ask, vote | `approve` |
//! | terms | `term` |
//! | lists, one job, time travel | `list` |
//! | the feed | `feed` |
//! | readers of the feed, stats, problems | `follow` |
//! | archive, purge | `retention` |
//! | seals over the log | `seals` |
//! | queues, workers, audit, access keys, answers | `registry` |
//!
//! What is never known here: a database, a file, a worker, HTTP. When the process ends, everything is gone.

mod append;
mod approve;
mod assign;
mod claim;
mod enqueue;
mod erase;
mod feed;
mod follow;
mod index;
mod lanes;
mod lease;
mod list;
mod logs;
mod operate;
mod paper;
mod rates;
mod registry;
mod retention;
mod schedule;
mod seals;
mod settings;
mod settle;
mod state;
mod subscription;
mod sweep;
mod term;
mod trigger;
mod verbs;
mod wait;

use std::fmt;
use std::sync::{Arc, Mutex};
use windlass_core::Timestamp;
use windlass_store::{Hinter, Hints, Now, StoreError, StoreResult, fresh};

/// A store that lives as long as the process. Cloning it is cheap and gives the same store.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

struct Inner {
    /// A blocking lock: it is held for microseconds and never across an await.
    state: Mutex<state::State>,
    /// Outside the lock, so that whoever is woken does not run into it.
    hinter: Hinter,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        let store = u64::from_be_bytes(fresh::random());
        let state = Mutex::new(state::State::new(store));
        Self { inner: Arc::new(Inner { state, hinter: Hinter::default() }) }
    }

    /// Runs one verb under the lock. Its moment never lies before the last event, so a log never goes back.
    fn with<T>(&self, now: Now, verb: impl FnOnce(&mut state::State, Timestamp) -> T) -> StoreResult<T> {
        let broken = |_| StoreError::Unavailable("a verb panicked in this store; start a new one".into());
        let mut state = self.inner.state.lock().map_err(broken)?;
        let last = state.last_written_at;
        let now = now.map_or_else(|| state.clock.now(last), |now| now.max(last));
        let answer = verb(&mut state, now);
        let news = state.take_news();
        drop(state);
        if let Some(due) = news {
            self.inner.hinter.hint(due);
        }
        Ok(answer)
    }

    fn hints(&self) -> Hints {
        self.inner.hinter.hints()
    }

    fn nudge(&self) {
        self.inner.hinter.nudge();
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    /// Without the jobs: there may be a million.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::{Actor, Facts, Name, NewJob};
    use windlass_store::{Enqueue, Jobs};

    fn enqueue(n: usize) -> Enqueue {
        let facts =
            Facts::new(Name::parse("kind", "work").unwrap(), Name::parse("queue", "default").unwrap());
        let job = || NewJob { id: fresh::job_id(), facts: facts.clone(), payload: None, parent_token: None };
        Enqueue { jobs: (0..n).map(|_| job()).collect(), actor: Actor::api(), idempotency: None }
    }

    #[tokio::test]
    async fn a_clone_is_the_same_store_and_is_told_of_due_jobs() {
        let store = MemoryStore::new();
        let mut hints = store.hints();
        store.clone().enqueue(enqueue(3), None).await.unwrap().unwrap();
        assert!(hints.due.has_changed().unwrap() && hints.feed.has_changed().unwrap());
        assert_eq!(*hints.due.borrow_and_update(), 1, "ten changes of one verb are one hint");
        assert_eq!(store.counts(2, None).await.unwrap().statuses.len(), 1);
        assert_eq!(format!("{store:?}"), "MemoryStore { .. }");
    }

    #[tokio::test]
    async fn time_never_goes_back() {
        let store = MemoryStore::new();
        let (late, early) = (Timestamp::from_micros(2_000_000), Timestamp::from_micros(1_000_000));
        store.enqueue(enqueue(1), Some(late)).await.unwrap().unwrap();
        let request = enqueue(1);
        let id = request.jobs[0].id;
        store.enqueue(request, Some(early)).await.unwrap().unwrap();
        assert_eq!(store.job(id, None).await.unwrap().unwrap().job.created_at, late);
    }
}
