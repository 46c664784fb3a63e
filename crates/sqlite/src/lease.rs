//! Renewals: the one change without an event.

use crate::db::{Tx, sql};
use crate::error::{Tried, one_items};
use windlass_core::decide::renew;
use windlass_core::limits::{self, BATCH_MAX};
use windlass_core::{JobId, LeaseMs, Refusal, Timestamp, Token};
use windlass_store::{Extend, Extended};

impl Tx<'_, '_> {
    pub(crate) fn extend(&self, request: &Extend, now: Timestamp) -> Tried<Vec<Result<Extended, Refusal>>> {
        let one =
            |(n, (job, token)): (usize, &(JobId, Token))| match limits::count("leases", n + 1, BATCH_MAX) {
                Ok(()) => one_items(self.extend_one(*job, *token, request.extend_ms, now)),
                Err(invalid) => Ok(Err(invalid.into())),
            };
        request.leases.iter().enumerate().map(one).collect()
    }

    fn extend_one(
        &self,
        id: JobId,
        token: Token,
        extend_ms: LeaseMs,
        now: Timestamp,
    ) -> Tried<Result<Extended, Refusal>> {
        let Some(job) = self.job(id)? else { return Ok(Err(Refusal::NotFound)) };
        let renewed = match renew(&job, token.hash(), extend_ms, now) {
            Ok(renewed) => renewed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let expires_at = renewed.lease_expires_at.unwrap_or(now);
        let due_at = renewed.due_at.map(Timestamp::as_micros);
        let hash = job.lease_hash.map(|h| h.0);
        self.execute(sql!("renew_job"), (id.as_bytes(), hash, expires_at.as_micros(), due_at))?;
        Ok(Ok(Extended { expires_at, cancel_requested: job.cancel_requested_at.is_some() }))
    }
}
