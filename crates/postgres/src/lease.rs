//! Renewals: the one change without an event.

use crate::db::{Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::pool::Connections;
use crate::row::Ts;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use windlass_core::decide::renew;
use windlass_core::limits::{self, BATCH_MAX};
use windlass_core::{JobId, LeaseMs, Refusal, Token};
use windlass_store::{Extend, Extended, Now, StoreResult};

/// Renews what can be renewed in one statement, then looks at the others one by one.
pub(crate) async fn extend(
    connections: &Arc<Connections>,
    request: Extend,
    now: Now,
) -> StoreResult<Vec<Result<Extended, Refusal>>> {
    let request = Arc::new(request);
    let asked = Arc::clone(&request);
    let renewed = connections
        .single(move |db| {
            let asked = Arc::clone(&asked);
            Box::pin(async move { db.extend(&asked, now).await })
        })
        .await?;
    let mut answers = Vec::with_capacity(request.leases.len());
    for (n, (job, token)) in request.leases.iter().enumerate() {
        let answer = match (limits::count("leases", n + 1, BATCH_MAX), renewed.get(job)) {
            (Err(invalid), _) => Err(invalid.into()),
            (Ok(()), Some((hash, extended))) if *hash == token.hash().0 => Ok(*extended),
            _ => extend_one(connections, *job, *token, request.extend_ms, now).await?,
        };
        answers.push(answer);
    }
    Ok(answers)
}

async fn extend_one(
    connections: &Arc<Connections>,
    job: JobId,
    token: Token,
    extend_ms: LeaseMs,
    now: Now,
) -> StoreResult<Result<Extended, Refusal>> {
    connections.transact(now, move |tx| Box::pin(tx.extend_one(job, token, extend_ms))).await
}

impl Db<'_> {
    async fn extend(&self, request: &Extend, now: Now) -> Tried<HashMap<JobId, ([u8; 16], Extended)>> {
        // One lease per job: two tokens for one job are looked at one by one.
        let mut first: HashMap<JobId, [u8; 16]> = HashMap::new();
        for (job, token) in request.leases.iter().take(BATCH_MAX) {
            first.entry(*job).or_insert_with(|| token.hash().0);
        }
        let ids: Vec<Uuid> = first.keys().map(|job| uuid(*job)).collect();
        let hashes: Vec<&[u8]> = first.values().map(<[u8; 16]>::as_slice).collect();
        let renewed = self
            .all(sql!("extend"), params![ids, hashes, request.extend_ms.get(), now.map(Ts)], |r| {
                let job = JobId::from_bytes(r.try_get::<_, Uuid>(0)?.into_bytes());
                let expires_at = r.try_get::<_, Ts>(1)?.0;
                Ok((job, Extended { expires_at, cancel_requested: r.try_get(2)? }))
            })
            .await?;
        Ok(renewed.into_iter().filter_map(|(job, e)| Some((job, (*first.get(&job)?, e)))).collect())
    }
}

impl Tx<'_> {
    async fn extend_one(
        &self,
        id: JobId,
        token: Token,
        extend_ms: LeaseMs,
    ) -> Tried<Result<Extended, Refusal>> {
        let (Some(job), now) = self.lock(id).await? else { return Ok(Err(Refusal::NotFound)) };
        let renewed = match renew(&job, token.hash(), extend_ms, now) {
            Ok(renewed) => renewed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let expires_at = renewed.lease_expires_at.unwrap_or(now);
        let hash = job.lease_hash.map(|h| h.0).unwrap_or_default();
        self.execute(
            sql!("renew_job"),
            params![uuid(id), hash.as_slice(), Ts(expires_at), renewed.due_at.map(Ts)],
        )
        .await?;
        Ok(Ok(Extended { expires_at, cancel_requested: job.cancel_requested_at.is_some() }))
    }
}
