//! Jobs that a claim found and cannot hand out: each ends by itself, and stops nobody else's.

use crate::claim::holds;
use crate::db::{Lock, sql, uuid};
use crate::param::params;
use crate::pool::Connections;
use std::sync::Arc;
use windlass_core::decide::{Claim, Command, decide};
use windlass_core::{JobId, Status};
use windlass_store::{Now, StoreError, StoreResult, WriteAudit};

/// Ends a job that cannot be handed out, by itself: its lease was lost and it was to be cancelled, is past its
/// timeout or crashed too often, or its first event is gone, or something of it does not read back. Says no if another
/// transaction holds it or its parent: the next look from the head of the line finds it again.
pub(crate) async fn end(
    connections: &Arc<Connections>,
    id: JobId,
    unreadable: Option<String>,
    claim: Claim,
    now: Now,
) -> StoreResult<bool> {
    let ended = connections
        .transact(now, move |tx| {
            let (claim, unreadable) = (claim.clone(), unreadable.clone());
            Box::pin(async move {
                let Lock::Ours(job, now) = tx.try_lock(id).await? else { return Ok(false) };
                let command = match (holds(&job, &claim, now), unreadable) {
                    (true, Some(why)) => Command::Unreadable(why),
                    (true, None) => Command::LosePayload,
                    (false, _) => Command::Claim(claim),
                };
                if let Ok(step) = decide(&job, command, now)
                    && step.job.status != Status::Running
                {
                    tx.write(&job, &step).await?;
                }
                Ok(true)
            })
        })
        .await;
    match ended {
        Err(StoreError::Corrupt { why, .. }) => set_aside(connections, id, why, now).await,
        ended => ended,
    }
}

/// Ends a job whose row does not read back. No rule can decide on it, so it goes as it would from a user at an SQL prompt,
/// and the reason is in the audit. Says no if even that is refused.
pub(crate) async fn set_aside(
    connections: &Arc<Connections>,
    id: JobId,
    why: String,
    now: Now,
) -> StoreResult<bool> {
    tracing::error!(job = %id, %why, "a job does not read back and is set aside; run `windlass verify`");
    let done = connections
        .transact(now, move |tx| {
            let entry = WriteAudit::set_aside(id, &why);
            Box::pin(async move {
                tx.execute(sql!("set_aside"), params![uuid(id)]).await?;
                tx.write_audit(&entry).await
            })
        })
        .await;
    match done {
        Ok(()) => Ok(true),
        Err(error) => {
            tracing::error!(job = %id, %error, "it cannot be set aside; it stays in line");
            Ok(false)
        }
    }
}
