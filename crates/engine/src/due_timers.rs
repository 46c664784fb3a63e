//! When jobs that a worker let go itself are due again: it need not wait for the next poll.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The most moments that are remembered; the rest is found by polling.
const MOST: usize = 10_000;

/// Moments to come.
#[derive(Debug, Default)]
pub(crate) struct DueTimers {
    /// A blocking lock: it is held for a push or a pop.
    moments: Mutex<BinaryHeap<Reverse<Instant>>>,
    changed: Notify,
}

impl DueTimers {
    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Instant>>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remember(&self, moments: Vec<Instant>) {
        if moments.is_empty() {
            return;
        }
        let mut kept = self.lock();
        let room = MOST.saturating_sub(kept.len());
        kept.extend(moments.into_iter().take(room).map(Reverse));
        drop(kept);
        self.changed.notify_waiters();
    }

    /// Waits for the next moment and forgets it, with all that have passed.
    pub(crate) async fn next(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let first = self.lock().peek().map(|Reverse(at)| *at);
            match first {
                Some(at) if at <= Instant::now() => break,
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => break,
                    () = changed => {}
                },
                None => changed.await,
            }
        }
        let (mut moments, now) = (self.lock(), Instant::now());
        while moments.peek().is_some_and(|Reverse(at)| *at <= now) {
            moments.pop();
        }
    }
}
