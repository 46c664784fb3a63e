//! Who ends an attempt: exactly one of its handler, its wait, the loss of its lease, or the end of the worker.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use windlass_core::Wait;

/// How an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Standing {
    /// The handler runs.
    Running = 0,
    /// Its runner has the end of it and settles.
    Ended = 1,
    /// The lease is lost: nothing is settled, the result is discarded.
    Lost = 2,
    /// The worker ends: it has been given back.
    GivenBack = 3,
}

/// The meeting point of an attempt's handler, its runner and the engine.
#[derive(Debug)]
pub(crate) struct Control {
    /// Moves away from `Running` once, whoever comes first.
    standing: AtomicU8,
    cancel: AtomicBool,
    /// Whether the handler should come to an end because the worker does.
    stopping: AtomicBool,
    /// Whether the handler's future has been dropped.
    gone: AtomicBool,
    /// Waits that the handler asks for, in order, each with a number by which it is withdrawn. A blocking lock: it is
    /// held for a push or a pop.
    posted: Mutex<Vec<(u64, Wait)>>,
    /// Steps and tools that have begun and are not on record as ended: no wait ends the attempt meanwhile.
    open: AtomicUsize,
    /// How many steps have ended.
    closed: AtomicUsize,
    /// Whether a replay came to something that is not on record.
    at_end: AtomicBool,
    /// Both the runner and the handler may wait for news.
    news: Notify,
}

impl Control {
    pub(crate) fn new(cancel_requested: bool) -> Self {
        Self {
            standing: AtomicU8::new(Standing::Running as u8),
            cancel: AtomicBool::new(cancel_requested),
            stopping: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            posted: Mutex::default(),
            open: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
            at_end: AtomicBool::new(false),
            news: Notify::new(),
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.standing.load(Ordering::Acquire) {
            0 => Standing::Running,
            1 => Standing::Ended,
            2 => Standing::Lost,
            _ => Standing::GivenBack,
        }
    }

    /// Takes the attempt out of `Running`; false if somebody was quicker.
    pub(crate) fn move_to(&self, to: Standing) -> bool {
        let running = Standing::Running as u8;
        let moved = self.standing.compare_exchange(running, to as u8, Ordering::AcqRel, Ordering::Acquire);
        if moved.is_ok() && to != Standing::Ended {
            self.news.notify_waiters();
        }
        moved.is_ok()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Acquire)
    }

    pub(crate) fn cancel(&self) {
        if !self.cancel.swap(true, Ordering::AcqRel) {
            self.news.notify_waiters();
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn stop(&self) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            self.news.notify_waiters();
        }
    }

    /// The handler's future has been dropped.
    pub(crate) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
        self.news.notify_waiters();
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// A replay came to something that is not on record.
    pub(crate) fn reach_end(&self) {
        self.at_end.store(true, Ordering::Release);
        self.news.notify_waiters();
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at_end.load(Ordering::Acquire)
    }

    /// Waits until the handler's future has been dropped: for ever, inside of it.
    pub(crate) async fn left(&self) {
        self.until(|c| c.is_gone().then_some(())).await;
    }

    /// Hands a wait to the runner, which drops the handler for it. The first one counts. While a step is open the runner
    /// holds back, and a handler that gives the wait up meanwhile, by dropping what this returns, goes on.
    pub(crate) fn post(&self, wait: Wait) -> Posted<'_> {
        let mut posted = self.lock_posted();
        let number = posted.last().map_or(0, |(number, _)| number + 1);
        posted.push((number, wait));
        drop(posted);
        self.news.notify_waiters();
        Posted { control: self, number, closed: self.closed.load(Ordering::Acquire) }
    }

    /// The wait that was posted, unless a step is open.
    pub(crate) fn take_posted(&self) -> Option<Wait> {
        if self.open.load(Ordering::Acquire) > 0 {
            return None;
        }
        let mut posted = self.lock_posted();
        (!posted.is_empty()).then(|| posted.remove(0).1)
    }

    fn lock_posted(&self) -> MutexGuard<'_, Vec<(u64, Wait)>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step begins.
    pub(crate) fn open_step(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    /// A step has ended, or was given up.
    pub(crate) fn close_step(&self) {
        self.closed.fetch_add(1, Ordering::AcqRel);
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.news.notify_waiters();
        }
    }

    /// Waits until `what` answers something. It is asked again after every change.
    pub(crate) async fn until<T>(&self, mut what: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            // Listening before looking: nothing that happens between the two is missed.
            news.as_mut().enable();
            if let Some(found) = what(self) {
                return found;
            }
            news.await;
        }
    }
}

/// A wait that the handler asks for.
pub(crate) struct Posted<'a> {
    control: &'a Control,
    number: u64,
    /// How many steps had ended when it was posted.
    closed: usize,
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        let Control { open, closed, .. } = self.control;
        // Without a step to wait for the runner has it: nobody swallows a pending wait.
        if open.load(Ordering::Acquire) > 0 || closed.load(Ordering::Acquire) != self.closed {
            self.control.lock_posted().retain(|(number, _)| *number != self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_end_and_no_other() {
        let control = Control::new(false);
        assert!(control.move_to(Standing::Lost));
        assert!(!control.move_to(Standing::Ended) && !control.move_to(Standing::GivenBack));
        assert_eq!(control.standing(), Standing::Lost);
        control.cancel();
        control.until(|c| c.is_cancelled().then_some(())).await;
    }
}
