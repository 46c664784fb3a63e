//! What a program hears of how its handlers end.

use std::sync::Arc;
use windlass_engine::{Attempt, HandlerError};

/// How a handler ended, for [`Worker::on_end`](crate::Worker::on_end).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum HandlerEnd<'a> {
    /// It returned a result.
    Returned,
    /// It returned an error, which says what is to follow.
    Failed(&'a HandlerError),
    /// It was dropped before it returned, because it waits without a worker, took too long, lost its lease or did not stop in
    /// time; or it panicked.
    Dropped,
}

pub(super) type EndHook = Arc<dyn Fn(&Attempt, HandlerEnd<'_>) + Send + Sync>;

/// Tells of a handler's end once, however it comes.
pub(super) struct Ended {
    pub(super) hook: Option<EndHook>,
    pub(super) attempt: Attempt,
}

impl Ended {
    pub(super) fn tell(&mut self, end: HandlerEnd<'_>) {
        if let Some(hook) = self.hook.take() {
            hook(&self.attempt, end);
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.tell(HandlerEnd::Dropped);
    }
}
