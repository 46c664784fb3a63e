//! Who a worker is and what it can do: fixed when it starts.

use crate::handler::Handlers;
use std::time::Duration;
use windlass_core::decide::Claim;
use windlass_core::{LeaseMs, Metadata, Name, Who};
use windlass_store::fresh;

/// What never changes about a worker.
pub(crate) struct Profile {
    pub(crate) identity: Who,
    pub(crate) labels: Metadata,
    pub(crate) handlers: Handlers,
    /// What it has handlers for.
    pub(crate) kinds: Vec<Name>,
    /// How long its leases last where a job says nothing else.
    pub(crate) lease: LeaseMs,
    /// How long a handler has to end after a cancel.
    pub(crate) cancel_grace: Duration,
    /// How often it looks, while idle, for what no hint told of.
    pub(crate) poll: Duration,
}

impl Profile {
    /// A claim of this worker that was never used.
    pub(crate) fn fresh_claim(&self) -> Claim {
        Claim { worker: self.identity.clone(), secret: fresh::secret(), lease_ms: self.lease }
    }
}
