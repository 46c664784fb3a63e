//! What a worker holds, whether it may take more, and the way to the end of each.

use crate::attempt::Attempt;
use crate::control::Standing;
use crate::leases::Leases;
use crate::metrics::Metrics;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use windlass_core::{Outcome, RunAt};

/// The most leases beyond those that run before nothing more is taken: claimed ahead, and outcomes that wait for the
/// store.
const AHEAD_MAX: usize = 2_000;

/// An attempt that has come to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) attempt: Attempt,
    pub(crate) outcome: Outcome,
}

/// What is held.
pub(crate) struct Holdings {
    pub(crate) leases: Leases,
    pub(crate) metrics: Metrics,
    /// There may be room for a claim.
    pub(crate) room: Notify,
    /// The most attempts that run at once.
    pub(crate) capacity: usize,
    /// Whether an operator wants it to take no more.
    draining: AtomicBool,
    /// Whether nothing was taken because too much waits for the store.
    choked: AtomicBool,
    ended: UnboundedSender<Ended>,
}

impl Holdings {
    pub(crate) fn new(leases: Leases, capacity: usize, ended: UnboundedSender<Ended>) -> Self {
        let (draining, choked) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { leases, metrics: Metrics::new(), room: Notify::new(), capacity, draining, choked, ended }
    }

    /// Hands over what is to be settled.
    pub(crate) fn settle(&self, ended: Ended) {
        if let Err(unsent) = self.ended.send(ended) {
            let job = unsent.0.attempt.job_id();
            tracing::warn!(%job, "the worker has ended; the job is taken up when its lease is over");
        }
    }

    /// Gives back attempts that have not begun, or whose handler is gone.
    pub(crate) fn give_back(&self, attempts: impl IntoIterator<Item = Attempt>) {
        for attempt in attempts {
            if attempt.control().move_to(Standing::GivenBack) {
                self.settle(Ended { attempt, outcome: Outcome::Release(RunAt::Now) });
            }
        }
    }

    /// Whether jobs may be taken. When that changes from no to yes, `room` says so.
    pub(crate) fn may_take(&self) -> bool {
        !self.is_draining() && !self.is_choked()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Says whether an operator wants it to take no more; answers whether that is new.
    pub(crate) fn drain(&self, draining: bool) -> bool {
        self.draining.swap(draining, Ordering::AcqRel) != draining
    }

    fn is_choked(&self) -> bool {
        let choked = || self.leases.len() > AHEAD_MAX + self.capacity;
        if !choked() {
            return false;
        }
        self.choked.store(true, Ordering::Release);
        // Looking again: it may have cleared between the two.
        choked()
    }

    /// Something was settled: there may be room again.
    pub(crate) fn clear(&self) {
        // Not later: while one batch is settled the next is to be claimed, so that the store always has both to do.
        if self.choked.load(Ordering::Acquire) && self.leases.len() <= AHEAD_MAX + self.capacity {
            self.choked.store(false, Ordering::Release);
            self.room.notify_one();
        }
    }
}
