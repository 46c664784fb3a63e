//! Whether a worker works: what readiness is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::sync::watch;
use windlass_store::StoreError;

/// How a worker stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It has not reached its store yet.
    Starting,
    /// It works.
    Ready,
    /// Its store does not answer; it tries again by itself.
    Away(Arc<str>),
    /// It takes nothing new: an operator drains it.
    Draining,
    /// It finishes what runs and ends.
    Stopping,
    /// It has ended.
    Stopped,
}

impl Health {
    /// Whether jobs are taken.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
}

/// Calls that fail in a row before a store counts as away: one cut connection is not worth a word.
const AWAY_AFTER: u32 = 3;

/// Which store answered or did not; they may be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// The one that jobs are claimed from and settled in.
    Work = 0,
    /// The one that leases are renewed in.
    Beat = 1,
}

/// Where the parts of a worker tell how they fare. What is told again and again is passed on once.
pub(crate) struct Board {
    health: watch::Sender<Health>,
    /// Calls of each line that failed since the last one that did not.
    failed: [AtomicU32; 2],
    drained: AtomicBool,
    stopping: AtomicBool,
}

impl Board {
    pub(crate) fn new(health: watch::Sender<Health>) -> Self {
        Self { health, failed: Default::default(), drained: false.into(), stopping: false.into() }
    }

    /// The store answered.
    pub(crate) fn answered(&self, line: Line) {
        let was_away = self.failed[line as usize].swap(0, Ordering::AcqRel) >= AWAY_AFTER;
        if was_away {
            tracing::info!("the store answers again");
        }
        let starting = line == Line::Work && *self.health.borrow() == Health::Starting;
        let is_away = |failed: &AtomicU32| failed.load(Ordering::Acquire) >= AWAY_AFTER;
        if (was_away || starting) && !self.failed.iter().any(is_away) {
            self.show(Health::Ready);
        }
    }

    /// The store did not answer.
    pub(crate) fn failed(&self, line: Line, error: &StoreError) {
        let failed = self.failed[line as usize].fetch_add(1, Ordering::AcqRel) + 1;
        if failed == AWAY_AFTER {
            tracing::warn!(%error, "the store does not answer; it is asked again until it does");
            self.show(Health::Away(error.to_string().into()));
        }
    }

    pub(crate) fn set_drained(&self, drained: bool) {
        if self.drained.swap(drained, Ordering::AcqRel) != drained {
            self.show(Health::Ready);
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.show(Health::Stopping);
    }

    pub(crate) fn stopped(&self) {
        self.health.send_replace(Health::Stopped);
    }

    fn show(&self, health: Health) {
        let shown = match health {
            _ if self.stopping.load(Ordering::Acquire) => Health::Stopping,
            Health::Ready if self.drained.load(Ordering::Acquire) => Health::Draining,
            health => health,
        };
        self.health.send_if_modified(|now| {
            let changed = *now != shown && *now != Health::Stopped;
            if changed {
                *now = shown;
            }
            changed
        });
    }
}
