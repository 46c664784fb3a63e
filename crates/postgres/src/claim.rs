//! How a job gets into a worker's hands.

use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::pool::Connections;
use crate::row::{self, Columns, JOB_COLUMNS, Ts};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::decide::{Claim, Command, decide};
use windlass_core::limits::{CLAIM_MAX, PRIORITY_MAX};
use windlass_core::step::{self, Progressed};
use windlass_core::{
    Facts, Job, JobId, Lease, Metadata, Name, Payload, Refusal, Status, Timestamp, Wake, What,
};
use windlass_store::{ClaimMany, ClaimOne, Claimed, Now, StoreResult};

/// Priorities there are.
const PRIORITIES: usize = 11;
/// How long a claim may begin where the last one ended before it looks at the whole line again.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Where the last claims of this process ended, per queue and priority. Rows that were moved leave dead entries at
/// the head of the index for as long as some transaction is open; beginning behind them keeps a claim flat.
#[derive(Debug, Default)]
pub(crate) struct Positions(Mutex<HashMap<Look, Position>>);

/// Queues and kinds.
type Look = (Vec<Name>, Vec<Name>);

#[derive(Debug, Clone)]
struct Position {
    swept_at: Instant,
    from_due: Vec<Option<Ts>>,
}

impl Positions {
    /// Where to begin; nowhere in particular when it is time to look at everything.
    #[expect(clippy::disallowed_methods, reason = "measures how old a hint is, in this process only")]
    fn begin(&self, request: &ClaimMany) -> Vec<Option<Ts>> {
        let Ok(mut map) = self.0.lock() else { return Vec::new() };
        if map.len() > 1_000 {
            map.clear();
        }
        let none = vec![None; request.queues.len() * PRIORITIES];
        let key = (request.queues.clone(), request.kinds.clone());
        let fresh = Position { swept_at: Instant::now(), from_due: none };
        let position = map.entry(key).or_insert_with(|| fresh.clone());
        if position.swept_at.elapsed() >= SWEEP_EVERY {
            *position = fresh;
        }
        position.from_due.clone()
    }

    fn advance(&self, request: &ClaimMany, claimed: &[(Claimed, Timestamp)]) {
        let Ok(mut map) = self.0.lock() else { return };
        let Some(position) = map.get_mut(&(request.queues.clone(), request.kinds.clone())) else { return };
        for (held, due_at) in claimed {
            let Some(queue) = request.queues.iter().position(|q| *q == held.job.queue) else { continue };
            let place = queue * PRIORITIES
                + usize::try_from(PRIORITY_MAX - i64::from(held.job.priority)).unwrap_or(0);
            if let Some(from) = position.from_due.get_mut(place) {
                *from = Some(Ts(from.map_or(*due_at, |f| f.0.max(*due_at))));
            }
        }
    }
}

/// What one claim statement did.
struct Taken {
    claimed: Vec<(Claimed, Timestamp)>,
    /// Handed out, but their first event is gone.
    lost: Vec<JobId>,
    /// Running rows that must end instead of being handed out again.
    ending: Vec<JobId>,
    /// What this very claim holds already.
    again: Vec<JobId>,
}

pub(crate) async fn claim(
    connections: &Arc<Connections>,
    positions: &Arc<Positions>,
    mut request: ClaimMany,
    now: Now,
) -> StoreResult<Vec<Claimed>> {
    let max = request.max.min(CLAIM_MAX);
    let mut seen = std::collections::HashSet::new();
    request.queues.retain(|q| seen.insert(q.clone()));
    if max == 0 || request.queues.is_empty() {
        return Ok(Vec::new());
    }
    // A test's own clock is exact; hints are for the real one.
    let from_due = if now.is_some() { Vec::new() } else { positions.begin(&request) };
    let request = Arc::new(request);
    let mut claimed = Vec::new();
    loop {
        let want = (max - claimed.len()) as i64;
        let (asked, from) = (Arc::clone(&request), from_due.clone());
        let mine: Vec<Uuid> = claimed.iter().map(|held: &Claimed| *held.job.id.as_uuid()).collect();
        let taken = connections
            .single(move |db| {
                let (asked, from, mine) = (Arc::clone(&asked), from.clone(), mine.clone());
                Box::pin(async move { db.claim(&asked, want, from, mine, now).await })
            })
            .await?;
        if !taken.again.is_empty() && claimed.is_empty() {
            return hold_again(connections, taken.again, request.claim.clone()).await;
        }
        positions.advance(&request, &taken.claimed);
        let ended = !taken.ending.is_empty() || !taken.lost.is_empty();
        claimed.extend(taken.claimed.into_iter().map(|(held, _)| held));
        for id in taken.ending.into_iter().chain(taken.lost) {
            let claim = request.claim.clone();
            end(connections, id, claim, now).await?;
        }
        // Rows that ended took the place of others that may be due.
        if !ended || claimed.len() >= max {
            return Ok(claimed);
        }
    }
}

/// Ends a job that cannot be handed out, by itself: its lease was lost and it was to be cancelled, is past its
/// timeout or crashed too often, or its first event is gone.
async fn end(connections: &Arc<Connections>, id: JobId, claim: Claim, now: Now) -> StoreResult<()> {
    connections
        .transact(now, move |tx| {
            let claim = claim.clone();
            Box::pin(async move {
                let (Some(job), now) = tx.lock(id).await? else { return Ok(()) };
                let command =
                    if holds(&job, &claim, now) { Command::LosePayload } else { Command::Claim(claim) };
                match decide(&job, command, now) {
                    Ok(step) if step.job.status != Status::Running => tx.write(&job, &step).await,
                    _ => Ok(()),
                }
            })
        })
        .await
}

async fn hold_again(
    connections: &Arc<Connections>,
    ids: Vec<JobId>,
    claim: Claim,
) -> StoreResult<Vec<Claimed>> {
    connections
        .read(move |db| {
            let (ids, claim) = (ids.clone(), claim.clone());
            Box::pin(async move {
                let mut held = Vec::new();
                for id in ids {
                    if let Some(job) = db.job(id).await? {
                        held.push(db.claimed(job, &claim).await?);
                    }
                }
                Ok(held)
            })
        })
        .await
}

/// Whether the job is held under this very claim: a repeat after a lost answer.
pub(crate) fn holds(job: &Job, claim: &Claim, now: Timestamp) -> bool {
    job.is_held(now)
        && job.worker_id.as_ref() == Some(&claim.worker)
        && job.lease_hash == Some(claim.secret.token(job.id, job.attempt).hash())
}

impl Tx<'_> {
    pub(crate) async fn claim_one(&self, request: &ClaimOne) -> Tried<Result<Claimed, Refusal>> {
        let (Some(job), now) = self.lock(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        if holds(&job, &request.claim, now) {
            return self.claimed(job, &request.claim).await.map(Ok);
        }
        if job.status.is_terminal() {
            return Ok(Err(Refusal::Finished(job.status)));
        }
        if self.is_paused(&job.queue).await? || !job.is_due(now) {
            return Ok(Err(Refusal::NotClaimable(job.status)));
        }
        let step = match decide(&job, Command::Claim(request.claim.clone()), now) {
            Ok(step) => step,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.write(&job, &step).await?;
        let mut status = step.job.status;
        if status == Status::Running {
            if self.event(job.id, 1).await?.is_some() {
                return self.claimed(step.job, &request.claim).await.map(Ok);
            }
            if let Ok(lost) = decide(&step.job, Command::LosePayload, now) {
                self.write(&step.job, &lost).await?;
                status = lost.job.status;
            }
        }
        Ok(Err(if status.is_terminal() { Refusal::Finished(status) } else { Refusal::NotClaimable(status) }))
    }
}

impl Db<'_> {
    async fn claim(
        &self,
        request: &ClaimMany,
        want: i64,
        from: Vec<Option<Ts>>,
        mine: Vec<Uuid>,
        now: Now,
    ) -> Tried<Taken> {
        let queues: Vec<&str> = request.queues.iter().map(Name::as_str).collect();
        let kinds: Vec<&str> = request.kinds.iter().map(Name::as_str).collect();
        let claim = &request.claim;
        let rows = self
            .rows(
                sql!("claim"),
                params![
                    queues,
                    want,
                    claim.worker.as_str(),
                    claim.secret.0.as_slice(),
                    claim.lease_ms.get(),
                    now.map(Ts),
                    kinds,
                    from,
                    mine,
                ],
            )
            .await?;
        let mut taken =
            Taken { claimed: Vec::new(), lost: Vec::new(), ending: Vec::new(), again: Vec::new() };
        let ids = |ids: Option<Vec<Uuid>>| {
            ids.unwrap_or_default().into_iter().map(|u| JobId::from_bytes(u.into_bytes())).collect()
        };
        if let Some(first) = rows.first() {
            taken.ending = ids(first.try_get(JOB_COLUMNS + 5)?);
            taken.again = ids(first.try_get(JOB_COLUMNS + 6)?);
        }
        for row in &rows {
            if row.try_get::<_, Option<Uuid>>(0)?.is_none() {
                continue;
            }
            let job = row::job(row)?;
            if !row.try_get::<_, bool>(JOB_COLUMNS + 3)? {
                taken.lost.push(job.id);
                continue;
            }
            let due_at = row.try_get::<_, Ts>(JOB_COLUMNS + 4)?.0;
            let (facts, payload) = first_event(row)?;
            taken.claimed.push((self.claimed_with(job, claim, facts, payload).await?, due_at));
        }
        Ok(taken)
    }

    /// A held job with everything its holder needs.
    pub(crate) async fn claimed(&self, job: Job, claim: &Claim) -> Tried<Claimed> {
        match self.created(job.id).await? {
            Some((facts, payload)) => self.claimed_with(job, claim, facts, payload).await,
            None => Err(Failure::Unreadable(format!("job {} has no first event", job.id))),
        }
    }

    async fn claimed_with(
        &self,
        job: Job,
        claim: &Claim,
        facts: Facts,
        payload: Option<Payload>,
    ) -> Tried<Claimed> {
        let metadata = match job.meta_version {
            None => Metadata::new(),
            Some(1) => facts.metadata.clone(),
            Some(_) => self.metadata(&job).await?,
        };
        // A job that was only created and claimed has nothing on record.
        let (steps_recorded, wake) = if job.version <= 2 {
            (0, None)
        } else {
            let record = step::recorded(&self.remembered(job.id).await?, job.steps_from);
            let ended = record.steps.iter().filter(|s| matches!(s.state, Progressed::Ended { .. })).count();
            (ended as i64, self.wake(&job).await?)
        };
        Ok(Claimed {
            lease: Lease {
                job: job.id,
                attempt: job.attempt,
                token: claim.secret.token(job.id, job.attempt),
                worker: claim.worker.clone(),
                expires_at: job.lease_expires_at.unwrap_or(job.updated_at),
            },
            checkpoint: self.pointed(job.id, job.checkpoint_version).await?.and_then(|e| e.payload),
            facts,
            payload,
            metadata,
            wake,
            steps_recorded,
            job,
        })
    }

    async fn wake(&self, job: &Job) -> Tried<Option<Wake>> {
        let Some(waiting) = self.pointed(job.id, job.wait_version).await? else { return Ok(None) };
        let ended_by = self.pointed(job.id, job.wake_version).await?;
        Ok(step::wake(&waiting, ended_by.as_ref()))
    }
}

/// Facts and payload, from the columns behind the row's own.
fn first_event(row: &Row) -> Tried<(Facts, Option<Payload>)> {
    let mut c = Columns::new(row, JOB_COLUMNS);
    let what = What::read("job_created", c.get::<Option<&str>>()?)?;
    let is_json: Option<bool> = c.get()?;
    let payload: Option<Vec<u8>> = c.get()?;
    let What::JobCreated(facts) = what else {
        return Err(Failure::Unreadable("the first event is not job_created".into()));
    };
    Ok((*facts, payload.map(|bytes| Payload::stored(bytes, is_json.unwrap_or(false)))))
}
