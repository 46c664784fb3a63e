//! Everything past its deadline. Any process may sweep, any time: a late sweep costs only latency.
//!
//! Many jobs in one transaction, and each in one of its own where that fails: one job's trouble is nobody else's. What
//! somebody else holds is passed over, so nobody is waited for while rows are held; whoever holds it sees the deadline
//! too.

use crate::append::granted;
use crate::db::{Lock, Tx, sql, uuid};
use crate::error::Tried;
use crate::lost::set_aside;
use crate::param::params;
use crate::pool::Connections;
use crate::row::{Columns, Ts};
use std::collections::HashSet;
use std::sync::Arc;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::BATCH_MAX;
use windlass_core::{Answer, Done, Job, JobId, Refusal, Status, Timestamp};
use windlass_store::{CancelIdle, Now, StoreError, StoreResult, Sweep, Swept};

/// Jobs per transaction: long enough to share a commit, short enough to let others at their rows.
const TOGETHER: usize = 100;
/// The most pages of one sweep: what others hold is paged past.
const PAGES: usize = 100;

/// A job past its deadline.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    id: JobId,
    deadline_at: Timestamp,
    parent: Option<JobId>,
}

/// What one transaction did.
#[derive(Default)]
struct Acted {
    swept: Vec<Swept>,
    /// Parents that other transactions hold: their children are left to a later sweep.
    held_parents: Vec<JobId>,
}

pub(crate) async fn sweep(
    connections: &Arc<Connections>,
    request: Sweep,
    now: Now,
) -> StoreResult<Vec<Swept>> {
    let limit = request.limit.min(BATCH_MAX);
    let (mut swept, mut held, mut behind) = (Vec::new(), HashSet::new(), None);
    for _ in 0..PAGES {
        let page = connections.transact(now, move |tx| Box::pin(tx.overdue(limit as i64, behind))).await?;
        let mut left = &page[..];
        while !left.is_empty() && swept.len() < limit {
            let (ids, others) = next(left, &held, TOGETHER.min(limit - swept.len()));
            left = others;
            let acted = act(connections, ids, now).await?;
            swept.extend(acted.swept);
            held.extend(acted.held_parents);
        }
        behind = page.last().map(|last| (last.deadline_at, last.id));
        if page.len() < limit || swept.len() >= limit {
            break;
        }
    }
    Ok(swept)
}

/// The next jobs to act on, without those whose parent is held, and what is left of the page.
fn next<'p>(page: &'p [Overdue], held: &HashSet<JobId>, most: usize) -> (Arc<[JobId]>, &'p [Overdue]) {
    let is_free = |job: &&Overdue| job.parent.is_none_or(|parent| !held.contains(&parent));
    let mut ids = Vec::new();
    for (n, job) in page.iter().enumerate() {
        if ids.len() == most {
            return (ids.into(), &page[n..]);
        }
        ids.extend(Some(job).filter(is_free).map(|job| job.id));
    }
    (ids.into(), &[])
}

/// Many jobs in one transaction, and each in one of its own where that fails.
async fn act(connections: &Arc<Connections>, ids: Arc<[JobId]>, now: Now) -> StoreResult<Acted> {
    if ids.is_empty() {
        return Ok(Acted::default());
    }
    let together = Arc::clone(&ids);
    let acted = connections
        .transact(now, move |tx| {
            let ids = Arc::clone(&together);
            Box::pin(async move { tx.sweep_many(&ids).await })
        })
        .await;
    match acted {
        Ok(acted) => Ok(acted),
        Err(_) => act_one_by_one(connections, &ids, now).await,
    }
}

/// Each job in a transaction of its own.
async fn act_one_by_one(connections: &Arc<Connections>, ids: &[JobId], now: Now) -> StoreResult<Acted> {
    let mut acted = Acted::default();
    for id in ids.iter().copied() {
        match connections.transact(now, move |tx| Box::pin(async move { tx.sweep_many(&[id]).await })).await {
            Ok(done) => {
                acted.swept.extend(done.swept);
                acted.held_parents.extend(done.held_parents);
            }
            Err(StoreError::Corrupt { job: Some(job), why }) if job == id => {
                set_aside(connections, id, why, now).await?;
            }
            Err(error) => {
                tracing::warn!(job = %id, %error, "a job past its deadline could not be acted on");
                // One job's trouble is not the store's; the store's own ends the sweep.
                connections.read(|db| Box::pin(db.clock(None))).await?;
            }
        }
    }
    Ok(acted)
}

impl Tx<'_> {
    /// Jobs past their deadline. Answers and keys whose time is over are forgotten on the way: most sweeps are this look and no
    /// more, in every idle worker, and one transaction is enough for it.
    async fn overdue(&self, limit: i64, behind: Option<(Timestamp, JobId)>) -> Tried<Vec<Overdue>> {
        let now = Ts(self.now().await?);
        let (deadline_at, id) = (behind.map(|(at, _)| Ts(at)), behind.map(|(_, id)| uuid(id)));
        let (forgets, frees, finds) =
            (params![now, limit], params![now, limit], params![now, limit, deadline_at, id]);
        let found = |r: &Row| {
            let mut c = Columns::new(r, 0);
            Ok(Overdue {
                id: c.job_id()?,
                deadline_at: c.time()?,
                parent: c.get::<Option<Uuid>>()?.map(|id| JobId::from_bytes(id.into_bytes())),
            })
        };
        let ((), (), overdue) = tokio::try_join!(
            biased;
            self.execute(sql!("forget_answers"), forgets),
            self.execute(sql!("forget_keys"), frees),
            self.all(sql!("overdue"), finds, found)
        )?;
        Ok(overdue)
    }

    /// Acts on jobs whose deadline still asks for it; what other transactions hold is passed over.
    async fn sweep_many(&self, ids: &[JobId]) -> Tried<Acted> {
        let mut acted = Acted::default();
        for id in ids.iter().copied() {
            let (job, now) = match self.try_lock(id).await? {
                Lock::Ours(job, now) => (job, now),
                Lock::HeldOrGone => continue,
                Lock::HeldParent(parent) => {
                    acted.held_parents.push(parent);
                    continue;
                }
            };
            let worker_gone = self.worker_gone(&job, now).await?;
            let Ok(step) = decide(&job, Command::Expire { worker_gone }, now) else { continue };
            self.write(&job, &step).await?;
            let answer = Ok(Done::Moved(step.job.version, step.job.status));
            acted.swept.push(Swept { job: id, answer });
        }
        Ok(acted)
    }

    /// Cancels jobs that stand still, each for itself; what other transactions hold is passed over.
    pub(crate) async fn cancel_idle(&self, request: &CancelIdle) -> Tried<Result<Vec<Answer>, Refusal>> {
        let term = self.share_term(&request.term).await?;
        granted!(request.decide(term.as_ref(), self.now().await?));
        let mut answers = Vec::with_capacity(request.jobs.len());
        for id in request.jobs.iter().copied() {
            answers.push(match self.try_lock(id).await? {
                Lock::Ours(job, now) => match request.decide_one(&job, now) {
                    Ok(step) => self.finish(&job, step).await?,
                    Err(refusal) => Err(refusal),
                },
                Lock::HeldOrGone if self.job(id).await?.is_none() => Err(Refusal::NotFound),
                Lock::HeldOrGone | Lock::HeldParent(_) => Err(Refusal::Busy),
            });
        }
        Ok(Ok(answers))
    }

    /// Whether an assigned job's worker is gone. One that reports itself at this moment is waited for.
    async fn worker_gone(&self, job: &Job, now: Timestamp) -> Tried<bool> {
        let (Status::Assigned, Some(id)) = (job.status, &job.worker_id) else { return Ok(false) };
        Ok(self.lock_worker(id).await?.is_none_or(|w| w.is_gone(now)))
    }
}
