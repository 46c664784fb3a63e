//! Renewing leases: the one change without an event.

use crate::state::{State, in_batch};
use windlass_core::decide::renew;
use windlass_core::{JobId, LeaseMs, Refusal, Timestamp, Token};
use windlass_store::{Extend, Extended};

impl State {
    /// Renews leases, each for itself.
    pub fn extend(&mut self, request: Extend, now: Timestamp) -> Vec<Result<Extended, Refusal>> {
        let Extend { leases, extend_ms } = request;
        let extend = |(index, (job, token)): (usize, (JobId, Token))| {
            in_batch(index)?;
            self.extend_one(job, token, extend_ms, now)
        };
        leases.into_iter().enumerate().map(extend).collect()
    }

    fn extend_one(
        &mut self,
        id: JobId,
        token: Token,
        extend_ms: LeaseMs,
        now: Timestamp,
    ) -> Result<Extended, Refusal> {
        let job = renew(&self.entry(id)?.job, token.hash(), extend_ms, now)?;
        let extended = Extended {
            expires_at: job.lease_expires_at.unwrap_or(now),
            cancel_requested: job.cancel_requested_at.is_some(),
        };
        self.replace(job);
        Ok(extended)
    }
}
