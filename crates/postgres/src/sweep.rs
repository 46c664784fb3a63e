//! Everything past its deadline. Any process may sweep, any time: a late sweep costs only latency.
//!
//! Many jobs in one transaction, and each in one of its own where that fails: one job's trouble is nobody else's. What
//! somebody else holds is passed over, so nobody is waited for while rows are held; whoever holds it sees the deadline
//! too.

use crate::db::{Tx, sql};
use crate::error::Tried;
use crate::param::params;
use crate::pool::Connections;
use crate::row::{Columns, Ts};
use std::sync::Arc;
use tokio_postgres::Row;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::BATCH_MAX;
use windlass_core::{Done, Job, JobId, Status, Timestamp};
use windlass_store::{Now, StoreResult, Sweep, Swept};

/// Jobs per transaction: long enough to share a commit, short enough to let others at their rows.
const TOGETHER: usize = 100;

pub(crate) async fn sweep(
    connections: &Arc<Connections>,
    request: Sweep,
    now: Now,
) -> StoreResult<Vec<Swept>> {
    let limit = request.limit.min(BATCH_MAX) as i64;
    let overdue = connections.transact(now, move |tx| Box::pin(tx.overdue(limit))).await?;
    let mut swept = Vec::new();
    for ids in overdue.chunks(TOGETHER) {
        let ids: Arc<[JobId]> = ids.into();
        let together = Arc::clone(&ids);
        let sweep = connections.transact(now, move |tx| {
            let ids = Arc::clone(&together);
            Box::pin(async move { tx.sweep_many(&ids).await })
        });
        match sweep.await {
            Ok(done) => swept.extend(done),
            Err(_) => swept.extend(one_by_one(connections, &ids, now).await?),
        }
    }
    Ok(swept)
}

/// Each job in a transaction of its own.
async fn one_by_one(connections: &Arc<Connections>, ids: &[JobId], now: Now) -> StoreResult<Vec<Swept>> {
    let mut swept = Vec::new();
    for id in ids.iter().copied() {
        match connections.transact(now, move |tx| Box::pin(tx.sweep_one(id))).await {
            Ok(done) => swept.extend(done),
            Err(error) => {
                tracing::warn!(job = %id, %error, "a job past its deadline could not be acted on");
                // One job's trouble is not the store's; the store's own ends the sweep.
                connections.read(|db| Box::pin(db.clock(None))).await?;
            }
        }
    }
    Ok(swept)
}

impl Tx<'_> {
    /// Jobs past their deadline. Answers whose time is over are forgotten on the way: most sweeps are this look and no
    /// more, in every idle worker, and one transaction is enough for it.
    async fn overdue(&self, limit: i64) -> Tried<Vec<JobId>> {
        let now = Ts(self.now().await?);
        let (forgets, finds) = (params![now, limit], params![now, limit]);
        let id = |r: &Row| Columns::new(r, 0).job_id();
        let ((), overdue) = tokio::try_join!(
            biased;
            self.execute(sql!("forget_answers"), forgets),
            self.all(sql!("overdue"), finds, id)
        )?;
        Ok(overdue)
    }

    async fn sweep_many(&self, ids: &[JobId]) -> Tried<Vec<Swept>> {
        let mut swept = Vec::new();
        for id in ids {
            swept.extend(self.sweep_one(*id).await?);
        }
        Ok(swept)
    }

    /// Acts on one job, if its deadline still asks for it.
    async fn sweep_one(&self, id: JobId) -> Tried<Option<Swept>> {
        let (Some(job), now) = self.try_lock(id).await? else { return Ok(None) };
        let worker_gone = self.worker_gone(&job, now).await?;
        let Ok(step) = decide(&job, Command::Expire { worker_gone }, now) else { return Ok(None) };
        self.write(&job, &step).await?;
        Ok(Some(Swept { job: id, answer: Ok(Done::Moved(step.job.version, step.job.status)) }))
    }

    /// Whether an assigned job's worker is gone. One that reports itself at this moment is waited for.
    async fn worker_gone(&self, job: &Job, now: Timestamp) -> Tried<bool> {
        let (Status::Assigned, Some(id)) = (job.status, &job.worker_id) else { return Ok(false) };
        Ok(self.lock_worker(id).await?.is_none_or(|w| w.expires_at <= now))
    }
}
