//! What others may read of a worker's leases beside the store. It decides nothing: the store does, in the statement that
//! writes.

use std::fmt;
use std::time::Duration;
use windlass_core::{JobId, Who};

/// A lease as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseNote {
    /// Of which job.
    pub job: JobId,
    /// Who holds it.
    pub worker: Who,
    /// Which execution it is for.
    pub attempt: i32,
    /// Grows with every lease of the job.
    pub fence: i64,
    /// How long it lasts from now, its grace included, unless it is renewed.
    pub lasts: Duration,
}

/// Where a worker shows its leases. Both calls return at once: a worker waits for nobody here.
pub trait LeaseMirror: fmt::Debug + Send + Sync {
    /// A lease was taken or renewed.
    fn holds(&self, lease: LeaseNote);
    /// A lease was given up or lost.
    fn let_go(&self, job: JobId, fence: i64);
}
